"""The native slot before each request: `call_model_input_filter`, with the user's own inside."""

from __future__ import annotations

import inspect
from typing import Any

from agents import Agent, ModelSettings, RunContextWrapper
from agents.run_config import CallModelData, CallModelInputFilter, ModelInputData

from sams_core import AgentSession
from sams_core.ambient import off_loop
from sams_core.errors import NoSession, SessionClosed, StoreFailed
from sams_core.govern import Governing
from sams_openai_agents import inventory, observe
from sams_openai_agents.hooks import attach
from sams_openai_agents.observe import Watch, mark
from sams_openai_agents.restored import block_at_provider


class InputFilter:
    """Marks for what a request offers, puts the context block first, and reaches nested agents.

    Nested runs of `Agent.as_tool` inherit it from the run's configuration, while they don't inherit
    run hooks: so it gives each agent that it sees agent hooks that observe.
    """

    def __init__(
        self, watch: Watch, inner: CallModelInputFilter | None, settings: ModelSettings | None
    ) -> None:
        self.watch, self.inner, self.settings = watch, inner, settings

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return what is sent: the user's own filter's result, after the context block."""
        given: Any = data.model_data
        agent, wrapper = data.agent, RunContextWrapper(context=data.context)
        blocks = self.watch.ask(data.context)
        await self.watch.begin(wrapper, agent, blocks)
        if self.inner is not None:
            # It may make something else of this, which says nothing of where it came from.
            await observe.look(blocks, agent, given.input, self.watch)
            given = self.inner(data)
            if inspect.isawaitable(given):
                given = await given
            blocks = self.watch.ask(data.context)
            await self.watch.begin(wrapper, agent, blocks)
        attach(agent)
        settings = (agent.model_settings, self.settings)

        def offered(block: Governing) -> Any:
            return inventory.offered(agent, block.governed.trusted, settings)

        await mark(blocks, offered)
        for block in blocks:
            inventory.refuse(agent, block.governed.trusted)
        try:
            session = self.watch.session(data.context)
        except NoSession:
            return given  # type: ignore[no-any-return]
        return await self._with_block(session, given, agent)

    async def _with_block(
        self, session: AgentSession, given: Any, agent: Agent[Any]
    ) -> ModelInputData:
        try:
            block = await off_loop(session.backend, session.context_block)
        except (SessionClosed, StoreFailed):  # no memory for now; a run may do without
            return given  # type: ignore[no-any-return]
        watch = self.watch
        if not block or not isinstance(given, ModelInputData):  # the SDK says what is wrong
            return given  # type: ignore[no-any-return]
        if watch.restored.at_provider and agent is watch.agent:  # helpers have no conversation
            if watch.sent is None:
                watch.sent = block_at_provider(watch.restored.chain)
            if watch.sent == hash(block):
                return given
            watch.sent = hash(block)
        # At the front, so that the prefix stays the same over turns and runs; as a user's message,
        # because what developers and systems say is obeyed. The runner persists none of this.
        first: Any = {"role": "user", "content": block}
        return ModelInputData(input=[first, *given.input], instructions=given.instructions)
