"""What can't be read for a reason that isn't its own, such as no descriptor left, isn't taken for missing."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sams_core import AgentSession, DreamerSession, Owner, SQLiteBackend, StoreFailed

ACME = "tenant:acme"


@contextmanager
def _none_left() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
    taken: list[int] = []
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_without_descriptors_a_listed_change_is_not_left_out(
    sqlite: SQLiteBackend, open_clean: Callable[..., AgentSession]
) -> None:
    open_clean(sqlite).memory_write("assigned", "a", "text", "d")
    (folder,) = sqlite.folders.base.glob("*/queue")
    os.utime(folder, (1e9, 1e9))
    owner = Owner(sqlite, "olga")
    (change,) = owner.changes(ACME)  # the listing is remembered from here on
    with _none_left():
        with pytest.raises(StoreFailed):
            owner.changes(ACME)
        with pytest.raises(StoreFailed):
            owner.accept(ACME, change.id, change.digest)
    assert owner.accept(ACME, change.id, change.digest).version == 1


def test_without_descriptors_a_private_copy_is_refused_with_a_typed_error(
    sqlite: SQLiteBackend, open_clean: Callable[..., AgentSession]
) -> None:
    open_clean(sqlite).memory_write("run", "a", "text", "d")
    job, owner = DreamerSession(sqlite, job_id="job", scope=ACME), Owner(sqlite, "olga")
    owner.get(ACME, "a")
    with _none_left():
        with pytest.raises(StoreFailed):
            job.snapshot()
        with pytest.raises(StoreFailed):
            owner.clear_runs(ACME)
    assert owner.clear_runs(ACME) == 1


def test_a_queue_that_cant_be_listed_is_no_empty_queue(
    sqlite: SQLiteBackend, open_clean: Callable[..., AgentSession]
) -> None:
    open_clean(sqlite).memory_write("assigned", "a", "text", "d")
    (folder,) = sqlite.folders.base.glob("*/queue")
    os.utime(folder, (1e9, 1e9))  # a listing is remembered only once the folder has settled
    owner = Owner(sqlite, "olga")
    with _none_left(), pytest.raises(StoreFailed):
        owner.changes(ACME)
    assert len(owner.changes(ACME)) == 1
