"""What a run goes on with: stored histories, paused states, conversations that lie at the provider."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agents import Agent, RunContextWrapper, RunState

from sams_core.govern import Trusted
from sams_core.taint import Family
from sams_openai_agents.inventory import Served, judge_names
from sams_openai_agents.scan import CALLS, Finding, Known, field, scan_input, scan_output

_RESULTS = frozenset(CALLS.values())
_ALL = 2**31 - 1  # more items than any history has; None would mean the history's own limit
_MOST = 10_000  # calls or ids that are remembered a family; what is forgotten only marks

Key = tuple[str, str, str]  # of a family; the object itself may go between two requests


@dataclass(frozen=True)
class Chain:
    """What the provider keeps under an id: whose governed runs left it there, and the block in it."""

    families: frozenset[Key]
    block: str


_calls: dict[Key, dict[str, Known]] = {}
_chains: dict[str, Chain] = {}


def key_of(family: Family) -> Key:
    """Return what identifies a family in this process."""
    return family.backend.location, family.container, family.name


def calls_of(family: Family) -> dict[str, Known]:
    """Return the calls that this process judged when a family's model made them, by call id."""
    calls = _calls.get(key_of(family), {})
    remember(_calls, key_of(family), calls)
    return calls


def remember(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """Keep a value as the newest, dropping the oldest ones above a limit."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > _MOST:
        kept.pop(next(iter(kept)), None)


def left_at_provider(ids: Iterable[str | None], families: Iterable[Family], block: str) -> None:
    """Remember that what lies at the provider under these ids was seen to its end, by whom."""
    keys = frozenset(map(key_of, families))
    for each in ids:
        if each and keys:
            remember(_chains, each, Chain(keys, block))


def unfinished(conversation: str | None) -> None:
    """Forget a conversation to which a request goes, until its answer was seen."""
    if conversation is not None:
        _chains.pop(conversation, None)


def block_at_provider(chain: str | None) -> str:
    """Return the context block that was sent on a conversation last."""
    found = _chains.get(chain) if chain is not None else None
    return found.block if found is not None else ""


class Restored:
    """What the arguments of a run say it goes on with; read before the first request or tool."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.history = given.get("session")
        self.state: dict[str, Any] = {}
        self.agent: Agent[Any] | None = None  # that paused; the first event may be its helper's
        paused = given.get("input")
        if isinstance(paused, RunState):
            # The user's own context object is none of our business, and may not be serialisable.
            self.state = paused.to_json(context_serializer=lambda _: {})
            self.agent = paused._current_agent
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
            found += await read(limit=_ALL, **more)
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
        planned = list(_state_calls(self.state))
        for message, call in planned:
            name, call_id = str(field(call, "name")), field(call, "call_id")
            why = (past if call_id in answered else judge)(name)
            calls.setdefault(str(call_id), Known(name, why, message))
        names = {each.name for each in agents}
        made = scan_output([call for _, call in planned], judge)
        for found in (*made, *scan_input(items, past, calls, names)):
            yield Finding("history", found.name)
        for each in (self.conversation, self.previous):
            chain = _chains.get(each) if each is not None else None
            if each is not None and (chain is None or key_of(family) not in chain.families):
                yield Finding("history", "a conversation at the provider that began elsewhere")


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
