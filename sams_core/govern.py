"""What every adapter's `govern` shares: whom the harness trusts, and the block that observes."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, MethodType
from typing import Any, ClassVar, TypeVar

from sams_core.ambient import Activation, current_activation, current_session
from sams_core.errors import InvalidArguments, NoSession, PermissionDenied, SamsError
from sams_core.locks import ForkSafeLock
from sams_core.session import AgentSession
from sams_core.taint import check_family
from sams_core.tools import TOOL_NAMES, refusal
from sams_core.visible import visible_line

_log = logging.getLogger("sams")
_lock = ForkSafeLock()  # guards every adapter's count of open blocks

G = TypeVar("G", bound="Governed")
Bound = AgentSession | Callable[..., AgentSession] | None


class Trusted:
    """The objects that the harness vouches for, compared by identity and never by name.

    Whoever registers a tool chooses its name and metadata, so text is refused (`InvalidArguments`),
    and so is a class: name the tool that the agent uses.
    """

    def __init__(self, objects: Iterable[object] = ()) -> None:
        if isinstance(objects, str | bytes | Mapping):
            raise InvalidArguments("trusted: a list of tool objects")
        self._given = objects
        self._kept = tuple(objects)  # kept alive, so that no other object gets one's identity
        if any(each is None or isinstance(each, str | bytes) for each in self._kept):
            raise InvalidArguments("trusted: tool objects, never names: an outsider chooses names")
        if any(isinstance(each, type) for each in self._kept):
            raise InvalidArguments("trusted: the object that the agent uses, not its class")
        self._known = set(map(identity, self._kept))
        for each in self._kept:
            _log.info("trusted: %s", visible_line(_name(each)))

    def covers(self, tool: object, runs: Iterable[object] = ()) -> bool:
        """Tell whether `tool` is one of the objects, or all that it can run (`runs`) are."""
        if identity(tool) in self._known:
            return True
        inside = list(runs)
        return bool(inside) and all(identity(each) in self._known for each in inside)

    def named(self, name: str) -> bool:
        """Tell whether one of the objects has this name: enough for a past call, for no tool at hand."""
        return isinstance(name, str) and any(
            name in (_name(each), getattr(each, "__name__", None), getattr(each, "tool_name", None))
            for each in self._kept
        )

    def refuse_whole(self, tools: object) -> None:
        """Raise `PermissionDenied` (rule `trusts-everything`) where `tools` is the very list given.

        Naming every tool one by one is a decision; handing over the agent's own list is none.
        """
        if tools is self._given and not isinstance(tools, tuple):
            raise PermissionDenied(
                "trusted is the agent's own list of tools: name the trusted ones one by one",
                rule="trusts-everything",
            )


def identity(each: object) -> tuple[int, ...]:
    """Return what tells an object from every other one that is alive; equal ones aren't the same."""
    if isinstance(each, MethodType):  # made anew at each access
        return id(each.__self__), id(each.__func__)
    return (id(each),)


def _name(each: object) -> str:
    name = getattr(each, "name", None) or getattr(each, "__qualname__", None)
    return name if isinstance(name, str) else type(each).__qualname__


class Governed(ABC):
    """One agent's governance: built once beside it, opened as a block for each request.

    `session_or_resolver` is the session, or a callable that returns it from what the framework has
    at a call; without it the block's session is used. `trusted` lists tool objects (or the plain
    functions that tools are made of) all of whose results insiders wrote.
    """

    word: ClassVar[str]
    _open: ClassVar[dict[type[Governed], int]] = {}

    def __init__(
        self, session_or_resolver: Bound = None, /, *, trusted: Iterable[object] = ()
    ) -> None:
        if session_or_resolver is not None and not (
            isinstance(session_or_resolver, AgentSession) or callable(session_or_resolver)
        ):
            raise InvalidArguments("a session, a callable that returns one, or None")
        self._bound = session_or_resolver
        self.trusted = Trusted(trusted)

    def __call__(self, session: AgentSession | None = None) -> Governing:
        """Return a `with` (or `async with`) block in which `session` is at work and observed.

        Raises `NoSession` where neither this call nor `govern` named one.
        """
        if session is None and isinstance(self._bound, AgentSession):
            session = self._bound
        if not isinstance(session, AgentSession):
            raise NoSession("whose run is it? with governed(session): ...")
        return Governing(self, session)

    def during(self, session: AgentSession) -> Governing:
        """Return a block for an adapter's own `with` statement around one call; see `Activation`."""
        return Governing(self, session, brief=True)

    @property
    def resolves(self) -> bool:
        """Whether a resolver says whose run it is, from what `session` is given."""
        return self._bound is not None and not isinstance(self._bound, AgentSession)

    def session(self, *given: object) -> AgentSession:
        """Return the session at work: the ambient one, or what the reference or resolver says.

        A resolver is called with `given`. Raises `NoSession` where there is neither, and
        `PermissionDenied` (rule `foreign-run`) where both are there and of two families, which
        marks both.
        """
        own, ambient = self._bound, current_session()
        if own is not None and not isinstance(own, AgentSession):
            own = own(*given)
            if not isinstance(own, AgentSession):
                raise NoSession("the resolver returned no session")
        if own is None:
            if ambient is None:
                raise NoSession("no session is at work here: with governed(session): ...")
            return ambient
        check_family(own, ambient)
        if ambient is None or own.session_id.startswith(f"{ambient.session_id}/"):
            return own  # of one family: whichever is the child
        return ambient

    @abstractmethod
    def attach(self) -> None:
        """Begin to observe this process; called when its first block is entered."""

    @abstractmethod
    def detach(self) -> None:
        """Observe no longer; called when its last block was left."""

    def _entered(self) -> None:
        with _lock:
            count = Governed._open.get(type(self), 0)
            if not count:
                self.attach()
            Governed._open[type(self)] = count + 1

    def _left(self) -> None:
        with _lock:
            Governed._open[type(self)] -= 1
            if not Governed._open[type(self)]:
                self.detach()


class Governing(Activation):
    """A block in which a session is ambient and its adapter observes what the framework runs."""

    def __init__(self, governed: Governed, session: AgentSession, *, brief: bool = False) -> None:
        super().__init__(session, governed.word, brief=brief)
        self.governed = governed
        self.call: object = None  # what an adapter knows of the one call that a brief block is for

    def _enter(self, frame: FrameType | None) -> AgentSession:
        self.governed._entered()
        try:
            return super()._enter(frame)
        except BaseException:
            self.governed._left()
            raise

    def _leave(self) -> None:
        was, self.alive = self.alive, False
        super()._leave()
        if was:
            self.governed._left()

    def mark(self, kind: str, name: str, origin: str | None = None) -> None:
        """Mark the session; raises `SessionClosed` where that can't be recorded."""
        self.session.family.mark_named(kind, name, origin)


def at_work(kind: type[Governed]) -> list[Governing]:
    """Return the blocks of one adapter inside which this code runs, innermost first.

    What a nested run reads flows upward, so all of them are marked; but not out of a forked child that
    entered a block of its own, which may work for others by now.
    """
    found: list[Governing] = []
    activation = first = current_activation()
    while activation is not None and first is not None and activation.inherited == first.inherited:
        if (
            isinstance(activation, Governing)
            and isinstance(activation.governed, kind)
            and activation.effective()
        ):
            found.append(activation)
        activation = activation._outer
    return found


def begin_tool(
    kind: type[Governed], name: str, tool: object, runs: Iterable[object] = (), what: str = "tool"
) -> None:
    """Mark every session at work for a call of `tool` that is about to begin, unless trusted.

    The mark's reason names the line that would declare it. Raises `SessionClosed` where a mark
    can't be recorded, after all were tried.
    """
    inside = list(runs)
    failed: SamsError | None = None
    for block in at_work(kind):
        if not block.governed.trusted.covers(tool, inside):
            try:
                block.mark(what, undeclared(name))
            except SamsError as error:
                failed = error
    if failed is not None:
        raise failed


def undeclared(name: str, declared: str | None = None) -> str:
    """Return the reason of a mark that `trusted=` would have spared, with what to name there."""
    return f"{name}: undeclared; govern(trusted=[{declared or name}]) would declare it"


def refuse_shadow(name: str, ours: bool) -> None:
    """Raise `PermissionDenied` (rule `shadowed-tool`) for a foreign tool under a memory tool's name.

    In every framework the last tool registered under a name wins, silently.
    """
    if name in TOOL_NAMES and not ours:
        raise PermissionDenied(
            "a foreign tool has the name of a memory tool: rename it", rule="shadowed-tool"
        )


def call_memory(
    name: str,
    arguments: Mapping[str, Any] | str,
    call_id: str | None,
    find: Callable[[], AgentSession] | None = None,
) -> str:
    """Run a model's call for the session that `find` returns, the ambient one by default.

    Returns JSON for the model; a refusal, `NoSession` included, is a result.
    """
    try:
        session = (find or _ambient)()
    except SamsError as error:
        return refusal(error)
    return session.call_tool(name, arguments, call_id=call_id)


async def acall_memory(
    name: str,
    arguments: Mapping[str, Any] | str,
    call_id: str | None,
    find: Callable[[], AgentSession] | None = None,
) -> str:
    """Run `call_memory` without blocking the event loop."""
    try:
        session = (find or _ambient)()
    except SamsError as error:
        return refusal(error)
    return await session.acall_tool(name, arguments, call_id=call_id)


def _ambient() -> AgentSession:
    session = current_session()
    if session is None:
        raise NoSession("no session is at work here: with governed(session): ...")
    return session
