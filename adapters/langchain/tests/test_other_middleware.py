"""What other middleware of an agent reads in its own nodes, or around ours, with no block open."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

from sams_core import AgentSession
from sams_langchain import SamsMiddleware
from sams_langchain.scripted import said, scripted

NOTE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "The code is 7-7-7.",
    "description": "A code",
    "expected_version": None,
}
GO: Any = {"messages": [("user", "go")]}
HOOKS = ("before_agent", "before_model", "after_model", "after_agent")


class Docs(BaseRetriever):
    """Documents of outsiders."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document("outsiders wrote this")]


docs = Docs()


@tool
def fetch(query: str) -> str:
    """Fetch a page."""
    return "outsiders wrote this"


READS = {"a retriever": docs.invoke, "a tool": fetch.invoke}
AREADS = {"a retriever": docs.ainvoke, "a tool": fetch.ainvoke}


def hook(name: str, what: str) -> Any:
    """Return a middleware that reads in one of its hooks."""

    def read(self: Any, state: Any, runtime: Any) -> None:
        READS[what]("q")  # type: ignore[operator]  # both take a text

    async def aread(self: Any, state: Any, runtime: Any) -> None:
        await AREADS[what]("q")  # type: ignore[operator]  # both take a text

    return type(f"In{name}", (AgentMiddleware,), {name: read, f"a{name}": aread})()


class Outer(AgentMiddleware[Any, Any, Any]):
    """Reads around the model, before the middleware that governs gets to it."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        docs.invoke("q")
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        await docs.ainvoke("q")
        return await handler(request)


def writer(*middleware: Any) -> Any:
    model = scripted(said("", ("memory_write", NOTE, "w")), "done")
    return create_agent(model, [], middleware=list(middleware))


def drive(agent: Any, mode: str) -> None:
    async def events() -> None:
        async for _ in agent.astream(GO):
            pass

    if mode == "invoke":
        agent.invoke(GO)
    elif mode == "stream":
        list(agent.stream(GO, stream_mode=["custom", "messages", "values"]))
    elif mode == "ainvoke":
        asyncio.run(agent.ainvoke(GO))
    else:
        asyncio.run(events())


@pytest.mark.parametrize("mode", ["invoke", "stream", "ainvoke", "astream"])
@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("name", HOOKS)
def test_a_read_in_a_hook_of_another_middleware_marks(
    name: str, what: str, mode: str, session: AgentSession, written: Any
) -> None:
    drive(writer(SamsMiddleware(session), hook(name, what)), mode)
    assert session.tainted
    # What is read after the write was not read when it was written.
    assert written() == {"facts/code": name != "after_agent"}


@pytest.mark.parametrize("mode", ["invoke", "stream", "ainvoke", "astream"])
def test_a_read_around_the_model_by_a_middleware_that_is_listed_first_marks(
    mode: str, session: AgentSession, written: Any
) -> None:
    drive(writer(Outer(), SamsMiddleware(session)), mode)
    assert written() == {"facts/code": True}


def test_what_is_trusted_is_trusted_there_too(session: AgentSession, written: Any) -> None:
    ours = SamsMiddleware(session, trusted=[docs])
    drive(writer(Outer(), ours, hook("before_model", "a retriever")), "invoke")
    assert written() == {"facts/code": False}


def test_a_summary_of_a_clean_conversation_stays_clean(session: AgentSession, written: Any) -> None:
    summary = SummarizationMiddleware(scripted("they talked"), trigger=("messages", 2))
    agent = create_agent(
        scripted("hello", said("", ("memory_write", NOTE, "w")), "done"),
        [],
        middleware=[SamsMiddleware(session), summary],
    )
    first = agent.invoke(GO)
    asked: Any = {"messages": [*first["messages"], HumanMessage("remember it")]}
    agent.invoke(asked)
    assert written() == {"facts/code": False}


def test_a_hosted_tool_of_a_model_that_a_hook_asks_marks(session: AgentSession) -> None:
    searched = said("found")
    searched.content = [{"type": "server_tool_use", "id": "h", "name": "web_search", "input": {}}]

    class Asks(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            scripted(searched).invoke("q")

    drive(writer(SamsMiddleware(session), Asks()), "invoke")
    assert session.tainted


def test_each_run_of_one_agent_marks_its_own_session(open_session: Any) -> None:
    sessions = {name: open_session(name) for name in ("one", "two")}

    class Sometimes(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            if runtime.context["read"]:
                docs.invoke("q")

    model = scripted("done", "done")
    ours = SamsMiddleware(lambda runtime: sessions[runtime.context["session"]])
    agent = create_agent(model, [], middleware=[ours, Sometimes()], context_schema=dict)
    agent.invoke(GO, context={"session": "one", "read": False})
    agent.invoke(GO, context={"session": "two", "read": True})
    assert (sessions["one"].tainted, sessions["two"].tainted) == (False, True)


def test_agents_that_are_nodes_of_one_graph_dont_lose_each_other(open_session: Any) -> None:
    one, two = open_session("one"), open_session("two")
    reads = hook("before_model", "a retriever")
    graph: Any = StateGraph(MessagesState)
    graph.add_node("one", create_agent(scripted("a"), [], middleware=[SamsMiddleware(one)]))
    graph.add_node("two", create_agent(scripted("b"), [], middleware=[SamsMiddleware(two), reads]))
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    list(graph.compile().stream(GO, subgraphs=True))
    assert two.tainted


def run_with_a_resolver_that_keeps_the_run(session: AgentSession) -> Any:
    kept = []

    def resolve(runtime: Any) -> Any:
        kept.append(runtime)
        return session

    middleware = SamsMiddleware(resolve)
    drive(writer(middleware), "invoke")
    return weakref.ref(middleware.governed)


def test_nothing_is_marked_or_kept_after_the_run(session: AgentSession) -> None:
    governed = run_with_a_resolver_that_keeps_the_run(session)
    docs.invoke("q")
    assert not session.tainted
    gc.collect()
    assert governed() is None
