"""A store with something of everything in two tenants, and a hostile login's own connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sams_conformance.postgres_server import Database, superuser_url
from sams_core import AgentSession, DreamerSession, Owner
from sams_core.backends.postgres import PostgresBackend

ACME, OTHER = "tenant:acme", "tenant:globex"
# Not refusals: syntax, an unknown column, function or table, what needs a transaction.
MISTAKES = (
    "42601",
    "42703",
    "42883",
    "42P01",
    "42P02",
    "42725",
    "42804",
    "42846",
    "25P01",
    "25P02",
)


class Store:
    """Backends of one database, each under a login with one grant."""

    def __init__(self, database: Database, stack: ExitStack) -> None:
        self.database, self._stack = database, stack
        self._urls: dict[tuple[str, str, bool], str] = {}

    def _url(self, role: str, container: str, clean: bool) -> str:
        key = (role, container, clean)
        if key not in self._urls:
            self._urls[key] = self.database.granted(role, container, clean_sessions=clean)
        return self._urls[key]

    def backend(self, role: str, container: str = ACME, *, clean: bool = True) -> PostgresBackend:
        backend = PostgresBackend(self._url(role, container, clean))
        self._stack.callback(backend.close)
        return backend

    def raw(self, role: str, container: str = ACME, *, clean: bool = True) -> Any:
        """Connect as a stolen login would: with its password and no package of ours."""
        url = self._url(role, container, clean)
        return self._stack.enter_context(psycopg.connect(url, autocommit=True))

    def admin(self) -> Any:
        return self._stack.enter_context(psycopg.connect(self.database.admin, autocommit=True))

    def session(self, session_id: str = "s1", container: str = ACME, **more: Any) -> AgentSession:
        clean = more.pop("clean", True)
        return AgentSession(
            self.backend("agent", container, clean=clean),
            session_id=session_id,
            agent="bot",
            assigned=container,
            **{"user": "insider", "observed": "by-hand"} | more,
        )

    def owner(self, container: str = ACME) -> Owner:
        return Owner(self.backend("owner", container), "olga")

    def dreamer(self, container: str = ACME, *, clean: bool = True) -> DreamerSession:
        backend = self.backend("dreamer", container, clean=clean)
        return DreamerSession(backend, job_id="job", scope=container)


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    with ExitStack() as stack:
        yield Store(database, stack)


@pytest.fixture
def fresh(store: Store) -> Store:
    """Both tenants hold an entry, a labelled one, an open change, a note and a proposal."""
    return _fill(store)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The same, shared by the tests of a file that check that they have changed nothing."""
    database = Database(str(tmp_path_factory.mktemp("filled")))
    database.create()
    with ExitStack() as stack:
        yield _fill(Store(database, stack))
    database.drop()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The same, to which nobody is connected, so that it can be copied."""
    database = Database(str(tmp_path_factory.mktemp("original")))
    database.create()
    with ExitStack() as stack:
        _fill(Store(database, stack))
    yield database
    database.drop()


@pytest.fixture
def copied(original: Database, tmp_path: Path) -> Iterator[str]:
    """The administrator's address of a copy, which is cheaper than to fill another."""
    copy = Database(str(tmp_path))
    with psycopg.connect(superuser_url(), autocommit=True) as db:
        db.execute(f"CREATE DATABASE {copy.name} OWNER sams_test_admin TEMPLATE {original.name}")
    yield copy.admin
    copy.drop()


def _fill(store: Store) -> Store:
    for container in (ACME, OTHER):
        owner = store.owner(container)
        owner.write(container, "facts", f"zanzibar of {container}", "d")
        owner.write(container, "gone", "retired zanzibar", "d")
        owner.retire(container, "gone")
        marked = store.session("s-marked", container)
        marked.mark_tainted("read a page", origin="https://evil.example")
        receipt = marked.memory_write("assigned", "outside", "zanzibar outside", "d")
        (change,) = owner.changes(container)
        owner.accept(container, change.id, change.digest)
        assert receipt.change_id == change.id
        marked.memory_write("assigned", "pending", "zanzibar pending", "d")
        marked.memory_write("run", "note", "zanzibar note", "d")
        job = store.dreamer(container)
        job.snapshot("clean")
        job.propose("tidy", "zanzibar proposal", "d")
    return store


@pytest.fixture
def attempt() -> Callable[..., str]:
    """Run a statement that must be refused or find nothing; returns which it was."""

    def run(db: Any, sql: str, *values: Any) -> str:
        try:
            cursor = db.execute(sql, values or None)
            rows = cursor.fetchall() if cursor.description else []
            while cursor.nextset():
                rows += cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            assert "zanzibar" not in str(error), sql
            assert error.sqlstate not in MISTAKES, (sql, str(error))
            return error.sqlstate or "error"
        finally:
            if not db.closed and db.info.transaction_status != 0:
                db.rollback()
        assert rows == [] or all(not value for row in rows for value in row), (sql, rows)
        changed = 0 if cursor.description else max(0, cursor.rowcount)
        assert changed == 0, (sql, cursor.rowcount)
        return "nothing"

    return run
