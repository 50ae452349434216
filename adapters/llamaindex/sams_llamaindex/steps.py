"""Workflow steps: where an agent's turn begins, what it is given, and where its context comes from.

A step's span carries its event and its context before the step's body runs. So it is seen here, in
time: tools that shadow memory tools, memories that read elsewhere, runs that go on from a context
which another session (or nobody known) has filled, and the id of the call that a tool answers.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Coroutine, Hashable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

from llama_index.core.agent.workflow import (
    AgentOutput,
    AgentWorkflow,
    CodeActAgent,
    FunctionAgent,
    ReActAgent,
    ToolCall,
)
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.agent.workflow.workflow_events import AgentInput, AgentSetup, ToolCallResult
from llama_index.core.base.llms.types import ChatResponse, MessageRole
from llama_index.core.memory import (
    ChatMemoryBuffer,
    ChatSummaryMemoryBuffer,
    Memory,
    StaticMemoryBlock,
)
from llama_index.core.workflow import Context, Workflow
from workflows.context.state_store import DictState
from workflows.events import Event, StartEvent, StopEvent
from workflows.runtime.types.results import StepWorkerStateContextVar

from sams_core import PermissionDenied
from sams_core.govern import Governing, at_work, refuse_shadow
from sams_llamaindex import model, results, turn
from sams_llamaindex.govern import Block, GovernedLlamaIndex, begin, mark
from sams_llamaindex.slots import SamsMemoryBlock
from sams_llamaindex.tools import MemoryTool
from sams_llamaindex.trust import from_mcp

POINTER = "sams_session"  # in a context's store: a hash, which only says whose context it is
ELSEWHERE = "a workflow context that this session has not filled"
SHARED = "a memory that another session has filled"


@dataclass(eq=False)
class Run:
    """A workflow's run: inside which blocks it was begun, and which tools were found for it.

    Its steps count too: where a task that awaits a run is cancelled, the step that runs goes on.
    """

    blocks: list[Block]
    steps: set[str] = field(default_factory=set)
    over: bool = False
    found: dict[str, object] = field(default_factory=dict)
    asked: str | None = None  # the turn's last message, before a state is written into it


@dataclass
class Step:
    """The workflow step that runs: what names its context's beginning, and which call it answers."""

    id: str
    worker: object
    event: Event
    run: Run | None
    began: str
    store: Any
    tool_id: str = ""
    calls: dict[str, int] = field(default_factory=dict)


running: ContextVar[Step | None] = ContextVar("sams_llamaindex_step", default=None)
_run: ContextVar[Run | None] = ContextVar("sams_llamaindex_run", default=None)
_workflow: ContextVar[Workflow] = ContextVar("sams_llamaindex_workflow")
_finders: ContextVar[tuple[str, list[Any]]] = ContextVar(
    "sams_llamaindex_finders", default=("", [])
)
# Agents and teams that offer what their lists and their retrievers hold, and nothing else.
_LISTED = (FunctionAgent, ReActAgent, CodeActAgent)
# By the store of a run's context: whose it is, and what names its beginning.
_stores: weakref.WeakKeyDictionary[Any, tuple[str, str]] = weakref.WeakKeyDictionary()


def begun() -> None:
    """Note a run that is about to be put on the loop, whose tasks copy this very context."""
    run = Run([block for block in at_work(GovernedLlamaIndex) if isinstance(block, Block)])
    _run.set(run)
    for block in run.blocks:
        block.runs.add(run)


def run_entered(id_: str, workflow: Workflow) -> None:
    """Note which workflow's steps run from here on."""
    if ".run-" in id_:
        _workflow.set(workflow)


def run_left(id_: str, well: bool) -> None:
    """Note that a run has ended; `well` where nothing of it goes on."""
    if ".run-" in id_:
        _ended(_run.get(), None, well)


def left(id_: str, result: object) -> None:
    """Note that a step has ended; who streams a run hears of its last one before the run has ended."""
    step = running.get()
    if step is not None and step.id == id_:
        _ended(step.run, id_, isinstance(result, StopEvent))
        if isinstance(result, StopEvent):
            _left_in(step.store)


def _ended(run: Run | None, step: str | None, well: bool) -> None:
    if run is None:
        return
    run.steps.discard(step or "")
    run.over |= well or step is None
    if run.over and (well or not run.steps):
        for block in run.blocks:
            block.runs.discard(run)
        run.blocks.clear()  # a context may hold on to the last run that was begun in it


def entered(id_: str, bound: Any) -> None:
    """Judge a step that begins; anything else that has no instance is none of ours."""
    event = next((v for v in bound.arguments.values() if isinstance(v, Event)), None)
    if event is None:
        return
    worker, outer = StepWorkerStateContextVar.get(None), running.get()
    if worker is None or (outer is not None and outer.worker is worker):
        return  # a function with a span of its own that happens to take an event
    context = Context.get_step_context()
    tool_id = event.tool_id if isinstance(event, ToolCall) else ""
    began = _began(context, isinstance(event, StartEvent))
    run = _run.get()
    if run is not None:
        run.steps.add(id_)
    running.set(Step(id_, worker, event, run, began, context.store, tool_id))
    if not at_work(GovernedLlamaIndex):
        return
    if isinstance(event, ToolCallResult):
        _not_found(event)
    agents = _agents()
    finders = [agent.tool_retriever for agent in agents.values() if agent.tool_retriever]
    _finders.set((id_, finders))
    if isinstance(event, AgentInput) and event.input:
        for kind, reason in model.others(event.input):
            mark(kind, reason)
        if run is not None:
            run.asked = event.input[-1].content
    elif isinstance(event, AgentSetup):
        _turn(event, agents, context)
    elif isinstance(event, AgentOutput):
        turn.offer(_offer(agents.get(event.current_agent_name), agents))
        _answered(event)


def may_find_tools(instance: object, parent: str | None) -> bool:
    """Tell whether a span inside the running step itself is an agent looking for its tools."""
    step, finders = _finders.get()
    return step == parent and any(
        each is instance
        for found in finders
        for each in (found.retriever, *found.node_postprocessors)
    )


def found(instance: object, nodes: list[Any]) -> None:
    """Look at the tools that were found for an agent, before it offers or calls one of them."""
    step = running.get()
    run = step.run if step is not None else None
    for finder in _finders.get()[1]:
        if finder.retriever is instance and run is not None and step is not None:
            tools = [finder.object_node_mapping.from_node(each.node) for each in nodes]
            run.found.update((turn.name_of(tool), tool) for tool in tools)
            turn.add(tools)
            _check(tools, step.event)


# Whose context it is.


def _began(context: Context, begins: bool) -> str:
    """Return what names the beginning of a context; looked up once for each run of it."""
    blocks = at_work(GovernedLlamaIndex)
    if not blocks:  # one that opens in the step itself doesn't know which run this is
        return uuid.uuid4().hex
    ours, store = results.place(blocks[0].session.family), context.store
    known = _stores.get(store)
    if known is None or known[0] != ours:
        began = _opened(context, ours, begins, blocks)
        known = _stores[store] = (ours, began)
    return known[1]


def _opened(context: Context, ours: str, begins: bool, blocks: list[Governing]) -> str:
    """Mark where a run goes on from a context that isn't known to be this session's own.

    The ledger knows what this session has read; of what other sessions put into a context it knows
    nothing. A new, empty context is made this session's. Returns what names its beginning, empty if
    nothing tells. (The app may give two runs the same id.)
    """
    new = uuid.uuid4().hex if begins else ""
    state = _at_once(context.store.get_state())
    if isinstance(state, DictState):
        whose, _, began = str(state.get(POINTER, "")).partition(" ")
        if whose == ours:
            return began
        if begins and not dict(state.items()):
            _at_once(context.store.set(POINTER, f"{ours} {new}"))
            return new
        mark("history", ELSEWHERE)
        new = began or new
        if new:  # after two sessions it is neither's
            _at_once(context.store.set(POINTER, f"- {new}"))
    elif not (begins and (_untouched(state) or _as_left(state, blocks))):
        mark("history", ELSEWHERE)  # a class of the app's own takes no pointer
    return new


def _left_in(store: Any) -> None:
    """Know a state of the app's own class as a run leaves it, since there is no place for a pointer."""
    state = _at_once(store.get_state()) if at_work(GovernedLlamaIndex) else None
    if state is not None and not isinstance(state, DictState):
        results.know_text(_written(state), clean=True)


def _as_left(state: Any, blocks: list[Governing]) -> bool:
    return not any(results.foreign(block.session.family, _written(state)) for block in blocks)


def _written(state: Any) -> str:
    with suppress(Exception):  # what can't be written down is as if it had been changed
        return f"state {state.model_dump_json()}"
    return f"state {uuid.uuid4().hex}"


def _untouched(state: Any) -> bool:
    """Tell whether a state is as its class makes it; ids and times of its own are new each time."""
    fresh, again = dict(type(state)()), dict(type(state)())
    new = {key for key, value in fresh.items() if value != again[key]} - state.model_fields_set
    return all(
        isinstance(value, Hashable) if key in new else value == fresh.get(key, state)
        for key, value in dict(state).items()
    )


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine returns without waiting; raises `RuntimeError` where it must wait."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise RuntimeError("the state can't be read at once")


# An agent's turn.


def _agents() -> dict[str, Any]:
    workflow = _workflow.get()
    if isinstance(workflow, AgentWorkflow):
        return dict(workflow.agents)
    return {workflow.name: workflow} if isinstance(workflow, BaseWorkflowAgent) else {}


def _offer(agent: Any, agents: dict[str, Any]) -> turn.Offer:
    """Return what an agent offers; open where that is more than its list, and so not all known."""
    run, workflow = _run.get(), type(_workflow.get())
    listed = type(agent) in _LISTED and workflow in (AgentWorkflow, *_LISTED)
    found = () if run is None else run.found.values()
    tools = () if agent is None else (*(agent.tools or ()), *found)
    team = [tool for each in agents.values() for tool in each.tools or ()]
    return turn.Offer(tools, not listed or agent.tool_retriever is not None, team=team)


def _turn(event: AgentSetup, agents: dict[str, Any], context: Context) -> None:
    agent = agents.get(event.current_agent_name)
    offer = _offer(agent, agents)
    turn.offer(offer)
    _formatted(event)
    # A model's own class may ask its provider without any of the methods that have spans.
    asked = {"messages": event.input}
    for kind, reason in () if agent is None else model.request(agent.llm, asked, {}):
        mark(kind, reason)
    _check(offer.tools, event, getattr(agent, "tools", None))
    check_memory(_at_once(context.store.get("memory", default=None)))


def _formatted(event: AgentSetup) -> None:
    """Know the question that the state was written into: LlamaIndex changes the app's own message."""
    run = _run.get()
    if run is not None and run.asked is not None:
        last = event.input[-1]
        if last.role == MessageRole.USER and last.content != run.asked:
            results.know_text(last.content or "")


def _answered(event: AgentOutput) -> None:
    """Judge an agent's answer again: a model's own class may have streamed it without a word."""
    response = ChatResponse(message=event.response, raw=event.raw)
    for reason in model.answer(response):
        mark("content", reason)
    turn.judge([call.tool_name for call in event.tool_calls])
    results.know_text(*model.said(response))


def _check(tools: Sequence[Any], event: Event, whole: Any = None) -> None:
    """Look at what a model is about to be offered; `whole` is the agent's own list."""
    try:
        for block in at_work(GovernedLlamaIndex):
            block.governed.trusted.refuse_whole(whole)
        for tool in tools:
            refuse_shadow(turn.name_of(tool), type(tool) is MemoryTool)
    except PermissionDenied as error:
        _refuse(event, error)
    for tool in tools:
        if from_mcp(tool):
            for kind, reason in model.described(tool):
                mark(kind, reason)


def _refuse(event: Event, error: PermissionDenied) -> None:
    """Let the step fail when it reads its event: a handler's own exception would be swallowed."""
    event.__dict__["input" if isinstance(event, AgentSetup) else "tool_name"] = _Refused(error)


class _Refused:
    """What may not be read."""

    def __init__(self, error: PermissionDenied) -> None:
        self.error = error

    def _refuse(self, *_: object) -> NoReturn:
        raise self.error

    __iter__ = __getitem__ = __len__ = __bool__ = __hash__ = _refuse


def _not_found(event: ToolCallResult) -> None:
    """Know the agent's own answer to a call of a tool that doesn't exist; no tool returned it."""
    output = event.tool_output
    text = results.text_of(output.blocks)
    if output.raw_output is None and results.not_found(event.tool_name, text):
        results.know_text(text, clean=True)


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
    if results.owner(memory, ours) not in (None, ours):
        mark("history", SHARED)
