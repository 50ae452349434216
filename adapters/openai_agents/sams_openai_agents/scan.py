"""The allow-list: what in a model's input or output is plainly its own words or an insider's.

Everything is judged by its `type` as the provider sent it, so that what doesn't exist yet marks too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

from agents import Handoff
from agents.tool import DEFAULT_APPROVAL_REJECTION_MESSAGE

from sams_core import TOOL_NAMES
from sams_core.scopes import is_handle

CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
# What these return is never an insider's alone, so that no `trusted` spares their mark.
_MACHINES = frozenset({"shell_call", "local_shell_call", "apply_patch_call", "computer_call"})
# What a result of ours has; in a history from elsewhere another tool may have had such a name.
_MEMORY_KEYS: dict[str, set[str]] = {
    "memory_index": {"items", "cursor"},
    "memory_read": {"scope", "path", "version", "content", "labelled"},
    "memory_search": {"items", "cursor"},
    "memory_write": {"status", "path", "version", "change_id"},
}
_SECOND_HANDOFF = "Multiple handoffs detected, ignoring this one."
_ROLES = frozenset({"user", "assistant", "system", "developer"})
_PARTS = frozenset(
    {"input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text"}
)


@dataclass(frozen=True)
class Finding:
    """A reason for a mark: a kind of `sams_core.records.SOURCE_KINDS`, and what it says."""

    kind: Literal["tool", "content", "history"]
    name: str


@dataclass(frozen=True, slots=True)
class Known:
    """A call that was judged when the model made it: its tool, why it marks, and its message."""

    tool: str
    why: Finding | None
    message: str = ""


Judge = Callable[
    [str], Finding | None
]  # by a tool's name; None: all tools of that name are trusted


def field(item: object, key: str) -> Any:
    """Return a field of an item, which may be a mapping or an object."""
    return item.get(key) if isinstance(item, Mapping) else getattr(item, key, None)


def scan_output(items: Iterable[object], judge: Judge) -> Iterator[Finding]:
    """Find what marks in one answer of the model, before any of its calls runs."""
    for item in items:
        kind = field(item, "type")
        if kind in CALLS:
            found = judge(str(field(item, "name")))
            if found is not None:
                yield found
        elif kind in _MACHINES:
            yield Finding("tool", f"{kind}: what it returns is never an insider's alone")
        else:
            yield from _words(item, kind)


def scan_input(
    items: Iterable[object],
    judge: Judge,
    known: Callable[[str], Known | None],
    agents: Container[str] = (),
) -> Iterator[Finding]:
    """Find what marks in a conversation: `known` tells how a call was judged when it was made.

    `agents` are the names of those that the harness made.

    A call that is not known was made elsewhere; its result counts as clean only where every tool of
    its name is trusted here.
    """
    items = list(items)
    names: dict[object, str] = {}
    for item in items:
        if field(item, "type") in CALLS:
            names[field(item, "call_id")] = str(field(item, "name"))
    for item in items:
        kind = field(item, "type")
        if kind in CALLS:  # some providers count calls from 0 again: a result is of the call before
            names[field(item, "call_id")] = str(field(item, "name"))
        if kind in CALLS or kind in _MACHINES:
            continue  # the model's words; the result, or its lack, is judged
        if kind in CALLS.values():
            found = _result(item, names, judge, known, agents)
            if found is not None:
                yield found
        else:
            yield from _words(item, kind)


def _result(
    item: object,
    names: Mapping[object, str],
    judge: Judge,
    known: Callable[[str], Known | None],
    agents: Container[str],
) -> Finding | None:
    call_id, output = field(item, "call_id"), field(item, "output")
    name, judged = names.get(call_id), known(str(call_id))
    here = judged is not None and name in (None, judged.tool)
    if judged is not None and here:
        name = judged.tool
        if judged.why is not None:
            return judged.why
    if name is None:
        return Finding("content", "a tool's result without its call")
    if output in (DEFAULT_APPROVAL_REJECTION_MESSAGE, _SECOND_HANDOFF, f"Tool '{name}' not found."):
        return None  # the SDK's words: nothing ran
    if name in TOOL_NAMES:
        if _untrusted_memory(name, output, here):
            return Finding("content", f"{name}: a result that another session was shown")
        return None
    return None if here or _transfer(name, output, agents) else judge(name)


def _untrusted_memory(name: str, output: object, here: bool) -> bool:
    """Tell whether a memory tool's result shows labelled text, or isn't plainly one of ours."""
    try:
        value = json.loads(output) if isinstance(output, str) else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return not here  # a rejected or timed-out call; elsewhere perhaps what a trimmer left
    told = value["error"] if list(value) == ["error"] else value
    keys = _MEMORY_KEYS[name] if told is value else {"rule", "message"}
    ours = isinstance(told, dict) and keys <= told.keys()
    return _labelled(value) or not (here or ours)


def _labelled(value: object) -> bool:
    waiting = [value]  # what nests deeply must not end the run
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            handle = isinstance(each.get("path"), str) and is_handle(each["path"])
            if each.get("labelled", False) is not False and not handle:
                return True
            waiting += each.values()
    return False


def _transfer(name: str, output: object, agents: Container[str]) -> bool:
    """Tell whether this is a hand-off's result: the name of an agent, known or told by its call."""
    try:
        told = json.loads(output) if isinstance(output, str) and len(output) < 300 else None
    except ValueError:
        return False
    if not isinstance(told, dict) or list(told) != ["assistant"]:
        return False
    target: Any = SimpleNamespace(name=told["assistant"])
    if not isinstance(target.name, str):
        return False
    return target.name in agents or Handoff.default_tool_name(target) == name


def _words(item: object, kind: object) -> Iterator[Finding]:
    """Find what isn't plain words in a message or a thought."""
    role = field(item, "role")
    if kind is None and role is not None:
        kind = "message"
    if kind not in ("message", "reasoning") or (kind == "message" and role not in _ROLES):
        yield Finding("content", f"{kind}: nobody here observed how it came about")
        return
    for key in ("content", "summary"):
        parts = field(item, key)
        if parts is None or isinstance(parts, str):
            continue
        for part in parts if isinstance(parts, list | tuple) else [parts]:
            if isinstance(part, str):
                continue
            if field(part, "type") not in _PARTS:
                yield Finding("content", f"{field(part, 'type')}: not text")
            elif field(part, "annotations"):
                yield Finding("content", "citation: the model's provider read something")
