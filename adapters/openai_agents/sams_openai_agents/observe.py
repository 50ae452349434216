"""The detectors: at each event of a run, mark every session at work for what isn't vouched for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar
from weakref import WeakSet, ref

from agents import Agent, FunctionTool, ModelResponse, RunContextWrapper
from agents.tool_context import ToolContext

from sams_core import AgentSession
from sams_core.ambient import current_activation, off_loop
from sams_core.errors import NoSession, SamsError
from sams_core.govern import Governed, Governing, at_work, refuse_shadow
from sams_core.taint import Family
from sams_openai_agents import inventory
from sams_openai_agents.inventory import Served
from sams_openai_agents.restored import (
    Restored,
    calls_of,
    left_at_provider,
    unfinished,
)
from sams_openai_agents.scan import CALLS, Finding, Known, field, scan_input, scan_output

UNPLANNED = (
    "a call that no governed run planned: resume a paused state with governed.run(agent, state)"
)


class Observing(Governed):
    """What every block of this adapter has in common; nothing is attached to the process."""

    word: ClassVar[str] = "openai-agents"

    @property
    def needs_block(self) -> bool:
        """Tell whether only a block says whose run it is."""
        return self._bound is None

    def attach(self) -> None:
        """Do nothing: hooks come with each run."""

    def detach(self) -> None:
        """Do nothing."""


class Watch:
    """What the hooks and the input filter of one run share; nothing of it is a session's."""

    def __init__(self, governed: Observing, given: Mapping[str, Any]) -> None:
        self.governed = governed
        self.restored = Restored(given)
        self.block = current_activation() if governed.needs_block else None
        asking = _asking.get()
        if asking is not None and asking.here():
            _asking.set(None)  # of a run that failed: this one is its successor, not inside it
        self.begun = False
        self.judged: WeakSet[Family] = WeakSet()  # whose session may join late: who logs in, say
        self.ended = 0  # runs; the configuration of a helper serves many, and hears of no end
        self.agent: Agent[Any] | None = None  # whose turn it is; never one that is a tool
        self.served: Served = []
        self.sent: int | None = None  # the hash of the context block that lies at the provider

    def session(self, context: object) -> AgentSession:
        """Return the session at work; a resolver is asked each time, so that no answer goes stale.

        A run that outlives its block is not the business of a block around that one.
        """
        if self.block is not None and not self.block.alive:
            raise NoSession("the block in which run_kwargs() was called has ended")
        return self.governed.session(context)

    async def begin(
        self,
        wrapper: RunContextWrapper[Any],
        agent: Agent[Any],
        blocks: list[Governing] | None = None,
    ) -> None:
        """Judge once what the run goes on with, and refuse an agent that must not run.

        A request says whose `blocks` it is made for; whoever is new there is told as well.
        """
        if blocks is None:
            if self.begun:
                return
            blocks = blocks_of(self, wrapper.context)
        if not self.begun:
            inventory.refuse(agent, self.governed.trusted)
        new = [block for block in blocks if block.session.family not in self.judged]
        if new:
            items = await self.restored.items(wrapper)
            agents = inventory.reachable(self.restored.agent or agent)
            self.served = await inventory.served(
                agents, [block.governed.trusted for block in blocks], wrapper
            )
            await mark(
                new,
                lambda block: self.restored.findings(
                    items, agents, self.served, block.governed.trusted, block.session.family
                ),
            )
            self.judged.update(block.session.family for block in new)
        self.begun = True  # not before: another tool of a resumed turn must wait for this too

    def end(self) -> None:
        """Forget the run that ended, in case that another one gets the same keyword arguments."""
        self.begun = False
        self.judged.clear()
        self.ended += 1

    def ask(self, context: object) -> list[Governing]:
        """Return the blocks of a request that is about to be sent."""
        blocks = blocks_of(self, context)
        _asking.set(Asking(self, [block for block in blocks if not block.alive]))
        return blocks


class Asking:
    """A request, until its run has ended; its answer's tools are inside it.

    An agent's hooks aren't told of which run they are, and a reference or resolver has no block that
    would tell. A watch doesn't: several runs at once may have the one of a helper's configuration.
    """

    def __init__(self, watch: Watch, blocks: list[Governing]) -> None:
        self._watch, self._ended = ref(watch), watch.ended
        self._task = ref(asyncio.current_task())
        self._blocks = blocks  # that nobody entered

    def here(self) -> bool:
        """Tell whether this is the request's own task, not that of a tool that its answer calls."""
        try:
            return self._task() is asyncio.current_task()
        except RuntimeError:  # a thread without a loop: a tool's
            return False

    @property
    def watch(self) -> Watch | None:
        """Its run's watch, or None where that run has ended; one that failed has told no hook."""
        watch = self._watch()
        return watch if watch is not None and watch.ended == self._ended else None

    @property
    def blocks(self) -> list[Governing]:
        """The blocks that nobody entered, while the run goes on."""
        return [] if self.watch is None else self._blocks


_asking: ContextVar[Asking | None] = ContextVar("sams_openai_agents_asking", default=None)
_seen: WeakSet[ToolContext[Any]] = WeakSet()  # calls whose start a hook of ours heard


def watch_of(wrapper: object) -> Watch | None:
    """Return the watch whose filter is in the configuration of this run, nested runs included."""
    config = getattr(wrapper, "run_config", None)
    found = getattr(getattr(config, "call_model_input_filter", None), "watch", None)
    return found if isinstance(found, Watch) else None


def observed_run(ctx: ToolContext[Any]) -> Watch | None:
    """Return the watch of the run that makes this call, if its hooks heard the call begin."""
    return watch_of(ctx) if ctx in _seen else None


def blocks_of(watch: Watch | None, context: object) -> list[Governing]:
    """Return the blocks inside which a run is: those at work, its own `govern`'s, its caller's.

    Raises `PermissionDenied` (rule `foreign-run`) for a reference inside another session's run.
    """
    found, asking = at_work(Observing), _asking.get()
    if watch is not None:
        with contextlib.suppress(NoSession):
            found.append(Governing(watch.governed, watch.session(context)))  # only to mark
        if watch.block is not None and not found:  # a bare thread, or a task that outlives it
            found.append(Governing(watch.governed, watch.block.session))
    if asking is not None:
        found += asking.blocks
    blocks = {(block.governed, id(block.session.family)): block for block in reversed(found)}
    return list(reversed(blocks.values()))


async def mark(blocks: list[Governing], findings: Callable[[Governing], Iterable[Finding]]) -> None:
    """Mark each block's session; raises `SessionClosed` after all were tried.

    What must wait for a lock or for a server waits in a thread.
    """
    failed: SamsError | None = None
    for block in blocks:
        found = dict.fromkeys(findings(block))
        try:
            if found:
                await off_loop(block.session.backend, partial(_record, block, found))
        except SamsError as error:
            failed = error
    if failed is not None:
        raise failed


def _record(block: Governing, findings: Iterable[Finding]) -> None:
    failed: SamsError | None = None
    for found in findings:
        try:
            block.mark(found.kind, found.name)
        except SamsError as error:
            failed = error
    if failed is not None:
        raise failed


async def request(
    wrapper: RunContextWrapper[Any],
    agent: Agent[Any],
    items: Iterable[object],
    watch: Watch | None,
) -> None:
    """Mark for what is about to be sent to the model."""
    await look(blocks_of(watch, wrapper.context), agent, items, watch)
    if watch is not None:
        unfinished(watch.restored.conversation)


async def look(
    blocks: list[Governing], agent: Agent[Any], items: Iterable[object], watch: Watch | None
) -> None:
    """Mark for what a request holds."""
    items, agents = list(items), inventory.reachable(agent)
    names = {each.name for each in agents}
    asking = _asking.get()
    asked = watch or (asking.watch if asking is not None else None)
    served = asked.served if asked is not None else ()

    def findings(block: Governing) -> Iterable[Finding]:
        judge = inventory.judge_names(agents, block.governed.trusted, served, elsewhere=True)
        return scan_input(items, judge, calls_of(block.session.family).get, names)

    await mark(blocks, findings)


async def answer(
    wrapper: RunContextWrapper[Any],
    agent: Agent[Any],
    response: ModelResponse,
    watch: Watch | None,
) -> None:
    """Mark for a whole answer of the model before any of its calls runs."""
    output = list(response.output)

    def findings(block: Governing) -> Iterable[Finding]:
        judge = inventory.judge_names([agent], block.governed.trusted)
        calls = calls_of(block.session.family)
        for item in output:
            # A made-up call isn't remembered: some ids come again, and then another's result has its name.
            if field(item, "type") in CALLS and inventory.may_have(agent, str(field(item, "name"))):
                name, call_id = str(field(item, "name")), str(field(item, "call_id"))
                before = calls.get(call_id)
                why = judge(name) or (before.why if before is not None else None)
                calls[call_id] = Known(name, why, response.response_id or "")
        return scan_output(output, judge)

    blocks = blocks_of(watch, wrapper.context)
    await mark(blocks, findings)
    for item in output if blocks or watch is not None else ():
        if field(item, "type") in CALLS:
            inventory.refuse_unlisted_memory(agent, str(field(item, "name")))
    if watch is not None:
        ids = (response.response_id, watch.restored.conversation)
        left_at_provider(ids, [block.session.family for block in blocks], watch.sent)


async def tool_start(
    wrapper: RunContextWrapper[Any], agent: Agent[Any], tool: Any, watch: Watch | None
) -> None:
    """Mark for a local tool that is about to run, by the very object that runs."""
    ours = inventory.is_memory_tool(tool)
    blocks = blocks_of(watch, wrapper.context)
    if blocks or watch is not None:  # hooks that stayed on an agent are inert elsewhere
        refuse_shadow(str(getattr(tool, "name", "")), ours)
    call_id = wrapper.tool_call_id if isinstance(wrapper, ToolContext) else None

    def findings(block: Governing) -> Iterable[Finding]:
        if call_id is not None and call_id not in calls_of(block.session.family):
            yield Finding("history", UNPLANNED)
        found = None if ours else inventory.judge_tool(tool, block.governed.trusted)
        if found is not None:
            yield found

    await mark(blocks, findings)
    if isinstance(wrapper, ToolContext) and isinstance(tool, FunctionTool):
        _seen.add(wrapper)
