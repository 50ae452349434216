"""Run notes: a scratchpad per session, one database per generation of a container."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

from sams_core.backend import Row
from sams_core.backends import fts, stamp
from sams_core.backends.sqlite.connect import Pool
from sams_core.backends.sqlite.folders import exists
from sams_core.backends.sqlite.private import private_copy
from sams_core.backends.sqlite.rows import note_from, provenance
from sams_core.errors import StoreFailed
from sams_core.limits import Limits
from sams_core.records import Draft, Entry, Receipt, Source
from sams_core.scopes import check_path
from sams_core.search import snippet

_COLUMNS = "scope, path, version, description, content, date, provenance"
_MOST_NOTES = 1_000_000


def file_name(generation: int) -> str:
    """Return the file of a generation."""
    return f"{generation}.db"


def _token(scope: str, labelled: bool) -> str:
    return fts.partition(scope, "labelled" if labelled else "trusted")


class Runs:
    """The notes of one generation, as an agent's process writes them."""

    def __init__(self, pool: Pool, file: Path, limits: Limits) -> None:
        self._pool, self._file, self._limits = pool, file, limits

    def _db(self) -> sqlite3.Connection:
        return self._pool.writer("runs", self._file, lambda db: None)

    def write(
        self,
        draft: Draft,
        replay: str | None,
        sources: Callable[[], tuple[Source, ...]],
        spooled: int,
    ) -> Receipt:
        """Store a note if its version is the draft's base; `spooled` counts the family's other bytes."""
        db, family = self._db(), draft.key.family
        with self._pool.transaction(db):
            if replay is not None:
                seen = db.execute(
                    "SELECT path, version FROM replays WHERE id = ?", (replay,)
                ).fetchone()
                if seen is not None:
                    return Receipt("stored", seen[0], seen[1], None, "stored")
            old = self._read(db, draft.scope, draft.path)
            stamp.check_base(draft.base_version, old)
            used = db.execute("SELECT sum(size) FROM notes WHERE family = ?", (family,)).fetchone()
            size = stamp.text_size(draft.path, draft.description, draft.content)
            stamp.check_bytes(self._limits, (used[0] or 0) + spooled + size)
            note = stamp.make_note(draft, sources(), old)
            self._store(db, note, family, size, old)
            if replay is not None:
                values = (replay, note.path, note.version)
                db.execute("INSERT INTO replays (id, path, version) VALUES (?, ?, ?)", values)
        return Receipt("stored", note.path, note.version, None, "stored")

    def _store(
        self, db: sqlite3.Connection, note: Entry, family: str, size: int, old: Entry | None
    ) -> None:
        if old is not None:
            where = (note.scope, note.path)
            rowid = db.execute(
                "SELECT id FROM notes WHERE scope = ? AND path = ?", where
            ).fetchone()[0]
            token = _token(old.scope, old.tainted)
            texts = (old.path, old.description, old.content)
            fts.remove(db, "notes_index", rowid, *texts, token)
            db.execute("DELETE FROM notes WHERE id = ?", (rowid,))
        rowid = db.execute(
            "INSERT INTO notes (scope, path, version, labelled, family, size, date, description, "
            "content, provenance) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            (
                note.scope,
                note.path,
                note.version,
                int(note.tainted),
                family,
                size,
                note.date,
                note.description,
                note.content,
                json.dumps(provenance(note)),
            ),
        ).fetchone()[0]
        token = _token(note.scope, note.tainted)
        fts.add(db, "notes_index", rowid, note.path, note.description, note.content, token)

    def _read(self, db: sqlite3.Connection, scope: str, path: str) -> Entry | None:
        sql = f"SELECT {_COLUMNS} FROM notes WHERE scope = ? AND path = ?"  # noqa: S608 - ours
        row = db.execute(sql, (scope, path)).fetchone()
        return None if row is None else note_from(row)

    def read(self, scope: str, path: str) -> Entry | None:
        """Return a note."""
        if not exists(self._file):
            return None
        return self._pool.retry(lambda: self._read(self._db(), scope, path))

    def index(self, scope: str, labelled: bool, after: str, limit: int) -> list[Row]:
        """List notes by path."""
        if not exists(self._file):
            return []
        sql = (
            "SELECT path, NULL, version, description, date, labelled FROM notes "
            "WHERE scope = ? AND labelled = ? AND path > ? ORDER BY path LIMIT ?"
        )
        values = (scope, int(labelled), after, limit)
        rows = self._pool.retry(lambda: self._db().execute(sql, values).fetchall())
        return [Row(p, None, v, d, when, bool(marked)) for p, _, v, d, when, marked in rows]

    def search(self, scope: str, labelled: bool, query: str, limit: int) -> list[Row]:
        """Return the best hits among a scope's notes."""
        if not exists(self._file):
            return []
        token = _token(scope, labelled)
        db = self._db()
        sql = "SELECT path, version, description, date, content FROM notes WHERE id = ?"

        def work() -> list[Row]:
            ids = fts.find(db, "notes_index", query, limit, token)
            rows = [db.execute(sql, (rowid,)).fetchone() for rowid in ids]
            return [
                Row(r[0], None, r[1], r[2], r[3], labelled, snippet(r[4], query))
                for r in rows
                if r is not None
            ]

        return self._pool.retry(work)

    def known(self, *, family: str, scope: str | None) -> bool:
        """Tell whether there are notes of a family, or in one scope of it."""
        if not exists(self._file):
            return False
        sql = "SELECT 1 FROM notes WHERE family = ?1 AND (?2 IS NULL OR scope = ?2) LIMIT 1"
        row = self._pool.retry(lambda: self._db().execute(sql, (family, scope)).fetchone())
        return row is not None

    def used(self, family: str) -> int:
        """Return the bytes of text in a family's notes."""
        if not exists(self._file):
            return 0
        sql = "SELECT coalesce(sum(size), 0) FROM notes WHERE family = ?"
        total: int = self._pool.retry(lambda: self._db().execute(sql, (family,)).fetchone()[0])
        return total


def all_notes(file: Path, limits: Limits) -> list[Entry]:
    """Return every note of a generation, read through a private copy."""
    with private_copy("runs", file, limits.copy_bytes) as db:
        if db is None:
            return []
        sql = f"SELECT {_COLUMNS} FROM notes ORDER BY scope, path LIMIT {_MOST_NOTES}"  # noqa: S608
        notes = [note_from(row) for row in db.execute(sql)]
    if any(not note.scope.startswith("run:") or check_path(note.path) is None for note in notes):
        raise StoreFailed("a stored record is damaged", rule="damaged")
    return notes


def count(file: Path, limits: Limits) -> int:
    """Return how many notes a generation has, read through a private copy."""
    with private_copy("runs", file, limits.copy_bytes) as db:
        return 0 if db is None else int(db.execute("SELECT count(*) FROM notes").fetchone()[0])
