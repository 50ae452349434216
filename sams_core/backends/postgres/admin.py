"""The administrator's side: install the schema, say which login may be what, and take it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import sql

from sams_core.backends.postgres.connect import Connection, Secret, connect, translated
from sams_core.backends.postgres.refusal import bypass_of
from sams_core.errors import InvalidArguments, PermissionDenied, StoreFailed
from sams_core.scopes import ORG, check_container

Role = Literal["agent", "dreamer", "owner"]
ROLES = ("agent", "dreamer", "owner")
_LOCK = 5_216_411_709_340_001  # the advisory lock of migrations; a number of our own
_FOLDER = "migrations"
_PINNED = "SET LOCAL search_path = pg_catalog, pg_temp"  # no function of somebody else's is called

# What each role may do to a table at all; policies say on which rows, triggers with which values.
# UPDATE of a whole table, DELETE and TRUNCATE also give LOCK TABLE, which would stop all tenants, so
# no role has them: updates are granted by column, and functions delete.
_TABLES: dict[str, dict[str, str]] = {
    "agent": {
        "SELECT": "store grants families sessions sources meta versions texts changes notes "
        "replays",
        "INSERT": "sessions sources changes notes replays",
        "UPDATE": "notes",
    },
    "dreamer": {"SELECT": "store grants changes", "INSERT": "changes"},
    "owner": {
        "SELECT": "store grants families sessions sources meta versions texts handles changes "
        "decisions notes readings replays",
        "INSERT": "meta versions texts handles decisions",
        "UPDATE": "meta versions",
    },
}
_COLUMNS = {
    "versions": "status, ended, ended_date, ended_by",  # an owner ends a version, no more
    "meta": "revision, epoch",
    "notes": "session_id, agent, base_digest, description, content",
}
_COMMON = "granted(text, text)"
_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "agent": (
        "lock_family(text, text)",
        "vouched(text, text)",
        "login_source()",
        "utc_now()",
        "has_memory(text, text)",
        "open_session(text, text, text)",
        "add_sources(text, text, jsonb, integer)",
        "counts(text, text, text, text, text)",
        "superseded(text, text, text, text, text)",
        "search(text, text, boolean, text[], jsonb, integer, integer)",
        "add_source(text, text, jsonb)",
        "pin(text, text)",
        "put(text, text, text, boolean, integer, jsonb)",
    ),
    "dreamer": (
        "counts(text, text, text, text, text)",
        "superseded(text, text, text, text, text)",
        "snapshot_entries(text, text, boolean)",
        "snapshot_changes(text, text, boolean)",
        "snapshot_notes(text, text, boolean)",
        "snapshot_bases(text, text, boolean)",
        "proposal_base(text, text)",
    ),
    "owner": (
        "superseded(text, text, text, text, text)",
        "clear_runs(text)",
        "unindex(text, text)",
        "put(text, text, text, boolean, integer, jsonb)",
        "search(text, text, boolean, text[], jsonb, integer, integer)",
    ),
}


@dataclass(frozen=True)
class Grant:
    """One line of the grants: this login is `role` in `container`."""

    login: str
    role: str
    container: str
    clean_sessions: bool


def migrations() -> list[tuple[str, str]]:
    """Return names and texts of the migrations in order; their number is the schema's version."""
    folder = Path(__file__).with_name(_FOLDER)
    return [(file.name, file.read_text("utf-8")) for file in sorted(folder.glob("*.sql"))]


def schema_sql() -> str:
    """Return the whole schema as SQL, for people who have a migration tool of their own.

    It is one transaction, for an empty database, run by the login that is to own the tables.
    """
    parts = [f"-- {name}\n{text}" for name, text in migrations()]
    parts.append(f"UPDATE sams.store SET version = {len(parts)};\n")  # noqa: S608
    return "\n".join([f"{_PINNED};\n", *parts])


@contextmanager
def _admin(admin_url: str) -> Iterator[Connection]:
    connection = connect(Secret(admin_url))
    try:
        with connection.transaction():
            connection.execute(_PINNED.encode())
            connection.execute(b"SET LOCAL lock_timeout = '30s'")  # whoever holds it may be hostile
            yield connection
    except psycopg.Error as error:
        raise translated(error) from None
    finally:
        connection.close()


def install_schema(admin_url: str) -> int:
    """Create or upgrade the schema; returns its version. Safe to run from many hosts at once.

    The login becomes the owner of the tables, so it must be no agent's. It needs the right to create
    a schema, and no superuser's, no BYPASSRLS and no extension. Refused: a schema `sams` that is
    somebody else's (rule `schema-owner`), or one whose migration lock somebody holds for five minutes
    (`store-busy`).
    """
    with _admin(admin_url) as db:
        db.execute("SET LOCAL lock_timeout = '5min'")  # another host may be at it
        db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        version = _version(db)
        steps = migrations()
        if version > len(steps):
            raise StoreFailed(
                f"schema version {version} is newer than this package", rule="schema-newer"
            )
        for _, text in steps[version:]:
            db.execute(text.encode())
        if version < len(steps):
            db.execute("UPDATE sams.store SET version = %s", (len(steps),))
            for name in _logins(db):
                _apply(db, name)
        return len(steps)


def _version(db: Connection) -> int:
    row = db.execute(
        "SELECT to_regclass('sams.store') IS NOT NULL, pg_has_role(nspowner, 'MEMBER') "
        "FROM pg_namespace WHERE nspname = 'sams'"
    ).fetchone()
    if row is not None and not row[1]:
        raise PermissionDenied("the schema sams is another login's", rule="schema-owner")
    if row is None or not row[0]:
        return 0
    found = db.execute("SELECT version FROM sams.store").fetchone()
    return int(found[0]) if found is not None else 0


def _logins(db: Connection) -> list[str]:
    """Return the logins with grants that still are who was granted them."""
    sql = "SELECT DISTINCT login FROM sams.grants JOIN pg_roles ON oid = who AND rolname = login"
    return [row[0] for row in db.execute(sql)]


def _lock(db: Connection) -> None:
    """Let one change of grants follow another; no login but the owner's can hold this lock."""
    if not _version(db):
        raise StoreFailed("no schema here: run `sams admin install`", rule="no-schema")
    db.execute("LOCK TABLE sams.grants IN SHARE ROW EXCLUSIVE MODE")


def grant(
    admin_url: str, login: str, role: Role, container: str, clean_sessions: bool = False
) -> None:
    """Let a login, which must exist, be `agent`, `dreamer` or `owner` of a container.

    Sessions and jobs under it are marked from the start (source kind `login`) unless
    `clean_sessions` vouches for the host on which it is used. Again with another `clean_sessions`
    changes that. What another login of that name was granted, which was dropped or renamed, is
    forgotten. Raises `InvalidArguments` for an unknown login or role, `PermissionDenied` (rule
    `login-bypasses-rls`) for a login that row-level security doesn't bind.
    """
    _check(role, container)
    with _admin(admin_url) as db:
        _lock(db)
        found = db.execute("SELECT rolcanlogin FROM pg_roles WHERE rolname = %s", (login,))
        row = found.fetchone()
        if row is None or not row[0]:
            raise InvalidArguments("no such login on this server: create it first", rule="login")
        reason = bypass_of(db, login)
        if reason is not None:
            raise PermissionDenied(f"this login {reason}", rule="login-bypasses-rls")
        db.execute(
            "DELETE FROM sams.grants WHERE login = %s AND who <> quote_ident(%s)::regrole",
            (login, login),
        )
        db.execute(
            "INSERT INTO sams.grants (login, role, container, clean_sessions) "
            "VALUES (%s, %s, %s, %s) ON CONFLICT (login, role, container) "
            "DO UPDATE SET clean_sessions = excluded.clean_sessions",
            (login, role, container, clean_sessions),
        )
        _apply(db, login)


def revoke(admin_url: str, login: str, role: Role, container: str) -> bool:
    """Take a grant back, at once for its open connections too; tells whether there was one.

    A transaction that the login has open keeps its view of the data, and can commit what it has
    written before: end its connections.
    """
    _check(role, container)
    with _admin(admin_url) as db:
        _lock(db)
        gone = db.execute(
            "DELETE FROM sams.grants WHERE login = %s AND role = %s AND container = %s",
            (login, role, container),
        ).rowcount
        row = db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (login,)).fetchone()
        if row is not None:
            _apply(db, login)
        return bool(gone)


def grants(admin_url: str) -> list[Grant]:
    """Return every grant, by login."""
    with _admin(admin_url) as db:
        rows = db.execute(
            "SELECT login, role, container, clean_sessions FROM sams.grants ORDER BY 1, 2, 3"
        )
        return [Grant(*row) for row in rows]


def _check(role: str, container: str) -> None:
    if role not in ROLES:
        raise InvalidArguments("role: agent, dreamer or owner", rule="role")
    check_container(container)
    if role == "agent" and container == ORG:
        raise InvalidArguments(
            "an agent is granted a project or tenant; org it may read then", rule="role"
        )


def _apply(db: Connection, login: str) -> None:
    """Give the login the privileges of the roles that it has, and take all others away."""
    who = sql.Identifier(login)
    for text in (
        "REVOKE ALL ON ALL TABLES IN SCHEMA sams FROM {}",
        "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sams FROM {}",
        "REVOKE ALL ON SCHEMA sams FROM {}",
    ):
        db.execute(sql.SQL(text).format(who))
    found = db.execute(
        "SELECT DISTINCT role FROM sams.grants WHERE login = %s AND who = quote_ident(%s)::regrole",
        (login, login),
    )
    roles = [row[0] for row in found]
    if not roles:
        return
    statements: dict[str, Any] = {"USAGE ON SCHEMA sams": None}
    for role in roles:
        statements[f"EXECUTE ON FUNCTION sams.{_COMMON}"] = None
        for function in _FUNCTIONS[role]:
            statements[f"EXECUTE ON FUNCTION sams.{function}"] = None
        for privilege, tables in _TABLES[role].items():
            for table in tables.split():
                columns = (
                    f" ({_COLUMNS[table]})" if (privilege == "UPDATE" and table in _COLUMNS) else ""
                )
                statements[f"{privilege}{columns} ON sams.{table}"] = None
    granting = "; ".join(f"GRANT {text} TO {{who}}" for text in statements)
    db.execute(sql.SQL(granting).format(who=who))
