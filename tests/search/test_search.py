"""Questions as people and models ask them find the entry that answers, in any script."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

DATA = json.loads((Path(__file__).parent / "pairs.json").read_text("utf-8"))
PAIRS = [(lang, *pair) for lang, found in DATA["pairs"].items() for pair in found]
ROWS = [pair[2:] for pair in PAIRS] + [tuple(row) for row in DATA["distractors"]]


def recall(index: Any, rows: list[Any]) -> dict[str, list[int]]:
    index.fill(rows)
    hits: dict[str, list[int]] = {}
    for at, pair in enumerate(PAIRS, 1):
        got = index.ask(pair[1])
        score = hits.setdefault(pair[0], [0, 0, 0])
        score[0] += at in got
        score[1] += got[:1] == [at]
        score[2] += 1
        if at not in got:
            print(f"  missed: {pair[1]}")
    for lang, (five, one, asked) in hits.items():
        print(f"{lang:12} recall@5 {five:3}/{asked:3}   first {one:3}/{asked:3}")
    five, one, asked = map(sum, zip(*hits.values(), strict=True))
    print(f"{'all':12} recall@5 {five:3}/{asked:3}   first {one:3}/{asked:3}")
    return hits


def test_the_corpus_is_large_and_varied_enough_to_mean_something() -> None:
    assert len(PAIRS) >= 150
    assert len(DATA["pairs"]) >= 12
    assert len(DATA["distractors"]) >= 100
    assert len({pair[2] for pair in PAIRS}) == len(PAIRS)


def test_questions_in_every_language_find_their_entry_among_the_first_five(index: Any) -> None:
    hits = recall(index, ROWS)
    assert all(five >= 0.8 * asked for five, _, asked in hits.values())
    assert sum(h[0] for h in hits.values()) >= 0.9 * len(PAIRS)


def test_entries_made_of_the_same_words_do_not_hide_the_answer(index: Any) -> None:
    """Sixty entries a language, each of words drawn from its questions and answers."""
    dice = random.Random(1)
    noise = []
    for found in DATA["pairs"].values():
        words: list[str] = []
        for question, _, *texts in found:
            for word in " ".join((question, *texts)).split():
                words += re.findall(".{1,4}", word) if max(word) > "\u0e00" else [word]
        for _ in range(60):
            noise.append(("n", " ".join(dice.sample(words, 3)), " ".join(dice.sample(words, 8))))
    hits = recall(index, ROWS + noise)
    assert sum(h[0] for h in hits.values()) >= 0.9 * len(PAIRS)


def test_the_entry_whose_title_answers_comes_first(index: Any) -> None:
    filler = "alpha beta gamma delta"
    index.fill(
        [
            ("a", "Weekly notes", f"Somebody asked about invoice rounding. {filler}"),
            ("b", "Invoice rounding", f"Half a cent goes up. {filler}"),
            ("c", "Weekly notes", f"Another invoice was sent. {filler}"),
            ("d", "Other", filler),
            ("e", "Other", filler),
            ("f", "Other", filler),
        ]
    )
    assert index.ask("how does invoice rounding work?")[:2] == [2, 1]


def test_an_entry_with_more_of_the_terms_comes_before_one_with_many_of_one(index: Any) -> None:
    index.fill(
        [
            ("a", "x", "backup of the ledger is kept in Oslo"),
            ("b", "x", "backup backup backup backup backup"),
            *[("c", "x", f"unrelated {at}") for at in range(8)],
        ]
    )
    assert index.ask("where is the ledger backup?")[0] == 1


def test_equal_scores_show_the_newest_first(index: Any) -> None:
    index.fill([("a", "same", "same text")] * 4)
    assert index.ask("text") == [4, 3, 2, 1]


def test_stop_words_never_empty_a_query(index: Any) -> None:
    index.fill([("a", "x", "The Who played here"), ("b", "x", "nothing")])
    assert index.ask("the who") == [1]
    assert index.ask("who") == [1]


@pytest.mark.parametrize("query", ["", "   ", "?!", "\x00", "🚀", "\ud800", "…", "-- ++"])
def test_a_query_without_anything_to_search_finds_nothing(index: Any, query: str) -> None:
    index.fill([("a", "x", "text")])
    assert index.ask(query) == []


@pytest.mark.parametrize(
    "word", ["计费服务", "计费", "费", "費用", "サーバ", "결제", "เงิน", "ແລະວ່າ"]
)
def test_words_of_one_to_four_characters_are_found_inside_unspaced_text(
    index: Any, word: str
) -> None:
    index.fill(
        [
            ("a", "x", f"漢{word}字"),
            ("b", "x", f"いま{word}です"),
            ("c", "x", f"가{word}나"),
            ("d", "x", f"กข{word}คง"),
            ("e", "x", "no such thing"),
        ]
    )
    assert sorted(index.ask(word)) == [1, 2, 3, 4]


def test_japanese_verbs_find_their_other_forms(index: Any) -> None:
    index.fill([("a", "x", "窓を閉めてください"), ("b", "x", "窓口です"), ("c", "x", "新旧")])
    assert index.ask("いつ閉まりますか？") == [1]


@pytest.mark.parametrize(
    "spelling",
    [
        "getUserName",
        "get_user_name",
        "get-user-name",
        "GET_USER_NAME",
        "GetUserName",
        "getusername",
    ],
)
def test_an_identifier_is_found_in_every_spelling(index: Any, spelling: str) -> None:
    index.fill([("a", "x", "call getUserName() first"), ("b", "x", "user"), ("c", "x", "z")])
    assert index.ask(spelling)[0] == 1


@pytest.mark.parametrize("part", ["2.3.1", "2.3", "v2.3.1", "client 2.3.1"])
def test_a_version_is_found_by_its_leading_numbers(index: Any, part: str) -> None:
    index.fill([("a", "x", "pin v2.3.1"), ("b", "x", "pin 1.3.2"), ("c", "x", "3.2 and 12.3.1")])
    assert index.ask(part)[0] == 1


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("ＡＰＩ", "api"), ("CAFE", "café"), ("Straße", "STRASSE"), ("İzmir", "izmir"),
        ("ё", "Ё"), ("٤٢", "42"), ("ﬁle", "file"), ("ｻｰﾊﾞｰ", "サーバ"),
        ("한글", "\u1112\u1161\u11ab글"),
        ("so\u00adft", "soft"), ("e\u0301tat", "état"), ("C++", "c++ code"), ("Ｃ#", "C# code"),
    ],
)  # fmt: skip
def test_spellings_that_look_alike_are_one_word(index: Any, query: str, text: str) -> None:
    index.fill([("a", "x", text), ("b", "x", "other")])
    assert index.ask(query) == [1]


def test_what_was_inserted_can_be_deleted_with_the_same_values(index: Any) -> None:
    from sams_core.search import terms

    index.fill([("a/b", "Über", "naïve 计费 текст"), ("c", "d", "e")])
    values = [terms(text) for text in ("a/b", "Über", "naïve 计费 текст")]
    index.db.execute(
        "INSERT INTO found(found, rowid, path, description, content) VALUES ('delete', 1, ?, ?, ?)",
        values,
    )
    assert index.ask("计费 naïve текст") == []
    index.db.execute("INSERT INTO found(found) VALUES ('integrity-check')")


def test_memory_and_disk_give_the_same_scores(index: Any, tmp_path: Path) -> None:
    from sams_core.search import create_sql, parameters, search_sql, terms

    disk = sqlite3.connect(tmp_path / "index.db")
    disk.execute(create_sql("found"))
    index.fill(ROWS)
    for at, row in enumerate(ROWS, 1):
        with disk:
            disk.execute(
                "INSERT INTO found(rowid, path, description, content) VALUES (?, ?, ?, ?)",
                (at, *map(terms, row)),
            )
    disk.execute("INSERT INTO found(found) VALUES ('optimize')")
    for pair in PAIRS:
        wanted = parameters(pair[1], 20) or {}
        here = index.db.execute(search_sql("found"), wanted).fetchall()
        assert disk.execute(search_sql("found"), wanted).fetchall() == here
    disk.close()
