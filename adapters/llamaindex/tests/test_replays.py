"""LlamaIndex runs a step that waits again from its beginning: that stores once, a second write twice."""

# No `from __future__ import annotations`: LlamaIndex gives a context to a parameter by its annotation.

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from llama_index_instrumentation import get_dispatcher
from pydantic import BaseModel

from sams_core import AgentSession, Owner
from sams_llamaindex import govern, memory_tools

pytestmark = pytest.mark.anyio
WRITE = {
    **{"scope": "assigned", "path": "p", "content": "c", "description": "d"},
    "expected_version": None,
}
(TOOL,) = [tool for tool in memory_tools() if tool.metadata.name == "memory_write"]


async def keep_and_ask(ctx: Context, text: str) -> str:
    """Remember a text, then ask a person."""
    await TOOL.acall(**WRITE | {"content": text})
    asked = InputRequiredEvent.model_validate({"prefix": "ok?"})
    await ctx.wait_for_event(HumanResponseEvent, waiter_event=asked, waiter_id="w")
    return "asked"


class Item(Event):
    """Something to keep."""

    text: str


class Typed(BaseModel):
    """A state that takes no key but its own."""

    count: int = 0


class Keeps(Workflow):
    """Writes in a step of its own, then waits."""

    @step
    async def start(self, ctx: Context, ev: StartEvent) -> Item:
        return Item(text="c")

    @step
    async def keep(self, ctx: Context, ev: Item) -> StopEvent:
        answer = await TOOL.acall(**WRITE)
        again = await TOOL.acall(**WRITE)
        asked = InputRequiredEvent.model_validate({"prefix": "ok?"})
        await ctx.wait_for_event(HumanResponseEvent, waiter_event=asked, waiter_id="w")
        return StopEvent(result=[answer.content, again.content])


class KeepsTyped(Workflow):
    """The same with a typed state."""

    @step
    async def keep(self, ctx: Context[Typed], ev: StartEvent) -> StopEvent:
        await TOOL.acall(**WRITE)
        asked = InputRequiredEvent.model_validate({"prefix": "ok?"})
        await ctx.wait_for_event(HumanResponseEvent, waiter_event=asked, waiter_id="w")
        return StopEvent(result="kept")


def agent() -> FunctionAgent:
    """An agent whose model gives every call the same id, as some providers do."""

    def respond(messages: Any, **_: Any) -> ChatMessage:
        if messages[-1].role == "tool":
            return ChatMessage(role="assistant", content="done")
        call = ToolCallBlock(
            tool_call_id="same", tool_name="keep_and_ask", tool_kwargs={"text": "c"}
        )
        return ChatMessage(role="assistant", blocks=[call])

    llm = MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)
    return FunctionAgent(
        tools=[FunctionTool.from_defaults(async_fn=keep_and_ask)], llm=llm, streaming=False
    )


def writes(backend: Any) -> int:
    """Tell one write from more: the newest open change then supersedes another."""
    (change,) = Owner(backend, "o").changes("project:p")
    return 2 if change.supersedes else 1


MADE: dict[str, tuple[Callable[[], Any], dict[str, Any], int]] = {
    "an agent's tool": (agent, {"user_msg": "go"}, 1),
    "a workflow's step, twice in it": (Keeps, {}, 2),
    "a workflow with a typed state": (KeepsTyped, {}, 1),
}


async def answered(handler: Any) -> None:
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent.model_validate({"response": "yes"}))
    await handler


async def paused(workflow: Any, given: dict[str, Any]) -> dict[str, Any]:
    handler = workflow.run(**given)
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            break
    state = json.loads(json.dumps(handler.ctx.to_dict()))
    await handler.cancel_run()
    return dict(state)


async def resumed(workflow: Any, state: dict[str, Any]) -> None:
    """Go on until the write was made again; this pydantic loses an agent's memory after that."""
    context = Context.from_dict(workflow, state)
    handler = workflow.run(ctx=context)
    context.send_event(HumanResponseEvent.model_validate({"response": "yes"}))
    try:
        await asyncio.wait_for(handler, 30)
    except ValueError as error:
        assert "memory" in str(error)


def trusted() -> Any:
    return govern(trusted=[keep_and_ask])


@pytest.mark.parametrize("kind", MADE)
async def test_a_replay_stores_once(kind: str, session: AgentSession, backend: Any) -> None:
    make, given, once = MADE[kind]
    with trusted()(session):
        await answered(make().run(**given))
    assert writes(backend) == once
    assert not session.tainted


@pytest.mark.parametrize("kind", ["an agent's tool", "a workflow's step, twice in it"])
async def test_a_resume_stores_once(kind: str, session: AgentSession, backend: Any) -> None:
    make, given, once = MADE[kind]
    with trusted()(session):
        state = await paused(make(), given)
    before = {c.id for c in Owner(backend, "o").changes("project:p")}
    for _ in range(2):
        with trusted()(session):
            await resumed(make(), state)
    assert {c.id for c in Owner(backend, "o").changes("project:p")} == before
    assert writes(backend) == once
    assert not session.tainted


@pytest.mark.parametrize("kind", ["an agent's tool", "a workflow with a typed state"])
async def test_a_second_run_is_a_second_write(
    kind: str, session: AgentSession, backend: Any
) -> None:
    make, given, _ = MADE[kind]
    for _run in range(2):
        with trusted()(session):
            await answered(make().run(**given))
    assert writes(backend) == 2


class Preset(BaseModel):
    """A state that the app fills before each run."""

    note: str = ""


class KeepsPreset(Workflow):
    """Writes in a step, with a state that the app has filled."""

    @step
    async def keep(self, ctx: Context, ev: StartEvent) -> StopEvent:
        return StopEvent(result=(await TOOL.acall(**WRITE)).content)


class KeepsTypedPreset(Workflow):
    """The same with a state of the app's own class."""

    @step
    async def keep(self, ctx: Context[Preset], ev: StartEvent) -> StopEvent:
        return StopEvent(result=(await TOOL.acall(**WRITE)).content)


class KeepsInABlock(Workflow):
    """Opens the block in the step itself."""

    @step
    async def keep(self, ctx: Context, ev: StartEvent) -> StopEvent:
        with trusted()(ev.get("session")):
            return StopEvent(result=(await TOOL.acall(**WRITE)).content)


@pytest.mark.parametrize("kind", [KeepsPreset, KeepsTypedPreset, KeepsInABlock])
async def test_a_second_run_in_a_new_context_is_a_second_write(
    kind: Any, session: AgentSession, open_session: Any, backend: Any
) -> None:
    answers = []
    inside = kind is KeepsInABlock
    for _ in range(2):
        workflow = kind()
        context: Any = Context(workflow)
        if not inside:
            await context.store.set("note", "from elsewhere")
        given = {"session": session} if inside else {}
        # Where the step opens the block itself, another one is open beside it.
        with contextlib.ExitStack() as outer:
            if inside:
                outside = await asyncio.to_thread(trusted(), open_session("s2"))
                await asyncio.to_thread(outer.enter_context, outside)
            else:
                outer.enter_context(trusted()(session))
            answers.append(json.loads(await workflow.run(ctx=context, **given)))
        (change,) = Owner(backend, "o").changes("project:p")
        Owner(backend, "o").reject("project:p", change.id, "no")
    assert [answer["state"] for answer in answers] == ["open", "open"]


async def test_a_function_with_a_span_of_its_own_is_no_step(
    session: AgentSession, backend: Any
) -> None:
    @get_dispatcher("an.app").span
    async def helper(ev: StartEvent) -> None:
        await TOOL.acall(**WRITE)

    class Helped(Workflow):
        @step
        async def keep(self, ev: StartEvent) -> StopEvent:
            await helper(ev)
            await helper(ev)
            return StopEvent(result="kept")

    with trusted()(session):
        await helper(StartEvent())
        await Helped().run()
    assert writes(backend) == 2
    assert not session.tainted


@pytest.mark.parametrize("state", ["another's", "nobody's"])
async def test_going_on_from_a_context_of_somebody_else_marks_before_the_write(
    state: str, session: AgentSession, open_session: Any, backend: Any
) -> None:
    other = open_session("s2")
    if state == "another's":
        with trusted()(other):
            saved = await paused(Keeps(), {})
    else:
        saved = await paused(Keeps(), {})
    with trusted()(session):
        await resumed(Keeps(), saved)
    assert not other.tainted
    (change,) = [c for c in Owner(backend, "o").changes("project:p") if c.source_session == "s1"]
    assert change.tainted
    assert "history" in {source.kind for source in session.sources}
