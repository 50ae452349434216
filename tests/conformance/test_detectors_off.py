"""An adapter with one of its detectors off fails the ids that this detector serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTHING, NO_FINDING = "lambda *a, **k: None", "lambda *a, **k: []"
YES, NO = "lambda *a, **k: True", "lambda *a, **k: False"
# The calls that a session's model made: every one there is.
ALL_PLANNED = "lambda family, all=type('All', (dict,), {'__contains__': lambda *a: True})(): all"

# Adapter, what is off, what stands in its place, and the ids that must fail. Where two detectors cover
# one another, one alone is missed only by what the other can't see.
OFF: list[tuple[str, str, dict[str, str], set[str]]] = [
    (
        "langchain",
        "the judging of a turn",
        {"turns.begin": NOTHING},
        {"A6"},
    ),
    ("langchain", "start events", {"observe.begin": NOTHING}, {"A3", "A4"}),
    (
        "langchain",
        "start events and the judging of a turn",
        {"observe.begin": NOTHING, "turns.begin": NOTHING},
        {"A3", "A4", "A5", "A6", "A7", "A9", "A10", "A25"},
    ),
    (
        "langchain",
        "the scan of the model's input and output",
        {"slots.foreign": NO_FINDING, "observe.foreign": NO_FINDING},
        {"A13", "A14"},
    ),
    (
        "langchain",
        "the look at histories",
        {"history.own": YES, "history.strange": NO},
        {"A11", "A12"},
    ),
    (
        "langchain",
        "the refusal of shadows",
        {"observe.refuse_shadow": NOTHING, "slots.refuse_shadow": NOTHING},
        {"A8"},
    ),
    ("langchain", "the context block", {"slots._with_block": "lambda r, b: r"}, {"A17"}),
    ("llamaindex", "the judging of a turn", {"turn.judge": NOTHING}, {"A6"}),
    ("llamaindex", "spans", {"observe.begin": NOTHING}, {"A3", "A4"}),
    (
        "llamaindex",
        "spans and the judging of a turn",
        {"observe.begin": NOTHING, "turn.judge": NOTHING},
        {"A3", "A4", "A5", "A6", "A7", "A9", "A10", "A25"},
    ),
    ("llamaindex", "the scan of answers", {"model.answer": NO_FINDING}, {"A13"}),
    ("llamaindex", "the scan of requests", {"model.request": NO_FINDING}, {"A12", "A14"}),
    ("llamaindex", "what servers describe", {"model.described": NO_FINDING}, {"A23"}),
    ("llamaindex", "the refusal of shadows", {"steps.refuse_shadow": NOTHING}, {"A8"}),
    (
        "openai-agents",
        "the judging of an answer",
        {"observe.scan_output": NO_FINDING},
        {"A6", "A13"},
    ),
    (
        "openai-agents",
        "the judging of tools, by name and when they start",
        {"inventory.judge_tool": NOTHING},
        {"A3", "A5", "A6", "A7", "A9", "A10", "A25"},
    ),
    (
        "openai-agents",
        "hooks of agents that are tools",
        {"hooks.attach": NOTHING, "slots.attach": NOTHING},
        {"A9"},
    ),
    ("openai-agents", "the scan of requests", {"observe.scan_input": NO_FINDING}, {"A14"}),
    (
        "openai-agents",
        "the look at what a run goes on with",
        {
            "restored.Restored.findings": NO_FINDING,
            "observe.scan_input": NO_FINDING,
            "observe.calls_of": ALL_PLANNED,
        },
        {"A11", "A12"},
    ),
    ("openai-agents", "what servers describe", {"inventory.offered": NO_FINDING}, {"A23"}),
    (
        "openai-agents",
        "the refusal of shadows",
        {"inventory.refuse_shadow": NOTHING, "observe.refuse_shadow": NOTHING},
        {"A8"},
    ),
    (
        "openai-agents",
        "the context block",
        {"slots.off_loop": "AsyncMock(return_value='')"},
        {"A17"},
    ),
    ("openai-agents", "the marks of wrapped tools", {"wrap.abegin_call": "AsyncMock()"}, {"A21"}),
    ("openai-agents", "the tie of a call to its run", {"tools.observed_run": NOTHING}, {"A18"}),
]


def run_without(tmp_path: Path, word: str, off: dict[str, str], ids: set[str]) -> set[str]:
    """Run the kit on the adapter with its parts replaced, in its new processes too."""
    package = f"sams_{word.replace('-', '_')}"
    (tmp_path / "broken_driver.py").write_text(
        "import importlib\n"
        "from unittest.mock import AsyncMock, patch\n"
        "def driver():\n"
        f"    testing = importlib.import_module('{package}.testing')\n"
        + "".join(f"    patch('{package}.{at}', {new}).start()\n" for at, new in off.items())
        + "    return testing.driver()\n"
    )
    asked = [part for id in sorted(ids) for part in ("--id", id)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sams_core.cli", "conformance", "--json"),
            *("--adapter", "broken_driver:driver", *asked),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 1, done.stderr[-2_000:]
    report = json.loads(done.stdout)
    assert not report["passed"]
    return {test["id"] for test in report["tests"] if test["status"] == "failed"}


@pytest.mark.slow
@pytest.mark.parametrize(("word", "what", "off", "ids"), OFF, ids=[f"{o[0]}: {o[1]}" for o in OFF])
def test_a_detector_that_is_off_is_missed(
    word: str, what: str, off: dict[str, str], ids: set[str], tmp_path: Path
) -> None:
    assert run_without(tmp_path, word, off, ids) == ids
