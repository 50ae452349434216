"""Whose conversation it is: what ordinary apps put into threads stays clean, other sessions' doesn't."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelCallLimitMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
)
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from sams_core import AgentSession
from sams_langchain import SamsMiddleware, govern, history, memory_tools
from sams_langchain.scripted import said, scripted

GO: Any = {"messages": [("user", "go")]}
CONFIG: Any = {"configurable": {"thread_id": "t"}}
GREETING = AIMessage("Hello, how can I help?")
EXAMPLES: list[BaseMessage] = [
    HumanMessage("2 + 2"),
    said("", ("calc", {"query": "2 + 2"}, "example")),
    ToolMessage("4", tool_call_id="example"),
    AIMessage("It is 4."),
]


@tool
def calc(query: str) -> str:
    """Compute."""
    return "42"


def call(id: str) -> AIMessage:
    return said("", ("calc", {"query": "q"}, id))


@pytest.mark.parametrize("slot", [True, False], ids=["middleware", "block alone"])
def test_a_server_that_opens_its_session_for_each_request_stays_clean(
    slot: bool, open_session: Any, told: Any
) -> None:
    agent: Any = create_agent(
        scripted(*["ok"] * 3),
        [] if slot else memory_tools(),
        middleware=[SamsMiddleware()] if slot else [],
        checkpointer=InMemorySaver(),
    )
    for _ in range(3):
        session = open_session("s1")
        with govern()(session):
            agent.invoke(GO, CONFIG)
        assert told(session) == []
        del session
        gc.collect()


@pytest.mark.parametrize(
    "limit",
    [
        ModelCallLimitMiddleware(run_limit=1),
        ToolCallLimitMiddleware(run_limit=1, exit_behavior="end"),
        ToolCallLimitMiddleware(run_limit=1),
    ],
    ids=["calls of the model", "calls of tools, at the end", "calls of tools, going on"],
)
def test_what_another_middleware_says_in_a_run_is_the_sessions_own(
    limit: AgentMiddleware[Any, Any], session: AgentSession, told: Any
) -> None:
    agent: Any = create_agent(
        scripted(call("c1"), call("c2"), *["done"] * 3),
        [calc],
        middleware=[SamsMiddleware(session, trusted=[calc]), limit],
        checkpointer=InMemorySaver(),
    )
    for _ in range(2):
        agent.invoke(GO, CONFIG)
    assert told(session) == []


def test_what_is_put_into_a_thread_between_two_runs_marks(session: AgentSession) -> None:
    agent: Any = create_agent(
        scripted("one", "two"),
        [],
        middleware=[SamsMiddleware(session)],
        checkpointer=InMemorySaver(),
    )
    agent.invoke(GO, CONFIG)
    agent.update_state(CONFIG, {"messages": [AIMessage("outsiders wrote this")]})
    assert not session.tainted
    agent.invoke(GO, CONFIG)
    assert session.tainted


@pytest.mark.parametrize("text", [str(GREETING.content), "outsiders wrote this"])
@pytest.mark.parametrize("slot", [True, False], ids=["middleware", "block alone"])
def test_a_greeting_that_the_harness_vouches_for_stays_clean(
    slot: bool, text: str, session: AgentSession
) -> None:
    governed = govern(trusted=[GREETING])
    agent: Any = create_agent(
        scripted("ok", "ok"),
        [] if slot else memory_tools(),
        middleware=[SamsMiddleware(session, trusted=[GREETING])] if slot else [],
        checkpointer=InMemorySaver(),
    )
    with governed(session):
        agent.invoke({"messages": [("ai", text), ("user", "go")]}, CONFIG)
        agent.invoke(GO, CONFIG)
    assert session.tainted == (text != GREETING.content)


@pytest.mark.parametrize("trusted", [EXAMPLES, []], ids=["trusted", "undeclared"])
def test_examples_in_a_prompt_are_vouched_for_by_the_harness_alone(
    trusted: Any, session: AgentSession
) -> None:
    prompt = ChatPromptTemplate.from_messages([("system", "Compute."), *EXAMPLES, ("user", "{q}")])
    with govern(trusted=trusted)(session):
        (prompt | scripted("6")).invoke({"q": "3 + 3"})
    assert session.tainted == (not trusted)


def test_a_cached_answer_is_known_again(session: AgentSession, told: Any) -> None:
    agent: Any = create_agent(scripted(*["ok"] * 4), memory_tools(), checkpointer=InMemorySaver())
    set_llm_cache(InMemoryCache())
    try:
        with govern()(session):
            for thread in "ab":
                for _ in range(2):
                    agent.invoke(GO, {"configurable": {"thread_id": thread}})
    finally:
        set_llm_cache(None)
    assert told(session) == []


def test_a_summary_of_another_sessions_conversation_marks(open_session: Any) -> None:
    """It looks like a user's message, so nothing but the pointer tells whose it is."""
    saver = InMemorySaver()

    def agent(session: AgentSession, answer: Any) -> Any:
        shorten = SummarizationMiddleware(
            scripted("outsiders wrote this"), trigger=("messages", 2), keep=("messages", 1)
        )
        middleware = [SamsMiddleware(session), shorten]
        return create_agent(scripted(answer), [], middleware=middleware, checkpointer=saver)

    def lost(messages: Any, tools: Any) -> AIMessage:
        raise ConnectionError("the provider is down")

    one, two = open_session("s1"), open_session("s2")
    agent(one, "ok").invoke(GO, CONFIG)
    with pytest.raises(ConnectionError):
        agent(one, lost).invoke(GO, CONFIG)
    assert (one.tainted, two.tainted) == (False, False)
    agent(two, "ok").invoke(GO, CONFIG)
    assert (one.tainted, two.tainted) == (False, True)


SEVERAL = """
import sys
from langchain.agents import create_agent
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from sams_core import AgentSession, SQLiteBackend
from sams_langchain import SamsMiddleware, SamsState
from sams_langchain.scripted import scripted

folder, state = sys.argv[1:3]
session = AgentSession(SQLiteBackend(folder + "/store"), session_id="s1", agent="a",
                       assigned="tenant:acme", user="insider")
with SqliteSaver.from_conn_string(folder + "/threads.db") as saver:
    graph = StateGraph({"SamsState": SamsState, "MessagesState": MessagesState}[state])
    for name in ("one", "two"):
        graph.add_node(name, create_agent(scripted(name), [], middleware=[SamsMiddleware(session)]))
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    graph.add_edge("two", END)
    app = graph.compile(checkpointer=saver)
    app.invoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "t"}})
print(session.tainted)
"""


@pytest.mark.parametrize(("state", "expected"), [("SamsState", "False"), ("MessagesState", "True")])
def test_several_agents_thread_goes_on_in_a_new_process_where_its_state_has_the_pointer(
    state: str, expected: str, tmp_path: Path
) -> None:
    def run() -> str:
        words = [sys.executable, "-W", "error", "-c", SEVERAL, str(tmp_path), state]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    assert [run(), run()] == ["False", expected]


# Blocks and generators.


def test_a_block_that_waits_in_a_generator_isnt_marked_for_what_another_one_runs(
    open_session: Any,
) -> None:
    one, two = open_session("s1"), open_session("s2")

    def inner() -> Iterator[Any]:
        with govern()(two):
            yield "started"
            yield calc.invoke({"query": "q"})

    def outer() -> Iterator[Any]:
        with govern()(one):
            handed = inner()
            next(handed)
            yield handed

    waiting = outer()
    next(next(waiting))
    assert (one.tainted, two.tainted) == (False, True)


def test_a_tool_that_goes_on_while_the_stream_waits_marks_and_finds_its_session(
    session: AgentSession, written: Any
) -> None:
    going, done = threading.Event(), threading.Event()

    @tool
    def slow(query: str) -> str:
        """Compute, while the consumer of the stream does something else."""
        from langgraph.config import get_stream_writer

        get_stream_writer()("started")
        going.wait(30)
        calc.invoke({"query": "q"})
        note = {"scope": "assigned", "path": "n", "content": "x", "description": "d"}
        arguments = {**note, "expected_version": None}
        write = {"name": "memory_write", "args": arguments, "id": "w", "type": "tool_call"}
        memory_tools()[3].invoke(write)
        done.set()
        return "42"

    agent: Any = create_agent(
        scripted(said("", ("slow", {"query": "q"}, "s")), "done"),
        [slow],
        middleware=[SamsMiddleware()],
    )

    def body() -> Iterator[Any]:
        with govern(trusted=[slow])(session):
            yield from agent.stream(GO, stream_mode="custom")

    stream = body()
    assert next(stream) == "started"
    going.set()
    assert done.wait(30)
    assert list(stream) == []
    assert written() == {"n": True}


def test_what_a_process_remembers_is_bounded_and_old_threads_stay_clean(
    session: AgentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_KEYS", 30)
    monkeypatch.setattr(history, "_TURNS", 5)
    turns = [message for number in range(40) for message in (call(f"c{number}"), f"ok {number}")]
    agent: Any = create_agent(
        scripted(*turns),
        [calc],
        checkpointer=InMemorySaver(),
        middleware=[SamsMiddleware(session, trusted=[calc])],
    )
    for thread in [*range(20)] * 2:
        agent.invoke(GO, {"configurable": {"thread_id": str(thread)}})
    known = history._of(session.family)
    assert (len(known.own) <= 60, len(known.turns) <= 10) == (True, True)
    assert not session.tainted, session.sources
