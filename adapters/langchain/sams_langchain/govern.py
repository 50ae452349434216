"""`govern` for LangChain: the blocks inside which code runs, and how all of them are marked."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeGuard

from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import StructuredTool, Tool

from sams_core.ambient import Activation, current_activation
from sams_core.errors import SamsError
from sams_core.govern import Bound, Governed, Governing, undeclared
from sams_core.taint import Family


class Govern(Governed):
    """What `govern` returns; also inside every `SamsMiddleware`."""

    word = "langchain"

    def __init__(self, bound: Bound = None, /, *, trusted: Iterable[object] = ()) -> None:
        objects = tuple(trusted)
        # A framework's copy of a trusted tool is known by what it runs.
        inside = [each for tool in objects for each in runs(tool)]
        super().__init__(bound, trusted=(*objects, *inside))
        self.given = trusted

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
    takes tool objects, or the plain functions that tools are made of; names and a list given to the
    agent itself are refused. A resolver is called with what LangGraph has (`Runtime` in a middleware
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


def blocks(began_in: Governing | None = None) -> list[Governing]:
    """Return the blocks in which this code runs, innermost first.

    Also those that enclosed the beginning of the run that it is part of: a stream's consumer may pull
    from another thread than the one that entered the block. What encloses a block that is at work is
    at work until it is left.
    """
    found: list[Governing] = []
    starts: tuple[Activation | None, ...] = (current_activation(), began_in)
    for activation in starts:
        while activation is not None:
            if activation.alive and _ours(activation) and activation not in found:
                found.append(activation)
            activation = activation._outer
    return found


def _ours(block: object) -> TypeGuard[Governing]:
    return isinstance(block, Governing) and isinstance(block.governed, Govern)


def rejoined() -> AbstractContextManager[Any]:
    """Enter again the block in which the run began, where the context that knew of it was lost.

    That is so when each chunk of a stream is pulled by another thread, as web servers do: the run's
    own configuration, which LangChain hands on by reference, still has the block's handler.
    """
    config = var_child_runnable_config.get() if current_activation() is None else None
    for handler in getattr((config or {}).get("callbacks"), "handlers", ()):
        block = getattr(handler, "block", None)
        if _ours(block):
            return block.governed(block.session)
    return nullcontext()


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
    _each(untrusting, kind, undeclared(name))


def trusted(where: Iterable[Governing], tool: object) -> bool:
    """Tell whether the harness vouched for a tool in one of these blocks; nobody does for None."""
    inside = runs(tool)
    return tool is not None and any(b.governed.trusted.covers(tool, inside) for b in where)


def _each(where: Iterable[Governing], kind: str, name: str) -> None:
    failed: SamsError | None = None
    for block in where:
        try:
            block.mark(kind, name)
        except SamsError as error:
            failed = error
    if failed is not None:
        raise failed
