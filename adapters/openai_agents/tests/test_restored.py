"""What a run goes on with: histories, paused states and conversations at the provider."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest
from agents import Agent, RunHooks, Runner, RunState, SQLiteSession, function_tool, handoff
from agents.memory import SessionSettings
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from sams_openai_agents import govern, memory_tools, restored
from sams_openai_agents.observe import UNPLANNED

pytestmark = pytest.mark.anyio


@function_tool
async def calc(a: int) -> str:
    """Add one."""
    return str(a + 1)


def new_process() -> None:
    """Forget what only this process knows."""
    restored._calls.clear()
    restored._chains.clear()


@pytest.fixture(autouse=True)
def _each_test_is_a_new_process() -> Iterator[None]:
    new_process()
    yield
    new_process()


def writer(lab: Any, **more: Any) -> Agent[Any]:
    return Agent(name="A", tools=[*memory_tools(), calc], model=lab.script([lab.write()]), **more)


async def ungoverned_history(lab: Any) -> SQLiteSession:
    history = SQLiteSession("chat", lab.folder / "history.db")
    reader = Agent(name="A", tools=[lab.fetch()], model=lab.script([lab.calls_fetch()]))
    await Runner.run(reader, "read", session=history, run_config=lab.quiet())
    return history


def only_new(history: list[Any], new: list[Any]) -> list[Any]:
    return new


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"session_settings": SessionSettings(limit=1)},
        {"session_input_callback": only_new},
    ],
    ids=["whole", "limited", "dropped"],
)
async def test_a_history_counts_whole_however_little_of_it_is_sent(
    each_mode: Any, config: dict[str, Any]
) -> None:
    lab = each_mode()
    history = await ungoverned_history(lab)
    session = await lab.play(writer(lab), session_=history, run_config=lab.quiet(**config))
    assert [c.tainted for c in lab.changes()] == [True]
    assert {source.kind for source in session.sources} >= {"history"}


async def test_a_historys_own_limit_hides_nothing(lab: Any) -> None:
    history = await ungoverned_history(lab)
    history.session_settings = SessionSettings(limit=1)
    await lab.play(writer(lab), session_=history)
    assert [c.tainted for c in lab.changes()] == [True]


async def test_keyword_arguments_that_are_used_again_look_at_the_history_again(lab: Any) -> None:
    history = SQLiteSession("chat", lab.folder / "history.db")
    session, governed = lab.session(), govern()
    config = lab.quiet(session_settings=SessionSettings(limit=1))
    with governed(session):
        kept = governed.run_kwargs(session=history, run_config=config)
        await Runner.run(Agent(name="A", model=lab.script()), "hi", **kept)
        assert not session.sources
        await ungoverned_history(lab)
        await Runner.run(writer(lab), "on", **kept)
    assert [c.tainted for c in lab.changes()] == [True]


async def test_a_call_id_that_a_history_has_twice_hides_no_result(each_mode: Any) -> None:
    lab = each_mode()
    history = SQLiteSession("chat", lab.folder / "history.db")
    for call in (
        lab.calls_fetch("call_0"),  # some providers count calls from 0 again
        function_call("calc", {"a": 1}, call_id="call_0"),
    ):
        reader = Agent(name="A", tools=[lab.fetch(), calc], model=lab.script([call]))
        await Runner.run(reader, "read", session=history, run_config=lab.quiet())
    await lab.play(writer(lab), session_=history, trusted=(calc,))
    assert [c.tainted for c in lab.changes()] == [True]


async def test_a_history_of_several_agents_stays_clean_in_a_new_process(each_mode: Any) -> None:
    lab = each_mode()
    history = SQLiteSession("chat", lab.folder / "history.db")

    def agents() -> Agent[Any]:
        last = writer(lab)
        last.name = "Last"
        turns = (
            [function_call("calc", {"a": 1}, call_id="k1")],
            [function_call("memory_index", {"scope": "org", "cursor": None}, call_id="i1")],
            [function_call("transfer_to_last", {}, call_id="h1")],
        )
        return Agent(
            name="First",
            tools=[*memory_tools(), calc],
            handoffs=[handoff(last)],
            model=lab.script(*turns),
        )

    session = await lab.play(agents(), session_=history, trusted=(calc,))
    new_process()
    again = Agent(
        name="Last", tools=[*memory_tools(), calc], model=lab.script([lab.write("w2", "b")])
    )
    await lab.play(again, "and", session=session, session_=history, trusted=(calc,))
    assert [c.tainted for c in lab.changes()] == [False, False], session.sources


async def test_a_history_whose_last_agent_knows_less_stays_clean_in_a_new_process(
    each_mode: Any,
) -> None:
    lab = each_mode()
    history = SQLiteSession("chat", lab.folder / "history.db")
    last = Agent(name="Last", tools=memory_tools(), model=lab.script([lab.write()]))
    over = handoff(last, tool_name_override="escalate")
    turns = (
        [function_call("calc", {"a": 1}, call_id="k1")],
        [function_call("escalate", {}, call_id="h1")],
    )
    first = Agent(name="First", tools=[calc], handoffs=[over], model=lab.script(*turns))
    session = await lab.play(first, session_=history, trusted=(calc,))
    new_process()
    last.model = lab.script([lab.write("w2", "b")])
    await lab.play(last, "and", session=session, session_=history, trusted=(calc,))
    assert [c.tainted for c in lab.changes()] == [False, False], session.sources


async def test_a_rejected_write_in_a_history_says_nothing_of_outsiders(lab: Any) -> None:
    history = SQLiteSession("chat", lab.folder / "history.db")
    tools = memory_tools()
    for tool in tools:
        tool.needs_approval = True
    agent = Agent(name="A", tools=tools, model=lab.script([lab.write()]))
    session, governed, quiet = lab.session(), govern(), lab.quiet()
    with governed(session):
        result = await governed.run(agent, "hi", session=history, run_config=quiet)
        state = result.to_state()
        state.reject(result.interruptions[0])
        agent.model = lab.script()
        await governed.run(agent, state, session=history, run_config=quiet)
    new_process()
    await lab.play(writer(lab), session=session, session_=history)
    assert [c.tainted for c in lab.changes()] == [False], session.sources


@pytest.mark.parametrize("deep", ["[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900])
async def test_a_result_that_nests_deeply_ends_no_run(lab: Any, deep: str) -> None:
    items: list[Any] = [
        {"type": "function_call", "call_id": "c", "name": "memory_read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": f'{{"x": {deep}}}'},
        {"role": "user", "content": "go"},
    ]
    session = await lab.play(writer(lab), items)
    assert session.tainted


async def test_what_another_session_was_shown_marks_the_one_that_opens_its_history(
    lab: Any,
) -> None:
    history = SQLiteSession("chat", lab.folder / "history.db")
    other = lab.session("other")
    other.mark_tainted("a page")
    other.memory_write("assigned", "notes/page", "EVIL", "A page")
    read = function_call("memory_read", {"scope": "assigned", "path": "notes/page"}, call_id="r1")
    reader = Agent(name="A", tools=memory_tools(), model=lab.script([read]))
    await lab.play(reader, session=other, session_=history)
    session = await lab.play(writer(lab), "go on", session=lab.session("s2"), session_=history)
    assert session.tainted


async def paused(lab: Any, *, governed: bool) -> tuple[Any, dict[str, Any]]:
    """Return an agent and the state of a run that fetched and waits with its write."""

    def agent(*answers: Any) -> Agent[Any]:
        tools = memory_tools()
        for tool in tools:
            tool.needs_approval = tool.name == "memory_write"
        return Agent(name="A", tools=[*tools, lab.fetch(), calc], model=lab.script(*answers))

    first = agent([lab.calls_fetch()], [lab.write()])
    if governed:
        first = agent([function_call("calc", {"a": 1}, call_id="k1")], [lab.write()])
        with (block := govern(trusted=[calc]))(lab.session()):
            result = await block.run(first, "hi", run_config=lab.quiet())
    else:
        result = await Runner.run(first, "hi", run_config=lab.quiet())
    return agent(), json.loads(json.dumps(result.to_state().to_json()))


async def resume(agent: Any, saved: dict[str, Any]) -> RunState[Any]:
    state: RunState[Any] = await RunState.from_json(agent, saved)
    for each in state.get_interruptions():
        state.approve(each)
    return state


async def test_a_paused_state_of_an_ungoverned_run_marks_before_its_tools_run(
    each_mode: Any,
) -> None:
    lab = each_mode()
    agent, saved = await paused(lab, governed=False)
    session = await lab.play(agent, await resume(agent, saved))
    assert [c.tainted for c in lab.changes()] == [True]
    assert "history" in {source.kind for source in session.sources}


async def test_a_clean_paused_state_resumes_clean_in_a_new_process(each_mode: Any) -> None:
    lab = each_mode()
    agent, saved = await paused(lab, governed=True)
    new_process()
    session = await lab.play(agent, await resume(agent, saved), trusted=(calc,))
    assert [c.tainted for c in lab.changes()] == [False], session.sources


async def paused_helper(lab: Any) -> tuple[Any, Any]:
    """Return an agent and its helper, which the run before it paused in."""
    tools = memory_tools()
    for tool in tools:
        tool.needs_approval = tool.name == "memory_write"
    inner = Agent(name="H", tools=[*tools, calc], model=lab.script())
    helper = inner.as_tool("ask", "Ask.")
    return Agent(name="A", tools=[helper], model=lab.script()), inner


@pytest.mark.parametrize("new", [False, True], ids=["same process", "new process"])
@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "undeclared"])
async def test_a_helper_that_paused_resumes_as_it_was(
    each_mode: Any, new: bool, trusted: bool
) -> None:
    lab = each_mode()
    agent, inner = await paused_helper(lab)
    agent.model = lab.script([function_call("ask", {"input": "q"}, call_id="o1")])
    inner.model = lab.script([function_call("calc", {"a": 1}, call_id="k1")], [lab.write()])
    vouched = (agent.tools[0], calc) if trusted else (agent.tools[0],)
    session = lab.session()
    with (governed := govern(trusted=vouched))(session):
        result = await governed.run(agent, "hi", run_config=lab.quiet())
    saved = json.loads(json.dumps(result.to_state().to_json()))
    if new:
        new_process()
    agent, _ = await paused_helper(lab)
    vouched = (agent.tools[0], calc) if trusted else (agent.tools[0],)
    await lab.play(agent, await resume(agent, saved), session=session, trusted=vouched)
    assert [c.tainted for c in lab.changes()] == [not trusted], session.sources


async def test_a_write_that_is_resumed_twice_is_stored_once(lab: Any) -> None:
    agent, saved = await paused(lab, governed=True)
    for _ in range(2):
        new_process()
        agent.model = lab.script()
        await lab.play(agent, await resume(agent, saved), trusted=(calc,))
    assert [bool(c.supersedes) for c in lab.changes()] == [False]


async def test_a_state_that_govern_never_saw_marks_when_its_tool_runs(lab: Any) -> None:
    agent, saved = await paused(lab, governed=False)
    session, governed = lab.session(), govern()
    with governed(session):
        state = await resume(agent, saved)
        await Runner.run(agent, state, **governed.run_kwargs(run_config=lab.quiet()))
    assert [c.tainted for c in lab.changes()] == [True]
    assert UNPLANNED in {source.name for source in session.sources}


async def test_a_tool_that_was_exchanged_while_its_call_waited_marks(lab: Any) -> None:
    @function_tool(needs_approval=True, name_override="calc")
    async def trusted_one(a: int) -> str:
        return "2"

    @function_tool(needs_approval=True, name_override="calc")
    async def impostor(a: int) -> str:
        return "EVIL"

    session, governed = lab.session(), govern(trusted=[trusted_one, calc])
    turn = [function_call("calc", {"a": 1}, call_id="k1")]
    agent = Agent(name="A", tools=[*memory_tools(), trusted_one], model=lab.script(turn))
    with governed(session):
        paused_run = await governed.run(agent, "hi", run_config=lab.quiet())
        assert not session.sources
        state = await resume(agent, json.loads(json.dumps(paused_run.to_state().to_json())))
        agent.tools[-1] = impostor
        agent.model = ScriptedModel([[assistant_message("ok")]])
        seen: list[bool] = []

        class Mine(RunHooks[Any]):
            async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
                seen.append(session.tainted)

        more = governed.run_kwargs(run_config=lab.quiet(), hooks=Mine())
        await Runner.run(agent, state, **more)
    assert seen == [True]


async def test_a_resume_without_our_hooks_marks_at_its_write(lab: Any) -> None:
    agent, saved = await paused(lab, governed=True)
    session, governed = lab.session(), govern(trusted=[calc])
    with governed(session):
        state = await resume(agent, saved)
        config = governed.run_kwargs(run_config=lab.quiet())["run_config"]
        await Runner.run(agent, state, run_config=config)
    assert [c.tainted for c in lab.changes()] == [True]


async def test_a_conversation_at_the_provider_is_known_to_the_family_that_began_it(
    lab: Any,
) -> None:
    session, governed = lab.session(), govern()
    with governed(session):
        begun = await governed.run(
            writer(lab), "hi", auto_previous_response_id=True, run_config=lab.quiet()
        )
        again = Agent(name="A", tools=memory_tools(), model=lab.script([lab.write("w2", "b")]))
        await governed.run(
            again, "on", previous_response_id=begun.last_response_id, run_config=lab.quiet()
        )
    assert [c.tainted for c in lab.changes()] == [False, False]
    stranger = await lab.play(
        writer(lab), session=lab.session("s2"), previous_response_id=begun.last_response_id
    )
    assert stranger.tainted


async def test_a_conversation_whose_answer_was_never_seen_is_unknown_again(lab: Any) -> None:
    session, governed = lab.session(), govern()
    restored.left_at_provider(["conv"], [session.family], None)
    broken = Agent(
        name="A", tools=memory_tools(), model=ScriptedModel([ModelStep.raise_error(OSError("cut"))])
    )
    with governed(session):
        with pytest.raises(OSError, match="cut"):
            await governed.run(broken, "hi", conversation_id="conv", run_config=lab.quiet())
        assert not session.tainted
        await governed.run(writer(lab), "on", conversation_id="conv", run_config=lab.quiet())
    assert [c.tainted for c in lab.changes()] == [True]


async def test_a_conversation_that_another_session_went_on_with_is_unknown_again(lab: Any) -> None:
    session, other = lab.session("s1"), lab.session("s2")
    restored.left_at_provider(["conv"], [session.family], None)
    await lab.play(writer(lab), session=other, conversation_id="conv")
    assert other.tainted
    again = Agent(name="A", tools=memory_tools(), model=lab.script([lab.write("w2", "b")]))
    await lab.play(again, session=session, conversation_id="conv")
    assert session.tainted


async def test_a_conversation_outlives_the_objects_of_a_request(lab: Any) -> None:
    agent = writer(lab)
    governed, quiet = govern(), lab.quiet()
    with governed(lab.session()):
        begun = await governed.run(agent, "hi", auto_previous_response_id=True, run_config=quiet)
    name = begun.last_response_id
    del begun
    gc.collect()
    agent.model = lab.script([lab.write("w2", "b")])
    await lab.play(agent, previous_response_id=name)
    assert [c.tainted for c in lab.changes()] == [False, False]


async def test_the_block_is_sent_once_to_a_conversation_at_the_provider(lab: Any) -> None:
    session, governed = lab.session(), govern()
    model = lab.script([lab.write()])
    agent = Agent(name="A", tools=memory_tools(), model=model)
    with governed(session):
        done = await governed.run(
            agent, "hi", auto_previous_response_id=True, run_config=lab.quiet()
        )
        agent.model = again = ScriptedModel([[assistant_message("ok")]])
        await governed.run(
            agent, "on", previous_response_id=done.last_response_id, run_config=lab.quiet()
        )
    sent = [*model.calls, *again.calls]
    assert [json.dumps(call.input).count("<memory note=") for call in sent] == [1, 0, 0]
