"""The allow-list of what may go into a model and come out of it without marking the session.

What isn't listed marks: uploads, hosted tools, citations, and types that don't exist yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool

_TEXT = frozenset({"text", "input_text", "output_text", "guard_content", "cachePoint"})
# What a model says by itself, in the spellings of providers and of LangChain.
_SAID = _TEXT | {
    "compaction",
    "custom_tool_call",
    "function_call",
    "input_json_delta",
    "invalid_tool_call",
    "reasoning",
    "reasoning_content",
    "redacted_thinking",
    "refusal",
    "thinking",
    "tool_call",
    "tool_call_chunk",
    "tool_use",
}
_BESIDE = frozenset(
    {
        "__gemini_function_call_thought_signatures__",
        "__openai_function_call_ids__",
        "_reasoning_api_fields",
        "audio",
        "finish_reason",
        "function_call",
        "generation_id",
        "id",
        "is_search_required",
        "model",
        "model_id",
        "parsed",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "reasoning_items",
        "refusal",
        "response_id",
        "signature",
        "stop_reason",
        "thinking",
        "thinking_blocks",
        "time_created",
        "token_count",
        "tool_calls",
        "tool_plan",
        "total_tokens",
        "usage",
    }
)
# Parts of key names by which providers say that they read something, or are asked to.
_READ = ("annotation", "citation", "grounding", "search", "server_tool", "source")
_ASKED = (
    *("cached_content", "connector", "container", "conversation", "data_source", "document"),
    "file_id",
    *("grounding", "knowledge", "mcp", "plugin", "previous_response", "retriev", "search"),
    "vector_store",
)
# Describe the answer, or are for the app's own records.
_FORMS = ("format", "headers", "metadata", "profile", "schema", "stop", "tool_choice")
# Name no source: how tokens are chosen, and that a conversation is known by its own last answer.
_NOT_ASKED = ("beam_search", "use_previous_response_id")
_RUN_BY_THE_APP = (
    ("name", "input_schema"),
    ("name", "parameters"),
    ("title", "properties"),  # a bare JSON schema
)
# Hold such descriptions, and may have beside them what the provider runs.
_HOLDERS = ("cachePoint", "function_declarations", "toolSpec")
_EXTRAS = frozenset(
    {
        "allowed_callers",
        "cache_control",
        "defer_loading",
        "eager_input_streaming",
        "input_examples",
        "strict",
    }
)


def _kind(cls: type) -> type[BaseMessage] | None:
    kinds = (AIMessage, ToolMessage, HumanMessage, SystemMessage)
    return next((kind for kind in kinds if issubclass(cls, kind)), None)


# Which of the messages that are known here those of a class are. pydantic's classes take long to say that
# an object isn't one of theirs.
kind_of: Callable[[type], type[BaseMessage] | None] = lru_cache(256)(_kind)


def foreign(message: BaseMessage) -> list[str]:
    """Name what a message has that nobody vouched for; a tool's result is judged by its call."""
    kind = kind_of(type(message))
    if kind is ToolMessage:
        return []
    if kind is None:
        return [f"a {type(message).__name__}"]
    if kind is not AIMessage:
        return _blocks(message.content, _TEXT)
    found = _blocks(message.content, _SAID)
    if message.additional_kwargs:
        found += [f"{key} beside an answer" for key in _beside(message.additional_kwargs)]
    if message.response_metadata:
        found += [f"{key} of an answer" for key in _keys(message.response_metadata, _READ)]
    return found


def _beside(kwargs: Mapping[str, Any]) -> list[str]:
    found = []
    for key, value in kwargs.items():
        if key == "provider_specific_fields" and isinstance(value, Mapping):  # LiteLLM's
            found += _beside(value)
        elif value and key not in _BESIDE:  # a zero in a list is a place, such as the first source
            found.append(key)
    return found


def _blocks(content: object, allowed: frozenset[str]) -> list[str]:
    if isinstance(content, str):
        return []
    found = []
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            continue
        parts: Mapping[str, Any] = block if isinstance(block, Mapping) else {}
        kind = parts.get("type")
        if kind not in allowed:
            found.append(f"{kind or 'unknown'} block")
        elif _full(parts.get("annotations")) or _full(parts.get("citations")):
            found.append("citations")
    return found


def _full(value: object) -> bool:
    """Tell whether there is anything in it; zero uses of a hosted tool are nothing."""
    if isinstance(value, Mapping):
        return any(map(_full, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_full, value))
    return bool(value)


def _keys(data: Any, parts: tuple[str, ...], depth: int = 4) -> list[str]:
    """Return the keys, at any depth that providers use, that have such a part and a value."""
    if isinstance(data, list | tuple):
        return [key for each in data for key in _keys(each, parts, depth)]
    if not depth or not _holds(type(data)):
        return []
    found = []
    for key, value in data.items():
        if parts is _ASKED and _has(str(key), _FORMS):
            continue
        if isinstance(key, str) and _has(key.lower(), parts):
            found += [key] if _full(value) else []
        elif _holds(type(value)):
            found += _keys(value, parts, depth - 1)
    return found


def _is_container(cls: type) -> bool:
    return issubclass(cls, (Mapping, list, tuple))


_holds: Callable[[type], bool] = lru_cache(1_024)(_is_container)


@lru_cache(4_096)  # a model has dozens of options, and each request is looked at
def _has(key: str, parts: tuple[str, ...]) -> bool:
    return any(part in key for part in parts)


def offered(tools: object) -> list[str]:
    """Name the tools of a request that a provider would run, or that can't be told."""
    if not isinstance(tools, Iterable):
        return [] if tools is None else ["unlistable tools"]
    return [f"offered {told}" for each in tools if (told := _hosted(each))]


def _hosted(tool: Any) -> str | None:
    if type(tool) is not dict:
        if isinstance(tool, BaseTool):
            extras = getattr(tool, "extras", None)  # which older versions don't have
            unknown = sorted(set(extras) - _EXTRAS) if extras else []
            return f"{tool.name} with {unknown[0]}" if unknown else None
        if callable(tool):
            return None  # a function or a schema, run by the app
        if not isinstance(tool, Mapping):
            return "an unknown kind of tool"
    kind = tool.get("type")
    if kind in ("function", "custom") and not tool.keys().isdisjoint(("function", "name")):
        return None
    given = [key for key, value in tool.items() if value is not None]  # Gemini's have every key
    if kind in (None, "object") and any(set(form) <= set(given) for form in _RUN_BY_THE_APP):
        return None
    more = [key for key in given if key not in _HOLDERS]
    if given and not more:
        return None
    return f"hosted {kind or next(iter(more), 'tool')}"


def asked(params: object) -> list[str]:
    """Name what a request's parameters ask a provider to read by itself."""
    if not isinstance(params, Mapping):
        return []
    rest = {
        key: value
        for key, value in params.items()
        if key not in ("tools", "functions") and not _has(str(key), _FORMS)
    }
    told = [f"asked for {key}" for key in _keys(rest, _ASKED) if not key.endswith(_NOT_ASKED)]
    return offered(params.get("tools")) + _deeper(rest) + told


def _deeper(data: Any, depth: int = 4) -> list[str]:
    """Name the hosted tools that are offered further inside, as in an `extra_body`."""
    if isinstance(data, list | tuple):
        return [told for each in data for told in _deeper(each, depth)]
    if not depth or not _holds(type(data)):
        return []
    return [
        told
        for key, value in data.items()
        if key == "tools" or _holds(type(value))
        for told in (offered(value) if key == "tools" else _deeper(value, depth - 1))
    ]


def described_elsewhere(tool: object) -> bool:
    """Tell whether an MCP server chose a tool's description, which the model reads when it's offered."""
    kept = getattr(tool, "__dict__", {})  # pydantic takes long to say that an attribute is missing
    made = (type(tool), kept.get("func"), kept.get("coroutine"))
    modules = [getattr(each, "__module__", None) or "" for each in made]
    return any(m.startswith(("langchain_mcp_adapters", "langchain.mcp")) for m in modules)
