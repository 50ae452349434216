"""LlamaIndex's own places for memory: a tool spec, and a memory block for the session's context."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.tool_spec.base import SPEC_FUNCTION_TYPE, BaseToolSpec

from sams_core import InvalidArguments
from sams_core.ambient import current_session, off_loop
from sams_core.errors import SessionClosed, StoreFailed
from sams_core.tools import TOOL_NAMES
from sams_llamaindex.tools import memory_tools


class SamsToolSpec(BaseToolSpec):
    """The four memory tools as a tool spec: `SamsToolSpec().to_tool_list()`.

    Names, descriptions and schemas are fixed: metadata of one's own is refused
    (`InvalidArguments`), as is a name that isn't one of the four.
    """

    spec_functions: list[SPEC_FUNCTION_TYPE] = [*TOOL_NAMES]  # noqa: RUF012 - as the base has it

    def to_tool_list(
        self,
        spec_functions: list[SPEC_FUNCTION_TYPE] | None = None,
        func_to_metadata_mapping: dict[str, Any] | None = None,
    ) -> list[FunctionTool]:
        """Return the tools, or those that are named."""
        wanted = spec_functions or self.spec_functions
        if func_to_metadata_mapping or not all(name in TOOL_NAMES for name in wanted):
            raise InvalidArguments("the tools are " + ", ".join(TOOL_NAMES) + ", as they are")
        return [tool for tool in memory_tools() if tool.metadata.name in wanted]


class SamsMemoryBlock(BaseMemoryBlock[list[ChatMessage]]):
    """What is remembered, as one labelled message of the user's role before the conversation.

    `Memory.from_defaults(memory_blocks=[SamsMemoryBlock()])`. It takes nothing from the
    conversation, is never stored with it, and has the same bytes in every request of a session
    until something is retired. Without a session at work, or where the store fails, it is empty.
    `max_chars` bounds it.
    """

    name: str = "sams_memory"
    description: str | None = "What this organisation and project remember, as data."
    priority: int = 0
    accept_short_term_memory: bool = False
    max_chars: int = Field(default=16_384, ge=0, le=1_000_000)

    @classmethod
    def class_name(cls) -> str:
        """Return the class's name."""
        return "SamsMemoryBlock"

    async def _aget(
        self, messages: list[ChatMessage] | None = None, **block_kwargs: Any
    ) -> list[ChatMessage]:
        session = current_session()
        if session is None:
            return []
        try:
            block = await off_loop(session.backend, lambda: session.context_block(self.max_chars))
        except (
            SessionClosed,
            StoreFailed,
        ):  # the run goes on without memory, as its tools will say
            return []
        return [ChatMessage(role=MessageRole.USER, content=block)] if block else []

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Keep nothing: agents write through `memory_write` alone."""
