"""Rows of the database as records, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from psycopg.types.json import Jsonb

from sams_core.backends import stamp
from sams_core.errors import StoreFailed
from sams_core.records import Change, Entry, Flag, Source, from_flag, from_source

# The database's text holds no NUL; it and the escape itself are escaped.
_PACK = {"\0": "\x1aZ", "\x1a": "\x1aS"}
_UNPACK = {escaped: plain for plain, escaped in _PACK.items()}
_NEEDS = re.compile("[\0\x1a]")
_ESCAPED = re.compile("\x1a[ZS]")

_PROVENANCE = (
    "author",
    "source_session",
    "digest",
    "act",
    "decided_by",
    "why",
    "base_digest",
    "based_on",
    "change_id",
    "login",
)
ENTRY = (
    "v.path, v.version, t.description, t.content, v.date, v.sources, v.provenance, v.status, "
    "v.handle, v.ended_date, v.ended_by, v.login"
)
# Each text by its whole key. Without OFFSET it would be a join, for which the planner, who is told
# nothing of what the columns hold, may well read a container's texts anew for each of its versions.
VERSIONS = (
    "FROM sams.versions v, LATERAL (SELECT description, content FROM sams.texts "
    "WHERE container = v.container AND path = v.path AND version = v.version OFFSET 0) t "
)
ENTRIES = f"SELECT {ENTRY} {VERSIONS}"  # our own names alone
CHANGE = (
    "id, seq, kind, writer, path, agent, session_id, base_version, base_digest, description, "
    "content, flags, sources, rationale, evidence, occurrences, date, state, successor, closed_by, "
    "login"
)
NOTE = "scope, path, version, agent, session_id, sources, base_digest, date, description, content"


def pack(text: str) -> str:
    """Return a text as the database can hold it."""
    return text if "\0" not in text and "\x1a" not in text else _NEEDS.sub(_packed, text)


def _packed(match: re.Match[str]) -> str:
    return _PACK[match[0]]


def unpack(text: str) -> str:
    """Return a text as it was stored."""
    return text if "\x1a" not in text else _ESCAPED.sub(lambda match: _UNPACK[match[0]], text)


def as_json(value: Any) -> Jsonb:
    """Return plain data as a parameter, every text in it packed."""
    return Jsonb(_each(value, pack))


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_each(item, change) for item in value]
    if isinstance(value, dict):
        return {key: _each(item, change) for key, item in value.items()}
    return value


def provenance(entry: Entry) -> dict[str, Any]:
    """Return what is stored of an entry besides its place, its text and its label."""
    return {name: getattr(entry, name) for name in _PROVENANCE}


def sources_from(found: list[dict[str, Any]]) -> tuple[Source, ...]:
    """Return stored sources as records."""
    return stamp.merge_sources(from_source(item) for item in _each(found, unpack))


def flags_from(found: list[dict[str, Any]]) -> tuple[Flag, ...]:
    """Return stored flags as records."""
    return tuple(from_flag(item) for item in _each(found, unpack))


def entry_from(scope: str, row: Sequence[Any]) -> Entry:
    """Return an entry from the columns of `ENTRY`."""
    path, version, description, content, date, sources, stored, status, handle, *more = row
    ended, ended_by, decider = [*more, None, None, None][:3]
    try:
        # All of them: its digest was made over what was published.
        marks = tuple(from_source(item) for item in _each(sources, unpack))
        data = _each(stored, unpack)
        return Entry(
            scope=scope,
            path=path,
            version=version,
            description=unpack(description),
            content=unpack(content),
            tainted=bool(marks),
            sources=marks,
            status=status,
            date=date,
            handle=handle,
            ended=ended,
            ended_by=ended_by,
            decided_login=decider,  # as the server stamped it, whatever was written beside it
            **{name: data[name] for name in _PROVENANCE},
        )
    except (ValueError, KeyError, TypeError):
        raise damaged() from None


def note_from(row: Sequence[Any]) -> Entry:
    """Return a run note from the columns of `NOTE`, sealed over what is stored."""
    scope, path, version, agent, session_id, sources, base_digest, date, description, content = row
    try:
        marks = sources_from(sources)
    except (ValueError, KeyError, TypeError):
        raise damaged() from None
    return Entry(
        scope=scope,
        path=path,
        version=version,
        description=unpack(description),
        content=unpack(content),
        tainted=bool(marks),
        sources=marks,
        digest="",
        author=agent,
        source_session=session_id,
        status="active",
        date=date,
        act="note",
        base_digest=base_digest,
    ).sealed()


def change_from(container: str, row: Sequence[Any]) -> Change:
    """Return a change from the columns of `CHANGE`, without its base and what it superseded."""
    data = dict(zip(CHANGE.split(", "), row, strict=True))
    try:
        marks = sources_from(data["sources"])
        return Change(
            id=data["id"],
            scope=container,
            path=data["path"],
            kind=data["kind"],
            base_version=data["base_version"],
            flags=flags_from(data["flags"]),
            sources=marks,
            tainted=bool(marks),
            digest="",
            description=unpack(data["description"]),
            content=unpack(data["content"]),
            author=data["agent"],
            source_session=data["session_id"],
            rationale=unpack(data["rationale"]),
            evidence=tuple(_each(data["evidence"], unpack)),
            occurrences=data["occurrences"],
            date=data["date"],
            base_digest=data["base_digest"],
            login=data["login"],
        )
    except (ValueError, KeyError, TypeError):
        raise damaged() from None


def absorbed(change: Change, earlier: Sequence[tuple[str, Any, Any]]) -> Change:
    """Return a change that answers for those it superseded: (id, flags, sources), oldest first."""
    before: list[Change] = []
    for old_id, flags, sources in earlier:
        marks = sources_from(sources)
        old = replace(change, id=old_id, flags=flags_from(flags), sources=marks, supersedes=())
        before = [stamp.absorb(old, before)]
    return stamp.absorb(change, before)


def damaged() -> StoreFailed:
    """Return the refusal of a row that isn't what this package stores."""
    return StoreFailed("a stored record is damaged", rule="damaged")
