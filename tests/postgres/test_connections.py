"""Pools, forks, lost servers, and what must never be printed."""

from __future__ import annotations

import copy
import os
import pickle
import socket
import sys
import threading
import traceback

import psycopg
import pytest

import sams_core
from sams_core import PermissionDenied, StoreFailed, open_backend
from sams_core.backends.postgres import PostgresBackend
from sams_core.backends.postgres import connect as connecting
from sams_core.errors import SamsError

from .conftest import ACME, Store


def test_the_address_is_opened_by_its_scheme_and_by_name(store: Store) -> None:
    url = store.database.granted("agent", ACME)
    for opened in (open_backend(url), sams_core.PostgresBackend(url)):
        assert isinstance(opened, PostgresBackend)
        opened.close()


def test_two_objects_on_one_database_have_one_location(store: Store) -> None:
    agent, owner = store.backend("agent"), store.backend("owner")
    assert agent.location == owner.location
    assert store.database.name in agent.location


def test_no_password_is_in_any_text(store: Store) -> None:
    password = "hunter2-and-more"
    url = store.database.granted("agent", ACME)
    login = store.database.login_name(f"agent {ACME} True")
    head, _, tail = url.rpartition("@")
    wrong = f"{head.rpartition(':')[0]}:{password}@{tail}"
    unreachable = f"postgresql://{login}:{password}@127.0.0.1:1/nowhere"
    texts = []
    for address in (wrong, unreachable, f"postgresql://u:{password}@h/d?nonsense=1"):
        try:
            backend = PostgresBackend(address)
            texts += [repr(backend), str(vars(backend))]
            backend.recover(ACME)
        except SamsError as error:
            texts += [str(error), repr(error)]
            texts += traceback.format_exception(error, chain=True)
            assert error.__cause__ is None
            assert error.__suppress_context__
    shown = "".join(texts)
    assert len(texts) > 9
    assert password not in shown
    backend = PostgresBackend(url)
    assert store.database.name in repr(backend)
    assert url.split(":")[2].split("@")[0] not in repr(backend) + backend.location
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            copied(backend._secret)
    backend.close()


def test_prepared_statements_outlive_being_given_back(store: Store) -> None:
    backend = store.backend("agent")
    for _ in range(20):
        assert backend.read(ACME, ACME, "p") is None
    with backend._pool.connection() as db:
        assert db.execute("SELECT count(*) > 0 FROM pg_prepared_statements").fetchone() == (True,)


def test_an_error_inside_a_transaction_leaves_the_connection_clean(store: Store) -> None:
    backend = store.backend("agent")
    with pytest.raises(SamsError):
        backend._pool.transaction(lambda db: db.execute("SELECT 1/0"))
    with pytest.raises(ZeroDivisionError):
        backend._pool.transaction(lambda db: 1 / 0)
    assert backend.read(ACME, ACME, "p") is None
    assert len(backend._pool._idle) == 1


def test_threads_share_a_bounded_pool(store: Store) -> None:
    backend = PostgresBackend(store.database.granted("agent", ACME), connections=2)
    failures = []

    def work() -> None:
        try:
            for _ in range(20):
                backend.read(ACME, ACME, "p")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert backend._pool._open <= 2
    backend.close()


def test_an_exhausted_pool_is_a_refusal(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_PATIENCE", 0.1)
    backend = PostgresBackend(store.database.granted("agent", ACME), connections=1)
    backend.read(ACME, ACME, "p")
    with backend._pool.connection(), pytest.raises(StoreFailed) as caught:
        backend.read(ACME, ACME, "p")
    assert caught.value.rule == "store-busy"
    assert backend.read(ACME, ACME, "p") is None
    backend.close()


def test_a_closed_backend_opens_again(store: Store) -> None:
    backend = store.backend("agent")
    backend.read(ACME, ACME, "p")
    backend.close()
    backend.close()
    assert backend.read(ACME, ACME, "p") is None


def test_a_forked_child_uses_no_connection_of_its_parent(store: Store) -> None:
    backend = store.backend("agent")
    with backend._pool.connection() as db:
        mine = db.info.backend_pid
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with backend._pool.connection() as db:
                os.write(writing, str(db.execute("SELECT pg_backend_pid()").fetchone()[0]).encode())
            backend.close()
        except BaseException as error:
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    theirs = int(os.read(reading, 1_000))
    os.close(reading)
    assert theirs != mine
    with backend._pool.connection() as db:
        assert db.execute("SELECT pg_backend_pid()").fetchone() == (mine,)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems name these otherwise")
@pytest.mark.parametrize(("given", "idle"), [("", 30), ("?keepalives_idle=7", 7)])
def test_a_server_that_vanished_is_noticed_in_about_a_minute(
    store: Store, given: str, idle: int
) -> None:
    url = store.database.granted("agent", ACME) + given
    with (
        connecting.connect(connecting.Secret(url)) as connection,
        socket.socket(fileno=os.dup(connection.fileno())) as tcp,
    ):
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == idle
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 10
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 3
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


def test_what_a_service_file_may_say_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "keepalives_idle" in connecting.Secret("postgresql://h/d").reveal()
    assert "keepalives_idle" not in connecting.Secret("postgresql://h/d?service=x").reveal()
    monkeypatch.setenv("PGSERVICE", "x")
    assert "keepalives_idle" not in connecting.Secret("postgresql://h/d").reveal()


def test_killed_connections_are_replaced_without_a_restart(store: Store) -> None:
    session = store.session()
    session.memory_write("run", "n", "x", "d")
    with psycopg.connect(store.database._root, autocommit=True) as root:
        root.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s",
            (store.database.name,),
        )
    assert session.memory_read("run", "n").content == "x"


def test_a_connection_killed_in_a_statement_is_a_refusal_and_the_next_call_works(
    store: Store,
) -> None:
    backend = store.backend("agent")
    pid = []

    def work(db):
        pid.append(db.info.backend_pid)
        with psycopg.connect(store.database._root, autocommit=True) as root:
            root.execute("SELECT pg_terminate_backend(%s, 5000)", (pid[0],))
        db.execute("SELECT 1")

    with pytest.raises(StoreFailed):
        backend._pool.transaction(work)
    assert backend.read(ACME, ACME, "p") is None


def test_a_read_only_server_refuses_and_stores_nothing(store: Store) -> None:
    session = store.session()
    with psycopg.connect(store.database._root, autocommit=True) as root:
        root.execute(f"ALTER DATABASE {store.database.name} SET default_transaction_read_only = on")
    session.backend.close()
    with pytest.raises(StoreFailed) as refused:
        session.memory_write("run", "n", "x", "d")
    assert refused.value.rule == "store-read-only"
    with pytest.raises(SamsError) as caught:
        session.mark_tainted("a page")
    assert caught.value.rule == "session-closed"
    with psycopg.connect(store.database._root, autocommit=True) as root:
        root.execute(f"ALTER DATABASE {store.database.name} RESET default_transaction_read_only")
    session.backend.close()
    assert session.tainted
    session.memory_write("run", "n", "x", "d")


def test_importing_the_core_imports_no_driver() -> None:
    import subprocess
    import sys

    code = "import sams_core, sams_core.cli, sys; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_an_unvouched_login_marks_whoever_opens_a_session(store: Store) -> None:
    assert not store.session("s1").tainted
    again = store.session("s1", clean=False)
    assert [s.kind for s in again.sources] == ["login"]
    assert "--clean-sessions" in again.sources[0].name
    assert store.session("s1").tainted
    assert store.session("s2", clean=False).child("helper").tainted


def test_an_unvouched_jobs_proposals_are_tainted(store: Store) -> None:
    job = store.dreamer(clean=False)
    job.snapshot("clean")
    assert [s.kind for s in job.propose("p", "x", "d").sources] == ["login"]
    with pytest.raises(PermissionDenied):
        store.dreamer(clean=False).propose("p", "x", "d")
