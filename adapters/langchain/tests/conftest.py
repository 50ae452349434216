"""What the adapter's tests share: a store, sessions that are clean until something marks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sams_core import AgentSession, Owner, SQLiteBackend

ACME = "tenant:acme"
Open = Callable[..., AgentSession]


@pytest.fixture(autouse=True)
def no_session_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAMS_SESSION", raising=False)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SQLiteBackend]:
    backend = SQLiteBackend(tmp_path / "store")
    yield backend
    backend.close()


@pytest.fixture
def open_session(backend: SQLiteBackend) -> Open:
    def open_one(session_id: str = "s1", **more: Any) -> AgentSession:
        values: dict[str, Any] = {"agent": "bot", "assigned": ACME, "user": "insider", **more}
        return AgentSession(backend, session_id=session_id, **values)

    return open_one


@pytest.fixture
def session(open_session: Open) -> AgentSession:
    return open_session()


@pytest.fixture
def written(backend: SQLiteBackend) -> Callable[[], dict[str, bool]]:
    """What waits for the owner, by path, and whether it is stamped as tainted."""

    def look() -> dict[str, bool]:
        return {c.path: c.tainted for c in Owner(backend, "olga").changes(ACME)}

    return look


@pytest.fixture
def told() -> Callable[[AgentSession], list[str]]:
    """The reasons of a session's marks."""

    def look(session: AgentSession) -> list[str]:
        return [f"{source.kind} {source.name}" for source in session.sources]

    return look
