"""The agent's verbs: sessions and marks, notes, and the queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sams_core.backend import Standing, change_id_for
from sams_core.backends import stamp
from sams_core.backends.postgres.base import Base, Role, one
from sams_core.backends.postgres.connect import Connection
from sams_core.backends.postgres.rows import NOTE, as_json, note_from, pack, sources_from
from sams_core.backends.postgres.words import put
from sams_core.errors import PermissionDenied, VersionConflict
from sams_core.records import (
    Change,
    Draft,
    Entry,
    Pin,
    Receipt,
    SessionKey,
    Source,
)

# Without a grant no row comes back, while a family without marks gives one of nothing.
_MARKS = (
    "SELECT s.kind, s.name, s.origin, s.first_seen FROM "
    "(SELECT FROM sams.grants WHERE container = %s AND role <> 'dreamer' LIMIT 1) g "
    "LEFT JOIN sams.sources s ON s.container = %s AND s.family = %s ORDER BY s.seq"
)


class AgentVerbs(Base):
    """See `Backend`: what an agent's process does, and a dreaming job's proposal."""

    def open_session(self, key: SessionKey) -> None:
        """See `Backend.open_session`."""
        self._may.discard(("agent", key.container))  # what the login may is asked anew here
        self._need(key.container, "agent")
        found = self._pool.rows(
            "SELECT sams.open_session(%s, %s, %s)", (key.container, key.session_id, key.agent)
        )
        if found[0][0] != key.agent:
            raise PermissionDenied("that session id is another agent's", rule="other-agent")

    def add_sources(self, container: str, family: str, sources: Sequence[Source]) -> None:
        """See `Backend.add_sources`."""
        self._need(container, "agent")
        marks = as_json([source.to_dict() for source in sources])
        self._pool.rows(
            "SELECT sams.add_sources(%s, %s, %s, %s)",
            (container, family, marks, self.limits.family_sources),
        )

    def sources(self, container: str, family: str) -> tuple[Source, ...]:
        """See `Backend.sources`."""
        self._need(container, "agent", "owner")
        names = ("kind", "name", "origin", "first_seen")
        rows = self._pool.rows(_MARKS, (container, container, family))
        if not rows:
            raise PermissionDenied("this login has no grant for that", rule="no-grant")
        return sources_from([dict(zip(names, row, strict=True)) for row in rows if row[0]])

    def pin(self, key: SessionKey) -> Pin:
        """See `Backend.pin`."""
        self._need(key.container, "agent")
        rows = self._pool.rows(
            "SELECT org, own, marked FROM sams.pin(%s, %s)", (key.container, key.session_id)
        )
        return Pin(*rows[0])

    # Notes.

    def run_write(self, draft: Draft) -> Receipt:
        """See `Backend.run_write`."""
        self._need(draft.key.container, "agent")
        return self._pool.transaction(lambda db: self._run_write(db, draft))

    def _run_write(self, db: Connection, draft: Draft) -> Receipt:
        key = draft.key
        counts = self._counts(db, "agent", draft, key.family)
        replay = change_id_for(counts["salt"], draft.replay) if draft.replay else None
        if replay is not None:
            sql = "SELECT path, version FROM sams.replays WHERE container = %s AND id = %s"
            seen = db.execute(sql, (key.container, replay)).fetchone()
            if seen is not None:
                return Receipt("stored", seen[0], seen[1], None, "stored")
        old = self._note(db, key.container, draft.scope, draft.path)
        stamp.check_base(draft.base_version, old)
        size = stamp.text_size(draft.path, draft.description, draft.content)
        stamp.check_bytes(self.limits, counts["bytes_own"] + size)
        texts = (pack(draft.description), pack(draft.content))
        base = old.digest if old is not None else None
        if old is None:
            stored = db.execute(
                "INSERT INTO sams.notes (container, scope, path, version, family, session_id, "
                "agent, login, labelled, base_digest, date, size, description, content) VALUES "
                "(%s, %s, %s, 1, %s, %s, %s, session_user, false, %s, '', 0, %s, %s) "
                "ON CONFLICT DO NOTHING RETURNING version, labelled",
                (key.container, draft.scope, draft.path, key.family, key.session_id, key.agent)
                + (base, *texts),
            ).fetchone()
        else:
            stored = db.execute(
                "UPDATE sams.notes SET session_id = %s, agent = %s, base_digest = %s, "
                "description = %s, content = %s "
                "WHERE container = %s AND scope = %s AND path = %s AND version = %s "
                "RETURNING version, labelled",
                (key.session_id, key.agent, base, *texts)
                + (key.container, draft.scope, draft.path, old.version),
            ).fetchone()
        if stored is None:
            raise VersionConflict(draft.base_version, 0 if old is not None else 1)
        put(db, key.container, draft.scope, stored[1], draft.path, draft.description, draft.content)
        if replay is not None:
            db.execute(
                "INSERT INTO sams.replays VALUES (%s, %s, %s, %s)",
                (key.container, replay, draft.path, stored[0]),
            )
        return Receipt("stored", draft.path, stored[0], None, "stored")

    def _note(self, db: Connection, container: str, scope: str, path: str) -> Entry | None:
        sql = f"SELECT {NOTE} FROM sams.notes WHERE container = %s AND scope = %s AND path = %s"  # noqa: S608
        row = db.execute(sql.encode(), (container, scope, path)).fetchone()
        return None if row is None else note_from(row)

    # The queue.

    def _counts(self, db: Connection, role: Role, draft: Draft, writer: str) -> dict[str, Any]:
        cursor = db.execute(
            "SELECT salt, open_own, stored_own, bytes_own, open_all, open_agent "
            "FROM sams.counts(%s, %s, %s, %s, %s)",
            (role, draft.key.container, writer, draft.path, draft.key.agent),
        )
        row = cursor.fetchone()
        names = ("salt", "open_own", "stored_own", "bytes_own", "open_all", "open_agent")
        return {n: int(v) if n != "salt" else v for n, v in zip(names, one(row), strict=True)}

    def submit(self, draft: Draft) -> Standing:
        """See `Backend.submit`."""
        role: Role = "agent" if draft.kind == "write" else "dreamer"
        self._need(draft.key.container, role)
        return self._pool.transaction(lambda db: self._submit(db, role, draft))

    def _submit(self, db: Connection, role: Role, draft: Draft) -> Standing:
        key, container = draft.key, draft.key.container
        writer = key.family if role == "agent" else f"{key.session_id}/"
        counts = self._counts(db, role, draft, writer)
        change_id = stamp.new_id()
        if draft.replay is not None:
            change_id = change_id_for(counts["salt"], draft.replay)
            first = self._standing(db, role, container, change_id)
            if first is not None:
                return first
        size = stamp.text_size(draft.path, draft.description, draft.content)
        own = {n: counts[n] for n in ("open_own", "stored_own", "open_all", "open_agent")}
        self._check_base(db, role, draft)
        stamp.check_counts(self.limits, bytes_own=counts["bytes_own"] + size, **own)
        db.execute(
            "INSERT INTO sams.changes (container, id, kind, writer, path, agent, session_id, "
            "login, base_version, description, content, flags, rationale, evidence, occurrences, "
            "date, size) VALUES (%s, %s, %s, %s, %s, %s, %s, session_user, %s, %s, %s, %s, %s, "
            "%s, %s, '', 0)",
            (container, change_id, draft.kind, writer, draft.path, key.agent)
            + (key.session_id if draft.kind == "write" else None, draft.base_version)
            + (pack(draft.description), pack(draft.content))
            + (as_json([flag.to_dict() for flag in draft.flags]), pack(draft.rationale))
            + (as_json(list(draft.evidence)), draft.occurrences),
        )
        standing = self._standing(db, role, container, change_id)
        return one(standing)

    def _check_base(self, db: Connection, role: Role, draft: Draft) -> None:
        """Check the version before the counts, as other stores do; the trigger checks it again."""
        if role == "dreamer":
            return
        sql = (
            "SELECT version FROM sams.versions WHERE container = %s AND path = %s "
            "AND status = 'active'"
        )
        row = db.execute(sql, (draft.key.container, draft.path)).fetchone()
        found = row[0] if row is not None else 0
        if found != draft.base_version:
            raise VersionConflict(draft.base_version, found)

    def _standing(
        self, db: Connection, role: Role, container: str, change_id: str
    ) -> Standing | None:
        found = self._changes(db, role, container, "id = %s", pack(change_id))
        if not found:
            return None
        change, data = found[0]
        successor = data["closed_by"] or data["successor"]
        return Standing(
            change, data["state"], None, successor if data["state"] == "superseded" else None
        )

    def own_change(self, key: SessionKey, path: str) -> Change | None:
        """See `Backend.own_change`."""
        self._need(key.container, "agent")
        where = "writer = %s AND path = %s AND state = 'open'"
        sql = f"SELECT 1 FROM sams.changes WHERE container = %s AND {where}"  # noqa: S608 - ours
        if not self._pool.rows(sql, (key.container, key.family, path)):
            return None

        def work(db: Connection) -> Change | None:
            found = self._changes(db, "agent", key.container, where, key.family, path)
            return found[0][0] if found else None

        return self._pool.transaction(work)

    def check_separation(self, container: str) -> None:
        """See `Backend.check_separation`: this login must be no owner here, and bound by policies."""
        self._need(container, "agent")
        sql = "SELECT 1 FROM sams.grants WHERE login = session_user AND container = %s AND role = 'owner'"
        if self._pool.rows(sql, (container,)):
            raise PermissionDenied("this login is the owner's too", rule="separation")
