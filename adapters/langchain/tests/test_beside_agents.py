"""What apps do beside an agent's own calls: it stays clean, and goes on as it would without governance."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel

from sams_core import AgentSession
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.content import asked
from sams_langchain.scripted import said, scripted

WRITE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}
INDEX = {"scope": "assigned", "cursor": None}
TOOLS = {each.name: each for each in memory_tools()}
GO: Any = {"messages": [("user", "go")]}


def in_a_node(work: Any) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("work", lambda state: work() or {})
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    graph.compile().invoke(GO)


def edited() -> None:
    for call in scripted(said("", ("memory_write", WRITE, "w"))).invoke("go").tool_calls:
        TOOLS[call["name"]].invoke({**call, "args": {**call["args"], "content": "8"}})


def the_apps() -> None:
    TOOLS["memory_index"].invoke(
        {"type": "tool_call", "id": "mine", "name": "memory_index", "args": INDEX}
    )


@pytest.mark.parametrize("work", [edited, the_apps])
def test_a_graph_that_keeps_nothing_marks_nothing_for_its_own_memory_call(
    work: Any, session: AgentSession
) -> None:
    with govern()(session):
        in_a_node(work)
    assert not session.tainted


def test_a_trusted_tool_may_ask_memory_by_itself(session: AgentSession) -> None:
    @tool
    def note(query: str) -> str:
        """Note."""
        the_apps()
        return "ok"

    agent: Any = create_agent(
        scripted(said("", ("note", {"query": "q"}, "c")), "done"),
        [note],
        middleware=[SamsMiddleware(session, trusted=[note])],
    )
    agent.invoke(GO)
    assert not session.tainted


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_a_copied_middleware_has_hooks_of_its_own(how: Any, session: AgentSession) -> None:
    class Counting(SamsMiddleware):
        calls = 0

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            self.calls += 1
            return super().wrap_tool_call(request, handler)

    made = Counting(session)
    copied = how(made)
    agent: Any = create_agent(
        scripted(said("", ("memory_write", WRITE, "w")), "done"), [], middleware=[copied]
    )
    agent.invoke(GO)
    assert (made.calls, copied.calls) == (0, 1)


SWITCHED = """
import os
from sams_langchain import SamsMiddleware
SamsMiddleware()
os.environ["LANGSMITH_TRACING"] = "true"
from langsmith.utils import tracing_is_enabled
assert tracing_is_enabled()
"""


def test_tracing_can_be_switched_on_after_a_middleware_was_made() -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("LANGSMITH", "LANGCHAIN"))}
    subprocess.run([sys.executable, "-c", SWITCHED], check=True, timeout=60, env=clean)


@pytest.mark.parametrize("more", [{"extra_headers": {"x-conversation-id": "4"}}])
def test_headers_in_a_models_fields_name_no_source(more: Any) -> None:
    model: Any = ChatOpenAI(model="m", api_key="x", model_kwargs=more)  # type: ignore[arg-type]  # pydantic makes the key
    assert asked(vars(model)) == []


def test_a_client_that_another_thread_adds_to_a_model_breaks_no_call(session: AgentSession) -> None:
    model: Any = scripted(*["hi"] * 400)
    done, interval = threading.Event(), sys.getswitchinterval()

    def adds() -> None:
        while not done.is_set():
            vars(model)["_client"] = 1
            sum(range(200))
            vars(model).pop("_client", None)
            sum(range(200))

    thread = threading.Thread(target=adds)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        with govern()(session):
            for _ in range(400):
                model.invoke("go")
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_a_store_with_a_batch_of_its_own_is_wrapped_as_it_is(session: AgentSession) -> None:
    class Kept(InMemoryStore):
        pass

    store = Kept()
    plain: Any = store.batch
    store.batch = lambda ops: plain(ops)  # type: ignore[method-assign]  # as a spy does
    marked = session.tainting(store)
    marked.put(("a",), "k", {"x": 1})
    assert not session.tainted
    assert marked.get(("a",), "k") is not None
    assert session.tainted


def test_an_apps_own_memory_call_is_no_part_of_a_turn_that_was_judged(
    session: AgentSession,
) -> None:
    class Answer(BaseModel):
        """An answer."""

        text: str

    turn = said("", ("memory_index", INDEX, "m"), ("Answer", {"text": "x"}, "a"))
    agent: Any = create_agent(
        scripted(turn),
        [],
        middleware=[SamsMiddleware(session)],
        response_format=ToolStrategy(Answer),
    )
    agent.invoke(GO)
    with govern()(session):
        TOOLS["memory_index"].invoke(INDEX)
    assert not session.tainted
