"""`session.tainting(x)` for LangChain's objects: a copy of the same type, which marks when a call begins.

The copy's class is a subclass made for it. So the mark is found wherever the framework goes from an
object to another: through its methods, by copying it, and by making it anew from class and fields.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from langchain_core.document_loaders import BaseBlobParser, BaseLoader, BlobLoader
from langchain_core.documents.compressor import BaseDocumentCompressor
from langchain_core.load.serializable import Serializable
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.stores import BaseStore
from langchain_core.tools import BaseTool
from langchain_core.vectorstores import VectorStore
from pydantic import BaseModel

from sams_core.records import Source
from sams_core.session import AgentSession
from sams_core.taint import make_source, marking
from sams_langchain.tools import is_memory_tool

T = TypeVar("T")
_KINDS: tuple[type, ...] = (
    *(Runnable, VectorStore, BaseStore, BaseLoader, BlobLoader, BaseBlobParser),
    BaseDocumentCompressor,
)
_ADVICE = (
    "tainting() wraps LangChain's runnables (tools, retrievers, models, chains, graphs), vector and "
    "key-value stores, loaders, blob parsers, document compressors and MCP clients. Of a toolkit wrap "
    "the tools; of anything else what it is made of, before you compose it; or call "
    "session.mark_tainted(reason) before it is used"
)


def tainting(obj: T, bound: AgentSession | None, reason: str | None) -> T:
    """Return a copy of `obj` on which each call marks before it begins; see `AgentSession.tainting`.

    It stays what it was for `isinstance`, schemas, `|`, `bind`, `with_retry` and the like, and what
    these or a copy make of it marks too. All public methods count as calls but for those that only
    describe, compose or fill it. Attributes don't, nor parts that are taken out of it. Pickling it is a
    `TypeError`, as is wrapping anything else, and the four memory tools, which mark by themselves.
    """
    if not _is_kind(obj) or is_memory_tool(obj):
        raise TypeError(_ADVICE)
    name = obj.get_name() if isinstance(obj, Runnable) else type(obj).__name__
    kind = "retriever" if isinstance(obj, BaseRetriever) else "tool"
    try:
        wrapped: T = _Mark(bound, make_source(kind, reason or name)).of(obj)
    except Exception as error:  # of a class that can't be extended, or of which there is one object
        raise TypeError(_ADVICE) from error
    return wrapped


def _is_kind(obj: object) -> bool:
    client = getattr(sys.modules.get("langchain_mcp_adapters.client"), "MultiServerMCPClient", ())
    return isinstance(obj, (_KINDS, client, _of_graphs("BaseStore")))


def _of_graphs(name: str) -> Any:
    """Return a class of LangGraph's stores, or no class where nobody has imported them."""
    return getattr(sys.modules.get("langgraph.store.base"), name, ())


# What is no call, although it has a public name.
_COMPOSES = frozenset(
    """aget_graph aget_subgraphs as_retriever as_tool assign bind bind_tools config_schema
    configurable_alternatives configurable_fields copy get_config_jsonschema get_context_jsonschema
    get_graph get_input_jsonschema get_input_schema get_lc_namespace get_name get_output_jsonschema
    get_output_schema get_prompts get_subgraphs is_lc_serializable lc_id map partial pick pipe prepare
    to_json to_json_not_implemented validate with_alisteners with_config with_fallbacks with_listeners
    with_retry with_structured_output with_types""".split()
)
_FILLS = (
    *("aadd_", "add_", "adelete", "afrom_", "amdelete", "amset", "aupsert", "close", "create"),
    *("aput", "delete", "drop", "from_", "mdelete", "mset", "persist", "put", "save", "upsert"),
)
# And what is one, or makes another object of this one, although its name isn't public.
_CALLS = ("__aiter__", "__anext__", "__call__", "__getitem__", "__iter__", "__next__")
_HOOKS = ("_aget_relevant_documents", "_arun", "_get_relevant_documents", "_run")
_MAKES = ("__add__", "__copy__", "__deepcopy__", "__or__", "__radd__", "__ror__", "_prepare")
_GIVES = ("__getitem__", "get_tools")
# These keep what they are called on by reference, so it will mark by itself.
_REFER = ("langchain_core.runnables.base", "langchain_core.vectorstores.base")
# Fields that the framework takes apart, and those of a tool that are called directly.
_PARTS = ("bound", "first", "last", "middle", "steps")
_HALVES = ("coroutine", "func")


def _marks(cls: type, name: str) -> bool:
    """Tell whether that method counts as a call, if it is in the class; what isn't known does."""
    if name in _HOOKS:
        base: type = BaseTool if issubclass(cls, BaseTool) else BaseRetriever
        return issubclass(cls, base) and getattr(cls, name) is not getattr(base, name, None)
    if name.startswith("_"):
        return name in _CALLS and not (issubclass(cls, BaseModel) and hasattr(BaseModel, name))
    if name in _COMPOSES or (issubclass(cls, BaseModel) and hasattr(BaseModel, name)):
        return False
    filled = issubclass(cls, (VectorStore, BaseRetriever, BaseStore, _of_graphs("BaseStore")))
    return not (filled and name.startswith(_FILLS))


class _Mark:
    """One call of `tainting`: what it marks with, and the classes that it made."""

    def __init__(self, bound: AgentSession | None, source: Source) -> None:
        self._bound, self._source = bound, source
        self._made: dict[type, type] = {}

    def of(self, obj: Any) -> Any:
        """Return a copy that marks, or what already is one."""
        cls = type(obj)
        if cls in self._made.values():
            return obj
        if cls not in self._made:
            self._made[cls] = self._subclass(cls)
        made = _copied(obj)
        object.__setattr__(made, "__class__", self._made[cls])
        held = getattr(made, "__dict__", {})
        for name, value in list(held.items()):
            half = name in _HALVES and isinstance(obj, BaseTool)
            if name in _PARTS:
                held[name] = self._each(value)
            elif half or inspect.isroutine(getattr(cls, name, None)):
                held[name] = self._method(cls, name, value)
        if hasattr(cls, "__del__"):
            weakref.finalize(made, id, obj).atexit = False  # or its end would close what both use
        return made

    def _each(self, value: Any) -> Any:
        """Wrap what can be wrapped of a result or a part."""
        if type(value) in (list, tuple):
            return type(value)(map(self._each, value))
        return self.of(value) if _is_kind(value) and not is_memory_tool(value) else value

    def _subclass(self, cls: Any) -> type:
        def reduced(self: Any, protocol: Any) -> Any:
            found = cls.__reduce_ex__(self, protocol)
            return found if isinstance(found, str) else (_Stays(found[0]), *found[1:])

        def missing(self: Any, name: str) -> Any:
            value = cls.__getattr__(self, name)
            return value if name.startswith("_") else mark._method(cls, name, value)

        def added(self: Any, other: Any) -> Any:  # asked first if `other` is of our plain class
            plus = getattr(type(other), "__add__", None) if isinstance(other, Runnable) else None
            return NotImplemented if plus is None else mark._each(plus(other, self))

        mark = self
        body: dict[str, Any] = {name: getattr(cls, name) for name in _NAMES}
        body["__reduce_ex__"] = reduced
        for name in dir(cls):
            method = inspect.getattr_static(cls, name)
            if isinstance(method, functools.partialmethod):
                method = getattr(cls, name)
            wrapped = self._method(cls, name, method)
            if wrapped is not method:
                bound = hasattr(type(method), "__get__")
                body[name] = wrapped if bound else staticmethod(wrapped)
        if any("__getattr__" in base.__dict__ for base in cls.__mro__):
            body["__getattr__"] = missing
        if hasattr(cls, "__add__") and not hasattr(cls, "__radd__"):
            body["__radd__"] = added
        if issubclass(cls, Serializable):  # what is loaded from the text would mark nobody
            body["is_lc_serializable"] = classmethod(lambda cls: False)
        if hasattr(cls, "__del__"):
            body["__del__"] = lambda self: None
        if not cls.__dictoffset__:  # or its objects would have another layout than the copy
            body["__slots__"] = ()
        return types.new_class(cls.__name__, (cls,), {}, lambda ns: ns.update(body))

    def _method(self, cls: type, name: str, method: Any) -> Any:
        """Wrap what is called by that name on an object; return anything else as it is."""
        if isinstance(method, _UNBOUND):
            inner = self._method(cls, name, method.__func__)
            return method if inner is method.__func__ else type(method)(inner)
        if not callable(method) or isinstance(method, type):
            return method
        if name in ("batch", "abatch") and issubclass(cls, _of_graphs("BaseStore")):
            return self._carrying_out(method)
        if _marks(cls, name):
            routine = inspect.isroutine(method) or isinstance(method, functools.partial)
            kept = self._keeping(method) if name in _GIVES else method
            code = kept if routine else type(method).__call__
            return functools.wraps(method)(marking(kept, code, self._bound, self._source))
        makes = name in _MAKES or name in _COMPOSES
        if makes and getattr(method, "__module__", None) not in _REFER:
            return self._keeping(method)
        return method

    def _carrying_out(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap what a LangGraph store does all of its work by: to fill it alone is no call."""
        marked = marking(method, method, self._bound, self._source)

        def chosen(ops: list[object]) -> Callable[..., Any]:
            return method if all(isinstance(op, _of_graphs("PutOp")) for op in ops) else marked

        @functools.wraps(method)
        def batch(*given: Any, **named: Any) -> Any:
            *store, ops = *given, *named.values()  # no store where an object has its own `batch`
            return chosen(ops := [*ops])(*store, ops)

        @functools.wraps(method)
        async def abatch(*given: Any, **named: Any) -> Any:
            *store, ops = *given, *named.values()
            return await chosen(ops := [*ops])(*store, ops)

        return abatch if inspect.iscoroutinefunction(method) else batch

    def _keeping(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def keeping(*args: Any, **kwargs: Any) -> Any:
            return self._each(method(*args, **kwargs))

        @functools.wraps(method)
        async def akeeping(*args: Any, **kwargs: Any) -> Any:
            return self._each(await method(*args, **kwargs))

        return akeeping if inspect.iscoroutinefunction(method) else keeping


_NAMES = ("__module__", "__qualname__", "__doc__")
_UNBOUND = (staticmethod, classmethod)


class _Stays:
    """How a copy is made, for `copy`; for `pickle` a `TypeError`."""

    def __init__(self, how: Callable[..., Any]) -> None:
        self._how = how

    def __call__(self, *args: Any) -> Any:
        return self._how(*args)

    def __reduce_ex__(self, protocol: object) -> str:
        raise TypeError("what tainting() returned stays in its process")


def _copied(obj: Any) -> Any:
    """Copy fields, whatever the class says of copying: some return the object itself."""
    if isinstance(obj, BaseModel):
        return BaseModel.__copy__(obj)
    made = object.__new__(type(obj))
    state = object.__getstate__(obj)
    fields, slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(fields or {}), **(slots or {})}.items():
        object.__setattr__(made, name, value)
    return made
