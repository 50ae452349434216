"""Native hooks that observe, around the user's own, which get exactly what they would have got."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from agents import Agent, AgentHooks, ModelResponse, RunContextWrapper, RunHooks
from agents.run_context import AgentHookContext

from sams_openai_agents import observe
from sams_openai_agents.inventory import reachable
from sams_openai_agents.observe import Watch, watch_of

Wrapper = RunContextWrapper[Any]
_watched: WeakSet[Wrapper] = WeakSet()  # runs whose run hooks are ours
_sent: WeakKeyDictionary[Wrapper, list[Any]] = WeakKeyDictionary()


def attach(agent: Agent[Any]) -> None:
    """Give agent hooks that observe to an agent and all that it can reach."""
    for each in reachable(agent):
        if type(each.hooks) is not WatchingAgentHooks:
            each.hooks = WatchingAgentHooks(each.hooks)


class WatchingRunHooks(RunHooks[Any]):
    """A run's hooks."""

    def __init__(self, watch: Watch, inner: RunHooks[Any] | None = None) -> None:
        self.watch, self.inner = watch, inner or RunHooks()

    async def on_agent_start(self, context: AgentHookContext[Any], agent: Any) -> None:
        """Tell the watch whose run it is now; what it goes on with is looked at before it is sent."""
        self.watch.agent = agent
        await self.inner.on_agent_start(context, agent)

    async def on_agent_end(self, context: AgentHookContext[Any], agent: Any, output: Any) -> None:
        """Pass on: the run is over."""
        self.watch.end()
        await self.inner.on_agent_end(context, agent, output)

    async def on_handoff(self, context: Wrapper, from_agent: Any, to_agent: Any) -> None:
        """Pass on; the next agent is looked at when it starts."""
        await self.inner.on_handoff(context=context, from_agent=from_agent, to_agent=to_agent)

    async def on_llm_start(
        self, context: Wrapper, agent: Agent[Any], system_prompt: str | None, input_items: list[Any]
    ) -> None:
        """Look at what is sent, last: a hook may change the list that goes to the model."""
        _watched.add(context)
        await self.watch.begin(context, agent)
        await self.inner.on_llm_start(context, agent, system_prompt, input_items)
        await observe.request(context, agent, input_items, self.watch)

    async def on_llm_end(
        self, context: Wrapper, agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Look at the answer, before any of its calls runs."""
        await observe.answer(context, agent, response, self.watch)
        await self.inner.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: Wrapper, agent: Any, tool: Any) -> None:
        """Look at the tool; on a resume this is the first event of all."""
        await self.watch.begin(context, agent)
        await observe.tool_start(context, agent, tool, self.watch)
        await self.inner.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Wrapper, agent: Any, tool: Any, result: object) -> None:
        """Pass on."""
        await self.inner.on_tool_end(context, agent, tool, result)


class WatchingAgentHooks(AgentHooks[Any]):
    """An agent's hooks, for runs that run hooks don't reach: an agent that is another's tool.

    They stay on the agent, hold no session and do nothing where none is at work. To their user
    they look like the hooks inside.
    """

    inner: AgentHooks[Any]

    def __init__(self, inner: AgentHooks[Any] | None = None) -> None:
        vars(self)["inner"] = inner or AgentHooks()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(vars(self).get("inner", self))

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # asked for before it is set, by copies
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)

    def __reduce__(self) -> Any:  # by default what is looked at, which would be the hooks' inside
        return WatchingAgentHooks, (self.inner,)

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
        """Look at what is sent, last: a hook may change the list that goes to the model."""
        await self.inner.on_llm_start(context, agent, system_prompt, input_items)
        _sent[context] = input_items
        await observe.request(context, agent, input_items, watch_of(context))

    async def on_llm_end(
        self, context: Wrapper, agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Look at the answer, before any of its calls runs."""
        sent = _sent.pop(context, None)
        if sent is not None and context not in _watched:
            # The run's own hooks ran beside ours, and may have changed the list since.
            await observe.request(context, agent, sent, watch_of(context))
        await observe.answer(context, agent, response, watch_of(context))
        await self.inner.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: Wrapper, agent: Any, tool: Any) -> None:
        """Look at the tool; where a helper's run is resumed this is the first event of all."""
        watch = watch_of(context)
        if watch is not None:
            await watch.begin(context, agent)
        await observe.tool_start(context, agent, tool, watch)
        await self.inner.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Wrapper, agent: Any, tool: Any, result: object) -> None:
        """Pass on."""
        await self.inner.on_tool_end(context, agent, tool, result)
