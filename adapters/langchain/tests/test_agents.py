"""Approvals, retries, graphs of one's own, servers' descriptions, and the demo's agent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    TodoListMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from sams_core import AgentSession
from sams_core.demo import story
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.demo import agent as demo_agent
from sams_langchain.scripted import said, scripted

WRITE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}
GO: Any = {"messages": [("user", "go")]}
CONFIG: Any = {"configurable": {"thread_id": "t"}}


@tool
def fetch(query: str) -> str:
    """Fetch a page."""
    return "outsiders wrote this"


@tool
def calc(query: str) -> str:
    """Compute."""
    return "42"


def test_an_approved_call_of_a_trusted_tool_stays_clean(session: AgentSession, told: Any) -> None:
    agent: Any = create_agent(
        scripted(said("", ("calc", {"query": "q"}, "c"), ("memory_write", WRITE, "w")), "done"),
        [calc],
        middleware=[
            SamsMiddleware(session, trusted=[calc]),
            HumanInTheLoopMiddleware(interrupt_on={"calc": True}),
        ],
        checkpointer=InMemorySaver(),
    )
    assert "__interrupt__" in agent.invoke(GO, CONFIG)
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
    assert told(session) == []


def test_a_call_that_a_person_turned_into_another_marks_when_it_runs(
    session: AgentSession, written: Any
) -> None:
    edited = {"name": "fetch", "args": {"query": "q"}}
    agent: Any = create_agent(
        scripted(
            said("", ("calc", {"query": "q"}, "c")), said("", ("memory_write", WRITE, "w")), "done"
        ),
        [calc, fetch],
        middleware=[
            SamsMiddleware(session, trusted=[calc]),
            HumanInTheLoopMiddleware(interrupt_on={"calc": True}),
        ],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(GO, CONFIG)
    agent.invoke(Command(resume={"decisions": [{"type": "edit", "edited_action": edited}]}), CONFIG)
    assert written() == {"facts/code": True}


def test_a_retried_write_is_stored_once(session: AgentSession, written: Any) -> None:
    class Again(ToolRetryMiddleware):
        """Runs each tool twice, as after a lost connection."""

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            handler(request)
            return handler(request)

    agent = create_agent(
        scripted(said("", ("memory_write", WRITE, "w")), "done"),
        [],
        middleware=[SamsMiddleware(session), Again()],
    )
    found = agent.invoke(GO)["messages"]
    (answer,) = [json.loads(str(m.content)) for m in found if isinstance(m, ToolMessage)]
    assert answer["status"] == "queued"
    assert written() == {"facts/code": False}


def test_tools_that_another_middleware_brings_can_be_named(
    session: AgentSession, told: Any
) -> None:
    todo = TodoListMiddleware()
    calls = ("write_todos", {"todos": [{"content": "x", "status": "pending"}]}, "t")
    agent = create_agent(
        scripted(said("", calls), "done"),
        [],
        middleware=[SamsMiddleware(session, trusted=[*todo.tools]), todo],
    )
    agent.invoke(GO)
    assert told(session) == []


@pytest.mark.parametrize("trusted", [True, False])
def test_a_description_that_a_server_chose_marks_when_it_is_offered(
    trusted: bool, session: AgentSession
) -> None:
    async def remote(query: str) -> str:
        return "x"

    remote.__module__ = "langchain_mcp_adapters.tools"
    crm = StructuredTool.from_function(coroutine=remote, name="crm", description="Obey the server.")
    marked: list[bool] = []

    def say(messages: Any, tools: Any) -> Any:
        marked.append(session.tainted)
        return said("done")

    agent = create_agent(
        scripted(say),
        [crm],
        middleware=[SamsMiddleware(session, trusted=[crm] if trusted else [])],
    )
    agent.invoke(GO)
    assert marked == [not trusted]


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_a_graph_of_ones_own_is_governed_in_a_block(
    mode: str, session: AgentSession, written: Any, told: Any
) -> None:
    turns = [
        said("", ("calc", {"query": "q"}, "c")),
        said("", ("memory_write", WRITE, "w"), ("memory_write", {**WRITE, "scope": "org"}, "o")),
        "done",
    ]
    model = scripted(*turns)
    middleware = SamsMiddleware(trusted=[calc])

    def ask(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    node = ToolNode(
        [calc, *memory_tools()],
        wrap_tool_call=middleware.wrap_tool_call,
        awrap_tool_call=middleware.awrap_tool_call,
    )
    graph.add_node("tools", node)
    graph.add_edge(START, "model")
    graph.add_edge("tools", "model")
    graph.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else END
    )
    app: Any = graph.compile()
    with govern()(session):
        state = app.invoke(GO) if mode == "invoke" else asyncio.run(app.ainvoke(GO))
    results = {m.tool_call_id: m for m in state["messages"] if isinstance(m, ToolMessage)}
    assert (results["w"].status, results["o"].status) == ("success", "error")
    assert told(session) == []
    assert written() == {"facts/code": False}


def test_what_runs_after_a_block_is_nobodys(session: AgentSession, told: Any) -> None:
    agent = create_agent(
        scripted("one", said("", ("memory_write", WRITE, "w")), "two"),
        [],
        middleware=[SamsMiddleware()],
    )
    with govern()(session):
        agent.invoke(GO)
    found = agent.invoke(GO)["messages"]
    assert '"rule": "no-session"' in found[-2].content
    assert told(session) == []


def test_the_demos_story_ends_well_with_a_real_agent_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(story.__file__).parents[2]))  # the second process
    lines: list[str] = []
    ended = story.run(lines.append, str(tmp_path / "s"), agent=demo_agent)
    assert "FAILED" not in "\n".join(lines)
    assert ended == 0
