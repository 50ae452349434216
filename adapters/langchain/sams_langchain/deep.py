"""`DEEP_AGENT_TOOLS`: the tools that `create_deep_agent` makes by itself, which nobody can name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from langchain_core.tools import StructuredTool
from langgraph.config import get_store

from sams_core.govern import Trusted
from sams_langchain.govern import Kind, runs

_FILE_TOOLS = ("ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep")


class DeepAgentTools(Kind):
    """Stands for deepagents' file tools, `task`, and LangChain's `write_todos`.

    A tool is one of them if everything that it can run was compiled in those packages' own modules:
    names and metadata don't count. File tools are covered while their files come from the agent's
    own state or from governed memory (`StateBackend`, `SamsMemoryFiles`, `StoreBackend` over
    `SamsStore`, a `CompositeBackend` of these, none of them subclassed), `task` while its sub-agents
    are deepagents' own: what they read is observed. A `CompiledSubAgent`'s runnable is named like a
    tool. Everything else of deepagents marks: `execute`, other backends, remote sub-agents.
    """

    def covers(self, tool: object, trusted: Trusted) -> bool:
        """Tell whether a tool, or a copy, is one of these; whatever can't be told isn't."""
        halves = runs(tool) if type(tool) is StructuredTool else []
        return bool(halves) and all(
            _file_tool(each) or _task(each, trusted) or _todos(each) for each in halves
        )


DEEP_AGENT_TOOLS = DeepAgentTools()


def _file_tool(function: object) -> bool:
    module = _module("deepagents.middleware.filesystem")
    middleware = module.get("FilesystemMiddleware")
    makers = [getattr(middleware, f"_create_{name}_tool", None) for name in _FILE_TOOLS]
    if not _made(function, module, *makers):
        return False
    itself = _closed_over(function).get("self")
    return type(itself) is middleware and _governed(getattr(itself, "backend", None))


def _governed(backend: object) -> bool:
    composite = _module("deepagents.backends.composite").get("CompositeBackend")
    if type(backend) is composite:
        parts: Any = backend
        routed = [*parts.routes.values(), *(each for _, each in parts.sorted_routes)]
        return all(map(_keeps, [parts.default, *routed]))
    return _keeps(backend)


def _keeps(backend: object) -> bool:
    """Tell whether a backend's files are the agent's own state or governed memory."""
    kind = type(backend)
    if kind is _module("deepagents.backends.store").get("StoreBackend"):
        return type(_store_of(backend)) is _module("sams_langchain.store").get("SamsStore", _Never)
    return kind in (
        _module("deepagents.backends.state").get("StateBackend", _Never),
        _module("sams_langchain.files").get("SamsMemoryFiles", _Never),
    )


def _store_of(backend: Any) -> object:
    store = getattr(backend, "_store", None)
    try:
        return get_store() if store is None else store
    except Exception:  # outside a graph, or in one without a store
        return None


def _task(function: object, trusted: Trusted) -> bool:
    module = _module("deepagents.middleware.subagents")
    maker = module.get("_build_task_tool")
    if not _made(function, module, maker):
        return False
    prepares = _closed_over(function).get("_validate_and_prepare_state")
    if not _made(prepares, module, maker):
        return False
    specs = _closed_over(prepares).get("subagents_by_name")
    return isinstance(specs, dict) and all(
        "runnable" not in spec or trusted.covers(spec["runnable"]) for spec in specs.values()
    )


def _todos(function: object) -> bool:
    module = _module("langchain.agents.middleware.todo")
    own = module.get("TodoListMiddleware")
    makers = [*map(module.get, ("_write_todos", "_awrite_todos")), getattr(own, "__init__", None)]
    return _made(function, module, *makers)


class _Never:
    """The type of no object."""


def _module(name: str) -> Mapping[str, Any]:
    """Return a module's names; what nobody has imported has made no tool."""
    return vars(sys.modules[name]) if name in sys.modules else {}


def _made(function: object, module: Mapping[str, Any], *makers: object) -> bool:
    """Tell whether a function is one of the makers or was made by one, and runs in their module."""
    return (
        type(function) is FunctionType
        and function.__globals__ is module
        and any(function.__code__ is code for maker in makers for code in _codes(maker))
    )


def _codes(maker: object) -> Iterator[CodeType]:
    if isinstance(maker, FunctionType):
        yield maker.__code__
        yield from (each for each in maker.__code__.co_consts if isinstance(each, CodeType))


def _closed_over(function: Any) -> dict[str, Any]:
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # not filled yet
        return {}
    return dict(zip(function.__code__.co_freevars, cells, strict=False))
