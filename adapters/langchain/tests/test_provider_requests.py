"""Requests as providers' own packages make them: what they ask for marks, whatever form it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI

from sams_langchain import govern
from sams_langchain.content import foreign
from sams_langchain.scripted import said

SEARCH = {"type": "web_search"}
MODES = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])


@tool
def calc(query: str) -> str:
    """Compute."""
    return "42"


def offline(kind: Any, sent: Callable[[], None], **fields: Any) -> Any:
    """Return a provider's model that says when it would send a request, and sends none."""

    class Offline(kind):  # type: ignore[misc]  # chosen by the caller
        def _generate(self, messages: Any, *args: Any, **more: Any) -> ChatResult:
            sent()
            return ChatResult(generations=[ChatGeneration(message=AIMessage("so it is"))])

        async def _agenerate(self, messages: Any, *args: Any, **more: Any) -> ChatResult:
            return self._generate(messages)

    return Offline(api_key="k", **{"model": "gpt-4o", **fields})


def openai(sent: Any, **fields: Any) -> Any:
    return offline(ChatOpenAI, sent, **fields)


def anthropic(sent: Any, **fields: Any) -> Any:
    return offline(ChatAnthropic, sent, **{"model": "claude-sonnet-4-5", **fields})


def gemini(sent: Any, **fields: Any) -> Any:
    return offline(ChatGoogleGenerativeAI, sent, **{"model": "gemini-2.5-flash", **fields})


HOSTED: dict[str, Callable[[Any], Any]] = {
    "Gemini's search": lambda s: gemini(s).bind_tools([{"google_search": {}}]),
    "Gemini's page reader": lambda s: gemini(s).bind_tools([{"url_context": {}}]),
    "beside a tool of ours": lambda s: gemini(s).bind_tools([calc, {"google_search": {}}]),
    "in one object with a tool of ours": lambda s: gemini(s).bind(
        tools=[{"function_declarations": [{"name": "calc"}], "url_context": {}}]
    ),
    "what Gemini keeps": lambda s: gemini(s, cached_content="cachedContents/1"),
    "Anthropic's MCP servers": lambda s: anthropic(
        s, mcp_servers=[{"type": "url", "url": "https://x", "name": "x"}]
    ),
    "Anthropic's other options": lambda s: anthropic(s, model_kwargs={"tools": [SEARCH]}),
    "OpenAI's other options": lambda s: openai(s, model_kwargs={"tools": [SEARCH]}),
    "a body's tools": lambda s: openai(s, extra_body={"tools": [SEARCH]}),
    "a body's tools at a call": lambda s: openai(s).bind(extra_body={"tools": [SEARCH]}),
}
PLAIN: dict[str, Callable[[Any], Any]] = {
    "OpenAI's tools": lambda s: openai(s).bind_tools([calc], strict=True),
    "Anthropic's tools": lambda s: anthropic(s).bind_tools([calc]),
    "Gemini's tools": lambda s: gemini(s).bind_tools([calc]),
    "declarations": lambda s: gemini(s).bind(
        tools=[{"function_declarations": [{"name": "calc"}], "google_search": None}]
    ),
    "a way to choose tokens": lambda s: openai(s, extra_body={"use_beam_search": True}),
    "its own last answer": lambda s: openai(s, use_previous_response_id=True),
}


def ask(model: Any, mode: str) -> None:
    asyncio.run(model.ainvoke("q")) if mode == "ainvoke" else model.invoke("q")


CASES = [
    *(pytest.param(make, True, id=name) for name, make in HOSTED.items()),
    *(pytest.param(make, False, id=name) for name, make in PLAIN.items()),
]


@MODES
@pytest.mark.parametrize(("make", "marks"), CASES)
def test_a_hosted_tool_marks_before_the_request_is_sent_and_tools_of_ours_dont(
    make: Callable[[Any], Any], marks: bool, mode: str, session: Any
) -> None:
    seen: list[bool] = []
    model = make(lambda: seen.append(session.tainted))
    with govern()(session):
        ask(model, mode)
    assert seen == [marks]


def test_a_call_of_a_custom_tool_is_a_call_like_others() -> None:
    block: dict[str, Any] = {"type": "custom_tool_call", "name": "calc", "input": "q"}
    call = said("", ("calc", {"__arg1": "q"}, "c"))
    call.content = [block]
    assert foreign(call) == []
