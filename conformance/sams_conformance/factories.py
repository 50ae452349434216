"""Deployments of the three backends that the core brings along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from sams_conformance.driver import Deployment, Factory, Role
from sams_core import MemoryBackend, SQLiteBackend

if TYPE_CHECKING:
    from sams_conformance.postgres_server import Database


class Simple:
    """A deployment whose every role and container is served by what `connect` returns."""

    def __init__(self, location: str, connect: Callable[[], Any], *, durable: bool) -> None:
        self.location = location
        self.durable = durable
        self._connect = connect

    def backend(self, role: Role, container: str) -> Any:
        """Connect, whoever asks: here one process is all roles."""
        return self._connect()


def simple(connect: Callable[[], Any], **harness: type) -> Factory:
    """Return a factory for stores in one process's memory: one backend from `connect` a deployment.

    `harness` may name an `AgentSession`, `Owner` or `DreamerSession` to use with it.
    """

    @contextmanager
    def factory(location: str) -> Iterator[Deployment]:
        backend = connect()
        deployment = Simple(location, lambda: backend, durable=False)
        vars(deployment).update(harness)
        try:
            yield deployment
        finally:
            backend.close()

    return factory


def memory(location: str) -> AbstractContextManager[Deployment]:
    """Open a `MemoryBackend`, gone with its deployment."""
    return simple(MemoryBackend)(location)


@contextmanager
def sqlite(location: str) -> Iterator[Deployment]:
    """Open the SQLite store in the folder `location`; every call of `backend` connects anew."""
    with ExitStack() as opened:

        def connect() -> SQLiteBackend:
            backend = SQLiteBackend(location)
            opened.callback(backend.close)
            return backend

        yield Simple(location, connect, durable=True)


class Logins:
    """A deployment on Postgres: a login for each role in each container, with that grant alone."""

    durable = True

    def __init__(self, location: str, database: Database) -> None:
        self.location = location
        self.database = database
        self._urls: dict[tuple[str, str], str] = {}
        self._opened: list[Any] = []

    def backend(self, role: Role, container: str) -> Any:
        """Connect under the login of a role in a container."""
        from sams_core.backends.postgres import PostgresBackend

        if (role, container) not in self._urls:
            self._urls[role, container] = self.database.granted(role, container)
        self._opened.append(PostgresBackend(self._urls[role, container]))
        return self._opened[-1]

    def close(self) -> None:
        """Disconnect everybody."""
        for backend in self._opened:
            backend.close()


@contextmanager
def postgres(location: str) -> Iterator[Deployment]:
    """Open the Postgres store named by `location`, in a database of its own, gone with its creator."""
    from sams_conformance.postgres_server import Database

    database = Database(location)
    mine = not database.exists()
    if mine:
        database.create()
    deployment = Logins(location, database)
    try:
        yield deployment
    finally:
        deployment.close()
        if mine:
            database.drop()
