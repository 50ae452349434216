"""A connection that breaks at any message of any verb: a clear refusal, and one effect, not two."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from .conftest import Store
from .faults import VERBS, Cases, Proxy, hang_up, lose_answer, lose_request, struck

FAULTS = {fault.__name__: fault for fault in (lose_request, hang_up, lose_answer)}


@pytest.fixture
def cases(store: Store) -> Iterator[tuple[Cases, Proxy]]:
    proxy = Proxy(store.database._root)
    made = Cases(store, proxy)
    yield made, proxy
    made.disconnect()
    proxy.close()


def _strike_each_message(cases: Cases, proxy: Proxy, verb: str, fault: str, fresh: bool) -> int:
    for number in itertools.count(1):
        case = cases.case(verb, f"{verb}-{number}")
        if fresh:
            cases.disconnect()
        proxy.arm(number, FAULTS[fault])
        struck(case)
        if not proxy.broke:  # the call has fewer messages than that
            return number - 1
    raise AssertionError("unreachable")


@pytest.mark.parametrize(
    "fault", ["hang_up", "lose_answer", pytest.param("lose_request", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("verb", VERBS)
def test_a_call_broken_at_any_message_takes_effect_once(
    cases: tuple[Cases, Proxy], verb: str, fault: str
) -> None:
    assert _strike_each_message(*cases, verb, fault, fresh=False) >= 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_call_broken_while_it_connects_takes_effect_once(
    cases: tuple[Cases, Proxy], fault: str
) -> None:
    assert _strike_each_message(*cases, "note", fault, fresh=True) > 5
