"""Runs inside runs, beside runs and after runs: what each of them reads marks whom it concerns."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from agents import (
    Agent,
    AgentHooks,
    RunHooks,
    Runner,
    SessionSettings,
    SQLiteSession,
    function_tool,
)
from agents.testing import function_call
from agents.tool_context import ToolContext

from sams_core import NoSession
from sams_openai_agents import govern, memory_tools
from sams_openai_agents.hooks import attach

pytestmark = pytest.mark.anyio
ASK = function_call("ask", {}, call_id="o1")
ASKS_HELPER = function_call("ask", {"input": "q"}, call_id="o1")


def writer(lab: Any, *answers: Any, tools: Any = (), **more: Any) -> Agent[Any]:
    return Agent(name="A", tools=[*memory_tools(), *tools], model=lab.script(*answers), **more)


def reader(lab: Any) -> Agent[Any]:
    return Agent(name="R", tools=[lab.fetch()], model=lab.script([lab.calls_fetch()]))


@pytest.mark.parametrize("inside", ["governed.run", "Runner.run", "the caller's configuration"])
@pytest.mark.parametrize("outside", ["reference", "resolver"])
async def test_what_another_sessions_run_reads_inside_a_tool_marks_its_caller_too(
    lab: Any, inside: str, outside: str
) -> None:
    one, two, quiet, asked = lab.session("s1"), lab.session("s2"), lab.quiet(), reader(lab)

    @function_tool
    async def ask(ctx: ToolContext[Any]) -> str:
        """Ask."""
        other = govern(two)
        if inside == "governed.run":
            result = await other.run(asked, "q", run_config=quiet)
        elif inside == "Runner.run":
            result = await Runner.run(asked, "q", **other.run_kwargs(run_config=quiet))
        else:
            result = await Runner.run(asked, "q", run_config=ctx.run_config, context="two")
        return str(result.final_output)

    who = {"one": one, "two": two}
    governed = govern(one if outside == "reference" else who.__getitem__, trusted=[ask])
    agent = writer(lab, [ASK], [lab.write()], tools=[ask])
    await Runner.run(agent, "hi", **governed.run_kwargs(run_config=quiet, context="one"))
    assert [c.tainted for c in lab.changes()] == [True]


async def test_a_configuration_that_helpers_of_several_sessions_share_keeps_them_apart(
    lab: Any,
) -> None:
    sessions = {"s1": lab.session("s1"), "s2": lab.session("s2")}
    who, waits, asked = sessions.__getitem__, asyncio.Event(), reader(lab)

    @function_tool
    async def dig(ctx: ToolContext[Any]) -> str:
        """Read something; for the first session, while the second one's run is under way."""
        if ctx.context == "s2":
            waits.set()
            return "nothing"
        await waits.wait()
        return str((await Runner.run(asked, "q", run_config=lab.quiet())).final_output)

    config = govern(who, trusted=[dig]).run_kwargs(run_config=lab.quiet())["run_config"]
    digs = function_call("dig", {}, call_id="d1")
    helpers = [
        Agent(
            name=f"H{n}", tools=[dig, asked.as_tool("other", "Never called.")],
            model=lab.script([digs]),
        ).as_tool("ask", "Ask.", run_config=config)
        for n in range(2)
    ]  # fmt: skip
    governed = govern(who, trusted=[dig, *helpers])

    async def play(name: str, helper: Any) -> None:
        agent = writer(lab, [ASKS_HELPER], [lab.write("w1", f"p/{name}")], tools=[helper])
        kwargs = governed.run_kwargs(run_config=lab.quiet(), context=name)
        await Runner.run(agent, "hi", **kwargs)

    await asyncio.gather(*map(play, sessions, helpers))
    assert [name for name, session in sessions.items() if session.tainted] == ["s1"]


@pytest.mark.parametrize("before", ["nobody", "another"])
@pytest.mark.parametrize("goes_on_with", ["conversation", "history"])
async def test_a_session_that_joins_a_run_late_takes_over_what_the_run_goes_on_with(
    lab: Any, before: str, goes_on_with: str
) -> None:
    session = lab.session()
    state = {} if before == "nobody" else {"session": lab.session("s0")}

    def who(context: Any) -> Any:
        if "session" not in context:
            raise NoSession("nobody has logged in")
        return context["session"]

    @function_tool
    async def login(ctx: ToolContext[Any]) -> str:
        """Log in."""
        ctx.context["session"] = session
        return "ok"

    given: dict[str, Any] = {"conversation_id": "conv_old"}
    if goes_on_with == "history":
        kept = SQLiteSession("h", lab.folder / "h.db")
        await Runner.run(reader(lab), "read", session=kept, run_config=lab.quiet())
        kept.session_settings = SessionSettings(limit=1)  # what was read isn't sent again
        given = {"session": kept}
    governed = govern(who, trusted=[login])
    agent = writer(lab, [function_call("login", {}, call_id="l1")], [lab.write()], tools=[login])
    kwargs = governed.run_kwargs(run_config=lab.quiet(), context=state, **given)
    await Runner.run(agent, "hi", **kwargs)
    assert [c.tainted for c in lab.changes()] == [True]


async def in_a_thread(run: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(run()))


async def in_a_bare_task(run: Callable[[], Any]) -> Any:
    # As create_task(context=) does, which Python 3.10 has not.
    return await contextvars.Context().run(asyncio.ensure_future, run())


@pytest.mark.parametrize("how", [in_a_thread, in_a_bare_task])
async def test_a_run_under_its_callers_configuration_marks_where_its_context_was_lost(
    each_mode: Any, how: Any
) -> None:
    lab = each_mode()
    asked = reader(lab)

    @function_tool
    async def ask(ctx: ToolContext[Any]) -> str:
        """Ask."""
        return str(await how(lambda: Runner.run(asked, "q", run_config=ctx.run_config)))

    await lab.play(writer(lab, [ASK], [lab.write()], tools=[ask]), trusted=(ask,))
    assert [c.tainted for c in lab.changes()] == [True]


@pytest.mark.parametrize("block", [True, False])
async def test_a_run_that_outlives_the_one_that_began_it_still_marks(lab: Any, block: bool) -> None:
    session, asked, goes_on = lab.session(), reader(lab), asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []

    @function_tool
    async def start(ctx: ToolContext[Any]) -> str:
        """Begin to look for something."""

        async def run() -> Any:
            await goes_on.wait()
            return await Runner.run(asked, "q", run_config=ctx.run_config)

        tasks.append(asyncio.create_task(run()))
        return "begun"

    @function_tool
    async def get() -> str:
        """Return what was found."""
        return str((await tasks[0]).final_output)

    governed = govern(None if block else session, trusted=[start, get])
    agent = writer(lab, [function_call("start", {}, call_id="o1")], tools=[start, get])

    async def play() -> None:
        if block:
            with governed(session):
                await governed.run(agent, "hi", run_config=lab.quiet())
        else:
            await Runner.run(agent, "hi", **governed.run_kwargs(run_config=lab.quiet()))

    await play()
    goes_on.set()
    await tasks[0]
    agent.model = lab.script([function_call("get", {}, call_id="o2")], [lab.write()])
    await play()
    assert [c.tainted for c in lab.changes()] == [True]


async def test_a_run_begun_in_an_earlier_turn_is_inside_its_callers(lab: Any) -> None:
    session, asked, goes_on = lab.session(), reader(lab), asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []

    @function_tool
    async def start() -> str:
        """Begin to look for something, in a run of its own."""

        async def run() -> Any:
            await goes_on.wait()
            return await Runner.run(asked, "q", run_config=lab.quiet())

        tasks.append(asyncio.create_task(run()))
        return "begun"

    @function_tool
    async def get() -> str:
        """Return what was found."""
        goes_on.set()
        return str((await tasks[0]).final_output)

    turns = [[function_call(name, {}, call_id=name)] for name in ("start", "get")]
    known = asked.as_tool("other", "Never called.")  # so that its hooks are ours
    agent = writer(lab, *turns, [lab.write()], tools=[start, get, known])
    governed = govern(session, trusted=[start, get])
    await Runner.run(agent, "hi", **governed.run_kwargs(run_config=lab.quiet()))
    assert [c.tainted for c in lab.changes()] == [True]


@pytest.mark.parametrize("then", ["another session's", "nobody's"])
async def test_the_run_after_one_that_failed_is_not_inside_it(lab: Any, then: str) -> None:
    one, two, quiet = lab.session("s1"), lab.session("s2"), lab.quiet()

    @function_tool
    async def calc(a: int) -> str:
        """Add one."""
        return str(a + 1)

    turn = [function_call("calc", {"a": 1}, call_id="k1")]
    failed: Exception | None = None
    try:
        first = govern(one, trusted=[calc]).run_kwargs(run_config=quiet)
        await Runner.run(writer(lab, turn, RuntimeError("down"), tools=[calc]), "hi", **first)
    except RuntimeError as error:
        failed = error  # kept, and with it all that was on the stack
    assert failed is not None
    agent = reader(lab)
    if then == "nobody's":  # nothing tells that the run before has ended, but what it left is gone
        attach(agent)
        del failed, first
        gc.collect()
        await Runner.run(agent, "hi", run_config=quiet)
    else:
        await Runner.run(agent, "hi", **govern(two).run_kwargs(run_config=quiet))
        assert two.tainted
    assert not one.sources


IMAGE = {"type": "input_image", "image_url": "https://x.example/a.png"}


class Late(RunHooks[Any]):
    async def on_llm_start(self, context: Any, agent: Any, system: Any, items: Any) -> None:
        for _ in range(20):  # after every other hook of this event
            await asyncio.sleep(0)
        items.append({"role": "user", "content": [IMAGE]})


async def test_an_image_that_the_hooks_of_a_helpers_run_put_into_a_request_marks(
    each_mode: Any,
) -> None:
    lab = each_mode()
    inner = Agent(name="H", tools=memory_tools(), model=lab.script([lab.write()]))
    helper = inner.as_tool("ask", "Ask.", hooks=Late())
    await lab.play(writer(lab, [ASKS_HELPER], tools=[helper]), trusted=(helper,))
    assert [c.tainted for c in lab.changes()] == [True]


class Mine(AgentHooks[Any]):
    said = "hello"


async def test_hooks_that_a_governed_run_left_on_an_agent_can_be_pickled(lab: Any) -> None:
    agent = writer(lab, hooks=Mine())
    await lab.play(agent)
    again = pickle.loads(pickle.dumps(agent.hooks))
    assert type(again) is type(agent.hooks) and isinstance(again, Mine)
    assert again.said == "hello"
