"""A server that says no: full, read-only, out of patience. Clear codes, nothing stored, nothing lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import psycopg
import pytest

from sams_core import Owner, StoreFailed
from sams_core.errors import SamsError

from .conftest import ACME, Store
from .faults import VERBS, Cases, Proxy


@pytest.fixture
def cases(store: Store) -> Iterator[Cases]:
    proxy = Proxy(store.database._root)
    made = Cases(store, proxy)
    yield made
    made.disconnect()
    proxy.close()


def _root(store: Store, *statements: str) -> None:
    with psycopg.connect(store.database._root, autocommit=True) as db:
        for statement in statements:
            db.execute(statement.encode())


def _refused(call: Callable[[], object]) -> SamsError:
    """Return why; a mark that can't be made closes the session for the reason that is its cause."""
    with pytest.raises(SamsError) as caught:
        call()
    error = caught.value
    if error.rule == "session-closed":
        assert isinstance(error.__cause__, SamsError)
        return error.__cause__
    return error


@pytest.mark.parametrize("verb", VERBS)
def test_a_server_turned_read_only_refuses_every_write_and_stores_none(
    store: Store, cases: Cases, verb: str
) -> None:
    case = cases.case(verb, verb)
    setting = f"ALTER DATABASE {store.database.name} %s default_transaction_read_only"
    _root(store, setting % "SET" + " = on")
    cases.disconnect()
    error = _refused(case.call)
    assert error.rule == "store-read-only"
    reader = Owner(cases.backends["owner"], "olga")
    assert isinstance(reader.changes(ACME), list)  # what is there is still served
    _root(store, setting % "RESET")
    cases.disconnect()
    assert case.effect() == 0
    case.call()
    assert case.effect() == 1


@pytest.mark.parametrize("verb", VERBS)
def test_a_statement_that_takes_too_long_is_a_refusal_and_stores_nothing(
    store: Store, cases: Cases, verb: str
) -> None:
    case = cases.case(verb, verb)
    tables = "families sessions sources changes decisions versions notes meta jobs".split()
    with psycopg.connect(store.database.admin) as holder:
        for table in tables:
            holder.execute(f"LOCK TABLE sams.{table} IN EXCLUSIVE MODE".encode())
        setting = f"ALTER DATABASE {store.database.name} %s statement_timeout"
        _root(store, setting % "SET" + " = '200ms'")
        cases.disconnect()
        assert _refused(case.call).rule == "store-busy"
    _root(store, setting % "RESET")
    cases.disconnect()
    assert case.effect() == 0
    case.call()
    assert case.effect() == 1


def test_a_server_without_a_free_connection_is_a_refusal(store: Store) -> None:
    session = store.session()
    login = store.database.login_name(f"agent {ACME} True")
    _root(store, f"ALTER ROLE {login} CONNECTION LIMIT 0")
    session.backend.close()
    with pytest.raises(StoreFailed) as caught:
        session.memory_write("run", "n", "x", "d")
    assert caught.value.rule == "store-unreachable"
    _root(store, f"ALTER ROLE {login} CONNECTION LIMIT -1")
    assert session.memory_write("run", "n", "x", "d").version == 1


def test_a_child_forked_inside_a_transaction_disturbs_it_not(store: Store) -> None:
    session, owner = store.session(), store.owner()
    pool = owner.backend._pool

    def work(db: psycopg.Connection) -> int:
        db.execute("SELECT 1")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                session.memory_write("run", "n", "from the child", "d")
                owner.write(ACME, "p", "from the child", "d")
                pool._give(db, os.getppid())  # what leaving the block would do
                owner.backend.close()
                session.backend.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        return db.execute("SELECT count(*) FROM sams.versions WHERE path = 'p'").fetchone()[0]

    assert pool.transaction(work) == 1
    assert session.memory_read("run", "n").content == "from the child"
