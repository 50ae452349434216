"""Native hooks that observe, around the user's own, which get exactly what they would have got."""

from __future__ import annotations

from typing import Any

from agents import Agent, AgentHooks, ModelResponse, RunContextWrapper, RunHooks
from agents.run_context import AgentHookContext

from sams_openai_agents import observe
from sams_openai_agents.observe import Watch, watch_of

Wrapper = RunContextWrapper[Any]


class WatchingRunHooks(RunHooks[Any]):
    """A run's hooks."""

    def __init__(self, watch: Watch, inner: RunHooks[Any] | None = None) -> None:
        self.watch, self.inner = watch, inner or RunHooks()

    async def on_agent_start(self, context: AgentHookContext[Any], agent: Any) -> None:
        """Look at what the run goes on with, and at the agent."""
        await self.watch.begin(context, agent)
        await self.inner.on_agent_start(context, agent)

    async def on_agent_end(self, context: AgentHookContext[Any], agent: Any, output: Any) -> None:
        """Pass on."""
        await self.inner.on_agent_end(context, agent, output)

    async def on_handoff(self, context: Wrapper, from_agent: Any, to_agent: Any) -> None:
        """Pass on; the next agent is looked at when it starts."""
        await self.inner.on_handoff(context=context, from_agent=from_agent, to_agent=to_agent)

    async def on_llm_start(
        self, context: Wrapper, agent: Agent[Any], system_prompt: str | None, input_items: list[Any]
    ) -> None:
        """Look at what is sent."""
        observe.request(context, agent, input_items, self.watch)
        await self.inner.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(
        self, context: Wrapper, agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Look at the answer, before any of its calls runs."""
        observe.answer(context, agent, response, self.watch)
        await self.inner.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: Wrapper, agent: Any, tool: Any) -> None:
        """Look at the tool; on a resume this is the first event of all."""
        if not self.watch.begun:
            await self.watch.begin(context, agent)
        observe.tool_start(context, agent, tool, self.watch)
        await self.inner.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Wrapper, agent: Any, tool: Any, result: object) -> None:
        """Pass on."""
        await self.inner.on_tool_end(context, agent, tool, result)


class WatchingAgentHooks(AgentHooks[Any]):
    """An agent's hooks, for runs that run hooks don't reach: an agent that is another's tool.

    They stay on the agent, hold no session and do nothing where none is at work.
    """

    def __init__(self, inner: AgentHooks[Any] | None = None) -> None:
        self.inner = inner or AgentHooks()

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # asked for before it is set, by copies
            raise AttributeError(name)
        return getattr(self.inner, name)

    async def on_start(self, context: AgentHookContext[Any], agent: Any) -> None:
        """Pass on."""
        await self.inner.on_start(context, agent)

    async def on_end(self, context: AgentHookContext[Any], agent: Any, output: Any) -> None:
        """Pass on."""
        await self.inner.on_end(context, agent, output)

    async def on_handoff(self, context: Wrapper, agent: Any, source: Any) -> None:
        """Pass on."""
        await self.inner.on_handoff(context, agent=agent, source=source)

    async def on_llm_start(
        self, context: Wrapper, agent: Agent[Any], system_prompt: str | None, input_items: list[Any]
    ) -> None:
        """Look at what is sent."""
        observe.request(context, agent, input_items, watch_of(context))
        await self.inner.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(
        self, context: Wrapper, agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Look at the answer, before any of its calls runs."""
        observe.answer(context, agent, response, watch_of(context))
        await self.inner.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: Wrapper, agent: Any, tool: Any) -> None:
        """Look at the tool."""
        observe.tool_start(context, agent, tool, watch_of(context))
        await self.inner.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Wrapper, agent: Any, tool: Any, result: object) -> None:
        """Pass on."""
        await self.inner.on_tool_end(context, agent, tool, result)
