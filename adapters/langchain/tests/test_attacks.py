"""What an attacker, or an unlucky app, found once: each with the class that it belongs to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import Tool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send

from sams_core import Owner
from sams_core.errors import SamsError
from sams_langchain import SamsMiddleware, SamsStore, govern
from sams_langchain.scripted import said, scripted

GO: Any = {"messages": [("user", "go")]}
ACME, GLOBEX = "tenant:acme", "tenant:globex"
NOTE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "The code is 7-7-7.",
    "description": "A code",
    "expected_version": None,
}


class Docs(BaseRetriever):
    """Documents of outsiders."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document("outsiders wrote this")]


docs = Docs()


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


# Runs that share what tells runs apart.


def drive(graph: Any, mode: str) -> None:
    async def events() -> None:
        async for _ in graph.astream(GO, subgraphs=True):
            pass

    if mode == "invoke":
        graph.invoke(GO)
    elif mode == "stream":
        list(graph.stream(GO, subgraphs=True))
    else:
        asyncio.run(events())


def node(agent: Any) -> Any:
    def run(state: Any) -> Any:
        return {"messages": [("user", agent.invoke(GO)["messages"][-1].text)]}

    return run


@pytest.mark.parametrize("mode", ["invoke", "stream", "astream"])
def test_a_hook_of_one_tenants_agent_reads_nothing_of_anothers_beside_it(
    mode: str, open_session: Any, backend: Any
) -> None:
    writer = open_session("w", observed="by-hand")
    writer.mark_tainted("a page")
    writer.memory_write("assigned", "m/k", "acme's own", "d")
    owner = Owner(backend, "olga")
    (change,) = owner.changes(ACME)
    owner.accept(ACME, change.id, change.digest)
    one, two = open_session("one"), open_session("two", assigned=GLOBEX)
    got: list[Any] = []

    class Recalls(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            got.append(SamsStore(one).get(("m",), "k"))

    first = create_agent(scripted("a"), [], middleware=[SamsMiddleware(one)])
    second = create_agent(
        scripted(said("", ("memory_write", NOTE, "w")), "b"),
        [],
        middleware=[SamsMiddleware(two), Recalls()],
    )
    graph: Any = StateGraph(MessagesState)
    graph.add_node("one", node(first))
    graph.add_node("two", node(second))
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    with pytest.raises(SamsError) as refused:
        drive(graph.compile(), mode)
    assert refused.value.rule == "foreign-run"
    assert not got
    assert one.tainted and two.tainted
    assert Owner(backend, "olga").changes(GLOBEX) == []


@pytest.mark.parametrize("mode", ["invoke", "stream", "astream"])
def test_agents_side_by_side_are_not_marked_for_each_other(mode: str, open_session: Any) -> None:
    sessions = {name: open_session(name, assigned=f"tenant:{name}") for name in "abc"}

    class Reads(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            docs.invoke("q")

    def agent(name: str) -> Any:
        more = [Reads()] if name == "a" else []
        middleware = [SamsMiddleware(sessions[name]), *more]
        return create_agent(scripted("done"), [], middleware=middleware)

    graph: Any = StateGraph(MessagesState)
    for name in sessions:
        graph.add_node(name, node(agent(name)))
    graph.add_conditional_edges(START, lambda state: [Send(name, state) for name in sessions])
    drive(graph.compile(), mode)
    assert {name: each.tainted for name, each in sessions.items()} == {
        "a": True,
        "b": False,
        "c": False,
    }


# Everyday mistakes of models.

BAD = {
    "name": "add",
    "args": '{"a": 1,',
    "id": "c2",
    "error": "no JSON",
    "type": "invalid_tool_call",
}


def test_a_call_whose_arguments_are_broken_doesnt_mark(open_session: Any) -> None:
    session = open_session()
    agent = create_agent(
        scripted(AIMessage("", invalid_tool_calls=[BAD]), "sorry", "hello"),
        [add],
        middleware=[SamsMiddleware(session, trusted=[add])],
    )
    messages = agent.invoke(GO)["messages"]
    if not any(message.type == "tool" for message in messages):  # older versions don't say so
        messages.append(ToolMessage("It could not be executed.", tool_call_id="c2"))
    agent.invoke({"messages": [*messages, HumanMessage("go on")]})
    assert not session.tainted


def test_many_calls_in_one_turn_are_judged_once_each(open_session: Any, monkeypatch: Any) -> None:
    from sams_langchain import turns

    judged: list[str] = []
    begin = turns.begin
    monkeypatch.setattr(
        turns, "begin", lambda where, name, each: (judged.append(name), begin(where, name, each))
    )
    calls = [("add", {"a": n, "b": n}, f"c{n}") for n in range(20)]
    session = open_session()
    middleware = [SamsMiddleware(session, trusted=[add])]
    create_agent(scripted(said("", *calls), "done"), [add], middleware=middleware).invoke(GO)
    assert len(judged) <= 1 + len(calls)  # when the model has answered, and as each begins


# Who is who.


@dataclass
class Lookup:
    """A callable that equals others of its kind."""

    name: str

    def __call__(self, query: str) -> str:
        return "outsiders wrote this"


def test_a_tool_that_equals_a_trusted_one_is_not_trusted(open_session: Any) -> None:
    session = open_session()
    ours, theirs = Lookup("kb"), Lookup("kb")
    assert ours == theirs
    named, other = (Tool("look", func=each, description="Look.") for each in (ours, theirs))
    with govern(trusted=[named])(session):
        named.invoke("q")
        assert not session.tainted
        other.invoke("q")
    assert session.tainted


# Models of another kind.


def test_a_completion_model_that_searches_by_itself_marks(session: Any) -> None:
    class Searching(FakeListLLM):
        @property
        def _identifying_params(self) -> dict[str, Any]:
            return {"web_search_options": {"search_context_size": "low"}}

    with govern()(session):
        FakeListLLM(responses=["a"]).invoke("q")
        assert not session.tainted
        Searching(responses=["a"]).invoke("q")
        assert session.tainted
