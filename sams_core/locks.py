"""Locks that a forked child finds free, whatever another thread of its parent was doing."""

from __future__ import annotations

# A child that is forked while another thread imports a module waits for that module for ever. So what
# the package's verbs need is imported with it, and what the standard library imports on first use too.
import atexit  # noqa: F401  # for weakref.finalize
import os
import threading
import weakref
from types import TracebackType


class ForkSafeLock:
    """A re-entrant lock; a child process gets a new one, because nobody there will release the old."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the lock, or say at once that it is taken."""
        return self._lock.acquire(blocking=blocking)

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Forget who holds it."""
        self._lock = threading.RLock()


_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_locks):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
