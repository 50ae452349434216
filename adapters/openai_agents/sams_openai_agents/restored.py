"""What a run goes on with: stored histories, paused states, conversations that lie at the provider."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agents import Agent, OpenAIConversationsSession, RunContextWrapper, RunState

from sams_core.govern import Trusted
from sams_core.taint import Family
from sams_openai_agents.inventory import Served, judge_names
from sams_openai_agents.scan import CALLS, Finding, Known, field, scan_input, scan_output

_RESULTS = frozenset(CALLS.values())
_ALL = 2**31 - 1  # more items than any history has; None would mean the history's own limit
_MOST_CALLS, _MOST_CHAINS = 100_000, 10_000  # a process remembers; what is forgotten only marks

Key = tuple[str, str, str]  # of a family; the object itself may go between two requests


@dataclass(frozen=True)
class Chain:
    """What the provider keeps under an id: whose governed runs left it there, and the block in it."""

    families: frozenset[Key]
    block: int | None  # its hash


# The oldest first; what `popitem` does is one step, whatever other threads do.
_calls: OrderedDict[tuple[Key, str], Known] = OrderedDict()
_chains: OrderedDict[str, Chain] = OrderedDict()


def key_of(family: Family) -> Key:
    """Return what identifies a family in this process."""
    return family.backend.location, family.container, family.name


class Calls:
    """The calls that this process judged when a family's model made them, by call id."""

    def __init__(self, family: Family) -> None:
        self._key = key_of(family)

    def __contains__(self, call_id: str) -> bool:
        return self.get(call_id) is not None

    def get(self, call_id: str) -> Known | None:
        """Return what is known of a call."""
        return _calls.get((self._key, call_id))

    def __setitem__(self, call_id: str, known: Known) -> None:
        _remember(_calls, (self._key, call_id), known, _MOST_CALLS)


def calls_of(family: Family) -> Calls:
    """Return a family's calls."""
    return Calls(family)


def _remember(kept: OrderedDict[Any, Any], key: object, value: object, most: int) -> None:
    """Keep a value as the newest, dropping the oldest ones above a limit."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > most:
        kept.popitem(last=False)


def left_at_provider(
    ids: Iterable[str | None], families: Iterable[Family], block: int | None
) -> None:
    """Remember that what lies at the provider under these ids was seen to its end, by whom."""
    keys = frozenset(map(key_of, families))
    for each in ids:
        if each and keys:
            _remember(_chains, each, Chain(keys, block), _MOST_CHAINS)


def unfinished(conversation: str | None) -> None:
    """Forget a conversation to which a request goes, until its answer was seen."""
    if conversation is not None:
        _chains.pop(conversation, None)


def block_at_provider(chain: str | None) -> int | None:
    """Return the hash of the context block that was sent on a conversation last."""
    found = _chains.get(chain) if chain is not None else None
    return found.block if found is not None else None


class Restored:
    """What the arguments of a run say it goes on with; read before the first request or tool."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.history = given.get("session")
        self.beside: list[Any] = []  # what a callback may make prose of before it is sent
        self.state: dict[str, Any] = {}
        self.waiting: set[Any] = set()  # calls for approval
        self.agent: Agent[Any] | None = None  # that paused; the first event may be its helper's
        paused = given.get("input")
        if isinstance(paused, RunState):
            # The user's own context object is none of our business, and may not be serialisable.
            self.state = paused.to_json(context_serializer=lambda _: {})
            self.waiting = {field(e.raw_item, "call_id") for e in paused.get_interruptions()}
            self.agent = paused._current_agent
        elif isinstance(paused, list) and self.history is not None:
            self.beside = paused
        self.conversation = given.get("conversation_id") or self.state.get("conversation_id")
        self.previous = given.get("previous_response_id") or self.state.get("previous_response_id")
        auto = given.get("auto_previous_response_id") or self.state.get("auto_previous_response_id")
        self.at_provider = bool(self.conversation or self.previous or auto)

    @property
    def chain(self) -> str | None:
        """The id under which the provider keeps what came before, if any."""
        return self.conversation or self.previous

    async def items(self, wrapper: RunContextWrapper[Any]) -> list[object]:
        """Return everything that was said before, whatever part of it will be sent again."""
        found: list[object] = list(_state_items(self.state))
        if self.history is not None:
            read = self.history.get_items
            more = {"wrapper": wrapper} if "wrapper" in inspect.signature(read).parameters else {}
            found += await read(limit=_limit(self.history), **more)
            found += self.beside
        return found

    def findings(
        self,
        items: list[object],
        agents: list[Agent[Any]],
        served: Served,
        trusted: Trusted,
        family: Family,
    ) -> Iterator[Finding]:
        """Find what marks in `items`, and in ids that no governed run of this family left."""
        judge = judge_names(agents, trusted, served)
        past = judge_names(agents, trusted, served, elsewhere=True)
        calls = calls_of(family)
        answered = {field(each, "call_id") for each in items if field(each, "type") in _RESULTS}
        answered -= self.waiting  # some providers count calls from 0 again
        waiting = [c for c in _state_calls(self.state) if field(c[1], "call_id") not in answered]
        for message, call in waiting:
            name, call_id = str(field(call, "name")), str(field(call, "call_id"))
            if call_id not in calls:
                calls[call_id] = Known(name, judge(name), message)
        names = {each.name for each in agents}
        made = scan_output([call for _, call in waiting], judge)
        for found in (*made, *scan_input(items, past, calls.get, names)):
            yield Finding("history", found.name)
        for each in (self.conversation, self.previous):
            chain = _chains.get(each) if each is not None else None
            if each is not None and (chain is None or key_of(family) not in chain.families):
                yield Finding("history", "a conversation at the provider that began elsewhere")


def _limit(history: object) -> int | None:
    """Return the limit that reads everything; older SDKs send one to OpenAI, which takes 100."""
    settings = getattr(history, "session_settings", None)
    own = isinstance(history, OpenAIConversationsSession) and field(settings, "limit") is None
    return None if own else _ALL


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += reversed(each.values())
        elif isinstance(each, list):
            waiting += reversed(each)  # as it was said: a result comes after its call


def _state_items(state: dict[str, Any]) -> Iterator[object]:
    """Yield every item in a paused state, also in those of agents that were its tools."""
    for each in _dicts(state):
        if isinstance(each.get("raw_item"), dict):
            yield each["raw_item"]
        for key in ("original_input", "pending_input"):
            if isinstance(each.get(key), list):
                yield from (item for item in each[key] if isinstance(item, dict) and _item(item))
        if "response_id" in each and isinstance(each.get("output"), list):
            yield from each["output"]


def _item(value: dict[str, Any]) -> bool:
    return "type" in value or "role" in value


def _state_calls(state: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each call that a model made, with the id of its message."""
    for each in _dicts(state):
        if "response_id" in each and isinstance(each.get("output"), list):
            for item in each["output"]:
                if isinstance(item, dict) and str(item.get("type")).endswith("_call"):
                    yield str(each["response_id"] or ""), item
