"""Turns of which part is missing: those that waited, arguments alone, keys in another order, sub-agents."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.types import Command, interrupt

from sams_core import Owner
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.scripted import said, scripted

GO: Any = {"messages": [("user", "go")]}
CONFIG: Any = {"configurable": {"thread_id": "t"}}
WRITE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}
SEARCH = {"type": "web_search"}
MODES = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])


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


# Turns that go on where nobody heard them begin.


def flow_of(model: Any, saver: Any) -> Any:
    tools: Any = {each.name: each for each in [fetch, calc, *memory_tools()]}

    @task
    def think(messages: Any) -> Any:
        return model.invoke(messages)

    @task
    def act(call: Any) -> Any:
        return tools[call["name"]].invoke(call)

    @entrypoint(checkpointer=saver)
    def flow(messages: Any) -> Any:
        while True:
            answer = think(messages).result()
            messages = [*messages, answer]
            for call in answer.tool_calls:
                if call["name"] == "memory_write":
                    interrupt("may it?")
                messages.append(act(call).result())
            if not answer.tool_calls:
                return answer

    return flow


@pytest.mark.parametrize("same", [True, False], ids=["its own", "another session's"])
def test_a_write_that_waited_in_a_workflow_is_labelled_by_whose_conversation_it_came_from(
    same: bool, open_session: Any, written: Any
) -> None:
    first, second = open_session("s1"), open_session("s1" if same else "s2")
    read = said("", ("calc" if same else "fetch", {"query": "q"}, "c"))
    model, saver = scripted(read, write(), "done"), InMemorySaver()
    governed = govern(trusted=[calc])
    with governed(first):
        flow_of(model, saver).invoke([HumanMessage("go")], CONFIG)
    assert (first.tainted, written()) == (not same, {})
    with governed(second):
        flow_of(model, saver).invoke(Command(resume="yes"), CONFIG)
    assert written() == {"facts/code": not same}


def test_a_call_of_anothers_turn_isnt_known_by_an_id_that_models_use_again(
    open_session: Any, written: Any
) -> None:
    first, second = open_session("s1"), open_session("s2")
    read = said("", ("fetch", {"query": "q"}, "c"))
    model, saver = scripted(read, write(), "done"), InMemorySaver()
    with govern()(first):
        flow_of(model, saver).invoke([HumanMessage("go")], CONFIG)
    with govern()(second):
        scripted(said("", ("memory_write", {**WRITE, "path": "another"}, "w"))).invoke("hello")
        flow_of(model, saver).invoke(Command(resume="yes"), CONFIG)
    assert written() == {"facts/code": True}


@pytest.mark.parametrize("order", [1, -1], ids=["the write last", "the write first"])
@pytest.mark.parametrize("other", [fetch, calc], ids=["undeclared", "trusted"])
def test_a_loop_that_gives_arguments_alone_judges_a_turn_as_a_whole(
    other: Any, order: int, session: Any, written: Any
) -> None:
    tools = {each.name: each for each in [other, *memory_tools()]}
    calls: list[Any] = [(other.name, {"query": "q"}, "c"), ("memory_write", WRITE, "w")][::order]
    with govern(trusted=[calc])(session):
        for call in scripted(said("", *calls)).invoke("go").tool_calls:
            tools[call["name"]].invoke(call["args"])
    assert written() == {"facts/code": other is fetch}


# Conversations that databases and clients keep.


def turned(value: Any) -> Any:
    """Return the same data with other orders of keys."""
    if isinstance(value, dict):
        return {key: turned(each) for key, each in reversed(value.items())}
    return [turned(each) for each in value] if isinstance(value, list) else value


def test_a_conversation_whose_keys_came_back_in_another_order_is_still_the_sessions(
    session: Any,
) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    call = said("", ("add", {"a": 1, "b": 2}, "c"))
    call.content = [{"type": "text", "text": "I add."}]
    agent = create_agent(
        scripted(call, "3", "3 it is"),
        [add],
        middleware=[SamsMiddleware(session, trusted=[add])],
    )
    kept = agent.invoke(GO)["messages"]
    for message in kept:
        message.content = turned(message.content)
        for each in getattr(message, "tool_calls", ()):
            each["args"] = turned(each["args"])
    agent.invoke({"messages": [*kept, HumanMessage("Sure?")]})
    assert not session.tainted


# Sub-agents with sessions of their own.


@pytest.mark.parametrize("inside", ["a block", "a tool"])
def test_a_childs_agent_acts_for_the_child_inside_its_parents_run(
    inside: str, session: Any, backend: Any
) -> None:
    child = session.child("sub")
    note = {**WRITE, "scope": "run"}
    turn = said("", ("memory_write", WRITE, "w"), ("memory_write", note, "n"))
    sub = create_agent(scripted(turn, "done"), [], middleware=[SamsMiddleware(child)])

    @tool
    def delegate(query: str) -> str:
        """Ask the sub-agent."""
        return str(sub.invoke(GO)["messages"][-1].text)

    if inside == "a block":
        with govern()(session):
            sub.invoke(GO)
    else:
        asks = said("", ("delegate", {"query": "q"}, "c"))
        middleware = [SamsMiddleware(session, trusted=[delegate])]
        create_agent(scripted(asks, "done"), [delegate], middleware=middleware).invoke(GO)
    (change,) = Owner(backend, "olga").changes("tenant:acme")
    assert (change.source_session, change.author) == (child.session_id, "sub")
    assert child.memory_read("run", "facts/code").content == "7-7-7"
