"""The handlers: who is told, what happens where they are taken away, and what they leave behind."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler

from sams_core import AgentSession, NoSession, Owner, PermissionDenied
from sams_llamaindex import govern, memory_tools, observe, spans

WRITE = {
    **{"scope": "assigned", "path": "p", "content": "c", "description": "d"},
    "expected_version": None,
}
Model = Callable[..., Any]


def fetch(url: str) -> str:
    """Fetch a page."""
    return "EVIL"


def told(session: AgentSession) -> str:
    return " | ".join(source.name for source in session.sources)


@contextmanager
def as_before() -> Iterator[Any]:
    """Put the root dispatcher's lists back, whatever a test does to them."""
    root = get_dispatcher()
    kept = list(root.span_handlers), list(root.event_handlers)
    try:
        yield root
    finally:
        root.span_handlers, root.event_handlers = (list(each) for each in kept)


def wiped(root: Any) -> None:
    root.span_handlers[:] = []


def replaced(root: Any) -> None:
    root.span_handlers = []


def deaf(root: Any) -> None:
    root.event_handlers = []


@contextmanager
def silenced(name: str) -> Iterator[None]:
    dispatcher = get_dispatcher(name)
    dispatcher.propagate = False
    try:
        yield
    finally:
        dispatcher.propagate = True


@pytest.mark.anyio
@pytest.mark.parametrize("do", [wiped, replaced, deaf])
async def test_a_write_without_the_handlers_is_marked(
    do: Callable[[Any], None], session: AgentSession, scripted: Model, backend: Any
) -> None:
    llm = scripted([("w", "memory_write", WRITE)], "done")
    with as_before() as root, govern()(session):
        do(root)
        await FunctionAgent(tools=memory_tools(), llm=llm).run(user_msg="go")
    assert "instrumentation off" in told(session)
    (change,) = Owner(backend, "o").changes("project:p")
    assert change.tainted


@pytest.mark.parametrize("name", ["llama_index.core.tools.types", "a.module.of.the.app"])
@pytest.mark.parametrize("way", ["call", "fn"])
def test_a_dispatcher_that_keeps_its_spans_to_itself_marks(
    name: str, way: str, session: AgentSession
) -> None:
    tool: Any = memory_tools()[-1]
    with silenced(name), govern()(session):
        getattr(tool, way)(**WRITE)
    assert "instrumentation off" in told(session)


def test_handlers_that_were_away_for_a_while_are_noticed_per_call(session: AgentSession) -> None:
    tool = memory_tools()[0]
    with as_before() as root, govern()(session):
        tool.call(scope="org", cursor=None)
        assert not session.tainted
        kept = list(root.span_handlers)
        root.span_handlers[:] = []
        tool.call(scope="org", cursor=None)
        root.span_handlers[:] = kept
    assert "instrumentation off" in told(session)


def test_a_block_that_ends_without_its_handlers_marks(session: AgentSession) -> None:
    with as_before() as root, govern()(session):
        root.span_handlers[:] = []
        FunctionTool.from_defaults(fetch).call(url="u")
    assert "instrumentation off" in told(session)


def test_what_the_adapter_doesnt_understand_marks(
    session: AgentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> bool:
        raise KeyError("no such thing")

    monkeypatch.setattr(observe, "harmless", broken)
    with govern()(session):
        FunctionTool.from_defaults(fetch).call(url="u")
    assert "doesn't understand: KeyError" in told(session)


def test_the_users_handlers_stay_and_ours_go(session: AgentSession) -> None:
    class Own(BaseEventHandler):
        def handle(self, event: Any, **kwargs: Any) -> None: ...

    root = get_dispatcher()
    before = list(root.span_handlers), list(root.event_handlers)
    own = Own()
    with govern()(session), govern()(session):
        root.add_event_handler(own)
        assert spans.attached()
        assert sum(each is spans._spans for each in root.span_handlers) == 1
    assert not spans.attached()
    assert root.event_handlers == [*before[1], own]
    assert root.span_handlers == before[0]
    root.event_handlers.remove(own)


def test_whose_block_it_is(session: AgentSession, open_session: Callable[..., Any]) -> None:
    asked: list[AgentSession] = []
    with pytest.raises(NoSession):
        govern()()
    with govern(lambda: asked.append(session) or session)() as found:
        assert found is session
    assert asked == [session]
    other = open_session("s2")
    with govern()(other), pytest.raises(PermissionDenied) as refused:
        govern(session)()
    assert refused.value.rule == "foreign-run"
    assert session.tainted
    assert other.tainted


@pytest.mark.anyio
async def test_a_mark_costs_one_commit_and_later_calls_none(
    session: AgentSession, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[int] = []
    real = type(backend).add_sources

    def counted(self: Any, container: str, name: str, sources: Any) -> Any:
        recorded.append(len(sources))
        return real(self, container, name, sources)

    monkeypatch.setattr(type(backend), "add_sources", counted)
    tool = FunctionTool.from_defaults(fetch)
    with govern()(session):
        for _ in range(3):
            await tool.acall(url="u")
            tool.call(url="u")
    assert recorded == [1]


def test_a_copy_of_a_trusted_tool_is_trusted_by_its_function_alone(session: AgentSession) -> None:
    tool = FunctionTool.from_defaults(fetch)
    copied = copy.deepcopy(tool)
    with govern(trusted=[fetch])(session):
        copied.call(url="u")
    assert not session.tainted
    with govern(trusted=[tool])(session):
        tool.call(url="u")
        assert not session.tainted
        copied.call(url="u")
    assert session.tainted
