"""The Postgres backend: one login's view of one database, whose policies decide what it may."""

from __future__ import annotations

from sams_core.backend import Row
from sams_core.backends.postgres.agent import AgentVerbs
from sams_core.backends.postgres.curated import OwnerVerbs, row_from
from sams_core.backends.postgres.dreamer import DreamerVerbs
from sams_core.backends.postgres.rows import NOTE, VERSIONS, note_from, unpack
from sams_core.backends.postgres.words import asked
from sams_core.records import Entry
from sams_core.scopes import is_handle
from sams_core.search import snippet


class PostgresBackend(AgentVerbs, DreamerVerbs, OwnerVerbs):
    """Memory in a Postgres database that `install_schema` has prepared.

    `url` is libpq's (`postgresql://login:password@host/database?sslmode=verify-full`), and its login
    must have been granted a role (`grant`). At most `connections` are open at once in a process;
    `prepare=False` for poolers that can't keep prepared statements. Marks, changes and decisions
    are on disk when a call returns, whatever the server's default for `synchronous_commit` is.
    """

    def read(self, container: str, scope: str, path: str) -> Entry | None:
        """See `Backend.read`."""
        self._need(container, "agent", "owner")
        if scope != container:
            sql = f"SELECT {NOTE} FROM sams.notes WHERE container = %s AND scope = %s AND path = %s"  # noqa: S608
            rows = self._pool.rows(sql, (container, scope, path))
            return note_from(rows[0]) if rows else None
        if is_handle(path):
            where = "v.handle = %s AND v.status = 'active' AND v.labelled"
        else:
            where = "v.path = %s AND v.status = 'active'"
        return next(iter(self._entries(container, where, path)), None)

    def index(
        self,
        container: str,
        scope: str,
        labelled: bool,
        after: str,
        limit: int,
        at: int | None = None,
        contents: int = 0,
    ) -> list[Row]:
        """See `Backend.index`."""
        self._need(container, "agent", "owner")
        if limit <= 0:
            return []
        if scope != container:
            rows = self._pool.rows(
                "SELECT path, NULL, version, description, date, "
                "CASE WHEN length(content) <= %s THEN content ELSE '' END FROM sams.notes "
                "WHERE container = %s AND scope = %s AND labelled = %s AND path > %s "
                "ORDER BY path LIMIT %s",
                (contents, container, scope, labelled, after, limit),
            )
            return [row_from(labelled, row[:5], unpack(row[5])) for row in rows]
        key = "v.handle" if labelled else "v.path"
        when, values = "v.status = 'active'", []
        if at is not None:
            when, values = "v.born <= %s AND coalesce(v.ended, %s + 1) > %s", [at, at, at]
        label = "v.labelled" if labelled else "NOT v.labelled"  # spelt as the indexes spell it
        sql = (
            "SELECT v.path, v.handle, v.version, t.description, v.date, "
            "CASE WHEN length(t.content) <= %s THEN t.content ELSE '' END "
            f"{VERSIONS}WHERE v.container = %s AND {label} AND {when} AND {key} > %s "
            f"ORDER BY {key} LIMIT %s"
        )
        rows = self._pool.rows(sql, (contents, container, *values, after, limit))
        return [row_from(labelled, row[:5], unpack(row[5])) for row in rows]

    def search(
        self, container: str, scope: str, labelled: bool, query: str, limit: int
    ) -> list[Row]:
        """See `Backend.search`."""
        self._need(container, "agent", "owner")
        question = asked(query)
        if question is None or limit <= 0:
            return []
        rows = self._pool.rows(
            "SELECT path, handle, version, description, date, content "
            "FROM sams.search(%s, %s, %s, %s, %s, %s, %s)",
            (container, scope, labelled, question["terms"], question["telling"])
            + (question["enough"], limit),
        )
        return [row_from(labelled, row[:5], snippet(unpack(row[5]), query)) for row in rows]
