"""All calls of one turn are judged before any of them acts, in whatever order they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool

from sams_core.errors import SamsError
from sams_core.govern import Governing
from sams_core.tools import TOOL_NAMES
from sams_langchain.govern import begin


def judge(
    where: list[Governing], messages: Sequence[BaseMessage], place: int, tools: Iterable[Any]
) -> None:
    """Mark for every open call of the answer at `place` whose tool is neither trusted nor ours.

    A call that has a result already isn't open: it was marked when it ran, or is a structured
    answer, which runs nothing. Raises `SessionClosed` where a mark can't be recorded, after all were
    tried.
    """
    answer = messages[place]
    if not where or not isinstance(answer, AIMessage):
        return
    known = {tool.name: tool for tool in tools if isinstance(tool, BaseTool)}
    done = {m.tool_call_id for m in messages[place + 1 :] if isinstance(m, ToolMessage)}
    failed: SamsError | None = None
    for call in answer.tool_calls:
        if call["name"] not in TOOL_NAMES and call["id"] not in done:
            try:
                begin(where, call["name"], known.get(call["name"]))
            except SamsError as error:
                failed = error
    if failed is not None:
        raise failed
