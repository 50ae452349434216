"""Forks: no child inherits an open database.

SQLite keeps a table of the locks that its process holds. A forked child inherits that table but not the
locks, and so do connections that it opens afterwards: they may believe to hold what they don't, or wait
for a thread that doesn't exist there. So before a fork all connections are closed, once no verb is using
one, and both sides open new ones.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sams_core.errors import StoreFailed

T = TypeVar("T", bound=type)
_PATIENCE = 20.0  # seconds that a fork waits for verbs in progress


class ForkGate:
    """Counts the verbs in progress; a fork waits for them and closes what they leave open."""

    def __init__(self, close_all: Callable[[], None]) -> None:
        self._close_all = close_all
        self._changed = threading.Condition()
        self._inside = 0
        self._forking: int | None = None  # the thread that forks
        self._spoilt = False
        self._local = threading.local()
        os.register_at_fork(
            before=self._before, after_in_parent=self._after, after_in_child=self._child
        )

    def __enter__(self) -> None:
        depth = getattr(self._local, "depth", 0)
        if depth == 0:
            with self._changed:
                while self._forking not in (None, threading.get_ident()):
                    self._changed.wait()
                if self._spoilt:
                    raise StoreFailed(
                        "this process was forked while its parent used the store", rule="forked"
                    )
                self._inside += 1
        self._local.depth = depth + 1

    def __exit__(self, *_: object) -> None:
        self._local.depth -= 1
        if self._local.depth == 0:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def _before(self) -> None:
        mine = int(getattr(self._local, "depth", 0) > 0)
        with self._changed:
            self._changed.wait_for(lambda: self._forking is None, _PATIENCE)
            self._forking = threading.get_ident()
            self._idle = (
                self._changed.wait_for(lambda: self._inside <= mine, _PATIENCE) and not mine
            )
            if self._idle:
                self._close_all()

    def _after(self) -> None:
        with self._changed:
            self._forking = None
            self._changed.notify_all()

    def _child(self) -> None:
        self._changed = threading.Condition()
        self._forking, self._inside = None, 0
        self._local = threading.local()
        self._spoilt = self._spoilt or not self._idle


def gated(gate: ForkGate) -> Callable[[T], T]:
    """Return a class decorator that lets every public method through the gate."""

    def decorate(cls: T) -> T:
        for name, method in list(vars(cls).items()):
            if not name.startswith("_") and callable(method):
                setattr(cls, name, _through(gate, method))
        return cls

    return decorate


def _through(gate: ForkGate, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def verb(*args: Any, **kwargs: Any) -> Any:
        with gate:
            return method(*args, **kwargs)

    return verb
