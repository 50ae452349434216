"""A turn's calls are judged together however the graph or the app's own loop runs them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send

from sams_core import AgentSession
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.scripted import said, scripted

WRITE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}
GO: Any = {"messages": [("user", "go")]}
ORDERS = pytest.mark.parametrize("order", [1, -1], ids=["the write last", "the write first"])


@tool
def fetch(query: str) -> str:
    """Fetch a page."""
    return "outsiders wrote this"


@tool
def calc(query: str) -> str:
    """Compute."""
    return "42"


def turn(name: str, order: int) -> Any:
    return said("", *[(name, {"query": "q"}, "c"), ("memory_write", WRITE, "w")][::order])


def by_hand(answer: Any, mine: BaseTool) -> None:
    """Ask a model and run what it calls, one after the other."""
    tools = {each.name: each for each in [mine, *memory_tools()]}
    for call in scripted(answer).invoke("go").tool_calls:
        tools[call["name"]].invoke(call)


def by_nodes(answer: Any, mine: BaseTool) -> None:
    """Send each call on its own, the memory tools' to a node that has no others."""
    model = scripted(answer)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("memory", ToolNode(memory_tools()))
    graph.add_node("mine", ToolNode([mine]))
    graph.add_edge(START, "model")

    def route(state: Any) -> list[Send]:
        calls = state["messages"][-1].tool_calls
        return [Send("memory" if "memory" in c["name"] else "mine", [c]) for c in calls]

    graph.add_conditional_edges("model", route, ["memory", "mine"])
    graph.add_edge("memory", END)
    graph.add_edge("mine", END)
    app: Any = graph.compile()
    app.invoke(GO, {"max_concurrency": 1})


@ORDERS
@pytest.mark.parametrize("run", [by_hand, by_nodes])
@pytest.mark.parametrize("trusted", [True, False])
def test_a_loop_of_ones_own_judges_a_turn_as_a_whole(
    trusted: bool, run: Any, order: int, session: AgentSession, written: Any
) -> None:
    mine = calc if trusted else fetch
    with govern(trusted=[calc])(session):
        run(turn(mine.name, order), mine)
    assert written() == {"facts/code": not trusted}


def test_one_call_id_in_two_turns_of_a_loop_of_ones_own_is_two_writes(
    session: AgentSession,
) -> None:
    (write,) = [t for t in memory_tools() if t.name == "memory_write"]
    changes = []
    with govern()(session):
        for _ in range(2):
            (call,) = scripted(said("", ("memory_write", WRITE, "same"))).invoke("go").tool_calls
            again = [json.loads(str(write.invoke(call).content))["change_id"] for _ in range(2)]
            assert len(set(again)) == 1
            changes.append(again[0])
    assert len(set(changes)) == 2


@ORDERS
def test_what_an_approver_makes_of_a_call_is_judged_with_its_turn(
    order: int, session: AgentSession, written: Any
) -> None:
    config: Any = {"configurable": {"thread_id": "t"}, "max_concurrency": 1}
    agent: Any = create_agent(
        scripted(turn("calc", order), "done"),
        [calc, fetch],
        middleware=[
            SamsMiddleware(session, trusted=[calc]),
            HumanInTheLoopMiddleware(interrupt_on={"calc": True}),
        ],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(GO, config)
    edited = {"name": "fetch", "args": {"query": "q"}}
    agent.invoke(Command(resume={"decisions": [{"type": "edit", "edited_action": edited}]}), config)
    assert written() == {"facts/code": True}


def test_a_tool_that_shares_a_trusted_ones_function_isnt_trusted(session: AgentSession) -> None:
    def dispatch(query: str) -> str:
        return "x"

    safe, web = (
        StructuredTool.from_function(dispatch, name=name, description="d")
        for name in ("safe", "web")
    )
    with govern(trusted=[safe])(session):
        safe.model_copy(update={"description": "copied"}).invoke({"query": "q"})
        assert not session.tainted
        web.invoke({"query": "q"})
    assert session.tainted


def test_a_result_is_given_to_its_own_call(session: AgentSession) -> None:
    agent = create_agent(
        scripted(turn("calc", 1), "done"), [calc], middleware=[SamsMiddleware(session)]
    )
    found = [m for m in agent.invoke(GO)["messages"] if isinstance(m, ToolMessage)]
    assert {m.tool_call_id: m.name for m in found} == {"c": "calc", "w": "memory_write"}
