"""The SQLite backend: four stores a container, kept apart by who may write which."""

from __future__ import annotations

import grp
import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sams_core.backend import Row, Standing, change_id_for
from sams_core.backends import stamp
from sams_core.backends.sqlite import ledger as ledgers
from sams_core.backends.sqlite import runs as notes
from sams_core.backends.sqlite.connect import Pool
from sams_core.backends.sqlite.curated import Curated, with_base
from sams_core.backends.sqlite.files import place
from sams_core.backends.sqlite.folders import (
    CURATED,
    LEDGER,
    POLICY_FILE,
    QUEUE,
    RUNS,
    Folders,
    exists,
    keep,
)
from sams_core.backends.sqlite.ledger import Ledger
from sams_core.backends.sqlite.runs import Runs
from sams_core.backends.sqlite.spool import Listing, Name, Spool, agent_part, path_part
from sams_core.errors import InvalidArguments, LimitExceeded, StoreFailed
from sams_core.limits import Limits
from sams_core.locks import gated
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
)
from sams_core.scopes import ORG, check_container

if TYPE_CHECKING:
    from sams_core.redaction import TextPolicy


@gated
class SQLiteBackend:
    """Memory in a directory, with SQLite; one object may serve agents, owner and dreamer.

    No owner verb opens a database that an agent's process can write. `directory` may hold any
    characters; a `sams.toml` in it is the store's text policy, to which `policy` can only add.
    Durability: decisions and marks survive a power cut once a call has returned, changes too; run
    notes survive a killed process.
    """

    durable = True
    inline = True

    def __init__(
        self,
        directory: str | os.PathLike[str],
        limits: Limits | None = None,
        policy: TextPolicy | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.policy = policy
        base = Path(os.path.realpath(directory))
        self.location = f"sqlite:{base}"
        self.policy_file = base / POLICY_FILE
        self.folders = Folders(base)
        self._pool = Pool()
        self._read_by: dict[tuple[str, str], tuple[Source, ...]] = {}  # container and job
        # Kept, because to make one takes a quarter of the time of reading an entry from it.
        self._curateds: dict[str, Curated] = {}
        self._pins: dict[tuple[str, str, int, int], Pin] = {}

    def __repr__(self) -> str:
        return f"SQLiteBackend({str(self.folders.base)!r})"

    # The stores.

    def _curated(self, container: str) -> Curated:
        found = self._curateds.get(container)
        if found is None:
            folder, make = self.folders.store(container, CURATED), self.folders.make
            found = Curated(self._pool, folder, container, lambda: make(container, CURATED))
            keep(self._curateds, container, found)
        return found

    def _spool(self, container: str) -> Spool:
        return Spool(self.folders.store(container, QUEUE), container, self.limits)

    def _ledger(self, container: str) -> Ledger:
        folder = self.folders.make(container, LEDGER)
        return Ledger(self._pool, folder, self.limits, lambda: self._has_memory(container))

    def _runs(self, container: str) -> Runs:
        file = self._runs_file(container)
        return Runs(self._pool, file, self.limits)

    def _runs_file(self, container: str) -> Path:
        generation = self._curated(container).meta()[2]
        return self.folders.store(container, RUNS) / notes.file_name(generation)

    def _has_memory(self, container: str) -> bool:
        """Tell whether something of a session lies here, which a new ledger can't know of.

        Proposals and the owner's own entries need no ledger; a later generation of notes does.
        """
        curated, runs = self._curated(container), self.folders.store(container, RUNS)
        generation = curated.meta()[2]
        return (
            generation > 0
            or exists(runs / notes.file_name(generation))
            or any(name.kind == "w" for name in self._spool(container).listing().names)
            or curated.knows_any_family()
        )

    # Sessions and marks.

    def open_session(self, key: SessionKey) -> None:
        """See `Backend.open_session`."""

        def written(family_known: bool) -> bool:
            runs = self._runs(key.container)
            scope = f"run:{key.session_id}" if family_known else None
            try:
                if runs.known(family=key.family, scope=scope):
                    return True
            except StoreFailed:  # damaged notes may be anybody's
                return True
            return not family_known and (
                bool(self._spool(key.container).listing().of(key, "write"))
                or self._curated(key.container).knows_family(key.family)
            )

        self._ledger(key.container).open_session(
            key, written, lambda: self._curated(key.container).meta()[3]
        )

    def add_sources(self, container: str, family: str, sources: Sequence[Source]) -> None:
        """See `Backend.add_sources`."""
        self._ledger(container).add_sources(family, sources)

    def sources(self, container: str, family: str) -> tuple[Source, ...]:
        """See `Backend.sources`."""
        return self._ledger(container).sources(family)

    def pin(self, key: SessionKey) -> Pin:
        """See `Backend.pin`."""
        org = self._curated(ORG).meta()
        own = self._curated(key.container).meta()
        ledger = self._ledger(key.container)
        ledger.check()
        name = (key.container, key.session_id, org[1], own[1])
        found = self._pins.get(name)  # a pin never changes
        if found is None:
            found = ledger.pin(key, org[:2], own[:2])
            keep(self._pins, name, found)
        return found

    # An agent's texts.

    def run_write(self, draft: Draft) -> Receipt:
        """See `Backend.run_write`."""
        container, family = draft.key.container, draft.key.family
        ledger = self._ledger(container)
        replay = change_id_for(ledger.salt(family), draft.replay) if draft.replay else None
        self.folders.make(container, RUNS)
        spooled = sum(name.size for name in self._spool(container).listing().of(draft.key, "write"))
        return self._runs(container).write(draft, replay, lambda: ledger.sources(family), spooled)

    def submit(self, draft: Draft) -> Standing:
        """See `Backend.submit`."""
        container, key = draft.key.container, draft.key
        curated, spool = self._curated(container), self._spool(container)
        listing = spool.listing()
        change_id = stamp.new_id()
        if draft.replay is not None:
            change_id = change_id_for(self._ledger(container).salt(key.family), draft.replay)
            first = self._replayed(draft, change_id, listing)
            if first is not None:
                return first
        base = curated.read(draft.path)
        stamp.check_base(draft.base_version, base)
        previous = self._open_own(key, draft.kind, draft.path, listing)
        self._check_counts(draft, listing)
        if draft.kind == "proposal":
            read = self._read_by.get((container, key.session_id))
            if read is None:
                raise stamp.snapshot_first()
            # Another process may have read more under this id since.
            sources = stamp.merge_sources((*read, *spool.readings(key.session_id)))
        else:
            sources = self._ledger(container).sources(key.family)
        change = stamp.make_change(draft, change_id, sources, base, previous)
        self.folders.make(container, QUEUE)
        name = spool.add(change)
        if draft.replay is not None:
            # Two processes may replay one call at once: the older file is the change.
            first_name = spool.first(change_id)
            if first_name is not None and first_name != name:
                spool.remove(name)
                change = spool.read(first_name) or change
        return Standing(change, "open")

    def _replayed(self, draft: Draft, change_id: str, listing: Listing) -> Standing | None:
        first = self._standing(draft.key.container, change_id, listing)
        if first is not None:
            return first
        successor = self._curated(draft.key.container).closed_by(change_id)
        return None if successor is None else stamp.forgotten(draft, change_id, successor)

    def _check_counts(self, draft: Draft, listing: Listing) -> None:
        """Count from names: what is open has a writer and a path of its own, which a draft takes over."""
        own = listing.of(draft.key, draft.kind)
        used = stamp.text_size(draft.path, draft.description, draft.content)
        if draft.kind == "write":
            used += self._runs(draft.key.container).used(draft.key.family)
        try:
            self._count(draft, listing.names, own, used)
        except LimitExceeded:  # leftovers of decided changes count only until somebody looks
            closed = self._curated(draft.key.container).closed(listing.names)
            left = [name for name in listing.names if name.id not in closed]
            own = [name for name in own if name.id not in closed]
            self._count(draft, left, own, used)

    def _count(self, draft: Draft, names: list[Name], own: list[Name], used: int) -> None:
        agent, path = agent_part(draft.key.agent), path_part(draft.path)
        mine = {name[19:52] for name in own if name.path == path}
        stamp.check_counts(
            self.limits,
            open_own=len({name.path for name in own} - {path}),
            stored_own=len(own),
            bytes_own=used + sum(name.size for name in own),
            open_all=len({name[19:52] for name in names} - mine),
            open_agent=len({name[19:52] for name in names if name[53:69] == agent} - mine),
        )

    def _open(self, container: str, names: list[Name]) -> list[Change]:
        """Return the open changes among files, oldest first: of a writer and path the newest.

        Rewrites that raced didn't name each other; the newest answers for them all the same.
        """
        if not names:
            return []
        spool, curated = self._spool(container), self._curated(container)
        closed = curated.closed(names)
        gone: defaultdict[str, set[str]] = defaultdict(set)
        found: list[tuple[str, Change]] = []
        for name in reversed(names):  # the newest names what it superseded: that needs no reading
            group = name[19:52]
            if name.id not in closed and name.id not in gone[group]:
                change = spool.read(name)
                if change is not None:
                    gone[group].update(change.supersedes)
                    found.append((group, change))
        newest: dict[str, Change] = {}
        rest: defaultdict[str, list[Change]] = defaultdict(list)
        for group, change in found:
            if change.id not in gone[group] and newest.setdefault(group, change) is not change:
                rest[group].insert(0, change)
        changes = [stamp.absorb(change, rest[group]) for group, change in newest.items()]
        return [with_base(change, curated) for change in reversed(changes)]

    def _open_own(self, key: SessionKey, kind: str, path: str, listing: Listing) -> list[Change]:
        mine = [name for name in listing.of(key, kind) if name.path == path_part(path)]
        return [change for change in self._open(key.container, mine) if change.path == path]

    def own_change(self, key: SessionKey, path: str) -> Change | None:
        """See `Backend.own_change`."""
        listing = self._spool(key.container).listing()
        return next(iter(self._open_own(key, "write", path, listing)), None)

    # Reading.

    def read(self, container: str, scope: str, path: str) -> Entry | None:
        """See `Backend.read`."""
        if scope == container:
            return self._curated(container).read(path)
        return self._runs(container).read(scope, path)

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
        if scope == container:
            return self._curated(container).index(labelled, after, limit, at, contents)
        return self._runs(container).index(scope, labelled, after, limit)

    def search(
        self, container: str, scope: str, labelled: bool, query: str, limit: int
    ) -> list[Row]:
        """See `Backend.search`."""
        if scope == container:
            return self._curated(container).search(labelled, query, limit)
        return self._runs(container).search(scope, labelled, query, limit)

    def check_separation(self, container: str) -> None:
        """See `Backend.check_separation`."""
        self.folders.check_separation(container)

    # A dreaming job.

    def snapshot(
        self, container: str, job: str, partition: Partition
    ) -> tuple[tuple[Entry, ...], tuple[Change, ...], tuple[Entry, ...]]:
        """See `Backend.snapshot`."""
        spool = self._spool(container)
        known = stamp.merge_sources(
            (*spool.readings(job), *self._read_by.get((container, job), ()))
        )
        shown, marks = stamp.hand_out(
            known,
            self.limits,
            partition,
            self._curated(container).active(),
            self.changes(container),
            notes.all_notes(self._runs_file(container), self.limits),
        )
        if len(marks) > len(spool.readings(job)):
            self.folders.make(container, QUEUE)
            spool.add_reading(job, marks)
        self._read_by[container, job] = marks
        return shown

    # The owner.

    def recover(self, container: str) -> None:
        """See `Backend.recover`."""
        self._curated(container).recover()

    def sessions(self, container: str) -> list[SessionInfo]:
        """See `Backend.sessions`."""
        file = self.folders.store(container, LEDGER) / ledgers.FILE
        return ledgers.sessions(file, self.limits)

    def changes(self, container: str) -> list[Change]:
        """See `Backend.changes`."""
        return self._open(container, self._spool(container).listing().names)

    def standing(self, container: str, change_id: str) -> Standing | None:
        """See `Backend.standing`."""
        found = self._standing(container, change_id, self._spool(container).listing())
        if found is None and self._curated(container).closed_by(change_id) is not None:
            raise stamp.superseded()
        return found

    def _standing(self, container: str, change_id: str, listing: Listing) -> Standing | None:
        curated, spool = self._curated(container), self._spool(container)
        name = listing.named(change_id)
        change = spool.read(name) if name is not None else None
        current, successor = None, curated.closed_by(change_id)
        if name is not None and successor is None:
            current = next(iter(self._open(container, listing.beside(name))), None)
            successor = current.id if current is not None else None
        # The decision is read last: a decided change leaves the queue only after that is there.
        decision = curated.decision(change_id)
        if decision is not None:
            return Standing(with_base(decision.change, curated), decision.outcome, decision)
        if change is None:
            return None
        if current is not None and current.id == change_id:
            return Standing(current, "open")
        return Standing(with_base(change, curated), "superseded", None, successor)

    def decide(
        self, container: str, decision: Decision, entry: Entry | None, expected: int
    ) -> Entry | None:
        """See `Backend.decide`."""
        change, curated, spool = decision.change, self._curated(container), self._spool(container)
        listing = spool.listing()
        name = listing.named(change.id)
        # What a file claims to supersede counts for its writer and path alone.
        foreign = {
            other.id for other in listing.names if name is None or other[19:52] != name[19:52]
        }
        closes = [i for i in (change.id, *change.supersedes) if i == change.id or i not in foreign]
        published = curated.decide(decision, closes, entry, expected)
        mine = [
            other for other in listing.names if name is not None and other.writer == name.writer
        ]
        closed = curated.closed(mine)
        for other in mine:  # leftovers of earlier decisions included
            if other.id in closed:
                spool.remove(other)
        return published

    def publish(self, container: str, entry: Entry, expected: int) -> Entry:
        """See `Backend.publish`."""
        return self._curated(container).publish(entry, expected)

    def retire(self, container: str, path: str, owner: str) -> None:
        """See `Backend.retire`."""
        self._curated(container).retire(path, owner)

    def history(self, container: str, path: str) -> list[Entry]:
        """See `Backend.history`."""
        return self._curated(container).history(path)

    def version_with(self, container: str, digest: str) -> Entry | None:
        """See `Backend.version_with`."""
        return self._curated(container).version_with(digest)

    def clear_runs(self, container: str) -> int:
        """See `Backend.clear_runs`."""
        file = self._runs_file(container)
        if place(str(file)) is None and not file.is_symlink():
            return 0
        try:
            count = notes.count(file, self.limits)
        except StoreFailed as error:
            self._curated(container).next_generation()
            raise StoreFailed(
                f"the notes are not served any more, but could not be counted: {error}"
            ) from None
        self._curated(container).next_generation()
        for old in (file, *(file.with_name(f"{file.name}{end}") for end in ("-wal", "-shm"))):
            with suppress(OSError):  # it isn't served any more; a leftover is harmless
                old.unlink(missing_ok=True)
        return count

    # Administration.

    def init_scope(self, container: str, agents_group: str | None = None) -> None:
        """Create a container's folders; the agents' stores are shared with a group if one is named.

        Raises `InvalidArguments` for an unknown group, `StoreFailed` if the system refuses.
        """
        check_container(container)
        group = None
        if agents_group is not None:
            try:
                group = grp.getgrnam(agents_group).gr_gid
            except KeyError:
                raise InvalidArguments(
                    "no such group on this machine: make it, or name one that exists", rule="group"
                ) from None
        self.folders.init(container, group)

    def accept_ledger_loss(self, container: str, owner: str) -> None:
        """Let new sessions start unmarked although their ledger replaces one that is gone.

        `owner` says who answers for that; it is kept with the date. Raises `StoreFailed` (rule
        `no-ledger`) while there is no ledger.
        """
        file = self.folders.store(container, LEDGER) / ledgers.FILE
        name = ledgers.name_of(file, self.limits)
        if name is None:
            raise StoreFailed("there is no ledger yet; open a session first", rule="no-ledger")
        self._curated(container).accept_ledger(name, owner)

    def close(self) -> None:
        """See `Backend.close`."""
        self._pool.close()
