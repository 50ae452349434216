"""What any stolen login may try, by name: refused or nothing, for every role and for a stranger's login.

Each attempt runs under the login's own credentials, with raw SQL. Afterwards every row, and everything
that the catalogs say about tables, functions, policies, triggers, rights and logins, is as before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from .conftest import ACME, MISTAKES, OTHER, Store
from .test_hostile_login import TABLES, _everything

WHO = ["agent", "dreamer", "owner", "stranger"]
THEIRS = f"FROM sams.texts WHERE container = '{OTHER}'"
ATTEMPTS = {
    # Reading.
    "read by wildcard": "SELECT * FROM sams.texts WHERE container LIKE 'tenant:g%'",
    "read by an id that is a pattern": "SELECT * FROM sams.texts WHERE container IN ('tenant:%', '%', '*')",
    "read by regular expression": "SELECT * FROM sams.texts WHERE container ~ 'globex'",
    "read by another spelling": "SELECT * FROM sams.texts WHERE upper(container) = 'TENANT:GLOBEX'",
    "read through a temporary view": f"CREATE TEMP VIEW v AS SELECT * {THEIRS}; SELECT * FROM v",
    "read through a view without barrier": "CREATE TEMP VIEW v WITH (security_barrier = false, "
    f"security_invoker = false) AS SELECT * {THEIRS}; SELECT * FROM v",
    "read through a materialized view": f"CREATE MATERIALIZED VIEW v AS SELECT * {THEIRS}",
    "read through a cursor": f"BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT * {THEIRS}; COMMIT; FETCH ALL c",
    "read through a prepared statement": "PREPARE s (text) AS SELECT * FROM sams.texts WHERE "
    f"container = $1; EXECUTE s ('{OTHER}')",
    "read through a function of its own": "CREATE FUNCTION pg_temp.f() RETURNS SETOF sams.texts LANGUAGE "
    f"sql SECURITY DEFINER AS $$ SELECT * {THEIRS} $$; SELECT * FROM pg_temp.f()",
    "read through a function that tells what it is asked": "CREATE TEMP TABLE told (t text); "
    "CREATE FUNCTION pg_temp.tell(t text) RETURNS boolean COST 0.0001 LANGUAGE plpgsql AS "
    "$$ BEGIN INSERT INTO told VALUES (t); RETURN true; END $$; "
    f"SELECT * {THEIRS} AND pg_temp.tell(content); SELECT * FROM told WHERE t LIKE '%globex%'",
    "read by place on disk": f"SELECT * {THEIRS} AND ctid >= '(0,0)'",
    "read a sample": f"SELECT * FROM sams.texts TABLESAMPLE SYSTEM (100) WHERE container = '{OTHER}'",
    "read the table alone": f"SELECT * FROM ONLY sams.texts WHERE container = '{OTHER}'",
    "read with policies off": f"SET row_security = off; SELECT * {THEIRS}",
    "read under another setting": f"SET sams.login = 'sams_test_admin'; SELECT * {THEIRS}",
    "read what the planner knows": "SELECT * FROM pg_stats WHERE schemaname = 'sams'",
    "read what the planner knows of columns together": "SELECT * FROM pg_stats_ext WHERE schemaname = 'sams'",
    "read the planner's table": "SELECT * FROM pg_statistic",
    "read passwords": "SELECT rolpassword FROM pg_authid",
    "read others' statements": "SELECT query FROM pg_stat_activity WHERE usename <> session_user "
    "AND query LIKE '%sams.%'",
    "read others' functions' statistics": "SELECT * FROM pg_hba_file_rules",
    "read a file": "SELECT pg_read_file('postgresql.conf')",
    "read a file's bytes": "SELECT pg_read_binary_file('global/pg_control')",
    "list files": "SELECT pg_ls_dir('.')",
    "list the log of writes": "SELECT * FROM pg_ls_waldir()",
    "follow the log of writes": "SELECT pg_create_logical_replication_slot('s', 'test_decoding')",
    "copy to a file": f"COPY (SELECT * {THEIRS}) TO '/tmp/stolen'",
    "copy to a program": f"COPY (SELECT * {THEIRS}) TO PROGRAM 'cat'",
    # Writing, where nothing of the login's own may change either.
    "copy from a file": "COPY sams.changes FROM '/etc/passwd'",
    "copy from a program": "COPY sams.notes FROM PROGRAM 'id'",
    "update another's rows": f"UPDATE sams.notes SET content = 'x' WHERE container = '{OTHER}'",
    "update through a join": "UPDATE sams.texts t SET content = 'x' FROM sams.versions v "
    "WHERE v.container = t.container",
    "delete through a join": "DELETE FROM sams.notes n USING sams.texts t WHERE t.container = n.container",
    "merge and delete": "MERGE INTO sams.versions USING (VALUES (1)) x (y) ON true "
    "WHEN MATCHED THEN DELETE",
    "merge and update": f"MERGE INTO sams.meta m USING (VALUES (1)) x (y) ON m.container = '{OTHER}' "
    "WHEN MATCHED THEN UPDATE SET revision = 0",
    "upsert another's revision": f"INSERT INTO sams.meta VALUES ('{OTHER}', 9, 9) ON CONFLICT (container) "
    "DO UPDATE SET revision = 9",
    "publish in org": "INSERT INTO sams.meta VALUES ('org', 9, 9)",
    "truncate with what refers to it": "TRUNCATE sams.changes CASCADE",
    "truncate and count anew": "TRUNCATE sams.sources RESTART IDENTITY",
    "truncate every table at once": "TRUNCATE sams.texts, sams.versions, sams.notes, sams.grants",
    "write in a block": "DO $$ BEGIN DELETE FROM sams.sources; END $$",
    "write in a block, by text": "DO $$ BEGIN EXECUTE 'DELETE FROM sams.changes'; END $$",
    "leave a transaction prepared": f"BEGIN; SELECT * {THEIRS}; PREPARE TRANSACTION 'x'",
    # Becoming somebody else.
    "become the administrator": "SET ROLE sams_test_admin",
    "become the administrator for a transaction": "BEGIN; SET LOCAL ROLE sams_test_admin",
    "become the superuser": "SET ROLE postgres",
    "log in as the administrator": "SET SESSION AUTHORIZATION sams_test_admin",
    "become a group that reads everything": "SET ROLE pg_read_all_data",
    "join the administrator": "GRANT sams_test_admin TO CURRENT_USER",
    "make a login": "CREATE ROLE sams_helper LOGIN",
    "bypass policies": "ALTER ROLE CURRENT_USER BYPASSRLS",
    "become superuser": "ALTER ROLE CURRENT_USER SUPERUSER",
    "become a replica": "ALTER ROLE CURRENT_USER REPLICATION",
    "rename itself": "ALTER ROLE CURRENT_USER RENAME TO sams_someone",
    "change the administrator's password": "ALTER ROLE sams_test_admin PASSWORD 'x'",
    "set the administrator's search path": "ALTER ROLE sams_test_admin SET search_path = pg_temp",
    "set everybody's search path": "ALTER ROLE ALL SET search_path = pg_temp",
    "set the server": "ALTER SYSTEM SET synchronous_commit = off",
    "set the durability of the database": "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET "
    "synchronous_commit = off', current_database()); END $$",
    "play a replica": "SET session_replication_role = replica",
    "allow changes of system tables": "SET allow_system_table_mods = on",
    # Rights, grants.
    "grant itself a role": "INSERT INTO sams.grants (login, role, container) VALUES (session_user, 'owner', "
    f"'{ACME}')",
    "grant itself another container": f"UPDATE sams.grants SET container = '{OTHER}'",
    "vouch for itself": "UPDATE sams.grants SET clean_sessions = true",
    "take its grant from the books": "DELETE FROM sams.grants",
    "give all the schema": "GRANT ALL ON SCHEMA sams TO PUBLIC",
    "give all the tables": "GRANT ALL ON ALL TABLES IN SCHEMA sams TO PUBLIC",
    "give all the functions": "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sams TO PUBLIC",
    "give what comes later": "ALTER DEFAULT PRIVILEGES FOR ROLE sams_test_admin IN SCHEMA sams "
    "GRANT ALL ON TABLES TO PUBLIC",
    "take the tables over": "ALTER TABLE sams.texts OWNER TO CURRENT_USER",
    "take the schema over": "ALTER SCHEMA sams OWNER TO CURRENT_USER",
    "take everything over": "REASSIGN OWNED BY sams_test_admin TO CURRENT_USER",
    "drop what is owned": "DROP OWNED BY sams_test_admin",
    # The guards.
    "turn policies off": "ALTER TABLE sams.texts DISABLE ROW LEVEL SECURITY",
    "let policies not bind the owner": "ALTER TABLE sams.texts NO FORCE ROW LEVEL SECURITY",
    "add a policy": "CREATE POLICY mine ON sams.texts USING (true)",
    "change a policy": "ALTER POLICY own_grants ON sams.grants USING (true)",
    "drop a policy": "DROP POLICY own_grants ON sams.grants",
    "turn triggers off": "ALTER TABLE sams.changes DISABLE TRIGGER ALL",
    "rename a trigger": "ALTER TRIGGER stamp ON sams.changes RENAME TO zstamp",
    "drop a trigger": "DROP TRIGGER keep ON sams.sources",
    "add a trigger": "CREATE TRIGGER mine BEFORE INSERT ON sams.changes FOR EACH ROW "
    "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "add a rule": "CREATE RULE mine AS ON INSERT TO sams.sources DO INSTEAD NOTHING",
    "drop a constraint": "ALTER TABLE sams.changes DROP CONSTRAINT changes_pkey",
    "drop an index": "DROP INDEX sams.changes_open",
    "add an index over a function of its own": "CREATE INDEX ON sams.texts (lower(content))",
    "add a column": "ALTER TABLE sams.texts ADD COLUMN x text",
    "rename a table": "ALTER TABLE sams.texts RENAME TO old",
    "drop a table": "DROP TABLE sams.sources CASCADE",
    "drop the schema": "DROP SCHEMA sams CASCADE",
    "inherit a table": "CREATE TEMP TABLE t () INHERITS (sams.texts)",
    "refer to a table": "CREATE TEMP TABLE t (c text REFERENCES sams.meta)",
    "write in the schema": "CREATE TABLE sams.mine (x text)",
    "publish the tables": "CREATE PUBLICATION p FOR TABLE sams.texts",
    "watch every command": "CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION sams.refuse()",
    "rebuild a table": "CLUSTER sams.texts USING texts_pkey",
    "keep statistics": "CREATE STATISTICS s ON container, path FROM sams.texts",
    "comment": "COMMENT ON TABLE sams.texts IS 'mine'",
    # Functions and names.
    "replace a function": "CREATE OR REPLACE FUNCTION sams.granted(r text, c text) RETURNS boolean "
    "LANGUAGE sql AS 'SELECT true'",
    "add a function beside ours": "CREATE FUNCTION sams.granted(name, name) RETURNS boolean LANGUAGE sql "
    "AS 'SELECT true'",
    "unpin a function": "ALTER FUNCTION sams.granted(text, text) RESET search_path",
    "drop a function": "DROP FUNCTION sams.granted(text, text) CASCADE",
    "call a trigger's function": "SELECT sams.stamp_change()",
    "shadow a table": "CREATE TEMP TABLE grants AS SELECT session_user login, 'owner' AS role, "
    f"'{OTHER}' container; SET search_path = pg_temp, sams; SELECT sams.granted('owner', '{OTHER}')",
    "shadow a function": "CREATE FUNCTION pg_temp.quote_ident(name) RETURNS text LANGUAGE sql AS "
    f"$$ SELECT 'sams_test_admin' $$; SET search_path = pg_temp, pg_catalog; SELECT * {THEIRS}",
    "shadow an operator": "CREATE FUNCTION pg_temp.yes(name, name) RETURNS boolean LANGUAGE sql AS "
    "'SELECT true'; CREATE OPERATOR pg_temp.= (FUNCTION = pg_temp.yes, LEFTARG = name, RIGHTARG = name); "
    f"SET search_path = pg_temp, pg_catalog; SELECT * {THEIRS}",
    # What isn't a table.
    "take a number": "SELECT nextval('sams.changes_seq_seq')",
    "set a number": "SELECT setval('sams.changes_seq_seq', 1)",
    "look at a number": "SELECT last_value FROM sams.sources_seq_seq",
    "look at all numbers": "SELECT last_value FROM pg_sequences WHERE schemaname = 'sams'",
    "start a sequence anew": "ALTER SEQUENCE sams.changes_seq_seq RESTART",
    "read a large object": "SELECT lo_get(oid) FROM pg_largeobject_metadata",
    "read all large objects": "SELECT data FROM pg_largeobject",
    "take a file in as a large object": "SELECT lo_import('/etc/passwd')",
    "give a large object out as a file": "SELECT lo_export(1, '/tmp/stolen')",
    "listen": "LISTEN sams; SELECT pg_notification_queue_usage() > 0",
    "notify": "SELECT pg_notify('sams', 'x')",
    "load a library": "LOAD 'auto_explain'",
    "add an extension": "CREATE EXTENSION file_fdw",
    # Locks, and other sessions.
    "lock all of a table": "BEGIN; LOCK TABLE sams.notes IN ACCESS EXCLUSIVE MODE",
    "lock a table against writers": "BEGIN; LOCK TABLE sams.lookup IN SHARE MODE",
    "lock the grants": "BEGIN; LOCK TABLE sams.grants IN ROW EXCLUSIVE MODE",
    "lock its own grant": "SELECT 1 FROM sams.grants FOR UPDATE",
    "lock its own grant's key": "SELECT 1 FROM sams.grants FOR KEY SHARE",
    "lock another's rows": f"SELECT 1 FROM sams.meta WHERE container = '{OTHER}' FOR UPDATE",
    "end another's connection": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE usename = 'sams_test_admin'",
    "cancel another's statement": "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
    "WHERE usename = 'sams_test_admin'",
}  # fmt: skip

CALLS = {
    "lock_family": "'{c}', 's'",
    "open_session": "'{c}', 's-new', 'bot'",
    "add_sources": "'{c}', 's', '[]', 9",
    "add_source": '\'{c}\', \'s\', \'{{"kind": "tool", "name": "x", "first_seen": "x"}}\'',
    "has_memory": "'{c}', 's-marked'",
    "pin": "'{c}', 's-marked'",
    "counts": "'{r}', '{c}', 's-marked', 'p', 'bot'",
    "superseded": "'{r}', '{c}', NULL, NULL, NULL",
    "search": "'{c}', '{c}', false, '{{zanzibar}}', '[]', 2, 5",
    "snapshot_entries": "'{c}', 'job', false",
    "snapshot_changes": "'{c}', 'job', false",
    "snapshot_notes": "'{c}', 'job', false",
    "snapshot_bases": "'{c}', 'job', false",
    "proposal_base": "'{c}', 'x'",
    "clear_runs": "'{c}'",
    "put": "'{c}', 'run:s-marked', 'note', false, 1, '{{}}'",
    "unindex": "'{c}', 'facts'",
    "granted": "'{r}', '{c}'",
    "vouched": "'{r}', '{c}'",
}


def _catalogs(store: Store) -> list[Any]:
    """Return what says who may do what, and what guards it."""
    texts = (
        "SELECT relname, relowner, relacl::text, relrowsecurity, relforcerowsecurity, reloptions "
        "FROM pg_class WHERE relnamespace = 'sams'::regnamespace",
        "SELECT attrelid, attname, attacl::text FROM pg_attribute WHERE attrelid IN (SELECT oid "
        "FROM pg_class WHERE relnamespace = 'sams'::regnamespace)",
        "SELECT proname, proowner, proacl::text, proconfig, prosrc FROM pg_proc "
        "WHERE pronamespace = 'sams'::regnamespace",
        "SELECT polname, polrelid, pg_get_expr(polqual, polrelid) FROM pg_policy",
        "SELECT tgname, tgrelid, tgenabled FROM pg_trigger WHERE NOT tgisinternal",
        "SELECT nspname, nspowner, nspacl::text FROM pg_namespace WHERE nspname NOT LIKE 'pg_%temp%'",
        "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolreplication FROM pg_roles "
        "WHERE rolname IN (SELECT login FROM sams.grants) OR rolname ~ '^sams_(helper|someone)$'",
        "SELECT setrole, setconfig FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase "
        "WHERE datname = current_database()",
        "SELECT extname FROM pg_extension",
        "SELECT evtname FROM pg_event_trigger",
    )
    with psycopg.connect(store.database.admin) as db:
        return [sorted(map(repr, db.execute(text).fetchall())) for text in texts]


@pytest.fixture(scope="module")
def before(filled: Store) -> list[Any]:
    for who in WHO:
        _connected(filled, who).close()
    return _everything(filled) + _catalogs(filled)


def _connected(store: Store, who: str) -> Any:
    if who == "stranger":
        return psycopg.connect(store.database.login(who), autocommit=True)
    return psycopg.connect(store._url(who, ACME, True), autocommit=True)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_nothing_comes_of(
    filled: Store, before: list[Any], attempt: Callable[..., str], name: str
) -> None:
    for who in WHO:
        with _connected(filled, who) as db:
            attempt(db, ATTEMPTS[name])
    assert _everything(filled) + _catalogs(filled) == before


def test_the_attempts_are_many() -> None:
    assert len(ATTEMPTS) >= 120
    assert len(set(ATTEMPTS.values())) == len(ATTEMPTS)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("name", CALLS)
def test_a_function_tells_as_much_of_a_tenant_as_of_none(
    filled: Store, who: str, name: str
) -> None:
    """The same answer, to the letter, for one that is there, one that isn't, a pattern and NULL."""
    answers = set()
    with _connected(filled, who) as db:
        for container in (OTHER, "tenant:nobody", "tenant:%", "", "NULL"):
            call = f"sams.{name}({CALLS[name].format(c=container, r=who)})".replace(
                "'NULL'", "NULL"
            )
            try:
                rows = db.execute(f"SELECT * FROM {call}").fetchall()
            except psycopg.Error as error:
                assert error.sqlstate not in MISTAKES, str(error)
                diag = error.diag
                answers.add((error.sqlstate, diag.message_primary, diag.message_detail))
            else:
                assert all(not value for row in rows for value in row), rows
                answers.add((None, repr(rows)))
    assert len(answers) == 1, answers


@pytest.mark.parametrize("who", ["agent", "dreamer", "owner"])
def test_every_function_of_the_schema_is_tried(filled: Store, who: str) -> None:
    """A function that a role may call and that takes a container is among `CALLS`."""
    with _connected(filled, who) as db:
        rows = db.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE "
            "nspname = 'sams') AND has_function_privilege(oid, 'EXECUTE') AND pronargs > 0"
        ).fetchall()
    assert rows
    assert {row[0] for row in rows} <= CALLS.keys()


@pytest.mark.parametrize("who", WHO)
def test_copying_out_gives_the_login_its_own_rows_alone(filled: Store, who: str) -> None:
    with _connected(filled, who) as db:
        for table in TABLES:
            try:
                with db.cursor().copy(f"COPY (SELECT * FROM sams.{table}) TO STDOUT") as copied:
                    data = b"".join(copied)
            except psycopg.errors.InsufficientPrivilege:
                continue
            assert b"globex" not in data, table


@pytest.mark.parametrize("who", WHO)
def test_copying_in_gets_round_no_policy(filled: Store, before: list[Any], who: str) -> None:
    with _connected(filled, who) as db:
        for table in ("changes", "sources", "notes", "sessions", "decisions", "versions", "grants"):
            with (
                pytest.raises(
                    (psycopg.errors.FeatureNotSupported, psycopg.errors.InsufficientPrivilege)
                ),
                db.cursor().copy(f"COPY sams.{table} FROM STDIN") as copied,
            ):
                copied.write(f"{OTHER}\n".encode())
    assert _everything(filled) + _catalogs(filled) == before


@pytest.mark.parametrize("role", ["agent", "dreamer", "owner"])
def test_what_was_prepared_or_begun_before_a_revocation_gives_nothing_new_after_it(
    fresh: Store, role: str
) -> None:
    from sams_core.backends.postgres import revoke

    tables = {"agent": "texts", "dreamer": "changes", "owner": "decisions"}
    db, begun = fresh.raw(role), fresh.raw(role)
    for connection in (db, begun):
        connection.execute(f"PREPARE mine AS SELECT container FROM sams.{tables[role]}")
        assert connection.execute("EXECUTE mine").fetchall()
    begun.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert begun.execute("EXECUTE mine").fetchall()
    login = fresh.database.login_name(f"{role} {ACME} True")
    assert revoke(fresh.database.admin, login, role, ACME)  # type: ignore[arg-type]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        db.execute("EXECUTE mine")
    write = (
        "INSERT INTO sams.sessions (container, session_id, family, agent, login, opened) "
        "VALUES (%s, 's-late', '', 'bot', session_user, '')"
    )
    with pytest.raises(psycopg.Error):  # its old view of the data is all that it has
        begun.execute(write, (ACME,))
    begun.execute("ROLLBACK")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        begun.execute("EXECUTE mine")


def test_what_a_stolen_dreamer_reads_and_rolls_back_is_answered_by_always_tainted(
    fresh: Store,
) -> None:
    db = fresh.raw("dreamer", clean=False)
    db.execute("BEGIN")
    assert db.execute("SELECT * FROM sams.snapshot_entries(%s, 'other', false)", (ACME,)).fetchall()
    db.execute("ROLLBACK")
    db.execute("SELECT * FROM sams.snapshot_entries(%s, 'other', true)", (ACME,))
    db.execute(
        "INSERT INTO sams.changes (container, id, kind, writer, path, agent, login, base_version, "
        "description, content, date, size) VALUES (%s, repeat('a', 32), 'proposal', '', 'p', 'other', "
        "session_user, 0, 'd', 'laundered', '', 0)",
        (ACME,),
    )
    change = fresh.owner().backend.standing(ACME, "a" * 32).change
    assert change.tainted
    assert [s.kind for s in change.sources] == ["login"]
