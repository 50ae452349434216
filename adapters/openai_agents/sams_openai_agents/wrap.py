"""Explicit wrapping: a native tool or MCP server that marks at the start of each call."""

from __future__ import annotations

import copy
import inspect
from typing import Any, TypeVar, cast

from agents import Agent, CustomTool, FunctionTool, LocalShellTool, ShellTool
from agents.mcp import MCPServer
from agents.tool_context import ToolContext

from sams_core import AgentSession
from sams_core.errors import SamsError
from sams_core.records import Source
from sams_core.taint import abegin_call, make_source, wrap
from sams_core.tools import TOOL_NAMES, refusal

T = TypeVar("T")
_MCP = (
    "list_tools call_tool list_prompts get_prompt list_resources list_resource_templates "
    "read_resource"
).split()


class _Tainting:
    """What a wrapped tool runs: it marks, then calls the original; a refusal is the result."""

    def __init__(self, inner: Any, bound: AgentSession | None, source: Source) -> None:
        self.inner, self.bound, self.source = inner, bound, source

    async def __call__(self, ctx: ToolContext[Any], arguments: str) -> Any:
        try:
            await abegin_call(self.bound, self.source)
        except SamsError as error:
            return refusal(error)
        result = self.inner(ctx, arguments)
        return await result if inspect.isawaitable(result) else result


def tainting(obj: T, bound: AgentSession | None, reason: str | None) -> T:
    """Return a copy of `obj` whose every call marks before it begins; see `AgentSession.tainting`.

    For function and custom tools, local shells, and MCP servers (listings, prompts and resources
    mark too; connect the copy, not the original). Raises `TypeError` for everything else.
    """
    copied: Any = copy.copy(obj)
    if isinstance(obj, FunctionTool | CustomTool):
        if obj.name in TOOL_NAMES:
            raise TypeError("tainting(): the memory tools mark by themselves")
        source = make_source("tool", obj.name if reason is None else reason)
        copied.on_invoke_tool = _Tainting(obj.on_invoke_tool, bound, source)
    elif isinstance(obj, LocalShellTool | ShellTool) and obj.executor is not None:
        copied.executor = wrap(obj.executor, bound, obj.name if reason is None else reason)
    elif isinstance(obj, MCPServer):
        for name in _MCP:
            method = getattr(copied, name)
            setattr(copied, name, wrap(method, bound, obj.name if reason is None else reason))
    elif isinstance(obj, Agent):
        raise TypeError("tainting(): wrap the agent's tools, or agent.as_tool(...)")
    else:
        raise TypeError(
            "tainting(): this can't be wrapped; in a governed run (governed.run(...)) hosted tools, "
            "computers and patch editors mark by themselves. Elsewhere call "
            "session.mark_tainted(reason) before it is used"
        )
    return cast(T, copied)


def declared(tool: object) -> str | None:
    """Return the reason with which a wrapped tool marks, or None where it isn't wrapped."""
    invoke = getattr(tool, "on_invoke_tool", None)
    return invoke.source.name if isinstance(invoke, _Tainting) else None
