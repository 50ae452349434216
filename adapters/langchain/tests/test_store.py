"""`SamsStore` under the users of LangGraph's stores: langmem, injected stores, graphs, deepagents."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, StateBackend, StoreBackend
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.config import get_store
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore, ToolRuntime

from sams_core import AgentSession, Owner, SQLiteBackend
from sams_core.errors import NoSession, PermissionDenied
from sams_langchain import SamsMiddleware, SamsStore, govern
from sams_langchain.scripted import said, scripted

with warnings.catch_warnings():  # its dependencies import what LangGraph has renamed
    warnings.simplefilter("ignore", DeprecationWarning)
    from langmem import ReflectionExecutor, create_manage_memory_tool, create_search_memory_tool
    from langmem.utils import NamespaceTemplate

ACME = "tenant:acme"
GO: Any = {"messages": [("user", "go")]}
USER: Any = {"configurable": {"thread_id": "t", "user": "u1"}}
ID = "0b0a7a8e-6f5f-4a0c-8d0e-5f6a7b8c9d0e"
Run = Callable[..., list[str]]


@tool
def remember(text: str, store: Annotated[Any, InjectedStore()]) -> str:
    """Remember a text and say what is there then."""
    store.put(("notes", "u1"), "tea", {"text": text})
    return repr(store.get(("notes", "u1"), "tea"))


@tool
async def remember_later(text: str, runtime: ToolRuntime) -> str:
    """Remember a text and say what is found then."""
    assert runtime.store is not None
    await runtime.store.aput(("notes", "u1"), "tea", {"text": text}, index=False)
    found = await runtime.store.asearch(("notes",), query="tea", filter={"text": {"$eq": text}})
    return repr(found)


def langmem(**more: Any) -> list[Any]:
    namespace = ("memories", "{user}")
    return [create_manage_memory_tool(namespace), create_search_memory_tool(namespace, **more)]


def accept_all(backend: Any) -> None:
    owner = Owner(backend, "olga")
    for change in owner.changes(ACME):
        owner.accept(ACME, change.id, change.digest)


@pytest.fixture
def owner(backend: SQLiteBackend) -> Owner:
    return Owner(backend, "olga")


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run an agent whose model makes these calls, one a turn; return the tools' results."""

    def go(tools: list[Any], *calls: tuple[str, dict[str, Any]], **more: Any) -> list[str]:
        script = [said("", (name, args, f"c{n}")) for n, (name, args) in enumerate(calls)]
        build = more.pop("build", create_agent)
        agent: Any = build(scripted(*script, "done"), tools, **more)
        if request.param == "invoke":
            found = agent.invoke(GO, USER)
        else:
            found = asyncio.run(agent.ainvoke(GO, USER))
        return [str(m.content) for m in found["messages"] if isinstance(m, ToolMessage)]

    return go


# langmem's tools, unmodified.


def test_what_langmem_creates_waits_and_is_found_once_accepted(
    run: Run, session: AgentSession, backend: SQLiteBackend, written: Any, told: Any
) -> None:
    tools = langmem()
    more: Any = {
        "middleware": [SamsMiddleware(session, trusted=[*tools])],
        "store": SamsStore(),
    }
    calls = (
        ("manage_memory", {"content": "The user likes tea"}),
        ("search_memory", {"query": "what does the user like?"}),
    )
    created, found = run(tools, *calls, **more)
    assert created.startswith("created memory ")  # whatever happens: the tool's own text
    assert found == "[]"
    (path,) = written()
    assert path == f"memories/u1/{created.removeprefix('created memory ')}"
    accept_all(backend)
    (line,) = json.loads(run(tools, calls[1], **more)[0])
    assert line["value"] == {"content": "The user likes tea"}
    assert (line["namespace"], line["key"]) == (["memories", "u1"], path.split("/")[-1])
    assert "review" not in line
    assert "label" not in line
    assert told(session) == []


def test_langmems_tools_mark_unless_they_are_declared(
    run: Run, session: AgentSession, written: Any
) -> None:
    more: Any = {"middleware": [SamsMiddleware(session)], "store": SamsStore()}
    run(langmem(), ("manage_memory", {"content": "tea"}), **more)
    assert list(written().values()) == [True]


def test_langmems_update_supersedes_and_a_search_shows_what_waits(
    run: Run, session: AgentSession, owner: Owner
) -> None:
    owner.write(ACME, f"memories/u1/{ID}", "likes tea", "Drinks")
    tools = langmem()
    update = {"content": "likes coffee", "action": "update", "id": ID}
    *_, found = run(
        tools,
        ("manage_memory", update),
        ("manage_memory", {**update, "content": "likes cocoa"}),
        ("search_memory", {"query": "tea"}),
        middleware=[SamsMiddleware(session, trusted=[*tools])],
        store=SamsStore(),
    )
    (line,) = json.loads(found)
    assert line["value"] == {"content": "likes cocoa"}
    assert line["review"].startswith("queued for review")
    (change,) = owner.changes(ACME)
    assert (change.content, change.base_version) == ("likes cocoa", 1)


def test_deleting_is_refused_and_the_run_goes_on(
    run: Run, session: AgentSession, owner: Owner
) -> None:
    owner.write(ACME, f"memories/u1/{ID}", "likes tea", "Drinks")
    tools = langmem()
    (answer,) = run(
        tools,
        ("manage_memory", {"action": "delete", "id": ID}),
        middleware=[SamsMiddleware(session, trusted=[*tools])],
        store=SamsStore(),
    )
    assert json.loads(answer)["error"]["rule"] == "owner-only"
    entry = owner.get(ACME, f"memories/u1/{ID}")
    assert entry is not None
    assert entry.content == "likes tea"
    assert owner.changes(ACME) == []


def test_a_searchs_items_survive_a_checkpoint(session: AgentSession, owner: Owner) -> None:
    owner.write(ACME, "memories/u1/a", "likes tea", "Drinks")
    tools = langmem(response_format="content_and_artifact")
    agent: Any = create_agent(
        scripted(said("", ("search_memory", {"query": "tea"}, "c")), "done"),
        tools,
        middleware=[SamsMiddleware(session, trusted=[*tools])],
        store=SamsStore(),
        checkpointer=InMemorySaver(),
    )
    agent.invoke(GO, USER)
    messages = agent.get_state(USER).values["messages"]
    (answer,) = [m for m in messages if isinstance(m, ToolMessage)]
    assert [item.value for item in answer.artifact] == [{"content": "likes tea"}]


def test_an_item_is_written_down_with_what_is_told_of_it(
    session: AgentSession, open_session: Any
) -> None:
    session.mark_tainted("read a page")
    store = SamsStore(session)
    with govern()(session):
        store.put(("a",), "k", {"x": 1})
        item = store.get(("a",), "k")
    serde = JsonPlusSerializer()
    assert item is not None
    again = serde.loads_typed(serde.dumps_typed(item))
    assert (type(again), again.dict()) == (type(item), item.dict())
    assert item.dict()["labelled"] is True
    assert item.dict()["label"].startswith("untrusted: ")
    assert "queued for review" in repr(again)


# Stores that tools and nodes are given.


def test_an_injected_store_reads_what_it_wrote(
    run: Run, session: AgentSession, written: Any
) -> None:
    (answer,) = run(
        [remember],
        ("remember", {"text": "green"}),
        middleware=[SamsMiddleware(session, trusted=[remember])],
        store=SamsStore(),
    )
    assert "{'text': 'green'}" in answer
    assert "queued for review" in answer
    assert written() == {"notes/u1/tea": False}


def test_a_runtimes_store_works_from_several_loops_and_threads(
    session: AgentSession, backend: SQLiteBackend
) -> None:
    agent: Any = create_agent(
        scripted(*[said("", ("remember_later", {"text": "tea"}, "c")), "done"] * 3),
        [remember_later],
        middleware=[SamsMiddleware(session, trusted=[remember_later])],
        store=SamsStore(),
    )
    assert [m.content for m in asyncio.run(agent.ainvoke(GO))["messages"]][2] == "[]"
    accept_all(backend)
    for _ in range(2):
        found = [m.content for m in asyncio.run(agent.ainvoke(GO))["messages"]][2]
        assert "{'text': 'tea'}" in found
    assert session.sources == ()


def test_sync_calls_work_while_a_loop_runs(session: AgentSession) -> None:
    store = SamsStore()

    async def use() -> Any:
        with govern()(session):
            store.put(("a",), "k", {"x": 1})
            later = await store.aget(("a",), "k")
            return store.get(("a",), "k"), later

    now, later = asyncio.run(use())
    assert now == later
    assert now.value == {"x": 1}


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_graphs_node_gets_the_store(way: str, session: AgentSession, written: Any) -> None:
    def node(state: MessagesState) -> Any:
        get_store().put(("facts",), "sky", {"content": "blue"})
        return {"messages": []}

    async def later(state: MessagesState) -> Any:
        await get_store().aput(("facts",), "sky", {"content": "blue"})
        return {"messages": []}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("node", node if way == "invoke" else later)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    graph = builder.compile(store=SamsStore())
    with govern()(session):
        if way == "invoke":
            graph.invoke(GO)
        else:
            asyncio.run(graph.ainvoke(GO))
    assert written() == {"facts/sky": False}


def test_a_retried_tool_leaves_one_open_change(session: AgentSession, owner: Owner) -> None:
    class Again(ToolRetryMiddleware):
        """Runs each tool twice, as after a lost connection."""

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            handler(request)
            return handler(request)

    agent = create_agent(
        scripted(said("", ("remember", {"text": "green"}, "c")), "done"),
        [remember],
        middleware=[SamsMiddleware(session, trusted=[remember]), Again()],
        store=SamsStore(),
    )
    agent.invoke(GO)
    (change,) = owner.changes(ACME)
    assert len(change.supersedes) == 1


# deepagents' files in a store.


def test_deepagents_write_edit_and_read_their_files(
    run: Run, session: AgentSession, written: Any
) -> None:
    routes = {"/memories/": StoreBackend(namespace=lambda runtime: ("bot", "filesystem"))}

    def build(model: Any, tools: list[Any], **more: Any) -> Any:
        files = CompositeBackend(default=StateBackend(), routes=routes)
        return create_deep_agent(model, tools, backend=files, **more)

    path = {"file_path": "/memories/AGENTS.md"}
    wrote, edited, read, listed = run(
        [],
        ("write_file", {**path, "content": "likes tea\nno milk"}),
        ("edit_file", {**path, "old_string": "tea", "new_string": "coffee"}),
        ("read_file", path),
        ("ls", {"path": "/memories/"}),
        middleware=[SamsMiddleware(session)],
        store=SamsStore(),
        build=build,
    )
    assert "likes coffee" in read
    assert "error" not in (wrote + edited).lower()
    assert "AGENTS" not in listed  # a file that waits is opened by name only
    assert written() == {"bot/filesystem/..2fAGENTS.md": True}  # their tools can't be declared


def test_deepagents_read_what_the_owner_wrote_by_hand(session: AgentSession, owner: Owner) -> None:
    owner.write(ACME, "bot/..2fAGENTS.md", "Answer in French.", "How to answer")
    files = StoreBackend(namespace=lambda runtime: ("bot",), store=SamsStore(session))
    with govern()(session):
        read = files.read("/AGENTS.md")
        listed = files.ls("/")
        gone = files.read("/other.md")
        with pytest.raises(PermissionDenied):
            files.delete("/AGENTS.md")
    assert read.file_data is not None
    assert read.file_data["content"] == "Answer in French."
    assert [entry["path"] for entry in listed.entries or ()] == ["/AGENTS.md"]
    assert gone.error is not None


# langmem's background thread.


def test_langmems_background_thread_stores_nothing_once_the_run_is_over(
    session: AgentSession, written: Any
) -> None:
    store = SamsStore()
    reflector: Any = RunnableLambda(lambda x: get_store().put(("a",), "k", {"x": 1}))
    object.__setattr__(reflector, "namespace", NamespaceTemplate(("a",)))

    with ReflectionExecutor(reflector, store=store) as executor:
        futures = []

        def node(state: MessagesState) -> Any:
            futures.append(executor.submit({"messages": []}, after_seconds=1))
            return {"messages": []}

        builder: Any = StateGraph(MessagesState)
        builder.add_node("node", node)
        builder.add_edge(START, "node")
        graph = builder.compile(store=store)
        with govern()(session):
            graph.invoke(GO)
        with pytest.raises(NoSession):
            futures[0].result(30)
    assert written() == {}
