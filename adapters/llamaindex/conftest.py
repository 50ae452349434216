"""What all of the adapter's tests share: sessions, a scripted model, and LlamaIndex's own warnings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sams_core import AgentSession, SQLiteBackend

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What LlamaIndex's own code warns of itself."""
    quiet = (
        "ignore::pydantic.warnings.PydanticDeprecationWarning",  # its agents' own attributes
        "ignore:is_running called from within a step:DeprecationWarning",
        "ignore:Skipping serialization of known unserializable key",  # with pydantic 2.14
    )
    for item in items:
        if item.path.is_relative_to(FOLDER):
            for line in quiet:
                item.add_marker(pytest.mark.filterwarnings(line))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Close the databases behind LlamaIndex's memories, the README's too; nothing else does."""
    from llama_index.core.storage.chat_store import sql

    made: list[Any] = []
    real = sql.create_async_engine

    def recorded(*args: Any, **kwargs: Any) -> Any:
        made.append(real(*args, **kwargs))
        return made[-1]

    async def close() -> None:
        for engine in made:
            await engine.dispose()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql, "create_async_engine", recorded)
        result = yield
    asyncio.run(close())
    return result


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SQLiteBackend]:
    backend = SQLiteBackend(str(tmp_path / "store"))
    yield backend
    backend.close()


@pytest.fixture
def open_session(backend: SQLiteBackend) -> Callable[[str], AgentSession]:
    def opened(session_id: str) -> AgentSession:
        return AgentSession(
            backend, session_id=session_id, agent="a", assigned="project:p", user="insider"
        )

    return opened


@pytest.fixture
def session(open_session: Callable[[str], AgentSession]) -> AgentSession:
    return open_session("s1")


@pytest.fixture
def scripted() -> Callable[..., Any]:
    """Make a model that says turn after turn: a final text, calls, or what a function returns."""
    from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
    from llama_index.core.llms.mock import MockFunctionCallingLLM

    def model(*turns: Any, seen: list[Any] | None = None) -> MockFunctionCallingLLM:
        left = list(turns)

        def respond(messages: Sequence[ChatMessage], **kwargs: Any) -> ChatMessage:
            if seen is not None:
                seen.append(list(messages))
            turn = left.pop(0)
            turn = turn(messages) if callable(turn) else turn
            if isinstance(turn, ChatMessage):
                return turn
            if isinstance(turn, str):
                return ChatMessage(role="assistant", content=turn)
            blocks = [
                ToolCallBlock(tool_call_id=id, tool_name=name, tool_kwargs=arguments)
                for id, name, arguments in turn
            ]
            return ChatMessage(role="assistant", blocks=blocks)

        return MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)

    return model
