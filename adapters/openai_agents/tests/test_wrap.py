"""Explicit wrapping of native objects."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from agents import (
    Agent,
    ApplyPatchTool,
    CustomTool,
    LocalShellTool,
    ShellTool,
    WebSearchTool,
    function_tool,
)
from agents.testing import function_call
from agents.tool_context import ToolContext

from sams_core import AgentSession, tainting
from sams_openai_agents import memory_tools

pytestmark = pytest.mark.anyio


def context(name: str) -> ToolContext[Any]:
    return ToolContext(context=None, tool_name=name, tool_call_id="c", tool_arguments="{}")


@function_tool
async def lookup(url: str) -> str:
    """Look up."""
    return "EVIL"


@function_tool
def sync_lookup(url: str) -> str:
    """Look up."""
    return "EVIL"


@pytest.mark.parametrize("tool", [lookup, sync_lookup], ids=["async", "sync"])
async def test_a_function_tool_keeps_what_it_is_and_marks(lab: Any, tool: Any) -> None:
    session: AgentSession = lab.session()
    wrapped = session.tainting(tool, "the web")
    assert type(wrapped) is type(tool)
    for key in (
        "name",
        "description",
        "params_json_schema",
        "strict_json_schema",
        "needs_approval",
    ):
        assert getattr(wrapped, key) == getattr(tool, key)
    for each in (wrapped, copy.copy(wrapped)):
        fresh = lab.session(f"s-{id(each)}")
        with fresh.active():
            answer = await tainting(tool).on_invoke_tool(context(tool.name), '{"url": "u"}')
        assert answer == "EVIL" and fresh.tainted
        with session.active():
            assert await each.on_invoke_tool(context(tool.name), '{"url": "u"}') == "EVIL"
    assert [s.name for s in session.sources] == ["the web"]


async def test_its_reason_is_told_in_a_run_and_counts_for_the_whole_turn(each_mode: Any) -> None:
    lab = each_mode()
    session = lab.session()
    wrapped = session.tainting(lab.fetch(), "the web")
    model = lab.script([lab.write(), lab.calls_fetch()])
    agent = Agent(name="A", tools=[*memory_tools(), wrapped], model=model)
    await lab.play(agent, session=session, trusted=(wrapped,))
    assert [c.tainted for c in lab.changes()] == [True]
    assert [(s.kind, s.name) for s in session.sources] == [("tool", "the web")]


async def test_inside_another_sessions_run_it_answers_with_a_refusal_and_marks_both(
    lab: Any,
) -> None:
    session, other = lab.session("s1"), lab.session("s2")
    wrapped = session.tainting(lookup)
    with other.active():
        answer = await wrapped.on_invoke_tool(context("lookup"), '{"url": "u"}')
    assert json.loads(answer)["error"]["rule"] == "foreign-run"
    assert session.tainted and other.tainted


async def test_custom_tools_and_local_shells_mark(lab: Any) -> None:
    custom = CustomTool(name="raw", description="d", on_invoke_tool=lambda ctx, text: "EVIL")
    local = LocalShellTool(executor=lambda request: "EVIL")
    shell = ShellTool(executor=lambda request: "EVIL")
    for number, tool in enumerate((custom, local, shell)):
        session = lab.session(f"s{number}")
        wrapped: Any = session.tainting(tool)
        assert type(wrapped) is type(tool) and wrapped.name == tool.name
        with session.active():
            if isinstance(wrapped, CustomTool):
                assert await wrapped.on_invoke_tool(context("raw"), "x") == "EVIL"  # type: ignore[misc]
            else:
                assert wrapped.executor(None) == "EVIL"
        assert session.tainted


@pytest.mark.parametrize(
    "thing",
    [
        WebSearchTool(),
        ShellTool(environment={"type": "container_auto"}),
        ApplyPatchTool(editor=object()),  # type: ignore[arg-type]
        Agent(name="A"),
        memory_tools()[0],
    ],
    ids=["hosted", "hosted shell", "editor", "agent", "memory tool"],
)
async def test_what_cannot_be_wrapped_says_what_to_do(lab: Any, thing: Any) -> None:
    with pytest.raises(TypeError, match=r"mark|wrap"):
        lab.session().tainting(thing)


async def test_a_wrapped_tool_is_called_by_a_run_outside_any_block_with_a_refusal(lab: Any) -> None:
    from agents import Runner

    call = function_call("lookup", {"url": "u"}, call_id="c")
    agent = Agent(name="A", tools=[tainting(lookup)], model=lab.script([call]))
    result = await Runner.run(agent, "hi", run_config=lab.quiet())
    (answer,) = (i.output for i in result.new_items if i.type == "tool_call_output_item")
    assert json.loads(answer)["error"]["rule"] == "no-session"
