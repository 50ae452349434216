"""What an operation on SQLite costs, counted: statements, commits, files synced. Never times.

Counts are of statements that our code sends; what the word index runs inside of one isn't counted.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sams_core import AgentSession, Limits, Owner, SQLiteBackend, scopes
from sams_core.backends.sqlite import connect, spool
from sams_core.records import Entry

Open = Callable[..., AgentSession]
ACME = "tenant:acme"
SMALL, LARGE = 10, 1_000


@dataclass(frozen=True)
class Cost:
    """What a call cost: statements by their first word, syncs and opened files of the queue."""

    statements: tuple[tuple[str, int], ...]
    synced: int
    listed: int
    opened: int

    @property
    def total(self) -> int:
        return sum(count for _, count in self.statements)

    def of(self, word: str) -> int:
        return dict(self.statements).get(word, 0)


class Meter:
    """Counts on every connection that is opened while it is in place."""

    def __init__(self) -> None:
        self.sql: list[str] = []
        self.calls: Counter[str] = Counter()

    def trace(self, sql: str) -> None:
        if not sql.startswith("--"):  # sent by a statement that is already counted
            self.sql.append(sql)

    def __call__(self, work: Callable[[], object]) -> Cost:
        self.sql.clear()
        self.calls.clear()
        work()
        words = Counter(sql.split(None, 1)[0].upper() for sql in self.sql)
        return Cost(
            tuple(sorted(words.items())),
            self.calls["fsync"],
            self.calls["listdir"],
            self.calls["read"],
        )


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    found = Meter()
    plain = connect._connect

    def traced(database: str, *, uri: bool) -> sqlite3.Connection:
        connection = plain(database, uri=uri)
        connection.set_trace_callback(found.trace)
        return connection

    def counted(owner: object, name: str, as_name: str) -> None:
        original = getattr(owner, name)

        def call(*args: object, **more: object) -> object:
            found.calls[as_name] += 1
            return original(*args, **more)

        monkeypatch.setattr(owner, name, call)

    monkeypatch.setattr(connect, "_connect", traced)
    counted(os, "fsync", "fsync")
    counted(os, "listdir", "listdir")
    counted(spool.Spool, "_bytes", "read")
    return found


def fill(base: Path, size: int, open_clean: Open) -> None:
    """Make a store of `size` entries, as many queued changes of other sessions, and a note."""
    backend = SQLiteBackend(base)
    curated, queue = backend._curated(ACME), backend._spool(ACME)
    db = curated._writer()
    with backend._pool.transaction(db):
        for number in range(size):
            curated._publish(db, entry(f"e/{number:05}"), 0)
    other = open_clean(backend, "other")
    other.memory_write("run", "n", "a note", "d")
    other.memory_write("assigned", "q/0", "queued text", "d")
    (first,) = backend.changes(ACME)
    for number in range(1, size):
        writer = f"other{number // 100}"
        queue.add(replace(first, id=f"{number:032x}", path=f"q/{number}", source_session=writer))
    backend.close()


class Store:
    """A session and an owner at work on a filled store."""

    def __init__(self, base: Path, size: int, open_clean: Open) -> None:
        self.backend = SQLiteBackend(base, Limits(agent_share=1.0))
        self.owner = Owner(self.backend, "olga")
        self.session = open_clean(self.backend)
        self.session.memory_read("assigned", "e/00001")  # connections are open from here on
        self.session.memory_write("run", "warm", "c", "d")
        self.session.memory_write("assigned", "warm", "c", "d")
        self.owner.write(ACME, "warm", "c", "d")
        # So old that the queue's list may be kept in memory, as in a store at rest.
        os.utime(self.backend.folders.store(ACME, "queue"), (1_000_000, 1_000_000))
        assert len(self.backend._spool(ACME).listing().names) == size + 1


def entry(path: str) -> Entry:
    return Entry(
        scope=ACME,
        path=path,
        version=0,
        description="a description",
        content=f"some words about {path} and more",
        tainted=False,
        sources=(),
        digest="",
        author="olga",
        source_session=None,
        status="active",
        date="2026-01-01T00:00:00.000000+00:00",
    )


@pytest.fixture(scope="module", params=[SMALL, LARGE], ids=lambda size: f"{size} entries")
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, int]:
    base = tmp_path_factory.mktemp("filled") / "store"
    values = {"agent": "bot", "assigned": ACME, "user": "insider", "observed": "by-hand"}
    fill(base, request.param, lambda backend, i: AgentSession(backend, session_id=i, **values))
    return base, request.param


@pytest.fixture
def store(
    filled: tuple[Path, int], tmp_path: Path, open_clean: Open, meter: Meter
) -> Iterator[Store]:
    shutil.copytree(filled[0], tmp_path / "store")
    made = Store(tmp_path / "store", filled[1], open_clean)
    yield made
    made.backend.close()


# The same exact bound for both sizes: nothing here grows with entries, changes or files.


def test_a_read_by_key_is_one_statement(store: Store, meter: Meter) -> None:
    cost = meter(lambda: store.session.memory_read("assigned", "e/00002"))
    assert cost == Cost((("SELECT", 1),), synced=0, listed=0, opened=0)


def test_the_first_mark_is_one_transaction_and_again_is_nothing(store: Store, meter: Meter) -> None:
    first = meter(lambda: store.session.mark_tainted("a page"))
    assert first.statements == (("BEGIN", 1), ("COMMIT", 1), ("INSERT", 1), ("SELECT", 1))
    again = meter(lambda: store.session.mark_tainted("a page"))
    assert again == Cost((), synced=0, listed=0, opened=0)
    call = store.session.tainting(lambda: "text", "a tool")
    assert meter(call).of("COMMIT") == 1
    assert meter(call).total == 0


def test_a_mark_that_another_process_made_is_looked_up_and_not_made_twice(
    store: Store, meter: Meter, open_clean: Open
) -> None:
    store.session.mark_tainted("a page")
    elsewhere = SQLiteBackend(store.backend.folders.base)
    session = open_clean(elsewhere)
    session.mark_tainted("warm")
    assert meter(lambda: session.mark_tainted("a page")).of("INSERT") <= 1
    assert [source.name for source in session.sources].count("a page") == 1
    elsewhere.close()


def test_a_note_is_one_transaction_and_touches_no_other_store(store: Store, meter: Meter) -> None:
    new = meter(lambda: store.session.memory_write("run", "n1", "c", "d"))
    assert new.statements == (("BEGIN", 1), ("COMMIT", 1), ("INSERT", 2), ("SELECT", 4))
    update = meter(lambda: store.session.memory_write("run", "n1", "c2", "d", 1))
    assert update.of("COMMIT") == 1
    assert update.total == 11
    assert (new.synced, new.opened, update.synced, update.opened) == (0, 0, 0, 0)


def test_a_queued_change_is_one_file_synced_twice_and_no_transaction(
    store: Store, meter: Meter
) -> None:
    """Once the file, once its folder, which lists the name."""
    cost = meter(lambda: store.session.memory_write("assigned", "p1", "c", "d"))
    assert cost.statements == (("SELECT", 4),)
    assert (cost.synced, cost.opened) == (2, 0)
    assert cost.listed <= 1
    next_one = meter(lambda: store.session.memory_write("assigned", "p2", "c", "d"))
    assert next_one.statements == (("SELECT", 4),)
    assert (next_one.synced, next_one.opened) == (2, 0)
    assert next_one.listed <= 1


def test_a_rewrite_reads_the_superseded_file_alone(store: Store, meter: Meter) -> None:
    store.session.memory_write("assigned", "p1", "c", "d")
    cost = meter(lambda: store.session.memory_write("assigned", "p1", "c2", "d"))
    assert cost.statements == (("SELECT", 5),)
    assert (cost.synced, cost.opened) == (2, 1)
    assert cost.listed <= 1


def test_an_accept_is_one_transaction_that_reads_the_one_file(store: Store, meter: Meter) -> None:
    store.session.memory_write("assigned", "p1", "c", "d")
    change = next(c for c in store.owner.changes(ACME) if c.path == "p1")
    cost = meter(lambda: store.owner.accept(ACME, change.id, change.digest))
    assert (cost.of("BEGIN"), cost.of("COMMIT"), cost.of("UPDATE")) == (1, 1, 1)
    assert cost.of("INSERT") == 5  # version, text, index, decision, and what it closes
    # Its own writer's files are looked up, here "warm" and "p1"; nobody else's.
    assert cost.of("SELECT") == 9
    assert (cost.synced, cost.opened) == (0, 2)
    assert cost.listed <= 2


def test_an_owners_write_is_one_transaction(store: Store, meter: Meter) -> None:
    new = meter(lambda: store.owner.write(ACME, "new", "c", "d"))
    assert (new.of("COMMIT"), new.total) == (1, 9)
    update = meter(lambda: store.owner.write(ACME, "new", "c2", "d", expected_version=1))
    assert (update.of("COMMIT"), update.total) == (1, 11)
    assert (new.opened, new.listed, update.opened, update.listed) == (0, 0, 0, 0)


def test_a_page_a_search_and_a_context_block_do_not_grow(store: Store, meter: Meter) -> None:
    session = store.session
    assert meter(lambda: session.memory_index("assigned")).total <= 3
    found = meter(lambda: session.memory_search("assigned", "words about"))
    assert found.total <= 7 + 20  # one more a hit that is shown
    block = meter(session.context_block)
    assert dict(block.statements)["SELECT"] == 6
    again = meter(session.context_block)
    assert again.total <= 2  # whether anything was retired or restored since
    assert (found.listed, block.listed) == (0, 0)


def test_a_turn_whose_files_nobody_changed_asks_no_database_for_its_context_block(
    store: Store, meter: Meter
) -> None:
    session, file = store.session, store.backend._curated(ACME)._file
    store.owner.write(scopes.ORG, "o", "c", "d")
    long_ago = time.time_ns() - 10_000_000_000  # a time stamp that is new may not be the last one
    for each in (file, store.backend._curated(scopes.ORG)._file):
        os.utime(each, ns=(long_ago, long_ago))
    first = session.context_block()
    assert meter(session.context_block).total == 0
    store.owner.retire(ACME, "e/00001")
    assert meter(session.context_block).total > 0
    assert "e/00001" in first
    assert "e/00001" not in session.context_block()


def test_each_database_is_synced_as_its_store_promises(store: Store, meter: Meter) -> None:
    """NORMAL is 1, FULL 2, EXTRA 3."""
    backend = store.backend
    open_now = {
        "curated": backend._curated(ACME)._writer(),
        "ledger": backend._ledger(ACME)._db(),
        "runs": backend._runs(ACME)._db(),
    }
    found = {
        name: (
            db.execute("PRAGMA journal_mode").fetchone()[0],
            db.execute("PRAGMA synchronous").fetchone()[0],
        )
        for name, db in open_now.items()
    }
    assert found == {"curated": ("delete", 3), "ledger": ("wal", 2), "runs": ("wal", 1)}
