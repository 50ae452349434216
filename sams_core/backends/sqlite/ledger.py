"""The ledger: which sessions there are and what marked them; only ever added to."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from sams_core.backends import stamp
from sams_core.backends.sqlite.connect import Pool
from sams_core.backends.sqlite.private import private_copy
from sams_core.errors import PermissionDenied, StoreFailed
from sams_core.limits import Limits
from sams_core.records import Pin, SessionInfo, SessionKey, Source, now

FILE = "ledger.db"
_SELECT = "SELECT kind, name, origin, first_seen FROM sources WHERE family = ? ORDER BY id"
# Nothing for an unknown family, one row without a kind for one that has no marks.
_KNOWN = (
    "SELECT s.kind, s.name, s.origin, s.first_seen FROM families f "
    "LEFT JOIN sources s ON s.family = f.family WHERE f.family = ? ORDER BY s.id"
)


class Ledger:
    """The ledger of one container, as an agent's process writes it."""

    def __init__(self, pool: Pool, folder: Path, limits: Limits, lost: Callable[[], bool]) -> None:
        self._pool, self._limits, self._lost = pool, limits, lost
        self.file = folder / FILE

    def _db(self) -> sqlite3.Connection:
        return self._pool.writer("ledger", self.file, self._first)

    def check(self) -> None:
        """Raise `StoreFailed` (rule `ledger-gone`) where this thread had another ledger open."""
        self._db()

    def _first(self, db: sqlite3.Connection) -> None:
        values = (secrets.token_hex(16), int(self._lost()))
        db.execute("INSERT INTO meta (id, ledger, lost) VALUES (1, ?, ?)", values)

    def open_session(
        self, key: SessionKey, written: Callable[[bool], bool], accepted: Callable[[], str | None]
    ) -> None:
        """Register or recognise a session; see `Backend.open_session`.

        `written(family_known)` tells whether memory of this session exists, `accepted()` names the
        ledger whose loss of a predecessor an owner has accepted.
        """
        db = self._db()
        if self._known(db, key):
            return
        family_known = self._family_known(db, key)
        meta = self._pool.retry(lambda: db.execute("SELECT ledger, lost FROM meta").fetchone())
        ledger, lost = meta or (None, 1)
        doubtful = written(family_known) or (
            bool(lost) and (ledger is None or accepted() != ledger)
        )
        with self._pool.transaction(db):
            if self._known(db, key):
                return
            db.execute(
                "INSERT INTO sessions (session_id, family, agent, opened) VALUES (?, ?, ?, ?)",
                (key.session_id, key.family, key.agent, now()),
            )
            db.execute(
                "INSERT OR IGNORE INTO families (family, salt) VALUES (?, ?)",
                (key.family, secrets.token_hex(16)),
            )
            if doubtful:
                self._insert(db, key.family, [stamp.ledger_lost()])

    def _known(self, db: sqlite3.Connection, key: SessionKey) -> bool:
        sql = "SELECT agent FROM sessions WHERE session_id = ?"
        row = self._pool.retry(lambda: db.execute(sql, (key.session_id,)).fetchone())
        if row is not None and row[0] != key.agent:
            raise PermissionDenied("that session id is another agent's", rule="other-agent")
        return row is not None

    def _family_known(self, db: sqlite3.Connection, key: SessionKey) -> bool:
        sql = "SELECT 1 FROM families WHERE family = ?"
        return self._pool.retry(lambda: db.execute(sql, (key.family,)).fetchone()) is not None

    def salt(self, family: str) -> str:
        """Return the family's salt for the ids of replayable changes."""
        db = self._db()
        sql = "SELECT salt FROM families WHERE family = ?"
        found = self._pool.retry(lambda: db.execute(sql, (family,)).fetchone())
        if found is None:
            raise StoreFailed("the ledger doesn't know this family any more", rule="damaged")
        return str(found[0])

    def add_sources(self, family: str, sources: Sequence[Source]) -> None:
        """Add marks in one transaction; they are on disk when it returns."""
        db = self._db()
        with self._pool.transaction(db):
            self._insert(db, family, sources)

    def _insert(self, db: sqlite3.Connection, family: str, sources: Sequence[Source]) -> None:
        have = {(row[0], row[1]) for row in db.execute(_SELECT, (family,))}
        new = [s for s in sources if (s.kind, s.name) not in have]
        for s in stamp.cap_sources(len(have), new, self._limits):
            db.execute(
                "INSERT OR IGNORE INTO sources (family, kind, name, origin, first_seen) "
                "VALUES (?, ?, ?, ?, ?)",
                (family, s.kind, s.name, s.origin, s.first_seen),
            )

    def sources(self, family: str) -> tuple[Source, ...]:
        """Return a family's marks, oldest first."""
        db = self._db()
        rows = self._pool.retry(lambda: db.execute(_KNOWN, (family,)).fetchall())
        if not rows:  # its session was opened, so this is another ledger
            raise StoreFailed("the ledger doesn't know this family any more", rule="damaged")
        return tuple(Source(*row) for row in rows if row[0] is not None)

    def pin(self, key: SessionKey, org: tuple[int, int], own: tuple[int, int]) -> Pin:
        """Return the session's pin for the epochs, made from the revisions if there is none.

        `org` and `own` are the (revision, epoch) of the two curated stores now.
        """
        db = self._db()
        name = (key.session_id, org[1], own[1])
        sql = (
            "SELECT org, own, marked FROM pins "
            "WHERE session_id = ? AND org_epoch = ? AND own_epoch = ?"
        )
        row = self._pool.retry(lambda: db.execute(sql, name).fetchone())
        if row is None:
            with self._pool.transaction(db):
                marked = db.execute(_SELECT, (key.family,)).fetchone() is not None
                db.execute(
                    "INSERT OR IGNORE INTO pins VALUES (?, ?, ?, ?, ?, ?)",
                    (*name, org[0], own[0], int(marked)),
                )
                row = db.execute(sql, name).fetchone()
        return Pin(row[0], row[1], bool(row[2]))


def name_of(file: Path, limits: Limits) -> str | None:
    """Return the random name of the ledger in a file, read through a private copy."""
    with private_copy("ledger", file, limits.copy_bytes) as db:
        row = None if db is None else db.execute("SELECT ledger FROM meta").fetchone()
        return None if row is None else str(row[0])


def sessions(file: Path, limits: Limits) -> list[SessionInfo]:
    """Return the sessions of a ledger with their marks, read through a private copy."""
    with private_copy("ledger", file, limits.copy_bytes) as db:
        if db is None:
            return []
        marks: dict[str, list[Source]] = {}
        sql = "SELECT family, kind, name, origin, first_seen FROM sources ORDER BY id"
        for family, *source in db.execute(sql):
            marks.setdefault(family, []).append(Source(*source))
        rows = db.execute("SELECT session_id, agent, opened, family FROM sessions ORDER BY opened")
        return [SessionInfo(i, a, o, tuple(marks.get(f, ()))) for i, a, o, f in rows]
