"""The backend in one process's memory: the executable specification, and the users' test double."""

from __future__ import annotations

import secrets
import sqlite3
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sams_core.backend import Row, Standing, change_id_for
from sams_core.backends import fts, stamp
from sams_core.errors import NotFound, PermissionDenied
from sams_core.limits import Limits
from sams_core.locks import ForkSafeLock, gated
from sams_core.records import (
    Change,
    Decision,
    Draft,
    Entry,
    Partition,
    Pin,
    Receipt,
    SessionInfo,
    SessionKey,
    Source,
    Status,
    now,
)
from sams_core.scopes import ORG, is_handle
from sams_core.search import create_sql, snippet

if TYPE_CHECKING:
    from sams_core.redaction import TextPolicy

_TABLES = {False: "trusted", True: "labelled"}


@dataclass
class _Version:
    entry: Entry
    born: int
    ended: int | None = None


@dataclass
class _Container:
    versions: list[_Version] = field(default_factory=list)
    handles: dict[str, str] = field(default_factory=dict)  # path -> handle
    revision: int = 0
    epoch: int = 0  # the revision of the last retirement or restoration
    sessions: dict[str, SessionInfo] = field(default_factory=dict)
    salts: dict[str, str] = field(default_factory=dict)
    sources: dict[str, list[Source]] = field(default_factory=dict)
    pins: dict[tuple[str, int, int], Pin] = field(default_factory=dict)
    spool: dict[str, tuple[Change, str]] = field(default_factory=dict)  # id -> change, writer
    decisions: dict[str, Decision] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)  # superseded id -> the decided one
    notes: dict[tuple[str, str], Entry] = field(default_factory=dict)
    note_replays: dict[str, Receipt] = field(default_factory=dict)
    read_by: dict[str, tuple[Source, ...]] = field(default_factory=dict)  # dreaming jobs

    def current(self, path: str) -> Entry | None:
        for version in reversed(self.versions):
            if version.entry.path == path:
                return version.entry if version.entry.status == "active" else None
        return None


@gated
class MemoryBackend:
    """Keep everything in this process; gone with it. Limits can be given for tests."""

    durable = False
    inline = True

    def __init__(self, limits: Limits | None = None, policy: TextPolicy | None = None) -> None:
        self.limits = limits or Limits()
        self.policy = policy
        self.location = f"memory:{id(self):x}:{secrets.token_hex(8)}"
        self._containers: dict[str, _Container] = {}
        self._lock = ForkSafeLock()
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._db.close)
        self._tables: set[str] = set()

    def _at(self, container: str) -> _Container:
        return self._containers.setdefault(container, _Container())

    def _table(self, container: str, labelled: bool) -> str:
        name = f"{_TABLES[labelled]}_{fts.partition(container)}"
        if name not in self._tables:
            self._db.execute(create_sql(name))
            self._tables.add(name)
        return name

    # Sessions and marks.

    def open_session(self, key: SessionKey) -> None:
        """See `Backend.open_session`."""
        with self._lock:
            at = self._at(key.container)
            known = at.sessions.get(key.session_id)
            if known is not None:
                if known.agent != key.agent:
                    raise PermissionDenied("that session id is another agent's", rule="other-agent")
                return
            at.sessions[key.session_id] = SessionInfo(key.session_id, key.agent, now())
            at.salts.setdefault(key.family, secrets.token_hex(16))

    def add_sources(self, container: str, family: str, sources: Sequence[Source]) -> None:
        """See `Backend.add_sources`."""
        with self._lock:
            have = self._at(container).sources.setdefault(family, [])
            names = {(s.kind, s.name) for s in have}
            new = [s for s in sources if (s.kind, s.name) not in names]
            have[:] = stamp.merge_sources([*have, *stamp.cap_sources(len(have), new, self.limits)])

    def sources(self, container: str, family: str) -> tuple[Source, ...]:
        """See `Backend.sources`."""
        with self._lock:
            return tuple(self._at(container).sources.get(family, ()))

    def pin(self, key: SessionKey) -> Pin:
        """See `Backend.pin`."""
        with self._lock:
            org, own = self._at(ORG), self._at(key.container)
            marked = bool(own.sources.get(key.family))
            name = (key.session_id, org.epoch, own.epoch)
            return own.pins.setdefault(name, Pin(org.revision, own.revision, marked))

    # An agent's texts.

    def run_write(self, draft: Draft) -> Receipt:
        """See `Backend.run_write`."""
        with self._lock:
            at, family = self._at(draft.key.container), draft.key.family
            replay = change_id_for(at.salts[family], draft.replay) if draft.replay else None
            if replay in at.note_replays:
                return at.note_replays[replay]
            old = at.notes.get((draft.scope, draft.path))
            stamp.check_base(draft.base_version, old)
            stamp.check_bytes(self.limits, self._used(at, family) + _size(draft))
            sources = self.sources(draft.key.container, family)
            entry = stamp.make_note(draft, sources, old)
            at.notes[draft.scope, draft.path] = entry
            receipt = Receipt("stored", draft.path, entry.version, None, "stored")
            if replay:
                at.note_replays[replay] = receipt
            return receipt

    def submit(self, draft: Draft) -> Standing:
        """See `Backend.submit`."""
        with self._lock:
            container, writer = draft.key.container, _writer(draft.kind, draft.key)
            at = self._at(container)
            change_id = stamp.new_id()
            if draft.replay:
                change_id = change_id_for(at.salts[draft.key.family], draft.replay)
                if change_id in at.closed:
                    return stamp.forgotten(draft, change_id, at.closed[change_id])
                first = self.standing(container, change_id)
                if first is not None:
                    return first
            stamp.check_base(draft.base_version, at.current(draft.path))
            opened = self._open(at)
            own = [c for c, by in at.spool.values() if by == writer]
            previous = [c for c in own if c.id in opened and c.path == draft.path]
            stamp.check_counts(
                self.limits,
                open_own=sum(c.id in opened for c in own) - len(previous),
                stored_own=len(own),
                bytes_own=self._used(at, writer) + _size(draft),
                open_all=len(opened) - len(previous),
                open_agent=sum(
                    c.author == draft.key.agent and c not in previous for c in opened.values()
                ),
            )
            if draft.kind == "proposal":
                if draft.key.session_id not in at.read_by:
                    raise stamp.snapshot_first()
                sources = at.read_by[draft.key.session_id]
            else:
                sources = self.sources(container, draft.key.family)
            change = stamp.make_change(draft, change_id, sources, at.current(draft.path), previous)
            at.spool[change_id] = (change, writer)
            return Standing(change, "open")

    def _used(self, at: _Container, writer: str) -> int:
        texts = sum(_size(c) for c, by in at.spool.values() if by == writer)
        return texts + sum(_size(n) for n in at.notes.values() if _family(n) == writer)

    def _open(self, at: _Container) -> dict[str, Change]:
        gone = {i for change, _ in at.spool.values() for i in change.supersedes}
        return {i: c for i, (c, _) in at.spool.items() if i not in gone}

    def _with_bases(self, at: _Container, changes: Iterable[Change]) -> list[Change]:
        """Return changes with their bases as those are now: a base may have been superseded since."""
        now = {(v.entry.path, v.entry.version): v.entry for v in at.versions}
        return [replace(c, base=now.get((c.path, c.base_version))) for c in changes]

    def own_change(self, key: SessionKey, path: str) -> Change | None:
        """See `Backend.own_change`."""
        with self._lock:
            at = self._at(key.container)
            writer = _writer("write", key)
            found = [c for c in self._open(at).values() if c.path == path]
            return next((c for c in reversed(found) if at.spool[c.id][1] == writer), None)

    # Reading.

    def read(self, container: str, scope: str, path: str) -> Entry | None:
        """See `Backend.read`."""
        with self._lock:
            at = self._at(container)
            if scope != container:
                return at.notes.get((scope, path))
            if is_handle(path):
                path = next((p for p, handle in at.handles.items() if handle == path), path)
                entry = at.current(path)
                return entry if entry is not None and entry.tainted else None
            return at.current(path)

    def index(
        self,
        container: str,
        scope: str,
        labelled: bool,
        after: str,
        limit: int,
        at: int | None = None,
        contents: int = 0,
    ) -> list[Row]:
        """See `Backend.index`."""
        with self._lock:
            held = self._at(container)
            if scope != container:
                entries = [e for (s, _), e in held.notes.items() if s == scope]
            elif at is None:
                entries = [v.entry for v in held.versions if v.entry.status == "active"]
            else:
                entries = [
                    v.entry
                    for v in held.versions
                    if v.born <= at and (v.ended is None or v.ended > at)
                ]
            rows = [_row(e, e.content if len(e.content) <= contents else "") for e in entries]
            rows = [row for row in rows if row.tainted == labelled and row.key > after]
            return sorted(rows, key=lambda row: row.key)[:limit]

    def search(
        self, container: str, scope: str, labelled: bool, query: str, limit: int
    ) -> list[Row]:
        """See `Backend.search`."""
        with self._lock:
            held = self._at(container)
            table = self._table(container, labelled)
            if scope == container:
                ids = fts.find(self._db, table, query, limit)
                entries = [held.versions[i].entry for i in ids]
            else:
                entries = self._search_notes(held, scope, labelled, query, limit)
            return [_row(e, snippet(e.content, query)) for e in entries]

    def _search_notes(
        self, held: _Container, scope: str, labelled: bool, query: str, limit: int
    ) -> list[Entry]:
        notes = [e for (s, _), e in held.notes.items() if s == scope and e.tainted == labelled]
        db = sqlite3.connect(":memory:")
        db.execute(create_sql("notes"))
        for rowid, note in enumerate(notes):
            fts.add(db, "notes", rowid, note.path, note.description, note.content)
        found = [notes[i] for i in fts.find(db, "notes", query, limit)]
        db.close()
        return found

    def check_separation(self, container: str) -> None:
        """See `Backend.check_separation`: one process's memory separates nobody."""
        raise PermissionDenied("memory of one process separates nobody", rule="separation")

    # A dreaming job.

    def snapshot(
        self, container: str, job: str, partition: Partition
    ) -> tuple[tuple[Entry, ...], tuple[Change, ...], tuple[Entry, ...]]:
        """See `Backend.snapshot`."""
        with self._lock:
            at = self._at(container)
            active = (v.entry for v in at.versions if v.entry.status == "active")
            entries = sorted(active, key=lambda e: e.path)
            notes = sorted(at.notes.values(), key=lambda n: (n.scope, n.path))
            changes = self._with_bases(at, self._open(at).values())
            known = at.read_by.get(job, ())
            shown, at.read_by[job] = stamp.hand_out(
                known, self.limits, partition, entries, changes, notes
            )
            return shown

    # The owner.

    def recover(self, container: str) -> None:
        """See `Backend.recover`: nothing outlives this process."""

    def sessions(self, container: str) -> list[SessionInfo]:
        """See `Backend.sessions`."""
        with self._lock:
            at = self._at(container)
            return [
                replace(info, sources=tuple(at.sources.get(info.session_id.split("/")[0], ())))
                for info in at.sessions.values()
            ]

    def changes(self, container: str) -> list[Change]:
        """See `Backend.changes`."""
        with self._lock:
            at = self._at(container)
            return self._with_bases(at, self._open(at).values())

    def standing(self, container: str, change_id: str) -> Standing | None:
        """See `Backend.standing`."""
        with self._lock:
            at = self._at(container)
            decision = at.decisions.get(change_id)
            if decision is not None:
                (change,) = self._with_bases(at, [decision.change])
                return Standing(change, decision.outcome, decision)
            if change_id in at.closed:
                raise stamp.superseded()
            if change_id not in at.spool:
                return None
            (change,) = self._with_bases(at, [at.spool[change_id][0]])
            later = [c for c, _ in at.spool.values() if change_id in c.supersedes]
            if later:
                return Standing(change, "superseded", None, later[-1].id)
            return Standing(change, "open")

    def decide(
        self, container: str, decision: Decision, entry: Entry | None, expected: int
    ) -> Entry | None:
        """See `Backend.decide`."""
        with self._lock:
            at, change = self._at(container), decision.change
            earlier = at.decisions.get(change.id)
            if earlier is not None:
                return stamp.repeated(earlier, decision, self.history(container, change.path))
            if change.id in at.closed:
                raise stamp.superseded()
            published = None if entry is None else self.publish(container, entry, expected)
            at.decisions[change.id] = decision
            at.spool.pop(change.id, None)
            for gone in change.supersedes:
                at.spool.pop(gone, None)
                at.closed[gone] = change.id
            return published

    def publish(self, container: str, entry: Entry, expected: int) -> Entry:
        """See `Backend.publish`."""
        with self._lock:
            at = self._at(container)
            current = at.current(entry.path)
            version = 1 + sum(v.entry.path == entry.path for v in at.versions)
            handle = at.handles.get(entry.path)
            while entry.tainted and handle is None:
                handle = stamp.new_handle()
                handle = None if handle in at.handles.values() else handle
            shown = handle if entry.tainted else None
            new = replace(stamp.published(entry, version, current, expected), handle=shown)
            if handle is not None:
                at.handles[entry.path] = handle
            at.revision += 1
            if current is not None:
                self._end(at, entry.path, "superseded", entry.decided_by)
            table = self._table(container, new.tainted)
            fts.add(self._db, table, len(at.versions), new.path, new.description, new.content)
            at.versions.append(_Version(new, at.revision))
            if new.act == "restore":
                at.epoch = at.revision
            return new

    def _end(self, at: _Container, path: str, status: Status, by: str | None) -> None:
        for rowid, version in enumerate(at.versions):
            entry = version.entry
            if entry.path == path and entry.status == "active":
                version.ended = at.revision
                version.entry = replace(entry, status=status, ended=now(), ended_by=by)
                table = self._table(entry.scope, entry.tainted)
                texts = (entry.path, entry.description, entry.content)
                fts.remove(self._db, table, rowid, *texts)

    def retire(self, container: str, path: str, owner: str) -> None:
        """See `Backend.retire`."""
        with self._lock:
            at = self._at(container)
            if not self.history(container, path):
                raise NotFound("no entry of that path")
            if at.current(path) is not None:
                at.revision += 1
                at.epoch = at.revision
                self._end(at, path, "retired", owner)

    def history(self, container: str, path: str) -> list[Entry]:
        """See `Backend.history`."""
        with self._lock:
            return [v.entry for v in self._at(container).versions if v.entry.path == path]

    def version_with(self, container: str, digest: str) -> Entry | None:
        """See `Backend.version_with`."""
        with self._lock:
            found = (v.entry for v in self._at(container).versions if v.entry.digest == digest)
            return next(found, None)

    def clear_runs(self, container: str) -> int:
        """See `Backend.clear_runs`."""
        with self._lock:
            at = self._at(container)
            count = len(at.notes)
            at.notes.clear()
            at.note_replays.clear()
            return count

    def close(self) -> None:
        """See `Backend.close`: there is nothing to release."""


def _size(text: Draft | Change | Entry) -> int:
    return stamp.text_size(text.path, text.description, text.content)


def _family(note: Entry) -> str:
    return (note.source_session or "").split("/")[0]


def _writer(kind: str, key: SessionKey) -> str:
    return key.family if kind == "write" else f"{key.session_id}/"  # no family has a slash


def _row(entry: Entry, text: str) -> Row:
    handle = entry.handle if entry.tainted else None
    return Row(
        entry.path, handle, entry.version, entry.description, entry.date, entry.tainted, text
    )
