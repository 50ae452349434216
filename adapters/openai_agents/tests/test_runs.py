"""Sessions, blocks, hooks and refusals around real runs."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
from typing import Any

import pytest
from agents import Agent, AgentHooks, RunConfig, RunHooks, Runner, UserError, function_tool, handoff
from agents.run_config import CallModelData, ModelInputData
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionWebSearch

from sams_core import NoSession, Owner, PermissionDenied
from sams_core.ambient import current_session
from sams_openai_agents import GovernedAgents, govern, memory_tools
from sams_openai_agents.tools import UNGOVERNED

pytestmark = pytest.mark.anyio
ASSIGNED = "tenant:acme"


def writer(lab: Any, *answers: Any, tools: Any = (), **more: Any) -> Agent[Any]:
    model = lab.script(*(answers or ([lab.write()],)))
    return Agent(name="A", tools=[*memory_tools(), *tools], model=model, **more)


def outputs(result: Any) -> list[Any]:
    return [json.loads(i.output) for i in result.new_items if i.type == "tool_call_output_item"]


# Where the session comes from.


async def test_a_reference_needs_no_block(each_mode: Any) -> None:
    lab = each_mode()
    session = lab.session()
    result = await lab.go(govern(session), writer(lab))
    assert outputs(result)[0]["status"] == "queued"
    assert not session.sources


async def test_a_reference_marks_without_a_block(each_mode: Any) -> None:
    lab = each_mode()
    session = lab.session()
    inner = Agent(name="H", tools=[lab.fetch()], model=lab.script([lab.calls_fetch()]))
    helper = inner.as_tool("ask", "Ask.")
    ask = function_call("ask", {"input": "q"}, call_id="o1")
    await lab.go(
        govern(session, trusted=[helper]), writer(lab, [ask], [lab.write()], tools=[helper])
    )
    assert [c.tainted for c in lab.changes()] == [True]
    assert "fetch" in session.sources[0].name


IMAGE = {"type": "input_image", "image_url": "https://x.example/a.png"}
PAGE = {"type": "web_search_call", "id": "ws", "status": "completed",
        "action": {"type": "search", "query": "q", "sources": []}}  # fmt: skip


@pytest.mark.parametrize("what", ["tool", "hosted tool", "image"])
@pytest.mark.parametrize("config", ["its caller's", "another governance's"])
async def test_a_reference_marks_for_runs_inside_tools(
    each_mode: Any, what: str, config: str
) -> None:
    lab = each_mode()
    session, other = lab.session(), govern()
    asked: Any = [{"role": "user", "content": [IMAGE]}] if what == "image" else "q"
    web = ResponseFunctionWebSearch.model_validate(PAGE)
    says = {"tool": [[lab.calls_fetch()]], "hosted tool": [[web]], "image": []}[what]
    inner = Agent(name="I", tools=[lab.fetch()], model=lab.script(*says))

    @function_tool
    async def ask(ctx: ToolContext[Any]) -> str:
        """Ask."""
        own = other.run_kwargs(run_config=lab.quiet())["run_config"]
        chosen = ctx.run_config if config == "its caller's" else own
        return str((await Runner.run(inner, asked, run_config=chosen)).final_output)

    agent = writer(lab, [function_call("ask", {}, call_id="o1")], [lab.write()], tools=[ask])
    await lab.go(govern(session, trusted=[ask]), agent)
    assert [c.tainted for c in lab.changes()] == [True]
    before = session.sources
    agent.model, inner.model = lab.script([lab.calls_fetch()]), lab.script([lab.calls_fetch()])
    agent.tools += inner.tools
    await Runner.run(agent, "hi", run_config=lab.quiet())  # after its end nothing is a part of it
    await Runner.run(inner, "hi", run_config=lab.quiet())
    assert session.sources == before


async def test_a_resolver_gets_the_runs_context(each_mode: Any) -> None:
    lab = each_mode()
    sessions = {"u1": lab.session("s1"), "u2": lab.session("s2")}
    asked: list[Any] = []

    def who(context: Any) -> Any:
        asked.append(context)
        return sessions[context["user"]]

    governed = govern(who)
    first = await lab.go(
        governed, writer(lab, [lab.calls_fetch()], [lab.write()], tools=[lab.fetch()]),
        context={"user": "u1"},
    )  # fmt: skip
    second = await lab.go(governed, writer(lab, [lab.write("w2", "b")]), context={"user": "u2"})
    assert [outputs_of(each)[-1]["status"] for each in (first, second)] == ["queued"] * 2
    assert sessions["u1"].tainted
    assert not sessions["u2"].tainted
    assert {each["user"] for each in asked} == {"u1", "u2"}


async def test_no_session_refuses_by_result_and_the_run_goes_on(lab: Any) -> None:
    agent = writer(lab)
    result = await Runner.run(agent, "hi", **govern().run_kwargs(run_config=lab.quiet()))
    assert outputs(result)[0]["error"]["rule"] == "no-session"
    assert result.final_output == "done"
    with pytest.raises(NoSession):
        await govern().run(writer(lab), "hi")


async def test_a_reference_inside_another_sessions_run_is_refused_and_marks_both(
    each_mode: Any,
) -> None:
    lab = each_mode()
    one, two = lab.session("s1"), lab.session("s2")
    with govern()(two), pytest.raises(PermissionDenied) as refused:
        await lab.go(govern(one), writer(lab))
    assert refused.value.rule == "foreign-run"
    assert one.tainted and two.tainted and not lab.changes()


async def test_an_ungoverned_run_in_a_block_marks_at_its_write(lab: Any) -> None:
    session = lab.session()
    with govern()(session):
        await Runner.run(writer(lab), "hi", run_config=lab.quiet())
    assert [(s.kind, s.name) for s in session.sources] == [("content", UNGOVERNED)]
    assert [c.tainted for c in lab.changes()] == [True]


@pytest.mark.parametrize("part", ["hooks", "run_config"])
async def test_half_of_the_keyword_arguments_is_not_enough_to_slip_through(
    lab: Any, part: str
) -> None:
    session, governed = lab.session(), govern()
    agent = writer(lab, [lab.calls_fetch()], [lab.write()], tools=[lab.fetch()])
    with governed(session):
        given = governed.run_kwargs(run_config=lab.quiet())
        kept = {"run_config": lab.quiet(), part: given[part]}
        await Runner.run(agent, "hi", **kept)
    assert [c.tainted for c in lab.changes()] == [True]


async def test_one_agent_serves_many_sessions_at_once(each_mode: Any) -> None:
    lab = each_mode()

    def answer(call: Any) -> Any:
        text = json.dumps(call.input)
        name = "evil" if "evil" in text else "good"
        number = text.count("function_call_output")
        steps = [lab.write(f"w-{name}", f"facts/{name}")]
        if name == "evil":
            steps.insert(0, lab.calls_fetch())
        return [steps[number]] if number < len(steps) else [assistant_message("done")]

    model = ScriptedModel([ModelStep.respond(answer) for _ in range(5)])
    agent = Agent(name="S", tools=[*memory_tools(), lab.fetch()], model=model)
    governed = govern()

    async def one(name: str) -> None:
        with governed(lab.session(name)):
            await lab.go(governed, agent, name)

    await asyncio.gather(one("evil"), one("good"))
    assert {c.path: c.tainted for c in lab.changes()} == {"facts/evil": True, "facts/good": False}


# Streams.


async def test_a_governed_stream_may_be_read_after_its_block(lab: Any) -> None:
    session, governed = lab.session(), govern()
    agent = writer(lab, [lab.calls_fetch()], [lab.write()], tools=[lab.fetch()])
    with governed(session):
        stream = governed.run_streamed(agent, "hi", run_config=lab.quiet())
    assert current_session() is None
    async for _ in stream.stream_events():
        pass
    assert outputs_of(stream)[1]["status"] == "queued"
    assert [c.tainted for c in lab.changes()] == [True]  # no session is at work any more


def outputs_of(stream: Any) -> list[Any]:
    found = [i.output for i in stream.new_items if i.type == "tool_call_output_item"]
    return [json.loads(o) if o.startswith("{") else o for o in found]


async def test_a_plain_stream_that_outlives_its_block_is_refused(lab: Any) -> None:
    session, governed = lab.session(), govern()
    with governed(session):
        stream = Runner.run_streamed(
            writer(lab), "hi", **governed.run_kwargs(run_config=lab.quiet())
        )
    async for _ in stream.stream_events():
        pass
    assert outputs_of(stream)[0]["error"]["rule"] == "no-session"
    assert not lab.changes()


async def test_a_plain_stream_that_outlives_its_block_does_not_act_for_the_block_around_it(
    lab: Any,
) -> None:
    outer, inner, governed = lab.session("outer"), lab.session("inner"), govern()
    with governed(outer):
        with governed(inner):
            given = governed.run_kwargs(run_config=lab.quiet())
            stream = Runner.run_streamed(writer(lab), "hi", **given)
        async for _ in stream.stream_events():
            pass
    assert outputs_of(stream)[0]["error"]["rule"] == "no-session"
    assert not lab.changes()


async def test_a_stream_inside_a_web_frameworks_generator_is_governed(lab: Any) -> None:
    session, governed = lab.session(), govern()
    agent = writer(lab, [lab.calls_fetch()], [lab.write()], tools=[lab.fetch()])

    async def body() -> Any:
        with governed(session):
            stream = governed.run_streamed(agent, "hi", run_config=lab.quiet())
            async for event in stream.stream_events():
                yield event.type

    seen = [each async for each in body()]
    assert seen and current_session() is None
    assert [c.tainted for c in lab.changes()] == [True]


async def test_a_stream_that_is_left_keeps_its_marks(lab: Any) -> None:
    session, governed = lab.session(), govern()
    agent = writer(lab, [lab.write(), lab.calls_fetch()], tools=[lab.fetch()])
    with governed(session):
        stream = governed.run_streamed(agent, "hi", run_config=lab.quiet())
        async for event in stream.stream_events():
            if event.type == "run_item_stream_event":
                break
        stream.cancel("immediate")
        await asyncio.wait([stream.run_loop_task])
    assert all(c.tainted for c in lab.changes())


# The user's own.


class Everything(RunHooks[Any]):
    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.heard.append(f"agent_start {type(context).__name__} {agent.name}")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.heard.append(f"agent_end {agent.name} {output}")

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.heard.append(f"handoff {from_agent.name} {to_agent.name}")

    async def on_llm_start(self, context: Any, agent: Any, system: Any, items: Any) -> None:
        self.heard.append(f"llm_start {system}")

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.heard.append(f"llm_end {[i.type for i in response.output]}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.heard.append(f"tool_start {context.tool_call_id} {tool.name}")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.heard.append(f"tool_end {tool.name} {result}")


class OfAgent(AgentHooks[Any]):
    marker = "mine"

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_start(self, context: Any, agent: Any) -> None:
        self.heard.append("start")

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        self.heard.append(f"handoff {source.name} {agent.name}")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.heard.append(f"tool_end {tool.name} {result}")


def two(lab: Any, tool: Any, hooks: Any) -> Agent[Any]:
    last = Agent(name="B", model=lab.script(), hooks=hooks)
    turns = [tool], [function_call("transfer_to_b", {}, call_id="h1")]
    return Agent(
        name="A", instructions="Be kind.", tools=[lab.fetch()], handoffs=[handoff(last)],
        hooks=hooks, model=lab.script(*turns),
    )  # fmt: skip


async def test_the_users_hooks_hear_what_they_would_have_heard(each_mode: Any) -> None:
    lab = each_mode()
    mine, plain, agents_mine, agents_plain = Everything(), Everything(), OfAgent(), OfAgent()
    await Runner.run(
        two(lab, lab.calls_fetch(), agents_plain), "hi", hooks=plain, run_config=lab.quiet()
    )
    agent = two(lab, lab.calls_fetch(), agents_mine)
    await lab.play(agent, hooks=mine)
    assert mine.heard == plain.heard != []
    assert agents_mine.heard == agents_plain.heard != []
    assert agent.hooks.marker == "mine"  # type: ignore[union-attr]


async def test_the_users_agent_hooks_still_look_like_theirs(lab: Any) -> None:
    mine = OfAgent()
    agent = writer(lab, hooks=mine)
    await lab.play(agent)
    kept: Any = agent.hooks
    for each in (kept, copy.copy(kept), copy.deepcopy(kept)):
        assert isinstance(each, OfAgent)
    kept.heard = []  # what is set there is what they see
    agent.model = lab.script()
    await lab.play(agent)
    assert mine.heard == ["start"] and agent.hooks is kept


@pytest.mark.parametrize(
    "event", sorted(n for n in vars(RunHooks.__origin__) if n.startswith("on_"))
)  # type: ignore[attr-defined]
async def test_what_the_users_hooks_raise_is_what_the_run_raises(lab: Any, event: str) -> None:
    class Mine(RunHooks[Any]):
        pass

    async def fail(*args: Any, **more: Any) -> None:
        raise OSError("mine")

    setattr(Mine, event, fail)
    raised: list[Any] = []
    for govern_it in (False, True):
        agent = two(lab, lab.calls_fetch(), None)
        with pytest.raises((OSError, UserError)) as failed:
            if govern_it:
                await lab.play(agent, hooks=Mine())
            else:
                await Runner.run(agent, "hi", hooks=Mine(), run_config=lab.quiet())
        raised.append((type(failed.value), str(failed.value)))
    assert raised[0] == raised[1]


async def test_both_governances_judge_where_a_run_is_of_another_than_its_block(lab: Any) -> None:
    tool = lab.fetch()
    lenient, strict = govern(trusted=[tool]), govern()
    agent = writer(lab, [lab.calls_fetch()], [lab.write()], tools=[tool])
    with lenient(lab.session()):
        await Runner.run(agent, "hi", **strict.run_kwargs(run_config=lab.quiet()))
    assert [c.tainted for c in lab.changes()] == [True]


async def test_the_users_filter_runs_first_and_sees_no_block(lab: Any) -> None:
    seen: list[str] = []

    async def mine(data: CallModelData[Any]) -> ModelInputData:
        seen.append(json.dumps(data.model_data.input))
        return ModelInputData(input=data.model_data.input, instructions="mine")

    agent = writer(lab)
    await lab.play(agent, run_config=lab.quiet(call_model_input_filter=mine))
    calls = agent.model.calls
    assert len(seen) == 2 and "<memory" not in "".join(seen)
    assert [call.system_instructions for call in calls] == ["mine", "mine"]
    assert len({json.dumps(call.input[0]) for call in calls}) == 1
    assert calls[0].input[0]["role"] == "user" and "<memory note=" in calls[0].input[0]["content"]


async def test_a_configuration_may_be_a_mapping_and_traces_carry_no_texts(lab: Any) -> None:
    governed = govern()
    assert governed.run_kwargs()["run_config"].trace_include_sensitive_data is False
    given = {"workflow_name": "w", "tracing_disabled": True}
    config = governed.run_kwargs(run_config=given)["run_config"]
    assert (config.workflow_name, config.trace_include_sensitive_data) == ("w", False)
    for own in (
        {"trace_include_sensitive_data": True},
        RunConfig(trace_include_sensitive_data=True),
    ):
        kept = governed.run_kwargs(run_config=own)["run_config"]
        assert kept.trace_include_sensitive_data is True
    await lab.play(writer(lab), run_config=given)
    assert [c.tainted for c in lab.changes()] == [False]


async def test_a_configuration_that_is_used_again_stays_the_users(lab: Any) -> None:
    config, governed = lab.quiet(), govern()
    once = governed.run_kwargs(run_config=config, hooks=(hooks := RunHooks()))
    twice = governed.run_kwargs(**once)
    assert config.call_model_input_filter is None
    assert twice["run_config"].call_model_input_filter.inner is None
    assert twice["hooks"].inner is hooks
    agent = writer(lab)
    with governed(lab.session()):
        await Runner.run(agent, "hi", **twice)
    assert json.dumps(agent.model.calls[0].input).count("<memory note=") == 1


@pytest.mark.parametrize(
    "given", ["session", "conversation_id", "previous_response_id", "auto_previous_response_id"]
)
async def test_what_a_run_goes_on_with_cannot_bypass_run_kwargs(lab: Any, given: str) -> None:
    with pytest.raises(TypeError, match="multiple values"):
        await Runner.run(writer(lab), "hi", **{given: "x"}, **govern().run_kwargs())


async def test_agents_hooks_are_no_run_hooks() -> None:
    with pytest.raises(TypeError, match="RunHooks"):
        govern().run_kwargs(hooks=AgentHooks())


async def test_what_is_left_on_an_agent_is_inert_outside_a_block(lab: Any) -> None:
    agent = writer(lab, [lab.calls_fetch()], tools=[lab.fetch()])
    session = await lab.play(agent)
    before = session.sources
    agent.model = lab.script([lab.calls_fetch("f2")], [lab.write()])
    result = await Runner.run(agent, "hi", run_config=lab.quiet())
    assert session.sources == before
    assert result.final_output == "done" and not lab.changes()


async def test_a_foreign_memory_tool_is_no_concern_of_ours_outside_a_block(lab: Any) -> None:
    @function_tool(name_override="memory_write")
    async def own(
        scope: str, path: str, content: str, description: str, expected_version: None
    ) -> str:
        """Remember elsewhere."""
        return "kept"

    agent = writer(lab)
    await lab.play(agent)  # leaves our hooks on it
    agent.tools, agent.model = [own], lab.script([lab.write("w2")])
    result = await Runner.run(agent, "hi", run_config=lab.quiet())
    assert [i.output for i in result.new_items if i.type == "tool_call_output_item"] == ["kept"]


async def test_a_source_is_written_once_however_often_it_is_read(lab: Any) -> None:
    written: list[int] = []
    plain = lab.backend.add_sources

    def counted(container: str, name: str, sources: Any) -> None:
        written.append(len(list(sources)))
        plain(container, name, sources)

    lab.backend.add_sources = counted
    session = lab.session()
    for number in range(3):
        calls = [lab.calls_fetch(f"f{number}-{n}") for n in range(2)]
        await lab.play(writer(lab, calls, calls, tools=[lab.fetch()]), session=session)
    assert written == [1]


async def test_the_signatures_are_the_runners_own() -> None:
    for name in ("run", "run_sync", "run_streamed"):
        ours = list(inspect.signature(getattr(GovernedAgents, name)).parameters)[1:3]
        assert ours == list(inspect.signature(getattr(Runner, name)).parameters)[:2]


# Refusals.


async def test_a_foreign_memory_tool_is_refused_before_the_first_request(each_mode: Any) -> None:
    lab = each_mode()

    @function_tool(name_override="memory_write")
    async def fake(content: str) -> str:
        """Remember."""
        raise AssertionError

    last = writer(lab, tools=[fake])
    last.name = "B"
    first = writer(lab, [function_call("transfer_to_b", {}, call_id="h")], handoffs=[last])
    over = handoff(writer(lab), tool_name_override="memory_read")
    for agent in (last, first, writer(lab, handoffs=[over])):
        with pytest.raises(PermissionDenied) as refused:
            await lab.play(agent)
        assert refused.value.rule == "shadowed-tool"
    assert not last.model.calls and not lab.changes()


async def test_a_helpers_foreign_memory_tool_and_whole_list_are_refused_too(each_mode: Any) -> None:
    lab = each_mode()

    @function_tool(name_override="memory_write")
    async def fake(content: str) -> str:
        """Remember."""
        raise AssertionError

    ask = function_call("ask", {"input": "q"}, call_id="o1")
    for tools, whole in (([fake], False), ([lab.fetch()], True)):
        inner = Agent(name="H", tools=tools, model=lab.script())
        helper = inner.as_tool("ask", "Ask.", failure_error_function=None)
        agent = writer(lab, [ask], tools=[helper])
        governed = govern(trusted=inner.tools if whole else ())
        with governed(lab.session()), pytest.raises(UserError) as failed:
            await lab.go(governed, agent)  # the SDK says in which tool, and keeps the cause
        assert isinstance(failed.value.__cause__, PermissionDenied)
        assert not inner.model.calls


async def test_a_memory_tool_with_another_body_is_a_foreign_one(lab: Any) -> None:
    tools = memory_tools()

    async def other(ctx: Any, arguments: str) -> str:
        raise AssertionError

    tools[0].on_invoke_tool = other
    with pytest.raises(PermissionDenied):
        await lab.play(Agent(name="A", tools=tools, model=lab.script()))


@pytest.mark.parametrize("handed", [False, True])
async def test_trusting_an_agents_whole_list_is_refused(each_mode: Any, handed: bool) -> None:
    lab = each_mode()
    last = writer(lab, tools=[lab.fetch()])
    last.name = "B"
    first = writer(lab, [function_call("transfer_to_b", {}, call_id="h")], handoffs=[last])
    governed = govern(trusted=last.tools)
    with governed(lab.session()), pytest.raises(PermissionDenied) as refused:
        await lab.go(governed, first if handed else last)
    assert refused.value.rule == "trusts-everything"
    assert not last.model.calls


async def test_a_refusal_is_a_result_and_the_run_goes_on(each_mode: Any) -> None:
    lab = each_mode()
    session, governed = lab.session(), govern()
    with governed(session):
        result = await lab.go(governed, writer(lab, [lab.write(scope="org")]))
    assert outputs(result)[0]["error"]["rule"] == "org-read-only"
    assert result.final_output == "done" and not lab.changes() and not session.sources


async def test_a_provider_that_counts_calls_from_zero_again_loses_no_write(lab: Any) -> None:
    session = lab.session()
    for path in ("a", "b", "a"):
        await lab.play(writer(lab, [lab.write("call_0", path, scope="run")]), session=session)
    rule = "version-conflict"  # the third is no replay of the first: it looks at what is there
    agent = writer(lab, [lab.write("call_0", "a", scope="run")])
    governed = govern()
    with governed(session):
        result = await lab.go(governed, agent)
    assert outputs(result)[0]["error"]["rule"] == rule


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("ids", [False, True], ids=["answers without ids", "answers with ids"])
async def test_two_helpers_that_count_calls_alike_lose_no_write(
    each_mode: Any, together: bool, ids: bool
) -> None:
    lab = each_mode()
    lab.ids = ids
    inner = [
        Agent(name=name, tools=memory_tools(), model=lab.script([lab.write("call_0")]))
        for name in "xy"
    ]
    helpers = [each.as_tool(f"ask_{each.name}", "Ask.") for each in inner]
    asks = [function_call(f"ask_{n}", {"input": "q"}, call_id=f"o{n}") for n in "xy"]
    turns = [asks] if together else [[each] for each in asks]
    agent = Agent(name="A", tools=helpers, model=lab.script(*turns))
    await lab.play(agent, trusted=tuple(helpers))
    receipts = [json.loads(each.model.calls[1].input[-1]["output"]) for each in inner]
    assert [each["status"] for each in receipts] == ["queued"] * 2
    assert len({each["change_id"] for each in receipts}) == 2


async def test_a_helper_is_sent_the_block_though_its_caller_goes_on_at_the_provider(
    each_mode: Any,
) -> None:
    lab = each_mode()
    inner = Agent(name="H", tools=memory_tools(), model=lab.script([lab.write()]))
    helper = inner.as_tool("ask", "Ask.")
    ask = function_call("ask", {"input": "q"}, call_id="o1")
    agent = writer(lab, [ask], tools=[helper])
    await lab.play(agent, trusted=(helper,), auto_previous_response_id=True)
    sent = [
        json.dumps(c.input).count("<memory note=") for c in (*agent.model.calls, *inner.model.calls)
    ]
    assert sent == [1, 0, 1, 1]


async def test_the_block_is_never_kept_in_a_history(lab: Any) -> None:
    from agents import SQLiteSession

    Owner(lab.backend, "olga").write(ASSIGNED, "facts/hours", "Nine to five.", "Hours")
    history = SQLiteSession("chat", lab.folder / "history.db")
    agent = writer(lab)
    await lab.play(agent, session_=history)
    assert "Nine to five." in agent.model.calls[0].input[0]["content"]
    assert "Nine to five." not in json.dumps(await history.get_items())
