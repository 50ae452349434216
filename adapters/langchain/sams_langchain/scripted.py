"""A chat model that says what a script says: for tests, demos and examples without a key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool


class ScriptedModel(BaseChatModel):
    """Says what `say` returns for what it was shown, in every way that LangChain asks a model.

    `say` gets the messages and the tools on offer as they would go over the wire.
    """

    say: Callable[[list[BaseMessage], list[dict[str, Any]]], AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **more: Any) -> Any:
        """Offer tools in strict mode."""
        wire = [t if isinstance(t, dict) else convert_to_openai_tool(t, strict=True) for t in tools]
        return self.bind(tools=wire, **more)

    def _answer(self, messages: list[BaseMessage], more: Mapping[str, Any]) -> AIMessage:
        said = self.say(messages, more.get("tools", []))
        return said.model_copy(update={"id": None})  # LangGraph overwrites messages of one id

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> ChatResult:
        said = self._answer(messages, more)
        return ChatResult(generations=[ChatGeneration(message=said)])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> Iterator[ChatGenerationChunk]:
        said = self._answer(messages, more)
        calls: Any = [
            {
                "name": call["name"],
                "args": json.dumps(call["args"]),
                "id": call["id"],
                "index": number,
                "type": "tool_call_chunk",
            }
            for number, call in enumerate(said.tool_calls)
        ]
        chunk = AIMessageChunk(
            content=said.content,
            additional_kwargs=said.additional_kwargs,
            response_metadata=said.response_metadata,
            tool_call_chunks=calls,
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=chunk)


def said(text: str = "", *calls: tuple[str, Mapping[str, Any], str]) -> AIMessage:
    """Return a model's answer: a text, or calls as (tool, arguments, id)."""
    made = [{"name": n, "args": dict(a), "id": i, "type": "tool_call"} for n, a, i in calls]
    return AIMessage(text, tool_calls=made)


def scripted(*answers: Any) -> ScriptedModel:
    """Return a model that gives these answers (messages or texts), one after the other."""
    left = iter(answers)

    def say(messages: list[BaseMessage], tools: list[dict[str, Any]]) -> AIMessage:
        each = next(left)
        each = each(messages, tools) if callable(each) else each
        return said(each) if isinstance(each, str) else each

    return ScriptedModel(say=say)
