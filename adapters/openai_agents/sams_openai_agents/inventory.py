"""What an agent can call and what is offered to its model, as far as it can be listed."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
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
    ShellTool,
)
from agents.mcp import MCPServer

from sams_core import TOOL_NAMES
from sams_core.govern import Trusted, refuse_shadow, undeclared
from sams_openai_agents.scan import Finding, Judge
from sams_openai_agents.wrap import declared

_LOCAL = (FunctionTool, CustomTool, LocalShellTool, ApplyPatchTool, ComputerTool)
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
    return None if trusted.covers(tool, _bodies(tool)) else Finding("tool", undeclared(name))


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


def judge_names(agents: Iterable[Agent[Any]], trusted: Trusted) -> Judge:
    """Return a judge of names: clean is one whose every bearer among `agents` is trusted.

    Of two tools with one name the framework runs the last, so all of them must be.
    """
    among = list(agents)

    def judge(name: str) -> Finding | None:
        bearers = [t for agent in among for t in agent.tools if _name(t) == name]
        for tool in bearers:
            found = None if is_memory_tool(tool) else judge_tool(tool, trusted)
            if found is not None:
                return found
        if bearers or any(name in _handoff_names(agent) for agent in among):
            return None
        servers = [server for agent in among for server in agent.mcp_servers]
        if servers and all(trusted.covers(server) for server in servers):
            return None
        return Finding("tool", undeclared(name))

    return judge


def reachable(agent: Agent[Any]) -> list[Agent[Any]]:
    """Return an agent and those it can hand over to, as far as they can be listed."""
    found: list[Agent[Any]] = []
    waiting: list[object] = [agent]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, Agent) and not any(each is known for known in found):
            found.append(each)
            for handoff in each.handoffs:
                ref = getattr(handoff, "_agent_ref", None)
                waiting.append(ref() if callable(ref) else handoff)
    return found


def refuse(agent: Agent[Any], trusted: Trusted) -> None:
    """Raise `PermissionDenied` for a foreign `memory_*` or a whole list of tools that is trusted."""
    trusted.refuse_whole(agent.tools)
    for tool in agent.tools:
        refuse_shadow(_name(tool), is_memory_tool(tool))
    for name in _handoff_names(agent):
        refuse_shadow(name, False)


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
    for server in agent.mcp_servers:
        if not trusted.covers(server):
            yield Finding("tool", undeclared(f"MCP server {server.name}"))
    for each in getattr(agent, "capabilities", None) or ():
        if not trusted.covers(each):
            yield Finding("content", f"sandbox capability {type(each).__name__}")
    if agent.prompt is not None:
        yield Finding("content", "prompt: a template that lies at the provider")
    if _lists_by_itself(agent):
        yield Finding("content", "get_all_tools: an agent that lists its tools by itself")
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


def _unlisted(agent: Agent[Any]) -> bool:
    own = bool(agent.mcp_servers or getattr(agent, "capabilities", None))
    return own or _lists_by_itself(agent)


def _lists_by_itself(agent: Agent[Any]) -> bool:
    if "get_all_tools" in vars(agent):
        return True
    owner = next(kind for kind in type(agent).__mro__ if "get_all_tools" in vars(kind))
    return not owner.__module__.startswith("agents.")  # the SDK's own listings are known


def _handoff_names(agent: Agent[Any]) -> list[str]:
    return [
        each.tool_name if isinstance(each, Handoff) else Handoff.default_tool_name(each)
        for each in agent.handoffs
    ]


def _name(tool: object) -> str:
    return str(getattr(tool, "name", ""))
