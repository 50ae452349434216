"""A process that has no file descriptor left is told so: it doesn't take a queue for an empty one."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sams_core import AgentSession, Owner, SQLiteBackend, StoreFailed

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
