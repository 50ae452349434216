"""`session.tainting(x)` for LangChain's objects: the same thing, which marks when a call begins."""

from __future__ import annotations

import copy
import inspect
import types
from contextvars import ContextVar
from typing import Any, TypeVar

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.document_loaders import BaseLoader
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langchain_core.tracers.context import register_configure_hook
from langchain_core.vectorstores import VectorStore

from sams_core.records import Source
from sams_core.session import AgentSession
from sams_core.taint import begin_call, make_source, wrap

T = TypeVar("T")
_ADVICE = (
    "tainting() wraps tools, retrievers, vector stores and loaders of LangChain. Wrap what this one "
    "is made of before you compose it, or call session.mark_tainted(reason) before it is used"
)


def tainting(obj: T, bound: AgentSession | None, reason: str | None) -> T:
    """Return `obj` so that each call marks before it begins; see `AgentSession.tainting`.

    Tools and retrievers keep their type and survive `model_copy`, `deepcopy`, `bind` and configurable
    fields; vector stores and loaders become a subclass of theirs. Pickling one is a `TypeError`, as
    is wrapping anything else.
    """
    wrapped: Any
    if isinstance(obj, StructuredTool | Tool) and type(obj) in (StructuredTool, Tool):
        wrapped = _function_tool(obj, bound, reason)
    elif isinstance(obj, BaseTool):
        wrapped = _told_by_metadata(obj, bound, make_source("tool", reason or obj.name))
    elif isinstance(obj, BaseRetriever):
        wrapped = _told_by_metadata(obj, bound, make_source("retriever", reason or obj.get_name()))
    elif isinstance(obj, VectorStore | BaseLoader):
        wrapped = _subclassed(obj, bound, reason or type(obj).__name__)
    else:
        raise TypeError(_ADVICE)
    result: T = wrapped
    return result


def _function_tool(tool: Any, bound: AgentSession | None, reason: str | None) -> Any:
    """Wrap both halves themselves: they are often called directly."""
    halves = {
        half: wrap(getattr(tool, half), bound, reason or tool.name)
        for half in ("func", "coroutine")
        if getattr(tool, half) is not None
    }
    return tool.model_copy(update=halves)


# What runs anything else keeps its class, since the framework makes it anew from class and fields
# (configurable fields do). So the mark travels in a field, `metadata`, which a handler is shown.


class _Mark(str):
    """Looks like text wherever metadata is written down; counts by identity of its type only."""

    bound: AgentSession | None
    source: Source

    def __copy__(self) -> _Mark:
        return self

    def __deepcopy__(self, memo: object) -> _Mark:
        return self

    def __reduce_ex__(self, protocol: object) -> str:
        raise TypeError("what tainting() returned stays in its process")


class _Marker(BaseCallbackHandler):
    raise_error = True
    run_inline = True

    def __deepcopy__(self, memo: object) -> _Marker:
        return self

    def on_tool_start(self, serialized: Any, input_str: str, **more: Any) -> None:
        self._begin(more.get("metadata"))

    def on_retriever_start(self, serialized: Any, query: str, **more: Any) -> None:
        self._begin(more.get("metadata"))

    def _begin(self, metadata: Any) -> None:
        for value in (metadata or {}).values():
            if type(value) is _Mark:
                begin_call(value.bound, value.source)


# One object for all contexts on purpose: it holds nothing.
_marker: ContextVar[_Marker | None] = ContextVar("sams_tainting", default=_Marker())  # noqa: B039
register_configure_hook(_marker, inheritable=False)


def _told_by_metadata(obj: Any, bound: AgentSession | None, source: Source) -> Any:
    mark = _Mark("tainting")
    mark.bound, mark.source = bound, source
    kept = dict(obj.metadata or {})
    key = f"sams_{len(kept)}"  # a key of its own: what is wrapped twice marks twice
    return obj.model_copy(update={"metadata": {**kept, key: mark}})


# Vector stores and loaders have neither callbacks nor fields. Each has reading methods of its own,
# so all that they have in public count, but for these.

_DONT_READ = (
    *("_", "aadd_", "add_", "adelete", "aupsert", "as_retriever", "close", "create", "delete"),
    *("drop", "persist", "save", "upsert"),
)


def _subclassed(obj: Any, bound: AgentSession | None, reason: str) -> Any:
    cls = type(obj)
    body: dict[str, Any] = {
        name: wrap(getattr(cls, name), bound, reason)
        for name in dir(cls)
        if not name.startswith(_DONT_READ) and inspect.isfunction(getattr(cls, name))
    }
    for name in ("__module__", "__qualname__", "__doc__"):
        body[name] = getattr(cls, name)
    made = copy.copy(obj)
    object.__setattr__(
        made, "__class__", types.new_class(cls.__name__, (cls,), {}, lambda ns: ns.update(body))
    )
    return made
