"""Which logins row-level security doesn't bind, and why."""

from __future__ import annotations

from typing import Any

import psycopg

_FACTS = """
SELECT r.rolsuper,
    r.rolbypassrls OR EXISTS (SELECT FROM pg_catalog.pg_roles b WHERE b.rolbypassrls
        AND pg_catalog.pg_has_role(r.oid, b.oid, 'MEMBER')),
    EXISTS (SELECT FROM pg_catalog.pg_roles s WHERE s.rolsuper
        AND pg_catalog.pg_has_role(r.oid, s.oid, 'MEMBER')),
    EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n
        ON n.oid = c.relnamespace AND n.nspname = 'sams'
        WHERE pg_catalog.pg_has_role(r.oid, c.relowner, 'MEMBER')),
    EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = 'sams'
        AND pg_catalog.pg_has_role(r.oid, n.nspowner, 'MEMBER')),
    EXISTS (SELECT FROM pg_catalog.pg_roles b WHERE pg_catalog.pg_has_role(r.oid, b.oid, 'MEMBER')
        AND (b.rolreplication OR b.rolname IN ('pg_read_server_files', 'pg_write_server_files',
            'pg_execute_server_program'))),
    pg_catalog.current_setting('server_version_num')::integer < 160000 AND EXISTS (
        SELECT FROM pg_catalog.pg_roles b WHERE b.rolcreaterole
        AND pg_catalog.pg_has_role(r.oid, b.oid, 'MEMBER')),
    pg_catalog.has_parameter_privilege(r.oid, 'session_replication_role', 'SET') OR
        r.rolname = session_user
        AND pg_catalog.current_setting('session_replication_role') <> 'origin'
FROM pg_catalog.pg_roles r WHERE r.rolname = coalesce(%s, session_user)
"""


def bypass_of(db: psycopg.Connection[tuple[Any, ...]], login: str | None = None) -> str | None:
    """Return why row-level security doesn't bind a login (by default the connection's), or None."""
    row = db.execute(_FACTS, (login,)).fetchone()
    if row is None:
        return "isn't known to the server"
    for found, reason in zip(row, _REASONS, strict=True):
        if found:
            return reason
    return None


_REASONS = (
    "is a superuser",
    "bypasses row-level security",
    "can become a superuser",
    "owns the tables, or can become their owner",
    "owns the schema, or can become its owner",
    "reads the server's files, or all of its data as a replica",
    "may create roles, and so become any role of this server",
    "can switch triggers off, or has them switched off",
)
