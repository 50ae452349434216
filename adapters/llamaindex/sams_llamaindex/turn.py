"""A turn's tool calls are judged together, when the model has answered and before any of them runs.

LlamaIndex runs them in parallel: without this the order of two calls would decide whether a write
beside a fetch is stored as marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from llama_index.core.tools.types import BaseTool

from sams_core.tools import TOOL_NAMES
from sams_llamaindex.govern import begin, here, mark
from sams_llamaindex.results import not_found, unlabelled
from sams_llamaindex.tools import MemoryTool
from sams_llamaindex.trust import covered, harmless

BESIDE = "a memory call beside one of a tool that the adapter couldn't look up"


@dataclass(frozen=True)
class Offer:
    """The tools that a model is offered; `open` where there may be others.

    `request` is the span of the request that offers them, inside an agent's turn whose offer is `base`.
    `team` are the tools of all agents that take part in the conversation.
    """

    tools: Sequence[object]
    open: bool
    request: str = ""
    base: Offer | None = None
    team: Sequence[object] = ()


_offer: ContextVar[Offer | None] = ContextVar("sams_llamaindex_offer", default=None)


def name_of(tool: Any) -> str:
    """Return a tool's name, whatever its author made of it."""
    try:
        return str(tool.metadata.name)
    except Exception:
        return type(tool).__name__


def offer(offered: Offer) -> None:
    """Remember what an agent offers its model in the step that runs."""
    _offer.set(offered)


def add(tools: Sequence[object]) -> None:
    """Remember tools that were found for the agent of the step that runs."""
    before = _offer.get()
    team = before.team if before else ()
    _offer.set(Offer((*(before.tools if before else ()), *tools), True, team=team))


def offered_by(id_: str, tools: object) -> None:
    """Remember the tools of a request that has them as objects, as `predict_and_call` does."""
    if isinstance(tools, Sequence) and (
        not tools or any(isinstance(each, BaseTool) for each in tools)
    ):
        current = _offer.get()
        base = current.base if current is not None and current.request else current
        _offer.set(Offer(tools, False, id_, base, base.team if base else ()))


def done(id_: str) -> None:
    """Note the end of a request: it has run what it offered, or a stream may still name the tools."""
    current = _offer.get()
    if current is None or not current.request:
        return
    base = current.base
    if "predict_and_call" in id_:
        _offer.set(base)
    elif current.request == id_:
        known = (*(base.tools if base else ()), *current.tools)
        _offer.set(Offer(known, base is None or base.open, "ended", base, current.team))


def judge(names: Iterable[str | None]) -> None:
    """Mark for the calls that are about to run, by the objects that bear the names."""
    called = list(names)
    current = _offer.get() or Offer((), True)
    by_name = {name_of(tool): tool for tool in current.tools}  # the last of a name wins, as there
    unknown = False
    for name in called:
        tool = by_name.get(name or "")
        if tool is None:
            unknown = unknown or name not in TOOL_NAMES
        elif type(tool) is not MemoryTool and not harmless(tool):
            begin("tool", name_of(tool), tool)
    if unknown and current.open and any(name in TOOL_NAMES for name in called):
        mark("tool", BESIDE)


def vouched(names: Sequence[str | None], text: str) -> bool:
    """Tell whether a past call's result is clean by what bears its tool's name here, today.

    So a session's own conversation stays clean in another process. `names` are those that the
    calls with the result's id have; a tool that isn't at hand, or not trusted, vouches for nothing.
    """
    current = _offer.get() or Offer((), True)
    return bool(names) and all(
        name is not None and _clean(name, text, (*current.tools, *current.team)) for name in names
    )


def _clean(name: str, text: str, tools: Sequence[Any]) -> bool:
    bearers = [tool for tool in tools if name_of(tool) == name]
    if not bearers:
        return not_found(name, text) or name == "handoff"  # which no other tool can be called
    return all(clean(tool, text) for tool in bearers)


def clean(tool: object, text: str) -> bool:
    """Tell whether what a tool returned doesn't mark here by itself."""
    if type(tool) is MemoryTool:
        return unlabelled(text)
    return harmless(tool) or all(covered(block.governed.trusted, tool) for block in here())
