"""`session.tainting(store)` for LangGraph's stores: reading marks first, filling doesn't."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import dynamic_prompt
from langchain_core.tools import tool
from langgraph.prebuilt import InjectedStore
from langgraph.store.base import BaseStore, GetOp, PutOp, SearchOp
from langgraph.store.base.batch import AsyncBatchedBaseStore
from langgraph.store.memory import InMemoryStore

from sams_core import AgentSession, NoSession, tainting
from sams_langchain import SamsMiddleware
from sams_langchain.scripted import said, scripted

NS = ("memories", "u1")
VALUE = {"content": "outsiders wrote this"}
GO: Any = {"messages": [("user", "go")]}
NOTE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}


class Batched(AsyncBatchedBaseStore):
    """A store that gathers the calls of its loop, as those for databases do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = InMemoryStore()

    def batch(self, ops: Any) -> Any:
        return self.inner.batch(ops)

    async def abatch(self, ops: Any) -> Any:
        return self.inner.batch(ops)


def filled() -> InMemoryStore:
    store = InMemoryStore()
    store.put(NS, "k", VALUE)
    return store


READS: dict[str, Callable[[Any], Any]] = {
    "get": lambda s: s.get(NS, "k"),
    "search": lambda s: s.search(NS),
    "list_namespaces": lambda s: s.list_namespaces(),
    "batch": lambda s: s.batch(iter([PutOp(NS, "k2", VALUE), GetOp(NS, "k")])),
    "aget": lambda s: asyncio.run(s.aget(NS, "k")),
    "asearch": lambda s: asyncio.run(s.asearch(NS)),
    "alist_namespaces": lambda s: asyncio.run(s.alist_namespaces()),
    "abatch": lambda s: asyncio.run(s.abatch([SearchOp(NS)])),
}


@pytest.mark.parametrize("copied", [False, True], ids=["itself", "a copy"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading_a_store_marks_and_answers_as_before(
    read: Callable[[Any], Any], copied: bool, session: AgentSession
) -> None:
    plain = filled()
    wrapped = session.tainting(plain)
    wrapped = copy.copy(wrapped) if copied else wrapped
    assert isinstance(wrapped, InMemoryStore) and not session.tainted
    found = read(wrapped)
    assert session.tainted
    assert repr(found) == repr(read(plain))


def test_filling_a_store_reads_nothing(session: AgentSession) -> None:
    plain = InMemoryStore()
    wrapped = session.tainting(plain)
    wrapped.put(NS, "a", VALUE)
    asyncio.run(wrapped.aput(NS, "b", VALUE))
    wrapped.batch([PutOp(NS, "c", VALUE)])
    asyncio.run(wrapped.abatch([PutOp(NS, "d", VALUE)]))
    wrapped.delete(NS, "d")
    asyncio.run(wrapped.adelete(NS, "c"))
    assert not session.tainted
    assert [item.key for item in plain.search(NS)] == ["a", "b"]


def test_a_store_that_gathers_its_calls_works_after_what_is_wrapped_is_gone(
    session: AgentSession,
) -> None:
    async def run() -> Any:
        plain = Batched()
        wrapped = session.tainting(plain)
        await wrapped.aput(NS, "k", VALUE)
        assert not session.tainted
        found = await wrapped.aget(NS, "k")
        assert session.tainted
        del wrapped
        return found, await plain.aget(NS, "k")

    first, second = asyncio.run(run())
    assert first.value == second.value == VALUE


def test_a_prompt_made_of_a_wrapped_store_labels_what_is_written(
    session: AgentSession, written: Any
) -> None:
    @dynamic_prompt
    def recalls(request: Any) -> str:
        return str([item.value for item in request.runtime.store.search(NS)])

    write = said("", ("memory_write", NOTE, "w"))
    middleware: list[Any] = [SamsMiddleware(session), recalls]
    create_agent(
        scripted(write, "done"), [], middleware=middleware, store=session.tainting(filled())
    ).invoke(GO)
    assert written() == {"facts/code": True}


def test_a_trusted_tool_doesnt_vouch_for_a_wrapped_store(
    session: AgentSession, written: Any
) -> None:
    @tool
    def recall(store: Annotated[BaseStore, InjectedStore()]) -> str:
        """Recall."""
        return str(store.get(NS, "k"))

    answers = [said("", ("recall", {}, "c")), said("", ("memory_write", NOTE, "w")), "done"]
    create_agent(
        scripted(*answers),
        [recall],
        middleware=[SamsMiddleware(session, trusted=[recall])],
        store=session.tainting(filled()),
    ).invoke(GO)
    assert written() == {"facts/code": True}


def test_a_store_wrapped_for_whichever_session_needs_one_to_be_read() -> None:
    wrapped = tainting(InMemoryStore())
    wrapped.put(NS, "k", VALUE)
    with pytest.raises(NoSession):
        wrapped.get(NS, "k")
