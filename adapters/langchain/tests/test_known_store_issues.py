"""Public issues of LangGraph's stores and the tools over them: the behaviour, and that ours holds.

Each test shows first what went wrong there, with the store of another kind.
"""

from __future__ import annotations

import asyncio
import gc
import json
import warnings
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.prebuilt import InjectedStore
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite.aio import AsyncSqliteStore

from sams_core import AgentSession, Owner, SQLiteBackend
from sams_langchain import SamsMiddleware, SamsStore, govern, memory_tools
from sams_langchain.scripted import said, scripted

with warnings.catch_warnings():  # its dependencies import what LangGraph has renamed
    warnings.simplefilter("ignore", DeprecationWarning)
    from langmem import create_manage_memory_tool

ACME = "tenant:acme"
GO: Any = {"messages": [("user", "go")]}
SPACE = ("memories",)
WRITE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}
Use = Callable[[BaseStore], Awaitable[Any]]


async def of_sqlite(use: Use) -> Any:
    async with AsyncSqliteStore.from_conn_string(":memory:") as store:
        await store.setup()
        return await use(store)


# langchain-ai/langgraph#2875: a store's sync half is refused where an event loop runs.


@tool
async def notes(text: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Keep a note, by the store's sync half."""
    store.put(SPACE, "note", {"text": text})
    found = store.get(SPACE, "note")
    return str(found and found.value)


def noting(store: BaseStore, session: AgentSession) -> Any:
    return create_agent(
        scripted(said("", ("notes", {"text": "7-7-7"}, "n")), "done"),
        [notes],
        middleware=[SamsMiddleware(session, trusted=[notes])],
        store=store,
    )


def test_langgraph_2875_the_sync_half_works_on_an_event_loop(
    session: AgentSession, written: Any
) -> None:
    with pytest.raises(asyncio.InvalidStateError):
        asyncio.run(of_sqlite(lambda store: noting(store, session).ainvoke(GO)))
    state = asyncio.run(noting(SamsStore(), session).ainvoke(GO))
    assert "7-7-7" in str(state["messages"][-2].content)
    assert written() == {"memories/note": False}


# langchain-ai/langgraph#6693: a store that belongs to one event loop, used by the next request's.


@pytest.mark.filterwarnings("ignore:coroutine '_run' was never awaited:RuntimeWarning")  # theirs
def test_langgraph_6693_one_store_serves_several_event_loops(
    session: AgentSession, written: Any
) -> None:
    kept: list[Any] = []

    async def keep(store: BaseStore) -> None:
        kept.append(store)
        await store.aput(SPACE, "a", {"text": "7"})

    asyncio.run(of_sqlite(keep))
    with pytest.raises(RuntimeError):
        asyncio.run(kept[0].aput(SPACE, "b", {"text": "7"}))
    kept.clear()
    gc.collect()

    store = SamsStore()

    async def put(key: str) -> Any:
        async with govern()(session):
            await store.aput(SPACE, key, {"text": "7"})
            return await store.aget(SPACE, key)

    assert [asyncio.run(put(key)).value for key in "ab"] == [{"text": "7"}] * 2
    assert written() == {"memories/a": False, "memories/b": False}


# langchain-ai/langmem#37: a memory manager couldn't be given a store, so it worked in a graph only.


def test_langmem_37_memory_works_outside_of_a_graph(session: AgentSession, written: Any) -> None:
    with pytest.raises((KeyError, RuntimeError)):
        create_manage_memory_tool(SPACE).invoke({"content": "7-7-7"})
    manage = create_manage_memory_tool(SPACE, store=SamsStore())
    with govern()(session):
        manage.invoke({"content": "7-7-7"})
        (write,) = [each for each in memory_tools() if each.name == "memory_write"]
        assert json.loads(write.invoke(dict(WRITE)))["status"] == "queued"
    # langmem's tool is nobody's that was vouched for.
    assert sorted(written().values()) == [True, True]


# langchain-ai/memory-template#15: what was written under one namespace was looked for under another.


def test_memory_template_15_whose_memory_it_is_comes_from_the_session_alone(
    backend: SQLiteBackend, open_session: Any
) -> None:
    plain = InMemoryStore()
    plain.put(("memories", "u1", "notes"), "code", {"text": "7-7-7"})
    assert plain.search(("u1",)) == []

    def use(name: str, **arguments: Any) -> Any:
        (made,) = [each for each in memory_tools() if each.name == name]
        return json.loads(made.invoke(arguments))

    with govern()(open_session("s1")):
        use("memory_write", **WRITE)
    owner = Owner(backend, "olga")
    (change,) = owner.changes(ACME)
    owner.accept(ACME, change.id, change.digest)
    for name, assigned, found in (("s2", ACME, 1), ("s3", "tenant:other", 0)):
        with govern()(open_session(name, assigned=assigned)):
            page = use("memory_search", scope="assigned", query="code")
        assert len(page["items"]) == found


# langchain-ai/langchain-aws#1128: a search took its namespace for the whole one, not for a beginning.


class Exact(InMemoryStore):
    """Searches as that store did."""

    def search(self, prefix: Any, /, **more: Any) -> Any:
        return [each for each in super().search(prefix, **more) if each.namespace == prefix]


@pytest.mark.parametrize("place", [("memories",), ("memories", "u1"), ("mem",), ("u1",)])
def test_langchain_aws_1128_a_search_finds_what_lies_below_its_namespace(
    place: tuple[str, ...], backend: SQLiteBackend, open_session: Any
) -> None:
    exact, plain, ours = Exact(), InMemoryStore(), SamsStore()
    with govern()(open_session("s1")):
        for store in (exact, plain, ours):
            store.put(("memories", "u1"), "code", {"text": "7-7-7"})
    owner = Owner(backend, "olga")
    (change,) = owner.changes(ACME)
    owner.accept(ACME, change.id, change.digest)
    assert exact.search(("memories",)) == []
    with govern()(open_session("s2")):
        found, expected = ours.search(place), plain.search(place)
    assert [(x.namespace, x.key, x.value) for x in found] == [
        (x.namespace, x.key, x.value) for x in expected
    ]
