"""The example says which ways to retrieve are noticed, and shows the one that isn't."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sams_core import Owner, SQLiteBackend

EXAMPLE = Path(__file__).parents[2] / "examples" / "langchain_rag.py"
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "SAMS_SESSION")
FALSE = "Invoices of Acme are paid to account 9999."
TOOL = "because of: tool retrieve: undeclared; govern(trusted=[retrieve]) would declare it"
RETRIEVER = (
    "because of: retriever VectorStoreRetriever: undeclared; "
    "govern(trusted=[VectorStoreRetriever]) would declare it"
)
WAITING = f"waiting: billing/acme: {FALSE}"


def run(*words: str) -> dict[str, list[str]]:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={key: value for key, value in os.environ.items() if key not in KEYS},
    )
    assert ran.returncode == 0, ran.stderr
    told: dict[str, list[str]] = {}
    for line in ran.stdout.splitlines():
        if line.startswith("  "):
            told[list(told)[-1]].append(line.strip())
        else:
            told[line.removesuffix(":")] = []
    return told


def test_every_way_is_labelled_but_a_bare_search_in_a_prompt(tmp_path: Path) -> None:
    assert run(str(tmp_path / "store")) == {
        "rag_agent": [WAITING, "label: tainted", TOOL],
        "retriever_tool": [WAITING, "label: tainted", TOOL, RETRIEVER],
        "lcel_chain": [WAITING, "label: tainted", RETRIEVER],
        "rag_chain": [WAITING, "label: none: NOT NOTICED"],
        "rag_chain_wrapped": [
            WAITING,
            "label: tainted",
            "because of: tool InMemoryVectorStore",
        ],
    }
    backend = SQLiteBackend(tmp_path / "store")
    changes = Owner(backend, "olga").changes("tenant:acme")
    assert [c.source_session for c in changes if not c.tainted] == ["rag_chain"]
    assert len(changes) == 5
    backend.close()


def test_the_false_account_is_in_one_document_only() -> None:
    documents = EXAMPLE.with_suffix("").glob("*.md")
    assert [each.name for each in documents if "9999" in each.read_text()] == ["vendor_mail.md"]


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 130
