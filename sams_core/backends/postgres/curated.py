"""Curated memory: reading it, and what its owner does."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from sams_core.backend import Row, Standing
from sams_core.backends import stamp
from sams_core.backends.postgres.base import Base, Role, one
from sams_core.backends.postgres.connect import Connection, Superseded
from sams_core.backends.postgres.rows import (
    ENTRIES,
    as_json,
    entry_from,
    flags_from,
    pack,
    provenance,
    unpack,
)
from sams_core.backends.postgres.words import put
from sams_core.errors import NotFound, ReviewMismatch, VersionConflict
from sams_core.records import Change, Decision, Entry, SessionInfo, Source, now
from sams_core.scopes import family_of

_ACTIVE = ENTRIES + "WHERE v.container = %s AND v.path = %s AND v.status = 'active'"
# The version that a path gets next, whom the server knows, and what is active now, if anything.
_NEXT = (
    "SELECT (SELECT coalesce(max(version), 0) + 1 FROM sams.versions WHERE container = %s "  # noqa: S608
    f"AND path = %s), session_user, found.* FROM (VALUES (1)) one LEFT JOIN ({_ACTIVE}) found ON true"
)


class OwnerVerbs(Base):
    """See `Backend`: what an owner's process does."""

    def recover(self, container: str) -> None:
        """See `Backend.recover`: the database has recovered itself; only the grant is checked."""
        self._need(container, "owner")

    def sessions(self, container: str) -> list[SessionInfo]:
        """See `Backend.sessions`."""
        self._need(container, "owner")
        marks: defaultdict[str, list[Source]] = defaultdict(list)
        for family, kind, name, origin, first in self._pool.rows(
            "SELECT family, kind, name, origin, first_seen FROM sams.sources "
            "WHERE container = %s ORDER BY seq",
            (container,),
        ):
            shown = unpack(origin) if origin is not None else None
            marks[family].append(Source(kind, unpack(name), shown, first))
        rows = self._pool.rows(
            "SELECT session_id, agent, opened, family FROM sams.sessions "
            "WHERE container = %s ORDER BY opened",
            (container,),
        )
        return [SessionInfo(i, a, o, tuple(marks[f])) for i, a, o, f in rows]

    def changes(self, container: str) -> list[Change]:
        """See `Backend.changes`."""
        self._need(container, "owner")

        def work(db: Connection) -> list[Change]:
            found = self._changes(db, "owner", container, "state = 'open'")
            return [change for change, _ in found]

        return self._pool.transaction(work, frozen=True)

    def standing(self, container: str, change_id: str) -> Standing | None:
        """See `Backend.standing`."""
        role = self._need(container, "owner", "agent")
        return self._pool.transaction(
            lambda db: self._judged(db, role, container, change_id), frozen=True
        )

    def _judged(
        self, db: Connection, role: Role, container: str, change_id: str
    ) -> Standing | None:
        found = self._changes(db, role, container, "id = %s", pack(change_id))
        if not found:
            return None
        change, data = found[0]
        state = data["state"]
        decision = self._decision(db, change) if role == "owner" else None
        if decision is not None:
            return Standing(decision.change, decision.outcome, decision)
        successor = data["closed_by"]
        if state == "superseded" and successor is None:  # it may have been rewritten many times
            sql = (
                "SELECT id FROM sams.changes WHERE container = %s AND writer = %s AND path = %s "
                "AND state = 'open'"
            )
            place = (container, data["writer"], change.path)
            row = db.execute(sql.encode(), place).fetchone()
            successor = row[0] if row is not None else data["successor"]
        return Standing(change, state, None, successor if state == "superseded" else None)

    def _decision(self, db: Connection, change: Change) -> Decision | None:
        sql = (
            "SELECT outcome, owner, digest, note, date, flags FROM sams.decisions "
            "WHERE container = %s AND change_id = %s"
        )
        row = db.execute(sql, (change.scope, change.id)).fetchone()
        if row is None:
            return None
        decided = replace(change, digest=row[2], flags=flags_from(row[5]))
        return Decision(decided, row[0], row[1], row[2], unpack(row[3]), row[4])

    def decide(
        self, container: str, decision: Decision, entry: Entry | None, expected: int
    ) -> Entry | None:
        """See `Backend.decide`."""
        self._need(container, "owner")
        change = decision.change

        def work(db: Connection) -> Entry | None:
            if self._judged_before(db, container, change.id) is not None:
                raise Superseded("that change is not open any more")
            db.execute(
                "INSERT INTO sams.decisions (container, change_id, outcome, owner, login, date, "
                "digest, note, flags) VALUES (%s, %s, %s, %s, session_user, %s, %s, %s, %s)",
                (container, change.id, decision.outcome, decision.owner, decision.date)
                + (decision.digest, pack(decision.note))
                + (as_json([flag.to_dict() for flag in change.flags]),),
            )
            return None if entry is None else self._publish(db, container, entry, expected)

        try:
            return self._pool.transaction(work)
        except Superseded:
            earlier = self._pool.transaction(
                lambda db: self._judged_before(db, container, change.id)
            )
            if earlier is None and decision.outcome == "accepted":  # rewritten meanwhile
                raise ReviewMismatch(decision.digest, "") from None
            if earlier is None:
                raise
            return stamp.repeated(earlier, decision, self.history(container, change.path))

    def _judged_before(self, db: Connection, container: str, change_id: str) -> Decision | None:
        standing = self._judged(db, "owner", container, change_id)
        return standing.decision if standing is not None else None

    def publish(self, container: str, entry: Entry, expected: int) -> Entry:
        """See `Backend.publish`."""
        self._need(container, "owner")
        return self._pool.transaction(lambda db: self._publish(db, container, entry, expected))

    def _publish(self, db: Connection, container: str, entry: Entry, expected: int) -> Entry:
        revision = self._revise(db, container, moved=entry.act == "restore")
        place = (container, entry.path)
        version, login, *row = one(db.execute(_NEXT.encode(), (*place, *place)).fetchone())
        current = None if row[0] is None else entry_from(container, row)
        entry = replace(entry, decided_login=login)
        new = stamp.published(entry, version, current, expected)
        if new.tainted:
            new = replace(new, handle=self._handle(db, container, new.path))
        if current is not None:
            self._end(db, container, current, "superseded", revision, new.decided_by)
        texts = (new.description, new.content)
        stored = db.execute(
            "WITH stored AS (INSERT INTO sams.versions (container, path, version, labelled, handle, "
            "born, date, digest, family, change_id, login, sources, provenance) VALUES (%s, %s, %s, "
            "%s, %s, %s, %s, %s, %s, %s, session_user, %s, %s) ON CONFLICT DO NOTHING "
            "RETURNING container, path, version) "
            "INSERT INTO sams.texts SELECT container, path, version, %s, %s FROM stored",
            (container, new.path, new.version, new.tainted, new.handle, revision, new.date)
            + (new.digest, family_of(new.source_session) if new.source_session else None)
            + (new.change_id, as_json([source.to_dict() for source in new.sources]))
            + (as_json(provenance(new)), *map(pack, texts)),
        ).rowcount
        if not stored:
            raise VersionConflict(expected, new.version)
        put(db, container, container, new.tainted, new.path, *texts)
        return new

    def _revise(self, db: Connection, container: str, *, moved: bool) -> int:
        """Take the container's lock and return its next revision."""
        row = db.execute(
            "INSERT INTO sams.meta AS m VALUES (%s, 1, %s) ON CONFLICT (container) DO UPDATE SET "
            "revision = m.revision + 1, epoch = CASE WHEN %s THEN m.revision + 1 ELSE m.epoch END "
            "RETURNING revision",
            (container, int(moved), moved),
        ).fetchone()
        return int(one(row)[0])

    def _handle(self, db: Connection, container: str, path: str) -> str:
        while True:
            db.execute(
                "INSERT INTO sams.handles VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (container, path, stamp.new_handle()),
            )
            sql = "SELECT handle FROM sams.handles WHERE container = %s AND path = %s"
            row = db.execute(sql, (container, path)).fetchone()
            if row is not None:  # else the handle was another path's: draw again
                return str(row[0])

    def _end(
        self, db: Connection, container: str, entry: Entry, status: str, at: int, by: str | None
    ) -> None:
        ended = db.execute(
            "UPDATE sams.versions SET status = %s, ended = %s, ended_date = %s, ended_by = %s "
            "WHERE container = %s AND path = %s AND version = %s AND status = 'active'",
            (status, at, now(), by, container, entry.path, entry.version),
        ).rowcount
        if not ended:
            raise VersionConflict(entry.version, 0)

    def retire(self, container: str, path: str, owner: str) -> None:
        """See `Backend.retire`."""
        self._need(container, "owner")

        def work(db: Connection) -> None:
            sql = "SELECT 1 FROM sams.versions WHERE container = %s AND path = %s LIMIT 1"
            if db.execute(sql, (container, path)).fetchone() is None:
                raise NotFound("no entry of that path")
            # The lock first, so that what is active is read after whoever held it.
            db.execute("SELECT 1 FROM sams.meta WHERE container = %s FOR UPDATE", (container,))
            row = db.execute(_ACTIVE.encode(), (container, path)).fetchone()
            if row is not None:
                revision = self._revise(db, container, moved=True)
                self._end(db, container, entry_from(container, row), "retired", revision, owner)
                db.execute("SELECT sams.unindex(%s, %s)", (container, path))

        self._pool.transaction(work)

    def history(self, container: str, path: str) -> list[Entry]:
        """See `Backend.history`."""
        self._need(container, "owner")
        return self._entries(container, "v.path = %s ORDER BY v.version", path)

    def version_with(self, container: str, digest: str) -> Entry | None:
        """See `Backend.version_with`."""
        self._need(container, "owner")
        return next(iter(self._entries(container, "v.digest = %s", pack(digest))), None)

    def clear_runs(self, container: str) -> int:
        """See `Backend.clear_runs`."""
        self._need(container, "owner")
        rows = self._pool.rows("SELECT sams.clear_runs(%s)", (container,))
        return int(rows[0][0])


def row_from(labelled: bool, values: tuple[Any, ...], text: str) -> Row:
    """Return a line of a listing: path, handle, version, description, date."""
    path, handle, version, description, date = values
    return Row(
        path, handle if labelled else None, version, unpack(description), date, labelled, text
    )
