"""The SQLite backend: four stores a container, kept apart by who may write which."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from sams_core.backend import Row, Standing, change_id_for
from sams_core.backends import stamp
from sams_core.backends.sqlite import ledger as ledgers
from sams_core.backends.sqlite import runs as notes
from sams_core.backends.sqlite.connect import Pool
from sams_core.backends.sqlite.curated import Curated, with_base
from sams_core.backends.sqlite.folders import CURATED, LEDGER, QUEUE, RUNS, Folders
from sams_core.backends.sqlite.ledger import Ledger
from sams_core.backends.sqlite.runs import Runs
from sams_core.backends.sqlite.spool import (
    Name,
    Spool,
    agent_part,
    path_part,
    spool_of,
)
from sams_core.errors import InvalidArguments, StoreFailed
from sams_core.limits import Limits
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
    State,
)
from sams_core.scopes import ORG, check_container


class SQLiteBackend:
    """Memory in a directory, with SQLite; one object may serve agents, owner and dreamer.

    No owner verb opens a database that an agent's process can write. `directory` may hold any
    characters. Durability: decisions and marks survive a power cut once a call has returned, changes
    too; run notes survive a killed process.
    """

    durable = True

    def __init__(self, directory: str | os.PathLike[str], limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        base = Path(os.path.abspath(directory))
        self.location = f"sqlite:{base}"
        self.folders = Folders(base)
        self._pool = Pool()
        self._read_by: dict[str, dict[str, tuple[Source, ...]]] = {}

    def __repr__(self) -> str:
        return f"SQLiteBackend({str(self.folders.base)!r})"

    # The stores.

    def _curated(self, container: str) -> Curated:
        folder = self.folders.store(container, CURATED)
        return Curated(self._pool, folder, container, lambda: self.folders.make(container, CURATED))

    def _spool(self, container: str) -> Spool:
        return Spool(self.folders.store(container, QUEUE), container)

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
        """Tell whether anything of an agent lies here, which a new ledger can't know of."""
        runs = self.folders.store(container, RUNS)
        return (
            any(name.kind == "w" for name in self._spool(container).names())
            or (runs.is_dir() and any(file.suffix == ".db" for file in runs.iterdir()))
            or self._curated(container).knows_any_family()
        )

    # Sessions and marks.

    def open_session(self, key: SessionKey) -> None:
        """See `Backend.open_session`."""

        def written(family_known: bool) -> bool:
            runs = self._runs(key.container)
            if family_known:
                return runs.known(family=key.family, scope=f"run:{key.session_id}")
            return (
                runs.known(family=key.family, scope=None)
                or bool(spool_of(key, "write", self._spool(key.container).names()))
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
        return self._ledger(key.container).pin(key, org[:2], own[:2])

    # An agent's texts.

    def run_write(self, draft: Draft) -> Receipt:
        """See `Backend.run_write`."""
        container, family = draft.key.container, draft.key.family
        ledger = self._ledger(container)
        replay = change_id_for(ledger.salt(family), draft.replay) if draft.replay else None
        self.folders.make(container, RUNS)
        spooled = sum(
            name.size for name in spool_of(draft.key, "write", self._spool(container).names())
        )
        return self._runs(container).write(draft, replay, lambda: ledger.sources(family), spooled)

    def submit(self, draft: Draft) -> Standing:
        """See `Backend.submit`."""
        container, key = draft.key.container, draft.key
        curated, spool = self._curated(container), self._spool(container)
        change_id = stamp.new_id()
        if draft.replay is not None:
            change_id = change_id_for(self._ledger(container).salt(key.family), draft.replay)
            first = self.standing(container, change_id)
            if first is not None:
                return first
            successor = curated.closed_by(change_id)
            if successor is not None:
                return stamp.forgotten(draft, change_id, successor)
        base = curated.read(draft.path)
        stamp.check_base(draft.base_version, base)
        names = spool.names()
        previous = self._open_own(key, draft.kind, draft.path, names)
        self._check_counts(draft, names, spool_of(key, draft.kind, names), replaces=bool(previous))
        if draft.kind == "proposal":
            sources = stamp.job_sources(self._read_by.get(container, {}), key.session_id)
        else:
            sources = self._ledger(container).sources(key.family)
        change = stamp.make_change(draft, change_id, sources, base, previous)
        self.folders.make(container, QUEUE)
        file = spool.add(change)
        if draft.replay is not None:
            # Two processes may replay one call at once: the older file is the change.
            first_file = next((n.file for n in spool.names() if n.id == change_id), file)
            if first_file != file:
                spool.remove(file)
        return self.standing(container, change_id) or Standing(change, "open")

    def _check_counts(
        self, draft: Draft, names: list[Name], own: list[Name], *, replaces: bool
    ) -> None:
        """Count from names: what is open has a writer and a path of its own."""
        less = int(replaces)
        agent = agent_part(draft.key.agent)
        used = sum(name.size for name in own)
        if draft.kind == "write":
            used += self._runs(draft.key.container).used(draft.key.family)
        stamp.check_counts(
            self.limits,
            open_own=len({name.path for name in own}) - less,
            stored_own=len(own),
            bytes_own=used + stamp.text_size(draft.description, draft.content),
            open_all=len({(name.writer, name.path) for name in names}) - less,
            open_agent=len({(n.writer, n.path) for n in names if n.agent == agent}) - less,
        )

    def _open(self, container: str, names: list[Name]) -> list[Change]:
        """Return the open changes among files, oldest first: of a writer and path the newest.

        Rewrites that raced didn't name each other; the newest answers for them all the same.
        """
        spool = self._spool(container)
        closed = self._curated(container).closed([name.id for name in names])
        gone: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        found: list[tuple[tuple[str, str], Change]] = []
        for name in reversed(names):  # the newest names what it superseded: that needs no reading
            group = (name.writer, name.path)
            if name.id not in closed and name.id not in gone[group]:
                change = spool.read(name)
                if change is not None:
                    gone[group].update(change.supersedes)
                    found.append((group, change))
        newest: dict[tuple[str, str], Change] = {}
        rest: defaultdict[tuple[str, str], list[Change]] = defaultdict(list)
        for group, change in found:
            if change.id not in gone[group] and newest.setdefault(group, change) is not change:
                rest[group].insert(0, change)
        changes = [stamp.absorb(change, rest[group]) for group, change in newest.items()]
        return [with_base(change, self._curated(container)) for change in reversed(changes)]

    def _open_own(self, key: SessionKey, kind: str, path: str, names: list[Name]) -> list[Change]:
        mine = [name for name in spool_of(key, kind, names) if name.path == path_part(path)]
        return [change for change in self._open(key.container, mine) if change.path == path]

    def own_change(self, key: SessionKey, path: str) -> Change | None:
        """See `Backend.own_change`."""
        names = self._spool(key.container).names()
        return next(iter(self._open_own(key, "write", path, names)), None)

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

    def inline_reads(self) -> AbstractContextManager[bool]:
        """See `Backend.inline_reads`."""
        return self._pool.impatient()

    def check_separation(self, container: str) -> None:
        """See `Backend.check_separation`."""
        self.folders.check_separation(container)

    # A dreaming job.

    def snapshot(
        self, container: str, job: str, partition: Partition
    ) -> tuple[tuple[Entry, ...], tuple[Change, ...], tuple[Entry, ...]]:
        """See `Backend.snapshot`."""
        return stamp.hand_out(
            self._read_by.setdefault(container, {}),
            self.limits,
            job,
            partition,
            self._curated(container).active(),
            self.changes(container),
            notes.all_notes(self._runs_file(container), self.limits),
        )

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
        return self._open(container, self._spool(container).names())

    def standing(self, container: str, change_id: str) -> Standing | None:
        """See `Backend.standing`."""
        curated, spool = self._curated(container), self._spool(container)
        names = spool.names()
        name = next((n for n in names if n.id == change_id), None)
        change = spool.read(name) if name is not None else None
        # In this order: a decided change leaves the queue only after its decision is there to be read.
        decision = curated.decision(change_id)
        if decision is not None:
            return Standing(with_base(decision.change, curated), decision.outcome, decision)
        if name is None or change is None:
            return None
        group = [n for n in names if (n.writer, n.path) == (name.writer, name.path)]
        current = next(iter(self._open(container, group)), None)
        if current is not None and current.id == change_id:
            return Standing(current, "open")
        successor = current.id if current is not None else curated.closed_by(change_id)
        return Standing(with_base(change, curated), "superseded", None, successor)

    def decide(
        self, container: str, decision: Decision, entry: Entry | None, expected: int
    ) -> Entry | None:
        """See `Backend.decide`."""
        published = self._curated(container).decide(decision, entry, expected)
        spool, over = self._spool(container), {decision.change.id, *decision.change.supersedes}
        for name in spool.names():
            if name.id in over:
                spool.remove(name.file)
        return published

    def publish(self, container: str, entry: Entry, expected: int) -> Entry:
        """See `Backend.publish`."""
        return self._curated(container).publish(entry, expected)

    def retire(self, container: str, path: str, owner: str) -> None:
        """See `Backend.retire`."""
        self._curated(container).retire(path)

    def history(self, container: str, path: str) -> list[Entry]:
        """See `Backend.history`."""
        return self._curated(container).history(path)

    def version_with(self, container: str, digest: str) -> Entry | None:
        """See `Backend.version_with`."""
        return self._curated(container).version_with(digest)

    def clear_runs(self, container: str) -> int:
        """See `Backend.clear_runs`."""
        file = self._runs_file(container)
        count = notes.count(file, self.limits)
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
            import grp

            try:
                group = grp.getgrnam(agents_group).gr_gid
            except KeyError:
                raise InvalidArguments("no such group on this machine", rule="group") from None
        self.folders.init(container, group)

    def accept_ledger_loss(self, container: str) -> None:
        """Let new sessions start unmarked although their ledger replaces one that is gone."""
        file = self.folders.store(container, LEDGER) / ledgers.FILE
        name = ledgers.name_of(file, self.limits)
        if name is None:
            raise StoreFailed("there is no ledger yet; open a session first", rule="no-ledger")
        self._curated(container).accept_ledger(name)

    def close(self) -> None:
        """See `Backend.close`."""
        self._pool.close()
