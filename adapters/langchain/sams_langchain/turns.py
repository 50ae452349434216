"""All calls of one turn are judged before any of them acts, in whatever order they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool

from sams_core.errors import SamsError
from sams_core.govern import Governing
from sams_core.tools import TOOL_NAMES
from sams_langchain import history
from sams_langchain.govern import begin, mark, named, vouched

_EDITED = "hitl_edited_tool_calls"  # where LangChain keeps what an approver made of a call


@dataclass(frozen=True)
class Judged:
    """That the turn of a call was judged in a block that lasts no longer than the call."""

    call_id: str | None
    state: object
    unique: str | None


def judge_call(
    where: list[Governing],
    state: object,
    call_id: str | None,
    tools: Iterable[Any],
    messages: Sequence[BaseMessage] | None = None,
    place: int | None = None,
    arguments: object = None,
) -> str | None:
    """Judge the turn that a call is part of; return an id that no call of another turn has.

    The turn is found in the graph's state, or is what the model was heard to say in these blocks. What
    the state has up to the turn may be another session's, where a run goes on that was interrupted.
    A caller that has looked for it gives `messages` and the turn's `place` among them. Raises
    `SessionClosed` where a mark can't be recorded, after all were tried.
    """
    if messages is None:
        messages = history.messages_of(state, call_id)
        place = history.turn(messages, call_id)
    if place is not None:
        led = messages[: place + 1]
        mark([block for block in where if _strange(block, where, led)], "history", history.FOREIGN)
        edited = state.get(_EDITED) if isinstance(state, Mapping) else None
        judge(where, messages[place], tools, messages[place + 1 :], edited)
        before = messages[place - 1].id if place else None  # a cache gives an answer's id again
        return f"{call_id} {messages[place].id or place} {before}"
    for block in where:
        answer = history.heard(block.session.family, call_id)
        if answer is not None:
            judge(where, answer, tools)
            if arguments is None or _made(answer, call_id, arguments):
                return f"{call_id} {answer.id}"
    # A tool's own call inside a turn that was judged waited for nobody.
    inside = bool(where) and isinstance(where[0].call, Judged)
    if not inside and _resumable():  # a turn that waited goes on, and its conversation isn't here
        mark(where, "history", history.FOREIGN)
    return call_id


def _resumable() -> bool:
    """Tell whether this runs in a graph or workflow, which may hand on what an earlier run was told."""
    given = (var_child_runnable_config.get() or {}).get("configurable", {})
    # Without a checkpointer no turn waits; a LangGraph that doesn't tell may have one.
    return bool(given.get("checkpoint_ns")) and given.get("__pregel_checkpointer", 1) is not None


def _made(answer: AIMessage, call_id: str | None, arguments: object) -> bool:
    # Some models number their calls anew in each turn, so an id alone proves nothing.
    return any((c["id"], c["args"]) == (call_id, arguments) for c in answer.tool_calls)


def _strange(block: Governing, where: list[Governing], messages: Sequence[BaseMessage]) -> bool:
    family = block.session.family
    return history.strange(family, messages, vouched(where, family))


def judge(
    where: list[Governing],
    answer: BaseMessage,
    tools: Iterable[Any],
    after: Sequence[BaseMessage] = (),
    edited: Mapping[str, Any] | None = None,
) -> None:
    """Mark for every open call of an answer whose tool is neither trusted nor ours.

    A call with a result among the messages `after` isn't open: it was marked when it ran, or is a
    structured answer, which runs nothing. A tool that isn't among `tools` is looked for among the
    trusted ones: what runs under its name is judged again when it starts, by identity.
    """
    if not where or not isinstance(answer, AIMessage):
        return
    known = {tool.name: tool for tool in tools if isinstance(tool, BaseTool)}
    done = {message.tool_call_id for message in after if isinstance(message, ToolMessage)}
    names = []
    for call in answer.tool_calls:
        if call["id"] not in done:
            instead = (edited or {}).get(call["id"] or "")
            names += [call["name"], *([instead["name"]] if instead else [])]
    failed: SamsError | None = None
    for name in dict.fromkeys(names):
        if name not in TOOL_NAMES:
            try:
                begin(where, name, known.get(name) or named(where, name))
            except SamsError as error:
                failed = error
    if failed is not None:
        raise failed
