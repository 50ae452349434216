"""Workflow steps: where an agent's turn begins, what it is given, and where its context comes from.

A step's span carries its event and its context before the step's body runs. So it is seen here, in
time: tools that shadow memory tools, memories that read elsewhere, runs that go on from a context
which another session (or nobody known) has filled, and the id of the call that a tool answers.
"""

from __future__ import annotations

import weakref
from collections.abc import Coroutine, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

from llama_index.core.agent.workflow import AgentOutput, AgentWorkflow, ToolCall
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.agent.workflow.workflow_events import AgentSetup, ToolCallResult
from llama_index.core.memory import (
    ChatMemoryBuffer,
    ChatSummaryMemoryBuffer,
    Memory,
    StaticMemoryBlock,
)
from llama_index.core.workflow import Context
from workflows.context.state_store import DictState
from workflows.events import Event, StartEvent
from workflows.runtime.types.results import StepWorkerStateContextVar

from sams_core import PermissionDenied
from sams_core.govern import at_work, refuse_shadow
from sams_core.locks import ForkSafeLock
from sams_llamaindex import model, results, turn
from sams_llamaindex.govern import GovernedLlamaIndex, begin, mark
from sams_llamaindex.slots import SamsMemoryBlock
from sams_llamaindex.tools import MemoryTool
from sams_llamaindex.trust import from_mcp

POINTER = "sams_session"  # in a context's store: a hash, which only says whose context it is
ELSEWHERE = "a workflow context that this session has not filled"
SHARED = "a memory that another session has filled"


@dataclass
class Step:
    """The workflow step that runs: in which run its context began, and which call it answers."""

    worker: object
    began: str
    tool_id: str = ""
    calls: dict[str, int] = field(default_factory=dict)


running: ContextVar[Step | None] = ContextVar("sams_llamaindex_step", default=None)
_finders: ContextVar[tuple[str, list[object]]] = ContextVar(
    "sams_llamaindex_finders", default=("", [])
)
# By the store of a run's context: whose it is, and the run in which the context began.
_stores: weakref.WeakKeyDictionary[Any, tuple[str, str]] = weakref.WeakKeyDictionary()
_memories: dict[int, tuple[weakref.ref[Any], str]] = {}  # by identity: whose it is
_lock = ForkSafeLock()


def entered(id_: str, bound: Any, tags: dict[str, Any]) -> None:
    """Judge a step that begins; anything else that has no instance is none of ours."""
    event = next((v for v in bound.arguments.values() if isinstance(v, Event)), None)
    if event is None:
        return
    worker, outer = StepWorkerStateContextVar.get(None), running.get()
    if worker is None or (outer is not None and outer.worker is worker):
        return  # a function with a span of its own that happens to take an event
    context = Context.get_step_context()
    tool_id = event.tool_id if isinstance(event, ToolCall) else ""
    running.set(Step(worker, _began(context, tags, isinstance(event, StartEvent)), tool_id))
    if not at_work(GovernedLlamaIndex):
        return
    if isinstance(event, ToolCallResult):
        _not_found(event)
    agents = _agents(context)
    if agents:
        _finders.set((id_, list(_all_finders(agents))))
    if isinstance(event, AgentSetup):
        _turn(event, agents, context)
    elif isinstance(event, AgentOutput):
        agent = agents.get(event.current_agent_name)
        turn.judge([call.tool_name for call in event.tool_calls], _offer(agent))


def may_find_tools(instance: object, parent: str | None) -> bool:
    """Tell whether a span inside the running step itself is an agent looking for its tools."""
    step, finders = _finders.get()
    return step == parent and any(each is instance for each in finders)


# Whose context it is.


def _began(context: Context, tags: dict[str, Any], begins: bool) -> str:
    """Return the run in which a context began; looked up once for each run of it."""
    blocks = at_work(GovernedLlamaIndex)
    if not blocks:
        return ""
    ours, store = results.place(blocks[0].session.family), context.store
    known = _stores.get(store)
    if known is None or known[0] != ours:
        began = _opened(context, ours, str(tags.get("llamaindex.run_id", "")), begins)
        known = _stores[store] = (ours, began)
    return known[1]


def _opened(context: Context, ours: str, run: str, begins: bool) -> str:
    """Mark where a run goes on from a context that isn't known to be this session's own.

    The ledger knows what this session has read; of what other sessions put into a context it knows
    nothing. A new, empty context is made this session's. Returns the run in which it began, empty
    if nothing tells.
    """
    state = _at_once(context.store.get_state())
    if isinstance(state, DictState):
        whose, _, began = str(state.get(POINTER, "")).partition(" ")
        if whose == ours:
            return began
        if begins and not dict(state.items()):
            _at_once(context.store.set(POINTER, f"{ours} {run}"))
            return run
    elif begins and state == type(state)():  # a class of the app's own takes no other key
        return run
    mark("history", ELSEWHERE)
    return ""


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine returns without waiting; raises `RuntimeError` where it must wait."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise RuntimeError("the state can't be read at once")


# An agent's turn.


def _agents(context: Context) -> dict[str, Any]:
    workflow: Any = context._face._workflow  # nothing public says it
    if isinstance(workflow, AgentWorkflow):
        return dict(workflow.agents)
    return {workflow.name: workflow} if isinstance(workflow, BaseWorkflowAgent) else {}


def _all_finders(agents: dict[str, Any]) -> Iterator[object]:
    for agent in agents.values():
        if agent.tool_retriever is not None:
            yield agent.tool_retriever._retriever
            yield from agent.tool_retriever._node_postprocessors


def _offer(agent: Any) -> turn.Offer:
    if agent is None:
        return turn.Offer((), True)
    return turn.Offer(tuple(agent.tools or ()), agent.tool_retriever is not None)


def _turn(event: AgentSetup, agents: dict[str, Any], context: Context) -> None:
    offer = _offer(agents.get(event.current_agent_name))
    turn.offer(offer.tools, offer.open)
    for tool in offer.tools:
        try:
            refuse_shadow(turn.name_of(tool), type(tool) is MemoryTool)
        except PermissionDenied as error:
            _refuse(event, error)
        if from_mcp(tool):
            for kind, reason in model.described(tool):  # type: ignore[arg-type]  # a FunctionTool
                mark(kind, reason)
    check_memory(_at_once(context.store.get("memory", default=None)))


def _refuse(event: AgentSetup, error: PermissionDenied) -> None:
    """Let the step fail when it reads its messages: a handler's own exception would be swallowed."""
    event.__dict__["input"] = _Refused(error)


class _Refused:
    """Messages that may not be read."""

    def __init__(self, error: PermissionDenied) -> None:
        self.error = error

    def _refuse(self, *_: object) -> NoReturn:
        raise self.error

    __iter__ = __getitem__ = __len__ = __bool__ = _refuse


def _not_found(event: ToolCallResult) -> None:
    """Know the agent's own answer to a call of a tool that doesn't exist; no tool returned it."""
    output = event.tool_output
    text = results.text_of(output.blocks)
    short = len(text) < len(event.tool_name) + 100
    if output.raw_output is None and short and text.startswith(f"Tool {event.tool_name} not found"):
        results.know_text(text)


# Memories.


def check_memory(memory: Any) -> None:
    """Mark for a memory that reads elsewhere, or that another session has filled."""
    blocks = at_work(GovernedLlamaIndex)
    if memory is None or not blocks:
        return
    if type(memory) is Memory:
        for block in memory.memory_blocks:
            if type(block) not in (SamsMemoryBlock, StaticMemoryBlock):
                begin("retriever", str(block.name), block)
    elif type(memory) not in (ChatMemoryBuffer, ChatSummaryMemoryBuffer):
        begin("retriever", type(memory).__name__, memory)
    ours = results.place(blocks[0].session.family)
    with _lock:
        known = _memories.get(id(memory))
        if known is None or known[0]() is not memory:
            key = id(memory)
            _memories[key] = (weakref.ref(memory, lambda _: _memories.pop(key, None)), ours)
            return
    if known[1] != ours:
        mark("history", SHARED)
