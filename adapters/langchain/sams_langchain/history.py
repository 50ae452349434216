"""Whose conversation this is: the messages that a family is known to have spoken or been answered.

In one process that is remembered by id. Across processes the graph's state carries a pointer (whose
conversation, up to which message); it only ever spares a mark to the session it names, whose ledger
knows what was read. A conversation without it, or with another's, marks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from sams_core.locks import ForkSafeLock
from sams_core.session import AgentSession
from sams_core.taint import Family
from sams_langchain.content import kind_of

FOREIGN = "a conversation from elsewhere"
STATE = "sams_history"

# In one order of keys: databases and clients have their own.
_in_order = json.JSONEncoder(sort_keys=True, default=repr).encode
_PARTS = 4  # of a pointer: owner, last message, how many, their digest
# What a process remembers at least: so many families, and of each so many answers and keys. What it has
# forgotten costs a mark, unless the pointer in the state covers it. No conversation has as many keys.
_FAMILIES, _TURNS, _KEYS = 1000, 100, 10_000


@dataclass(frozen=True)
class _Known:
    own: dict[str, None] = field(default_factory=dict)  # keys of messages, the newest last
    turns: dict[str, AIMessage] = field(default_factory=dict)  # by the ids of their calls


_lock = ForkSafeLock()


@lru_cache(_FAMILIES)
def _named(location: str, container: str, name: str) -> _Known:
    return _Known()


def _of(family: Family) -> _Known:
    found = family.kept.get(__name__)
    if not isinstance(found, _Known):
        # By name, because a server may open the session anew for each request.
        with _lock:
            found = _named(family.backend.location, family.container, family.name)
        family.kept[__name__] = found
    return found


def remember(family: Family, messages: Iterable[BaseMessage] = (), call_id: object = None) -> None:
    """Take messages, or the call with this id, for the family's own."""
    known = _of(family)
    if isinstance(call_id, str):
        known.own["call " + call_id] = None
    for message in messages:
        known.own.update(dict.fromkeys(keys(message)))
        if isinstance(message, AIMessage):
            if not isinstance(message.content, str) or _beside(message):
                for told in (message.content, message.text):  # all that a chain or a client keeps
                    known.own[_text(told, message.tool_calls)] = None
            for call in message.tool_calls:
                known.turns.pop(call["id"] or "", None)  # so that the newest is the last one
                known.turns[call["id"] or ""] = message
    if len(known.turns) > 2 * _TURNS:
        _forget(known.turns, _TURNS)
    if len(known.own) > 2 * _KEYS:
        _forget(known.own, _KEYS)


def _forget(kept: dict[str, Any], most: int) -> None:
    for old in list(kept)[:-most]:
        kept.pop(old, None)


def ran(family: Family, name: str, arguments: object) -> AIMessage | None:
    """Take for the family's own the newest call of a tool that was run by its arguments alone.

    Return the answer that made it, if it is remembered and its turn wasn't judged yet.
    """
    known = _of(family)
    for answer in [*known.turns.values()][::-1]:
        made = [c for c in answer.tool_calls if (c["name"], c["args"]) == (name, arguments)]
        for call in made:
            remember(family, call_id=call["id"])
        if made:
            return None if f"judged {answer.id}" in known.own else answer
    return None


def judged(family: Family, messages: Iterable[BaseMessage]) -> None:
    """Note that the turns of these answers were judged, with what came after them."""
    _of(family).own.update({f"judged {message.id}": None for message in messages})


def heard(family: Family, call_id: str | None) -> AIMessage | None:
    """Return the newest answer of the family's models that made this call, if it is remembered."""
    return _of(family).turns.get(call_id or "")


def keys(message: BaseMessage) -> list[str]:
    """Return what a model's answer or a tool's result is known by; nothing for other messages."""
    if isinstance(message, ToolMessage):
        return ["call " + message.tool_call_id]
    if not isinstance(message, AIMessage):
        return []
    text = _text(message.content, message.tool_calls, _beside(message))
    return [text] if message.id is None else [text, "said " + message.id]


def _beside(message: AIMessage) -> list[object]:
    """Return what else of an answer is sent back to a model."""
    more = [(k, v) for k, v in message.additional_kwargs.items() if v and k != "parsed"]
    return [*message.invalid_tool_calls, *more]


def _text(content: object, calls: Sequence[Any], beside: Sequence[object] = ()) -> str:
    """Return what an answer's text is known by; what is beside it only if it comes with it."""
    parts = (content, [(c["name"], c["args"], c["id"]) for c in calls], *beside)
    try:
        told = _in_order(parts)
    except (TypeError, ValueError):  # keys of several types, or a circle
        told = repr(parts)
    return "text " + hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def _known(message: Any, known: Sequence[Set[str]]) -> bool:
    """Tell whether one of its keys is in one of the sets; text is hashed only if nothing else tells."""
    kind = kind_of(message.__class__)
    if kind is AIMessage:
        key = "" if message.id is None else "said " + message.id
    elif kind is ToolMessage:
        key = "call " + message.tool_call_id
    else:
        return True
    if key:
        for each in known:
            if key in each:
                return True
    return any(not each.isdisjoint(keys(message)) for each in known)


def strange(family: Family, messages: Iterable[BaseMessage], vouched: Set[str]) -> bool:
    """Tell whether a model's answer or a tool's result among messages isn't known as the family's."""
    known = (_of(family).own.keys(), vouched)
    return not all(_known(message, known) for message in messages)


class Pointer(list[str]):
    """What the state says, as the middleware wrote it: a caller can only bring a plain list."""


def pointer(
    session: AgentSession, messages: Sequence[BaseMessage], before: object = None
) -> Pointer:
    """Return what the state says: whose conversation this is, and up to its last message what it says.

    With the pointer of `before`, only what came since is looked at.
    """
    owner = _owner(session.family.container, session.family.name)
    digest, since = owner, 0
    if isinstance(before, Pointer) and len(before) == _PARTS and before[0] == owner:
        count = int(before[2])
        if 0 < count <= len(messages) and messages[count - 1].id == before[1]:
            digest, since = before[3], count
    last = messages[-1].id if messages else None
    return Pointer([owner, last or "", str(len(messages)), _digest(digest, messages[since:])])


def claim(said: object, before: Sequence[str] | None) -> Pointer | None:
    """Return a pointer that covers nothing for what a caller says, unless it says what is known."""
    said = getattr(said, "value", said)  # of LangGraph's `Overwrite`
    owner = said[0] if isinstance(said, list | tuple) and said else said
    if before is not None and (not owner or owner == before[0]):
        return None
    return Pointer([str(owner), "", "0", ""])


def _digest(digest: str, messages: Iterable[BaseMessage]) -> str:
    for message in messages:
        for key in keys(message):
            told = f"{digest} {key}".encode("utf-8", "surrogatepass")
            digest = hashlib.sha256(told).hexdigest()[:32]
    return digest


def _covered(session: AgentSession, messages: Sequence[BaseMessage], said: object) -> int:
    """Return how many messages the pointer covers: none if one of them has another text by now."""
    if not isinstance(said, list) or len(said) != _PARTS or not messages:
        return 0
    owner = _owner(session.family.container, session.family.name)
    ids = [message.id for message in messages]
    if said[0] != owner or said[1] not in ids:
        return 0
    count = ids.index(said[1]) + 1
    return count if _digest(owner, messages[:count]) == said[3] else 0


@lru_cache(_FAMILIES)
def _owner(container: str, name: str) -> str:
    return hashlib.sha256(repr((container, name)).encode()).hexdigest()[:32]


def own(
    session: AgentSession,
    messages: Sequence[BaseMessage],
    said: object,
    vouched: Set[str],
    entering: bool = False,
) -> bool:
    """Tell whether all of a graph's messages are this family's, and remember them.

    What the pointer covers is; after that an answer must be known in this process, and a result must
    belong to a call that is the family's: whatever nobody vouched for was marked when it was called.
    Nothing is under another family's pointer, since a summary of its conversation looks like a user.
    """
    owner = _owner(session.family.container, session.family.name)
    clean = not (isinstance(said, list) and len(said) == _PARTS and said[0] != owner and messages)
    covered: int | None = None  # what few ask for, and takes reading all of it
    calls: set[str] = set()
    answers: list[AIMessage] = []  # whose calls aren't among them yet
    heard = (_of(session.family).own.keys(),)
    fresh = []
    for number, message in enumerate(messages):
        mine = _known(message, heard)
        if mine and entering and isinstance(message, AIMessage):
            mine = keys(message)[0] in heard[0]  # a caller may bring another text under a known id
        if not mine:
            if covered is None:
                covered = _covered(session, messages, said)
            fresh.append(message)
            while answers:
                answer = answers.pop()
                made = (
                    *answer.tool_calls,
                    *answer.invalid_tool_calls,
                )  # LangChain answers the latter
                calls.update("call " + (call["id"] or "") for call in made)
            mine = number < covered or _known(message, (vouched, calls))
        if mine and isinstance(message, AIMessage):
            answers.append(message)
        clean = clean and mine
    remember(session.family, fresh)  # once marked, they are the family's too
    return clean


def messages_of(state: object, call_id: str | None = None) -> list[BaseMessage]:
    """Return the messages of a graph's state, whatever their key: those with that call, if given."""
    if isinstance(state, list):
        values: list[Any] = [state]
    elif isinstance(state, Mapping):
        values = [state.get("messages"), *state.values()]
    else:
        values = [getattr(state, "messages", None), *getattr(state, "__dict__", {}).values()]
    for value in values:
        if not isinstance(value, list):
            continue
        messages = [each for each in value if isinstance(each, BaseMessage)]
        if messages and (call_id is None or turn(messages, call_id) is not None):
            return messages
    return []


def turn(messages: Sequence[BaseMessage], call_id: str | None) -> int | None:
    """Return the place of the model's answer that made this call, the newest if ids repeat."""
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if isinstance(message, AIMessage) and any(c["id"] == call_id for c in message.tool_calls):
            return number
    return None
