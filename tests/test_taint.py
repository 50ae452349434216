"""`tainting` keeps what a callable is, and marks before anything of it runs."""

from __future__ import annotations

import asyncio
import functools
import inspect
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from sams_core import AgentSession, Backend, PermissionDenied, SessionClosed
from sams_core.errors import StoreFailed
from sams_core.records import Source

Open = Callable[..., AgentSession]


def fetch(url: str, *, retries: int = 3) -> str:
    """Fetch a page."""
    return f"{url} {retries}"


async def afetch(url: str) -> str:
    """Fetch a page."""
    await asyncio.sleep(0)
    return url


def lines(url: str) -> Iterator[str]:
    """Stream a page."""
    got = yield f"{url} 1"
    yield f"{got} 2"


async def alines(url: str) -> AsyncIterator[str]:
    """Stream a page."""
    yield f"{url} 1"
    yield f"{url} 2"


class Client:
    """A client with more than one way in."""

    def get(self, url: str) -> str:
        """Fetch a page."""
        return url

    async def aget(self, url: str) -> str:
        """Fetch a page."""
        return url


class Callable1:
    """Fetches."""

    def __call__(self, url: str) -> str:
        return url


class ACallable:
    """Fetches."""

    async def __call__(self, url: str) -> str:
        return url


NATURES: dict[str, tuple[Any, str, str]] = {
    "function": (fetch, "fetch", "sync"),
    "async function": (afetch, "afetch", "async"),
    "generator function": (lines, "lines", "gen"),
    "async generator function": (alines, "alines", "agen"),
    "method": (Client().get, "get", "sync"),
    "async method": (Client().aget, "aget", "async"),
    "partial": (functools.partial(fetch, retries=1), "fetch", "sync"),
    "partial of an async function": (functools.partial(afetch), "afetch", "async"),
    "partial of a generator function": (functools.partial(lines), "lines", "gen"),
    "partial of an async callable": (functools.partial(ACallable()), "ACallable", "async"),
    "callable object": (Callable1(), "Callable1", "sync"),
    "async callable object": (ACallable(), "ACallable", "async"),
    "cached function": (functools.lru_cache(fetch), "fetch", "sync"),
    "lambda": (lambda url: url, "<lambda>", "sync"),
}


def nature(obj: Any) -> str:
    if inspect.isasyncgenfunction(obj):
        return "agen"
    if inspect.iscoroutinefunction(obj):
        return "async"
    return "gen" if inspect.isgeneratorfunction(obj) else "sync"


def run(obj: Any, kind: str, *args: Any) -> Any:
    async def drain(stream: AsyncIterator[Any]) -> list[Any]:
        return [item async for item in stream]

    if kind == "agen":
        return asyncio.run(drain(obj(*args)))
    if kind == "async":
        return asyncio.run(obj(*args))
    return list(obj(*args)) if kind == "gen" else obj(*args)


@pytest.mark.parametrize("name", NATURES)
def test_a_wrapped_callable_keeps_name_doc_signature_and_nature(
    name: str, session: AgentSession
) -> None:
    obj, called, kind = NATURES[name]
    wrapped = session.tainting(obj)
    assert nature(wrapped) == kind
    assert wrapped.__name__ == called
    plain = obj.func if isinstance(obj, functools.partial) else obj
    assert wrapped.__doc__ == plain.__doc__
    assert inspect.signature(wrapped) == inspect.signature(obj)
    assert not session.tainted
    assert run(wrapped, kind, "u") == run(obj, kind, "u")
    assert [(s.kind, s.name) for s in session.sources] == [("tool", called)]


def test_annotations_of_a_wrapped_function_still_resolve(session: AgentSession) -> None:
    assert typing.get_type_hints(session.tainting(fetch)) == typing.get_type_hints(fetch)


def test_the_mark_is_there_when_the_function_begins(session: AgentSession) -> None:
    assert session.tainting(lambda: session.tainted)() is True


def test_an_exception_marks(session: AgentSession) -> None:
    @session.tainting
    def broken() -> None:
        raise ValueError("text by an outsider")

    with pytest.raises(ValueError, match="outsider"):
        broken()
    assert session.tainted


def test_a_half_consumed_generator_marks_and_send_throw_and_close_pass_through(
    session: AgentSession,
) -> None:
    seen: list[object] = []

    @session.tainting
    def talk() -> Iterator[object]:
        try:
            while True:
                try:
                    seen.append((yield len(seen)))
                except KeyError:
                    yield "caught"
        finally:
            seen.append("closed")

    talking = talk()
    assert next(talking) == 0
    assert session.tainted
    assert talking.send("hello") == 1  # type: ignore[attr-defined]
    assert talking.throw(KeyError()) == "caught"  # type: ignore[attr-defined]
    talking.close()  # type: ignore[attr-defined]
    assert seen == ["hello", "closed"]


@pytest.mark.anyio
async def test_an_async_generators_send_throw_and_close_pass_through(session: AgentSession) -> None:
    seen: list[object] = []

    @session.tainting
    async def talk() -> AsyncIterator[object]:
        try:
            while True:
                try:
                    seen.append((yield len(seen)))
                except KeyError:
                    yield "caught"
        finally:
            seen.append("closed")

    talking: Any = talk()
    assert await anext(talking) == 0
    assert session.tainted
    assert await talking.asend("hello") == 1
    assert await talking.athrow(KeyError()) == "caught"
    await talking.aclose()
    assert seen == ["hello", "closed"]


@pytest.mark.anyio
async def test_a_cancelled_call_has_marked(session: AgentSession) -> None:
    begun = asyncio.Event()

    @session.tainting
    async def slow() -> None:
        begun.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(slow())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert session.tainted


def test_the_reason_names_the_source(session: AgentSession) -> None:
    session.tainting(fetch, "the wiki")("u")
    assert session.sources[0].name == "the wiki"


@pytest.mark.parametrize("obj", [Client(), Client, 7, "x", object(), [fetch], None])
def test_what_nothing_can_wrap_is_a_type_error_that_says_what_to_do(
    obj: object, session: AgentSession
) -> None:
    with pytest.raises(TypeError, match=r"mark_tainted"):
        session.tainting(obj)


def test_a_wrapped_tool_inside_another_familys_run_marks_both_and_does_not_run(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    other, ran = open_clean(backend, "s2"), list[int]()
    tool = session.tainting(lambda: ran.append(1))
    with other.active(), pytest.raises(PermissionDenied):
        tool()
    assert session.tainted
    assert other.tainted
    assert ran == []


def test_a_source_is_recorded_once(
    backend: Backend, session: AgentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[Any] = []
    add = backend.add_sources
    monkeypatch.setattr(backend, "add_sources", lambda *a: (writes.append(a), add(*a))[1])
    tool = session.tainting(fetch)
    for _ in range(50):
        tool("u")
    assert len(writes) == 1
    assert len(session.sources) == 1


def test_a_mark_that_cannot_be_recorded_closes_the_whole_family_until_it_can(
    backend: Backend, session: AgentSession, open_clean: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, twin = session.child("helper"), open_clean(backend)

    def full(*_: object) -> None:
        raise StoreFailed("disk full")

    monkeypatch.setattr(backend, "add_sources", full)
    ran: list[int] = []
    with pytest.raises(SessionClosed):
        session.tainting(lambda: ran.append(1))()
    assert ran == []
    for closed in (session, child, twin):
        with pytest.raises(SessionClosed):
            closed.memory_write("assigned", "p", "c", "d")
        assert '"rule": "session-closed"' in closed.call_tool("memory_index", {"scope": "org"})
        with pytest.raises(SessionClosed):
            closed.context_block()
    monkeypatch.undo()
    assert child.memory_write("assigned", "p", "c", "d").status == "queued"
    assert child.tainted


@pytest.mark.parametrize(
    "reason",
    ["x" * 10_000, "a\nb\x1b[2J", "\ud800", "", "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"],
)
def test_a_mark_never_fails_because_of_what_it_says(reason: str, session: AgentSession) -> None:
    session.mark_tainted(reason, origin=reason)
    (source,) = session.sources
    assert len(source.name) <= 200
    assert source.name.isprintable() or "\x1b" in source.name
    assert "ghp_a1B2" not in source.name + str(source.origin)


def test_sources_are_capped_and_the_mark_stays(backend: Backend, session: AgentSession) -> None:
    for number in range(150):
        session.mark_tainted(f"page {number}")
    sources = session.sources
    assert len(sources) == backend.limits.family_sources + 1
    assert sources[-1].kind == "more"


def test_add_sources_keeps_the_first_record(backend: Backend, session: AgentSession) -> None:
    for origin in ("first", "second"):
        backend.add_sources(session.assigned, "s1", [Source("tool", "t", origin, "now")])
    assert [s.origin for s in session.sources] == ["first"]
