"""The demo's gullible agent as a real `FunctionAgent`: only its model is a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory

from sams_core import AgentSession
from sams_core.demo.agent import gullible
from sams_llamaindex import SamsMemoryBlock, govern, memory_tools


class GullibleAgent:
    """Keeps whole pages, under the path that a page asks for; it wraps and marks nothing itself."""

    def __init__(self, session: AgentSession, fetch: Callable[[str], str]) -> None:
        self.session = session
        self.governed = govern()
        self.tools: list[Any] = [fetch, *memory_tools()]
        self.fetch = fetch.__name__

    def read_and_remember(self, url: str) -> dict[str, Any]:
        """Fetch a page, look up the version of what it says to write, and write it."""
        return self._run(f"Read {url}", {"url": url})

    def remember(self, path: str, description: str, text: str) -> dict[str, Any]:
        """Look up the version, then write, as the tools' descriptions tell a model to."""
        task = {"path": path, "description": description, "text": text}
        return self._run(f"Remember this: {text}", task)

    def _run(self, message: str, task: dict[str, str]) -> dict[str, Any]:
        answers: dict[str, str] = {}

        def respond(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
            for said in messages:
                if said.role == "tool":
                    answers[said.additional_kwargs["tool_call_id"]] = said.content or ""
            call = gullible(task, answers, self.fetch)
            if call is None:
                return ChatMessage(role="assistant", content="done")
            name, arguments = call  # each tool is called once, so its name can be the call's id
            block = ToolCallBlock(tool_call_id=name, tool_name=name, tool_kwargs=arguments)
            return ChatMessage(role="assistant", blocks=[block])

        async def work() -> None:
            llm = MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)
            memory = Memory.from_defaults(memory_blocks=[SamsMemoryBlock()])
            with self.governed(self.session):
                agent = FunctionAgent(tools=self.tools, llm=llm)
                await agent.run(user_msg=message, memory=memory)
            # Nothing of LlamaIndex closes the database behind a memory.
            engine: Any = getattr(memory.sql_store, "_async_engine", None)
            if engine is not None:
                await engine.dispose()

        asyncio.run(work())
        result: dict[str, Any] = json.loads(answers["memory_write"])
        return result


def agent(session: AgentSession, fetch: Callable[[str], str]) -> GullibleAgent:
    """Make an agent for the story; `sams demo --framework llamaindex` calls this."""
    return GullibleAgent(session, fetch)
