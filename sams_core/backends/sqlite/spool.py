"""The queue: one immutable file a change, named so that counting needs no reading.

A name is `<time>-<kind>-<writer>-<path>-<agent>-<size>-<id>.json` in hexadecimal: nanoseconds, `w` or
`p`, 64 bits of SHA-256 of the family or job, of the path and of the agent, bytes of text, the id. A
file is written under a temporary name, synced, linked and the folder synced: it is there whole or not.
Whoever reads it trusts neither name nor content: the form is checked, and both must agree.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import secrets
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sams_core.backends import stamp
from sams_core.backends.sqlite.folders import failed, open_folder, open_regular
from sams_core.canonical import canonical
from sams_core.errors import LimitExceeded, SamsError
from sams_core.records import Change, Flag, SessionKey, Source
from sams_core.scopes import check_path, family_of

_NAME = re.compile(
    r"([0-9a-f]{16})-([wp])-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{6})-([0-9a-f]{32})\.json"
)
_LARGEST = 4_000_000  # bytes of a file; 100,000 bytes of text can need six times that in JSON
_MOST_NAMES = 100_000


def _short(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def writer_of(kind: str, actor: str) -> str:
    """Return the name part for a family's writes or a job's proposals."""
    return _short(kind, actor)


def path_part(path: str) -> str:
    """Return the name part for a path."""
    return _short("path", path)


def agent_part(agent: str) -> str:
    """Return the name part for an agent."""
    return _short("agent", agent)


@dataclass(frozen=True, order=True)
class Name:
    """What a file's name says."""

    file: str
    kind: str
    writer: str
    path: str
    agent: str
    size: int
    id: str


_Count = Annotated[int, Field(ge=0, le=2**53 - 1)]


class _Loose(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class _Source(_Loose):
    kind: Annotated[str, Field(max_length=40)]
    name: Annotated[str, Field(max_length=200)]
    origin: Annotated[str, Field(max_length=200)] | None
    first_seen: Annotated[str, Field(max_length=40)]


class _Flag(_Loose):
    rule: Annotated[str, Field(max_length=60)]
    field: Annotated[str, Field(max_length=60)]
    start: _Count
    end: _Count
    why: Annotated[str, Field(max_length=300)]


class _Document(_Loose):
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    scope: Annotated[str, Field(max_length=220)]
    path: Annotated[str, Field(max_length=96)]
    kind: Literal["write", "proposal"]
    base_version: _Count
    flags: Annotated[list[_Flag], Field(max_length=5_000)]
    sources: Annotated[list[_Source], Field(max_length=1_000)]
    description: str
    content: str
    author: Annotated[str, Field(max_length=200)]
    source_session: Annotated[str, Field(max_length=1_000)] | None
    supersedes: Annotated[list[str], Field(max_length=1_000)]
    rationale: str
    evidence: list[str]
    occurrences: Annotated[int, Field(ge=1, le=2**53 - 1)]
    date: Annotated[str, Field(max_length=40)]
    base_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None


def encode(change: Change) -> bytes:
    """Return the bytes of a change's file; digest and mark follow from the rest."""
    plain = change.to_dict()
    del plain["digest"], plain["tainted"]
    return canonical(plain)


def decode(data: bytes, scope: str) -> Change:
    """Return the change in a file's bytes; raises ValueError unless its form is right throughout."""
    document = _Document.model_validate_json(data)
    if document.scope != scope:
        raise ValueError("another scope")
    check_path(document.path)
    sources = tuple(Source(s.kind, s.name, s.origin, s.first_seen) for s in document.sources)
    return Change(
        id=document.id,
        scope=document.scope,
        path=document.path,
        kind=document.kind,
        base_version=document.base_version,
        flags=tuple(Flag(f.rule, f.field, f.start, f.end, f.why) for f in document.flags),
        sources=sources,
        tainted=bool(sources),
        digest="",
        description=document.description,
        content=document.content,
        author=document.author,
        source_session=document.source_session,
        supersedes=tuple(document.supersedes),
        rationale=document.rationale,
        evidence=tuple(document.evidence),
        occurrences=document.occurrences,
        date=document.date,
        base_digest=document.base_digest,
    )


def actor_of(change: Change) -> str:
    """Return the family or the job that wrote a change."""
    return change.author if change.source_session is None else family_of(change.source_session)


class Spool:
    """The queue folder of one container."""

    def __init__(self, folder: Path, scope: str) -> None:
        self.folder, self.scope = folder, scope

    def names(self) -> list[Name]:
        """Return the well-formed names, oldest first; of an id that is there twice the older one."""
        found: list[Name] = []
        ids: set[str] = set()
        try:
            with os.scandir(self.folder) as entries:
                files = [entry.name for entry in itertools.islice(entries, _MOST_NAMES + 1)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise failed("listing the queue", error) from None
        if len(files) > _MOST_NAMES:
            raise LimitExceeded("files in a queue", _MOST_NAMES)
        for file in sorted(files):
            matched = _NAME.fullmatch(file)
            if matched and matched[7] not in ids:
                ids.add(matched[7])
                _, kind, writer, path, agent, size, change_id = matched.groups()
                found.append(Name(file, kind, writer, path, agent, int(size, 16), change_id))
        return found

    def read(self, name: Name) -> Change | None:
        """Return the change in a file, or None if it is gone or isn't what its name says."""
        try:
            folder = open_folder(self.folder)
        except OSError:
            return None
        try:
            return self._read(folder, name)
        finally:
            os.close(folder)

    def _read(self, folder: int, name: Name) -> Change | None:
        try:
            with os.fdopen(open_regular(name.file, folder, _LARGEST), "rb") as file:
                change = decode(file.read(_LARGEST + 1), self.scope)
        except (OSError, ValueError, ValidationError, SamsError):
            return None
        kind = {"w": "write", "p": "proposal"}[name.kind]
        written = (change.source_session is not None) == (kind == "write")
        agrees = (
            change.id == name.id
            and change.kind == kind
            and written
            and writer_of(change.kind, actor_of(change)) == name.writer
            and path_part(change.path) == name.path
            and agent_part(change.author) == name.agent
        )
        return change if agrees else None

    def add(self, change: Change) -> str:
        """Store a change durably and return its file's name."""
        size = stamp.text_size(change.description, change.content)
        file = "-".join(
            (
                f"{time.time_ns():016x}",
                "w" if change.kind == "write" else "p",
                writer_of(change.kind, actor_of(change)),
                path_part(change.path),
                agent_part(change.author),
                f"{size:06x}",
                f"{change.id}.json",
            )
        )
        try:
            self._write(file, encode(change))
        except OSError as error:
            raise failed("storing a change", error) from None
        return file

    def _write(self, name: str, data: bytes) -> None:
        folder = open_folder(self.folder)
        temporary = f".new-{secrets.token_hex(8)}"
        try:
            shared = os.fstat(folder).st_mode & stat.S_ISGID
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(temporary, flags, 0o600, dir_fd=folder)
            try:
                with os.fdopen(file, "wb") as writable:
                    writable.write(data)
                    writable.flush()
                    os.fchmod(writable.fileno(), 0o440 if shared else 0o400)
                    os.fsync(writable.fileno())
                os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                os.unlink(temporary, dir_fd=folder)
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, file: str) -> None:
        """Remove a file whose change has been decided; one that stays is harmless."""
        try:
            folder = open_folder(self.folder)
        except OSError:
            return
        try:
            os.unlink(file, dir_fd=folder)
        except OSError:
            pass
        finally:
            os.close(folder)


def spool_of(key: SessionKey, kind: str, names: list[Name]) -> list[Name]:
    """Return the names of a family's writes or a job's proposals."""
    writer = writer_of(kind, key.family if kind == "write" else key.session_id)
    return [name for name in names if name.writer == writer]
