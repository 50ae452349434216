"""Which session is at work here: activations that end with their block, in whatever context.

A context variable alone leaks. A streaming generator that enters a block and is then abandoned leaves
the variable set on its consumer's thread; one that is driven by several threads finds it unset in the
second. So an activation that is entered while a generator runs is bound to that generator: where it was
entered it counts only while the generator is on the call stack, and there in every context. Elsewhere,
in threads and tasks that copied the context, it counts while a plain generator runs, and until its block
ends for an asynchronous one. Any other activation counts wherever its context was copied to, until its
block ends.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar, Token, copy_context
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, TypeVar

from sams_core.backend import Backend, WouldBlock, impatient
from sams_core.errors import PermissionDenied
from sams_core.locks import ForkSafeLock, gate

if TYPE_CHECKING:
    from sams_core.session import AgentSession

T = TypeVar("T")
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
# Generators that these run to their first yield are set-up code: the block's body is not inside them.
_SET_UP_BY = frozenset({"contextlib", "_pytest.fixtures"})


_thread = threading.local()


def _here() -> tuple[int, object, object]:
    """Return this thread and task; numbers are used again, so they alone would not tell."""
    asyncio = sys.modules.get("asyncio")  # where nobody has imported it there is no task
    try:
        task = asyncio.current_task() if asyncio is not None else None
    except RuntimeError:
        task = None
    if not hasattr(_thread, "itself"):
        _thread.itself = object()
    return threading.get_ident(), _thread.itself, None if task is None else weakref.ref(task)


def _module(frame: FrameType | None) -> object:
    return None if frame is None else frame.f_globals.get("__name__")


def _holder(frame: FrameType | None) -> FrameType | None:
    """Return the nearest generator frame on whose stack the block is entered, if there is one."""
    while frame is not None:
        flags = frame.f_code.co_flags
        if flags & _GENERATOR and not flags & inspect.CO_ITERABLE_COROUTINE:
            driver = _module(frame.f_back)
            if driver not in _SET_UP_BY:
                return frame
            if driver != "contextlib":
                return None
        frame = frame.f_back
    return None


class Activation:
    """A `with` and `async with` block inside which a session is ambient; usable once.

    `brief` promises that the block stands in a function or coroutine whose code is known: it ends
    before any generator around it is suspended, so none needs to be looked for.
    """

    def __init__(
        self, session: AgentSession, observer: str | None = None, *, brief: bool = False
    ) -> None:
        self.session, self.observer, self._brief = session, observer, brief
        self.alive = False
        self.inherited = False  # from the process that this one was forked from
        self.frame: FrameType | None = None
        self._entered: tuple[int, object, object] = (0, None, None)
        self._token: Token[Activation | None] | None = None
        self._outer: Activation | None = None

    def _enter(self, frame: FrameType | None) -> AgentSession:
        if self.alive or self._token is not None:
            raise PermissionDenied("an activation is used once", rule="activation-reused")
        self.frame = None if self._brief else _holder(frame)
        self._entered = _here()
        told = (outer for each in around if (outer := each()) is not None)
        self._outer = next(told, None) or current_activation()
        self.alive = True
        with _lock:
            _live.add(self)
            if self.frame is not None:
                _held.setdefault(id(self.frame), []).append(self)
        self._token = _ambient.set(self)
        return self.session

    def _leave(self) -> None:
        self.alive = False
        with _lock:
            _live.discard(self)
            held = _held.get(id(self.frame), [])
            if self in held:
                held.remove(self)
            if self.frame is not None and not held:
                _held.pop(id(self.frame), None)
        self.frame = None
        if self._token is not None and _ambient.get() is self:
            try:
                _ambient.reset(self._token)
            except ValueError:  # left in another context than entered; `alive` is what counts
                _ambient.set(self._outer)

    def __enter__(self) -> AgentSession:
        return self._enter(sys._getframe(1))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._leave()

    async def __aenter__(self) -> AgentSession:
        return self._enter(sys._getframe(1))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._leave()

    def effective(self) -> bool:
        """Tell whether code that runs here, with a context from inside, runs inside the block."""
        frame = self.frame
        if not self.alive:
            return False
        if frame is None:
            return True
        if _here() == self._entered:
            return _runs_here(frame)
        if frame.f_code.co_flags & inspect.CO_ASYNC_GENERATOR:
            return True
        return frame.f_back is not None  # a generator that waits for its consumer has no caller

    def within(self, other: Activation) -> bool:
        """Tell whether this block was entered inside `other`'s."""
        outer = self._outer
        while outer is not None and outer is not other:
            outer = outer._outer
        return outer is other


around: list[Callable[[], Activation | None]] = []  # adapters tell what a context lost or mixed up
_ambient: ContextVar[Activation | None] = ContextVar("sams_session", default=None)
_live: weakref.WeakSet[Activation] = weakref.WeakSet()
_held: dict[int, list[Activation]] = {}  # by the id of the frame that holds them
_lock = ForkSafeLock()


def _runs_here(wanted: FrameType) -> bool:
    """Tell whether a frame is on this call stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not wanted:
        frame = frame.f_back
    return frame is not None


def _on_stack() -> Activation | None:
    """Return the innermost activation whose generator runs on this call stack."""
    frame: FrameType | None = sys._getframe(1) if _held else None
    while frame is not None:
        found = _held.get(id(frame))
        if found:
            return found[-1]
        frame = frame.f_back
    return None


def current_activation() -> Activation | None:
    """Return the innermost activation inside whose block this code runs."""
    inherited = _ambient.get()
    while inherited is not None and not inherited.effective():
        outer = inherited._outer
        if (
            outer is not None
            and not inherited.alive
            and outer.session.family is not inherited.session.family
            and _here() != inherited._entered
        ):
            outer = None  # a task that outlives its block isn't another session's work
        inherited = outer
    running = _on_stack()
    if running is None or (inherited is not None and inherited.within(running)):
        return inherited
    return running


def _keep_only_this_thread() -> None:
    """After a fork the parent's other threads, and what they had active, don't exist here.

    What this code was inside of stays, for observers and against owner verbs. Its session isn't at
    work here any more: a pool's worker lives on when the block has ended, and works for others.
    """
    around, mine = set(), _ambient.get()
    while mine is not None:
        around.add(mine)
        mine = mine._outer
    for activation in list(_live):
        activation.inherited = True
        if activation not in around and activation._entered[0] != threading.get_ident():
            activation._leave()


os.register_at_fork(after_in_child=_keep_only_this_thread)


def entered_here() -> list[Activation]:
    """Return the blocks that this thread and task are in, whatever context this code was given."""
    here = _here()
    with _lock:
        return [each for each in _live if each.alive and each._entered == here]


def current_session() -> AgentSession | None:
    """Return the session at work here, or None; a block that a forked child inherits is none of its."""
    activation = current_activation()
    return None if activation is None or activation.inherited else activation.session


async def hop(work: Callable[[], T]) -> T:
    """Run work in a thread, where exactly what is active here is active."""
    import asyncio  # here, because it takes longer to import than all of this package's own code

    context = copy_context()
    # What the context holds may be a suspended generator's, which doesn't count here but would there.
    context.run(_ambient.set, current_activation())
    return await asyncio.get_running_loop().run_in_executor(None, context.run, work)


async def off_loop(backend: Backend, work: Callable[[], T]) -> T:
    """Run short work here if it needn't wait, else in a thread: an event loop is never blocked.

    A thread costs about 140 us, a read by key or a mark about 10 to 100.
    """
    if backend.inline and not gate.closed():
        try:
            with impatient():
                return work()
        except WouldBlock:
            pass
    return await hop(work)


def refuse_beside_agent() -> None:
    """Raise `PermissionDenied` (rule `owner-beside-agent`) if an agent is at work in this process.

    That is any live activation in any thread, or a session named in the environment variable
    `SAMS_SESSION`, which launchers of agents' subprocesses set; it is read at each call.
    """
    with _lock:
        live = list(_live)
    if any(activation.alive for activation in live) or os.environ.get("SAMS_SESSION"):
        raise PermissionDenied(
            "owner verbs are refused while an agent session is at work in this process or named "
            "in SAMS_SESSION",
            rule="owner-beside-agent",
        )
