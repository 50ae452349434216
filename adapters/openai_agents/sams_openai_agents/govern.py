"""`govern`: built once beside an agent, opened as a block for each request, put into each run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from contextvars import copy_context
from typing import Any

from agents import (
    Agent,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
)
from agents.items import TResponseInputItem
from agents.lifecycle import RunHooksBase

from sams_core import AgentSession
from sams_core.govern import Bound
from sams_openai_agents.hooks import WatchingRunHooks, attach
from sams_openai_agents.observe import Observing, Watch
from sams_openai_agents.slots import InputFilter

Input = str | list[TResponseInputItem] | RunState[Any]
# Listed, so that one of them given to Runner.run beside run_kwargs() is an error of Python's instead
# of a history that nobody looked at.
_GOES_ON_WITH: dict[str, Any] = {
    "session": None,
    "conversation_id": None,
    "previous_response_id": None,
    "auto_previous_response_id": False,
}


class GovernedAgents(Observing):
    """What `govern` returns. Blocks, and the runs inside them that are observed."""

    def run_kwargs(self, **given: Any) -> dict[str, Any]:
        """Return keyword arguments for one call of `Runner.run`, `run_sync` or `run_streamed`.

        `Runner.run(agent, x, **governed.run_kwargs(hooks=mine, run_config=mine, session=history))`:
        everything that isn't the agent or its input goes in here; hooks and input filter are
        composed with ours and get the same arguments as ever. `input=` may go in too and must for
        a `RunState`, which is looked at before its pending tools run. Traces carry no texts
        (`trace_include_sensitive_data=False`) where the configuration is a mapping or absent and
        neither it nor the environment says otherwise.
        """
        watch = Watch(self, given)
        if watch.restored.agent is not None:
            attach(watch.restored.agent)
        hooks = given.get("hooks")
        if isinstance(hooks, WatchingRunHooks):
            hooks = hooks.inner
        if hooks is not None and not isinstance(hooks, RunHooksBase):
            raise TypeError(f"hooks: RunHooks, not {type(hooks).__name__}")
        config = _config(given.get("run_config"))
        inner = config.call_model_input_filter
        if isinstance(inner, InputFilter):
            inner = inner.inner
        settings: Any = config.model_settings
        config = dataclasses.replace(
            config, call_model_input_filter=InputFilter(watch, inner, settings)
        )
        ours = {"hooks": WatchingRunHooks(watch, hooks), "run_config": config}
        return {**_GOES_ON_WITH, **given, **ours}

    async def run(self, starting_agent: Agent[Any], input: Input, **given: Any) -> RunResult:
        """Call `Runner.run` with the same arguments, governed, in a block of its own."""
        async with self(self._session(input, given)):
            return await Runner.run(starting_agent, **self.run_kwargs(input=input, **given))

    def run_sync(self, starting_agent: Agent[Any], input: Input, **given: Any) -> RunResult:
        """Call `Runner.run_sync` with the same arguments, governed, in a block of its own."""
        with self(self._session(input, given)):
            return Runner.run_sync(starting_agent, **self.run_kwargs(input=input, **given))

    def run_streamed(
        self, starting_agent: Agent[Any], input: Input, **given: Any
    ) -> RunResultStreaming:
        """Call `Runner.run_streamed` with the same arguments, governed.

        The run has a block of its own that ends when the run does, so the result may be consumed
        after the block around this call has ended.
        """
        block = self(self._session(input, given))

        def start() -> RunResultStreaming:
            block._enter(None)  # of no generator: it lives as long as the run's task
            return Runner.run_streamed(starting_agent, **self.run_kwargs(input=input, **given))

        try:
            result = copy_context().run(start)
            task = result.run_loop_task
        except BaseException:
            block._leave()
            raise
        if task is None:
            block._leave()
        else:
            task.add_done_callback(lambda _: block._leave())
        return result

    def _session(self, input: Input, given: dict[str, Any]) -> AgentSession:
        context = given.get("context")
        if context is None and isinstance(input, RunState):
            context = input._context
        return self.session(context.context if isinstance(context, RunContextWrapper) else context)


def _config(given: RunConfig | dict[str, Any] | None) -> RunConfig:
    if isinstance(given, RunConfig):
        return given
    quiet = "OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA" not in os.environ
    default = {"trace_include_sensitive_data": False} if quiet else {}
    return RunConfig(**{**default, **(given or {})})


def govern(
    session_or_resolver: Bound = None, /, *, trusted: Iterable[object] = ()
) -> GovernedAgents:
    """Return the governance of an agent: built once, beside it.

    `with governed(session):` opens a block for a request, `governed.run(...)` runs inside it. A
    reference replaces the block; a resolver is called with the run's `context`. `trusted` lists
    function and custom tools (an agent as a tool as `as_tool` returned it), the plain functions that
    they are made of, MCP servers, or hand-offs: everything that these can ever return was written by
    insiders. Everything else marks the session.
    """
    return GovernedAgents(session_or_resolver, trusted=trusted)
