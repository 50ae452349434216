"""The records that cross the public API and the backend contract: frozen, and readable as dicts."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from sams_core.canonical import digest

Kind = Literal["write", "proposal"]
Status = Literal["active", "superseded", "retired", "pending"]
Act = Literal["write", "accept", "endorse", "restore", "edit", "note", "pending"]
State = Literal["stored", "open", "superseded", "accepted", "rejected", "edited"]
Partition = Literal["clean", "all"]


def now() -> str:
    """Return the current time as RFC 3339 text in UTC with microseconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.to_dict() if isinstance(value, Record) else value


@dataclass(frozen=True)
class Record:
    """A frozen record with a plain-data twin."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON-ready data."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.repr}


@dataclass(frozen=True)
class Source(Record):
    """One reason for a mark: kind from a fixed vocabulary, name, first origin, first time."""

    kind: str
    name: str
    origin: str | None
    first_seen: str


SOURCE_KINDS = (
    "user",
    "unobserved",
    "reason",
    "tool",  # a call of what nobody declared
    "retriever",
    "content",  # something in a model's input or output that isn't plainly an insider's
    "history",  # a conversation from elsewhere
    "memory",
    "binding",
    "ledger-lost",
    "login",
    "more",
)


@dataclass(frozen=True)
class Flag(Record):
    """A hint for the reviewer: which rule, in which field, where (code points), and why."""

    rule: str
    field: str
    start: int
    end: int
    why: str


# What changes while a version stays the same version, and the digest itself.
_OUTSIDE_THE_DIGEST = ("digest", "status", "pending", "handle", "ended", "ended_by")


@dataclass(frozen=True)
class Entry(Record):
    """One version of one piece of memory.

    `tainted` says that it is labelled: outsiders influenced it, `sources` say how. `act` is what
    published this version, `decided_by` who did, `why` the reason they gave, `based_on` the digest
    of the version or the change it was made from; `ended` and `ended_by` tell when and by whom it
    stopped being served. `login` and `decided_login` are the database's logins of author and
    decider, None where the store knows no logins.
    """

    scope: str
    path: str
    version: int
    description: str
    content: str
    tainted: bool
    sources: tuple[Source, ...]
    digest: str
    author: str
    source_session: str | None
    status: Status
    pending: Entry | None = None
    date: str = ""
    act: Act = "write"
    decided_by: str | None = None
    why: str | None = None
    base_digest: str | None = None
    based_on: str | None = None
    change_id: str | None = None
    handle: str | None = None
    ended: str | None = None
    ended_by: str | None = None
    login: str | None = None
    decided_login: str | None = None

    def with_pending(self, pending: Entry | None) -> Entry:
        """Return the entry beside the family's own open change."""
        return replace(self, pending=pending)

    def sealed(self) -> Entry:
        """Return the entry with the digest over scope, path, version, text, label and provenance."""
        covered = {
            name: value for name, value in self.to_dict().items() if name not in _OUTSIDE_THE_DIGEST
        }
        return replace(self, digest=digest("entry", covered))


@dataclass(frozen=True)
class Change(Record):
    """A proposed entry awaiting the owner; immutable, under a random id.

    As a backend returns it, `flags` are what the submitter claims and `digest` is empty;
    `review.present` adds the owner's own flags and the digest over all that is shown. `login` is the
    database's login that queued it, None where the store knows no logins.
    """

    id: str
    scope: str
    path: str
    kind: Kind
    base_version: int
    flags: tuple[Flag, ...]
    sources: tuple[Source, ...]
    tainted: bool
    digest: str
    description: str
    content: str
    author: str
    source_session: str | None
    supersedes: tuple[str, ...] = ()
    rationale: str = ""
    evidence: tuple[str, ...] = ()
    occurrences: int = 1
    date: str = ""
    base_digest: str | None = None
    login: str | None = None
    base: Entry | None = field(default=None, repr=False, compare=False)

    def diff(self) -> str:
        """Return the change against its base as visible text: every changed code point shows."""
        from sams_core.visible import diff, visible_line

        old = self.base
        before = "" if old is None else f"{old.description}\n\n{old.content}"
        name = visible_line(self.path)
        return diff(
            before,
            f"{self.description}\n\n{self.content}",
            old_name=f"{name} (version {self.base_version})" if old else "(no entry)",
            new_name=f"{name} (proposed)",
        )


@dataclass(frozen=True)
class Receipt(Record):
    """What became of a write: `stored` (run notes) or `queued` for the owner's review.

    `version` is the note's new version, or the version that a queued change is based on (0: none).
    `state` tells what has happened to the change since, which differs from `open` on a replay only.
    """

    status: Literal["stored", "queued"]
    path: str
    version: int
    change_id: str | None
    state: State = "open"


@dataclass(frozen=True)
class Listing(Record):
    """One line of an index or a search: `path` is a handle where the text may not be shown."""

    scope: str
    path: str
    version: int
    description: str
    date: str
    labelled: bool
    snippet: str


@dataclass(frozen=True)
class Page(Record):
    """A page of listings; `cursor` continues it, None at the end."""

    items: tuple[Listing, ...]
    cursor: str | None


@dataclass(frozen=True)
class Snapshot(Record):
    """What a dreaming job may read: entries, open changes and run notes of one container."""

    entries: tuple[Entry, ...]
    changes: tuple[Change, ...]
    notes: tuple[Entry, ...]
    partition: Partition


@dataclass(frozen=True)
class SessionKey(Record):
    """Who is writing: the pair (container, session id) is the key, the family shares its marks."""

    container: str
    session_id: str
    family: str
    agent: str


@dataclass(frozen=True)
class Draft(Record):
    """A text on its way into a backend: screened, but not yet stamped with sources, id or date.

    `replay` recognises a repeated tool call. A dreaming job's key carries its id as session and agent.
    """

    key: SessionKey
    scope: str
    path: str
    kind: Kind
    description: str
    content: str
    base_version: int
    flags: tuple[Flag, ...] = ()
    replay: str | None = None
    rationale: str = ""
    evidence: tuple[str, ...] = ()
    occurrences: int = 1


@dataclass(frozen=True)
class Decision(Record):
    """An owner's answer to one change, kept for good together with the whole change."""

    change: Change
    outcome: Literal["accepted", "rejected", "edited"]
    owner: str
    digest: str
    note: str
    date: str


@dataclass(frozen=True)
class Pin(Record):
    """What a session's first context block was made from: curated revisions and the mark state."""

    org: int
    assigned: int
    marked: bool


@dataclass(frozen=True)
class SessionInfo(Record):
    """One known session of a container, for the owner's eyes."""

    session_id: str
    agent: str
    opened: str
    sources: tuple[Source, ...] = ()


def from_source(data: dict[str, Any]) -> Source:
    """Rebuild a source from its dict."""
    return Source(data["kind"], data["name"], data["origin"], data["first_seen"])


def from_flag(data: dict[str, Any]) -> Flag:
    """Rebuild a flag from its dict."""
    return Flag(data["rule"], data["field"], data["start"], data["end"], data["why"])
