"""What the adapter takes for granted about the SDK; a new release that changes it fails here."""

from __future__ import annotations

import inspect
from typing import get_args

from agents import Agent, AgentHooks, RunHooks, Runner, ShellTool, function_tool
from agents.lifecycle import AgentHooksBase, RunHooksBase
from agents.tool import Tool

from sams_core.tools import schemas
from sams_openai_agents import memory_tools
from sams_openai_agents.govern import _GOES_ON_WITH
from sams_openai_agents.hooks import WatchingAgentHooks, WatchingRunHooks
from sams_openai_agents.inventory import _GOES_ON_WITH as OF_A_HELPER
from sams_openai_agents.inventory import _LOCAL, _apart, _helper


def events(kind: type) -> set[str]:
    return {name for name in vars(kind) if name.startswith("on_")}


def test_every_hook_of_the_sdk_is_passed_on() -> None:
    assert events(WatchingRunHooks) == events(RunHooksBase)
    assert events(WatchingAgentHooks) == events(AgentHooksBase)
    assert RunHooks.__origin__ is RunHooksBase and AgentHooks.__origin__ is AgentHooksBase  # type: ignore[attr-defined]


def test_the_tools_that_run_here_are_tools_of_the_sdk() -> None:
    kinds = {getattr(kind, "__origin__", kind) for kind in get_args(Tool)}
    assert {*_LOCAL, ShellTool} <= kinds  # every other kind counts as hosted


def test_a_run_goes_on_with_nothing_else() -> None:
    known = {
        "starting_agent",
        "input",
        "context",
        "max_turns",
        "hooks",
        "run_config",
        "error_handlers",
    }
    for way in (Runner.run, Runner.run_sync, Runner.run_streamed):
        assert set(inspect.signature(way).parameters) == known | _GOES_ON_WITH.keys()


def test_a_function_tool_tells_which_function_it_runs() -> None:
    def calc(a: int) -> str:
        return ""

    assert function_tool(calc).__wrapped__ is calc


def test_an_agent_as_a_tool_tells_whom_it_runs_and_with_what() -> None:
    agent = Agent(name="H")
    tool = agent.as_tool("ask", "Ask.")
    assert _helper(tool) is agent and _apart(tool) is None
    given = set(inspect.signature(Agent.as_tool).parameters) & _GOES_ON_WITH.keys()
    assert given == set(OF_A_HELPER)


def test_the_schemas_reach_the_model_as_the_core_wrote_them() -> None:
    made = {tool.name: tool for tool in memory_tools()}
    for each in schemas():
        tool = made[each["name"]]
        assert tool.params_json_schema == each["input_schema"]
        assert tool.strict_json_schema and tool.allowed_callers is None
