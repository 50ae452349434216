"""What an agent can call and what is offered to its model, as far as it can be listed."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agents import (
    Agent,
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    FunctionTool,
    Handoff,
    LocalShellTool,
    ModelSettings,
    RunContextWrapper,
    ShellTool,
)
from agents.mcp import MCPServer

from sams_core import TOOL_NAMES
from sams_core.govern import Trusted, refuse_shadow, undeclared
from sams_openai_agents.scan import Finding, Judge, field
from sams_openai_agents.wrap import declared

_GOES_ON_WITH = ("session", "conversation_id", "previous_response_id")  # of as_tool
_LOCAL = (FunctionTool, CustomTool, LocalShellTool, ApplyPatchTool, ComputerTool)
Served = Sequence[tuple[MCPServer, list[str]]]  # trusted by somebody, with their tools' names
# Keys of `extra_args` and `extra_body` with which no provider is known to read anything by itself.
_HARMLESS = frozenset(
    """background chat_template_kwargs enable_thinking frequency_penalty logit_bias logprobs
    max_completion_tokens max_output_tokens max_tokens metadata min_p n parallel_tool_calls
    presence_penalty prompt_cache_key prompt_cache_retention reasoning reasoning_effort
    repetition_penalty response_format safety_identifier seed service_tier stop store stream_options
    temperature text thinking timeout tool_choice top_k top_logprobs top_p truncation user
    verbosity""".split()
)


class MemoryCall:
    """What a memory tool runs; a tool that runs anything else under such a name is a foreign one."""

    def __init__(self, name: str) -> None:
        self.name = name


def is_memory_tool(tool: object) -> bool:
    """Tell whether this is one of ours, with our code behind it."""
    return isinstance(tool, FunctionTool) and (
        isinstance(tool.on_invoke_tool, MemoryCall) and tool.on_invoke_tool.name == tool.name
    )


def judge_tool(tool: object, trusted: Trusted) -> Finding | None:
    """Return why a call of this very object marks, or None where it is trusted."""
    name = str(getattr(tool, "name", "") or "")
    own = declared(tool)
    if own is not None:
        return Finding("tool", own)
    if not isinstance(tool, FunctionTool | CustomTool):
        return Finding("tool", f"{name}: what it returns is never an insider's alone")
    if not trusted.covers(tool, _bodies(tool)):
        return Finding("tool", undeclared(name))
    apart = _apart(tool)
    return None if apart is None else Finding("tool", f"{name}: {apart}")


def _apart(tool: FunctionTool | CustomTool) -> str | None:
    """Return why nobody here observes the run of an agent that is this tool, or what it goes on with.

    The public API doesn't say what `as_tool` was given; what can't be told counts as something.
    """
    if _helper(tool) is None:
        return None
    try:
        run: Any = getattr(tool.on_invoke_tool, "_invoke_tool_impl", None)
        given = inspect.getclosurevars(run).nonlocals
        own = [key for key in _GOES_ON_WITH if given[key] is not None]
        config = given["run_config"]
    except (TypeError, KeyError):
        return "an agent as a tool that runs in a way of its own"
    watched = getattr(field(config, "call_model_input_filter"), "watch", None)
    if config is not None and watched is None:
        own.append("run_config")
    return f"as_tool({own[0]}=...): nobody here looks at that" if own else None


def _helper(tool: object) -> object:
    """Return the agent that a tool of `Agent.as_tool` runs."""
    return getattr(tool, "_agent_instance", None)


def _bodies(tool: FunctionTool | CustomTool) -> list[object]:
    """Return what a tool runs: its plain function, or the MCP server that it calls."""
    if isinstance(tool, CustomTool):
        return [tool.on_invoke_tool]
    body = getattr(tool, "__wrapped__", None)  # absent where the invoker was replaced
    if body is not None:
        return [body]
    # An MCP tool is made anew each turn; the public API doesn't say of which server.
    call = getattr(tool.on_invoke_tool, "_invoke_tool_impl", None)
    if isinstance(call, functools.partial) and call.args and isinstance(call.args[0], MCPServer):
        return [call.args[0]]
    return []


def judge_names(
    agents: Iterable[Agent[Any]],
    trusted: Trusted,
    past: Served | None = None,
    *,
    elsewhere: bool = False,
) -> Judge:
    """Return a judge of names: clean is one whose every bearer among `agents` is trusted.

    Of two tools with one name the framework runs the last, so all of them must be. In the `past`
    an agent that can't be found from here may have called one that is trusted, or that a trusted
    server has; what else was called may be gone from the agent. What an agent that is a tool answered
    `elsewhere` may hold whatever that agent could read: nobody here saw its run.
    """
    among = list(agents)

    @functools.cache
    def judge(name: str) -> Finding | None:
        bearers = [t for agent in among for t in agent.tools if _name(t) == name]
        for tool in bearers:
            found = _called(tool, trusted)
            if found is not None:
                return found
            if elsewhere and _could_read(_helper(tool), trusted):
                return Finding("tool", f"{name}: what its agent read is in no history")
        handoffs = [each for agent in among for each in agent.handoffs if _tool_of(each) == name]
        if any(_tells(each) and not trusted.covers(each) for each in handoffs):
            return Finding("tool", undeclared(name))
        if bearers or handoffs:
            return None
        if past is None:
            # What no agent has, can't run, and would be judged as it starts.
            servers = [server for agent in among for server in agent.mcp_servers]
            clean = all(map(trusted.covers, servers)) and not any(map(_keeps_more, among))
        else:
            clean = trusted.named(name) or any(
                trusted.covers(server) and name in names for server, names in past
            )
        return None if clean else Finding("tool", undeclared(name))

    return judge


def _called(tool: object, trusted: Trusted) -> Finding | None:
    return None if is_memory_tool(tool) else judge_tool(tool, trusted)


def _could_read(helper: object, trusted: Trusted) -> bool:
    """Tell whether an agent that is a tool, or one that it reaches, has anything undeclared."""
    return isinstance(helper, Agent) and any(
        any(_called(tool, trusted) for tool in each.tools)
        or any(offered(each, trusted, [each.model_settings]))
        for each in reachable(helper)
    )


async def served(
    agents: Iterable[Agent[Any]], trusted: Iterable[Trusted], wrapper: RunContextWrapper[Any]
) -> Served:
    """Return the MCP servers of agents that anybody trusts, with the names of their tools."""
    found: list[tuple[MCPServer, list[str]]] = []
    whose = list(trusted)
    for agent in agents:
        for server in agent.mcp_servers:
            if any(each.covers(server) for each in whose):
                tools: Any = server.cached_tools
                with contextlib.suppress(Exception):  # not connected, perhaps; then it marks
                    if agent.mcp_config.get("include_server_in_tool_names"):
                        tools = await agent.clone(mcp_servers=[server]).get_mcp_tools(wrapper)
                    elif tools is None:
                        tools = await server.list_tools(wrapper, agent)
                found.append((server, [tool.name for tool in tools or ()]))
    return found


def reachable(agent: Agent[Any]) -> list[Agent[Any]]:
    """Return an agent, those it can hand over to or ask, as far as they can be listed."""
    found: list[Agent[Any]] = []
    waiting: list[object] = [agent]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, Agent) and not any(each is known for known in found):
            found.append(each)
            for handoff in each.handoffs:
                ref = getattr(handoff, "_agent_ref", None)
                waiting.append(ref() if callable(ref) else handoff)
            waiting += map(_helper, each.tools)
    return found


def refuse(agent: Agent[Any], trusted: Trusted) -> None:
    """Raise `PermissionDenied` for a foreign `memory_*` or a whole list of tools that is trusted."""
    trusted.refuse_whole(agent.tools)
    for tool in agent.tools:
        refuse_shadow(_name(tool), is_memory_tool(tool))
    for handoff in agent.handoffs:
        refuse_shadow(_tool_of(handoff), False)


def refuse_unlisted_memory(agent: Agent[Any], name: str) -> None:
    """Raise `PermissionDenied` where a call of a memory tool can go only to a foreign one."""
    if name in TOOL_NAMES and _unlisted(agent):
        refuse_shadow(name, any(is_memory_tool(t) for t in agent.tools if _name(t) == name))


def offered(
    agent: Agent[Any], trusted: Trusted, settings: Iterable[ModelSettings | None] = ()
) -> Iterator[Finding]:
    """Find what a request of this agent offers that nobody here can observe or list."""
    for tool in agent.tools:
        local = isinstance(tool, _LOCAL)
        if isinstance(tool, ShellTool):
            local = tool.executor is not None  # a hosted container takes none
        if not local:
            yield Finding("content", f"{_name(tool)}: hosted; the provider reads what it likes")
    for server in _servers(agent, trusted):
        if not trusted.covers(server):
            yield Finding("tool", undeclared(f"MCP server {server.name}"))
    for each in getattr(agent, "capabilities", None) or ():
        if not trusted.covers(each):
            yield Finding("content", f"sandbox capability {type(each).__name__}")
    if agent.prompt is not None:
        yield Finding("content", "prompt: a template that lies at the provider")
    if _lists_by_itself(agent):
        yield Finding("content", "an agent that lists its tools by itself")
    for each in settings:
        for extra in (
            each and each.extra_args,
            each and each.extra_body,
            each and each.extra_query,
        ):
            if isinstance(extra, Mapping):
                strange = sorted(map(str, extra.keys() - _HARMLESS))
            else:
                strange = ["not a mapping"] if extra else []
            for key in strange:
                yield Finding("content", f"model settings: extra {key}")


def _servers(agent: Agent[Any], trusted: Trusted) -> Iterator[MCPServer]:
    """Yield the MCP servers that describe tools of an agent, also of those put into its list."""
    yield from agent.mcp_servers
    for tool in agent.tools:
        if isinstance(tool, FunctionTool) and not trusted.covers(tool):
            yield from (each for each in _bodies(tool) if isinstance(each, MCPServer))


def _unlisted(agent: Agent[Any]) -> bool:
    return bool(agent.mcp_servers) or _keeps_more(agent)


def may_have(agent: Agent[Any], name: str) -> bool:
    """Tell whether an agent has a tool or hand-off of this name, or may have one that it doesn't list."""
    listed = [*map(_name, agent.tools), *map(_tool_of, agent.handoffs)]
    return name in listed or _unlisted(agent)


def _keeps_more(agent: Agent[Any]) -> bool:
    """Tell whether an agent may have tools that neither it nor its servers list."""
    return bool(getattr(agent, "capabilities", None)) or _lists_by_itself(agent)


def _lists_by_itself(agent: Agent[Any]) -> bool:
    for name in ("get_all_tools", "get_mcp_tools"):
        if name in vars(agent):
            return True
        owner = next(kind for kind in type(agent).__mro__ if name in vars(kind))
        if not owner.__module__.startswith("agents."):  # the SDK's own listings are known
            return True
    return False


def _tool_of(handoff: Agent[Any] | Handoff[Any, Any]) -> str:
    if isinstance(handoff, Handoff):
        return handoff.tool_name
    return Handoff.default_tool_name(handoff)


def _tells(handoff: Agent[Any] | Handoff[Any, Any]) -> bool:
    """Tell whether a hand-off answers its call with words of its own."""
    return isinstance(handoff, Handoff) and (
        getattr(handoff.get_transfer_message, "__func__", None) is not Handoff.get_transfer_message
    )


def _name(tool: object) -> str:
    return str(getattr(tool, "name", ""))
