"""Where a story is played: a backend for each role, and the address for another process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sams_core import SQLiteBackend, open_backend
from sams_core.backend import Backend


@dataclass(frozen=True)
class Logins:
    """What only a database has: a login for each role, and a way to try SQL under one.

    `refused` returns the rule that refused a statement under an address, or None.
    """

    urls: dict[str, str]
    dreamer: Backend
    refused: Callable[[str, str], str | None]


@dataclass(frozen=True)
class Stage:
    """The backends of agents and owner; `url` is the agents' address, for another process."""

    agent: Backend
    owner: Backend
    url: str
    logins: Logins | None = None


@contextmanager
def in_folder(base: str) -> Iterator[Stage]:
    """Play in a folder, under one user."""
    backend = SQLiteBackend(base)
    try:
        yield Stage(backend, backend, f"sqlite:{os.path.abspath(base)}")
    finally:
        backend.close()


@contextmanager
def in_database(admin_url: str, container: str) -> Iterator[Stage]:
    """Play in a database, each role under a login of its own; all of it is removed afterwards."""
    from sams_core.backends.postgres.scratch import refused, scratch

    with scratch(admin_url, container) as urls:
        agent, owner, dreamer = (open_backend(urls[r]) for r in ("agent", "owner", "dreamer"))
        try:
            yield Stage(agent, owner, urls["agent"], Logins(urls, dreamer, refused))
        finally:
            for backend in (agent, owner, dreamer):
                backend.close()
