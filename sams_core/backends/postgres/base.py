"""What all verbs share: the pool, whether this login may, and how changes are read."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sams_core.backends.postgres.connect import Connection, Pool, Secret, acquire, release
from sams_core.backends.postgres.refusal import bypass_of
from sams_core.backends.postgres.rows import CHANGE, ENTRIES, absorbed, change_from, entry_from
from sams_core.errors import PermissionDenied, StoreFailed
from sams_core.limits import Limits
from sams_core.records import Change, Entry
from sams_core.scopes import ORG

if TYPE_CHECKING:
    from sams_core.redaction import TextPolicy

T = TypeVar("T")
Role = Literal["agent", "dreamer", "owner"]
SCHEMA_VERSION = 4
# What changes superseded, by writer, path and the decision that closed it: (seq, id, flags, sources).
Earlier = Mapping[tuple[str, str, str | None], Sequence[tuple[Any, ...]]]


class Base:
    """Connections to one database under one login; they are made when they are needed."""

    durable = True
    inline = False

    def __init__(
        self,
        url: str,
        limits: Limits | None = None,
        policy: TextPolicy | None = None,
        *,
        connections: int = 8,
        prepare: bool = True,
    ) -> None:
        self.limits = limits or Limits()
        self.policy = policy
        self._secret = Secret(url)
        self._size, self._prepare = connections, prepare
        self._location: str | None = None
        self._may: set[tuple[str, str]] = set()
        weakref.finalize(self, release, self._secret, connections, prepare, id(self))

    def __repr__(self) -> str:
        return f"PostgresBackend({self._secret.public()!r})"

    @property
    def _pool(self) -> Pool:
        return acquire(self._secret, self._size, self._prepare, id(self))

    def close(self) -> None:
        """See `Backend.close`."""
        release(self._secret, self._size, self._prepare, id(self))

    @property
    def location(self) -> str:
        """The name of the database: its schema's random id, asked for once."""
        if self._location is None:
            sql = "SELECT id, version, current_database() FROM sams.store"
            rows = self._pool.rows(sql)
            if not rows:
                raise StoreFailed("no schema here: run `sams admin install`", rule="no-schema")
            ident, version, database = rows[0]
            if version != SCHEMA_VERSION:
                raise StoreFailed(
                    f"schema version {version}, this package's is {SCHEMA_VERSION}: "
                    "run `sams admin install`",
                    rule="schema-version",
                )
            self._location = f"postgres:{ident}:{database}"
        return self._location

    def _need(self, container: str, *roles: Role) -> Role:
        """Return the first of the roles that this login was granted here.

        A grant that was seen is remembered: what is taken back later the database itself refuses.
        An agent's or a dreamer's login that row-level security doesn't bind is refused.
        """
        for role in roles:
            if (role, container) in self._may:
                return role
        found, reason = self._pool.transaction(lambda db: _standing(db, container))
        if reason is not None and "owner" not in roles:
            raise PermissionDenied(
                f"this login {reason}; agents and jobs need one that row-level security binds",
                rule="login-bypasses-rls",
            )
        if reason is not None:
            found &= {"owner"}
        self._may.update((role, container) for role in found)
        for role in roles:
            if role in found:
                return role
        raise PermissionDenied("this login has no grant for that", rule="no-grant")

    # Reading, for every role.

    def _entries(self, container: str, where: str, *values: object) -> list[Entry]:
        rows = self._pool.rows(
            ENTRIES + "WHERE v.container = %s AND " + where, (container, *values)
        )
        return [entry_from(container, row) for row in rows]

    def _changes(
        self, db: Connection, role: Role, container: str, where: str, *values: object
    ) -> list[tuple[Change, dict[str, Any]]]:
        """Return changes, each with its base and what it superseded, and what became of it."""
        sql = f"SELECT {CHANGE} FROM sams.changes WHERE container = %s AND {where} ORDER BY seq"  # noqa: S608
        found = db.execute(sql.encode(), (container, *values)).fetchall()
        only = found[0] if len(found) == 1 else None
        earlier = self._superseded(db, role, container, only) if found else {}
        bases = self._bases(db, role, container, found)
        return [_whole(container, row, earlier, bases) for row in found]

    def _superseded(
        self, db: Connection, role: Role, container: str, only: Sequence[Any] | None
    ) -> Earlier:
        group = (None, None, None) if only is None else (only[3], only[4], only[19])
        found: defaultdict[tuple[str, str, str | None], list[tuple[Any, ...]]] = defaultdict(list)
        for row in db.execute(
            b"SELECT writer, path, closed_by, seq, id, flags, sources "
            b"FROM sams.superseded(%s, %s, %s, %s, %s)",
            (role, container, *group),
        ):
            found[row[:3]].append(row[3:])
        return found

    def _bases(
        self, db: Connection, role: Role, container: str, changes: Iterable[Sequence[Any]]
    ) -> dict[tuple[str, int], Entry]:
        wanted = {(row[4], row[7]): row[0] for row in changes if row[7]}
        if not wanted:
            return {}
        if role == "dreamer":  # which may read no version by itself
            rows = [
                row
                for change_id in wanted.values()
                for row in db.execute(
                    b"SELECT * FROM sams.proposal_base(%s, %s)", (container, change_id)
                )
            ]
            return {(row[0], row[1]): entry_from(container, row) for row in rows}
        sql = (
            f"SELECT e.* FROM unnest(%s::text[], %s::bigint[]) k(path, version), LATERAL ({ENTRIES}"  # noqa: S608
            "WHERE v.container = %s AND v.path = k.path AND v.version = k.version OFFSET 0) e"
        )
        values = ([path for path, _ in wanted], [version for _, version in wanted], container)
        entries = [entry_from(container, row) for row in db.execute(sql.encode(), values)]
        return {(entry.path, entry.version): entry for entry in entries}


def one(found: T | None) -> T:
    """Return what a statement always returns; raises `StoreFailed` where it didn't."""
    if found is None:
        raise StoreFailed("the database returned nothing where a row was due", rule="damaged")
    return found


def _whole(
    container: str,
    row: Sequence[Any],
    earlier: Earlier,
    bases: dict[tuple[str, int], Entry],
) -> tuple[Change, dict[str, Any]]:
    data = dict(zip(CHANGE.split(", "), row, strict=True))
    # Before a decision what it superseded isn't closed; afterwards it is closed by the same one.
    group = earlier.get((data["writer"], data["path"], data["closed_by"]), ())
    before = [old[1:] for old in group if old[0] < data["seq"]]
    change = absorbed(change_from(container, row), before)
    return replace(change, base=bases.get((change.path, change.base_version))), data


def whole(
    container: str,
    rows: Iterable[Sequence[Any]],
    earlier: Earlier,
    bases: dict[tuple[str, int], Entry],
) -> list[Change]:
    """Return changes from rows that were read already."""
    return [_whole(container, row, earlier, bases)[0] for row in rows]


def _standing(db: Connection, container: str) -> tuple[set[str], str | None]:
    sql = "SELECT role, container FROM sams.grants WHERE login = session_user"
    rows = db.execute(sql).fetchall()
    found = {role for role, where in rows if where == container}
    if container == ORG and any(role == "agent" for role, _ in rows):
        found.add("agent")
    return found, bypass_of(db)
