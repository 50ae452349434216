"""Every way by which outsiders' text reaches a model that can be seen is seen, each in one line.

A route runs inside `with governed(session)`, or in an agent whose only governance is the middleware.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, dynamic_prompt
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnableParallel
from langchain_core.tools import StructuredTool, ToolException, create_retriever_tool, tool
from langgraph.cache.memory import InMemoryCache
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import CachePolicy

from sams_core import AgentSession
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.scripted import said, scripted

# Two of the routes are LangChain's beta or on their way out; they still read.
pytestmark = [
    pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning"),
    pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning"),
]
GOVERNED = govern()
WRITE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}


@tool
def fetch(query: str) -> str:
    """Fetch a page."""
    return f"outsiders wrote {query}"


@tool
async def afetch(query: str) -> str:
    """Fetch a page."""
    return f"outsiders wrote {query}"


class Docs(BaseRetriever):
    """Documents of outsiders."""

    k: int = 1

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(f"outsiders wrote {query}")] * self.k


docs = Docs()
chain = RunnableLambda(lambda q: q) | docs
settable = Docs().configurable_fields(k=ConfigurableField("k"))


async def drain(stream: Any) -> None:
    async for _ in stream:
        pass


SYNC: dict[str, Callable[[], Any]] = {
    "retriever.invoke": lambda: docs.invoke("q"),
    "retriever.batch": lambda: docs.batch(["q"]),
    "retriever.batch_as_completed": lambda: list(docs.batch_as_completed(["q"])),
    "retriever.stream": lambda: list(docs.stream("q")),
    "retriever.transform": lambda: list(docs.transform(iter(["q"]))),
    "retriever.map": lambda: docs.map().invoke(["q"]),
    "retriever.bind": lambda: docs.bind().invoke("q"),
    "retriever.with_config": lambda: docs.with_config(tags=["x"]).invoke("q"),
    "retriever.with_retry": lambda: docs.with_retry().invoke("q"),
    "retriever.with_fallbacks": lambda: docs.with_fallbacks([docs]).invoke("q"),
    "retriever with callbacks=[]": lambda: docs.invoke("q", {"callbacks": []}),
    "retriever in a chain": lambda: chain.invoke("q"),
    "retriever in parallel": lambda: RunnableParallel(a=docs, b=docs).invoke("q"),
    "retriever, configured": lambda: settable.with_config(configurable={"k": 2}).invoke("q"),
    "retriever, copied": lambda: docs.model_copy().invoke("q"),
    "retriever, deep-copied": lambda: copy.deepcopy(docs).invoke("q"),
    "retriever's tool": lambda: create_retriever_tool(docs, "kb", "d").invoke({"query": "q"}),
    "tool.invoke": lambda: fetch.invoke({"query": "q"}),
    "tool.run": lambda: fetch.run({"query": "q"}),
    "tool.batch": lambda: fetch.batch([{"query": "q"}]),
    "tool.stream": lambda: list(fetch.stream({"query": "q"})),
    "tool with callbacks=[]": lambda: fetch.invoke({"query": "q"}, {"callbacks": []}),
    "tool with a run name": lambda: fetch.invoke({"query": "q"}, {"run_name": "memory_read"}),
    "tool, copied": lambda: fetch.model_copy(update={"description": "x"}).invoke({"query": "q"}),
    "tool, deep-copied": lambda: copy.deepcopy(fetch).invoke({"query": "q"}),
    "tool made of a tool's function": lambda: StructuredTool.from_function(
        fetch.func, name="again", description="x"
    ).invoke({"query": "q"}),
    "runnable as a tool": lambda: (
        RunnableLambda(lambda x: x["query"])
        .as_tool(name="l", description="d", arg_types={"query": str})
        .invoke({"query": "q"})
    ),
}
ASYNC: dict[str, Callable[[], Any]] = {
    "retriever.ainvoke": lambda: docs.ainvoke("q"),
    "retriever.abatch": lambda: docs.abatch(["q"]),
    "retriever.abatch_as_completed": lambda: drain(docs.abatch_as_completed(["q"])),
    "retriever.astream": lambda: drain(docs.astream("q")),
    "retriever.astream_events": lambda: drain(docs.astream_events("q", version="v2")),
    "retriever.astream_log": lambda: drain(docs.astream_log("q")),
    "chain.ainvoke": lambda: chain.ainvoke("q"),
    "tool.ainvoke": lambda: fetch.ainvoke({"query": "q"}),
    "tool.arun": lambda: fetch.arun({"query": "q"}),
    "tool.abatch": lambda: fetch.abatch([{"query": "q"}]),
    "async tool.ainvoke": lambda: afetch.ainvoke({"query": "q"}),
    "async tool, configured": lambda: afetch.with_config(tags=["x"]).ainvoke({"query": "q"}),
}


@pytest.mark.parametrize("route", SYNC.values(), ids=SYNC.keys())
def test_a_public_way_into_a_tool_or_retriever_marks(
    route: Callable[[], Any], session: AgentSession
) -> None:
    with GOVERNED(session):
        route()
    assert session.tainted


@pytest.mark.parametrize("route", ASYNC.values(), ids=ASYNC.keys())
def test_an_async_way_marks(route: Callable[[], Any], session: AgentSession) -> None:
    async def run() -> None:
        async with GOVERNED(session):
            found = route()
            await found

    asyncio.run(run())
    assert session.tainted


@pytest.mark.parametrize("route", SYNC.values(), ids=SYNC.keys())
def test_outside_of_a_block_nothing_is_marked(
    route: Callable[[], Any], session: AgentSession
) -> None:
    with GOVERNED(session):
        pass
    route()
    assert not session.tainted


def model(*answers: Any) -> BaseChatModel:
    return scripted(*answers)


def send(*messages: BaseMessage) -> Callable[[], Any]:
    return lambda: model("ok").invoke(list(messages))


def hears(message: AIMessage) -> Callable[[], Any]:
    return lambda: model(message).invoke("hello")


def offer(*tools: Any, **more: Any) -> Callable[[], Any]:
    return lambda: model("ok").bind(tools=list(tools), **more).invoke("hello")


FILE = {"type": "file", "base64": "QQ==", "mime_type": "application/pdf"}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
CITED = {"type": "text", "text": "so", "annotations": [{"type": "citation", "url": "u"}]}
CONTENT: dict[str, Callable[[], Any]] = {
    "an uploaded file": send(HumanMessage([FILE])),
    "an uploaded image": send(HumanMessage([{"type": "image_url", "image_url": {"url": "u"}}])),
    "an uploaded text": send(HumanMessage([{"type": "text-plain", "text": "x"}])),
    "audio": send(HumanMessage([{"type": "input_audio", "input_audio": {}}])),
    "a document in the system prompt": send(SystemMessage([{"type": "document"}])),
    "a block without a type": send(HumanMessage([{"page": "x", "of": "y"}])),
    "a tool's result from elsewhere": send(ToolMessage("x", tool_call_id="c")),
    "a model's answer from elsewhere": send(AIMessage("x"), HumanMessage("go on")),
    "a function message": send(FunctionMessage("x", name="f")),
    "a chat message": send(ChatMessage("x", role="critic")),
    "a provider's own tool call": hears(AIMessage([SEARCH])),
    "a standard server tool call": hears(AIMessage([{"type": "server_tool_call", "name": "x"}])),
    "citations in a block": hears(AIMessage([CITED])),
    "annotations beside the text": hears(
        AIMessage("x", additional_kwargs={"annotations": [{"type": "url_citation"}]})
    ),
    "a non-standard block": hears(AIMessage([{"type": "non_standard", "value": {}}])),
    "something new beside the text": hears(AIMessage("x", additional_kwargs={"recalled": ["y"]})),
    "grounding in the metadata": hears(
        AIMessage("x", response_metadata={"grounding_metadata": {"chunks": [1]}})
    ),
    "hosted uses that were counted": hears(
        AIMessage("x", response_metadata={"usage": {"server_tool_use": {"web_requests": 1}}})
    ),
    "a hosted tool on offer": offer({"type": "web_search_20250305", "name": "web_search"}),
    "a hosted tool without a type": offer({"google_search": {}}),
    "a remote MCP server on offer": offer({"type": "mcp", "server_url": "u"}),
    "search by an option": offer(web_search_options={"size": "low"}),
    "search by an extra": offer(extra_body={"plugins": [{"id": "web"}]}),
    "a conversation kept by the provider": offer(previous_response_id="r1"),
}


@pytest.mark.parametrize("route", CONTENT.values(), ids=CONTENT.keys())
def test_what_goes_into_and_comes_out_of_a_model_marks_unless_it_is_listed(
    route: Callable[[], Any], session: AgentSession
) -> None:
    with GOVERNED(session):
        route()
    assert session.tainted


LISTED: dict[str, Callable[[], Any]] = {
    "text": send(HumanMessage("x")),
    "text blocks": send(SystemMessage("y"), HumanMessage([{"type": "text", "text": "x"}])),
    "reasoning": hears(AIMessage([{"type": "thinking", "thinking": "x", "signature": "s"}])),
    "a refusal": hears(AIMessage("x", additional_kwargs={"refusal": "no", "annotations": []})),
    "text without citations": hears(AIMessage([{"type": "text", "text": "x", "citations": None}])),
    "usage": hears(
        AIMessage(
            "x",
            response_metadata={"usage": {"server_tool_use": {"web_requests": 0}}, "model": "m"},
        )
    ),
    "functions on offer": offer(
        {"type": "function", "function": {"name": "f", "parameters": {}}},
        {"name": "f", "input_schema": {}},
        {"toolSpec": {"name": "f"}},
    ),
    "a schema with such words": offer(response_format={"json_schema": {"search_query": "x"}}),
    "headers with such words": offer(extra_headers={"X-Conversation-Id": "x"}),
}


@pytest.mark.parametrize("route", LISTED.values(), ids=LISTED.keys())
def test_what_is_listed_doesnt_mark(
    route: Callable[[], Any], session: AgentSession, told: Any
) -> None:
    with GOVERNED(session):
        route()
    assert told(session) == []


def test_a_hosted_tool_marks_before_the_request_is_sent(session: AgentSession) -> None:
    marked = []

    def say(messages: Any, tools: Any) -> AIMessage:
        marked.append(session.tainted)
        return said("ok")

    with GOVERNED(session):
        model(say).bind(tools=[{"type": "web_search"}]).invoke("hello")
    assert marked == [True]


def test_a_hosted_block_marks_though_the_consumer_leaves_the_stream(session: AgentSession) -> None:
    with GOVERNED(session):
        stream = model(AIMessage([SEARCH])).stream("hello")
        next(stream)
        stream.close()
    assert session.tainted


if hasattr(BaseCallbackHandler, "on_stream_event"):  # langchain-core has such streams since 1.4

    def test_a_hosted_block_marks_as_soon_as_a_stream_of_events_shows_it(
        session: AgentSession,
    ) -> None:
        with GOVERNED(session):
            for event in model(AIMessage([SEARCH])).stream_events("hello", version="v3"):
                if event["event"] == "content-block-start":
                    break
        assert session.tainted


# Agents that have the middleware and nothing else.


def ask(session: AgentSession, *answers: Any, tools: Any = (), also: Any = (), **more: Any) -> Any:
    """Run an agent that has the middleware and nothing else; it writes in the end."""
    given: dict[str, Any] = {"messages": [("user", "go")]}
    given |= more.pop("given", {})
    agent = create_agent(
        model(*answers, said("", ("memory_write", WRITE, "w")), "done"),
        list(tools),
        middleware=[SamsMiddleware(session), *also],
        **more,
    )
    return agent.invoke(given)  # type: ignore[call-overload]


def call(name: str) -> AIMessage:
    return said("", (name, {"query": "q"}, f"call-{name}"))


class Reads(AgentMiddleware[Any, Any, Any]):
    """A middleware that reads by itself, around the model."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        docs.invoke("q")
        return handler(request)


class Swaps(AgentMiddleware[Any, Any, Any]):
    """A middleware that runs another tool than the one that was called."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(tool=fetch))


class Short(AgentMiddleware[Any, Any, Any]):
    """A middleware that answers with what it has cached."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request) if len(request.messages) > 2 else AIMessage([CITED])


@dynamic_prompt
def rag(request: Any) -> str:
    return f"Context: {docs.invoke('q')[0].page_content}"


@tool
def calc(query: str) -> str:
    """Compute."""
    return "42"


@tool
def fails(query: str) -> str:
    """Fail with outsiders' words."""
    raise ToolException("outsiders wrote this")


fails.handle_tool_error = True


@tool
def helper(query: str) -> str:
    """Ask another agent, which has no governance of its own."""
    agent = create_agent(model(call("fetch"), "read"), [fetch])
    return str(agent.invoke({"messages": [("user", query)]})["messages"][-1].content)


HISTORY = [HumanMessage("a"), AIMessage("outsiders wrote", id="x"), HumanMessage("go")]
AGENTS: dict[str, dict[str, Any]] = {
    "a tool": {"answers": [call("fetch")], "tools": [fetch]},
    "a retriever's tool": {
        "answers": [call("kb")],
        "tools": [create_retriever_tool(docs, "kb", "d")],
    },
    "a tool that fails": {"answers": [call("fails")], "tools": [fails]},
    "an agent as a tool": {"answers": [call("helper")], "tools": [helper]},
    "a name that no tool has": {"answers": [call("dynamic")], "tools": [fetch]},
    "another middleware that reads": {"also": [Reads()]},
    "a prompt made of documents": {"also": [rag]},
    "a middleware that answers by itself": {"also": [Short()], "answers": ["x"]},
    "a hosted tool among the tools": {"tools": [{"type": "web_search", "name": "s"}]},
    "an uploaded file": {"given": {"messages": [HumanMessage([FILE])]}},
    "a conversation from elsewhere": {"given": {"messages": HISTORY}},
    "the same, under a forged pointer": {
        "given": {"messages": HISTORY, "sams_history": ["0" * 32, "x"]}
    },
}


@pytest.mark.parametrize("case", AGENTS.values(), ids=AGENTS.keys())
def test_the_middleware_alone_sees_it(
    case: dict[str, Any], session: AgentSession, written: Any
) -> None:
    more = dict(case)
    ask(session, *more.pop("answers", []), **more)
    assert written() == ({"facts/code": True} if "also" not in case else written())
    assert session.tainted


def test_a_middleware_that_swaps_a_trusted_tool_is_seen(
    open_session: Any, written: Any, told: Any
) -> None:
    session = open_session()
    agent = create_agent(
        model(call("calc"), said("", ("memory_write", WRITE, "w")), "done"),
        [calc],
        middleware=[SamsMiddleware(session, trusted=[calc]), Swaps()],
    )
    agent.invoke({"messages": [("user", "go")]})
    assert any("fetch" in each for each in told(session))


# Graphs of one's own.


@pytest.mark.parametrize("order", [1, -1], ids=["the fetch first", "the write first"])
@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "stream"])
def test_a_plain_tool_node_judges_a_turn_as_a_whole(
    order: int, mode: str, session: AgentSession, written: Any
) -> None:
    calls = [("fetch", {"query": "q"}, "f"), ("memory_write", WRITE, "w")][::order]
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([fetch, *memory_tools()]))
    graph.add_edge(START, "tools")
    app = graph.compile()
    given: Any = {"messages": [said("", *calls)]}
    with GOVERNED(session):
        if mode == "ainvoke":
            asyncio.run(app.ainvoke(given))
        else:
            list(app.stream(given)) if mode == "stream" else app.invoke(given)
    assert written() == {"facts/code": True}


def test_a_cached_node_that_read_for_somebody_else_is_seen(open_session: Any) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([fetch]), cache_policy=CachePolicy(key_func=lambda _: b"k"))
    graph.add_node("model", lambda state: {"messages": [model("ok").invoke(state["messages"])]})
    graph.add_edge(START, "tools")
    graph.add_edge("tools", "model")
    app = graph.compile(cache=InMemoryCache())
    given: Any = {"messages": [HumanMessage("go"), said("", ("fetch", {"query": "q"}, "f"))]}
    first, second = open_session("s1"), open_session("s2")
    with GOVERNED(first):
        app.invoke(given)
    with GOVERNED(second):
        app.invoke(given)
    assert second.tainted


def test_the_users_own_callbacks_still_hear_everything(session: AgentSession) -> None:
    heard = []

    class Mine(BaseCallbackHandler):
        def on_tool_start(self, serialized: Any, input_str: str, **more: Any) -> None:
            heard.append(more["inputs"])

    with GOVERNED(session):
        fetch.invoke({"query": "q"}, {"callbacks": [Mine()]})
    assert heard == [{"query": "q"}]
