"""`govern` for LangChain: the blocks inside which code runs, and how all of them are marked."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeGuard

from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import StructuredTool, Tool

from sams_core.ambient import Activation, current_activation, entered_here
from sams_core.errors import SamsError
from sams_core.govern import (
    Bound,
    Governed,
    Governing,
    Trusted,
    at_work,
    identity,
    undeclared,
)
from sams_core.taint import Family
from sams_langchain import history


class Kind(ABC):
    """Stands in `trusted` for tools that a framework makes by itself, so that nobody can name them."""

    @abstractmethod
    def covers(self, tool: object, trusted: Trusted) -> bool:
        """Tell whether a tool is one of these, by what it runs; `trusted` has what else was named."""


class Govern(Governed):
    """What `govern` returns; also inside every `SamsMiddleware`."""

    word = "langchain"

    def __init__(self, bound: Bound = None, /, *, trusted: Iterable[object] = ()) -> None:
        self.objects = tuple(trusted)
        super().__init__(bound, trusted=self.objects)
        self.given = trusted
        self._kinds = [each for each in self.objects if isinstance(each, Kind)]
        # A framework's copy of a trusted tool is known by its name and what it runs.
        self._copied = [_made_of(each) for each in self.objects if runs(each)]
        self.examples = {
            key for m in self.objects if isinstance(m, BaseMessage) for key in history.keys(m)
        }

    def vouches(self, tool: object) -> bool:
        """Tell whether a tool is trusted, or a copy of a trusted one, or made of trusted functions."""
        inside = runs(tool)
        return (
            self.trusted.covers(tool, inside)
            or _made_of(tool) in self._copied
            or any(kind.covers(tool, self.trusted) for kind in self._kinds)
        )

    def __deepcopy__(self, memo: object) -> Govern:
        return self  # a copied tool belongs to the same session

    def __reduce__(self) -> str:
        raise TypeError("a session's governance stays in its process")

    def attach(self) -> None:
        """Let LangChain ask for the handler at each run that begins."""
        from sams_langchain import observe

        observe.attach()

    def detach(self) -> None:
        """Give out no handler any more."""
        from sams_langchain import observe

        observe.detach()


def govern(session_or_resolver: Bound = None, /, *, trusted: Iterable[object] = ()) -> Govern:
    """Build an agent's governance once, beside it; `with governed(session):` observes what runs inside.

    Every tool and retriever that isn't named in `trusted` marks the session before it runs. `trusted`
    takes tool objects, or the plain functions that tools are made of, and messages that the app's
    author wrote as a model's (a greeting, examples); names and a list given to the agent itself are
    refused. A resolver is called with what LangGraph has (`Runtime` in a middleware
    or tool, else the run's config) and must read authenticated server state only.
    """
    return Govern(session_or_resolver, trusted=trusted)


def runs(tool: object) -> list[object]:
    """Return every callable that a function's tool can run; nothing where that can't be listed.

    A subclass may run anything, so it is known by its own identity alone.
    """
    if type(tool) not in (StructuredTool, Tool):
        return []
    assert isinstance(tool, StructuredTool | Tool)  # noqa: S101 - told to the type checker
    known = (tool.func, tool.coroutine, tool.handle_tool_error, tool.handle_validation_error)
    return [each for each in known if callable(each)]


def _made_of(tool: object) -> tuple[object, ...]:
    return _called(tool), *map(identity, runs(tool))


def blocks(began_in: Governing | None = None) -> list[Governing]:
    """Return the blocks in which this code runs, innermost first.

    Also the one in which the run began that it is part of, and what encloses that: a stream's tools go
    on in other threads while its generator, which holds the block, waits for the consumer.
    """
    found = at_work(Govern)
    outer: Activation | None = began_in
    while outer is not None and began_in is not None and outer.inherited == began_in.inherited:
        waits = outer.alive and outer.frame is began_in.frame
        if (waits or outer.effective()) and _ours(outer) and outer not in found:
            found.append(outer)
        outer = outer._outer
    return found


def pulling() -> list[Governing]:
    """Return the blocks that this thread and task are in, where the run's context knows of others."""
    return [each for each in entered_here() if _ours(each)]


class _Block(Governing):  # as the type checker sees ours
    governed: Govern


def _ours(block: object) -> TypeGuard[_Block]:
    return isinstance(block, Governing) and isinstance(block.governed, Govern)


def strayed() -> _Block | None:
    """Return the block in which the run began that this is part of, where the context knows of no such.

    So it is when each chunk of a stream is pulled by another thread, as web servers do; and of another
    session's block when one task pulls several async streams: contexts are copied with the block that
    was entered last. The run's own configuration, which LangChain hands on by reference, still has the
    block's handler.
    """
    config = var_child_runnable_config.get()
    for handler in reversed(getattr((config or {}).get("callbacks"), "handlers", ())):  # innermost
        block = getattr(handler, "block", None)
        if _ours(block):
            here = current_activation()
            inside = here is not None and (here is block or here.within(block))
            return None if inside else block
    return None


def rejoined() -> AbstractContextManager[Any]:
    """Enter again the block in which the run began, where the context knows of no such."""
    block = strayed()
    return nullcontext() if block is None else block.governed.during(block.session)


def mark(where: Iterable[Governing], kind: str, name: str) -> None:
    """Mark every family at work; raises `SessionClosed` where one can't be, after all were tried."""
    _each({block.session.family: block for block in where}.values(), kind, name)


def begin(where: Iterable[Governing], name: str, tool: object, kind: str = "tool") -> None:
    """Mark every family at work for a call that is about to begin, unless the family trusts it.

    A family does if one of its blocks' `trusted` has the object. Raises `SessionClosed` where a mark
    can't be recorded, after all were tried.
    """
    families: dict[Family, list[Governing]] = {}
    for block in where:
        families.setdefault(block.session.family, []).append(block)
    untrusting = [each[0] for each in families.values() if not trusted(each, tool)]
    _each(untrusting, kind, undeclared(name, _nameless(tool)))


def _nameless(tool: object) -> str | None:
    """Return what declares a tool that its framework makes by itself."""
    if "deepagents" not in sys.modules:
        return None
    from sams_langchain.deep import DEEP_AGENT_TOOLS

    return "DEEP_AGENT_TOOLS" if DEEP_AGENT_TOOLS.covers(tool, Trusted()) else None


def trusted(where: Iterable[Governing], tool: object) -> bool:
    """Tell whether the harness vouched for a tool in one of these blocks; nobody does for None."""
    return tool is not None and any(_ours(b) and b.governed.vouches(tool) for b in where)


def named(where: Iterable[Governing], name: str) -> object:
    """Return what is trusted under a name, where the tool itself can't be told yet."""
    found = [each for block in where if _ours(block) for each in block.governed.objects]
    return next((each for each in found if _called(each) == name), None)


def vouched(where: Iterable[Governing], family: Family) -> set[str]:
    """Return what the messages are known by that a family's harness vouched for."""
    ours = [b.governed for b in where if _ours(b) and b.session.family is family]
    return {key for governed in ours for key in governed.examples}


def _called(tool: object) -> object:
    return getattr(tool, "name", None) or getattr(tool, "__name__", None)


def _each(where: Iterable[Governing], kind: str, name: str) -> None:
    failed: SamsError | None = None
    for block in where:
        try:
            block.mark(kind, name)
        except SamsError as error:
            failed = error
    if failed is not None:
        raise failed
