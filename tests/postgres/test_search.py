"""Search on Postgres answers as on SQLite: the same entries in the same order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sams_conformance.postgres_server import Database
from sams_core import Backend, MemoryBackend, SQLiteBackend
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


_OLD = {3: "the billing deployment runs on Thursday", 4: "deployment that nobody finds"}
_OFTEN = {"billing": 1.1, "deployment": 1, "invoice": 7, "thursday": 40, "rollback": 150}


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Backend, Backend]]:
    """The same 2,400 entries in a database and in memory, more than are ranked."""
    database, memory = Database(str(tmp_path_factory.mktemp("flooded"))), MemoryBackend()
    database.create()
    entries = [
        _entry(n, "d", _OLD[n])
        if n in _OLD
        else _entry(
            n,
            f"an entry{' on tax' * (n % 4)}",
            " ".join(
                [w * (n > 10 and n * 31 % m < 1) for w, m in _OFTEN.items()] + ["x"] * (n % 9)
            ),
        )
        for n in range(2_400)
    ]
    with ExitStack() as stack:
        postgres = Store(database, stack).backend("owner")
        # In one transaction: nobody waits for each.
        postgres._pool.transaction(
            lambda db: [postgres._publish(db, ACME, entry, 0) for entry in entries]
        )
        for entry in entries:
            memory.publish(ACME, entry, 0)
        yield postgres, memory
    database.drop()


def test_only_the_newest_hits_are_ranked_and_several_terms_find_older_ones(
    flooded: tuple[Backend, Backend],
) -> None:
    """An old answer with several telling terms isn't hidden by a flood with one common word."""
    for backend in flooded:
        found = backend.search(ACME, ACME, False, "deployment", 2_300)
        assert len(found) == 2_000
        assert "p0004" not in {row.path for row in found}
        found = backend.search(ACME, ACME, False, "which billing deployment runs on a thursday?", 5)
        assert "p0003" in {row.path for row in found}


@pytest.mark.parametrize(
    "query",
    [
        "billing",
        "deployment invoice",
        "billing deployment",
        "tax on thursday",
        "rollback?",
        "which invoice has a thursday rollback",
    ],
)
def test_a_flooded_containers_answers_come_in_the_same_order(
    flooded: tuple[Backend, Backend], query: str
) -> None:
    """Also of terms that more entries hold than are counted."""
    here, there = (
        [row.path for row in backend.search(ACME, ACME, False, query, 30)] for backend in flooded
    )
    assert here == there
    assert len(here) > 10


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
