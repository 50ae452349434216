"""An index in memory, filled and asked the way every backend does it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import pytest

from sams_core.search import create_sql, parameters, search_sql, terms


class Index:
    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.execute(create_sql("found"))

    def fill(self, rows: Iterable[Sequence[str]], first: int = 1) -> None:
        self.db.executemany(
            "INSERT INTO found(rowid, path, description, content) VALUES (?, ?, ?, ?)",
            ((at, *map(terms, row)) for at, row in enumerate(rows, first)),
        )

    def ask(self, question: str, limit: int = 5) -> list[int]:
        wanted = parameters(question, limit)
        if wanted is None:
            return []
        return [row[0] for row in self.db.execute(search_sql("found"), wanted)]

    def raw(self, expression: str) -> list[int]:
        sql = "SELECT rowid FROM found WHERE found MATCH ? ORDER BY rowid"
        return [row[0] for row in self.db.execute(sql, (expression,))]


@pytest.fixture
def index() -> Index:
    return Index()
