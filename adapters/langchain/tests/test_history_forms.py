"""Forms in which an app keeps a conversation of its own, and what may not come along with them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph

from sams_core import AgentSession
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.scripted import said, scripted

NOTE = {
    "scope": "assigned",
    "path": "note",
    "content": "c",
    "description": "d",
    "expected_version": None,
}
INDEX = {"scope": "assigned", "cursor": None}


@tool
def calc(query: str) -> str:
    """Compute."""
    return "42"


@tool
def fetch(url: str) -> str:
    """Fetch a page."""
    return "outsiders wrote this"


def loop(model: Any, tools: dict[str, Any], mode: str) -> list[BaseMessage]:
    """Give each tool the arguments alone, as LangChain's and LangGraph's documents do."""
    messages: list[Any] = [HumanMessage("go")]

    async def amain() -> None:
        while True:
            messages.append(await model.ainvoke(messages))
            calls = messages[-1].tool_calls
            for call in calls:
                result = await tools[call["name"]].ainvoke(call["args"])
                messages.append(ToolMessage(result, tool_call_id=call["id"]))
            if not calls:
                return

    def main() -> None:
        while True:
            messages.append(model.invoke(messages))
            calls = messages[-1].tool_calls
            for call in calls:
                result = tools[call["name"]].invoke(call["args"])
                messages.append(ToolMessage(result, tool_call_id=call["id"]))
            if not calls:
                return

    asyncio.run(amain()) if mode == "ainvoke" else main()
    return messages


def graph(model: Any, tools: dict[str, Any], mode: str) -> Any:
    def ask(state: Any) -> Any:
        return {"messages": [model.invoke([SystemMessage("Help."), *state["messages"]])]}

    def act(state: Any) -> Any:
        return {
            "messages": [
                ToolMessage(tools[c["name"]].invoke(c["args"]), tool_call_id=c["id"])
                for c in state["messages"][-1].tool_calls
            ]
        }

    made = StateGraph(MessagesState)
    made.add_node("ask", ask)
    made.add_node("act", act)
    made.add_edge(START, "ask")
    made.add_conditional_edges("ask", lambda s: "act" if s["messages"][-1].tool_calls else END)
    made.add_edge("act", "ask")
    app: Any = made.compile()
    given = {"messages": [("user", "go")]}
    return app.invoke(given) if mode == "invoke" else asyncio.run(app.ainvoke(given))


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("run", [loop, graph])
@pytest.mark.parametrize(
    ("calls", "tainted"),
    [
        ([("calc", {"query": "q"}, "c1")], False),
        ([("memory_index", INDEX, "c1")], False),
        ([("calc", {"query": "q"}, "c1"), ("calc", {"query": "q"}, "c2")], False),
        ([("calc", {"query": "q"}, "c1"), ("fetch", {"url": "u"}, "c2")], True),
    ],
    ids=["trusted", "memory", "twice the same", "a fetch"],
)
def test_a_loop_that_gives_tools_their_arguments_alone_is_as_clean_as_what_they_read(
    calls: Any, tainted: bool, run: Any, mode: str, session: AgentSession, written: Any
) -> None:
    tools = {each.name: each for each in [calc, fetch, *memory_tools()]}
    model = scripted(said("", *calls), said("", ("memory_write", NOTE, "w")), "done")
    with govern(trusted=[calc])(session):
        run(model.bind_tools([*tools.values()]), tools, mode)
    assert written() == {"note": tainted}


@pytest.mark.parametrize("result", ["another call's", "of a call with other arguments"])
def test_a_result_that_no_tool_gave_in_such_a_loop_marks(
    result: str, session: AgentSession
) -> None:
    answer = said("", ("calc", {"query": "q"}, "c1"), ("calc", {"query": "r"}, "c2"))
    model = scripted(answer, "done")
    with govern(trusted=[calc])(session):
        model.invoke("go")
        calc.invoke({"query": "q"} if result == "another call's" else {"query": "x"})
        assert not session.tainted
        model.invoke([HumanMessage("go"), answer, ToolMessage("outsiders'", tool_call_id="c2")])
    assert session.tainted


BLOCKS = AIMessage([{"type": "text", "text": "It is "}, {"type": "text", "text": "four."}])
THOUGHT = AIMessage([{"type": "reasoning", "reasoning": "2 + 2"}, {"type": "text", "text": "4"}])


@pytest.mark.parametrize("answer", [BLOCKS, THOUGHT], ids=["text", "reasoning"])
def test_the_text_of_an_answer_in_parts_is_the_sessions_own(
    answer: AIMessage, session: AgentSession, told: Any
) -> None:
    model = scripted(answer, "done", "outsiders'")
    with govern()(session):
        text = (model | StrOutputParser()).invoke("2 + 2?")
        model.invoke([HumanMessage("2 + 2?"), AIMessage(text), HumanMessage("sure?")])
        assert told(session) == []
        model.invoke([HumanMessage("2 + 2?"), AIMessage(text + "!"), HumanMessage("sure?")])
    assert session.tainted


BROKEN: Any = {"name": "x", "args": "outsiders'", "id": "1", "error": "e"}
BESIDE: dict[str, dict[str, Any]] = {
    "reasoning": {"additional_kwargs": {"reasoning_content": "outsiders wrote this"}},
    "a legacy call": {"additional_kwargs": {"function_call": {"name": "x", "arguments": "o"}}},
    "a broken call": {"invalid_tool_calls": [BROKEN | {"type": "invalid_tool_call"}]},
}


@pytest.mark.parametrize("slot", [True, False], ids=["middleware", "block alone"])
@pytest.mark.parametrize("beside", BESIDE)
def test_nothing_rides_beside_a_text_that_the_session_said(
    beside: str, slot: bool, session: AgentSession
) -> None:
    agent: Any = create_agent(
        scripted("ok", "ok", "ok"), [], middleware=[SamsMiddleware(session)] if slot else []
    )
    with govern()(session):
        first = agent.invoke({"messages": [("user", "go")]})["messages"]
        agent.invoke({"messages": [*first, HumanMessage("on")]})
        assert not session.tainted
        forged = AIMessage("ok", id=first[-1].id if slot else None, **BESIDE[beside])
        agent.invoke({"messages": [first[0], forged, HumanMessage("on")]})
    assert session.tainted


@pytest.mark.parametrize("kept", ["whole", "text"])
@pytest.mark.parametrize("beside", BESIDE)
def test_what_came_beside_the_sessions_own_text_may_come_again_or_not(
    beside: str, kept: str, session: AgentSession, told: Any
) -> None:
    answer = AIMessage("ok", **BESIDE[beside])
    model = scripted(answer, "done")
    with govern()(session):
        model.invoke("go")
        model.invoke([HumanMessage("go"), answer if kept == "whole" else AIMessage("ok")])
    assert told(session) == []


FORKS = """
import os, threading, time
from sams_langchain import history

held, go = threading.Event(), threading.Event()

def hold():
    with history._lock:
        held.set()
        go.wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if not child:
    with history._lock:
        os._exit(0)
for _ in range(200):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        os._exit(status)
    time.sleep(0.05)
os.kill(child, 9)
os._exit(1)
"""


def test_a_fork_while_a_thread_remembers_leaves_no_lock_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
