"""Whatever a user or an attacker types is searched for, and never acts as query syntax."""

from __future__ import annotations

import re
import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sams_core.search import create_sql, match, parameters, search_sql, snippet, terms

ATTACKS = [
    '"', '""', '"""', "'", "\\", '" OR "', 'a" OR "b', "secret*", "sec* OR *", "NEAR(a b, 2)",
    "NEAR(", "content:secret", "{path content}:secret", "-content : secret", "- {path} : x",
    "^secret", "+", "a + b", "a AND b", "a OR b NOT c", "AND OR NOT", "NOT", "NOT secret",
    "(", ")", "((((", "a) OR (b", "\x00", "a\x00b", '"\x00', "; DROP TABLE found; --",
    "found MATCH 'x'", ":any", "?1", "$limit", "@x", "%", "_", "__", "_secre", "\x1f",
    "path:\x1fx", "\ud800", "a\udfffb", "\u202e\u2066", "ＡＮＤ", "“secret”", "＂secret＂",
    "ＮＥＡＲ（a b）", "*" * 5000, '"' * 4999, "(" * 9000,
]  # fmt: skip
SHAPE = re.compile(r'"[^"\x00]+"(?: OR "[^"\x00]+")*')


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_raises_or_acts_as_syntax(index: Any, attack: str) -> None:
    index.fill([("p", "d", "secret"), ("q", "e", "unrelated"), ("r", "f", "another")])
    index.ask(attack)
    expression = match(attack)
    assert expression is None or SHAPE.fullmatch(expression)


def test_operators_are_words_and_not_operators(index: Any) -> None:
    index.fill([("p", "d", "alpha"), ("q", "e", "alpha beta"), ("r", "f", "near miss")])
    assert index.ask("alpha NOT beta") == [2, 1]
    assert sorted(index.ask("NEAR(alpha beta)")) == [1, 2, 3]
    assert index.ask("al*") == []
    assert sorted(index.ask("description:alpha")) == [1, 2]
    assert index.ask("^beta") == [2]


def test_no_text_makes_a_term_that_begins_with_two_underscores() -> None:
    """Backends may mark partitions with such a token."""
    for text in ("__p1", "_ _p1", "a__b", "__", "_\u0332_x", "＿＿p1", "‿‿x", "2__3", "\u2040_z"):
        assert not any(term.startswith("__") for term in terms(text).split())


def test_a_megabyte_of_text_is_answered(index: Any) -> None:
    index.fill([("p", "d", "billing")])
    assert index.ask("billing " + "x y z " * 200_000) == [1]
    assert len(match("billing " + "word " * 200_000) or "") < 5_000


@settings(max_examples=400, deadline=None)
@given(st.text(alphabet=st.characters(), max_size=80))
def test_fts5_accepts_every_expression_and_every_text(text: str) -> None:
    db = sqlite3.connect(":memory:")
    db.execute(create_sql("found"))
    db.execute("INSERT INTO found(rowid, path, description, content) VALUES (1, '', '', ?)",
               (terms(text),))  # fmt: skip
    wanted = parameters(text, 5)
    if wanted is not None:
        rows = [row[0] for row in db.execute(search_sql("found"), wanted)]
        assert rows == [1], "a text is found by itself"
    else:
        assert terms(text).split() == []


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from('ab"*:^-+(){}\x00 ANDORT_.\x1f\ud800é计ท้'), max_size=60))
def test_fts5_accepts_every_expression_made_of_syntax(text: str) -> None:
    expression = match(text)
    assert expression is None or SHAPE.fullmatch(expression)
    db = sqlite3.connect(":memory:")
    db.execute(create_sql("found"))
    if (wanted := parameters(text, 5)) is not None:
        assert db.execute(search_sql("found"), wanted).fetchall() == []


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(), max_size=400), st.text(max_size=30), st.integers(0, 200))
def test_a_snippet_is_one_bounded_line(text: str, query: str, width: int) -> None:
    line = snippet(text, query, width)
    assert len(line) <= width
    assert len(line.splitlines()) <= 1
