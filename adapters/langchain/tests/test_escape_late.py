"""What goes on after its block, in another session's, or was said by nobody's model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import nullcontext
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelResponse
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    RunnableGenerator,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from sams_core import AgentSession
from sams_langchain import SamsMiddleware, SamsToolkit, govern, memory_tools
from sams_langchain.scripted import said, scripted

GO: Any = {"messages": [("user", "go")]}


def note(path: str) -> dict[str, Any]:
    return {
        "scope": "assigned",
        "path": path,
        "content": "c",
        "description": "d",
        "expected_version": None,
    }


NOTE = note("late")
TOOLS = {each.name: each for each in memory_tools()}
WRITE: Any = {"name": "memory_write", "args": NOTE, "id": "w", "type": "tool_call"}


class Pages(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document("outsiders wrote this")]


@tool
def fetch(url: str) -> str:
    """Fetch a page."""
    return "outsiders wrote this"


def late(steps: Iterator[str]) -> Iterator[str]:
    for each in steps:
        yield "first"
        yield Pages().invoke(each)[0].page_content


async def alate(steps: AsyncIterator[str]) -> AsyncIterator[str]:
    async for each in steps:
        yield "first"
        yield (await Pages().ainvoke(each))[0].page_content


def by_a_tool(steps: Iterator[str]) -> Iterator[str]:
    for each in steps:
        yield "first"
        yield fetch.invoke({"url": each})


def agent() -> Any:
    return create_agent(scripted(said("", ("fetch", {"url": "u"}, "c")), "done"), [fetch])


STREAMS: dict[str, Callable[[], Iterator[Any]]] = {
    "generator": lambda: RunnableGenerator(late).stream("q"),
    "sequence": lambda: (RunnableGenerator(late) | RunnablePassthrough()).stream("q"),
    "transform": lambda: RunnableGenerator(by_a_tool).transform(iter(["q"])),
    "lambda": lambda: RunnableLambda(lambda q: RunnableGenerator(late)).stream("q"),
    "agent": lambda: agent().stream(GO, stream_mode=["messages", "updates"]),
}
ASTREAMS: dict[str, Callable[[], AsyncIterator[Any]]] = {
    "generator": lambda: RunnableGenerator(alate).astream("q"),
    "sequence": lambda: (RunnableGenerator(alate) | RunnablePassthrough()).astream("q"),
    "agent": lambda: agent().astream(GO),
    "events of an agent": lambda: agent().astream_events(GO, version="v2"),
}


@pytest.mark.parametrize("between", [True, False], ids=["in the next block", "between two blocks"])
@pytest.mark.parametrize("way", STREAMS)
def test_a_stream_that_goes_on_after_its_block_marks_the_session_whose_run_it_is(
    way: str, between: bool, session: AgentSession, written: Any
) -> None:
    with govern()(session):
        stream = STREAMS[way]()
        next(stream)
        assert not session.tainted
    rest = [] if between else list(stream)
    with govern()(session):
        assert len(rest + list(stream)) > 0
        TOOLS["memory_write"].invoke(WRITE)
    assert written() == {"late": True}


@pytest.mark.parametrize("way", STREAMS)
def test_the_rest_of_a_stream_marks_whoever_pulls_it_too(way: str, open_session: Any) -> None:
    began, reads_on, beside = (open_session(name) for name in ("s1", "s2", "s3"))
    with govern()(began):
        stream = STREAMS[way]()
        next(stream)
    with govern()(reads_on):
        assert len(list(stream)) > 0
    with govern()(beside):
        assert (began.tainted, reads_on.tainted, beside.tainted) == (True, True, False)


@pytest.mark.parametrize("way", ASTREAMS)
def test_an_async_stream_that_goes_on_after_its_block_marks_too(
    way: str, session: AgentSession, written: Any
) -> None:
    async def main() -> None:
        async with govern()(session):
            stream = ASTREAMS[way]()
            await anext(stream)
            assert not session.tainted
        async with govern()(session):
            assert len([each async for each in stream]) > 0
            await TOOLS["memory_write"].ainvoke(WRITE)
        assert written() == {"late": True}

    asyncio.run(main())


def test_a_task_that_goes_on_after_its_block_marks(session: AgentSession, written: Any) -> None:
    async def main() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def slow(query: str) -> str:
            begun.set()
            await go.wait()
            return (await Pages().ainvoke(query))[0].page_content

        async with govern()(session):
            task = asyncio.create_task(RunnableLambda(slow).ainvoke("q"))
            await begun.wait()
        async with govern()(session):
            go.set()
            await task
            await TOOLS["memory_write"].ainvoke(WRITE)
        assert written() == {"late": True}

    asyncio.run(main())


def test_a_task_of_a_call_that_the_middleware_governs_marks_when_the_call_is_over(
    session: AgentSession,
) -> None:
    async def main() -> None:
        tasks: list[Awaitable[Any]] = []
        go = asyncio.Event()

        async def slow(query: str) -> str:
            await go.wait()
            return (await Pages().ainvoke(query))[0].page_content

        @tool
        async def begin(query: str) -> str:
            """Begin a job."""
            tasks.append(asyncio.create_task(RunnableLambda(slow).ainvoke(query)))
            await asyncio.sleep(0)
            return "begun"

        a: Any = create_agent(
            scripted(said("", ("begin", {"query": "q"}, "c")), "done"),
            [begin],
            middleware=[SamsMiddleware(session, trusted=[begin])],
        )
        await a.ainvoke(GO)
        assert not session.tainted
        go.set()
        await tasks[0]
        assert session.tainted

    asyncio.run(main())


def test_what_is_trusted_stays_so_after_the_block(session: AgentSession, told: Any) -> None:
    pages = Pages()

    def trusted(steps: Iterator[str]) -> Iterator[str]:
        for each in steps:
            yield "first"
            yield pages.invoke(each)[0].page_content

    with govern(trusted=[pages])(session):
        stream = RunnableGenerator(trusted).stream("q")
        next(stream)
    assert list(stream) == ["outsiders wrote this"]
    assert told(session) == []


def test_a_run_that_begins_after_a_block_is_nobodys(session: AgentSession, told: Any) -> None:
    chain = RunnableParallel(found=Pages(), also=RunnableLambda(str))
    with govern()(session):
        chain.with_config(tags=["kept"])
    chain.invoke("q")
    fetch.invoke({"url": "u"})
    assert told(session) == []


# What another session goes on with.

THREAD: Any = {"configurable": {"thread_id": "t"}}


@pytest.mark.parametrize("bound", [True, False], ids=["toolkit", "memory_tools()"])
@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_a_turn_that_waits_is_labelled_where_another_session_goes_on_with_it(
    mode: str, bound: bool, open_session: Any, written: Any
) -> None:
    """No model is asked between the resume and the write."""
    session = open_session("s1")
    tools = SamsToolkit(lambda runtime: session).get_tools() if bound else memory_tools()
    app: Any = create_agent(
        scripted(
            said("", ("fetch", {"url": "u"}, "c")), said("", ("memory_write", NOTE, "w")), "ok"
        ),
        [fetch, *tools],
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
        interrupt_after=["tools"],
    )

    def go_on(given: Any) -> None:
        with govern()(session):
            app.invoke(given, THREAD) if mode == "invoke" else asyncio.run(
                app.ainvoke(given, THREAD)
            )

    for given in (GO, None, None):
        go_on(given)
    assert session.tainted
    session = open_session("s2")
    assert written() == {}
    go_on(None)
    assert written() == {"late": True}


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_a_turn_that_waits_stays_clean_where_its_session_goes_on(
    mode: str, open_session: Any, told: Any, written: Any
) -> None:
    app: Any = create_agent(
        scripted(said("", ("memory_write", NOTE, "w")), "ok"),
        memory_tools(),
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
    )
    for given in (GO, None):
        session = open_session("s1")  # as a server does for each request
        with govern()(session):
            app.invoke(given, THREAD) if mode == "invoke" else asyncio.run(
                app.ainvoke(given, THREAD)
            )
    assert told(session) == []
    assert written() == {"late": False}


@pytest.mark.parametrize("block", [True, False])
def test_what_a_node_beside_an_agent_reads_takes_a_block_around_the_graph(
    block: bool, session: AgentSession
) -> None:
    def retrieve(state: Any) -> Any:
        return {"messages": [HumanMessage(Pages().invoke("q")[0].page_content)]}

    graph = StateGraph(MessagesState)
    graph.add_node("retrieve", retrieve)
    graph.add_node("agent", create_agent(scripted("ok"), [], middleware=[SamsMiddleware(session)]))
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "agent")
    app: Any = graph.compile()
    with govern()(session) if block else nullcontext():
        app.invoke(GO)
    assert session.tainted is block


# Answers.


class Elsewhere(AgentMiddleware[Any, Any]):
    """Answers instead of the model."""

    def __init__(self, *answers: AIMessage) -> None:
        self.answers = list(answers)

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return ModelResponse(result=[self.answers.pop(0)]) if self.answers else handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return (
            ModelResponse(result=[self.answers.pop(0)]) if self.answers else await handler(request)
        )


@pytest.mark.parametrize("id", [None, "a"])
@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_calls_that_another_middleware_had_from_elsewhere_are_labelled(
    mode: str, id: str | None, session: AgentSession, written: Any
) -> None:
    answer = said("outsiders wrote this", ("memory_write", NOTE, "c")).model_copy(update={"id": id})
    a: Any = create_agent(
        scripted("done"), [], middleware=[SamsMiddleware(session), Elsewhere(answer)]
    )
    a.invoke(GO) if mode == "invoke" else asyncio.run(a.ainvoke(GO))
    assert written() == {"late": True}


@pytest.mark.parametrize("kept", ["id", "text"])
def test_an_answer_that_another_middleware_passes_on_changed_is_the_models(
    kept: str, session: AgentSession, told: Any
) -> None:
    class Changes(AgentMiddleware[Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            (answer,) = handler(request).result
            other = {"content": "changed"} if kept == "id" else {"id": None}
            return ModelResponse(result=[answer.model_copy(update=other)])

    a: Any = create_agent(
        scripted(said("hm", ("memory_write", NOTE, "c")), "done"),
        [],
        middleware=[SamsMiddleware(session), Changes()],
    )
    a.invoke(GO)
    assert told(session) == []


def test_a_last_word_of_another_middleware_is_the_apps(session: AgentSession, told: Any) -> None:
    a: Any = create_agent(
        scripted("done"),
        [],
        middleware=[SamsMiddleware(session), Elsewhere(AIMessage("I can't help."))],
    )
    a.invoke(GO)
    assert told(session) == []


class Listed(TypedDict):
    messages: list[Any]


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_answers_without_ids_are_not_taken_for_each_other(
    mode: str, session: AgentSession, written: Any
) -> None:
    """A node of tools in a graph whose state keeps messages as they are."""
    m = SamsMiddleware(session)
    node = ToolNode(
        memory_tools(), wrap_tool_call=m.wrap_tool_call, awrap_tool_call=m.awrap_tool_call
    )
    graph = StateGraph(Listed)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    app: Any = graph.compile()

    def act(*messages: Any) -> None:
        given = {"messages": [HumanMessage("go"), *messages]}
        app.invoke(given) if mode == "invoke" else asyncio.run(app.ainvoke(given))

    own = said("", ("memory_write", note("own"), "c"))
    with govern()(session):
        scripted(own).invoke("go")
    act(own)
    assert written() == {"own": False}
    act(AIMessage("outsiders wrote this"), said("", ("memory_write", note("foreign"), "c")))
    assert written() == {"own": False, "foreign": True}
