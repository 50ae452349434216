"""The example does what its text says, with and without a key, offline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "llamaindex_taint_sources.py"


@pytest.mark.parametrize("key", ["", "sk-none"], ids=["without a key", "a key and no package"])
def test_what_was_retrieved_waits_tainted_for_the_owner(key: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OPENAI_API_KEY": key},
    )
    assert ran.returncode == 0, ran.stderr
    agent, reader, waiting, because = ran.stdout.splitlines()
    assert agent == "agent: noted"
    assert reader == "wrapped: False -> 1 read: True"
    assert waiting == "waiting: notes/invoices tainted"
    assert "tool mailbox" in because
    assert "retriever VectorIndexRetriever" in because


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 80
