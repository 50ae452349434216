"""A common term, a flood or a hostile text costs a bounded amount; counted, not timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sams_core.search import MAX_RANKED, match, parameters, search_sql, terms
from sams_core.search.query import MAX_TERMS, match_several
from sams_core.search.terms import pieces


def steps(index: Any, question: str) -> int:
    """Return how many hundreds of virtual-machine steps the engine takes for a question."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    index.db.set_progress_handler(tick, 100)
    index.ask(question)
    index.db.set_progress_handler(None, 0)
    return count


def test_a_common_word_ranks_no_more_rows_in_a_store_twice_as_large(index: Any) -> None:
    rows = [(f"a/{at}", "note", f"deployment number {at}") for at in range(10_000)]
    index.fill(rows)
    once = steps(index, "which deployment?")
    index.fill(rows, first=10_001)
    assert steps(index, "which deployment?") <= 1.05 * once


def test_at_most_the_newest_rows_are_ranked(index: Any) -> None:
    index.fill([("a", "x", "common") for _ in range(3 * MAX_RANKED)])
    wanted = parameters("common", 1_000_000) or {}
    found = [row[0] for row in index.db.execute(search_sql("found"), wanted)]
    assert sorted(found) == list(range(2 * MAX_RANKED + 1, 3 * MAX_RANKED + 1))


def test_a_flood_with_one_of_the_words_cannot_hide_an_old_answer(index: Any) -> None:
    index.fill([("ops/billing", "Billing", "The billing deployment runs every Friday")])
    index.fill([("a", "x", f"deployment {at}") for at in range(3 * MAX_RANKED)], first=2)
    assert index.ask("when does the billing deployment run?")[0] == 1
    wanted = parameters("when does the billing deployment run?", 1_000_000) or {}
    found = index.db.execute(search_sql("found"), wanted).fetchall()
    assert len(found) == MAX_RANKED + 1


def test_a_flood_in_a_script_without_blanks_cannot_hide_an_old_answer(index: Any) -> None:
    index.fill([("zh", "计费", "计费服务每周五部署")])
    index.fill([("a", "部署", f"部署的服务 {at}") for at in range(3 * MAX_RANKED)], first=2)
    assert index.ask("计费服务什么时候部署？")[0] == 1


def test_the_answer_is_the_same_however_often_it_is_asked(index: Any) -> None:
    index.fill([("a", f"note {at % 7}", f"deployment {at % 13}") for at in range(500)])
    assert index.ask("deployment note 3", 50) == index.ask("deployment note 3", 50)


@pytest.mark.parametrize("word", ["word{} ", "{}字", "слово{} ", "a{}.", "x{}@", "计费{}服 "])
def test_a_long_query_is_capped(word: str) -> None:
    expression = match("".join(word.format(at) for at in range(5_000)))
    assert expression is not None
    assert expression.count(" OR ") < 4 * MAX_TERMS
    assert match_several("".join(word.format(at) for at in range(5_000))).count('"') < 200


HOSTILE: list[Callable[[int], str]] = [
    lambda n: "a" * n,
    lambda n: "1." * (n // 2),
    lambda n: "a-" * (n // 2),
    lambda n: "aB" * (n // 2),
    lambda n: "\u0301\u0323" * (n // 2),
    lambda n: "\ufdfa" * n,
    lambda n: "の" * n,
    lambda n: "\ud800\x00" * (n // 2),
]


@pytest.mark.parametrize("make", HOSTILE)
def test_terms_grow_with_the_text_and_no_faster(make: Callable[[int], str]) -> None:
    small, large = terms(make(8_192)), terms(make(65_536))
    assert len(large) <= 8.1 * len(small) + 100
    assert len(large) <= 8 * 65_536
    assert max(map(len, pieces(make(65_536))), default=0) <= 256
    assert max(map(len, large.split()), default=0) <= 64
