"""Each adapter passes the A-series in every mode of its framework, as the command says."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from sams_conformance.a.ids import MANDATORY, TITLES

WORDS = sorted(each.name for each in entry_points(group="sams.adapters"))
# What no scenario can need of a framework, because it has no such thing.
LEFT_OUT = {"langchain": {"A23"}, "llamaindex": set(), "openai-agents": {"A4"}}


@pytest.mark.parametrize("word", WORDS)
def test_an_adapter_is_conformant(word: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sams_core.cli", "conformance", "--adapter", word, "--json"],
        capture_output=True,
        text=True,
        timeout=500,
    )
    report = json.loads(done.stdout)
    failed = [(t["name"], t["detail"]) for t in report["tests"] if t["status"] == "failed"]
    assert not failed
    assert done.returncode == 0
    assert report["conformant"] is True
    assert report["missing"] == []
    proved = {id for id, found in report["ids"].items() if found["proved"]}
    assert proved == TITLES.keys() - LEFT_OUT[word]
    assert proved >= set(MANDATORY)
