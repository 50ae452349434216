"""Whose conversation this is: the messages that a family is known to have spoken or been answered.

In one process that is remembered by id. Across processes the graph's state carries a pointer (whose
conversation, up to which message); it only ever spares a mark to the session it names, whose ledger
knows what was read. A conversation without it, or with another's, marks.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from sams_core.session import AgentSession
from sams_core.taint import Family

FOREIGN = "a conversation from elsewhere"
STATE = "sams_history"

_seen: weakref.WeakKeyDictionary[Family, set[str]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def _of(family: Family) -> set[str]:
    with _lock:
        return _seen.setdefault(family, set())


def remember(family: Family, messages: Iterable[BaseMessage] = (), call_id: object = None) -> None:
    """Take messages, or the call with this id, for the family's own."""
    own = _of(family)
    if isinstance(call_id, str):
        own.add("call " + call_id)
    for message in messages:
        if isinstance(message, AIMessage):
            own.add(_key(message))
        elif isinstance(message, ToolMessage):
            own.add("call " + message.tool_call_id)


def _key(message: AIMessage) -> str:
    if message.id is not None:
        return "said " + message.id
    told = repr((message.content, [(c["name"], c["args"], c["id"]) for c in message.tool_calls]))
    return "text " + hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def strange(family: Family, messages: Iterable[BaseMessage]) -> bool:
    """Tell whether a model's answer or a tool's result among messages isn't known as the family's."""
    own = _of(family)
    for message in messages:
        if isinstance(message, AIMessage) and _key(message) not in own:
            return True
        if isinstance(message, ToolMessage) and "call " + message.tool_call_id not in own:
            return True
    return False


def pointer(session: AgentSession, messages: Sequence[BaseMessage]) -> list[str]:
    """Return what the state says: whose conversation this is, up to its last message."""
    last = messages[-1].id if messages else None
    return [_owner(session), last or ""]


def _owner(session: AgentSession) -> str:
    family = session.family
    return hashlib.sha256(repr((family.container, family.name)).encode()).hexdigest()[:32]


def own(session: AgentSession, messages: Sequence[BaseMessage], said: object) -> bool:
    """Tell whether all of a graph's messages are this family's, and remember them.

    What the pointer covers is; after that an answer must be known in this process, and a result must
    belong to a call that is the family's: whatever nobody vouched for was marked when it was called.
    """
    upto = -1
    if isinstance(said, list) and len(said) == 2 and said[0] == _owner(session):
        ids = [message.id for message in messages]
        upto = ids.index(said[1]) if said[1] in ids else -1
    known = _of(session.family)
    calls: set[str | None] = set()
    clean = True
    for number, message in enumerate(messages):
        if isinstance(message, AIMessage):
            mine = number <= upto or _key(message) in known
            calls |= {call["id"] for call in message.tool_calls} if mine else set()
        elif isinstance(message, ToolMessage):
            answered = message.tool_call_id in calls
            mine = number <= upto or answered or "call " + message.tool_call_id in known
        else:
            continue
        clean = clean and mine
    remember(session.family, messages)  # once marked, they are the family's too
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
