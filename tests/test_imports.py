"""What importing the core brings with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sams_core
from sams_core.backends.postgres import grant

FRAMEWORKS = (
    "langchain",
    "langgraph",
    "llama_index",
    "agents",
    "openai",
    "mcp",
    "psycopg",
    "deepagents",
)


def test_importing_the_core_loads_no_framework_and_no_adapter() -> None:
    script = "import sams_core, sys; print('\\n'.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    roots = {name.partition(".")[0] for name in ran.stdout.split()}
    assert "sams_core" in roots
    assert not {root for root in roots if root.startswith(FRAMEWORKS)}
    assert not {root for root in roots if root.startswith("sams_") and root != "sams_core"}


VERBS = """
import sys
from sams_core import AgentSession, DreamerSession, Owner, PermissionDenied, open_backend
if sys.argv[1].startswith("postgres"):
    from sams_core import PostgresBackend
before = set(sys.modules)
backend = open_backend(sys.argv[1])
agent = AgentSession(backend, session_id="s", agent="bot", assigned="tenant:acme", user="insider",
                     observed="by-hand")
agent.memory_write("run", "n", "c", "AKIAIOSFODNN7EXAMPLE &quot;x&quot; %41%42 \\u0041 d3d3d3d3d3d3")
agent.memory_write("assigned", "note.md", "kaffee \u3042\u30a2\u6f22\u5b57 \u0e01", "d")
agent.tainting(len)("a page")
agent.memory_read("run", "n"), agent.memory_index("run"), agent.memory_search("assigned", "kaffee \u6f22")
job = DreamerSession(backend, job_id="j", scope="tenant:acme")
job.snapshot()
job.propose("note2.md", "c", "d", rationale="r", evidence=["run n"])
owner = Owner(backend, "olga")
for change in owner.changes("tenant:acme"):
    change.diff()
owner.accept("tenant:acme", change.id, change.digest, endorse="I read it")
agent.memory_search("assigned", "kaffee \u6f22")
try:
    agent.memory_write("org", "n", "c", "d")
except PermissionDenied:
    print("refused:", *sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize("scheme", ["memory", "sqlite", "postgres"])
def test_no_verb_imports_anything(
    scheme: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A child forked while another thread imports a module waits for that module for ever."""
    url = f"{scheme}:{tmp_path / 'store' if scheme == 'sqlite' else ''}"
    if scheme == "postgres":
        database = request.getfixturevalue("database")
        url = database.login("anybody")
        for role in ("agent", "dreamer", "owner"):
            grant(database.admin, database.login_name("anybody"), role, "tenant:acme", True)
    ran = subprocess.run([sys.executable, "-c", VERBS, url], capture_output=True, text=True)
    assert (ran.stderr, ran.stdout) == ("", "refused:\n")  # what follows was imported


def test_the_public_names_are_there() -> None:
    names = """AgentSession Owner DreamerSession SQLiteBackend MemoryBackend open_backend current_session
    tainting redact review_flags Redacted Change Entry Receipt Page Listing Source Flag Snapshot Limits
    SamsError PermissionDenied ScopeError VersionConflict ReviewMismatch NotFound LimitExceeded
    InvalidArguments NoSession SessionClosed StoreNeedsOwner TOOL_NAMES
    TextPolicy load_policy""".split()
    assert [name for name in names if not hasattr(sams_core, name)] == []


def test_every_error_is_a_sams_error_with_a_rule_of_its_own() -> None:
    from sams_core import errors

    kinds = [
        k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.SamsError)
    ]
    assert len({kind.rule for kind in kinds}) == len(kinds)
