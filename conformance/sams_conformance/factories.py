"""Deployments of the two backends that the core brings along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from sams_conformance.driver import Deployment, Factory, Role
from sams_core import MemoryBackend, SQLiteBackend


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
