"""`sams doctor` on a database: each guard that is missing, changed or switched off turns it red."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sams_conformance.postgres_server import Database, superuser_url
from sams_core import Limits
from sams_core.backends.finding import Finding
from sams_core.backends.postgres import guards
from sams_core.backends.postgres.checkup import examine

from .conftest import ACME, Store

_WRITE = "SAMS_WRITE_GUARDS"


def found(url: str, *scopes: str) -> list[Finding]:
    """What is found, without what the test server is started with to be fast."""
    fast = {"durability", "connection"}
    return [f for f in examine(url, Limits(), scopes) if f.what not in fast]


def graver(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(f.level, f.what, f.detail) for f in findings if f.level in ("bad", "warn")]


def test_a_fresh_installation_is_what_the_package_says_it_makes(database: Database) -> None:
    with psycopg.connect(database.admin) as db:
        db.execute("SET search_path = pg_catalog")
        here = guards.snapshot(db)
    if _WRITE in os.environ:
        text = json.dumps(here, sort_keys=True, indent=0) + "\n"
        Path(guards.__file__).with_name("guards.json").write_text(text)
    assert here == guards.expected(), f"a migration changed: run this with {_WRITE}=1"


def test_a_database_as_installed_and_granted_has_nothing_bad(fresh: Store) -> None:
    everything = found(fresh.database.admin)
    assert graver(everything) == []
    ok = {f.what for f in everything if f.level == "ok"}
    assert {"schema", "server", "policies", "owner", "privileges", "gate", "search"} <= ok


GUARDS: list[tuple[str, str, str, str]] = [
    ("ALTER TABLE sams.notes DISABLE ROW LEVEL SECURITY", "bad", "policies", "is off: table notes"),
    ("ALTER TABLE sams.texts NO FORCE ROW LEVEL SECURITY", "bad", "policies", "forced: its owner"),
    (
        "DROP POLICY agent_reads ON sams.changes",
        "bad",
        "policies",
        "policy missing: changes.agent_",
    ),
    (
        "ALTER POLICY agent_reads ON sams.changes USING (true)",
        "bad",
        "policies",
        "policy changed: changes.agent_reads",
    ),
    (
        "ALTER POLICY agent_reads ON sams.changes TO CURRENT_USER",
        "bad",
        "policies",
        "policy changed: changes.agent_reads",
    ),
    (
        "CREATE POLICY all_of_it ON sams.changes USING (true)",
        "bad",
        "policies",
        "policy not of this package: changes.all_of_it",
    ),
    (
        "ALTER TABLE sams.changes DISABLE TRIGGER stamp",
        "bad",
        "triggers",
        "disabled: changes.stamp",
    ),
    (
        "ALTER TABLE sams.sources ENABLE REPLICA TRIGGER keep",
        "bad",
        "triggers",
        "disabled: sources",
    ),
    ("DROP TRIGGER keep ON sams.sources", "bad", "triggers", "trigger missing: sources.keep"),
    (
        "DROP TRIGGER keep ON sams.sources; CREATE TRIGGER keep BEFORE UPDATE ON sams.sources "
        "FOR EACH ROW EXECUTE FUNCTION sams.refuse()",
        "bad",
        "triggers",
        "trigger changed: sources.keep",
    ),
    (
        "CREATE RULE keep AS ON DELETE TO sams.notes DO INSTEAD NOTHING",
        "bad",
        "triggers",
        "rule not of this package: notes.keep",
    ),
    (
        "ALTER FUNCTION sams.vouched(text, text) RESET search_path",
        "bad",
        "functions",
        "without a pinned search_path: vouched(text, text)",
    ),
    (
        "ALTER FUNCTION sams.vouched(text, text) SET search_path = public, pg_catalog",
        "bad",
        "functions",
        "without a pinned search_path: vouched(text, text)",
    ),
    (
        "CREATE OR REPLACE FUNCTION sams.vouched(r text, c text) RETURNS boolean LANGUAGE sql STABLE "
        "SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'SELECT true'",
        "bad",
        "functions",
        "function changed: vouched(text, text)",
    ),
    (
        "CREATE FUNCTION sams.all_of_it() RETURNS SETOF sams.changes LANGUAGE sql SECURITY DEFINER "
        "SET search_path = pg_catalog, pg_temp AS 'SELECT * FROM sams.changes'",
        "bad",
        "functions",
        "function not of this package: all_of_it()",
    ),
    (
        "CREATE VIEW sams.all_of_it AS SELECT * FROM sams.changes",
        "bad",
        "policies",
        "table not of this package: all_of_it",
    ),
    (
        "ALTER TABLE sams.sources DROP CONSTRAINT sources_pkey",
        "bad",
        "constraints",
        "constraint missing: sources.sources_pkey",
    ),
    ("DROP INDEX sams.changes_open", "bad", "constraints", "unique index missing: changes_open"),
    ("DROP INDEX sams.lookup_terms", "warn", "indexes", "index missing: lookup_terms"),
    ("UPDATE sams.store SET version = version - 1", "bad", "schema", "run `sams admin install`"),
    ("UPDATE sams.store SET version = version + 1", "bad", "schema", "use a newer package"),
    ("DELETE FROM sams.lookup", "bad", "search", "rows are indexed wrongly"),
    ("UPDATE sams.partitions SET terms = 1", "bad", "search", "partitions are counted wrongly"),
    (
        "GRANT SELECT ON sams.texts TO PUBLIC",
        "bad",
        "privileges",
        "PUBLIC has beyond its grants: SE",
    ),
    (
        "GRANT EXECUTE ON FUNCTION sams.granted(text, text) TO PUBLIC",
        "bad",
        "privileges",
        "PUBLIC has beyond its grants: EXECUTE function granted(text, text)",
    ),
    ("GRANT CREATE ON SCHEMA sams TO {agent}", "bad", "privileges", "CREATE schema sams"),
    (
        "GRANT UPDATE (state) ON sams.changes TO {agent}",
        "bad",
        "privileges",
        "column changes.state",
    ),
    (
        "GRANT SELECT ON sams.texts TO {agent} WITH GRANT OPTION",
        "bad",
        "privileges",
        "SELECT table texts (and may grant it)",
    ),
    ("GRANT SELECT ON sams.texts TO {stranger}", "bad", "privileges", "SELECT table texts"),
    (
        "ALTER DEFAULT PRIVILEGES IN SCHEMA sams GRANT SELECT ON TABLES TO {stranger}",
        "bad",
        "privileges",
        "SELECT later tables",
    ),
    (
        "REVOKE SELECT ON sams.texts FROM {agent}",
        "warn",
        "privileges",
        "lacks what its grants need: SELECT table texts; grant again",
    ),
]


def _names(database: Database) -> dict[str, str]:
    database.login("stranger")
    logins = {"agent": f"agent {ACME} True", "owner": f"owner {ACME} True", "stranger": "stranger"}
    return {name: database.login_name(login) for name, login in logins.items()}


@pytest.mark.parametrize(
    ("sql", "level", "what", "detail"), GUARDS, ids=[f"{sql[:60]}" for sql, *_ in GUARDS]
)
def test_a_guard_that_is_not_as_installed_is_told(
    sql: str, level: str, what: str, detail: str, original: Database, copied: str
) -> None:
    statement = sql.format(**_names(original)) if "{" in sql else sql
    with psycopg.connect(copied) as db:
        db.execute(statement.encode())
    told = graver(found(copied))
    assert [d for lv, w, d in told if (lv, w) == (level, what) and detail in d], told


POWERS: list[tuple[str, str]] = [
    ("ALTER ROLE {agent} SUPERUSER", "is a superuser"),
    ("ALTER ROLE {agent} BYPASSRLS", "bypasses row-level security"),
    ("ALTER ROLE {agent} REPLICATION", "may replicate, and so copy the whole server"),
    ("GRANT sams_test_admin TO {agent}", "owns the tables, or can become their owner"),
    ("GRANT pg_read_server_files TO {agent}", "may read the server's files"),
    ("GRANT pg_write_server_files TO {agent}", "may write the server's files"),
    ("GRANT pg_execute_server_program TO {agent}", "may run programs on the server"),
    ("GRANT SET ON PARAMETER session_replication_role TO {agent}", "can switch triggers off"),
]


@pytest.fixture
def root() -> Any:
    with psycopg.connect(superuser_url(), autocommit=True) as db:
        yield db


@pytest.mark.parametrize(("sql", "detail"), POWERS, ids=[detail for _, detail in POWERS])
def test_a_granted_login_with_more_power_than_its_grants_is_red(
    sql: str, detail: str, fresh: Store, root: Any
) -> None:
    names = _names(fresh.database)
    root.execute(sql.format(**names))
    try:
        told = graver(found(fresh.database.admin))
        mine = [f for f in examine(fresh._urls["agent", ACME, True], Limits()) if f.what == "login"]
    finally:
        if "PARAMETER" in sql:  # or the role can't be dropped
            root.execute(sql.format(**names).replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
    assert ("bad", "login") in {(lv, w) for lv, w, d in told if detail in d and names["agent"] in d}
    assert [f for f in mine if f.level == "bad" and detail in f.detail], "its own view says it too"


def test_a_login_with_createrole_is_red_where_that_makes_it_the_owner(
    fresh: Store, root: Any
) -> None:
    root.execute("ALTER ROLE {agent} CREATEROLE".format(**_names(fresh.database)))
    told = [d for _, w, d in graver(found(fresh.database.admin)) if w == "login"]
    assert bool(told) == (root.info.server_version < 160_000), told


def test_tables_of_several_owners_or_of_a_superuser_are_told(fresh: Store, root: Any) -> None:
    database = fresh.database.name
    url = fresh.database._root.rpartition("/")[0] + f"/{database}"
    with psycopg.connect(url) as db:
        db.execute("ALTER TABLE sams.notes OWNER TO CURRENT_USER")
    told = graver(found(url))
    assert ("bad", "owner") in {(lv, w) for lv, w, _ in told}
    with psycopg.connect(url) as db:
        db.execute("REASSIGN OWNED BY sams_test_admin TO CURRENT_USER")
    assert [
        d for lv, w, d in graver(found(url)) if (lv, w) == ("warn", "owner") and "superuser" in d
    ]
