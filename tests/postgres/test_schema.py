"""Installing, granting, revoking: by an administrator without powers, from many hosts at once."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest

from sams_conformance.postgres_server import Database
from sams_core import AgentSession, InvalidArguments, PermissionDenied, SamsError, StoreFailed
from sams_core.backends.postgres import (
    Grant,
    PostgresBackend,
    grant,
    grants,
    install_schema,
    revoke,
    schema_sql,
)
from sams_core.backends.postgres.admin import migrations
from sams_core.backends.postgres.base import SCHEMA_VERSION

from .conftest import ACME, OTHER, Store


@pytest.fixture
def empty(tmp_path):
    made = Database(f"{tmp_path} empty")
    made.create(install=False)
    yield made
    made.drop()


def test_the_administrator_of_these_tests_has_no_powers(database: Database) -> None:
    with psycopg.connect(database.admin) as db:
        row = db.execute(
            "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = session_user"
        ).fetchone()
        assert row == (False, False)
        assert db.execute("SELECT count(*) FROM pg_extension").fetchone() == (1,)  # plpgsql


def test_policies_are_forced_on_every_table_and_functions_have_a_pinned_path(
    database: Database,
) -> None:
    with psycopg.connect(database.admin) as db:
        rows = db.execute(
            "SELECT relname, relrowsecurity, relforcerowsecurity FROM pg_class "
            "WHERE relnamespace = 'sams'::regnamespace AND relkind = 'r'"
        ).fetchall()
        assert len(rows) == 18
        assert all(enabled and forced for _, enabled, forced in rows)
        functions = db.execute(
            "SELECT proname, proconfig, has_function_privilege('public', oid, 'EXECUTE') "
            "FROM pg_proc WHERE pronamespace = 'sams'::regnamespace"
        ).fetchall()
        assert len(functions) > 20
        for name, settings, public in functions:
            assert "search_path=pg_catalog, pg_temp" in (settings or []), name
            assert not public, name
        keys = db.execute(
            "SELECT c.conrelid::regclass::text, a.attname FROM pg_constraint c "
            "JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1] "
            "WHERE c.contype IN ('p', 'u') AND c.connamespace = 'sams'::regnamespace"
        ).fetchall()
        assert {k for _, k in keys} == {"container", "login", "single"}


def test_the_schemas_version_is_the_number_of_migrations(database: Database) -> None:
    assert len(migrations()) == SCHEMA_VERSION == install_schema(database.admin)


def test_processes_that_install_at_once_all_succeed(empty: Database) -> None:
    code = (
        "import sys; from sams_core.backends.postgres import install_schema; "
        "print(install_schema(sys.argv[1]))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, empty.admin], stdout=subprocess.PIPE)
        for _ in range(8)
    ]
    assert [p.communicate()[0].strip() for p in running] == [str(SCHEMA_VERSION).encode()] * 8


def test_the_schema_as_text_makes_the_same_store(empty: Database) -> None:
    with psycopg.connect(empty.admin) as db:
        db.execute(schema_sql().encode())
    assert install_schema(empty.admin) == SCHEMA_VERSION
    with PostgresBackend(empty.granted("agent", ACME))._pool.connection() as db:
        assert db.execute("SELECT version FROM sams.store").fetchone() == (SCHEMA_VERSION,)


def test_a_database_without_the_schema_says_what_to_run(empty: Database) -> None:
    backend = PostgresBackend(empty.admin)
    with pytest.raises(StoreFailed, match="sams admin install") as caught:
        backend.recover(ACME)
    assert caught.value.rule == "no-schema"
    backend.close()


def test_a_newer_schema_is_left_alone(database: Database) -> None:
    with psycopg.connect(database.admin) as db:
        db.execute("UPDATE sams.store SET version = 99")
    with pytest.raises(StoreFailed) as caught:
        install_schema(database.admin)
    assert caught.value.rule == "schema-newer"
    backend = PostgresBackend(database.granted("agent", ACME))
    with pytest.raises(StoreFailed) as caught:
        _ = backend.location
    assert caught.value.rule == "schema-version"
    backend.close()


def test_grants_are_listed_and_taken_back_at_once(store: Store) -> None:
    session = store.session()
    login = store.database.login_name(f"agent {ACME} True")
    assert grants(store.database.admin) == [Grant(login, "agent", ACME, True)]
    assert revoke(store.database.admin, login, "agent", ACME)
    assert not revoke(store.database.admin, login, "agent", ACME)
    for verb in (
        lambda: session.memory_read("assigned", "p"),
        lambda: session.memory_write("run", "n", "x", "d"),
        lambda: session.mark_tainted("x"),
    ):
        with pytest.raises(SamsError) as caught:
            verb()
        assert caught.value.rule in ("no-grant", "session-closed")
    assert grants(store.database.admin) == []


def test_one_of_two_grants_taken_back_leaves_the_other(store: Store) -> None:
    url, login = store.database.login("two"), store.database.login_name("two")
    for container in (ACME, OTHER):
        grant(store.database.admin, login, "agent", container, True)
    revoke(store.database.admin, login, "agent", ACME)
    backend = PostgresBackend(url)
    with pytest.raises(PermissionDenied):
        backend.read(ACME, ACME, "p")
    assert backend.read(OTHER, OTHER, "p") is None
    backend.close()


def test_what_cant_be_granted_is_refused(store: Store) -> None:
    admin, login = store.database.admin, store.database.login_name("x")
    store.database.login("x")
    for values, kind in (
        ((login, "boss", ACME), InvalidArguments),
        ((login, "agent", "org"), InvalidArguments),
        ((login, "agent", "tenant:"), PermissionDenied),
        (("nobody-of-that-name", "agent", ACME), InvalidArguments),
        (("postgres", "agent", ACME), PermissionDenied),
        (("sams_test_admin", "agent", ACME), PermissionDenied),
    ):
        with pytest.raises(kind):
            grant(admin, *values)  # type: ignore[arg-type]
    assert grants(admin) == []


@pytest.mark.parametrize(
    ("power", "reason"),
    [
        ("SUPERUSER", "is a superuser"),
        ("BYPASSRLS", "bypasses row-level security"),
        ("IN ROLE sams_test_admin", "owns the tables"),
    ],
)
def test_a_login_that_policies_dont_bind_opens_no_session(
    store: Store, power: str, reason: str
) -> None:
    """Also where the power came after the grant."""
    url = store.database.granted("agent", ACME)
    login = store.database.login_name(f"agent {ACME} True")
    with psycopg.connect(store.database._root, autocommit=True) as root:
        if power.startswith("IN ROLE"):
            root.execute(f"GRANT {power.removeprefix('IN ROLE ')} TO {login}")
        else:
            root.execute(f"ALTER ROLE {login} {power}")
    backend = PostgresBackend(url)
    with pytest.raises(PermissionDenied, match=reason) as caught:
        AgentSession(backend, session_id="s", agent="bot", assigned=ACME)
    assert caught.value.rule == "login-bypasses-rls"
    backend.close()


def test_a_login_needs_the_grant_that_fits(store: Store) -> None:
    agent = store.backend("agent")
    for attempt in (
        lambda: AgentSession(agent, session_id="s", agent="bot", assigned=OTHER),
        lambda: agent.recover(ACME),
        lambda: agent.history(ACME, "p"),
        lambda: agent.snapshot(ACME, "job", "all"),
        lambda: store.backend("dreamer").read(ACME, ACME, "p"),
        lambda: store.backend("owner").snapshot(ACME, "job", "all"),
        lambda: store.backend("owner").recover(OTHER),
    ):
        with pytest.raises(PermissionDenied) as caught:
            attempt()
        assert caught.value.rule == "no-grant"
    assert agent.read("org", "org", "p") is None
    agent.check_separation(ACME)
    agent.check_separation("org")
