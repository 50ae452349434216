"""What the handlers hear, and who judges it: calls, models' requests and answers, workflow steps.

Marks are made when a call begins. What can't be understood marks: a bug here, or a shape that
LlamaIndex will have one day, must not read as "nothing was read".
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextvars import ContextVar
from inspect import BoundArguments, Parameter
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.image_retriever import BaseImageRetriever
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatInProgressEvent,
    LLMCompletionEndEvent,
    LLMCompletionInProgressEvent,
)
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.multi_modal_llms.base import MultiModalLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.tools import ToolOutput
from llama_index.core.tools.types import BaseTool
from llama_index.core.workflow import Workflow
from llama_index_instrumentation.span import active_span_id

from sams_llamaindex import model, results, steps, turn
from sams_llamaindex.govern import begin, here, mark
from sams_llamaindex.tools import MemoryTool
from sams_llamaindex.trust import SORTERS, harmless

UNCLEAR = "something that the adapter doesn't understand: "
_PIECES = LLMChatInProgressEvent | LLMCompletionInProgressEvent
_WHOLES = LLMChatEndEvent | LLMCompletionEndEvent
_READERS = (BaseRetriever, BaseQueryEngine, BaseImageRetriever, BaseNodePostprocessor)

# The tool retriever that runs at the moment, with the id of its span; see `_finds_tools`.
_finding: ContextVar[tuple[str, object] | None] = ContextVar(
    "sams_llamaindex_finding", default=None
)


def entered(id_: str, bound: Any, instance: Any, parent: str | None) -> None:
    """Judge a span that begins, before its body runs."""
    try:
        if isinstance(instance, BaseTool):
            if type(instance) is not MemoryTool and not harmless(instance):
                begin("tool", turn.name_of(instance), instance)
        elif isinstance(instance, _READERS):
            if type(instance) not in SORTERS and not _finds_tools(id_, instance, parent):
                begin("retriever", type(instance).__name__, instance)
        elif isinstance(instance, BaseLLM | MultiModalLLM):
            _request(id_, instance, bound)
        elif isinstance(instance, BaseChatEngine):
            steps.check_memory(getattr(instance, "_memory", None))
            _check_parts(instance)
            _check_conversation(instance, bound)
        elif isinstance(instance, Workflow):
            steps.run_entered(id_, instance)
        elif instance is None:
            steps.entered(id_, bound)
    except BaseException as error:
        _unclear(error)


def _check_parts(engine: Any) -> None:
    """Mark for what a chat engine reads; it may only be taken for a retriever, and have no span."""
    single = (getattr(engine, name, None) for name in ("_retriever", "_query_engine"))
    for part in (*single, *(getattr(engine, "_node_postprocessors", None) or ())):
        if part is not None and type(part) not in SORTERS:
            begin("retriever", type(part).__name__, part)


def _check_conversation(engine: Any, bound: BoundArguments) -> None:
    """Mark for what a chat engine is asked with; its model may see that inside of a prompt alone."""
    message = bound.arguments.get("message")
    given = [*(bound.arguments.get("chat_history") or ())]
    if isinstance(message, str):
        given.append(ChatMessage(role="user", content=message))
    memory = getattr(engine, "_memory", None)
    if type(memory) is ChatMemoryBuffer and type(memory.chat_store) is SimpleChatStore:
        given += memory.get_all()  # others may have to wait for theirs
    for kind, reason in model.messages(given):
        mark(kind, reason)


def left(id_: str, instance: Any, result: Any, error: BaseException | None) -> None:
    """Look at the end of a span: what a tool returned is no stranger in the conversation."""
    try:
        if isinstance(instance, BaseTool):
            if isinstance(result, ToolOutput):
                text = results.text_of(result.blocks)
                results.know_text(text, clean=turn.clean(instance, text))
            elif error is not None:
                text = str(error)
                results.know_text(
                    text, "Encountered error: " + text, clean=turn.clean(instance, text)
                )
        elif isinstance(instance, BaseLLM | MultiModalLLM):
            turn.done(id_)
            _answer(result)
        elif isinstance(instance, Workflow):
            steps.run_left(id_, error is None)
        elif instance is None:
            steps.left(id_, result)
        elif isinstance(instance, BaseRetriever) and isinstance(result, list):
            finding = _finding.get()
            if finding is not None and finding[1] is instance:
                steps.found(instance, result)
    except BaseException as problem:
        _unclear(problem)


def heard(event: Any) -> None:
    """Look at what a model answers, piece by piece where it streams."""
    try:
        if isinstance(event, _PIECES | _WHOLES):
            _answer(event.response, whole=isinstance(event, _WHOLES))
    except BaseException as error:
        _unclear(error)


def _request(id_: str, llm: Any, bound: BoundArguments) -> None:
    if not here():
        return
    given, options = _taken_apart(bound)
    turn.offered_by(id_, options.get("tools", given.get("tools")))
    for kind, reason in model.request(llm, given, options):
        mark(kind, reason)


def _taken_apart(bound: BoundArguments) -> tuple[Mapping[object, Any], Mapping[str, Any]]:
    """Return a call's arguments and its free keywords, whatever the integration calls them."""
    given: dict[object, Any] = {}
    options: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is Parameter.VAR_KEYWORD:
            options = value
        elif kind is Parameter.VAR_POSITIONAL:
            given.update(enumerate(value))
        else:
            given[name] = value
    return given, options


def _answer(response: Any, whole: bool = True) -> None:
    if not isinstance(response, ChatResponse | CompletionResponse) or not here():
        return
    for reason in model.answer(response):
        mark("content", reason)
    turn.judge(model.called(response))
    if whole:
        results.know_text(*model.said(response))


def _finds_tools(id_: str, instance: object, parent: str | None) -> bool:
    """Tell whether a retriever runs to find the tools of an agent's turn.

    What it finds are the harness's own tool objects; each is judged when it is called. It is known
    by identity, and only where the agent's step itself began it (or it began itself again inside).
    """
    outer = _finding.get()
    mine = (outer is not None and outer[0] == parent and outer[1] is instance) or (
        steps.may_find_tools(instance, parent)
    )
    if mine:
        _finding.set((id_, instance))
    return mine


def _unclear(error: BaseException) -> None:
    mark("content", UNCLEAR + type(error).__name__, here())


# LlamaIndex gives this one way into a postprocessor no span, and its subclasses may read in it.
_unseen = BaseNodePostprocessor.apostprocess_nodes


@functools.wraps(_unseen)
async def _seen(self: BaseNodePostprocessor, *args: Any, **kwargs: Any) -> Any:
    entered("", None, self, active_span_id.get())
    return await _unseen(self, *args, **kwargs)


def watch(on: bool) -> None:
    """Hear of what has no span, or no longer."""
    old, new = (_unseen, _seen) if on else (_seen, _unseen)
    if BaseNodePostprocessor.apostprocess_nodes is old:
        BaseNodePostprocessor.apostprocess_nodes = new  # type: ignore[method-assign]  # put in its place
