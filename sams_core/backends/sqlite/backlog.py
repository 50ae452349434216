"""What lies in a queue's folder, and how near it is to the limits: facts for `checkup`."""

from __future__ import annotations

import stat
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from sams_core.backends.finding import Level, used
from sams_core.backends.sqlite.access import files
from sams_core.backends.sqlite.spool import Name, Spool, writer_of
from sams_core.limits import Limits
from sams_core.records import SessionInfo
from sams_core.scopes import family_of

Fact = tuple[Level, str, str]  # how grave, about what, and the sentence
FRESH = 10.0  # seconds for which a temporary file or a journal may be somebody's who is at work
_READ = 10_000  # files, the oldest


def contents(folder: Path, scope: str | None, limits: Limits, names: list[Name]) -> Iterator[Fact]:
    """Yield what is odd in a queue, and collect the names of its changes; raises OSError."""
    spool = Spool(folder, scope or "", limits)
    listing = spool.listing()
    names += listing.names
    ours = {*names, *listing.reads}
    temporary, strange = 0, 0
    for entry in files(folder):
        here = entry.stat(follow_symlinks=False)
        if entry.name.startswith(".new-"):
            temporary += time.time() - here.st_mtime > FRESH
        elif entry.name not in ours or not stat.S_ISREG(here.st_mode):
            strange += 1
    if temporary:
        detail = f"{temporary} temporary files of killed processes: .new-*, safe to remove"
        yield "note", "leftovers", detail
    if strange:
        yield "warn", "leftovers", f"{strange} names in queue/ that are no change's"
    if scope is None:
        yield "note", "queue", "not read: the folder's name is cut, so name the scope to doctor"
        return
    damaged = sum(spool.read(name) is None for name in names[:_READ])
    if damaged:
        detail = f"{damaged} files in queue/ aren't what their name says, and are not shown to you"
        yield "warn", "queue", detail
    if len(names) > _READ:
        yield "note", "queue", f"only the oldest {_READ} files were read"


def room(
    names: Sequence[Name], closed: set[str], sessions: Sequence[SessionInfo], limits: Limits
) -> Iterator[Fact]:
    """Yield how much of the limits is used, counted by names as the store itself does."""
    left = [name for name in names if name.id not in closed]
    if len(left) < len(names):
        count = len(names) - len(left)
        yield "note", "leftovers", f"{count} decided changes still lie in queue/; harmless"
    pairs = {(name.writer, name.path, name.agent) for name in left}
    agents = Counter(agent for _, _, agent in pairs)
    opened = Counter(writer for writer, _, _ in pairs)
    stored = Counter(name.writer for name in left)
    sizes: Counter[str] = Counter()
    for name in left:
        sizes[name.writer] += name.size
    rows = [
        ("open changes", len(pairs), limits.container_open),
        ("of one agent", _most(agents), int(limits.container_open * limits.agent_share)),
        ("open of one session", _most(opened), limits.session_open),
        ("stored of one session", _most(stored), limits.session_stored),
        ("bytes of one session", _most(sizes), limits.session_bytes),
    ]
    level, detail = used(rows)
    known = {writer_of("write", family_of(i.session_id)): i.session_id for i in sessions}
    fullest = max(opened, key=lambda writer: (opened[writer], writer), default="")
    if level != "ok" and fullest in known:
        detail += f"; most by session {known[fullest]}"
    yield level, "limits", detail


def _most(counts: Counter[str]) -> int:
    return max(counts.values(), default=0)
