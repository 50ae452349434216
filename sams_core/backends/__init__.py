"""Backends by URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sams_core.backend import Backend
from sams_core.errors import InvalidArguments

if TYPE_CHECKING:
    from sams_core.redaction import TextPolicy


def open_backend(url: str, policy: TextPolicy | None = None) -> Backend:
    """Open a backend by URL: `sqlite:<directory>`, `postgresql://...` or `memory:`.

    `sqlite:///<directory>` is read like `sqlite:<directory>`; in both nothing is decoded: `%`, `?`
    and `#` are literal. A text without a scheme is a directory. A `postgresql:` (or `postgres:`)
    address is libpq's, and needs the extra `postgres`. `policy` is what sessions, owners and jobs on
    this backend cut beyond the shipped rules, and beyond the `sams.toml` in a SQLite store's folder.
    Raises `InvalidArguments` for another scheme, `ImportError` where that extra isn't installed; other
    schemes' packages are not imported.
    """
    scheme, colon, rest = url.partition(":")
    if not colon or len(scheme) == 1:  # no scheme, or a Windows drive
        scheme, rest = "sqlite", url
    if scheme == "sqlite":
        from sams_core.backends.sqlite import SQLiteBackend

        directory = rest.removeprefix("//")
        if not directory:
            raise InvalidArguments("sqlite: needs a directory", rule="url")
        return SQLiteBackend(Path(directory), policy=policy)
    if scheme == "memory" and not rest:
        from sams_core.backends.memory import MemoryBackend

        return MemoryBackend(policy=policy)
    if scheme in ("postgresql", "postgres"):
        from sams_core.backends.postgres import PostgresBackend

        return PostgresBackend(url, policy=policy)
    raise InvalidArguments(
        "backend url: sqlite:<directory>, postgresql://... or memory:", rule="url"
    )
