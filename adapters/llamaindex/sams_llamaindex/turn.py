"""A turn's tool calls are judged together, when the model has answered and before any of them runs.

LlamaIndex runs them in parallel: without this the order of two calls would decide whether a write
beside a fetch is stored as marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from sams_core.tools import TOOL_NAMES
from sams_llamaindex.govern import begin, mark
from sams_llamaindex.tools import MemoryTool
from sams_llamaindex.trust import harmless

BESIDE = "a memory call beside one of a tool that the adapter couldn't look up"


@dataclass(frozen=True)
class Offer:
    """The tools that a model is offered; `open` where there may be others.

    `request` is the span of the request that offers them, inside an agent's turn whose offer is `base`.
    """

    tools: Sequence[object]
    open: bool
    request: str = ""
    base: Offer | None = None


_offer: ContextVar[Offer | None] = ContextVar("sams_llamaindex_offer", default=None)


def name_of(tool: Any) -> str:
    """Return a tool's name, whatever its author made of it."""
    try:
        return str(tool.metadata.name)
    except Exception:
        return type(tool).__name__


def offer(tools: Sequence[object], open: bool) -> None:
    """Remember what an agent offers its model in the step that runs."""
    _offer.set(Offer(tools, open))


def add(tools: Sequence[object]) -> None:
    """Remember tools that were found for the agent of the step that runs."""
    before = _offer.get()
    _offer.set(Offer((*(before.tools if before else ()), *tools), True))


def offered_by(id_: str, arguments: dict[str, Any]) -> None:
    """Remember the tools of a request that has them as objects, as `predict_and_call` does."""
    tools = arguments.get("tools")
    if isinstance(tools, Sequence):
        current = _offer.get()
        base = current.base if current is not None and current.request else current
        _offer.set(Offer(tools, False, id_, base))


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
        _offer.set(Offer(known, base is None or base.open, "ended", base))


def judge(names: Iterable[str | None], of: Offer | None = None) -> None:
    """Mark for the calls that are about to run, by the objects that bear the names."""
    called = list(names)
    current = of or _offer.get() or Offer((), True)
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
