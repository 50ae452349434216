"""What no event tells of, and that its remedy works: each case first without it, then with it.

Without the remedy the agent's write comes out clean, though it had read outsiders' text. These cases are
the README's lists of what needs a declaration and what can't be seen.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, dynamic_prompt
from langchain_core.caches import InMemoryCache
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.cache.memory import InMemoryCache as NodeCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import CachePolicy, Command, interrupt

from sams_core import AgentSession, current_session, tainting
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.scripted import said, scripted

WRITE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}
GO: Any = {"messages": [("user", "go")]}
CONFIG: Any = {"configurable": {"thread_id": "t"}}
Q = {"query": "q"}
TEXT = "outsiders wrote this"


def write() -> AIMessage:
    return said("", ("memory_write", WRITE, "w"))


def writer(session: AgentSession, *also: Any, tools: Any = (), trusted: Any = ()) -> Any:
    answers = [said("", (each.name, Q, "c")) for each in tools]
    middleware = [SamsMiddleware(session, trusted=trusted), *also]
    return create_agent(scripted(*answers, write(), "done"), list(tools), middleware=middleware)


# What has no callbacks, read in a node of a graph, in a prompt, or before the run.


@tool
def fetch(query: str) -> str:
    """Fetch a page."""
    return TEXT


class Own(BaseTool):
    """A tool of its own class."""

    name: str = "own"
    description: str = "Look it up."

    def _run(self, query: str) -> str:
        return TEXT


class Docs(BaseRetriever):
    """Documents."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(TEXT)]


class Pages(BaseLoader):
    """A loader."""

    def lazy_load(self) -> Iterator[Document]:
        yield Document(TEXT)


def shelf() -> InMemoryVectorStore:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_texts([TEXT])
    return store


def get(url: str) -> str:
    return TEXT


async def load_prompt(server: object, name: str) -> list[HumanMessage]:
    """Stand where an MCP server's prompt or resource is loaded: a function, no tool."""
    return [HumanMessage(TEXT)]


async def now(found: Any) -> Any:
    return found


Use = Callable[[Any], Awaitable[Any]]
WRAPPED: dict[str, tuple[Callable[[], Any], Use]] = {
    "a vector store": (shelf, lambda x: now(x.similarity_search("q"))),
    "a vector store, async": (shelf, lambda x: x.asimilarity_search("q")),
    "a loader": (Pages, lambda x: now(x.load())),
    "a loader, async": (Pages, lambda x: x.aload()),
    "a web request": (lambda: get, lambda x: now(x("https://example.org"))),
    "a server's prompt": (lambda: load_prompt, lambda x: x(None, "brief")),
    "a tool's function": (lambda: fetch, lambda x: now(x.func("q"))),
}
INNER: dict[str, tuple[Callable[[], Any], Use]] = {
    "a tool's inner method": (Own, lambda x: now(x._run("q"))),
    "a retriever's inner method": (
        Docs,
        lambda x: now(x._get_relevant_documents("q", run_manager=None)),
    ),
}


def graph(session: AgentSession, use: Use, source: Any, told: bool) -> Any:
    """Read in a node, put what was found into the conversation, and let an agent write."""

    async def reads(state: Any) -> Any:
        if told:
            session.mark_tainted("what the node reads")
        return {"messages": [HumanMessage(str(await use(source)))]}

    made = StateGraph(MessagesState)
    made.add_node("reads", reads)
    made.add_node("writes", writer(session))
    made.add_edge(START, "reads")
    made.add_edge("reads", "writes")
    return made.compile()


@pytest.mark.parametrize("remedy", ["none", "wrapped", "wrapped for any session", "told"])
@pytest.mark.parametrize(("make", "use"), WRAPPED.values(), ids=WRAPPED.keys())
def test_what_a_node_reads_by_itself_is_seen_once_it_is_wrapped_or_told(
    make: Any, use: Use, remedy: str, session: AgentSession, written: Any
) -> None:
    source = make()
    if remedy == "wrapped":
        source = session.tainting(source)
    elif remedy == "wrapped for any session":
        source = tainting(source)

    async def run() -> None:
        async with govern()(session):
            state = await graph(session, use, source, remedy == "told").ainvoke(GO)
        assert TEXT in str(state["messages"])

    asyncio.run(run())
    assert written() == {"facts/code": remedy != "none"}


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(("make", "use"), INNER.values(), ids=INNER.keys())
def test_an_inner_method_called_directly_has_to_be_told(
    make: Any, use: Use, told: bool, session: AgentSession, written: Any
) -> None:
    asyncio.run(graph(session, use, make(), told).ainvoke(GO))
    assert written() == {"facts/code": told}


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_prompt_made_of_what_a_vector_store_found_is_seen_once_the_store_is_wrapped(
    wrapped: bool, mode: str, session: AgentSession, written: Any
) -> None:
    store = session.tainting(shelf()) if wrapped else shelf()

    @dynamic_prompt
    def with_documents(request: Any) -> str:
        return f"Context: {store.similarity_search('q')[0].page_content}"

    agent = writer(session, with_documents)
    agent.invoke(GO) if mode == "invoke" else asyncio.run(agent.ainvoke(GO))
    assert written() == {"facts/code": wrapped}


@pytest.mark.parametrize("told", [True, False])
def test_a_provider_that_searches_without_saying_so_has_to_be_told(
    told: bool, session: AgentSession, written: Any
) -> None:
    if told:
        session.mark_tainted("the model searches")
    writer(session).invoke(GO)
    assert written() == {"facts/code": told}


# A server's description of a tool, which another middleware adds to the request on its way.


class Adds(AgentMiddleware[Any, Any, Any]):
    """Offers a server's tool that the agent wasn't built with."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        async def remote(query: str) -> str:
            return TEXT

        remote.__module__ = "langchain_mcp_adapters.tools"
        made = StructuredTool.from_function(coroutine=remote, name="crm", description=TEXT)
        return handler(request.override(tools=[*request.tools, made]))


@pytest.mark.parametrize("how", ["added", "told", "added before ours"])
def test_a_description_that_another_middleware_adds_has_to_be_told(
    how: str, session: AgentSession, written: Any
) -> None:
    if how == "told":
        session.mark_tainted("the servers' descriptions")
    middleware: list[Any] = [SamsMiddleware(session), Adds()]
    if how == "added before ours":
        middleware.reverse()
    create_agent(scripted(write(), "done"), [], middleware=middleware).invoke(GO)
    assert written() == {"facts/code": how != "added"}


# Threads of one's own, inside a trusted tool.


def thread(work: Callable[[], Any]) -> None:
    made = threading.Thread(target=work)
    made.start()
    made.join()


def pool(work: Callable[[], Any]) -> None:
    with ThreadPoolExecutor(1) as made:
        made.submit(work).result()


def executor(work: Callable[[], Any]) -> None:
    async def run() -> None:
        await asyncio.get_running_loop().run_in_executor(None, work)

    asyncio.run(run())


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("elsewhere", [thread, pool, executor])
def test_a_thread_of_ones_own_is_seen_once_it_has_the_context(
    elsewhere: Any, copied: bool, session: AgentSession, written: Any
) -> None:
    found: list[str] = []

    def body(query: str) -> str:
        def work() -> None:
            found.append(fetch.invoke({"query": query}))

        if copied:
            context = copy_context()
            elsewhere(lambda: context.run(work))
        else:
            elsewhere(work)
        return found[0]

    ask = StructuredTool.from_function(body, name="ask", description="Look it up.")
    writer(session, tools=[ask], trusted=[ask]).invoke(GO)
    assert found == [TEXT]
    assert written() == {"facts/code": copied}


# Graphs that run elsewhere.


def far() -> RemoteGraph:
    """A deployed graph, of which only the wire is played."""
    answer = {"messages": [{"type": "ai", "content": TEXT, "id": "far"}]}

    def stream(**sent: Any) -> Iterator[Any]:
        yield SimpleNamespace(event="values", data=answer)

    client: Any = SimpleNamespace(runs=SimpleNamespace(stream=stream))
    return RemoteGraph("far", sync_client=client)


def _text(remote: Any) -> str:
    return str(remote.invoke({"messages": []})["messages"][0]["content"])


@pytest.mark.parametrize(
    ("how", "labelled"),
    [("by hand", False), ("told", True), ("as a tool", True), ("as a node", True)],
)
def test_what_a_remote_graph_says_is_seen_as_a_tools_result_or_an_answer(
    how: str, labelled: bool, session: AgentSession, written: Any
) -> None:
    remote = far()
    if how == "as a tool":
        ask = StructuredTool.from_function(
            lambda query: _text(remote), name="ask", description="Ask another agent."
        )
        writer(session, tools=[ask]).invoke(GO)
    else:
        made = StateGraph(MessagesState)
        if how == "as a node":
            made.add_node("far", remote)
        else:
            made.add_node("far", lambda state: {"messages": [HumanMessage(_text(remote))]})
        made.add_node("writes", writer(session))
        made.add_edge(START, "far")
        made.add_edge("far", "writes")
        if how == "told":
            session.mark_tainted("the remote graph")
        made.compile().invoke(GO)
    assert written() == {"facts/code": labelled}


# Plain text that one session left in a cache or a thread for another.


@pytest.mark.parametrize("shared", [True, False])
def test_a_cache_of_answers_for_each_session_gives_nobody_anothers_answer(
    shared: bool, open_session: Any
) -> None:
    model, caches = scripted(TEXT, "my own"), [InMemoryCache(), InMemoryCache()]
    one, two = open_session("s1"), open_session("s2")
    one.mark_tainted("read before")
    answers = []
    for session, cache in zip((one, two), caches, strict=True):
        mine = model.model_copy(update={"cache": caches[0] if shared else cache})
        with govern()(session):
            answers.append(mine.invoke("q").content)
    assert answers == [TEXT, TEXT if shared else "my own"]
    assert not two.tainted


def _for_all(state: Any) -> bytes:
    return b"k"


def _for_the_session(state: Any) -> bytes:
    session = current_session()
    return session.session_id.encode() if session else b""


@pytest.mark.parametrize("key", [_for_all, _for_the_session])
def test_a_nodes_cache_with_the_session_in_its_key_gives_nobody_what_another_read(
    key: Any, open_session: Any, written: Any
) -> None:
    def reads(state: Any) -> Any:
        return {"messages": [HumanMessage(fetch.invoke(Q))]}

    made = StateGraph(MessagesState)
    made.add_node("reads", reads, cache_policy=CachePolicy(key_func=key))
    made.add_node("writes", create_agent(scripted("read", write(), "done"), memory_tools()))
    made.add_edge(START, "reads")
    made.add_edge("reads", "writes")
    app: Any = made.compile(cache=NodeCache())
    for name in ("s1", "s2"):
        with govern()(open_session(name)):
            app.invoke(GO)
    assert written() == {"facts/code": key is _for_the_session}


@pytest.mark.parametrize("name", ["s1", "s2"], ids=["the thread's session", "another"])
def test_a_replayed_task_belongs_to_the_session_of_its_thread(
    name: str, open_session: Any, written: Any
) -> None:
    @task
    def look_up(query: str) -> str:
        return str(fetch.invoke({"query": query}))

    @entrypoint(checkpointer=InMemorySaver())
    def flow(query: str) -> None:
        found = look_up(query).result()
        interrupt("go on?")
        (call,) = scripted(write()).invoke(found).tool_calls
        memory_tools()[3].invoke(call)

    with govern()(open_session("s1")):
        flow.invoke("q", CONFIG)
    with govern()(open_session(name)):
        flow.invoke(Command(resume="yes"), CONFIG)
    assert written() == {"facts/code": name == "s1"}


# The README says so.

SAID = {
    "What needs a declaration": (
        "Vector stores and loaders",
        "a web request in a node",
        "MCP resources and prompts",
        "MCP descriptions",
    ),
    "What can't be seen": (
        "`tool.func(...)`",
        "`tool._run(...)`",
        "`retriever._get_relevant_documents(...)`",
        "`copy_context().run`",
        "remote graphs",
        "Providers that search without saying so",
        "Plain text that a cache hands from one session to another",
    ),
}


@pytest.mark.parametrize(("section", "words"), [(s, w) for s, ws in SAID.items() for w in ws])
def test_the_readme_names_each_of_these(section: str, words: str) -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    _, _, after = text.partition(f"\n## {section}\n")
    assert words in " ".join(after.partition("\n## ")[0].split())
