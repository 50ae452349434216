"""Server processes killed outright, one or all: what was acknowledged stands, and stands once."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from sams_conformance.postgres_server import Database, Server

from .conftest import ACME, Store
from .crowd import Crowd, doubled
from .faults import VERBS, Cases, Proxy, again, kill_backend, struck


@pytest.fixture(params=["on", "off"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of the test's own, whose default is that every commit waits for the log, or none."""
    made = Server(synchronous_commit=request.param)
    yield made
    made.stop()


@pytest.fixture
def own(server: Server, tmp_path: Path) -> Iterator[Store]:
    with ExitStack() as stack:
        database = Database(str(tmp_path), server.superuser)
        database.create()
        yield Store(database, stack)


def _kill_a_backend(server: Server, dice: random.Random) -> None:
    sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname <> ''"
    others = f"{sql} AND pid <> pg_backend_pid() ORDER BY pid"
    pids: list[int] = []
    with psycopg.connect(server.superuser, autocommit=True) as db:
        while not pids:  # for a moment after a start nobody has connected again
            pids = [pid for (pid,) in db.execute(others).fetchall()]
    os.kill(dice.choice(pids), signal.SIGKILL)


def _kill_everything(server: Server, dice: random.Random) -> None:
    server.kill()
    server.start()


@pytest.mark.parametrize("server", ["on"], indirect=True)
@pytest.mark.parametrize("points", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_clients_lose_nothing_while_their_server_is_killed_again_and_again(
    server: Server, own: Store, points: int
) -> None:
    dice = random.Random(4)
    database = own.database
    agent, owner = database.granted("agent", ACME), database.granted("owner", ACME)
    crowd = Crowd()
    try:
        for name in ("ann", "ben"):
            crowd.start("agent", agent, name)
        crowd.start("decide", owner, "olga")
        words = ("note", "mark", "queued", "accepted", "rejected", "written", "retired")
        crowd.hear(30, *words)
        for point in range(points):
            again_how = _kill_everything if point % 2 else _kill_a_backend
            again_how(server, dice)
            crowd.hear(dice.randrange(1, 40), *words)
        crowd.finish()
    finally:
        crowd.close()
    assert {rule for (rule,) in crowd.heard("refused")} <= {"store-unreachable", "session-closed"}
    assert crowd.heard("refused")
    _check(own, crowd)


def _check(own: Store, crowd: Crowd) -> None:
    """Compare what the clients were told with what the database holds."""
    db = own.admin()

    def rows(sql: str) -> list[tuple]:
        return db.execute(sql.encode()).fetchall()

    notes = {}
    for session, number in crowd.heard("note"):
        notes[session] = (str(number), number)
    sql = "SELECT session_id, content, version FROM sams.notes"
    assert {s: (text, version) for s, text, version in rows(sql)} == notes

    marks = rows("SELECT family, name FROM sams.sources")
    assert set(marks) == set(crowd.heard("mark"))
    assert not doubled(marks)

    changes = rows("SELECT path, id FROM sams.changes")
    assert sorted(changes) == sorted(crowd.heard("queued"))

    decided = rows("SELECT path, id, state FROM sams.changes WHERE state <> 'open'")
    rejected = {(path, ident) for path, ident, state in decided if state == "rejected"}
    assert rejected == set(crowd.heard("rejected"))
    accepted = {path for path, _, state in decided if state == "accepted"}
    assert accepted == {path for path, _ in crowd.heard("accepted")}
    assert len(rows("SELECT 1 FROM sams.decisions")) == len(decided)

    versions = rows("SELECT path, version, status, digest, labelled FROM sams.versions")
    assert {version for _, version, *_ in versions} == {1}
    served = {(path, digest) for path, _, status, digest, _ in versions if status == "active"}
    assert served == set(crowd.heard("accepted"))
    assert all(labelled for path, _, _, _, labelled in versions if not path.startswith("own/"))
    own_ones = {(path,) for path, _, status, *_ in versions if status == "retired"}
    assert own_ones == set(crowd.heard("retired")) == set(crowd.heard("written"))


PROMISED = [verb for verb in VERBS if verb != "note"]


@pytest.mark.parametrize("server", ["off"], indirect=True)
def test_marks_changes_and_decisions_wait_for_the_log_whatever_the_servers_default(
    server: Server, own: Store
) -> None:
    proxy = Proxy(server.superuser)
    cases = Cases(own, proxy)
    lost = []
    for verb in PROMISED:
        case = cases.case(verb, verb)
        with psycopg.connect(server.superuser, autocommit=True) as db:
            sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
            (writer,) = db.execute(sql).fetchone()
        os.kill(writer, signal.SIGSTOP)  # or it might be quicker than the kill
        case.call()
        server.kill()
        os.kill(writer, signal.SIGKILL)
        server.start()
        if again(case.effect) != 1:
            lost.append(verb)
    assert not lost
    cases.disconnect()
    proxy.close()


STEPS = [pytest.param(1, marks=pytest.mark.slow), 7]


@pytest.mark.parametrize("server", ["off"], indirect=True)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("whole", [False, True], ids=["backend", "postmaster"])
def test_a_server_killed_at_a_message_has_done_it_once_or_not_at_all(
    server: Server, own: Store, whole: bool, step: int
) -> None:
    """Marks, changes and decisions, on a server that by itself wouldn't wait for the disk."""
    proxy = Proxy(server.superuser)
    cases = Cases(own, proxy)
    done = []

    def kill_postmaster(connection, message: bytes) -> None:
        connection.sendall(message)
        server.kill()
        server.start()

    fault = kill_postmaster if whole else kill_backend(server.superuser)
    for turn, verb in enumerate(PROMISED):
        number = 1 + turn % step
        while True:
            case = cases.case(verb, f"{verb}-{number}")
            proxy.arm(number, fault)
            struck(case)
            done.append(case)
            if not proxy.broke:
                break
            number += step
    assert [again(case.effect) for case in done] == [1] * len(done)
    assert len(done) >= 2 * len(PROMISED) // step
    cases.disconnect()
    proxy.close()
