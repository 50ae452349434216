"""Fixtures of the core's tests: every rule is tried on each backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sams_core import AgentSession, Backend, Limits, MemoryBackend, Owner, SQLiteBackend

Open = Callable[..., AgentSession]
ACME = "tenant:acme"


@pytest.fixture(autouse=True)
def no_session_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAMS_SESSION", raising=False)


@pytest.fixture(params=["memory", "sqlite"])
def make_backend(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., Backend]]:
    """A factory of backends; on SQLite each call opens the same directory anew."""
    made: list[Backend] = []

    def make(limits: Limits | None = None) -> Backend:
        if request.param == "memory":
            made.append(MemoryBackend(limits))
        else:
            made.append(SQLiteBackend(tmp_path / "store", limits))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


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
