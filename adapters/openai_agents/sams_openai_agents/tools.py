"""The four memory tools as native function tools: session-agnostic, strict, refusing by result."""

from __future__ import annotations

from typing import Any

from agents import FunctionTool
from agents.tool_context import ToolContext

from sams_core.ambient import current_activation, off_loop
from sams_core.errors import SamsError
from sams_core.govern import acall_memory
from sams_core.taint import make_source
from sams_core.tools import refusal, schemas
from sams_openai_agents.inventory import MemoryCall
from sams_openai_agents.observe import observed_run
from sams_openai_agents.restored import calls_of

UNGOVERNED = (
    "a run that nobody observes: Runner.run(agent, input, **governed.run_kwargs()) would be, "
    "also inside tools and in as_tool(run_config=...)"
)


class _Memory(MemoryCall):
    async def __call__(self, ctx: ToolContext[Any], arguments: str) -> str:
        watch, call_id = observed_run(ctx), ctx.tool_call_id
        try:
            if watch is not None:
                session = watch.session(ctx.context)
                known = calls_of(session.family).get(call_id)
                # Some providers count calls from 0 again, and agents that are tools count apart.
                message = known.message if known is not None else ""
                call_id = f"{getattr(ctx.agent, 'name', '')}:{message}:{call_id}"
                with watch.governed(session):  # a reference or resolver needs no block around it
                    return await acall_memory(self.name, arguments, call_id)
            at_work = current_activation()
            if at_work is not None and at_work.observer is not None:  # else the core marks
                family = at_work.session.family
                source = make_source("content", UNGOVERNED)
                await off_loop(family.backend, lambda: family.mark(source))
        except SamsError as error:
            return refusal(error)
        return await acall_memory(self.name, arguments, call_id)


def memory_tools() -> list[FunctionTool]:
    """Return the four memory tools for `Agent(tools=[*memory_tools(), ...])`.

    They belong to no session: each call finds the one at work, so one agent serves many at once.
    The core validates what the model sent. A refusal is the tool's result, JSON with the key
    `error`, and the run goes on; `no-session` where none is at work. In a run that isn't governed
    a call marks its session first.
    """
    return [
        FunctionTool(
            name=each["name"],
            description=each["description"],
            params_json_schema=each["input_schema"],
            on_invoke_tool=_Memory(each["name"]),
            strict_json_schema=True,
        )
        for each in schemas()
    ]
