"""A throw-away installation: the schema and a login for each role, all gone afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from sams_core.backends.postgres.admin import Role, grant, install_schema
from sams_core.backends.postgres.connect import Connection, Secret, connect, translated
from sams_core.errors import PermissionDenied, StoreFailed

MARK = "made by sams demo, and removed with it"
_ROLES: tuple[Role, ...] = ("agent", "dreamer", "owner")
_PREFIX = "sams_demo_"
_LOCK = 5_216_411_709_340_002  # held while a throw-away installation is in use


@contextmanager
def scratch(admin_url: str, container: str) -> Iterator[dict[str, str]]:
    """Install the schema, yield the address of a login for each role, and remove everything again.

    The logins have random passwords, which the server sees as verifiers only, and expire after an
    hour. What an earlier run left behind because it was killed is removed first. Raises
    `PermissionDenied` (rule `not-scratch`) if the database holds this package's schema for any other
    reason, or (`scratch-rights`) if the login may not create schemas and roles.
    """
    secret = Secret(admin_url)
    db = connect(secret, prepare=False)
    try:
        if db.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).fetchone() != (True,):
            raise StoreFailed("another demo is using this database", rule="store-busy")
        _check(db)
        _clear(db, [])
        made: list[str] = []
        try:
            with db.transaction():
                db.execute("CREATE SCHEMA sams")
                db.execute(sql.SQL("COMMENT ON SCHEMA sams IS {}").format(MARK))
            install_schema(admin_url)
            urls: dict[str, str] = {role: _login(db, secret, role, made) for role in _ROLES}
            for role, name in zip(_ROLES, made, strict=True):
                grant(admin_url, name, role, container, clean_sessions=role != "owner")
            yield urls
        finally:
            _clear(db, made)
    except psycopg.Error as error:
        raise translated(error) from None
    finally:
        db.close()


def refused(url: str, statement: str) -> str | None:
    """Run a statement with a login's own rights; returns the rule that refused it, or None."""
    db = connect(Secret(url), prepare=False)
    try:
        with db.transaction(force_rollback=True):
            db.execute(statement.encode())
    except psycopg.Error as error:
        return translated(error).rule
    finally:
        db.close()
    return None


def _check(db: Connection) -> None:
    found = db.execute(
        "SELECT has_database_privilege(current_database(), 'CREATE'), rolcreaterole OR rolsuper "
        "FROM pg_roles WHERE rolname = session_user"
    ).fetchone()
    if found != (True, True):
        raise PermissionDenied(
            "this login must be allowed to create a schema here, and roles (CREATEROLE)",
            rule="scratch-rights",
        )
    row = db.execute(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 'sams'"
    ).fetchone()
    if row is not None and row[0] != MARK:
        raise PermissionDenied(
            "this database holds a schema sams that is no demo's: name another database",
            rule="not-scratch",
        )


def _clear(db: Connection, made: list[str]) -> None:
    """Remove the schema and its logins; a login of another kind makes the schema not ours."""
    with db.transaction():
        db.execute("SET LOCAL lock_timeout = '30s'")
        names = list(made)
        if db.execute("SELECT to_regclass('sams.grants') IS NOT NULL").fetchone() == (True,):
            names += [row[0] for row in db.execute("SELECT DISTINCT login FROM sams.grants")]
        if not all(name.startswith(_PREFIX) for name in names):
            raise PermissionDenied(
                "logins that are no demo's were granted roles here: name another database",
                rule="not-scratch",
            )
        db.execute("DROP SCHEMA IF EXISTS sams CASCADE")
        for name in dict.fromkeys(names):
            db.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(name)))


def _login(db: Connection, secret: Secret, role: str, made: list[str]) -> str:
    name, password = f"{_PREFIX}{role}_{secrets.token_hex(4)}", secrets.token_urlsafe(24)
    verifier = db.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256")
    row = db.execute("SELECT (now() + interval '1 hour')::text").fetchone()
    db.execute(
        sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} VALID UNTIL {}").format(
            sql.Identifier(name), verifier.decode(), row[0] if row else "now"
        )
    )
    made.append(name)
    found = conninfo_to_dict(secret.reveal()) | {"user": name, "password": password}
    return "postgresql:///?" + urlencode(found, quote_via=quote)
