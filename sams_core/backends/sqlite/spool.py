"""The queue: one immutable file a change, named so that counting needs no reading.

A name is `<time>-<kind>-<writer>-<path>-<agent>-<size>-<id>.json` in hexadecimal: nanoseconds, `w` for a
write, `p` for a proposal or `r` for what a job has read, 64 bits of SHA-256 of the family or job, of the
path and of the agent, bytes of text, the id. A file is written under a temporary name, synced, linked and
the folder synced: it is there whole or not. Whoever reads it trusts neither name nor content: the form
and the limits are checked, and both must agree.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sams_core.backend import WouldBlock, is_impatient
from sams_core.backends import stamp
from sams_core.backends.sqlite.files import State, settled, state
from sams_core.backends.sqlite.folders import failed, open_folder, open_regular
from sams_core.canonical import canonical
from sams_core.errors import LimitExceeded, SamsError
from sams_core.limits import Limits, check_text
from sams_core.records import Change, Flag, SessionKey, Source
from sams_core.scopes import check_id, check_path, family_of

_NAME = re.compile(
    r"[0-9a-f]{16}-[wpr]-[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{8}-[0-9a-f]{32}\.json"
)
_MOST_NAMES = 200_000
# Errors that are no file's fault: the same file could be read a moment later.
_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)
_KINDS = {"w": "write", "p": "proposal"}
_MOST_LISTINGS = 100
_QUICK = 65_536  # bytes of a folder that is listed in well under a millisecond


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


class Name(str):
    """A file's name, which says what is counted."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """Return `w`, `p` or `r`."""
        return self[17]

    @property
    def writer(self) -> str:
        """Return the part for the family or the job."""
        return self[19:35]

    @property
    def path(self) -> str:
        """Return the part for the path."""
        return self[36:52]

    @property
    def agent(self) -> str:
        """Return the part for the agent."""
        return self[53:69]

    @property
    def size(self) -> int:
        """Return the bytes of text."""
        return int(self[70:78], 16)

    @property
    def id(self) -> str:
        """Return the id of the change."""
        return self[79:111]


class Listing:
    """The files of a queue at one moment, oldest first."""

    def __init__(self, names: list[Name]) -> None:
        changes = {name[79:111]: name for name in reversed(names) if name[17] != "r"}
        # Of an id that is there twice the older file is the change.
        self.names = [name for name in names if changes.get(name[79:111]) is name]
        self.reads = [name for name in names if name[17] == "r"]

    def of(self, key: SessionKey, kind: str) -> list[Name]:
        """Return the files of a family's writes or a job's proposals."""
        writer = writer_of(kind, key.family if kind == "write" else key.session_id)
        return [name for name in self.names if name[19:35] == writer]

    def beside(self, name: Name) -> list[Name]:
        """Return the files by the same writer for the same path."""
        return [each for each in self.names if each[19:52] == name[19:52]]

    def named(self, change_id: str) -> Name | None:
        """Return the file of a change."""
        return next((name for name in self.names if name[79:111] == change_id), None)


_listings: dict[str, tuple[State, Listing]] = {}


_Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
_Time = Annotated[str, Field(max_length=40, pattern=r"^[0-9T:+.Z-]*$")]


class _Loose(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class _Source(_Loose):
    kind: Annotated[str, Field(max_length=40)]
    name: Annotated[str, Field(max_length=200)]
    origin: Annotated[str, Field(max_length=200)] | None
    first_seen: _Time


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
    flags: list[_Flag]
    sources: list[_Source]
    description: str
    content: str
    author: Annotated[str, Field(max_length=200)]
    source_session: Annotated[str, Field(max_length=1_000)] | None
    supersedes: list[Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]]
    rationale: str
    evidence: list[str]
    occurrences: Annotated[int, Field(ge=1, le=2**53 - 1)]
    date: _Time
    base_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None


class _Reading(_Loose):
    job: Annotated[str, Field(max_length=200)]
    sources: list[_Source]


def encode(change: Change) -> bytes:
    """Return the bytes of a change's file; digest and mark follow from the rest, a login is unknown."""
    plain = change.to_dict()
    del plain["digest"], plain["tainted"], plain["login"]
    return canonical(plain)


def decode(data: bytes, scope: str, limits: Limits | None) -> Change:
    """Return the change in a file's bytes; raises unless its form and its sizes are right throughout.

    `limits` is None for what has been checked before.
    """
    document = _Document.model_validate_json(data)
    if document.scope != scope:
        raise ValueError("another scope")
    check_path(document.path)
    check_id(document.author, "author")
    if document.source_session is not None and not document.source_session.isprintable():
        raise ValueError("not a session")
    if limits is not None:
        _check_sizes(document, limits)
    sources = _sources(document.sources)
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


def _sources(found: list[_Source]) -> tuple[Source, ...]:
    return tuple(Source(s.kind, s.name, s.origin, s.first_seen) for s in found)


def _check_sizes(document: _Document, limits: Limits) -> None:
    def text(value: str, what: str, limit: int, unit: str, one_line: bool) -> None:
        check_text(value, what, limit=limit, unit=unit, one_line=one_line)

    text(document.content, "content", limits.content_bytes, "bytes", False)
    text(document.description, "description", limits.description_chars, "characters", True)
    text(document.rationale, "rationale", limits.rationale_chars, "characters", False)
    for item in document.evidence:
        text(item, "evidence", limits.evidence_chars, "characters", True)
    for what, found, most in (
        ("evidence, items", len(document.evidence), limits.evidence_items),
        ("superseded changes", len(document.supersedes), limits.session_stored),
        ("flags", len(document.flags), limits.flags),
        ("sources", len(document.sources), 2 * limits.family_sources),
    ):
        if found > most:
            raise LimitExceeded(what, most, found)


def actor_of(change: Change) -> str:
    """Return the family or the job that wrote a change."""
    return change.author if change.source_session is None else family_of(change.source_session)


class Spool:
    """The queue folder of one container."""

    def __init__(self, folder: Path, scope: str, limits: Limits) -> None:
        self.folder, self.scope, self.limits = folder, scope, limits
        # JSON may spell a byte of text with six characters; 200 bytes a flag or an id are plenty.
        self._largest = 6 * limits.content_bytes + 200 * (limits.flags + limits.session_stored)
        self._largest += 1_000_000

    def listing(self) -> Listing:
        """Return what lies in the queue, from memory while the folder hasn't changed.

        Raises `WouldBlock` for an impatient caller if a large folder has to be listed.
        """
        try:
            now = state(self.folder, follow=False)
        except OSError as error:
            raise failed("looking at the queue", error) from None
        if now is None:
            return Listing([])
        known = _listings.get(str(self.folder))
        if known is not None and known[0] == now:
            return known[1]
        if is_impatient() and now[3] > _QUICK:
            raise WouldBlock
        keep = settled(now)
        listing = Listing(self._names())
        if keep:
            if len(_listings) >= _MOST_LISTINGS:
                _listings.clear()
            _listings[str(self.folder)] = (now, listing)
        return listing

    def first(self, change_id: str) -> Name | None:
        """Return the oldest file of a change as the folder is now, which takes little of a listing."""
        end = f"-{change_id}.json"
        found = (
            Name(file) for file in self._files() if file.endswith(end) and _NAME.fullmatch(file)
        )
        return min((name for name in found if name.kind != "r"), default=None)

    def _files(self) -> list[str]:
        try:
            folder = open_folder(self.folder)
            try:
                return os.listdir(folder)
            finally:
                os.close(folder)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # or a link in its place
                return []
            raise failed("listing the queue", error) from None

    def _names(self) -> list[Name]:
        files = self._files()
        form = _NAME.fullmatch
        names = sorted(map(Name, filter(form, files)))
        if len(names) > _MOST_NAMES:
            raise LimitExceeded("files in a queue", _MOST_NAMES, len(names))
        return names

    def read(self, name: Name) -> Change | None:
        """Return the change in a file, or None if it is gone or isn't what its name says."""
        try:
            change = decode(self._bytes(name), self.scope, self.limits)
        except OSError as error:
            if error.errno in _OURS:
                raise failed("reading a change", error) from None
            return None
        except (ValueError, ValidationError, SamsError):
            return None
        kind = _KINDS[name.kind]
        agrees = (
            change.id == name.id
            and change.kind == kind
            and (change.source_session is not None) == (kind == "write")
            and writer_of(change.kind, actor_of(change)) == name.writer
            and path_part(change.path) == name.path
            and agent_part(change.author) == name.agent
        )
        return change if agrees else None

    def _bytes(self, name: Name) -> bytes:
        folder = open_folder(self.folder)
        try:
            with os.fdopen(open_regular(name, folder, self._largest), "rb") as file:
                return file.read(self._largest + 1)
        finally:
            os.close(folder)

    def add(self, change: Change) -> Name:
        """Store a change durably; raises `LimitExceeded` for one that could not be read again."""
        data = encode(change)
        if len(data) > self._largest:
            raise LimitExceeded("a change as a file, bytes", self._largest, len(data))
        decode(data, self.scope, self.limits)
        size = stamp.text_size(change.path, change.description, change.content)
        kind = "w" if change.kind == "write" else "p"
        writer = writer_of(change.kind, actor_of(change))
        return self._store(
            kind, writer, path_part(change.path), agent_part(change.author), size, change.id, data
        )

    def readings(self, job: str) -> tuple[Source, ...]:
        """Return what marked a job's reading, in whichever process it read."""
        writer = writer_of("proposal", job)
        found: list[Source] = []
        for name in self.listing().reads:
            if name.writer != writer:
                continue
            try:
                reading = _Reading.model_validate_json(self._bytes(name))
            except (OSError, ValueError, SamsError):
                # Something marked the job; what, can't be told any more.
                found.append(Source("more", "a job's reading can't be read any more", None, ""))
                continue
            if reading.job == job:
                found += _sources(reading.sources)
        return stamp.merge_sources(found)

    def add_reading(self, job: str, sources: tuple[Source, ...]) -> None:
        """Record durably what a job has read."""
        data = canonical({"job": job, "sources": [source.to_dict() for source in sources]})
        writer, none = writer_of("proposal", job), "0" * 16
        self._store("r", writer, none, none, 0, stamp.new_id(), data)

    def _store(
        self, kind: str, writer: str, path: str, agent: str, size: int, ident: str, data: bytes
    ) -> Name:
        name = Name(f"{time.time_ns():016x}-{kind}-{writer}-{path}-{agent}-{size:08x}-{ident}.json")
        try:
            self._write(name, data)
        except OSError as error:
            raise failed("storing a change", error) from None
        return name

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

    def remove(self, name: Name) -> None:
        """Remove a file whose change has been decided; one that stays is harmless."""
        with suppress(OSError):
            folder = open_folder(self.folder)
            try:
                os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)
