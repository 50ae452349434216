"""What a harness may vouch for, and how a past call of it is known again."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sams_core import InvalidArguments
from sams_core.govern import Trusted


class Tool:
    name = "lookup"


@pytest.mark.parametrize("given", ["lookup", ["lookup"], [b"lookup"], [None], {"lookup": Tool()}])
def test_a_name_vouches_for_nothing(given: Any) -> None:
    with pytest.raises(InvalidArguments, match="trusted: "):
        Trusted(given)


def test_a_class_is_refused_for_it_would_vouch_for_none_of_its_objects() -> None:
    with pytest.raises(InvalidArguments, match="not its class"):
        Trusted([Tool])
    tool = Tool()
    assert Trusted([tool]).covers(tool)
    assert not Trusted([tool]).covers(Tool())


def _closure() -> Callable[[], str]:
    def calc() -> str:
        return "42"

    return calc


@pytest.mark.parametrize(
    ("each", "name"),
    [
        (_closure(), "calc"),
        (SimpleNamespace(tool_name="go_to_b"), "go_to_b"),  # a hand-off
        (Tool(), "lookup"),
    ],
)
def test_a_past_call_is_known_by_the_name_that_a_model_was_given(each: object, name: str) -> None:
    assert Trusted([each]).named(name)
    assert not Trusted([each]).named("fetch")
