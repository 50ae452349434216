"""An adapter with one of its detectors off fails the ids that this detector serves, and no others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from sams_conformance import run_adapter
from sams_conformance.a.catalog import scenarios
from sams_conformance.a.scenario import Run, Scenario


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing where the adapter would mark or refuse."""


def none_found(*_: Any, **__: Any) -> list[Any]:
    """Find nothing where the adapter would."""
    return []


def same(request: Any, *_: Any) -> Any:
    """Return a request as it came."""
    return request


def yes(*_: Any, **__: Any) -> bool:
    return True


def no(*_: Any, **__: Any) -> bool:
    return False


Off = dict[str, Callable[..., Any]]

# Adapter, what is off, where that is, and the ids that must fail; the second half of a name with "and"
# is there because two detectors cover one another.
BROKEN: list[tuple[str, str, Off, set[str]]] = [
    (
        "langchain",
        "the judging of a turn",
        {"sams_langchain.slots.judge": nothing, "sams_langchain.tools.judge": nothing},
        {"A6"},
    ),
    ("langchain", "start events", {"sams_langchain.observe.begin": nothing}, {"A3", "A4"}),
    (
        "langchain",
        "start events and the judging of a turn",
        {
            "sams_langchain.observe.begin": nothing,
            "sams_langchain.slots.judge": nothing,
            "sams_langchain.tools.judge": nothing,
        },
        {"A3", "A4", "A5", "A6", "A7", "A9", "A10"},
    ),
    (
        "langchain",
        "the scan of the model's input and output",
        {"sams_langchain.slots.foreign": none_found, "sams_langchain.observe.foreign": none_found},
        {"A13", "A14"},
    ),
    (
        "langchain",
        "the look at histories",
        {"sams_langchain.history.own": yes, "sams_langchain.history.strange": no},
        {"A12"},
    ),
    (
        "langchain",
        "the refusal of shadows",
        {
            "sams_langchain.observe.refuse_shadow": nothing,
            "sams_langchain.slots.refuse_shadow": nothing,
        },
        {"A8"},
    ),
    ("langchain", "the context block", {"sams_langchain.slots._with_block": same}, {"A17"}),
]


def first_mode_only(ids: set[str]) -> list[Scenario]:
    """Return the scenarios of these ids that need no second process, where nothing would be off."""
    return [
        story
        for story in scenarios()
        if story.id in ids
        and not any(isinstance(run, Run) and run.new_process for run in story.runs)
    ]


@pytest.mark.filterwarnings("ignore")  # of the frameworks about themselves
@pytest.mark.parametrize(("word", "what", "off", "ids"), BROKEN)
def test_a_detector_that_is_off_is_missed(word: str, what: str, off: Off, ids: set[str]) -> None:
    logging.getLogger("sams").setLevel(logging.WARNING)
    run_adapter(word, ["A1"], chosen=[])  # imports the adapter, so that its parts can be replaced
    patches = [patch(place, instead) for place, instead in off.items()]
    for each in patches:
        each.start()
    try:
        report = run_adapter(word, ids, chosen=first_mode_only(ids))
    finally:
        for each in patches:
            each.stop()
    assert {o.id for o in report.outcomes if o.status == "failed"} == ids, report.to_text()
    assert not report.passed
