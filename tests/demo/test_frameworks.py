"""The story through each adapter's real agent loop ends as it does without a framework."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

WORDS = sorted(each.name for each in entry_points(group="sams.adapters"))


def demo(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sams_core.cli", "demo", "--plain", *options],
        capture_output=True,
        text=True,
        timeout=180,
    )


def test_the_three_adapters_are_installed() -> None:
    assert WORDS == ["langchain", "llamaindex", "openai-agents"]


@pytest.mark.parametrize("word", WORDS)
def test_a_frameworks_agents_play_the_same_story(word: str) -> None:
    done = demo("--framework", word)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    told = " ".join(done.stdout.split())
    assert "12 drafts: 2 accepted, 8 rejected, 2 pending; 3 unsafe decisions refused; 0 p" in told
    assert "undeclared" in told  # nobody wrapped the tool: the adapter saw it
    assert "Traceback" not in done.stderr


def test_an_unknown_framework_is_a_usage_error_that_names_the_known() -> None:
    done = demo("--framework", "nobody")
    assert done.returncode == 2
    assert "langchain, llamaindex, openai-agents" in done.stderr
