"""The agent's side: one session's identity, its marks, and the only four verbs that reach memory."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from sams_core import context, tools
from sams_core.ambient import Activation, current_activation, current_session
from sams_core.backend import Backend, Row
from sams_core.errors import (
    InvalidArguments,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    ScopeError,
)
from sams_core.limits import check_text
from sams_core.locks import ForkSafeLock
from sams_core.records import (
    Change,
    Draft,
    Entry,
    Listing,
    Page,
    Pin,
    Receipt,
    SessionKey,
    Source,
)
from sams_core.redaction import policy_of
from sams_core.scopes import (
    ORG,
    check_assigned,
    check_id,
    check_path,
    family_of,
    is_handle,
    related,
    run_scope,
)
from sams_core.screen import check_name, screen
from sams_core.taint import check_family, family, make_source, wrap

T = TypeVar("T")
_MAX_CHILD_ID = 1_000

USER_UNDECLARED = 'user not declared: AgentSession(user="insider") declares who talks to the agent'
USER_OUTSIDER = "the user is an outsider"
UNOBSERVED = (
    "unobserved: no adapter observes what the agent reads; govern() attaches one, or "
    'AgentSession(observed="by-hand") declares that every source is wrapped'
)

_open: weakref.WeakValueDictionary[tuple[str, str, str], AgentSession] = (
    weakref.WeakValueDictionary()
)
_open_lock = ForkSafeLock()


class AgentSession:
    """One agent's work under one id in one container; it outlives the process.

    `session_id` and `agent` are ids of 1 to 200 printable characters without `/`; `assigned` is one
    `project:<id>` or `tenant:<id>`. The same id under another agent's name is refused
    (`PermissionDenied`, rule `other-agent`).

    What nobody vouches for marks the session: `user` says who talks to the agent (`"insider"`, or
    `"outsider"`; undeclared counts as outsider), `observed="by-hand"` that the caller wraps every
    source with `tainting`; otherwise an adapter must be observing when memory is used.

    With `require_separation=True` the session is refused (rule `separation`) where this process
    could write the owner's store.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        session_id: str,
        agent: str,
        assigned: str,
        user: Literal["insider", "outsider"] | None = None,
        observed: Literal["by-hand"] | None = None,
        require_separation: bool = False,
    ) -> None:
        if user not in (None, "insider", "outsider"):
            raise InvalidArguments('user: "insider", "outsider" or None')
        if observed not in (None, "by-hand"):
            raise InvalidArguments('observed: "by-hand" or None')
        if require_separation:
            backend.check_separation(check_assigned(assigned))
            backend.check_separation(ORG)
        self._open(backend, check_id(session_id, "session_id"), agent, assigned, observed)
        if user != "insider":
            name = USER_OUTSIDER if user == "outsider" else USER_UNDECLARED
            self.family.mark(make_source("user", name))

    def _open(
        self, backend: Backend, session_id: str, agent: str, assigned: str, observed: str | None
    ) -> None:
        self.backend = backend
        self.run_scope = run_scope(session_id)
        self._policy = policy_of(backend)
        # Names and marks are kept with the container and stamped on notes.
        self._cuts = self._policy.at(check_assigned(assigned), self.run_scope)
        self.session_id = check_name(session_id, "session_id", self._cuts)
        self.agent = check_name(check_id(agent, "agent"), "agent", self._cuts)
        self.assigned = check_name(assigned, "assigned", self._cuts)
        self.key = SessionKey(assigned, session_id, family_of(session_id), agent)
        self.family = family(backend, self.key, self._cuts)
        self._observed = observed
        self._block: tuple[tuple[Pin, int], str] | None = None  # what was rendered, and of what
        backend.open_session(self.key)
        with _open_lock:
            _open[backend.location, assigned, session_id] = self

    def __repr__(self) -> str:
        return f"<AgentSession {self.session_id!r} of {self.agent!r} in {self.assigned!r}>"

    # Marks.

    @property
    def tainted(self) -> bool:
        """Whether the family carries a mark, as it is on disk now."""
        return bool(self.sources)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The reasons for the family's marks, oldest first."""
        return self.family.sources()

    def mark_tainted(self, reason: str, *, origin: str | None = None) -> None:
        """Record durably that outsiders' content was read; `reason` and `origin` say what and where.

        Texts are redacted and clipped to 200 characters. If the record can't be made the session
        is closed in this process (`SessionClosed`) until it can.
        """
        self.family.mark(make_source("reason", reason, origin))

    def tainting(self, obj: T, reason: str | None = None) -> T:
        """Wrap something that reads outsiders' content so that each call marks before it begins.

        Functions, methods, partials and objects that can only be called keep name, doc, signature
        and nature (sync, async, generator, async generator; a generator marks when it is started).
        A framework's objects are wrapped by its adapter. `reason` names the source, by default the
        function's name. Raises `TypeError` for what nothing can wrap. A call inside another
        session's run marks both and is refused (`PermissionDenied`, rule `foreign-run`).
        """
        return wrap(obj, self, reason)

    def active(self) -> Activation:
        """Return a `with` (or `async with`) block in which this session is the ambient one.

        It ends with its block, in whatever thread, task or generator that happens.
        """
        return Activation(self)

    def child(self, agent: str) -> AgentSession:
        """Open a session for a sub-agent: same container, same marks, a run scope of its own.

        Its id is `<parent>/<agent>`, with `~2` and so on while one of that name is open in this
        process. Reopening by the same name after a restart finds the same notes.
        """
        self._enter()
        check_name(check_id(agent, "agent"), "agent", self._cuts)
        for number in itertools.count(1):
            session_id = f"{self.session_id}/{agent}" + (f"~{number}" if number > 1 else "")
            if len(session_id) > _MAX_CHILD_ID:
                raise LimitExceeded("child session id, characters", _MAX_CHILD_ID, len(session_id))
            place = (self.backend.location, self.assigned, session_id)
            with _open_lock:
                if place in _open:
                    continue
                child = _open[place] = type(self).__new__(type(self))
            try:
                child._open(self.backend, session_id, agent, self.assigned, self._observed)
            except PermissionDenied as error:
                if error.rule != "other-agent":
                    raise
                continue  # a child of another name took this id: "b~2" beside the second "b"
            return child
        raise AssertionError("unreachable: numbers don't end")

    # The four verbs.

    def memory_index(self, scope: str, cursor: str | None = None) -> Page:
        """List a scope: what is trusted first, by path, then what is labelled.

        At most 100 lines a page; `cursor` is the one that the last page returned. To an unmarked
        session a labelled entry is a handle, version and date.
        """
        self._enter()
        container, scope = self._readable(scope)
        marked = self.tainted
        labelled, after = _parse_cursor(cursor)
        limit = self.backend.limits.page
        rows: list[Row] = []
        if not labelled:
            rows = self.backend.index(container, scope, False, after, limit + 1)
            after = ""
        if len(rows) <= limit:
            rows += self.backend.index(container, scope, True, after, limit + 1 - len(rows))
        page, more = rows[:limit], rows[limit:]
        items = tuple(self._listing(scope, row, marked) for row in page)
        last = page[-1] if more else None
        following = None if last is None else f"{'l' if last.tainted else 't'}:{last.key}"
        return Page(items, following)

    def memory_read(self, scope: str, path: str) -> Entry:
        """Return an entry by path or handle; reading a labelled one marks the session first.

        `Entry.pending` holds the family's own open change. Where only that exists it is returned
        itself, with status `pending` and version 0. Raises `NotFound`.
        """
        self._enter()
        container, scope = self._readable(scope)
        if not (isinstance(path, str) and is_handle(path)):
            check_path(path)
        entry = self.backend.read(container, scope, path)
        own: Entry | None = None
        if scope == self.assigned:
            change = self.backend.own_change(self.key, entry.path if entry else path)
            own = _as_pending(change) if change is not None else None
        for shown in (entry, own):
            if shown is not None and shown.tainted:
                self.family.mark(
                    make_source("memory", f"{scope} {shown.path}", shown.digest or None)
                )
        if entry is not None:
            return entry.with_pending(own)
        if own is not None:
            return own
        raise NotFound("no entry of that path in this scope")

    def memory_search(self, scope: str, query: str) -> Page:
        """Return up to 20 entries that answer `query` (at most 1,000 characters), best first.

        What is trusted comes before what is labelled, of which an unmarked session gets at most
        five handles. There is no query syntax.
        """
        self._enter()
        container, scope = self._readable(scope)
        limits = self.backend.limits
        check_text(query, "query", limit=limits.query_chars, unit="characters")
        marked = self.tainted
        rows = self.backend.search(container, scope, False, query, limits.hits)
        room = limits.handles if not marked else max(limits.handles, limits.hits - len(rows))
        rows += self.backend.search(container, scope, True, query, room)
        return Page(tuple(self._listing(scope, row, marked) for row in rows), None)

    def memory_write(
        self,
        scope: str,
        path: str,
        content: str,
        description: str,
        expected_version: int | None = None,
    ) -> Receipt:
        """Store a note in the run scope, or queue a change of the assigned scope for review.

        `content` is at most 100,000 bytes, `description` one line of at most 200 characters; secrets
        are redacted. `expected_version` is the version that the text replaces, None if there must be
        none. Refused: org (`org-read-only`), any other scope (`foreign-scope`), a path of another
        form, sizes and counts above their limits, a version that has moved (`VersionConflict`).
        """
        return self._write(scope, path, content, description, expected_version, None)

    def _write(
        self,
        scope: str,
        path: str,
        content: str,
        description: str,
        expected_version: int | None,
        replay: str | None,
    ) -> Receipt:
        self._enter()
        scope = self._writable(scope)
        cuts = self._policy.at(scope)
        check_name(check_path(path), "path", cuts)
        if expected_version is None:
            expected_version = 0
        if type(expected_version) is not int or not 0 <= expected_version < 2**53:
            raise InvalidArguments("expected_version: a version number or null")
        screened = screen(description, content, self.backend.limits, cuts)
        if replay is not None:  # a parent's and a child's scratchpads are two places
            replay = f"{scope} {replay}"
        draft = Draft(
            self.key,
            scope,
            path,
            "write",
            screened.description,
            screened.content,
            expected_version,
            screened.flags,
            replay,
        )
        note = scope == self.run_scope
        if note:
            return self.backend.run_write(draft)
        standing = self.backend.submit(draft)
        change = standing.change
        return Receipt("queued", change.path, change.base_version, change.id, standing.state)

    # For the model.

    def tools(self) -> dict[str, Callable[..., Any]]:
        """Return the four verbs by the names under which a model knows them."""
        return {name: getattr(self, name) for name in tools.TOOL_NAMES}

    def tool_schemas(self) -> list[dict[str, Any]]:
        """Return name, description and input schema of the four tools, the same for every session."""
        return tools.schemas()

    def call_tool(
        self, name: str, arguments: Mapping[str, Any] | str, *, call_id: str | None = None
    ) -> str:
        """Run a model's tool call and return JSON for the model; a refusal is a result, not a raise.

        A refusal has the key `error` with `rule` and `message`. `call_id` is the message-unique id
        of the call: repeated with equal arguments, also in another process, it answers as the first
        did and stores nothing.
        """
        return tools.call(self, name, arguments, call_id)

    async def acall_tool(
        self, name: str, arguments: Mapping[str, Any] | str, *, call_id: str | None = None
    ) -> str:
        """Run `call_tool` without blocking the event loop on a lock, a disk or a network."""
        return await tools.acall(self, name, arguments, call_id)

    def context_block(self, max_chars: int = 16_384) -> str:
        """Return what is remembered as one labelled, escaped block of at most `max_chars`.

        The bytes stay the same for the session's life, in every process, until something in its
        scopes is retired or restored. `max_chars` is 0 to 1,000,000; where not even the frame of
        about 300 characters fits, the block is empty.
        """
        self.family.settle()
        check_family(self, current_session())
        wanted = (self.backend.pin(self.key), context.check(max_chars))
        if self._block is None or self._block[0] != wanted:
            self._block = (wanted, context.render(self.backend, self.key, *wanted))
        return self._block[1]

    # Rules that every verb shares.

    def _enter(self) -> None:
        """Let a memory call in: no debt of marks, no foreign run, somebody observing."""
        self.family.settle()
        activation = current_activation()
        check_family(self, current_session())
        if activation is not None and activation.session.family is not self.family:
            activation = None  # a forked child's, inherited
        if self._observed is None and (activation is None or activation.observer is None):
            self.family.mark(make_source("unobserved", UNOBSERVED))

    def _readable(self, scope: str) -> tuple[str, str]:
        if scope == ORG:
            return ORG, ORG
        if scope in ("assigned", self.assigned):
            return self.assigned, self.assigned
        if scope == "run":
            return self.assigned, self.run_scope
        if (
            isinstance(scope, str)
            and scope.startswith("run:")
            and related(self.session_id, scope.removeprefix("run:"))
        ):
            return self.assigned, scope
        raise ScopeError("scope: org, assigned or run of this session")

    def _writable(self, scope: str) -> str:
        _, scope = self._readable(scope)
        if scope == ORG:
            raise PermissionDenied("org memory is written by its owner", rule="org-read-only")
        if scope not in (self.assigned, self.run_scope):
            raise PermissionDenied("a session writes its own run scope only", rule="foreign-run")
        return scope

    def _listing(self, scope: str, row: Row, marked: bool) -> Listing:
        if row.tainted and not marked:
            if row.handle is None:  # a labelled note is shown to its own family only, marked first
                self.family.mark(make_source("memory", scope))
            else:
                return Listing(scope, row.handle, row.version, "", row.date, True, "")
        return Listing(
            scope, row.path, row.version, row.description, row.date, row.tainted, row.text
        )


def _parse_cursor(cursor: str | None) -> tuple[bool, str]:
    if cursor is None:
        return False, ""
    if isinstance(cursor, str) and len(cursor) <= 120 and cursor[:2] in ("t:", "l:"):
        key = cursor[2:]
        if is_handle(key) if cursor[0] == "l" else _is_path(key):
            return cursor[0] == "l", key
    raise InvalidArguments("cursor: as returned by the page before")


def _is_path(text: str) -> bool:
    try:
        return bool(check_path(text))
    except InvalidArguments:
        return False


def _as_pending(change: Change) -> Entry:
    return Entry(
        change.scope,
        change.path,
        0,
        change.description,
        change.content,
        change.tainted,
        change.sources,
        "",
        change.author,
        change.source_session,
        "pending",
        date=change.date,
        act="pending",
        base_digest=change.base_digest,
        change_id=change.id,
    )
