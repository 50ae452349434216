"""Full-text index tables: which rows a question finds, the same way in memory and on disk."""

from __future__ import annotations

import hashlib
import sqlite3

from sams_core.search import parameters, search_sql, terms


def partition(*parts: str) -> str:
    """Return the token that keeps one part of a shared table from being seen from another.

    It begins with two underscores, as no term of a text does, so no text can carry it.
    """
    return "__p" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _values(path: str, description: str, content: str, token: str) -> tuple[str, str, str]:
    return f"{token} {terms(path)}", terms(description), terms(content)


def add(
    db: sqlite3.Connection,
    table: str,
    rowid: int,
    path: str,
    description: str,
    content: str,
    token: str = "",
) -> None:
    """Index a text under a row id; ids must grow with time. `table` is a name of our own."""
    db.execute(
        f"INSERT INTO {table}(rowid, path, description, content) VALUES (?, ?, ?, ?)",  # noqa: S608
        (rowid, *_values(path, description, content, token)),
    )


def remove(
    db: sqlite3.Connection,
    table: str,
    rowid: int,
    path: str,
    description: str,
    content: str,
    token: str = "",
) -> None:
    """Take a text out of the index; the texts must be the indexed ones."""
    db.execute(
        f"INSERT INTO {table}({table}, rowid, path, description, content) "  # noqa: S608
        "VALUES ('delete', ?, ?, ?, ?)",
        (rowid, *_values(path, description, content, token)),
    )


def find(db: sqlite3.Connection, table: str, query: str, limit: int, token: str = "") -> list[int]:
    """Return the row ids of the best hits, best first."""
    bound = parameters(query, limit)
    if bound is None or limit <= 0:
        return []
    if token:  # our own hexadecimal, so it can't be syntax
        for name in ("any", "several"):
            bound[name] = f'path : "{token}" AND ({bound[name]})'
    return [row[0] for row in db.execute(search_sql(table), bound)]
