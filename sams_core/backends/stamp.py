"""What every backend stamps on a text it stores, so that no caller passes it in."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sams_core.backend import Standing
from sams_core.errors import (
    InvalidArguments,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    VersionConflict,
)
from sams_core.limits import Limits
from sams_core.records import (
    Change,
    Decision,
    Draft,
    Entry,
    Flag,
    Partition,
    Source,
    now,
)

LEDGER_LOST = (
    "the ledger doesn't know a session whose memory exists; if its loss is accepted, "
    "sams doctor --accept-ledger-loss ends this for new sessions"
)


_OVERHEAD = 64  # bytes, so that empty texts aren't free


def new_id() -> str:
    """Return a random id of 128 bits in hex."""
    return secrets.token_hex(16)


def new_handle() -> str:
    """Return a random handle; the caller keeps it unique within a container."""
    return f"untrusted/{secrets.token_hex(4)}"


def make_change(
    draft: Draft,
    change_id: str,
    sources: tuple[Source, ...],
    base: Entry | None,
    replaced: Sequence[Change],
) -> Change:
    """Return the immutable change for a draft, carrying what it supersedes."""
    change = Change(
        id=change_id,
        scope=draft.scope,
        path=draft.path,
        kind=draft.kind,
        base_version=draft.base_version,
        flags=draft.flags,
        sources=sources,
        tainted=bool(sources),
        digest="",
        description=draft.description,
        content=draft.content,
        author=draft.key.agent,
        source_session=draft.key.session_id if draft.kind == "write" else None,
        rationale=draft.rationale,
        evidence=draft.evidence,
        occurrences=draft.occurrences,
        date=now(),
        base_digest=base.digest if base is not None else None,
        base=base,
    )
    return absorb(change, replaced)


def absorb(change: Change, replaced: Sequence[Change]) -> Change:
    """Return a change that also answers for others by its writer for its path.

    A superseded text's marks stay; its flags stay once a rule, as `superseded <field>`.
    """
    if not replaced:
        return change
    flags = list(change.flags)
    supersedes: list[str] = []
    for old in replaced:
        supersedes += [*old.supersedes, old.id]
        for flag in old.flags:
            again = flag.field.startswith("superseded ")
            field = flag.field if again else f"superseded {flag.field}"
            flags.append(Flag(flag.rule, field, 0, 0, flag.why))
    marks = merge_sources((*(s for old in replaced for s in old.sources), *change.sources))
    return replace(
        change,
        flags=tuple(dict.fromkeys(flags)),
        sources=marks,
        tainted=bool(marks),
        supersedes=tuple(dict.fromkeys((*supersedes, *change.supersedes))),
    )


def forgotten(draft: Draft, change_id: str, successor: str) -> Standing:
    """Return the standing of a replayed change whose successor was decided: its own text is gone."""
    return Standing(make_change(draft, change_id, (), None, ()), "superseded", None, successor)


def check_base(expected: int, base: Entry | None) -> None:
    """Raise `VersionConflict` unless the active version is `expected` (0: there is none)."""
    found = base.version if base is not None else 0
    if expected != found:
        raise VersionConflict(expected, found)


def merge_sources(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Return the first record of each (kind, name)."""
    first: dict[tuple[str, str], Source] = {}
    for source in sources:
        first.setdefault((source.kind, source.name), source)
    return tuple(first.values())


def cap_sources(known: int, new: Sequence[Source], limits: Limits) -> list[Source]:
    """Return the sources that still have room, the rest as one of kind `more`.

    A mark is never refused, and a family's list stays bounded.
    """
    room = max(0, limits.family_sources - known)
    kept = list(new[:room])
    if len(new) > room:
        kept.append(Source("more", "more sources than are kept", None, now()))
    return kept


def check_counts(
    limits: Limits,
    *,
    open_own: int,
    stored_own: int,
    bytes_own: int,
    open_all: int,
    open_agent: int,
) -> None:
    """Raise `LimitExceeded` if another change would be too many for its session or container."""
    if open_own >= limits.session_open:
        raise LimitExceeded("open changes of a session", limits.session_open, open_own)
    if stored_own >= limits.session_stored:
        raise LimitExceeded("stored changes of a session", limits.session_stored, stored_own)
    check_bytes(limits, bytes_own)
    if open_all >= limits.container_open:
        raise LimitExceeded("open changes of a container", limits.container_open, open_all)
    share = int(limits.container_open * limits.agent_share)
    if open_agent >= share:
        raise LimitExceeded("open changes of an agent", share, open_agent)


def check_bytes(limits: Limits, total: int) -> None:
    """Raise `LimitExceeded` if a session's texts, superseded ones and notes included, are too many."""
    if total > limits.session_bytes:
        raise LimitExceeded("stored texts of a session, bytes", limits.session_bytes, total)


def text_size(path: str, description: str, content: str) -> int:
    """Return the bytes that count for a stored text: its UTF-8, and what keeping any text costs."""
    return len(path) + len(description.encode()) + len(content.encode()) + _OVERHEAD


def published(entry: Entry, version: int, current: Entry | None, expected: int) -> Entry:
    """Return an entry as the next version over `current`, sealed; checks the version first."""
    check_base(expected, current)
    if entry.path.startswith("untrusted/"):
        raise InvalidArguments("path: reserved for handles", rule="path")
    base = current.digest if current is not None else None
    return replace(entry, version=version, base_digest=base, status="active").sealed()


def make_note(draft: Draft, sources: tuple[Source, ...], old: Entry | None) -> Entry:
    """Return the next version of a run note, stamped and sealed."""
    return Entry(
        scope=draft.scope,
        path=draft.path,
        version=(old.version if old is not None else 0) + 1,
        description=draft.description,
        content=draft.content,
        tainted=bool(sources),
        sources=sources,
        digest="",
        author=draft.key.agent,
        source_session=draft.key.session_id,
        status="active",
        date=now(),
        act="note",
        base_digest=old.digest if old is not None else None,
    ).sealed()


Shown = tuple[tuple[Entry, ...], tuple[Change, ...], tuple[Entry, ...]]


def hand_out(
    known: tuple[Source, ...],
    limits: Limits,
    partition: Partition,
    entries: Iterable[Entry],
    changes: Iterable[Change],
    notes: Iterable[Entry],
) -> tuple[Shown, tuple[Source, ...]]:
    """Return what a dreaming job may read of a partition, and all that marks what it has read.

    A change brings its base along, whose label counts too.
    """
    clean = partition == "clean"
    shown = (
        tuple(e for e in entries if not (clean and e.tainted)),
        tuple(c for c in changes if not (clean and (c.tainted or (c.base and c.base.tainted)))),
        tuple(n for n in notes if not (clean and n.tainted)),
    )
    bases = tuple(c.base for c in shown[1] if c.base is not None)
    read = (s for part in (*shown, bases) for item in part for s in item.sources)
    marks = merge_sources((*known, *read))
    kept = cap_sources(len(known), marks[len(known) :], limits)
    return shown, merge_sources((*known, *kept))


def snapshot_first() -> PermissionDenied:
    """Return the refusal of a proposal by a job that has read nothing."""
    return PermissionDenied("take a snapshot before proposing", rule="snapshot-first")


def repeated(earlier: Decision, again: Decision, history: Iterable[Entry]) -> Entry | None:
    """Return what the first decision published; raises `NotFound` if this one differs from it."""
    if (earlier.outcome, earlier.digest) != (again.outcome, again.digest):
        raise NotFound(f"that change is not open any more: {earlier.outcome}", rule="not-open")
    return next((e for e in history if e.change_id == earlier.change.id), None)


def superseded() -> NotFound:
    """Return the refusal of a change whose writer rewrote it, and whose successor was decided."""
    return NotFound("that change is not open any more: superseded", rule="not-open")


def ledger_lost() -> Source:
    """Return the mark of a session of which memory exists that the ledger doesn't know."""
    return Source("ledger-lost", LEDGER_LOST, None, now())
