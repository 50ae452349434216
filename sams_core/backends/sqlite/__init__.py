"""Memory in a directory, with SQLite."""

from __future__ import annotations

from sams_core.backends.sqlite.backend import SQLiteBackend as SQLiteBackend
