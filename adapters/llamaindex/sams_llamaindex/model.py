"""An allow-list of what goes into a model and comes out of it; all else is a reason for a mark.

Hosted tools, uploads, citations, other conversations' tool results and types that don't exist yet
bring outsiders' text to the model without any call that LlamaIndex would know of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from llama_index.core.base.llms.types import (
    CachePoint,
    ChatMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.tools.types import BaseTool
from pydantic import BaseModel

from sams_llamaindex import turn
from sams_llamaindex.govern import here
from sams_llamaindex.results import LONG, anothers, foreign, owner, place, text_of
from sams_llamaindex.trust import from_mcp

_PLAIN = (TextBlock, ThinkingBlock, ToolCallBlock, CachePoint)
_ROLES = frozenset("system developer user assistant chatbot model tool function".split())
_TOOL_ROLES = frozenset(("tool", "function"))

# What a request may be given beside its messages: how to answer, not what to look at.
_SETTINGS = frozenset(
    """allow_parallel_tool_calls automatic_function_calling best_of candidate_count echo extra_headers
    format formatted frequency_penalty function_call functions json_mode keep_alive logit_bias logprobs
    max_completion_tokens max_new_tokens max_output_tokens max_retries max_tokens metadata min_p model n
    num_ctx num_predict parallel_tool_calls presence_penalty prompt_cache_key random_seed reasoning
    reasoning_effort repeat_penalty response_format response_mime_type response_modalities
    response_schema safe_prompt safety_identifier safety_settings seed service_tier stop
    stop_sequences store stream
    stream_options strict temperature text thinking thinking_config timeout tool_choice tool_config
    tool_required tools top_k top_logprobs top_p truncation user verbosity""".split()
)
# Settings inside of a setting.
_NESTED = frozenset(("chat_template_kwargs", "extra_body", "generation_config", "options"))
_HOSTED = ("built_in_tools", "built_in_tool", "mcp_servers", "tools", "cached_content")
_GIVEN = (
    *("additional_kwargs", "model_kwargs", "generation_config", "_generation_config"),
    *("extra_body", "generate_kwargs"),
)
# Models that search before they answer, whatever they are asked.
_SEARCHING = re.compile(
    r"search-(preview|api)|\bsonar\b|deep-research|:online\b|\bcompound\b", re.IGNORECASE
)

# What a message or an answer may carry beside its blocks.
_CARRIED = frozenset(
    """cache_control completion_tokens finish_reason function_call id logprobs model name prompt_tokens
    reasoning reasoning_content refusal role session_id status stop_reason stop_sequence thinking
    thinking_delta thinking_signature thought_signature thought_signatures tool_call_id tool_calls
    tool_use_id total_tokens type usage""".split()
)
_TELLING = frozenset(
    """annotations citations citation_metadata grounding_metadata groundingMetadata search_results
    server_tool_use url_context_metadata web_search code_execution_result executable_code""".split()
)
# Parts of an answer that a provider's own tool has made, by what they call their type.
_MADE = re.compile(
    r"server_tool_use|mcp_tool_use|\w+_tool_result|(?!(function|custom_tool|tool)_call$)\w+_call"
)
# What in an answer is the model's own and may have any shape.
_OWN = frozenset(("logprobs", "logprobs_result", "input", "arguments", "args", "parsed"))
_ASIDE = _OWN | {"tools"}  # which a provider repeats as it was asked
_WIDE = 2_000  # how far an answer's raw form is looked through
# What a request is about, where it comes among free keywords.
_ASKED = ("messages", "prompt", "chat_history", "user_msg")

Reason = tuple[str, str]  # kind of source, name


def request(llm: Any, given: Mapping[Any, Any], options: Mapping[str, Any]) -> Iterator[Reason]:
    """Yield the reasons for marks that a request to a model gives, before it is sent.

    `given` are the arguments that its method names, `options` all others.
    """
    for name in _HOSTED:
        if getattr(llm, name, None):
            yield "content", f"the model has tools of its provider: {name}"
    if any(map(_SEARCHING.search, _names(llm))):
        yield "content", "the model searches by itself"
    for name in _GIVEN:
        yield from _settings(_as_dict(getattr(llm, name, None)))
    yield from _remembered(llm)
    # By what they are: an integration may give its parameters any names.
    asked = [*given.values(), *(options[name] for name in _ASKED if name in options)]
    for value in asked:
        yield from messages([value] if isinstance(value, ChatMessage) else value)
    prompt = given.get("prompt")
    if isinstance(prompt, BasePromptTemplate):  # an integration may ask with it directly
        yield from messages(getattr(prompt, "message_templates", None))
        yield from _settings(_as_dict(given.get("llm_kwargs")))
    elif any(map(_is_asked, asked)):  # else the options are what fills the template
        about = {name for name in _ASKED if _is_asked(options.get(name))}
        yield from _settings({k: v for k, v in options.items() if k not in about})
    if given.get("tools"):
        yield from _tools(given["tools"])
    if "image_documents" in (*given, *options):
        yield "content", "images beside the prompt"


def _names(llm: Any) -> Iterator[str]:
    named = [str(getattr(llm, name, None) or "") for name in ("model", "model_name", "model_id")]
    if any(named):
        yield from named
        return
    with suppress(Exception):  # an integration may ask its server for that
        yield str(llm.metadata.model_name)


def _remembered(llm: Any) -> Iterator[Reason]:
    """Yield the reason for a mark that a conversation is which its provider keeps for somebody else."""
    before = getattr(llm, "_previous_response_id", None)
    if before or getattr(llm, "track_previous_responses", False):
        ours = place(here()[0].session.family)
        whose = owner(llm, ours)
        if whose != ours and (whose or before):
            yield "history", "a conversation that the provider keeps, of somebody else"


def _settings(given: Mapping[str, Any]) -> Iterator[Reason]:
    for key, value in given.items():
        if not value or isinstance(value, bool | int | float):
            continue
        if key in _NESTED:
            yield from _settings(_as_dict(value))
        elif key not in _SETTINGS:
            yield "content", f"the request is given {key}"
        elif key == "model" and _SEARCHING.search(str(value)):
            yield "content", "the model searches by itself"
        elif key in ("tools", "functions"):
            yield from _tools(value)


def _tools(offered: Any) -> Iterator[Reason]:
    for tool in offered if isinstance(offered, Sequence) else [offered]:
        if isinstance(tool, BaseTool):
            if from_mcp(tool):
                yield from described(tool)
        elif not _is_function(_as_dict(tool)):
            yield "content", "the model is offered a tool that its provider runs"


def described(tool: BaseTool) -> Iterator[Reason]:
    """Yield the reason for a mark that an MCP server's description of its tool is, unless trusted."""
    if not all(block.governed.trusted.covers(tool) for block in here()):
        yield "content", "a description that an MCP server wrote"


def _is_function(tool: Mapping[str, Any]) -> bool:
    if tool.get("type", "function") not in ("function", "custom"):
        return False
    described = {"function", "toolSpec", "function_declarations", "functionDeclarations"}
    left = {key for key, value in tool.items() if value} - {"type", "strict", "cache_control"}
    if left and left <= described:
        return True
    if isinstance(tool.get("tools"), Sequence):  # a provider that has them one level deeper
        return all(_is_function(_as_dict(each)) for each in tool["tools"])
    schemas = {"parameters", "input_schema", "parameter_definitions"}
    return "name" in left and left <= {"name", "description", *schemas}


def _is_asked(value: Any) -> bool:
    return isinstance(value, str | ChatMessage) or _are_messages(value)


def _are_messages(value: Any) -> bool:
    return (
        isinstance(value, Collection)
        and not isinstance(value, str | bytes | Mapping)
        and any(isinstance(each, ChatMessage) for each in value)
    )


def others(asked: Iterable[ChatMessage]) -> Iterator[Reason]:
    """Yield the reason for a mark that messages are which a marked session's model has seen."""
    families = [block.session.family for block in here()]
    texts = (text for each in asked for text in said(each))
    if any(anothers(family, text) for text in texts for family in families):
        yield "history", "what a marked session said or was told"


def messages(asked: Any) -> Iterator[Reason]:
    """Yield the reasons for marks that a conversation gives, whatever else a model is asked with."""
    calls: dict[str, list[str | None]] = {}
    families = [block.session.family for block in here()]
    for message in asked if _are_messages(asked) else ():
        if not isinstance(message, ChatMessage):
            yield "content", "a message of an unknown type"
            continue
        role = str(getattr(message.role, "value", message.role))
        if role not in _ROLES:
            yield "content", "a message of an unknown role"
        calls |= _made(message)
        known = False
        if role in _TOOL_ROLES:
            text = text_of(message.blocks)
            known = not any(foreign(family, text) for family in families) or turn.vouched(
                calls.get(str(message.additional_kwargs.get("tool_call_id")), []), text
            )
            if not known:
                yield "history", "a tool's result that no tool of this session returned"
        yield from others([message])
        for reason in _carried(message, known):
            yield "content", reason


def _carried(message: ChatMessage, known: bool = False) -> Iterator[str]:
    for block in () if known else message.blocks:
        if type(block) not in _PLAIN:
            yield f"a block of type {getattr(block, 'block_type', type(block).__name__)}"
    yield from _beside(message.additional_kwargs)


def _beside(more: Mapping[str, Any] | None) -> Iterator[str]:
    for key, value in (more or {}).items():
        if value and not isinstance(value, bool | int | float) and key not in _CARRIED:
            yield f"a message that carries {key}"


def answer(response: Any) -> Iterator[str]:
    """Yield the reasons for marks that a model's answer gives, or a piece of one."""
    message = getattr(response, "message", None)
    if isinstance(message, ChatMessage):
        yield from _carried(message)
    if hasattr(response, "additional_kwargs"):
        yield from _beside(response.additional_kwargs)
    raw = getattr(response, "raw", None)
    if not _only_says(raw, response) and (told := _telling(raw)):
        yield f"an answer with {told}"


def _only_says(raw: Any, response: Any) -> bool:
    """Tell whether the raw form is the very text as an object, as a structured model gives it."""
    text = words(response) if isinstance(raw, BaseModel) else ""
    with suppress(Exception):  # what can't be written down is looked through
        return text.startswith("{") and raw.model_dump_json() == text
    return False


def _telling(raw: Any) -> str | None:
    """Return what tells of reading on the provider's side, if anything in the raw answer does."""
    level = [raw]
    seen = 0
    while level:
        below: list[Any] = []
        for value in level:
            if isinstance(value, str | bytes | int | float | None):
                continue
            seen += 1
            if seen > _WIDE:
                return "more than can be looked through"
            if isinstance(value, list | tuple):
                below += value
                continue
            fields = value if isinstance(value, Mapping) else _fields(value)
            kind = fields.get("type")
            if isinstance(kind, str) and _MADE.fullmatch(kind):
                return kind
            for key, inner in fields.items():
                if key in _TELLING and not _nothing(inner):
                    return str(key)
                if key not in _ASIDE:
                    below.append(inner)
        level = below
    return None


def _nothing(value: Any, depth: int = 8) -> bool:
    """Tell whether a value holds zeros and empty parts only, as a count of searches that nobody made.

    A list that isn't empty is something: its zeros are places, such as the first source.
    """
    inside = value if isinstance(value, Mapping) else _fields(value)
    if not inside:
        return not value
    return depth > 0 and all(_nothing(part, depth - 1) for part in inside.values())


def _fields(value: Any) -> dict[str, Any]:
    return {
        **(getattr(value, "__dict__", None) or {}),
        **(getattr(value, "model_extra", None) or {}),
    }


def _as_dict(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        found: Mapping[str, Any] = dump(exclude_none=True)
        return found
    return {} if value is None else {"type": type(value).__name__}


def called(response: Any) -> list[str | None]:
    """Return the names of the tools that an answer calls; None for one without a name."""
    message = getattr(response, "message", None)
    if not isinstance(message, ChatMessage):
        return []
    return [name for names in _made(message).values() for name in names]


def _made(message: ChatMessage) -> dict[str, list[str | None]]:
    """Return the names of the tools that a message calls, by the ids of the calls."""
    found: dict[str, list[str | None]] = {}
    for block in message.blocks:
        if isinstance(block, ToolCallBlock):
            found.setdefault(str(block.tool_call_id), []).append(block.tool_name)
    for call in message.additional_kwargs.get("tool_calls") or ():
        found.setdefault(str(_get(call, "id")), []).append(_named(call))
    return found


def words(response: Any) -> str:
    """Return what an answer says."""
    message = getattr(response, "message", None)
    return str((message.content if isinstance(message, ChatMessage) else response.text) or "")


def said(by: Any) -> Iterator[str]:
    """Yield all that a message or an answer says: text, thoughts, and what it calls tools with."""
    message = getattr(by, "message", by)
    if not isinstance(message, ChatMessage):
        yield by.text or ""
        return
    yield message.content or ""
    waiting: list[Any] = [message.additional_kwargs]
    for block in message.blocks:
        if isinstance(block, ThinkingBlock):
            waiting.append(block.content)
        elif isinstance(block, ToolCallBlock):
            waiting.append(block.tool_kwargs)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and len(value) >= LONG:
            yield value
            with suppress(ValueError, RecursionError):  # a provider may give arguments as JSON
                value = json.loads(value)
        if isinstance(value, Mapping | BaseModel):
            waiting += _as_dict(value).values()
        elif isinstance(value, list | tuple):
            waiting += value


def _named(call: Any) -> str | None:
    for holder in (call, _get(call, "function")):
        for key in ("tool_name", "name"):
            found = _get(holder, key)
            if isinstance(found, str):
                return found
    return None


def _get(holder: Any, key: str) -> Any:
    return holder.get(key) if isinstance(holder, Mapping) else getattr(holder, key, None)
