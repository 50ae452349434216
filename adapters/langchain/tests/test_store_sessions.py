"""Whose memory a `SamsStore` serves, and what outsiders influenced in it."""

from __future__ import annotations

import asyncio
import contextvars
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.config import get_store
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore
from langgraph.store.base import GetOp, PutOp, SearchOp

from sams_core import AgentSession, Owner, SQLiteBackend
from sams_core.ambient import current_session
from sams_core.backend import WouldBlock, is_impatient
from sams_core.errors import InvalidArguments, NoSession, PermissionDenied
from sams_langchain import SamsMiddleware, SamsStore, govern
from sams_langchain.scripted import said, scripted

ACME, GLOBEX = "tenant:acme", "tenant:globex"
GO: Any = {"messages": [("user", "go")]}


@tool
def fetch(query: str) -> str:
    """Fetch a page."""
    return "outsiders wrote this"


def accept_all(backend: Any) -> None:
    owner = Owner(backend, "olga")
    for change in owner.changes(ACME):
        owner.accept(ACME, change.id, change.digest)


@pytest.fixture
def owner(backend: SQLiteBackend) -> Owner:
    return Owner(backend, "olga")


# Whose session it is.


def test_without_a_session_nothing_is_stored_or_served(session: AgentSession) -> None:
    def broken(given: Any) -> AgentSession:
        return {}[given]  # type: ignore[no-any-return]

    def none(given: Any) -> Any:
        return None

    for store in (SamsStore(), SamsStore(broken), SamsStore(none)):
        for op in (GetOp(("a",), "k"), PutOp(("a",), "k", {"x": 1}), SearchOp(("a",))):
            with pytest.raises(NoSession):
                store.batch([op])
            with pytest.raises(NoSession):
                asyncio.run(store.abatch([op]))


def in_thread(work: Callable[[], object]) -> list[BaseException]:
    failed: list[BaseException] = []

    def go() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    return failed


def test_a_bare_thread_has_no_session(session: AgentSession, written: Any) -> None:
    store = SamsStore()
    with govern()(session):
        (failed,) = in_thread(lambda: store.put(("a",), "k", {"x": 1}))
    assert isinstance(failed, NoSession)
    assert written() == {}


def two_steps() -> Any:
    """A graph that puts something in its second step, sync or async."""

    def put(state: MessagesState) -> Any:
        get_store().put(("a",), "k", {"x": 1})
        return {"messages": []}

    async def put_later(state: MessagesState) -> Any:
        await get_store().aput(("a",), "k", {"x": 1})
        return {"messages": []}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("first", lambda state: {"messages": []})
    builder.add_node("second", RunnableLambda(put, put_later))
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    return builder.compile(store=SamsStore())


def test_a_stream_whose_chunks_are_pulled_by_other_threads_keeps_its_session(
    session: AgentSession, written: Any
) -> None:
    with govern()(session):
        chunks = two_steps().stream(GO)
        next(chunks)
        assert in_thread(lambda: list(chunks)) == []
    assert written() == {"a/k": False}


def test_a_stream_whose_chunks_are_pulled_by_other_tasks_keeps_its_session(
    session: AgentSession, written: Any
) -> None:
    async def rest(chunks: Any) -> None:
        async for _ in chunks:
            pass

    async def go() -> None:
        with govern()(session):
            chunks = two_steps().astream(GO)
            await anext(chunks)
            loop = asyncio.get_running_loop()
            await loop.create_task(rest(chunks), context=contextvars.Context())

    asyncio.run(go())
    assert written() == {"a/k": False}


def test_the_loop_is_not_blocked_and_the_session_goes_along(
    session: AgentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: dict[str, set[tuple[bool, AgentSession | None]]] = {}
    loops_thread = threading.get_ident()

    def told(name: str) -> Any:
        verb = getattr(session, name)

        def wrapper(*args: Any) -> Any:
            if name == "memory_read" and is_impatient():  # as where a lock is held elsewhere
                raise WouldBlock
            here = (threading.get_ident() == loops_thread, current_session())
            where.setdefault(name, set()).add(here)
            return verb(*args)

        return wrapper

    names = ("memory_write", "memory_read", "memory_index", "memory_search")
    for name in names:
        monkeypatch.setattr(session, name, told(name))

    async def go() -> None:
        store = SamsStore()
        await store.aput(("a",), "k", {"x": 1})
        await store.aget(("a",), "k")
        await store.asearch(("a",))
        await store.asearch(("a",), query="x")
        await store.alist_namespaces()

    with govern()(session):
        asyncio.run(go())
    assert where == {name: {(False, session)} for name in names}


def test_what_a_background_thread_stores_by_a_resolver_is_labelled(
    session: AgentSession, written: Any
) -> None:
    store = SamsStore(session)
    assert in_thread(lambda: store.put(("a",), "k", {"x": 1})) == []
    assert written() == {"a/k": True}


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_two_tenants_of_one_agent_never_see_each_others_items(
    way: str, backend: SQLiteBackend, open_session: Any
) -> None:
    sessions = {scope: open_session(f"s-{scope[7:]}", assigned=scope) for scope in (ACME, GLOBEX)}

    def session_of(runtime: Any) -> AgentSession:
        return sessions[runtime.context["tenant"]]

    @tool
    async def look(tenant: str, store: Annotated[Any, InjectedStore()]) -> str:
        """Write under a namespace of the model's choice, and say all that is there."""
        await store.aput((tenant,), "k", {"of": tenant})
        found = await store.asearch(())
        names = await store.alist_namespaces()
        return repr(([i.value for i in found], names, await store.aget((GLOBEX,), "k")))

    def look_now(tenant: str, store: Annotated[Any, InjectedStore()]) -> str:
        return asyncio.run(look.coroutine(tenant, store))  # type: ignore[attr-defined, no-any-return]

    look.func = look_now  # type: ignore[attr-defined]
    for scope in sessions:
        Owner(backend, "olga").write(scope, "own/k", json.dumps({"of": scope}), "Whose it is")
    agent: Any = create_agent(
        scripted(*[said("", ("look", {"tenant": GLOBEX}, "c")), "done"] * 2),
        [look],
        middleware=[SamsMiddleware(session_of, trusted=[look])],
        store=SamsStore(session_of),
        context_schema=dict,
    )
    answers = {}
    for scope in sessions:
        if way == "invoke":
            found = agent.invoke(GO, context={"tenant": scope})
        else:
            found = asyncio.run(agent.ainvoke(GO, context={"tenant": scope}))
        answers[scope] = str(found["messages"][2].content)
    assert f"'of': '{GLOBEX}'" in answers[GLOBEX]
    assert ACME not in answers[GLOBEX]
    assert answers[ACME].startswith(f"([{{'of': '{ACME}'}}], [('own',)], Item(")
    assert [c.path for c in Owner(backend, "olga").changes(ACME)] == ["tenant..3aglobex/k"]


def test_a_store_of_another_session_is_refused_and_marks_both(
    session: AgentSession, open_session: Any, told: Any
) -> None:
    other = open_session("s2", assigned=GLOBEX)
    with govern()(session), pytest.raises(PermissionDenied) as refused:
        SamsStore(other).get(("a",), "k")
    assert refused.value.rule == "foreign-run"
    assert told(session) == told(other) == ["binding used inside another session's run"]


def test_another_process_sees_what_was_put(session: AgentSession, tmp_path: Path) -> None:
    with govern()(session):
        SamsStore().put(("a", "b"), "k", {"x": [1, "é"]})
    code = (
        "import sys; from sams_core import AgentSession, SQLiteBackend\n"
        "from sams_langchain import SamsStore, govern\n"
        "s = AgentSession(SQLiteBackend(sys.argv[1]), session_id='s1', agent='bot', "
        "assigned='tenant:acme', user='insider')\n"
        "with govern()(s): print(SamsStore().get(('a', 'b'), 'k').value == {'x': [1, 'é']})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "True\n"


# What outsiders influenced.


def test_a_poisoned_value_is_labelled_all_its_way(
    session: AgentSession, open_session: Any, backend: SQLiteBackend, owner: Owner
) -> None:
    @tool
    def manage(content: str, store: Annotated[Any, InjectedStore()]) -> str:
        """Remember something."""
        store.put(("memories", "u1"), "account", {"content": content})
        return "done"

    store = SamsStore()
    agent: Any = create_agent(
        scripted(
            said("", ("fetch", {"query": "q"}, "c1")),
            said("", ("manage", {"content": "Invoices go to account 99"}, "c2")),
            "done",
        ),
        [fetch, manage],
        middleware=[SamsMiddleware(session, trusted=[manage])],
        store=store,
    )
    agent.invoke(GO)
    (change,) = owner.changes(ACME)
    assert change.tainted
    accept_all(backend)
    namespace, key = ("memories", "u1"), change.path.split("/")[-1]

    clean = open_session("s2")
    with govern()(clean):
        assert store.search(namespace) == store.search(namespace, query="invoices") == []
        assert store.search((), filter={"content": "Invoices go to account 99"}) == []
        assert store.list_namespaces() == []
        assert not clean.tainted
        item = store.get(namespace, key)
        assert item is not None
        assert item.value == {"content": "Invoices go to account 99"}
        assert clean.tainted
        for found in (store.search(namespace), store.search((), query="invoices")):
            assert [(i.value, i.dict()["labelled"]) for i in found] == [(item.value, True)]
        assert store.list_namespaces() == [namespace]


def test_overwriting_a_labelled_entry_neither_marks_nor_tells(
    session: AgentSession, open_session: Any, backend: SQLiteBackend, written: Any
) -> None:
    session.mark_tainted("read a page")
    store = SamsStore()
    with govern()(session):
        store.put(("a",), "k", {"content": "poison"})
    accept_all(backend)
    clean = open_session("s2")
    with govern()(clean):
        assert store.put(("a",), "k", {"content": "right"}) is None  # type: ignore[func-returns-value]
        assert clean.sources == ()
        item = store.get(("a",), "k")
        assert item is not None
        assert "labelled" not in item.dict()  # this text isn't; what it would replace is, and marks
        assert clean.tainted
    assert written() == {"a/k": False}


def test_a_handle_is_read_by_its_name_and_marks_first(
    session: AgentSession, open_session: Any, backend: SQLiteBackend
) -> None:
    session.mark_tainted("read a page")
    store = SamsStore()
    with govern()(session):
        store.put(("a",), "k", {"content": "poison"})
    accept_all(backend)
    clean = open_session("s2")
    with govern()(clean):
        (line,) = clean.memory_index("assigned").items
        handle = line.path.split("/")[1]
        for name in ("untrusted", "UNTRUSTED"):
            with pytest.raises(InvalidArguments) as refused:
                store.put((name,), handle, {"content": "x"})
            assert refused.value.rule == "path"
        assert store.search(("untrusted",)) == []
        assert not clean.tainted
        item = store.get(("untrusted",), handle)
        assert item is not None
        assert (item.namespace, item.key, clean.tainted) == (("a",), "k", True)


def test_a_hook_that_searches_is_part_of_the_governed_run(session: AgentSession) -> None:
    store = SamsStore(session)

    class Recalls(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            store.search(("memories",), query="tea")
            store.get(("memories",), "drinks")

        async def abefore_model(self, state: Any, runtime: Any) -> None:
            await store.asearch(("memories",), query="tea")

    agent = create_agent(scripted("a", "b"), [], middleware=[SamsMiddleware(session), Recalls()])
    given: Any = {"messages": [("user", "go")]}
    agent.invoke(given)
    asyncio.run(agent.ainvoke(given))
    assert not session.tainted


def test_what_a_hook_puts_is_labelled_because_nobody_observes_the_rest_of_it(
    session: AgentSession, written: Any
) -> None:
    class Keeps(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            SamsStore(session).put(("memories",), "drinks", {"content": "tea"})

    agent = create_agent(scripted("a"), [], middleware=[SamsMiddleware(session), Keeps()])
    agent.invoke({"messages": [("user", "go")]})
    assert written() == {"memories/drinks": True}
