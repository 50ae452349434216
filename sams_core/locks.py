"""Locks that a forked child finds free, and a gate at which a fork waits for what has locks of its own.

Interrupts are thought of throughout: a signal's handler may raise, and the interpreter runs it where a
function begins or a call has ended, so also inside `__enter__` and `__exit__` that are written in Python.
"""

from __future__ import annotations

# A child that is forked while another thread imports a module waits for that module for ever. So what
# the package's verbs need is imported with it, and what the standard library imports on first use too.
import atexit  # noqa: F401  # for weakref.finalize
import functools
import os
import threading
import time
import weakref
from _thread import RLock
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
_PATIENCE = 20.0  # seconds that a fork waits for what is in progress
_NAP = 0.0005  # seconds


class ForkSafeLock(RLock):  # type: ignore[misc]  # typeshed calls it final; it isn't
    """A re-entrant lock; a child process finds it free, because nobody there would release it."""

    def __init__(self) -> None:
        _locks.add(self)

    def renew(self) -> None:
        """Forget who holds it."""
        self._at_fork_reinit()  # type: ignore[attr-defined]  # as the standard library does


_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_locks):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)


class ForkGate:
    """Counts what is in progress; a fork waits for it, and what would begin meanwhile waits for the fork.

    A library that is written in C (SQLite, RE2) has locks of its own. A child inherits those that other
    threads hold at that moment, and waits for them for ever.
    """

    def __init__(self) -> None:
        self.spoilt = False  # whether this process was forked in the middle of something
        self._inside: dict[int, bool] = {}  # by thread: whether it holds something open
        # "by" which thread, and for which it is "idle": no two can come by, as between a look and a step.
        self._fork: dict[str, int] = {}
        self._first: list[Callable[[], None]] = []
        os.register_at_fork(
            before=self._before,
            # No function in Python, which an interrupt could keep from being run.
            after_in_parent=self._fork.clear,
            after_in_child=self._in_child,
        )

    def before_fork(self, work: Callable[[], None]) -> None:
        """Have `work` done before each fork, when nothing is in progress."""
        self._first.append(work)

    def closed(self) -> bool:
        """Tell whether another thread is about to fork."""
        me = threading.get_ident()
        return self._fork.get("by", me) != me

    def through(self, function: F, *, holds: bool = True) -> F:
        """Return `function` as one that passes the gate.

        What `holds` nothing open between two of its steps is in no way of a fork by its own thread, as
        by a signal's handler.
        """
        inside, fork, ident = self._inside, self._fork, threading.get_ident

        @functools.wraps(function)
        def passing(*args: Any, **kwargs: Any) -> Any:
            me = ident()
            before = inside.get(me)
            try:
                inside[me] = before or holds
                if before is None and fork:
                    self._wait(me, holds)
                return function(*args, **kwargs)
            finally:  # puts back what it found, wherever an interrupt came
                if before is None:
                    inside.pop(me, None)
                else:
                    inside[me] = before

        return passing  # type: ignore[return-value]  # it takes and returns the same

    def _wait(self, me: int, holds: bool) -> None:
        while self.closed():
            self._inside.pop(me, None)
            while self.closed():
                time.sleep(_NAP)
            self._inside[me] = holds

    def _before(self) -> None:
        me = threading.get_ident()
        while self._fork.setdefault("by", me) != me:  # it ends: its patience is limited, too
            time.sleep(_NAP)
        deadline = time.monotonic() + _PATIENCE
        while (others := set(self._inside) - {me}) and time.monotonic() < deadline:
            time.sleep(_NAP)
        # Who has come since waits. What this thread holds can't be waited for.
        if not others and not self._inside.get(me):
            for work in self._first:
                work()
            self._fork["idle"] = me

    def _in_child(self) -> None:
        self.spoilt = self.spoilt or self._fork.get("idle") != threading.get_ident()
        self._fork.clear()
        self._inside.clear()


gate = ForkGate()


def gated(cls: C) -> C:
    """Let every public method of a class through the gate."""
    for name, method in list(vars(cls).items()):
        if not name.startswith("_") and callable(method):
            setattr(cls, name, gate.through(method))
    return cls
