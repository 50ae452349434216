"""Which session is at work here: activations that end with their block, in whatever context.

A context variable alone leaks. A streaming generator that enters a block and is then abandoned leaves
the variable set on its consumer's thread; one that is driven by several threads finds it unset in the
second. So an activation entered by a generator counts, on the thread and task that entered it, only
while that generator is on the call stack, and counts there in every context; elsewhere (threads and
tasks started inside with a copied context) it counts until its block ends.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from contextvars import ContextVar, Token
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from sams_core.errors import PermissionDenied

if TYPE_CHECKING:
    from sams_core.session import AgentSession

_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
# Generators that these run to their first yield are set-up code: the block's body is not inside them.
_SET_UP_BY = frozenset({"contextlib", "_pytest.fixtures"})


def _here() -> tuple[int, int | None]:
    asyncio = sys.modules.get("asyncio")  # where nobody has imported it there is no task
    try:
        task = asyncio.current_task() if asyncio is not None else None
    except RuntimeError:
        task = None
    return threading.get_ident(), None if task is None else id(task)


def _module(frame: FrameType | None) -> object:
    return None if frame is None else frame.f_globals.get("__name__")


def _owner(frame: FrameType | None) -> FrameType | None:
    """Return the generator frame that holds the block, None if it is held by anything else."""
    while frame is not None:
        if _module(frame) == "contextlib":
            frame = frame.f_back
        elif not frame.f_code.co_flags & _GENERATOR:
            return None
        elif _module(frame.f_back) in _SET_UP_BY:
            frame = frame.f_back if _module(frame.f_back) == "contextlib" else None
        else:
            return frame
    return None


class Activation:
    """A `with` and `async with` block inside which a session is ambient; usable once."""

    def __init__(self, session: AgentSession, observer: str | None = None) -> None:
        self.session, self.observer = session, observer
        self.alive = False
        self._frame: FrameType | None = None
        self._entered: tuple[int, int | None] = (0, None)
        self._token: Token[Activation | None] | None = None
        self._outer: Activation | None = None

    def _enter(self, frame: FrameType | None) -> AgentSession:
        if self.alive or self._token is not None:
            raise PermissionDenied("an activation is used once", rule="activation-reused")
        self._frame, self._entered = _owner(frame), _here()
        self._outer = current_activation()
        self.alive = True
        with _lock:
            _live[id(self)] = self
        self._token = _ambient.set(self)
        return self.session

    def _leave(self) -> None:
        self.alive = False
        self._frame = None
        with _lock:
            _live.pop(id(self), None)
        if self._token is not None and _ambient.get() is self:
            try:
                _ambient.reset(self._token)
            except (
                ValueError
            ):  # left in another context than entered: the flag above is what counts
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
        """Tell whether code that runs here runs inside the block."""
        if not self.alive:
            return False
        return self._frame is None or _here() != self._entered or _innermost([self]) is self

    def within(self, other: Activation) -> bool:
        """Tell whether this block was entered inside `other`'s."""
        outer = self._outer
        while outer is not None and outer is not other:
            outer = outer._outer
        return outer is other


_ambient: ContextVar[Activation | None] = ContextVar("sams_session", default=None)
_live: dict[int, Activation] = {}
_lock = threading.Lock()


def _innermost(activations: list[Activation]) -> Activation | None:
    """Return the one whose generator runs nearest on this call stack."""
    held = {id(a._frame): a for a in activations if a._frame is not None}
    frame: FrameType | None = sys._getframe(1) if held else None
    while frame is not None:
        found = held.get(id(frame))
        if found is not None:
            return found
        frame = frame.f_back
    return None


def current_activation() -> Activation | None:
    """Return the innermost activation inside whose block this code runs."""
    inherited = _ambient.get()
    while inherited is not None and not inherited.effective():
        inherited = inherited._outer
    with _lock:
        live = list(_live.values())
    running = _innermost(live)
    if running is None or (inherited is not None and inherited.within(running)):
        return inherited
    return running


def current_session() -> AgentSession | None:
    """Return the session at work here, or None."""
    activation = current_activation()
    return None if activation is None else activation.session


def refuse_beside_agent() -> None:
    """Raise `PermissionDenied` (rule `owner-beside-agent`) if an agent is at work in this process.

    That is any live activation in any thread, or a session named in the environment variable
    `SAMS_SESSION`, which launchers of agents' subprocesses set; it is read at each call.
    """
    if _live or os.environ.get("SAMS_SESSION"):
        raise PermissionDenied(
            "owner verbs are refused while an agent session is at work in this process or named "
            "in SAMS_SESSION",
            rule="owner-beside-agent",
        )
