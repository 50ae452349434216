"""Search on Postgres answers as on SQLite: the same entries in the same order."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg

from sams_core import SQLiteBackend
from sams_core.backends.postgres.words import asked
from sams_core.records import Entry, Source

from .conftest import ACME, Store

DATA = json.loads((Path(__file__).parents[1] / "search" / "pairs.json").read_text("utf-8"))
PAIRS = [(lang, *pair) for lang, found in DATA["pairs"].items() for pair in found]
ROWS = [pair[2:] for pair in PAIRS] + [tuple(row) for row in DATA["distractors"]]


def _entry(number: int, description: str, content: str, *, labelled: bool = False) -> Entry:
    sources = (Source("tool", "t", None, "now"),) if labelled else ()
    return Entry(
        ACME,
        f"p{number:04}",
        0,
        description,
        content,
        labelled,
        sources,
        "",
        "olga",
        None,
        "active",
    )


def test_every_question_finds_the_same_entries_in_the_same_order(
    store: Store, sqlite: SQLiteBackend
) -> None:
    postgres = store.backend("owner")
    for number, (_, description, content) in enumerate(ROWS):
        entry = _entry(number, description, content)
        for backend in (postgres, sqlite):
            backend.publish(ACME, entry, 0)
    for pair in PAIRS:
        found = [
            [(row.path, row.text) for row in backend.search(ACME, ACME, False, pair[1], 20)]
            for backend in (postgres, sqlite)
        ]
        assert found[0] == found[1], pair[1]
        assert found[0]


def test_only_the_newest_hits_are_ranked_and_several_terms_find_older_ones(
    store: Store, sqlite: SQLiteBackend
) -> None:
    """An old answer with several telling terms isn't hidden by a flood with one common word."""
    postgres = store.backend("owner")
    for number in range(2_300):
        content = "deployment noise"
        if number == 3:
            content = "the billing deployment runs on Thursday"
        if number == 4:
            content = "deployment that nobody finds"
        entry = _entry(number, "d", content)
        sqlite.publish(ACME, entry, 0)
        if number in (3, 4) or number > 295:
            postgres.publish(ACME, entry, 0)
    for backend in (postgres, sqlite):
        found = backend.search(ACME, ACME, False, "when does the billing deployment run?", 5)
        assert found[0].path == "p0003"
        assert len(found) == 5


def test_the_index_answers_and_the_container_isnt_walked(store: Store) -> None:
    """A rare term in a large container is found through the index of terms."""
    prefix = asked(ACME, ACME, False, "rare")["terms"][0].removesuffix("rare")
    with psycopg.connect(store.database.admin, autocommit=True) as db:
        db.execute(
            "INSERT INTO sams.lookup (container, scope, path, labelled, length, counts) "
            "SELECT %(c)s, %(c)s, 'p' || n, false, 3, jsonb_build_object(%(p)s || 'common', 1, "
            "%(p)s || CASE WHEN n %% 2000 = 0 THEN 'rare' ELSE 'other' || n END, 1) "
            "FROM generate_series(1, 20000) n",
            {"c": ACME, "p": prefix},
        )
        db.execute("VACUUM ANALYZE sams.lookup")
        plan = db.execute(
            "EXPLAIN SELECT seq FROM sams.lookup l WHERE container = %s AND scope = %s "
            "AND labelled = false AND l.counts ?| %s ORDER BY seq DESC LIMIT 2000",
            (ACME, ACME, [f"{prefix}rare"]),
        ).fetchall()
        assert "lookup_terms" in "\n".join(row[0] for row in plan)
    assert store.session().memory_search("assigned", "rare").items == ()  # no versions of them


def test_a_notes_and_an_entrys_hits_stay_apart(store: Store) -> None:
    session = store.session()
    session.memory_write("run", "n", "zanzibar note", "d")
    other = store.session("s2")
    assert not other.memory_search("run", "zanzibar").items
    assert [x.path for x in session.memory_search("run", "zanzibar").items] == ["n"]
    session.memory_write("run", "n", "replaced", "d", 1)
    assert not session.memory_search("run", "zanzibar").items
    session.mark_tainted("a page")
    session.memory_write("run", "n", "zanzibar again", "d", 2)
    (found,) = session.memory_search("run", "zanzibar").items
    assert found.labelled


def test_texts_with_nul_and_its_escape_come_back_as_they_were(store: Store) -> None:
    session, owner = store.session(), store.owner()
    text = "a\0b\x1ac\x1aZ\0\x1aS"
    session.memory_write("run", "n", text, "d\0")
    assert session.memory_read("run", "n").content == text
    session.mark_tainted("nul \0 and \x1a", origin="\0")
    assert session.sources[0].name == "nul \0 and \x1a"
    session.memory_write("assigned", "p", text, "d\x1a")
    (change,) = owner.changes(ACME)
    assert (change.content, change.description) == (text, "d\x1a")
    entry = owner.accept(ACME, change.id, change.digest)
    assert owner.get(ACME, "p").content == text
    assert entry.digest == owner.get(ACME, "p").digest == owner.get(ACME, "p").sealed().digest
