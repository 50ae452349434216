"""A stolen login with raw SQL: each attempt is refused or finds nothing, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from .conftest import ACME, OTHER, Store

TABLES = """store grants families sessions sources pins jobs readings meta versions texts handles
changes decisions notes replays lookup partitions""".split()
KEYED = [name for name in TABLES if name not in ("store", "grants")]
Attempt = Callable[..., str]


def _everything(store: Store) -> list[Any]:
    with psycopg.connect(store.database.admin) as db:
        return [
            sorted(map(repr, db.execute(f"SELECT * FROM sams.{table}").fetchall()))
            for table in TABLES
        ]


@pytest.mark.parametrize("role", ["agent", "dreamer", "owner"])
def test_another_tenants_rows_are_seen_and_touched_by_no_role(
    filled: Store, attempt: Attempt, role: str
) -> None:
    db, before = filled.raw(role), _everything(filled)
    for table in KEYED:
        theirs = f"FROM sams.{table} WHERE container = '{OTHER}'"
        attempt(db, f"SELECT * {theirs}")
        attempt(db, f"SELECT 1 {theirs} FOR UPDATE")
        attempt(db, f"DELETE {theirs}")
        attempt(db, f"UPDATE sams.{table} SET container = '{ACME}' WHERE container = '{OTHER}'")
        attempt(db, f"TRUNCATE sams.{table}")
        attempt(db, f"COPY (SELECT * {theirs}) TO '/tmp/stolen'")
        attempt(db, f"BEGIN; LOCK TABLE sams.{table} IN ACCESS EXCLUSIVE MODE")
    attempt(db, f"SELECT * FROM sams.grants WHERE container = '{OTHER}'")
    assert _everything(filled) == before


@pytest.mark.parametrize("role", ["agent", "dreamer", "owner"])
@pytest.mark.parametrize(
    "call",
    [
        "sams.lock_family('{c}', 's-marked')",
        "sams.open_session('{c}', 's-new', 'bot')",
        "sams.open_session('{c}', 's-marked', 'bot')",
        "sams.add_sources('{c}', 's-marked', '[]', 9)",
        'sams.add_source(\'{c}\', \'s\', \'{{"kind": "tool", "name": "x", "first_seen": "x"}}\')',
        "sams.counts('{r}', '{c}', 's-marked', 'p', 'bot')",
        "sams.superseded('{r}', '{c}', NULL, NULL, NULL)",
        "sams.search('{c}', '{c}', false, '{{zanzibar}}', '[]', 2, 5)",
        "sams.search('{c}', 'run:s-marked', true, '{{zanzibar}}', '[]', 2, 5)",
        "sams.snapshot_entries('{c}', 'job', false)",
        "sams.snapshot_changes('{c}', 'job', false)",
        "sams.snapshot_notes('{c}', 'job', false)",
        "sams.snapshot_bases('{c}', 'job', false)",
        "sams.has_memory('{c}', 's-marked')",
        "sams.marks_to_stamp('{c}', 's-marked')",
        "sams.readings_to_stamp('{c}', 'job', 9)",
        "sams.begin_snapshot('{c}', 'job')",
        "sams.granted('{r}', '{c}')",
        "sams.vouched('{r}', '{c}')",
        "sams.check_granted('{r}', '{c}')",
    ],
)
def test_functions_give_nothing_of_another_tenant(
    filled: Store, attempt: Attempt, role: str, call: str
) -> None:
    db, before = filled.raw(role), _everything(filled)
    attempt(db, f"SELECT * FROM {call.format(c=OTHER, r=role)} x")
    assert _everything(filled) == before


@pytest.mark.parametrize("role", ["agent", "dreamer", "owner"])
@pytest.mark.parametrize(
    "sql",
    [
        "SET ROLE sams_test_admin",
        "SET SESSION AUTHORIZATION sams_test_admin",
        "SET row_security = off; SELECT * FROM sams.versions WHERE container = '{o}'",
        "ALTER TABLE sams.changes DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE sams.changes NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE sams.changes DISABLE TRIGGER ALL",
        "DROP TRIGGER stamp ON sams.changes",
        "CREATE POLICY mine ON sams.versions USING (true)",
        "DROP POLICY reads ON sams.versions",
        "INSERT INTO sams.grants (login, role, container) VALUES (session_user, 'owner', '{a}')",
        "UPDATE sams.grants SET clean_sessions = true",
        "UPDATE sams.grants SET container = '{o}'",
        "DELETE FROM sams.grants",
        "UPDATE sams.store SET version = 99",
        "GRANT ALL ON sams.versions TO PUBLIC",
        "CREATE TABLE sams.mine (x text)",
        "CREATE FUNCTION sams.granted(text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "CREATE OR REPLACE FUNCTION sams.granted(r text, c text) RETURNS boolean LANGUAGE sql "
        "AS 'SELECT true'",
        "ALTER FUNCTION sams.granted(text, text) OWNER TO session_user",
        "SET session_replication_role = replica",
        "DO $$ BEGIN EXECUTE 'UPDATE sams.versions SET labelled = false'; END $$",
        "SELECT nextval('sams.changes_seq_seq')",
        "SELECT setval('sams.changes_seq_seq', 1)",
        "SELECT last_value FROM sams.changes_seq_seq",
        "SELECT lo_import('/etc/passwd')",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY sams.changes FROM PROGRAM 'id'",
        "SELECT query FROM pg_stat_activity WHERE query LIKE '%zanzibar%' AND usename <> session_user",
        "SELECT most_common_vals FROM pg_stats WHERE schemaname = 'sams' AND tablename = 'texts'",
    ],
)
def test_no_login_widens_what_it_may(filled: Store, attempt: Attempt, role: str, sql: str) -> None:
    db, before = filled.raw(role), _everything(filled)
    attempt(db, sql.format(a=ACME, o=OTHER))
    assert _everything(filled) == before


def _insert(table: str, **values: str) -> str:
    return f"INSERT INTO sams.{table} ({', '.join(values)}) VALUES ({', '.join(values.values())})"


_CHANGE = {
    "container": f"'{ACME}'",
    "id": "repeat('a', 32)",
    "kind": "'write'",
    "writer": "'s-marked'",
    "path": "'p'",
    "agent": "'bot'",
    "session_id": "'s-marked'",
    "login": "session_user",
    "base_version": "0",
    "description": "'d'",
    "content": "'x'",
    "date": "''",
    "size": "0",
}
_VERSION = {
    "container": f"'{ACME}'",
    "path": "'p'",
    "version": "1",
    "labelled": "false",
    "born": "1",
    "date": "''",
    "digest": "'x'",
    "login": "session_user",
    "provenance": "'{}'",
}
_NOTE = {
    "container": f"'{ACME}'",
    "scope": "'run:s-marked'",
    "path": "'n2'",
    "version": "1",
    "family": "'s-marked'",
    "session_id": "'s-marked'",
    "agent": "'bot'",
    "login": "session_user",
    "labelled": "false",
    "date": "''",
    "size": "0",
    "description": "'d'",
    "content": "'x'",
}


@pytest.mark.parametrize(
    "sql",
    [
        _insert("versions", **_VERSION),
        _insert("texts", container=f"'{ACME}'", path="'p'", version="1", description="''", content="''"),
        "UPDATE sams.versions SET labelled = false, sources = '[]'",
        "UPDATE sams.versions SET status = 'retired'",
        "DELETE FROM sams.versions",
        "UPDATE sams.texts SET content = 'x'",
        "UPDATE sams.meta SET revision = 0",
        "INSERT INTO sams.handles VALUES ('tenant:acme', 'q', 'untrusted/00000000')",
        "UPDATE sams.changes SET content = 'x'",
        "UPDATE sams.changes SET state = 'accepted'",
        "UPDATE sams.changes SET sources = '[]'",
        "UPDATE sams.changes SET login = 'somebody'",
        "DELETE FROM sams.changes",
        "SELECT * FROM sams.decisions",
        "INSERT INTO sams.decisions SELECT container, id, 'accepted', 'olga', session_user, '', '', "
        "'', '[]' FROM sams.changes WHERE state = 'open'",
        "DELETE FROM sams.sources",
        "UPDATE sams.sources SET family = 'nobody'",
        "DELETE FROM sams.sessions",
        "UPDATE sams.sessions SET agent = 'boss'",
        "DELETE FROM sams.families",
        "UPDATE sams.families SET salt = ''",
        "DELETE FROM sams.pins",
        "DELETE FROM sams.notes",
        "DELETE FROM sams.replays",
        "UPDATE sams.notes SET container = 'tenant:globex'",
        "UPDATE sams.notes SET scope = 'run:other', session_id = 'other'",
        _insert("changes", **_CHANGE | {"container": f"'{OTHER}'"}),
        _insert("changes", **_CHANGE | {"kind": "'proposal'"}),
        _insert("changes", **_CHANGE | {"agent": "'boss'"}),
        _insert("changes", **_CHANGE | {"session_id": "'never-opened'"}),
        _insert("changes", **_CHANGE | {"base_version": "7"}),
        _insert("changes", **_CHANGE | {"path": "'../x y'"}),
        _insert("notes", **_NOTE | {"container": f"'{OTHER}'"}),
        _insert("notes", **_NOTE | {"agent": "'boss'"}),
        _insert("sources", container=f"'{OTHER}'", family="'s'", kind="'tool'", name="'x'",
                first_seen="''", login="session_user"),
        _insert("sources", container="'org'", family="'s'", kind="'tool'", name="'x'",
                first_seen="''", login="session_user"),
        _insert("sources", container=f"'{ACME}'", family="'s'", kind="'harmless'", name="'x'",
                first_seen="''", login="session_user"),
        _insert("sessions", container=f"'{OTHER}'", session_id="'s'", family="'s'", agent="'b'",
                login="session_user", opened="''"),
        "SELECT * FROM sams.lookup WHERE scope NOT LIKE 'run:%'",
        "SELECT * FROM sams.readings",
        "SELECT * FROM sams.jobs",
        "SELECT sams.snapshot_entries('tenant:acme', 'job', false)",
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM sams.store; "
        "SELECT sams.lock_family('tenant:acme', 's-marked')",
    ],
)  # fmt: skip
def test_an_agents_login_cant_serve_decide_forge_or_unmark(
    filled: Store, attempt: Attempt, sql: str
) -> None:
    db, before = filled.raw("agent"), _everything(filled)
    attempt(db, sql)
    assert _everything(filled) == before


@pytest.mark.parametrize(
    "sql",
    [
        *(f"SELECT * FROM sams.{t}" for t in KEYED if t != "changes"),
        "SELECT * FROM sams.changes WHERE kind = 'write'",
        _insert("versions", **_VERSION),
        _insert("changes", **_CHANGE),
        _insert("changes", **_CHANGE | {"kind": "'proposal'", "agent": "'never-read'"}),
        _insert("changes", **_CHANGE | {"kind": "'proposal'", "container": f"'{OTHER}'"}),
        _insert("notes", **_NOTE),
        "INSERT INTO sams.readings (container, job, kind, name, first_seen) "
        "VALUES ('tenant:acme', 'job', 'x', 'x', '')",
        "DELETE FROM sams.readings",
        "UPDATE sams.changes SET state = 'accepted'",
        "SELECT * FROM sams.search('tenant:acme', 'tenant:acme', false, '{zanzibar}', '[]', 2, 5)",
    ],
)
def test_a_dreamers_login_can_propose_and_nothing_else(
    filled: Store, attempt: Attempt, sql: str
) -> None:
    db, before = filled.raw("dreamer"), _everything(filled)
    attempt(db, sql)
    assert _everything(filled) == before


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE sams.texts SET content = 'rewritten'",
        "DELETE FROM sams.texts",
        "DELETE FROM sams.versions",
        "UPDATE sams.versions SET labelled = false",
        "UPDATE sams.versions SET status = 'active' WHERE path = 'gone'",
        "UPDATE sams.changes SET content = 'x'",
        "DELETE FROM sams.changes",
        "DELETE FROM sams.decisions",
        "UPDATE sams.decisions SET owner = 'somebody'",
        "DELETE FROM sams.sources",
        "INSERT INTO sams.sources SELECT * FROM sams.sources",
        _insert("changes", **_CHANGE),
        "INSERT INTO sams.decisions SELECT container, id, 'accepted', 'olga', session_user, '', '', "
        "'', '[]' FROM sams.changes WHERE state <> 'open' LIMIT 1",
        "BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO sams.decisions SELECT container, id, "
        "'rejected', 'olga', session_user, '', '', '', '[]' FROM sams.changes WHERE state = 'open'",
    ],
)
def test_an_owners_login_cant_rewrite_what_was_stored(
    filled: Store, attempt: Attempt, sql: str
) -> None:
    db, before = filled.raw("owner"), _everything(filled)
    attempt(db, sql)
    assert _everything(filled) == before


def test_the_administrator_is_stopped_from_rewriting_by_accident(
    filled: Store, attempt: Attempt
) -> None:
    db, before = filled.admin(), _everything(filled)
    for table in ("sources", "sessions", "families", "changes", "versions", "texts", "decisions"):
        assert attempt(db, f"DELETE FROM sams.{table}") == "SM006"
        assert attempt(db, f"TRUNCATE sams.{table}") == "SM006"
    assert _everything(filled) == before


def test_what_a_login_shadows_in_its_own_schema_isnt_used(fresh: Store) -> None:
    admin = fresh.admin()
    db = fresh.raw("agent", clean=False)
    me = db.execute("SELECT session_user").fetchone()[0]
    admin.execute("CREATE SCHEMA evil")
    admin.execute(f"GRANT ALL ON SCHEMA evil TO {me}")
    db.execute("CREATE FUNCTION evil.split_part(text, text, integer) RETURNS text "
               "LANGUAGE sql AS $$ SELECT 'nobody' $$")  # fmt: skip
    db.execute("CREATE FUNCTION evil.to_char(timestamp, text) RETURNS text "
               "LANGUAGE sql AS $$ SELECT 'once' $$")  # fmt: skip
    db.execute("CREATE TEMP TABLE sources (container text, family text)")
    db.execute("SET search_path = evil, pg_temp, pg_catalog, sams")
    db.execute(_insert("changes", **_CHANGE))
    found = fresh.owner().backend.standing(ACME, "a" * 32)
    assert found.change.source_session == "s-marked"
    assert {s.kind for s in found.change.sources} == {"login", "reason"}
    assert found.change.date.startswith("20")


def test_a_forged_change_is_stored_with_the_truth(fresh: Store) -> None:
    """What a raw insert claims about login, sources, state, date and size is overwritten."""
    db = fresh.raw("agent")
    db.execute(
        _insert(
            "changes",
            **_CHANGE
            | {
                "login": "'somebody'",
                "writer": "'another-family'",
                "sources": "'[]'",
                "size": "-5",
                "state": "'accepted'",
                "closed_by": "repeat('b', 32)",
                "date": "'1999'",
            },
        )
    )
    me = db.execute("SELECT session_user").fetchone()[0]
    row = (
        fresh.admin()
        .execute(
            "SELECT login, writer, state, closed_by, size, date > '2020', sources->0->>'kind' "
            "FROM sams.changes WHERE id = repeat('a', 32)"
        )
        .fetchone()
    )
    assert row == (me, "s-marked", "open", None, 67, True, "reason")


def test_set_role_changes_neither_author_nor_rights(fresh: Store) -> None:
    admin = fresh.admin()
    db = fresh.raw("agent")
    other = fresh.database.login_name(f"agent {OTHER} True")
    me = db.execute("SELECT session_user").fetchone()[0]
    with psycopg.connect(fresh.database._root, autocommit=True) as root:
        root.execute(f"GRANT {other} TO {me}")
    db.execute(f"SET ROLE {other}")
    assert db.execute("SELECT DISTINCT container FROM sams.sessions").fetchall() == [(ACME,)]
    db.execute(_insert("changes", **_CHANGE | {"login": "current_user"}))
    sql = "SELECT login FROM sams.changes WHERE id = repeat('a', 32)"
    assert admin.execute(sql).fetchone() == (me,)


def test_an_errors_text_tells_no_tenant_of_another(fresh: Store) -> None:
    """A key that exists elsewhere fails as one that doesn't: the policy is asked first."""
    db, answers = fresh.raw("agent"), set()
    for session in ("s-marked", "never-was"):
        with pytest.raises(psycopg.Error) as caught:
            db.execute(
                _insert("sessions", container=f"'{OTHER}'", session_id=f"'{session}'",
                        family="'s'", agent="'b'", login="session_user", opened="''")
            )  # fmt: skip
        answers.add((caught.value.sqlstate, str(caught.value)))
    assert len(answers) == 1


def test_what_cant_be_prevented_is_answered_by_always_tainted(fresh: Store) -> None:
    """A compromised login reads, rolls the mark back and uses a fresh id: still tainted."""
    db = fresh.raw("agent", clean=False)
    db.execute("BEGIN")
    db.execute("SELECT sams.open_session(%s, 's-fresh', 'bot')", (ACME,))
    assert db.execute("SELECT content FROM sams.texts WHERE path = 'outside'").fetchone()
    db.execute("ROLLBACK")
    db.execute("SELECT sams.open_session(%s, 's-other', 'bot')", (ACME,))
    db.execute(_insert("changes", **_CHANGE | {"session_id": "'s-other'"}))
    change = fresh.owner().backend.standing(ACME, "a" * 32).change
    assert change.tainted
    assert [s.kind for s in change.sources] == ["login"]
