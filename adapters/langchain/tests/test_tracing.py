"""LangChain has LangSmith trace a middleware's hooks: what that asks of a turn where nothing is traced."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langsmith.run_helpers import tracing_context

from sams_core import AgentSession
from sams_langchain import SamsMiddleware
from sams_langchain.scripted import said, scripted

HOOKS = ("awrap_model_call", "awrap_tool_call")


async def calc(query: str) -> str:
    """Calculate."""
    return "4"


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was handed to a thread."""
    found: list[str] = []
    submit = ThreadPoolExecutor.submit

    def counted(self: ThreadPoolExecutor, work: Any, *args: Any, **more: Any) -> Any:
        found.append(repr((work, args)))
        return submit(self, work, *args, **more)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    return found


@pytest.mark.parametrize("governed", [False, True], ids=["bare", "governed"])
def test_an_async_turn_asks_no_thread_but_the_models(
    governed: bool, session: AgentSession, hops: list[str]
) -> None:
    tool = StructuredTool.from_function(coroutine=calc, name="calc")
    reads = ("memory_index", {"scope": "assigned", "cursor": None}, "c2")
    answers = [said("", ("calc", {"query": "2+2"}, "c1")), said("", reads), "done"]
    if not governed:
        del answers[1]
    agent: Any = create_agent(
        scripted(*answers),
        [tool],
        middleware=[SamsMiddleware(session, trusted=[tool])] if governed else [],
    )
    hops.clear()
    asyncio.run(agent.ainvoke({"messages": [("user", "go")]}))
    assert len(hops) == len(answers)  # the scripted model has no asynchronous half
    assert not session.tainted


def test_hooks_of_a_middleware_that_is_made_while_traced_are_traced_to_their_ends(
    session: AgentSession,
) -> None:
    with tracing_context(enabled=True):
        traced = SamsMiddleware(session)
    assert all(inspect.iscoroutinefunction(getattr(traced, name)) for name in HOOKS)
    untraced = SamsMiddleware(session)
    assert not any(inspect.iscoroutinefunction(getattr(untraced, name)) for name in HOOKS)
