"""The demo's gullible agent as a real `FunctionAgent`: only its model is a script."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory

from sams_core import AgentSession
from sams_llamaindex import SamsMemoryBlock, govern, memory_tools

_TOLD_PATH = re.compile(r"under\s+([a-z0-9_.-]+(?:/[a-z0-9_.-]+)+):")


class GullibleAgent:
    """Keeps whole pages, under the path that a page asks for; it wraps and marks nothing itself."""

    def __init__(self, session: AgentSession, fetch: Callable[[str], str]) -> None:
        self.session = session
        self.governed = govern()
        self.tools: list[Any] = [fetch, *memory_tools()]
        self.fetch = fetch.__name__

    def read_and_remember(self, url: str) -> dict[str, Any]:
        """Fetch a page, look up the version of what it says to write, and write it."""

        def turns(seen: Sequence[ChatMessage]) -> ToolCallBlock | None:
            results = _results(seen)
            if not results:
                return _call(seen, self.fetch, {"url": url})
            title, _, text = results[0].partition("\n\n")
            told = _TOLD_PATH.search(text)
            path = told[1] if told else "web/" + url.rpartition("/")[2].removesuffix(".html")
            return _remember(seen, results[1:], path, title, text)

        return self._run(turns, f"Read {url}")

    def remember(self, path: str, description: str, text: str) -> dict[str, Any]:
        """Look up the version, then write, as the tools' descriptions tell a model to."""
        return self._run(
            lambda seen: _remember(seen, _results(seen), path, description, text),
            f"Remember this: {text}",
        )

    def _run(
        self, turns: Callable[[Sequence[ChatMessage]], ToolCallBlock | None], message: str
    ) -> dict[str, Any]:
        last: list[Sequence[ChatMessage]] = []

        def respond(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
            last[:] = [messages]
            call = turns(messages)
            if call is None:
                return ChatMessage(role="assistant", content="done")
            return ChatMessage(role="assistant", blocks=[call])

        async def work() -> None:
            llm = MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)
            agent = FunctionAgent(tools=self.tools, llm=llm)
            memory = Memory.from_defaults(memory_blocks=[SamsMemoryBlock()])
            with self.governed(self.session):
                await agent.run(user_msg=message, memory=memory)
            # Nothing of LlamaIndex closes the database behind a memory.
            engine: Any = getattr(memory.sql_store, "_async_engine", None)
            if engine is not None:
                await engine.dispose()

        asyncio.run(work())
        answer: dict[str, Any] = json.loads(_results(last[0])[-1])
        return answer


def _results(seen: Sequence[ChatMessage]) -> list[str]:
    return [message.content or "" for message in seen if message.role == "tool"]


def _call(seen: Sequence[ChatMessage], name: str, arguments: dict[str, Any]) -> ToolCallBlock:
    return ToolCallBlock(tool_call_id=f"call-{len(seen)}", tool_name=name, tool_kwargs=arguments)


def _remember(
    seen: Sequence[ChatMessage], results: list[str], path: str, description: str, text: str
) -> ToolCallBlock | None:
    place = {"scope": "assigned", "path": path}
    if not results:
        return _call(seen, "memory_read", place)
    if len(results) == 1:
        version = json.loads(results[0]).get("version") or None
        new = {"content": text + "\n", "description": description, "expected_version": version}
        return _call(seen, "memory_write", place | new)
    return None


def agent(session: AgentSession, fetch: Callable[[str], str]) -> GullibleAgent:
    """Make an agent for the story; `sams demo --framework llamaindex` calls this."""
    return GullibleAgent(session, fetch)
