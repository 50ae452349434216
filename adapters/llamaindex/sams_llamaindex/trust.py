"""What an object of LlamaIndex can run: trust goes by identity, from the inside out."""

from __future__ import annotations

import inspect
from typing import Any

from llama_index.core.agent.workflow.multi_agent_workflow import handoff
from llama_index.core.postprocessor import (
    FixedRecencyPostprocessor,
    KeywordNodePostprocessor,
    LLMRerank,
    LongContextReorder,
    MetadataReplacementPostProcessor,
    SimilarityPostprocessor,
    StructuredLLMRerank,
    TimeWeightedPostprocessor,
)
from llama_index.core.program.function_program import get_function_tool
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool
from llama_index.core.tools.function_tool import async_to_sync, sync_to_async
from llama_index.core.tools.types import BaseToolAsyncAdapter

from sams_core.govern import Trusted


async def _nothing() -> None:
    """Stand in for a function, to learn the code of what is derived from one."""


# A function tool derives the half that it isn't given; the given function is in the closure.
_DERIVED = (sync_to_async(len).__code__, async_to_sync(_nothing).__code__)
# The function inside the tool that LlamaIndex makes of a class for structured output.
_STRUCTURED = next(
    const
    for const in get_function_tool.__code__.co_consts
    if inspect.iscode(const) and const.co_name == "model_fn"
)
# Postprocessors that only drop, sort or replace what they are given: they read nothing.
SORTERS = frozenset(
    (
        FixedRecencyPostprocessor,
        KeywordNodePostprocessor,
        LLMRerank,  # what its model does is seen
        LongContextReorder,
        MetadataReplacementPostProcessor,
        SimilarityPostprocessor,
        StructuredLLMRerank,
        TimeWeightedPostprocessor,
    )
)
_WAYS = frozenset(("call", "acall", "__call__", "retrieve", "aretrieve", "query", "aquery"))


def _given(function: Any) -> Any:
    code = getattr(function, "__code__", None)
    if any(code is derived for derived in _DERIVED):
        return function.__closure__[0].cell_contents
    return function


def parts(obj: object) -> list[object]:
    """Return all that an object of one of LlamaIndex's own classes can run, else nothing.

    Subclasses may do more than their bases, and an instance whose methods were replaced does.
    """
    kind = type(obj)
    held: Any = obj
    if _WAYS & getattr(obj, "__dict__", {}).keys():
        return []
    if kind is FunctionTool:
        halves = (held._fn, held._async_fn, held._callback, held._async_callback)
        return [_given(half) for half in halves if half is not None]
    if kind is QueryEngineTool:
        return _inside([held._query_engine])
    if kind is RetrieverTool or kind is RetrieverQueryEngine:
        others = [each for each in held._node_postprocessors if type(each) not in SORTERS]
        if kind is RetrieverQueryEngine and not _stock(held._response_synthesizer):
            others.append(held._response_synthesizer)
        return _inside([held._retriever, *others])
    if kind is BaseToolAsyncAdapter:
        return _inside([held.base_tool])
    return []


def _stock(synthesizer: object) -> bool:
    return type(synthesizer).__module__.startswith("llama_index.core.response_synthesizers.")


def _inside(objects: list[Any]) -> list[object]:
    return [part for each in objects for part in (parts(each) or [each])]


def covered(trusted: Trusted, obj: object) -> bool:
    """Tell whether the harness vouches for an object, or for all that it can run."""
    return trusted.covers(obj, parts(obj))


def harmless(tool: object) -> bool:
    """Tell whether a tool is LlamaIndex's own for a hand-off or for a structured answer."""
    inside = parts(tool) if type(tool) is FunctionTool else []
    return bool(inside) and all(
        each is handoff or getattr(each, "__code__", None) is _STRUCTURED for each in inside
    )


def from_mcp(tool: object) -> bool:
    """Tell whether a tool was made by LlamaIndex's MCP package: a server wrote its description."""
    return isinstance(tool, FunctionTool) and any(
        str(getattr(each, "__module__", "")).startswith("llama_index.tools.mcp")
        for each in (tool._real_fn, _given(tool._fn), _given(tool._async_fn))
    )
