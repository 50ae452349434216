"""`govern`: whom the harness trusts, and the block inside which LlamaIndex is observed."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from contextlib import suppress
from types import FrameType
from typing import ClassVar

from sams_core import AgentSession, PermissionDenied, SamsError
from sams_core.ambient import current_activation, off_loop
from sams_core.govern import Bound, Governed, Governing, at_work, undeclared
from sams_llamaindex import spans
from sams_llamaindex.tools import MemoryTool
from sams_llamaindex.trust import covered

OFF = "instrumentation off: something took the adapter's handlers away, so reads went unseen"
LATE = "a run that went on after its block, unseen: await or cancel it inside"

_blocks: weakref.WeakSet[Block] = weakref.WeakSet()


class Block(Governing):
    """A governed block, known to the process: what runs in a bare thread marks all that are open."""

    def __init__(self, governed: Governed, session: AgentSession) -> None:
        super().__init__(governed, session)
        self.runs: set[object] = (
            set()
        )  # those of workflows that were begun inside and haven't ended
        self._was_marked: bool | None = None  # not asked yet; the ledger needn't be asked twice
        self._process = os.getpid()

    def _enter(self, frame: FrameType | None) -> AgentSession:
        session = super()._enter(frame)
        _blocks.add(self)
        return session

    def marked(self) -> bool:
        """Tell whether the session was marked when this was asked first, or has been since, here."""
        family = self.session.family
        if family._recorded or family._owed:
            return True
        if self._was_marked is None:
            try:
                self._was_marked = self.session.tainted
            except SamsError:
                self._was_marked = True  # if it can't be known
        return self._was_marked

    async def __aenter__(self) -> AgentSession:
        # Who asks later can't wait: a handler runs in the event loop.
        await off_loop(self.session.backend, self.marked)
        return await super().__aenter__()

    def _leave(self) -> None:
        try:
            # After a fork other threads' blocks end in the child, while their runs go on in the parent.
            copied = os.getpid() != self._process and self._entered[0] != threading.get_ident()
            unseen = (OFF, not spans.attached()), (LATE, bool(self.runs))
            judged = self.alive and not copied
            for reason in [reason for reason, holds in unseen if judged and holds]:
                with suppress(SamsError):  # what can't be recorded is owed, and closes the session
                    self.mark("content", reason)
        finally:
            _blocks.discard(self)
            super()._leave()


class GovernedLlamaIndex(Governed):
    """One agent's governance; see `govern`."""

    word: ClassVar[str] = "llamaindex"

    def __call__(self, session: AgentSession | None = None) -> Block:
        """Return a `with` (or `async with`) block in which `session` is at work and observed.

        Without one it is the session that `govern` got, or that its resolver returns. Raises
        `NoSession` where there is none, and `PermissionDenied` (rule `foreign-run`) where that
        session is of another family than the one already at work, which marks both.
        """
        if session is None and self._bound is not None:
            session = self.session()
        return Block(self, super().__call__(session).session)

    def attach(self) -> None:
        """Begin to observe this process."""
        from sams_llamaindex import observe, steps

        spans.attach(observe.entered, observe.left, observe.heard, steps.begun)
        observe.watch(True)

    def detach(self) -> None:
        """Observe no longer."""
        from sams_llamaindex import observe

        spans.detach()
        observe.watch(False)


def govern(
    session_or_resolver: Bound = None, /, *, trusted: Iterable[object] = ()
) -> GovernedLlamaIndex:
    """Return what governs an agent, to be built once beside it and opened as a block per request.

    ```
    governed = govern(trusted=[calc])
    with governed(session):
        answer = await agent.run(user_msg=question)
    ```

    `trusted` lists tools, retrievers and query engines (or the plain functions that tools are made
    of) all of whose results insiders wrote; they are compared by identity. All else that LlamaIndex
    runs inside the block marks the session before it begins. A resolver is called without arguments
    when a block is opened without a session. Raises `PermissionDenied` (rule `trusts-everything`)
    where `trusted` holds a memory tool, as an agent's own list does; `trusted=agent.tools` is refused
    when that agent's turn begins.
    """
    governed = GovernedLlamaIndex(session_or_resolver, trusted=trusted)
    if any(isinstance(each, MemoryTool) for each in governed.trusted._kept):
        raise PermissionDenied(
            "trusted holds a memory tool, as the agent's own list does: name the trusted ones one by one",
            rule="trusts-everything",
        )
    return governed


def here() -> list[Governing]:
    """Return the blocks that code running here belongs to.

    Where no session at all is at work these are the open blocks of other threads: a thread that
    copied no context may work for any of them. (A task always has its creator's context; one that
    has none in a block's own thread isn't of that block.)
    """
    found = at_work(GovernedLlamaIndex)
    if not found and current_activation() is None:
        thread = threading.get_ident()
        return [b for b in list(_blocks) if b.alive and b._entered[0] != thread]
    return found


def mark(kind: str, name: str, blocks: Iterable[Governing] | None = None) -> None:
    """Mark every session at work here; one that can't be recorded is owed and closes its session."""
    for block in here() if blocks is None else blocks:
        with suppress(SamsError):
            block.mark(kind, name)


def begin(what: str, name: str, obj: object) -> None:
    """Mark for a call of `obj` that is about to begin, each session whose harness doesn't trust it."""
    for block in here():
        if not covered(block.governed.trusted, obj):
            with suppress(SamsError):
                block.mark(what, undeclared(name))
