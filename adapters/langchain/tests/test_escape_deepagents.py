"""What a deep agent's sub-agents read, where nothing of theirs reaches the agent that asked them."""

from __future__ import annotations

import asyncio
from typing import Any, NotRequired

import pytest
from deepagents import create_deep_agent
from langchain.agents import AgentState, create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command

from sams_core import AgentSession
from sams_langchain import DEEP_AGENT_TOOLS, SamsMiddleware
from sams_langchain.scripted import said, scripted

WRITE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}
GO: Any = {"messages": [("user", "go")]}
Q = {"query": "q"}


@tool
def fetch(query: str) -> str:
    """Fetch a page."""
    return "outsiders wrote this"


@tool
def calc(query: str) -> str:
    """Compute."""
    return "42"


def write() -> AIMessage:
    return said("", ("memory_write", WRITE, "w"))


def run(app: Any, mode: str) -> Any:
    return app.invoke(GO) if mode == "invoke" else asyncio.run(app.ainvoke(GO))


def reader(inner: Any) -> Any:
    """Return an agent without governance of its own that uses a tool and answers."""
    return create_agent(scripted(said("", (inner.name, Q, "i")), "it says so"), [inner])


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("inner", [fetch, calc], ids=["outsiders'", "declared"])
def test_a_declared_sub_agent_isnt_vouched_for_in_what_it_reads(
    inner: Any, mode: str, session: AgentSession, written: Any
) -> None:
    looker = reader(inner)
    task = {"description": "look it up", "subagent_type": "looker"}
    agent = create_deep_agent(
        scripted(said("", ("task", task, "c")), write(), "done"),
        [],
        subagents=[{"name": "looker", "description": "Looks.", "runnable": looker}],
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS, looker, calc])],
    )
    run(agent, mode)
    assert written() == {"facts/code": inner is fetch}


# langchain-ai/deepagents#485: what a sub-agent's tool puts into the state doesn't reach its parent.


class Noted(AgentState[Any]):
    """A state with a key of the app's own."""

    note: NotRequired[str]


def test_deepagents_485_a_sub_agents_mark_needs_no_state_to_reach_its_parent(
    session: AgentSession, told: Any
) -> None:
    inner: list[Any] = []

    @tool
    def notes(query: str, runtime: ToolRuntime) -> Command[Any]:
        """Put outsiders' words into the state."""
        done = ToolMessage("ok", tool_call_id=runtime.tool_call_id)
        return Command(update={"note": "outsiders wrote this", "messages": [done]})

    def last(messages: Any, tools: Any) -> AIMessage:
        inner.append(messages)
        return said("it says so")

    looker = create_agent(scripted(said("", ("notes", Q, "n")), last), [notes], state_schema=Noted)
    task = {"description": "look it up", "subagent_type": "looker"}
    agent = create_deep_agent(
        scripted(said("", ("task", task, "c")), "done"),
        [],
        subagents=[{"name": "looker", "description": "Looks.", "runnable": looker}],
        middleware=[SamsMiddleware(session)],
    )
    state = agent.invoke(GO)
    assert inner and state.get("note") is None  # the issue
    assert any(each.startswith("tool notes:") for each in told(session))
