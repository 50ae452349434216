"""Runs of several sessions in one task or node, and what providers tell beside an answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.caches import InMemoryCache
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from sams_core import AgentSession, Owner, SQLiteBackend
from sams_langchain import SamsMiddleware, SamsStore, govern, memory_tools
from sams_langchain.scripted import ScriptedModel, said, scripted

GO: Any = {"messages": [("user", "go")]}
TENANTS = ("acme", "beta")


@tool
def calc(query: str) -> str:
    """Compute."""
    return "42"


@tool
def fetch(query: str) -> str:
    """Fetch a page."""
    return "outsiders wrote this"


# Streams that one task pulls by turns.


def model_of(seen: list[str]) -> Any:
    """Reads and writes memory in three turns, and keeps what it was shown."""

    def say(messages: list[BaseMessage], tools: Any) -> AIMessage:
        seen.append(" ".join(str(message.content) for message in messages))
        done = sum(isinstance(message, ToolMessage) for message in messages)
        read: Any = ("memory_read", {"scope": "assigned", "path": "facts/secret"}, f"r{done}")
        note = {"scope": "assigned", "path": "n", "content": "x", "description": "d"}
        write: Any = ("memory_write", {**note, "expected_version": None}, "w")
        found: Any = ("lookup", {"query": "secret"}, "l")
        calls = [read, write, found]
        return said("", calls[done]) if done < len(calls) else said("done")

    return ScriptedModel(say=say)


@tool
async def lookup(query: str) -> str:
    """Look something up in the store."""
    from langgraph.config import get_store

    return repr(await get_store().asearch((), query=query))


def of_the_middleware(seen: list[str]) -> Any:
    mine: Any = [SamsMiddleware(trusted=[lookup])]
    return create_agent(model_of(seen), [lookup], middleware=mine, store=SamsStore())


def of_ones_own(seen: list[str]) -> Any:
    tools: Any = [lookup, *memory_tools()]
    model = model_of(seen)

    async def think(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile(store=SamsStore())


BUILDS = pytest.mark.parametrize("build", [of_the_middleware, of_ones_own])


async def by_turns(first: AsyncIterator[Any], second: AsyncIterator[Any]) -> None:
    left = [first, second]
    while left:
        for each in [*left]:
            try:
                await anext(each)
            except StopAsyncIteration:
                left.remove(each)


async def after_a_peek(first: AsyncIterator[Any], second: AsyncIterator[Any]) -> None:
    await anext(first)
    await anext(second)
    async for _ in first:
        pass
    async for _ in second:
        pass


@BUILDS
@pytest.mark.parametrize("pull", [by_turns, after_a_peek])
def test_streams_of_two_tenants_in_one_task_read_and_write_their_own_memory(
    build: Callable[[list[str]], Any], pull: Any, backend: SQLiteBackend, open_session: Any
) -> None:
    owner = Owner(backend, "olga")
    for name in TENANTS:
        owner.write(f"tenant:{name}", "facts/secret", f"of {name}", f"about {name}")
    seen: dict[str, list[str]] = {name: [] for name in TENANTS}

    async def serve(name: str) -> AsyncIterator[Any]:
        session = open_session(name, assigned=f"tenant:{name}")
        with govern(trusted=[lookup])(session):
            async for chunk in build(seen[name]).astream(GO):
                yield chunk
        assert not session.tainted

    asyncio.run(pull(*map(serve, TENANTS)))
    for name, other in (TENANTS, TENANTS[::-1]):
        assert seen[name][-1].count(f"of {name}") >= 2
        assert f"of {other}" not in str(seen[name])
        assert f"about {other}" not in str(seen[name])
        assert [change.path for change in owner.changes(f"tenant:{name}")] == ["n"]


def test_a_stream_beside_another_sessions_is_marked_for_what_its_run_reads(
    open_session: Any,
) -> None:
    reads, beside = open_session("s1"), open_session("s2")

    async def serve(session: AgentSession, name: str) -> AsyncIterator[Any]:
        mine = [SamsMiddleware(trusted=[calc])]
        model = scripted(said("", (name, {"query": "q"}, "c")), "done")
        with govern(trusted=[calc])(session):
            async for chunk in create_agent(model, [calc, fetch], middleware=mine).astream(GO):
                yield chunk

    asyncio.run(by_turns(serve(reads, "fetch"), serve(beside, "calc")))
    assert reads.tainted
    assert not beside.tainted


def by_other_threads(stream: Iterator[Any]) -> None:
    """Pull each chunk in another thread, as web servers do."""
    while ThreadPoolExecutor(1).submit(next, stream, None).result() is not None:
        pass


@pytest.mark.parametrize("pull", [deque, by_other_threads])
def test_a_block_of_another_session_inside_a_stream_acts_for_that_session(
    pull: Callable[[Iterator[Any]], Any], backend: SQLiteBackend, open_session: Any
) -> None:
    outer, inner = (open_session(name, assigned=f"tenant:{name}") for name in TENANTS)
    write = memory_tools()[3]
    note = {"scope": "assigned", "content": "x", "description": "d", "expected_version": None}

    @tool
    def asks(query: str) -> str:
        """Ask another session's agent."""
        with govern()(inner):
            write.invoke({**note, "path": "called"})
            call: Any = ("memory_write", {**note, "path": "asked"}, "w")
            model = scripted(said("", call), "done")
            create_agent(model, [], middleware=[SamsMiddleware()]).invoke(GO)
        return "done"

    def serve() -> Iterator[Any]:
        with govern(trusted=[asks])(outer):
            model = scripted(said("", ("asks", {"query": "q"}, "a")), "done")
            agent: Any = create_agent(model, [asks], middleware=[SamsMiddleware()])
            yield from agent.stream(GO)

    pull(serve())
    owner = Owner(backend, "olga")
    assert {change.path for change in owner.changes("tenant:beta")} == {"called", "asked"}
    assert owner.changes("tenant:acme") == []


# Answers that a cache gives again, with their ids.


def test_a_write_that_a_cached_answer_asks_for_again_is_another_write(
    session: AgentSession,
) -> None:
    drinks = {"tea": None, "coffee": 1}

    def say(messages: list[BaseMessage], tools: Any) -> AIMessage:
        text = messages[-1].text
        if text not in drinks:
            return said("done")
        note = {"scope": "run", "path": "drink", "content": text, "description": "d"}
        return said("", ("memory_write", {**note, "expected_version": drinks[text]}, "c"))

    model = ScriptedModel(say=say, cache=InMemoryCache())
    agent: Any = create_agent(model, [], middleware=[SamsMiddleware(session)])
    answers = [agent.invoke({"messages": [("user", text)]}) for text in ("tea", "coffee", "tea")]
    told = [state["messages"][2].text for state in answers]
    assert answers[0]["messages"][1].id == answers[2]["messages"][1].id
    assert [text.startswith('{"status": "stored"') for text in told] == [True, True, False]
    assert '"version-conflict"' in told[2]


# Runs inside one node, which LangGraph numbers but for the first.


class _Reads(AgentMiddleware[Any, Any, Any]):
    """Reads a page after the tools of those sessions whose names say so."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        if request.runtime.context["who"].startswith("reads"):
            Pages().invoke("q")
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        if request.runtime.context["who"].startswith("reads"):
            await Pages().ainvoke("q")
        return await handler(request)


class Pages(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document("outsiders wrote this")]


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["", "checkpointed"])
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
def test_agents_that_one_node_runs_mark_each_their_own_session(
    at_once: bool, checkpointer: Any, open_session: Any
) -> None:
    names = ["first", "reads 1", "second", "reads 2"]
    sessions = {name: open_session(name) for name in names}

    def say(messages: list[BaseMessage], tools: Any) -> AIMessage:
        done = isinstance(messages[-1], ToolMessage)
        return said("done") if done else said("", ("calc", {"query": "q"}, "c"))

    def session_of(runtime: Any) -> AgentSession:
        return sessions[runtime.context["who"]]

    # `_Reads` lies outside of the middleware's own blocks.
    agent: Any = create_agent(
        ScriptedModel(say=say),
        [calc],
        middleware=[_Reads(), SamsMiddleware(session_of, trusted=[calc])],
        context_schema=dict,
        checkpointer=checkpointer,
    )

    async def one(name: str) -> None:
        config: Any = {"configurable": {"thread_id": name}} if checkpointer else None
        await agent.ainvoke(GO, config, context={"who": name})

    async def all_of_them(state: Any) -> Any:
        if at_once:
            await asyncio.gather(*map(one, names))
        else:
            for name in names:
                await one(name)
        return {}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("all", all_of_them)
    graph.add_edge(START, "all")

    async def stream() -> None:
        compiled = graph.compile()  # with one writer for all of them:
        async for _ in compiled.astream(GO, stream_mode=["custom"], subgraphs=True):
            pass

    asyncio.run(stream())
    assert [name for name in names if sessions[name].tainted] == ["reads 1", "reads 2"]


# What providers tell beside an answer.

TOLD: dict[str, dict[str, Any]] = {
    "Bedrock": {"usage": {"total_tokens": 3}, "stop_reason": "end_turn", "model_id": "m"},
    "Cohere": {"id": "r1", "finish_reason": "COMPLETE", "tool_plan": "I will compute."},
    "OCI": {"finish_reason": "stop", "time_created": "2026", "total_tokens": 3},
    "NVIDIA": {"reasoning_content": "so", "_reasoning_api_fields": ["reasoning_content"]},
    "OpenAI's voices": {"audio": {"id": "a1", "data": "QQ==", "transcript": "so"}},
    "LiteLLM": {
        "reasoning_content": "so",
        "reasoning_items": [{"summary": "so"}],
        "thinking_blocks": [{"type": "thinking", "thinking": "so"}],
        "provider_specific_fields": {"citations": None, "thinking_blocks": [{"type": "thinking"}]},
    },
}
READ: dict[str, dict[str, Any]] = {
    "LiteLLM's citations": {"provider_specific_fields": {"citations": [[{"url": "u"}]]}},
    "LiteLLM's grounding": {"provider_specific_fields": [{"groundingChunks": [{"web": "u"}]}]},
    "Groq's own tools": {"executed_tools": [{"type": "search", "output": "x"}]},
    "the first source": {"provider_specific_fields": {"citations": [{"index": 0}]}},
    "Writer's graph": {"graph_data": {"sources": ["x"]}},
}


@pytest.mark.parametrize("provider", TOLD)
def test_what_a_provider_tells_of_its_own_answer_doesnt_mark(
    provider: str, session: AgentSession, told: Any
) -> None:
    answer = AIMessage("42", additional_kwargs=TOLD[provider])
    with govern()(session):
        scripted(answer).invoke("hello")
    assert told(session) == []


FORMS: dict[str, list[BaseMessage]] = {
    "Bedrock's cache points": [
        SystemMessage([{"type": "text", "text": "x"}, {"cachePoint": {"type": "default"}}]),
        HumanMessage([{"type": "text", "text": "x"}, {"cachePoint": {"type": "default"}}]),
    ],
    "Bedrock's guarded text": [HumanMessage([{"type": "guard_content", "text": "x"}])],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_providers_forms_of_the_apps_own_text_dont_mark(
    form: str, session: AgentSession, told: Any
) -> None:
    with govern()(session):
        scripted("42").invoke(FORMS[form])
    assert told(session) == []


def test_what_a_provider_made_of_the_conversation_itself_doesnt_mark(
    session: AgentSession, told: Any
) -> None:
    answer = AIMessage([{"type": "compaction", "content": "so far"}, {"type": "text", "text": "x"}])
    with govern()(session):
        model = scripted(answer, "42")
        model.invoke([HumanMessage("hello"), model.invoke("hello"), HumanMessage("go on")])
    assert told(session) == []


@pytest.mark.parametrize("provider", READ)
def test_what_a_provider_read_for_its_answer_marks(provider: str, session: AgentSession) -> None:
    answer = AIMessage("42", additional_kwargs=READ[provider])
    with govern()(session):
        scripted(answer).invoke("hello")
    assert session.tainted
