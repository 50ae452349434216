"""Curated memory: entries, history and decisions, written by the owner and read by everybody."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sams_core.backend import Row
from sams_core.backends import fts, stamp
from sams_core.backends.sqlite.connect import Pool
from sams_core.backends.sqlite.files import State, settled, state
from sams_core.backends.sqlite.rows import damaged, entry_from, provenance
from sams_core.backends.sqlite.spool import Name, actor_of, decode, encode
from sams_core.errors import NotFound
from sams_core.records import Change, Decision, Entry, now
from sams_core.scopes import family_of, is_handle
from sams_core.search import snippet

T = TypeVar("T")
Meta = tuple[int, int, int, str | None]  # revision, epoch, generation, accepted ledger
FILE = "curated.db"
_TABLES = {False: "trusted", True: "labelled"}
_ENTRY = (
    "SELECT v.path, v.version, t.description, t.content, v.date, v.provenance, v.status, v.handle, "
    "v.ended_date, v.ended_by "
    "FROM versions v JOIN texts t ON t.id = v.id "
)


class Curated:
    """The curated store of one container.

    Reading opens the database read-only, so that an agent's process needs no right to write it.
    """

    def __init__(self, pool: Pool, folder: Path, scope: str, make: Callable[[], object]) -> None:
        self._pool, self._file, self._scope, self._make = pool, folder / FILE, scope, make
        self._meta: tuple[State, Meta] | None = None

    def _read(self, work: Callable[[sqlite3.Connection], T], missing: T) -> T:
        db = self._pool.reader("curated", self._file)
        return missing if db is None else self._pool.retry(lambda: work(db))

    def _writer(self) -> sqlite3.Connection:
        self._make()
        return self._pool.writer("curated", self._file, lambda db: None)

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self._read(lambda db: db.execute(sql, values).fetchall(), [])

    # Everybody reads.

    def meta(self) -> Meta:
        """Return revision, epoch, run generation and the accepted ledger.

        From memory while the file hasn't changed: every turn of an agent asks.
        """
        try:
            now = state(self._file, follow=True)
        except OSError:
            now = None
        if self._meta is not None and self._meta[0] == now:
            return self._meta[1]
        keep = now is not None and settled(now)
        sql = "SELECT revision, epoch, generation, accepted_ledger FROM meta"
        rows = self._read(lambda db: db.execute(sql).fetchall(), [(0, 0, 0, None)])
        found: Meta = rows[0] if rows and _whole(rows[0][:3]) else damaged()
        if now is not None and keep:
            self._meta = now, found
        return found

    def _entries(self, where: str, *values: object) -> list[Entry]:
        return [entry_from(self._scope, row) for row in self._rows(_ENTRY + where, *values)]

    def read(self, path: str) -> Entry | None:
        """Return the active entry at a path, or the active labelled one at a handle."""
        if is_handle(path):
            where = "WHERE v.handle = ? AND v.status = 'active' AND v.labelled = 1"
        else:
            where = "WHERE v.path = ? AND v.status = 'active'"
        return next(iter(self._entries(where, path)), None)

    def version(self, path: str, version: int) -> Entry | None:
        """Return one version of a path."""
        found = self._entries("WHERE v.path = ? AND v.version = ?", path, version)
        return next(iter(found), None)

    def version_with(self, digest: str) -> Entry | None:
        """Return the version that has this digest."""
        return next(iter(self._entries("WHERE v.digest = ?", digest)), None)

    def history(self, path: str) -> list[Entry]:
        """Return all versions of a path, oldest first."""
        return self._entries("WHERE v.path = ? ORDER BY v.version", path)

    def active(self) -> list[Entry]:
        """Return every active entry, by path."""
        return self._entries("WHERE v.status = 'active' ORDER BY v.path")

    def index(
        self, labelled: bool, after: str, limit: int, at: int | None, contents: int
    ) -> list[Row]:
        """List entries by path, labelled ones by handle; see `Backend.index`."""
        key = "v.handle" if labelled else "v.path"
        name = ("labelled" if labelled else "trusted") + ("_now" if at is None else "_listing")
        when = (
            "v.status = 'active'"
            if at is None
            else "v.born <= :at AND coalesce(v.ended, :at + 1) > :at"
        )
        sql = (
            "SELECT v.path, v.handle, v.version, t.description, v.date, "  # noqa: S608 - ours
            # Bytes, since length() counts a text up to its first NUL only; characters are counted below.
            "CASE WHEN length(CAST(t.content AS BLOB)) <= 4 * :contents THEN t.content ELSE '' END "
            f"FROM versions v INDEXED BY {name} JOIN texts t ON t.id = v.id "
            f"WHERE v.labelled = {int(labelled)} AND {when} AND {key} > :after "
            f"ORDER BY {key} LIMIT :limit"
        )
        values = {"after": after, "limit": limit, "contents": contents, "at": at}
        rows: list[tuple[Any, ...]] = self._read(lambda db: db.execute(sql, values).fetchall(), [])
        return [
            Row(
                path,
                handle if labelled else None,
                version,
                description,
                date,
                labelled,
                text if len(text) <= contents else "",
            )
            for path, handle, version, description, date, text in rows
        ]

    def search(self, labelled: bool, query: str, limit: int) -> list[Row]:
        """Return the best hits among trusted or among labelled entries."""

        def work(db: sqlite3.Connection) -> list[Row]:
            rows = []
            for rowid in fts.find(db, _TABLES[labelled], query, limit):
                found = db.execute(_ENTRY + "WHERE v.id = ?", (rowid,)).fetchone()
                entry = entry_from(self._scope, found)
                shown = entry.handle if labelled else None
                rows.append(
                    Row(
                        entry.path,
                        shown,
                        entry.version,
                        entry.description,
                        entry.date,
                        labelled,
                        snippet(entry.content, query),
                    )
                )
            return rows

        return self._read(work, [])

    def decision(self, change_id: str) -> Decision | None:
        """Return the decision about a change."""
        return self._read(lambda db: self._decided(db, change_id), None)

    def _decided(self, db: sqlite3.Connection, change_id: str) -> Decision | None:
        sql = "SELECT outcome, owner, digest, note, date, change FROM decisions WHERE change_id = ?"
        row = db.execute(sql, (change_id,)).fetchone()
        if row is None:
            return None
        change = decode(row[5].encode(), self._scope, None)
        return Decision(replace(change, digest=row[2]), *row[:5])

    def closed_by(self, change_id: str) -> str | None:
        """Return the decided change that ended this one: itself, or its successor."""
        rows = self._rows("SELECT decision FROM closed WHERE change_id = ?", change_id)
        return str(rows[0][0]) if rows else None

    def closed(self, names: Sequence[Name]) -> set[str]:
        """Return the ids of those files whose change is closed."""

        def work(db: sqlite3.Connection) -> set[str]:
            sql = "SELECT 1 FROM closed WHERE change_id = ?"
            ids = (name.id for name in names)
            return {i for i in ids if db.execute(sql, (i,)).fetchone() is not None}

        return self._read(work, set())

    def knows_family(self, family: str) -> bool:
        """Tell whether an entry or a decision comes from a family."""
        sql = (
            "SELECT 1 FROM versions WHERE family = ?1 UNION ALL "
            "SELECT 1 FROM decisions WHERE family = ?1 LIMIT 1"
        )
        return bool(self._rows(sql, family))

    def knows_any_family(self) -> bool:
        """Tell whether any entry or decision comes from a session."""
        sql = (
            "SELECT 1 FROM versions WHERE family IS NOT NULL UNION ALL "
            "SELECT 1 FROM decisions WHERE family IS NOT NULL LIMIT 1"
        )
        return bool(self._rows(sql))

    # The owner writes.

    def publish(self, entry: Entry, expected: int) -> Entry:
        """Store the next version of a path; see `Backend.publish`."""
        db = self._writer()
        with self._pool.transaction(db):
            return self._publish(db, entry, expected)

    def decide(
        self, decision: Decision, closes: Iterable[str], entry: Entry | None, expected: int
    ) -> Entry | None:
        """Record a decision that closes changes and publish its entry; see `Backend.decide`."""
        db, change = self._writer(), decision.change
        with self._pool.transaction(db):
            earlier = self._decided(db, change.id)
            if earlier is not None:
                sql = _ENTRY + "WHERE v.change_id = ? ORDER BY v.version LIMIT 1"
                rows = db.execute(sql, (change.id,)).fetchall()
                history = [entry_from(self._scope, row) for row in rows]
                return stamp.repeated(earlier, decision, history)
            if db.execute("SELECT 1 FROM closed WHERE change_id = ?", (change.id,)).fetchone():
                raise stamp.superseded()
            published = None if entry is None else self._publish(db, entry, expected)
            family = actor_of(change) if change.source_session is not None else None
            db.execute(
                "INSERT INTO decisions (change_id, outcome, owner, date, digest, note, family, "
                "change) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    change.id,
                    decision.outcome,
                    decision.owner,
                    decision.date,
                    decision.digest,
                    decision.note,
                    family,
                    encode(change).decode(),
                ),
            )
            for gone in closes:
                db.execute("INSERT OR IGNORE INTO closed VALUES (?, ?)", (gone, change.id))
            return published

    def _publish(self, db: sqlite3.Connection, entry: Entry, expected: int) -> Entry:
        active = _ENTRY + "WHERE v.path = ? AND v.status = 'active'"
        row = db.execute(active, (entry.path,)).fetchone()
        current = None if row is None else entry_from(self._scope, row)
        last = db.execute("SELECT max(version) FROM versions WHERE path = ?", (entry.path,))
        new = stamp.published(entry, (last.fetchone()[0] or 0) + 1, current, expected)
        if new.tainted:
            new = replace(new, handle=self._handle(db, new.path))
        revision = self._revise(db, restored=new.act == "restore")
        if current is not None:
            self._end(db, current, "superseded", revision, new.decided_by)
        rowid = db.execute(
            "INSERT INTO versions (path, version, status, labelled, handle, born, date, digest, "
            "family, change_id, provenance) VALUES (?, ?, 'active', ?, ?, ?, ?, ?, ?, ?, ?) "
            "RETURNING id",
            (
                new.path,
                new.version,
                int(new.tainted),
                new.handle,
                revision,
                new.date,
                new.digest,
                family_of(new.source_session) if new.source_session is not None else None,
                new.change_id,
                json.dumps(provenance(new)),
            ),
        ).fetchone()[0]
        texts = (new.description, new.content)
        db.execute("INSERT INTO texts (id, description, content) VALUES (?, ?, ?)", (rowid, *texts))
        fts.add(db, _TABLES[new.tainted], rowid, new.path, *texts)
        return new

    def _handle(self, db: sqlite3.Connection, path: str) -> str:
        while True:
            db.execute("INSERT OR IGNORE INTO handles VALUES (?, ?)", (path, stamp.new_handle()))
            row = db.execute("SELECT handle FROM handles WHERE path = ?", (path,)).fetchone()
            if row is not None:  # else the handle was another path's: draw again
                return str(row[0])

    def _revise(self, db: sqlite3.Connection, *, restored: bool) -> int:
        sql = "UPDATE meta SET revision = revision + 1 RETURNING revision"
        row = db.execute(sql).fetchone()
        revision: int = row[0] if row is not None and _whole(row) else damaged()
        if restored:
            db.execute("UPDATE meta SET epoch = revision")
        return revision

    def _end(
        self, db: sqlite3.Connection, entry: Entry, status: str, revision: int, by: str | None
    ) -> None:
        rowid = db.execute(
            "UPDATE versions SET status = ?, ended = ?, ended_date = ?, ended_by = ? "
            "WHERE path = ? AND status = 'active' RETURNING id",
            (status, revision, now(), by, entry.path),
        ).fetchone()[0]
        texts = (entry.path, entry.description, entry.content)
        fts.remove(db, _TABLES[entry.tainted], rowid, *texts)

    def retire(self, path: str, owner: str) -> None:
        """Stop serving a path; see `Backend.retire`."""
        if not self.history(path):
            raise NotFound("no entry of that path")
        db = self._writer()
        with self._pool.transaction(db):
            sql = _ENTRY + "WHERE v.path = ? AND v.status = 'active'"
            row = db.execute(sql, (path,)).fetchone()
            if row is not None:
                revision = self._revise(db, restored=True)
                self._end(db, entry_from(self._scope, row), "retired", revision, owner)

    def next_generation(self) -> None:
        """Stop serving the run notes there are."""
        db = self._writer()
        with self._pool.transaction(db):
            db.execute("UPDATE meta SET generation = generation + 1")

    def accept_ledger(self, ledger: str, owner: str) -> None:
        """Record that a ledger's loss of its predecessor is accepted, by whom and when."""
        db = self._writer()
        with self._pool.transaction(db):
            db.execute("UPDATE meta SET accepted_ledger = ?", (ledger,))
            db.execute("INSERT INTO losses VALUES (?, ?, ?)", (ledger, owner, now()))

    def recover(self) -> None:
        """Roll back what a dead owner's process left; nearly always there is nothing to do."""
        if self._file.with_name(f"{self._file.name}-journal").exists():
            db = self._writer()
            self._pool.retry(lambda: db.execute("SELECT revision FROM meta").fetchone())


def _whole(numbers: Sequence[object]) -> bool:
    """Tell whether all are numbers that this package writes: a file that was repaired may lack them."""
    return all(type(number) is int and 0 <= number < 2**53 for number in numbers)


def with_base(change: Change, curated: Curated) -> Change:
    """Return a change with the version that it is based on."""
    if change.base_version == 0:
        return change
    return replace(change, base=curated.version(change.path, change.base_version))
