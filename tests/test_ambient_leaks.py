"""A suspended generator's session reaches nobody but what runs inside it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from sams_core import AgentSession, Backend, Owner, PermissionDenied, current_session

Open = Callable[..., AgentSession]


class Governed:
    """A block of somebody's own, as adapters have one."""

    def __init__(self, session: AgentSession) -> None:
        self.inner = session.active()

    def __enter__(self) -> AgentSession:
        return self.inner.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.inner.__exit__(*error)


def plain(session: AgentSession) -> Iterator[object]:
    with session.active():
        while True:
            yield current_session()


def wrapped(session: AgentSession) -> Iterator[object]:
    with Governed(session):
        while True:
            yield current_session()


def stacked(session: AgentSession) -> Iterator[object]:
    with contextlib.ExitStack() as stack:
        (lambda: stack.enter_context(session.active()))()
        while True:
            yield current_session()


def in_thread(work: Callable[[], object]) -> object:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


async def look() -> object:
    return current_session()


@pytest.mark.parametrize("stream", [plain, wrapped, stacked])
def test_nothing_that_the_consumer_starts_inherits_a_suspended_generators_session(
    stream: Callable[[AgentSession], Iterator[object]], session: AgentSession
) -> None:
    left = stream(session)
    assert next(left) is session
    assert current_session() is None
    assert asyncio.run(look()) is None
    assert in_thread(lambda: contextvars.copy_context().run(current_session)) is None
    inherited = contextvars.copy_context()
    assert in_thread(lambda: inherited.run(current_session)) is None
    assert next(left) is session
    left.close()  # type: ignore[attr-defined]


def test_a_thread_started_inside_a_running_generator_inherits(session: AgentSession) -> None:
    def stream() -> Iterator[object]:
        with session.active():
            inside = contextvars.copy_context()
            yield in_thread(lambda: inside.run(current_session))

    assert next(stream()) is session


@pytest.mark.anyio
async def test_a_block_in_a_coroutine_under_an_async_generator_is_the_generators(
    session: AgentSession,
) -> None:
    async def chunks() -> AsyncIterator[object]:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(session.active())
            yield await look()
            yield await asyncio.create_task(look())

    left = chunks()
    assert await anext(left) is session
    assert current_session() is None
    assert await anext(left) is session
    await left.aclose()  # type: ignore[attr-defined]


def test_a_mark_owed_outlives_its_session_object(
    backend: Backend, open_clean: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sams_core import SessionClosed, StoreFailed

    def full(*_: object) -> None:
        raise StoreFailed("disk full")

    session = open_clean(backend)
    monkeypatch.setattr(backend, "add_sources", full)
    for _ in range(3):
        with pytest.raises(SessionClosed):
            session.mark_tainted("a page")
    monkeypatch.undo()
    del session
    gc.collect()
    again = open_clean(backend)
    again.memory_write("assigned", "p", "c", "d")
    assert [s.name for s in again.sources] == ["a page"]
    assert Owner(backend, "olga").changes("tenant:acme")[0].tainted


def test_a_generator_resumed_in_another_run_marks_that_too_and_is_refused(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    other = open_clean(backend, "s2")

    @session.tainting
    def web() -> Iterator[str]:
        yield "one"
        yield "two"

    pages = web()
    with session.active():
        next(pages)
    with other.active(), pytest.raises(PermissionDenied):
        next(pages)
    assert session.tainted
    assert other.tainted


@pytest.mark.anyio
async def test_an_async_generator_resumed_in_another_run_marks_that_too_and_is_refused(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    other = open_clean(backend, "s2")

    @session.tainting
    async def web() -> AsyncIterator[str]:
        yield "one"
        yield "two"

    pages = web()
    async with session.active():
        await anext(pages)
    async with other.active():
        with pytest.raises(PermissionDenied):
            await anext(pages)
    assert other.tainted


def test_a_context_block_is_refused_in_another_run(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    with open_clean(backend, "s2").active(), pytest.raises(PermissionDenied):
        session.context_block()
    assert session.tainted


def test_a_fork_while_another_thread_is_active_leaves_the_child_free(
    backend: Backend, session: AgentSession, open_clean: Open, owner: Owner
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with session.active(), session.family._lock:
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(60)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(30)
            child = open_clean(backend, "s2")
            child.mark_tainted("a page")
            owner.changes("tenant:acme")
            session.mark_tainted("a page")
            code = 0
        finally:
            os._exit(code)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.anyio
async def test_a_consumers_own_call_is_its_own_in_whatever_thread_it_runs(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    async def chunks() -> AsyncIterator[int]:
        async with session.active():
            for number in range(3):
                yield number

    other = open_clean(backend, "s2")
    async for number in chunks():
        arguments = {"scope": "run", "path": f"n{number}", "content": "c", "description": "d"}
        assert '"stored"' in await other.acall_tool("memory_write", arguments)
        assert '"items"' in await other.acall_tool("memory_search", {"scope": "run", "query": "c"})
    assert not session.tainted
    assert not other.tainted


def test_an_owner_is_refused_or_served_but_never_surprised_by_activations_of_threads(
    backend: Backend, open_clean: Open, owner: Owner
) -> None:
    stop = threading.Event()
    sessions = [open_clean(backend, f"s{n}") for n in range(3)]

    def flicker(session: AgentSession) -> None:
        while not stop.is_set():
            with session.active():
                pass

    threads = [threading.Thread(target=flicker, args=(s,)) for s in sessions]
    for thread in threads:
        thread.start()
    for _ in range(500):
        try:
            owner.get("org", "p")
        except PermissionDenied as error:
            assert error.rule == "owner-beside-agent"
    stop.set()
    for thread in threads:
        thread.join()
