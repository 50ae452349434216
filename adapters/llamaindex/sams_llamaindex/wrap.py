"""Explicit wrapping: an object of the same class and kind that marks at the start of each call."""

from __future__ import annotations

import copy
import functools
import inspect
from typing import Any, TypeVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.image_retriever import BaseImageRetriever
from llama_index.core.memory import BaseMemory, BaseMemoryBlock
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.readers.base import BaseReader, ResourcesReaderMixin
from llama_index.core.schema import BaseComponent
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool
from llama_index.core.tools.types import BaseTool
from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

from sams_core import AgentSession
from sams_core.taint import wrap
from sams_llamaindex.tools import MemoryTool
from sams_llamaindex.turn import name_of

T = TypeVar("T")

# The ways into an object, the inner ones included that others of LlamaIndex call directly.
_WAYS: dict[type, tuple[str, ...]] = {
    BaseTool: ("__call__", "call", "acall"),
    BaseRetriever: ("retrieve", "aretrieve", "_retrieve", "_aretrieve"),
    BaseImageRetriever: (
        *("text_to_image_retrieve", "image_to_image_retrieve"),
        *("atext_to_image_retrieve", "aimage_to_image_retrieve"),
    ),
    BaseQueryEngine: ("query", "aquery", "_query", "_aquery", "retrieve", "aretrieve"),
    BaseNodePostprocessor: (
        *("postprocess_nodes", "apostprocess_nodes"),
        *("_postprocess_nodes", "_apostprocess_nodes"),
    ),
    BaseMemory: ("get", "aget", "get_all", "aget_all"),
    BaseMemoryBlock: ("aget", "_aget"),
}

# Tools that only pass a question on: wrapped at what they hold they stay what they are.
_HELD: dict[type, str] = {QueryEngineTool: "_query_engine", RetrieverTool: "_retriever"}


def tainting(obj: T, bound: AgentSession | None, reason: str | None) -> T:
    """Return a copy of a tool, retriever, query engine, reader, memory, ... that marks when it is read.

    A function tool keeps its very class and is wrapped at its functions, so that `fn`, loaders and
    exports made of it mark too; tools of a query engine or a retriever keep theirs and are wrapped
    at what they hold. Others become an instance of a subclass that has their class's name.
    Raises `TypeError` for anything else; `AgentSession.tainting` is the public way here.
    """
    held: Any = obj
    if isinstance(obj, MemoryTool):
        raise TypeError("a memory tool needs no wrapping: it marks by itself")
    if isinstance(obj, BaseTool):
        reason = name_of(obj) if reason is None else reason
    if isinstance(obj, FunctionTool):
        held = copy.copy(held)
        for half in ("_fn", "_async_fn", "_real_fn"):
            setattr(held, half, wrap(getattr(held, half), bound, reason))
        if type(obj) is FunctionTool:
            return held  # type: ignore[no-any-return]
        return _swapped(held, _ways(obj), bound, reason)  # type: ignore[no-any-return]
    inner = _HELD.get(type(obj))
    if inner is not None:
        held = copy.copy(held)
        setattr(held, inner, tainting(getattr(held, inner), bound, reason))
        return held  # type: ignore[no-any-return]
    ways = _ways(obj)
    if not ways:
        raise TypeError(
            "LlamaIndex's tools, retrievers, query engines, readers and memories can be: wrap the "
            "retriever or engine that is made of an index, the tools of an agent, the function that "
            "calls a store; or call session.mark_tainted(reason) before the object is used"
        )
    reason = type(obj).__name__ if reason is None else reason
    return _swapped(copy.copy(held), ways, bound, reason)  # type: ignore[no-any-return]


def _ways(obj: object) -> list[str]:
    found = [way for base, ways in _WAYS.items() if isinstance(obj, base) for way in ways]
    if isinstance(obj, BaseReader | ResourcesReaderMixin):
        found += [name for name in dir(type(obj)) if _loads(type(obj), name)]
    return [way for way in dict.fromkeys(found) if hasattr(type(obj), way)]


def _loads(kind: type, name: str) -> bool:
    """Tell whether a reader's method may load something: all public ones but a component's own."""
    if name.startswith("_") or hasattr(BaseComponent, name):
        return False
    return inspect.isroutine(inspect.getattr_static(kind, name))


def _swapped(obj: Any, ways: list[str], bound: AgentSession | None, reason: str | None) -> Any:
    """Make a copy an instance of a subclass whose ways in mark; its copies are of that class too."""
    kind: Any = type(obj)
    body: dict[str, Any] = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    body["__qualname__"] = kind.__qualname__
    for way in ways:
        method = inspect.getattr_static(kind, way)
        if isinstance(method, staticmethod | classmethod):
            body[way] = wrap(method, bound, reason)
            continue
        marking = wrap(_calling(method), bound, reason)
        # The method inside has a span already; a second one would tell the user of two calls.
        setattr(marking, DISPATCHER_SPAN_DECORATED_ATTR, True)
        body[way] = marking
    object.__setattr__(obj, "__class__", type(kind)(kind.__name__, (kind,), body))
    return obj


def _calling(method: Any) -> Any:
    """Return a function of the method's nature that calls it bound, so that its span knows whose."""
    shim: Any
    if inspect.isasyncgenfunction(method):

        async def shim(self: Any, *args: Any, **kwargs: Any) -> Any:
            async for item in method.__get__(self)(*args, **kwargs):
                yield item

    elif inspect.iscoroutinefunction(method):

        async def shim(self: Any, *args: Any, **kwargs: Any) -> Any:
            return await method.__get__(self)(*args, **kwargs)

    elif inspect.isgeneratorfunction(method):

        def shim(self: Any, *args: Any, **kwargs: Any) -> Any:
            return (yield from method.__get__(self)(*args, **kwargs))

    else:

        def shim(self: Any, *args: Any, **kwargs: Any) -> Any:
            return method.__get__(self)(*args, **kwargs)

    return functools.update_wrapper(shim, method)
