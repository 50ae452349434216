"""An ambient session ends with its block, in every context."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from sams_core import (
    AgentSession,
    Backend,
    DreamerSession,
    NoSession,
    Owner,
    PermissionDenied,
    current_session,
    tainting,
)


def stream(session: AgentSession, seen: list[object]) -> Iterator[int]:
    with session.active():
        for number in range(10):
            seen.append(current_session())
            yield number


Open = Callable[..., AgentSession]


class Worker:
    """A thread that runs requests one after another in its own base context."""

    def __init__(self) -> None:
        self.jobs: queue.Queue[Callable[[], object] | None] = queue.Queue()
        self.results: queue.Queue[object] = queue.Queue()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while (job := self.jobs.get()) is not None:
            self.results.put(job())

    def do(self, job: Callable[[], object]) -> object:
        self.jobs.put(job)
        return self.results.get(timeout=30)

    def __exit__(self, *_: object) -> None:
        self.jobs.put(None)
        self.thread.join()

    def __enter__(self) -> Worker:
        return self


def test_a_session_is_ambient_inside_its_block_only(session: AgentSession) -> None:
    assert current_session() is None
    with session.active() as inside:
        assert inside is session
        assert current_session() is session
    assert current_session() is None


def test_blocks_nest(backend: Backend, session: AgentSession, open_clean: Open) -> None:
    other = open_clean(backend, "s2")
    with session.active():
        with other.active():
            assert current_session() is other
        assert current_session() is session


def test_an_activation_is_used_once(session: AgentSession) -> None:
    block = session.active()
    with block, pytest.raises(PermissionDenied), block:
        pass
    with pytest.raises(PermissionDenied), block:
        pass


def test_an_abandoned_generator_leaves_no_session_to_the_next_request(
    session: AgentSession,
) -> None:
    seen: list[object] = []
    with Worker() as worker:
        left = stream(session, seen)
        worker.do(lambda: next(left))
        assert seen == [session]
        assert worker.do(current_session) is None


def test_a_generator_closed_in_another_thread_leaves_no_session_behind(
    session: AgentSession,
) -> None:
    with Worker() as worker:
        left = stream(session, [])
        worker.do(lambda: next(left))
        left.close()
        assert worker.do(current_session) is None


def test_a_generator_finds_its_session_in_whichever_thread_drives_it(session: AgentSession) -> None:
    seen: list[object] = []
    steps = stream(session, seen)
    with Worker() as one, Worker() as two:
        for worker in (one, two, two, one):
            worker.do(lambda: next(steps))
            assert worker.do(current_session) is None
            assert worker.do(lambda: contextvars.copy_context().run(current_session)) is None
    steps.close()
    assert seen == [session] * 4


def test_two_interleaved_generators_each_find_their_own(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    other, ours, theirs = open_clean(backend, "s2"), list[object](), list[object]()
    one, two = stream(session, ours), stream(other, theirs)
    for _ in range(3):
        next(one), next(two)
        assert current_session() is None
    with other.active():
        next(one)
        assert current_session() is other
    one.close(), two.close()
    assert (ours, theirs) == ([session] * 4, [other] * 3)


def test_a_thread_with_a_copied_context_inherits_the_session_until_the_block_ends(
    session: AgentSession,
) -> None:
    with Worker() as worker:
        with session.active():
            inside = contextvars.copy_context()
            assert worker.do(lambda: inside.run(current_session)) is session
            assert worker.do(current_session) is None
        assert worker.do(lambda: inside.run(current_session)) is None


def test_a_block_held_by_a_context_manager_covers_the_body(session: AgentSession) -> None:
    @contextlib.contextmanager
    def request() -> Iterator[None]:
        with session.active():
            yield

    with request():
        assert current_session() is session
    with contextlib.ExitStack() as stack:
        stack.enter_context(session.active())
        assert current_session() is session
    assert current_session() is None


@pytest.mark.anyio
async def test_tasks_started_inside_inherit_and_others_do_not(session: AgentSession) -> None:
    gate = asyncio.Event()

    async def look() -> object:
        await gate.wait()
        return current_session()

    outside = asyncio.create_task(look())
    async with session.active():
        inside = asyncio.create_task(look())
        gate.set()
        assert await inside is session
        assert await asyncio.to_thread(current_session) is session
        assert await outside is None
    assert current_session() is None


@pytest.mark.anyio
async def test_an_async_generator_does_not_leak_its_session_to_its_consumer(
    session: AgentSession,
) -> None:
    seen: list[object] = []

    async def chunks() -> AsyncIterator[int]:
        async with session.active():
            for number in range(3):
                seen.append(await asyncio.create_task(asyncio.sleep(0, current_session())))
                seen.append(current_session())
                yield number

    agen = chunks()
    async for _ in agen:
        assert current_session() is None
    left = chunks()
    await anext(left)
    assert current_session() is None
    await left.aclose()  # type: ignore[attr-defined]
    assert seen == [session] * 8


@pytest.mark.anyio
async def test_a_task_started_in_an_async_generator_keeps_the_session_between_its_steps(
    session: AgentSession,
) -> None:
    gate = asyncio.Event()

    async def tool() -> object:
        await gate.wait()
        return current_session()

    async def chunks() -> AsyncIterator[asyncio.Task[object]]:
        async with session.active():
            yield asyncio.create_task(tool())
            yield asyncio.create_task(tool())

    agen = chunks()
    started = await anext(agen)
    gate.set()
    assert await started is session
    await agen.aclose()  # type: ignore[attr-defined]


OWNER_VERBS: dict[str, Callable[[Owner], object]] = {
    "changes": lambda o: o.changes("org"),
    "accept": lambda o: o.accept("org", "1" * 32, "2" * 64),
    "reject": lambda o: o.reject("org", "1" * 32),
    "endorse": lambda o: o.endorse("org", "p", "2" * 64, "why"),
    "get": lambda o: o.get("org", "p"),
    "history": lambda o: o.history("org", "p"),
    "write": lambda o: o.write("org", "p", "c", "d"),
    "restore": lambda o: o.restore("org", "p", "2" * 64),
    "retire": lambda o: o.retire("org", "p"),
    "clear_runs": lambda o: o.clear_runs("org"),
}


def test_every_owner_verb_is_listed_here() -> None:
    assert {name for name in vars(Owner) if not name.startswith("_")} == set(OWNER_VERBS)


@pytest.mark.parametrize("verb", OWNER_VERBS)
def test_owner_verbs_are_refused_while_an_agent_is_at_work(
    verb: str, backend: Backend, session: AgentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = OWNER_VERBS[verb]
    with Worker() as worker, session.active():
        owner = Owner(backend, "olga")
        assert _refused(call, owner) == "refused"
        assert worker.do(lambda: _refused(call, owner)) == "refused"
    monkeypatch.setenv("SAMS_SESSION", "s1")
    assert _refused(call, owner) == "refused"


def _refused(call: Callable[[Owner], object], owner: Owner) -> str:
    try:
        call(owner)
    except PermissionDenied as error:
        assert error.rule == "owner-beside-agent"
        return "refused"
    return "allowed"


def test_a_dreamer_is_not_an_owner(backend: Backend) -> None:
    assert not hasattr(DreamerSession(backend, job_id="j", scope="org"), "accept")


def test_a_session_bound_to_one_family_is_refused_inside_another_familys_run(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    other = open_clean(backend, "s2")
    with other.active(), pytest.raises(PermissionDenied) as caught:
        session.memory_write("run", "p", "c", "d")
    assert caught.value.rule == "foreign-run"
    assert [s.kind for s in session.sources] == [s.kind for s in other.sources] == ["binding"]


def test_a_child_may_work_inside_its_parents_run(session: AgentSession) -> None:
    with session.active():
        child = session.child("helper")
        child.memory_write("run", "p", "c", "d")
    assert not session.tainted


def test_a_tainting_call_without_a_session_is_refused_before_it_runs() -> None:
    ran: list[int] = []
    wrapped = tainting(lambda: ran.append(1))
    with pytest.raises(NoSession):
        wrapped()
    assert ran == []


def test_of_two_blocks_in_one_generator_both_run_there(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    other = open_clean(backend, "other")

    outer, inner = session.active(), other.active()

    def nested() -> Iterator[tuple[bool, bool, object]]:
        with outer, inner:
            yield from within()

    def within() -> Iterator[tuple[bool, bool, object]]:
        yield outer.effective(), inner.effective(), current_session()

    driven = nested()
    assert next(driven) == (True, True, other)
    assert (outer.effective(), inner.effective(), current_session()) == (False, False, None)
    driven.close()


def test_a_block_of_an_enclosing_generator_runs_inside_the_inner_one(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    outer, inner = session.active(), open_clean(backend, "other").active()

    def enclosing() -> Iterator[tuple[bool, bool]]:
        with outer:
            yield from list(enclosed())

    def enclosed() -> Iterator[tuple[bool, bool]]:
        with inner:
            yield outer.effective(), inner.effective()

    assert list(enclosing()) == [(True, True)]


def test_what_outlives_an_inner_block_isnt_the_outer_sessions_work(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    other = open_clean(backend, "other")

    async def late(inside: asyncio.Event, seen: list[object]) -> None:
        seen.append(current_session())
        await inside.wait()
        seen.append(current_session())

    async def main(inner: AgentSession) -> list[object]:
        over, seen = asyncio.Event(), list[object]()
        with session.active():
            with inner.active():
                task = asyncio.create_task(late(over, seen))
                await asyncio.sleep(0)
            assert current_session() is session
            over.set()
            await task
        return seen

    assert asyncio.run(main(other)) == [other, None]
    child = session.child("helper")  # of one family: the same marks, and more scope than a child's
    assert asyncio.run(main(child)) == [child, session]
