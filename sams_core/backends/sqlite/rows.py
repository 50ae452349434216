"""Rows of the databases as records, and back."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from sams_core.errors import StoreFailed
from sams_core.records import Entry, from_source

_FIELDS = (
    "author",
    "source_session",
    "digest",
    "act",
    "decided_by",
    "why",
    "base_digest",
    "based_on",
    "change_id",
)


def provenance(entry: Entry) -> dict[str, Any]:
    """Return what is stored of an entry besides its place, its text and its label."""
    stored: dict[str, Any] = {name: getattr(entry, name) for name in _FIELDS}
    stored["sources"] = [source.to_dict() for source in entry.sources]
    return stored


def _entry(
    scope: str,
    path: str,
    version: int,
    description: str,
    content: str,
    date: str,
    stored: str,
    **more: Any,
) -> Entry:
    try:
        if not all(isinstance(text, str) for text in (scope, path, description, content, date)):
            raise TypeError
        data = json.loads(stored)
        sources = tuple(from_source(item) for item in data.pop("sources"))
        return Entry(
            scope=scope,
            path=path,
            version=version,
            description=description,
            content=content,
            tainted=bool(sources),
            sources=sources,
            date=date,
            **{name: data[name] for name in _FIELDS},
            **more,
        )
    except (ValueError, KeyError, TypeError):
        damaged()


def damaged() -> NoReturn:
    """Refuse what isn't what this package stores."""
    raise StoreFailed("a stored record is damaged", rule="damaged") from None


def note_from(row: tuple[Any, ...]) -> Entry:
    """Return a run note: scope, path, version, description, content, date, provenance."""
    return _entry(*row, status="active")


def entry_from(scope: str, row: tuple[Any, ...]) -> Entry:
    """Return an entry: path, version, description, content, date, provenance, status, handle, ended."""
    more = {"status": row[6], "handle": row[7], "ended": row[8], "ended_by": row[9]}
    return _entry(scope, *row[:6], **more)
