"""`SamsStore`: governed memory as a LangGraph store, for tools that know such stores only."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from sams_core.ambient import hop, off_loop
from sams_core.errors import (
    InvalidArguments,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    VersionConflict,
)
from sams_core.govern import Bound
from sams_core.records import Entry, Listing
from sams_core.redaction import policy_of
from sams_core.scopes import is_handle
from sams_core.screen import check_name
from sams_core.session import AgentSession
from sams_core.tools import LABEL, QUEUED
from sams_langchain.govern import Govern, rejoined
from sams_langchain.observe import hooked
from sams_langchain.stored import from_text, path_of, place_of, prefix_of, to_text
from sams_langchain.tools import session_here

_TRIES = 10  # of a put whose version moves under it
_Data = dict[str, Any]


class _Told:
    """Adds to an item what its reader must know; `dict()` is what tools show to models."""

    def __init__(
        self, *, labelled: bool = False, label: str = "", review: str = "", **item: Any
    ) -> None:
        super().__init__(**item)
        self.labelled, self.pending = labelled, bool(review)

    def dict(self) -> _Data:
        """Return the item as plain data; `review` where it waits, `label` where outsiders had a part."""
        told: _Data = super().dict()  # type: ignore[misc]  # of the item that this is mixed into
        if self.pending:
            told["review"] = QUEUED
        if self.labelled:
            told |= {"labelled": True, "label": LABEL}
        return told


class StoredItem(_Told, Item):
    """What `get` returns: `value` is what was put or accepted."""


class FoundItem(_Told, SearchItem):
    """What `search` returns."""


class SamsStore(BaseStore):
    """Serve a LangGraph store's users from a session's memory; what they put waits for its owner.

    `session_or_resolver` is the session, or a callable that returns it from LangGraph's `Runtime`
    (outside a graph: from the run's config); without it the session of the block around the call is
    used. Whose memory it is, is the session's: a namespace only names a place in it. `scope` is
    "assigned", or "run" for the session's own notes. Put it where a store goes: `create_agent(...,
    store=SamsStore())`.

    `put` queues and returns nothing, `get` serves the family's own pending value, `search` and
    `list_namespaces` know what is accepted. What outsiders influenced is found by a session that is
    already marked; `get` by its key marks any. Refused: deleting (`owner-only`), what isn't JSON
    (`value`), namespaces and keys that make a path of more than 8 segments or 96 characters, an
    expiry, and everything without a session (`NoSession`). A batch is carried out in order, up to
    the first refusal.
    """

    supports_ttl = False

    def __init__(
        self,
        session_or_resolver: Bound = None,
        /,
        *,
        scope: Literal["assigned", "run"] = "assigned",
    ) -> None:
        if scope not in ("assigned", "run"):
            raise InvalidArguments("scope: assigned or run")
        self._governed = Govern(session_or_resolver)
        self._scope = scope

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations in order; see the class for what is refused."""
        with rejoined():
            session = session_here(self._governed)
            return [self._do(session, op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations in order without blocking the event loop, whichever it is."""
        with rejoined():
            session = session_here(self._governed)
            results = []
            for op in ops:
                work = partial(self._do, session, op)
                short = isinstance(op, GetOp)
                results.append(await (off_loop(session.backend, work) if short else hop(work)))
            return results

    def _do(self, session: AgentSession, op: Op) -> Any:
        if isinstance(op, PutOp):
            return self._put(session, op)
        with hooked(session):
            match op:
                case GetOp():
                    return self._get(session, op)
                case SearchOp():
                    return self._search(session, op)
                case ListNamespacesOp():
                    return self._namespaces(session, op)
        raise InvalidArguments("operations: get, put, search and list_namespaces")

    def _get(self, session: AgentSession, op: GetOp) -> StoredItem | None:
        path = path_of(op.namespace, op.key)
        try:
            entry = session.memory_read(self._scope, path)
        except NotFound:
            return None
        found = _served(entry)
        return None if found is None else StoredItem(**found)

    def _put(self, session: AgentSession, op: PutOp) -> None:
        if op.value is None:
            raise PermissionDenied(
                "deletion is the owner's; put a corrected value instead, it waits for review",
                rule="owner-only",
            )
        if op.ttl is not None:
            raise InvalidArguments("ttl: memory doesn't expire by itself")
        path = path_of(op.namespace, op.key)
        scope = session.assigned if self._scope == "assigned" else session.run_scope
        cuts = policy_of(session.backend).at(scope)
        # A path's escapes would hide it from the rules.
        check_name("/".join((*op.namespace, op.key)), "namespace and key", cuts)
        content, description = to_text(op.value, session.backend.limits, cuts)
        version: int | None = None
        for left in reversed(range(_TRIES)):
            try:  # without reading what is there: overwriting must neither mark nor tell
                session.memory_write(self._scope, path, content, description, version)
                return
            except VersionConflict as conflict:
                if not left:
                    raise
                version = conflict.found

    # Finding. A labelled text isn't read for an unmarked session: that would mark it.

    def _search(self, session: AgentSession, op: SearchOp) -> list[FoundItem]:
        within = prefix_of(op.namespace_prefix)
        limit, skip = _count("limit", op.limit), _count("offset", op.offset)
        wanted = _filter(op.filter)
        lines = self._ranked(session, within, op.query) if op.query else self._listed(session)
        found: list[FoundItem] = []
        for line in _within(within, lines) if limit else ():
            if skip and not wanted:
                skip -= 1
                continue
            item = self._found(session, line)
            if item is None or not _has(item.value, wanted):
                continue
            if skip:
                skip -= 1
                continue
            found.append(item)
            if len(found) == limit:
                break
        return found

    def _found(self, session: AgentSession, line: Listing) -> FoundItem | None:
        try:
            found = _served(session.memory_read(self._scope, line.path))
        except NotFound:  # retired since it was listed
            return None
        return None if found is None else FoundItem(**found)

    def _listed(self, session: AgentSession) -> Iterator[Listing]:
        cursor: str | None = None
        while True:
            page = session.memory_index(self._scope, cursor)
            yield from page.items
            cursor = page.cursor
            if cursor is None or is_handle(page.items[-1].path):  # nothing but handles follows
                return

    def _ranked(self, session: AgentSession, within: list[str], query: str) -> Iterator[Listing]:
        """Yield the best hits of the scope; if those are all it gives, also those that name the place.

        A search can't be told where to look, but paths are searched like texts.
        """
        best = session.memory_search(self._scope, query).items
        yield from best
        placed = f"{'/'.join(within)} {query}"
        limits = session.backend.limits
        if within and len(best) >= limits.hits and len(placed) <= limits.query_chars:
            seen = {line.path for line in best}
            more = session.memory_search(self._scope, placed).items
            yield from (line for line in more if line.path not in seen)

    def _namespaces(self, session: AgentSession, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        limit, skip = _count("limit", op.limit), _count("offset", op.offset)
        depth = op.max_depth if op.max_depth is None else _count("max_depth", op.max_depth)
        conditions = list(map(_condition, op.match_conditions or ()))
        places = (place_of(line.path) for line in _within([], self._listed(session)))
        found = {
            place[0][:depth]
            for place in places
            if place is not None and all(fits(place[0]) for fits in conditions)
        }
        return sorted(found - {()})[skip : skip + limit]


def _served(entry: Entry) -> dict[str, Any] | None:
    """Return an item's parts: a store serves what was stored last.

    That is the family's own pending text, unless its base has been replaced since.
    """
    own, place = entry.pending, place_of(entry.path)
    shown = own if own is not None and own.base_digest == entry.digest else entry
    if place is None:
        return None
    return {
        "namespace": place[0],
        "key": place[1],
        "value": from_text(shown.content),
        "created_at": entry.date,  # of the version that is served: the first one's isn't known
        "updated_at": shown.date,
        "labelled": shown.tainted,
        "review": QUEUED if shown.status == "pending" else "",
    }


def _within(prefix: list[str], lines: Iterable[Listing]) -> Iterator[Listing]:
    for line in lines:
        if not is_handle(line.path) and place_of(line.path) is not None:
            segments = line.path.split("/")
            if len(segments) > len(prefix) and segments[: len(prefix)] == prefix:
                yield line


def _count(what: str, value: object) -> int:
    if type(value) is not int or value < 0:
        raise InvalidArguments(f"{what}: a number, not below 0")
    return value


def _condition(given: object) -> Any:
    """Return a test of namespaces; `*` stands for any one label here, and nowhere else."""
    if not isinstance(given, MatchCondition) or given.match_type not in ("prefix", "suffix"):
        raise InvalidArguments("match_conditions: by prefix or suffix")
    path, last = tuple(given.path), given.match_type == "suffix"

    def fits(namespace: tuple[str, ...]) -> bool:
        part = namespace[-len(path) or len(namespace) :] if last else namespace[: len(path)]
        return len(part) == len(path) and all(
            label in ("*", each) for label, each in zip(path, part, strict=True)
        )

    return fits


# Filters, as LangGraph's stores have them.

_LEVELS = 64
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_OPERATORS = {"$eq": operator.eq, "$ne": operator.ne, **_ORDERS}


def _filter(given: object) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidArguments("filter: a mapping")
    for each in given.values():
        _check(each, 1)
    return given


def _check(wanted: object, level: int) -> None:
    if level > _LEVELS:
        raise LimitExceeded("filter, levels", _LEVELS)
    inner: Iterable[object] = ()
    if isinstance(wanted, Mapping):
        inner = wanted.values()
        if _operates(wanted) and not _OPERATORS.keys() >= set(wanted):
            raise InvalidArguments(f"filter: the operators are {', '.join(_OPERATORS)}")
    elif isinstance(wanted, list | tuple):
        inner = wanted
    for each in inner:
        _check(each, level + 1)


def _operates(wanted: Mapping[Any, Any]) -> bool:
    return any(isinstance(name, str) and name.startswith("$") for name in wanted)


def _has(value: Mapping[str, Any], wanted: Mapping[Any, Any]) -> bool:
    return all(_matches(value.get(name), each) for name, each in wanted.items())


def _matches(value: object, wanted: object) -> bool:
    """Tell whether a value is what a filter asks for; what has no order is neither above nor below."""
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(map(_matches, value, wanted))
        )
    if not isinstance(wanted, Mapping):
        return value == wanted
    if not _operates(wanted):
        return isinstance(value, Mapping) and _has(value, wanted)
    return all(
        (name not in _ORDERS or _ordered(value, each)) and _OPERATORS[name](value, each)
        for name, each in wanted.items()
    )


def _ordered(one: object, other: object) -> bool:
    return any(isinstance(one, kind) and isinstance(other, kind) for kind in (int | float, str))
