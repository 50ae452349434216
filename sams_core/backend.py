"""The contract of a storage backend: records in, records out, each verb one permission.

A backend knows no redaction, no flags and no scope rules. It does stamp a stored text with the marks
of its family, compare and set versions, keep keys unique and hold the counts. All verbs are
synchronous, safe to call from many threads, and raise only `SamsError`. A `container` is `org`, a
project or a tenant and is a scope of curated memory too; a `run:` scope lies in its session's container.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

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


@dataclass(frozen=True)
class Row:
    """One line of a listing as a backend returns it; `text` is a snippet, a content or empty."""

    path: str
    handle: str | None
    version: int
    description: str
    date: str
    tainted: bool
    text: str = ""

    @property
    def key(self) -> str:
        """Where a page that ends with this row goes on: labelled rows are ordered by handle."""
        return self.handle if self.tainted and self.handle else self.path


@dataclass(frozen=True)
class Standing:
    """A change and what has become of it; `successor` is the change that superseded it."""

    change: Change
    state: State
    decision: Decision | None = None
    successor: str | None = None


def change_id_for(salt: str, replay: str) -> str:
    """Return the id of a replayable change: unpredictable without the family's salt, repeatable with it."""
    return hashlib.sha256(f"{salt}\0{replay}".encode()).hexdigest()[:32]


class Backend(Protocol):
    """What `AgentSession`, `Owner` and `DreamerSession` need of a store."""

    limits: Limits
    durable: bool
    inline: bool  # reads and marks take microseconds unless they wait for a lock

    @property
    def location(self) -> str:
        """Equal for two backend objects on the same store in one process; asking may connect."""

    # An agent's process: its session, its marks, its notes, its proposals.

    def open_session(self, key: SessionKey) -> None:
        """Register the session or recognise it; another agent's is refused (`PermissionDenied`).

        An unknown id of which notes, changes or history exist gets the mark `ledger-lost`.
        """

    def add_sources(self, container: str, family: str, sources: Sequence[Source]) -> None:
        """Record marks durably before returning; known (kind, name) pairs keep their first record."""

    def sources(self, container: str, family: str) -> tuple[Source, ...]:
        """Return the family's marks as they are on disk now, in any process's eyes."""

    def pin(self, key: SessionKey) -> Pin:
        """Return what the session's context block is made from, fixed at the first call.

        A retirement or restoration in its scopes fixes it anew, once, for all processes.
        """

    def run_write(self, draft: Draft) -> Receipt:
        """Store a note in the draft's run scope if its version there is `base_version`."""

    def submit(self, draft: Draft) -> Standing:
        """Queue a change, stamped with the family's or the job's sources, superseding its own last.

        A draft whose `replay` was seen before stores nothing and returns the first one's standing.
        """

    def own_change(self, key: SessionKey, path: str) -> Change | None:
        """Return the open change of the key's family (or job) for a path."""

    def read(self, container: str, scope: str, path: str) -> Entry | None:
        """Return the active entry or the note at a path or handle."""

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
        """List active entries, or notes, whose `Row.key` sorts after `after`.

        With `at`, a curated revision from `pin`, as they were then. Contents of at most `contents`
        characters come with them.
        """

    def search(
        self, container: str, scope: str, labelled: bool, query: str, limit: int
    ) -> list[Row]:
        """Return the best hits first; `query` is words, whatever it contains."""

    def check_separation(self, container: str) -> None:
        """Raise `PermissionDenied` unless this process can't write the owner's store."""

    # A dreaming job.

    def snapshot(
        self, container: str, job: str, partition: Partition
    ) -> tuple[tuple[Entry, ...], tuple[Change, ...], tuple[Entry, ...]]:
        """Return entries, open changes and notes, and remember what taint the job has read."""

    # The owner.

    def recover(self, container: str) -> None:
        """Complete or undo what an owner's process left when it died; called before owner verbs."""

    def sessions(self, container: str) -> list[SessionInfo]:
        """Return the sessions of a container with their marks."""

    def changes(self, container: str) -> list[Change]:
        """Return the open changes, oldest first, each with its base; digests are left empty."""

    def standing(self, container: str, change_id: str) -> Standing | None:
        """Return a change, open or not, with its state; `successor` is the open or decided one.

        Raises `NotFound` (rule `not-open`) where the text went with its successor's decision.
        """

    def decide(
        self, container: str, decision: Decision, entry: Entry | None, expected: int
    ) -> Entry | None:
        """Record a decision and publish its entry, both or neither; a repeated one returns its entry."""

    def publish(self, container: str, entry: Entry, expected: int) -> Entry:
        """Store the next version of a path if its active version is `expected` (0: none)."""

    def retire(self, container: str, path: str, owner: str) -> None:
        """Stop serving a path; its history stays."""

    def history(self, container: str, path: str) -> list[Entry]:
        """Return every version of a path, oldest first."""

    def version_with(self, container: str, digest: str) -> Entry | None:
        """Return the version that has this digest."""

    def clear_runs(self, container: str) -> int:
        """Stop serving all notes of the container; returns how many there were."""

    def close(self) -> None:
        """Release connections; the backend may be used again and reopens them."""


Role = Literal["agent", "dreamer", "owner"]


class WouldBlock(Exception):
    """Raised where an impatient caller would have to wait; the work can be done again in a thread."""


_local = threading.local()


@contextmanager
def impatient() -> Iterator[None]:
    """Inside, in this thread, raise `WouldBlock` rather than wait for a lock."""
    _local.impatient = True
    try:
        yield
    finally:
        _local.impatient = False


def is_impatient() -> bool:
    """Tell whether waiting is unwanted here."""
    return getattr(_local, "impatient", False)
