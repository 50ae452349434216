"""Fixtures of the core's tests: every rule is tried on each backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sams_conformance.postgres_server import Database
from sams_core import AgentSession, Backend, Limits, MemoryBackend, Owner, SQLiteBackend

Open = Callable[..., AgentSession]
ACME = "tenant:acme"


@pytest.fixture(autouse=True)
def no_session_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAMS_SESSION", raising=False)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_backend(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., Backend]]:
    """A factory of backends; on SQLite and Postgres each call opens the same store anew."""
    made: list[Backend] = []

    def make(limits: Limits | None = None) -> Backend:
        if request.param == "memory":
            made.append(MemoryBackend(limits))
        elif request.param == "sqlite":
            made.append(SQLiteBackend(tmp_path / "store", limits))
        else:
            made.append(_anybody(request.getfixturevalue("database"), limits))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A Postgres database of the run's server, with the schema and nothing else."""
    made = Database(str(tmp_path))
    made.create()
    yield made
    made.drop()


def _anybody(database: Database, limits: Limits | None) -> Backend:
    """One login for all roles, as a test of the rules above a store needs it; granted when asked."""
    from sams_core.backends.postgres import PostgresBackend, grant

    url, login = database.login("anybody"), database.login_name("anybody")

    class Anybody(PostgresBackend):
        def _need(self, container: str, *roles: Any) -> Any:
            for role in roles:
                if (role, container) not in self._may and (role, container) != ("agent", "org"):
                    grant(database.admin, login, role, container, True)
            return super()._need(container, *roles)

    grant(database.admin, login, "owner", ACME)
    return Anybody(url, limits)


@pytest.fixture
def backend(make_backend: Callable[..., Backend]) -> Backend:
    return make_backend()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SQLiteBackend]:
    backend = SQLiteBackend(tmp_path / "store")
    yield backend
    backend.close()


def _open_clean(backend: Backend, session_id: str = "s1", **more: Any) -> AgentSession:
    """A session for which everything is declared."""
    values: dict[str, Any] = {"agent": "bot", "assigned": ACME}
    values |= {"user": "insider", "observed": "by-hand"} | more
    return AgentSession(backend, session_id=session_id, **values)


@pytest.fixture
def session(backend: Backend) -> AgentSession:
    return _open_clean(backend)


@pytest.fixture
def owner(backend: Backend) -> Owner:
    return Owner(backend, "olga")


def _publish(owner: Owner, session: AgentSession, path: str, content: str, about: str = "d") -> Any:
    """Let a session write and the owner accept what it wrote."""
    found = owner.get(ACME, path)
    version = None if found is None else found.version
    receipt = session.memory_write("assigned", path, content, about, version)
    change = next(c for c in owner.changes(ACME) if c.id == receipt.change_id)
    return owner.accept(ACME, change.id, change.digest)


@pytest.fixture
def open_clean() -> Open:
    """Open a session of a backend for which everything is declared."""
    return _open_clean


@pytest.fixture
def publish() -> Callable[..., Any]:
    """Have a session write an entry of tenant:acme and the owner accept it."""
    return _publish
