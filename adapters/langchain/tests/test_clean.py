"""What nobody outside had a hand in stays clean, and memory reaches the right session."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from sams_core import AgentSession
from sams_langchain import SamsMiddleware, SamsToolkit, govern, memory_tools
from sams_langchain.scripted import said, scripted

WRITE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}
GO: Any = {"messages": [("user", "go")]}


def write(number: int = 1) -> AIMessage:
    return said("", ("memory_write", {**WRITE, "path": f"facts/{number}"}, f"w{number}"))


@tool
def calc(query: str) -> str:
    """Compute."""
    return "42"


def plain(query: str) -> str:
    """Compute."""
    return "42"


async def later(query: str) -> str:
    """Compute."""
    return "42"


class Answer(BaseModel):
    """An answer."""

    text: str


@pytest.mark.parametrize("given", [calc, plain], ids=["the object", "the function"])
def test_a_trusted_tool_stays_clean_also_as_a_copy(
    given: Any, session: AgentSession, told: Any
) -> None:
    name = "calc" if given is calc else "plain"
    tools = [given] if given is plain else [calc.model_copy(update={"description": "copied"})]
    agent = create_agent(
        scripted(said("", (name, {"query": "q"}, "c")), write(), "done"),
        tools,
        middleware=[SamsMiddleware(session, trusted=[given])],
    )
    agent.invoke(GO)
    assert told(session) == []


def test_an_async_function_is_trusted_by_itself(session: AgentSession, told: Any) -> None:
    agent: Any = create_agent(
        scripted(said("", ("later", {"query": "q"}, "c")), write(), "done"),
        [later],
        middleware=[SamsMiddleware(session, trusted=[later])],
    )
    asyncio.run(agent.ainvoke(GO))
    assert told(session) == []


def test_a_copy_that_runs_something_else_isnt_trusted(session: AgentSession) -> None:
    with govern(trusted=[calc])(session):
        calc.model_copy(update={"func": lambda query: "x"}).invoke({"query": "q"})
    assert session.tainted


def test_trust_in_one_of_a_familys_blocks_is_enough(session: AgentSession, told: Any) -> None:
    agent = create_agent(
        scripted(said("", ("calc", {"query": "q"}, "c")), write(), "done"),
        [calc],
        middleware=[SamsMiddleware()],
    )
    with govern(trusted=[calc])(session):
        agent.invoke(GO)
    assert told(session) == []


@pytest.mark.parametrize("slot", [True, False], ids=["middleware", "block alone"])
@pytest.mark.parametrize("mode", ["invoke", "stream", "ainvoke"])
def test_a_conversation_of_several_turns_stays_clean(
    mode: str, slot: bool, session: AgentSession, told: Any, written: Any
) -> None:
    saver, config = InMemorySaver(), {"configurable": {"thread_id": "t"}}
    middleware = [SamsMiddleware(trusted=[calc])] if slot else []
    tools = [calc] if slot else [calc, *memory_tools()]
    turn = said("", ("calc", {"query": "q"}, "c"))
    agent: Any = create_agent(
        scripted(turn, write(1), "one", turn, write(2), "two"),
        tools,
        middleware=middleware,
        checkpointer=saver,
    )
    with govern(trusted=[calc])(session):
        for _ in range(2):
            if mode == "stream":
                list(agent.stream(GO, config, stream_mode="messages"))
            elif mode == "ainvoke":
                asyncio.run(agent.ainvoke(GO, config))
            else:
                agent.invoke(GO, config)
    assert told(session) == []
    assert written() == {"facts/1": False, "facts/2": False}


def test_a_structured_answer_and_its_retry_stay_clean(session: AgentSession, told: Any) -> None:
    wrong = said("", ("Answer", {"txt": 1}, "a1"))
    right = said("", ("Answer", {"text": "ok"}, "a2"))
    agent = create_agent(
        scripted(write(), wrong, right),
        [],
        middleware=[SamsMiddleware(session)],
        response_format=ToolStrategy(Answer),
    )
    assert agent.invoke(GO)["structured_response"] == Answer(text="ok")
    assert told(session) == []


def test_a_summary_of_the_conversation_stays_clean_and_the_block_survives(
    session: AgentSession, told: Any
) -> None:
    prompts: list[list[Any]] = []

    def say(messages: Any, tools: Any) -> AIMessage:
        prompts.append(messages)
        return said("fine")

    agent: Any = create_agent(
        scripted(*[say] * 8),
        [],
        middleware=[
            SamsMiddleware(session),
            SummarizationMiddleware(
                scripted(*["summary"] * 8), trigger=("messages", 5), keep=("messages", 2)
            ),
        ],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "t"}}
    states = [agent.invoke(GO, config) for _ in range(6)]
    assert told(session) == []
    assert any("summary" in str(m.content) for m in prompts[-1])
    blocks = [[m for m in shown if "<memory note=" in str(m.content)] for shown in prompts]
    assert [len(found) for found in blocks] == [1] * len(prompts)
    assert all(isinstance(found[0], HumanMessage) for found in blocks)
    assert len({found[0].content for found in blocks}) == 1
    assert not any("<memory note=" in str(m.content) for s in states for m in s["messages"])


RESUMED = """
import sys
from langchain.agents import create_agent
from langgraph.checkpoint.sqlite import SqliteSaver
from sams_core import AgentSession, SQLiteBackend
from sams_langchain import SamsMiddleware
from sams_langchain.scripted import said, scripted

folder, name, extra = sys.argv[1:4]
def calc(query: str) -> str:
    "Compute."
    return "42"
note = {"scope": "run", "path": "n", "content": "x", "description": "d", "expected_version": None}
session = AgentSession(SQLiteBackend(folder + "/store"), session_id=name, agent="a",
                       assigned="tenant:acme", user="insider")
with SqliteSaver.from_conn_string(folder + "/threads.db") as saver:
    agent = create_agent(
        scripted(said("", ("calc", {"query": "q"}, "c1")), said("", ("memory_write", note, "c2")), "ok"),
        [calc], middleware=[SamsMiddleware(session, trusted=[calc])], checkpointer=saver)
    given = [("user", "go")]
    if extra:
        given.insert(0, ("ai", "outsiders said so"))
    agent.invoke({"messages": given}, {"configurable": {"thread_id": "t"}})
print([f"{s.kind} {s.name}" for s in session.sources])
"""


@pytest.mark.parametrize(
    ("name", "extra", "expected"),
    [
        ("s1", "", "[]"),
        ("s2", "", "['history a conversation from elsewhere']"),
        ("s1", "x", "['history a conversation from elsewhere']"),
    ],
    ids=["the same session", "another session", "somebody else's answer put in"],
)
def test_a_thread_goes_on_in_a_new_process(
    name: str, extra: str, expected: str, tmp_path: Path
) -> None:
    def run(*words: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", RESUMED, str(tmp_path), *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    assert run("s1", "") == "[]"
    assert run(name, extra) == expected


# Where the session is found.


def test_a_stream_pulled_by_many_threads_finds_its_session(
    session: AgentSession, written: Any, told: Any
) -> None:
    """As a web server does with a synchronous generator: each chunk from another thread."""
    agent: Any = create_agent(
        scripted(
            said("", ("calc", {"query": "q"}, "c"), ("plain", {"query": "q"}, "p")),
            said("", *[("memory_write", {**WRITE, "path": f"facts/{n}"}, f"w{n}") for n in "12"]),
            "done",
        ),
        [calc, plain],
        middleware=[SamsMiddleware()],
    )

    def body() -> Iterator[Any]:
        with govern(trusted=[calc])(session):
            yield from agent.stream(GO, stream_mode="updates")

    stream, done = body(), threading.Event()

    def pull() -> None:
        if next(stream, None) is None:
            done.set()

    for _ in range(50):
        thread = threading.Thread(target=pull)
        thread.start()
        thread.join()
        if done.is_set():
            break
    assert done.is_set()
    assert told(session) == ["tool plain: undeclared; govern(trusted=[plain]) would declare it"]
    assert written() == {"facts/1": True, "facts/2": True}


def test_blocks_of_two_families_inside_one_generator_are_both_marked(open_session: Any) -> None:
    one, two = open_session("s1"), open_session("s2")

    def body() -> Iterator[Any]:
        with govern()(one), govern()(two):
            yield from calc.stream({"query": "q"})

    assert list(body()) == ["42"]
    assert (one.tainted, two.tainted) == (True, True)


def test_a_toolkit_acts_for_its_session_and_refuses_inside_anothers_run(
    open_session: Any, written: Any
) -> None:
    one, two = open_session("s1"), open_session("s2")
    found: list[Any] = []

    def resolve(config: Any) -> AgentSession:
        found.append(config["configurable"]["user"])
        return one  # type: ignore[no-any-return]

    (write_tool,) = [t for t in SamsToolkit(resolve).get_tools() if t.name == "memory_write"]
    call = {"name": "memory_write", "args": WRITE, "id": "w", "type": "tool_call"}
    with govern()(one):
        answer = write_tool.invoke(call, {"configurable": {"user": "u1"}})
    assert (answer.status, found) == ("success", ["u1"])
    assert written() == {"facts/code": False}
    with govern()(two):
        answer = write_tool.invoke({**call, "id": "w2"}, {"configurable": {"user": "u1"}})
    assert answer.status == "error" and '"rule": "foreign-run"' in answer.content
    assert one.tainted and two.tainted


def test_a_resolver_sees_no_state_and_no_arguments(session: AgentSession) -> None:
    seen: list[Any] = []

    def resolve(runtime: Any) -> AgentSession:
        seen.append(runtime)
        return session

    agent: Any = create_agent(
        scripted(write(), "done"), [], middleware=[SamsMiddleware(resolve)], context_schema=dict
    )
    agent.invoke(GO, context={"user": "u1"})
    assert seen and all(type(each).__name__ == "Runtime" for each in seen)
    assert all(each.context == {"user": "u1"} for each in seen)


def test_a_replayed_tool_message_is_known_by_its_call(session: AgentSession, told: Any) -> None:
    """A loop of one's own: ask, run, ask again."""
    model, tools = scripted(said("", ("calc", {"query": "q"}, "c")), "done"), {"calc": calc}
    with govern(trusted=[calc])(session):
        messages: list[Any] = [HumanMessage("go")]
        first = model.invoke(messages)
        results = [tools[call["name"]].invoke(call) for call in first.tool_calls]
        model.invoke([*messages, first, *results])
    assert all(isinstance(each, ToolMessage) for each in results)
    assert told(session) == []
