"""Scopes, ids and paths: which strings name a place in memory, and whose place it is."""

from __future__ import annotations

import re
from typing import TypeGuard

from sams_core.errors import InvalidArguments, ScopeError

ORG = "org"
HANDLE_ROOT = "untrusted"
_SEGMENT = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_HANDLE = re.compile(r"untrusted/[0-9a-f]{8}", re.ASCII)


def check_id(value: object, what: str) -> str:
    """Return `value` if it is an id: 1 to 200 printable characters without `/`.

    Raises `InvalidArguments` (rule `id`). Ids are literal: no case folding, no wildcard, no trimming.
    """
    if not isinstance(value, str) or not 1 <= len(value) <= 200 or "/" in value:
        raise InvalidArguments(f"{what}: 1 to 200 printable characters without '/'", rule="id")
    if not value.isprintable():
        raise InvalidArguments(f"{what}: printable characters only", rule="id")
    return value


def check_path(value: object) -> str:
    """Return `value` if it is a path of an entry.

    A path is ASCII segments of `A-Z a-z 0-9 _ . -` joined by `/`: at most 8 segments and 96
    characters, none of them `.` or `..`, the first never `untrusted`, which is reserved for handles.
    Raises `InvalidArguments` (rule `path`).
    """
    if not isinstance(value, str) or not 1 <= len(value) <= 96:
        raise InvalidArguments("path: 1 to 96 characters", rule="path")
    segments = value.split("/")
    if len(segments) > 8:
        raise InvalidArguments("path: at most 8 segments", rule="path")
    for segment in segments:
        if not _SEGMENT.fullmatch(segment) or segment in (".", ".."):
            raise InvalidArguments(
                "path: segments of letters, digits, '_', '.', '-', joined by '/'", rule="path"
            )
    if segments[0].lower() == HANDLE_ROOT:
        raise InvalidArguments("path: the first segment is reserved for handles", rule="path")
    return value


def is_handle(path: object) -> TypeGuard[str]:
    """Tell whether `path` is the handle under which a labelled entry is listed."""
    return isinstance(path, str) and _HANDLE.fullmatch(path) is not None


def check_container(value: object) -> str:
    """Return `value` if it names a container: `org`, `project:<id>` or `tenant:<id>`."""
    if value == ORG:
        return ORG
    if isinstance(value, str):
        kind, colon, ident = value.partition(":")
        if colon and kind in ("project", "tenant"):
            try:
                check_id(ident, "scope id")
            except InvalidArguments as error:
                raise ScopeError(str(error), rule="scope") from None
            return value
    raise ScopeError("scope: org, project:<id> or tenant:<id>", rule="scope")


def check_assigned(value: object) -> str:
    """Return `value` if a session may be assigned to it: exactly one project or tenant."""
    container = check_container(value)
    if container == ORG:
        raise ScopeError("a session is assigned to one project or tenant, not to org", rule="scope")
    return container


def run_scope(session_id: str) -> str:
    """Return the scope of a session's scratchpad."""
    return f"run:{session_id}"


def family_of(session_id: str) -> str:
    """Return the id of the session at the root of a family: what stands before the first `/`."""
    return session_id.split("/", 1)[0]


def related(session_id: str, other: str) -> bool:
    """Tell whether `other` is the session itself, one of its ancestors or one of its descendants."""
    return (
        session_id == other
        or session_id.startswith(other + "/")
        or other.startswith(session_id + "/")
    )
