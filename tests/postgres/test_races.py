"""What happens at once on one database: marks in flight, rewrites beside decisions, held locks."""

from __future__ import annotations

import random
import threading
import time

import psycopg
import pytest

from sams_core import Limits, NotFound, ReviewMismatch, StoreFailed, VersionConflict
from sams_core.records import Source

from .conftest import ACME, Store


def _together(*jobs):
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    return threads


def test_a_change_waits_for_a_mark_in_flight(store: Store) -> None:
    session, raw = store.session(), store.raw("agent")
    raw.execute("BEGIN")
    raw.execute(
        "INSERT INTO sams.sources (container, family, kind, name, first_seen, login) "
        "VALUES (%s, 's1', 'tool', 'a page', 'now', session_user)",
        (ACME,),
    )
    done = []
    (thread,) = _together(
        lambda: done.append(session.memory_write("assigned", "p", "from the page", "d"))
    )
    with psycopg.connect(store.database._root, autocommit=True) as root:
        sql = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"
        )
        while not root.execute(sql, (store.database.name,)).fetchone()[0]:
            assert thread.is_alive()
            time.sleep(0.01)
    assert not done
    raw.execute("COMMIT")
    thread.join()
    (change,) = store.owner().changes(ACME)
    assert [source.name for source in change.sources] == ["a page"]


def test_no_mark_is_lost_among_many_and_the_list_stays_bounded(store: Store) -> None:
    backends = [store.backend("agent") for _ in range(4)]
    session = store.session()

    def mark(number: int) -> None:
        for n in range(10):
            source = Source("tool", f"t{number}-{n}", None, "now")
            backends[number].add_sources(ACME, "s1", [source])

    for thread in _together(*[lambda n=n: mark(n) for n in range(4)]):
        thread.join()
    assert len(session.sources) == 40
    session.backend.limits = Limits(family_sources=42)
    more = [Source("tool", f"more-{n}", None, "now") for n in range(10)]
    session.backend.add_sources(ACME, "s1", more)
    assert [s.kind for s in session.sources[40:]] == ["tool", "tool", "more"]
    session.backend.add_sources(ACME, "s1", more)
    assert len(session.sources) == 43


def test_what_is_accepted_beside_rewrites_is_what_was_reviewed(store: Store) -> None:
    dice = random.Random(1)
    rounds, session, owner = 20, store.session(), store.owner()
    accepted, stop = [], threading.Event()

    def rewrite() -> None:
        number = 0
        while not stop.is_set():
            entry = owner.backend.read(ACME, ACME, "p")
            version = entry.version if entry else None
            try:
                session.memory_write("assigned", "p", f"text {number}", "d", version)
            except VersionConflict:
                continue
            number += 1
            time.sleep(dice.random() / 20)  # or no decision would ever be in time

    (thread,) = _together(rewrite)
    try:
        while len(accepted) < rounds:
            for change in owner.changes(ACME):
                try:
                    entry = owner.accept(ACME, change.id, change.digest)
                except (ReviewMismatch, NotFound, VersionConflict):
                    continue
                accepted.append((change.content, entry.content, entry.version))
    finally:
        stop.set()
        thread.join()
    assert all(reviewed == served for reviewed, served, _ in accepted)
    history = owner.history(ACME, "p")
    assert [entry.version for entry in history] == list(range(1, len(accepted) + 1))
    assert [entry.content for entry in history] == [served for _, served, _ in accepted]


def test_of_one_decision_taken_by_many_there_is_one(store: Store) -> None:
    session = store.session()
    session.memory_write("assigned", "p", "x", "d")
    owners = [store.owner() for _ in range(6)]
    (change,) = owners[0].changes(ACME)
    entries = []
    jobs = [
        lambda owner=owner: entries.append(owner.accept(ACME, change.id, change.digest))
        for owner in owners
    ]
    for thread in _together(*jobs):
        thread.join()
    assert len({entry.digest for entry in entries}) == 1
    assert len(entries) == 6
    assert len(owners[0].history(ACME, "p")) == 1


def test_steps_counted_at_once_are_all_there(store: Store) -> None:
    sessions = [store.session() for _ in range(4)]
    sessions[0].memory_write("run", "n", "0", "d")

    def count(session) -> None:
        for _ in range(25):
            while True:
                note = session.memory_read("run", "n")
                try:
                    session.memory_write("run", "n", str(int(note.content) + 1), "d", note.version)
                    break
                except VersionConflict:
                    continue

    for thread in _together(*[lambda s=s: count(s) for s in sessions]):
        thread.join()
    note = sessions[0].memory_read("run", "n")
    assert (note.content, note.version) == ("100", 101)


def test_a_hostile_lock_ends_in_a_refusal(store: Store) -> None:
    """A login can hold its family's lock; whoever waits is told, and nothing is stored."""
    session, raw = store.session(), store.raw("agent")
    admin = store.admin()
    body = admin.execute(
        "SELECT pg_get_functiondef('sams.lock_family(text,text)'::regprocedure)"
    ).fetchone()[0]
    admin.execute(body.replace("'30s'", "'100ms'"))
    raw.execute("BEGIN")
    raw.execute("SELECT sams.lock_family(%s, 's1')", (ACME,))
    with pytest.raises(StoreFailed) as caught:
        session.memory_write("run", "n", "x", "d")
    assert caught.value.rule == "store-busy"
    raw.execute("ROLLBACK")
    session.memory_write("run", "n", "x", "d")
