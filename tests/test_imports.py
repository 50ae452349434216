"""What importing the core brings with it."""

from __future__ import annotations

import subprocess
import sys

import sams_core

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
