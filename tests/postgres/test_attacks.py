"""Attacks on the database's own rules that once got through, each by the means that it took."""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from sams_conformance.postgres_server import Database
from sams_core.errors import InvalidArguments, PermissionDenied, SamsError, StoreFailed
from sams_core.records import SOURCE_KINDS, Draft, SessionKey, Source
from sams_core.scopes import check_path

from .conftest import ACME, OTHER, Store

CHANGE = (
    "INSERT INTO sams.changes (container, id, kind, writer, path, agent, session_id, login, "
    "base_version, description, content, date, size, flags, evidence) VALUES (%(container)s, %(id)s, "
    "'write', '', %(path)s, 'bot', %(session)s, session_user, 0, 'd', %(content)s, '', 0, %(flags)s, "
    "%(evidence)s)"
)


def _change(db: Any, change_id: str, tail: str = "", **more: Any) -> None:
    values = {"container": ACME, "path": "p", "session": "s-marked", "content": "x"}
    values |= {"id": change_id, "flags": Jsonb([]), "evidence": Jsonb([])} | more
    db.execute(CHANGE + tail, values)


def _code(db: Any, sql: str, *values: Any) -> str | None:
    try:
        with db.transaction():
            db.execute(sql, values or None)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def _root(store: Store) -> Any:
    """Connect as the server's superuser to the store's database."""
    url = make_conninfo(store.database._root, dbname=store.database.name)
    return psycopg.connect(url, autocommit=True)


def _waits(store: Store) -> bool:
    with psycopg.connect(store.database._root, autocommit=True) as root:
        sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s)"
        return bool(root.execute(sql, (store.database.name,)).fetchone()[0])


# One tenant against all others, or against the administrator.


@pytest.mark.parametrize("role", ["agent", "dreamer", "owner"])
def test_no_role_can_lock_a_table_against_other_tenants(filled: Store, role: str) -> None:
    """UPDATE of a table, DELETE and TRUNCATE give every LOCK TABLE; INSERT's lock stops no writer."""
    db = filled.raw(role)
    tables = [
        row[0]
        for row in filled.admin().execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'sams'::regnamespace AND relkind = 'r'"
        )
    ]
    assert len(tables) == 18
    for table in tables:
        for mode in ("SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"):
            assert _code(db, f"LOCK TABLE sams.{table} IN {mode} MODE") == "42501", (table, mode)


def test_a_login_cant_hold_up_its_own_revocation(store: Store) -> None:
    """The migrations' advisory lock is anybody's to take."""
    from sams_core.backends.postgres import revoke
    from sams_core.backends.postgres.admin import _LOCK

    session, raw = store.session(), store.raw("agent")
    raw.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
    raw.execute("BEGIN")
    raw.execute("SELECT * FROM sams.grants")
    done: list[bool] = []
    login = store.database.login_name(f"agent {ACME} True")
    thread = threading.Thread(
        target=lambda: done.append(revoke(store.database.admin, login, "agent", ACME)), daemon=True
    )
    thread.start()
    while thread.is_alive() and not _waits(store):
        time.sleep(0.01)
    assert not thread.is_alive(), "the revocation waits for the login that it is about"
    assert done == [True]
    with pytest.raises(SamsError):
        session.memory_read("assigned", "p")


# Somebody else's objects in the same database.


@pytest.fixture
def empty(tmp_path: Any) -> Any:
    made = Database(f"{tmp_path} attacks")
    made.create(install=False)
    yield made
    made.drop()


def _neighbour(database: Database) -> str:
    """Return the address of an unrelated application's login, which may create schemas."""
    url = database.login("neighbour")
    with psycopg.connect(database.admin, autocommit=True) as db:
        db.execute(
            f"GRANT CREATE ON DATABASE {database.name} TO {database.login_name('neighbour')}"
        )
    return url


@pytest.mark.parametrize("planted", ["nothing", "a table", "a function", "our version"])
def test_a_schema_that_somebody_else_made_first_is_refused(empty: Database, planted: str) -> None:
    """Its owner could put tables of its own in the place of ours."""
    from sams_core.backends.postgres import grant, install_schema, schema_sql

    with psycopg.connect(_neighbour(empty), autocommit=True) as db:
        db.execute("CREATE SCHEMA sams")
        db.execute("GRANT ALL ON SCHEMA sams TO PUBLIC")
        if planted == "a table":
            db.execute("CREATE TABLE sams.texts (container text)")
        if planted == "a function":
            db.execute("CREATE FUNCTION sams.granted(name, name) RETURNS boolean "
                       "LANGUAGE sql AS 'SELECT true'")  # fmt: skip
        if planted == "our version":
            db.execute("CREATE TABLE sams.store AS SELECT true AS single, 'x' AS id, 4 AS version")
            db.execute("GRANT ALL ON sams.store TO PUBLIC")
    login = empty.login_name("bot")
    empty.login("bot")
    for attempt in (
        lambda: install_schema(empty.admin),
        lambda: grant(empty.admin, login, "agent", ACME),
    ):
        with pytest.raises(PermissionDenied) as caught:
            attempt()
        assert caught.value.rule == "schema-owner"
    with psycopg.connect(empty.admin) as db, pytest.raises(psycopg.Error):
        db.execute(schema_sql().encode())


@pytest.mark.parametrize("way", ["install", "text"])
def test_installing_calls_no_function_of_somebody_else(empty: Database, way: str) -> None:
    """An exact match in `public` comes before a polymorphic function of the system's."""
    from sams_core.backends.postgres import install_schema, schema_sql

    with psycopg.connect(empty.admin, autocommit=True) as db:
        db.execute("GRANT ALL ON SCHEMA public TO PUBLIC")
    with psycopg.connect(_neighbour(empty), autocommit=True) as db:
        for types in ("text, text", "text, text, text", "text"):
            db.execute(f"CREATE FUNCTION public.format({types}) RETURNS text LANGUAGE plpgsql "
                       "AS $$ BEGIN RAISE EXCEPTION 'caught you'; END $$")  # fmt: skip
        db.execute("CREATE FUNCTION public.jsonb_path_query_array(jsonb, text) RETURNS jsonb "
                   "LANGUAGE sql IMMUTABLE AS 'SELECT $1'")  # fmt: skip
    if way == "install":
        install_schema(empty.admin)
    with psycopg.connect(empty.admin) as db:
        if way == "text":
            db.execute(schema_sql().encode())
        found = db.execute(
            "SELECT count(*) FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid "
            "WHERE d.refclassid = 'pg_proc'::regclass AND p.pronamespace = 'public'::regnamespace"
        ).fetchone()
    assert found == (0,)


def test_an_owner_calls_no_function_of_somebody_else(store: Store) -> None:
    owner, session = store.owner(), store.session()
    owner.write(ACME, "p", "x", "d")
    session.memory_write("assigned", "p", "y", "d", 1)
    with psycopg.connect(store.database._root, autocommit=True) as root:
        root.execute(f"GRANT CREATE ON DATABASE {store.database.name} TO PUBLIC")
    with _root(store) as root:
        root.execute("GRANT ALL ON SCHEMA public TO PUBLIC")
    with psycopg.connect(store.database.login("neighbour"), autocommit=True) as db:
        for kind in ("text", "bigint"):
            db.execute(f"CREATE FUNCTION public.unnest({kind}[]) RETURNS SETOF {kind} "
                       "LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'caught you'; END $$")  # fmt: skip
    (change,) = owner.changes(ACME)
    assert change.base is not None
    assert owner.accept(ACME, change.id, change.digest).version == 2


def test_an_unrelated_login_of_the_database_reaches_nothing(filled: Store, attempt: Any) -> None:
    with psycopg.connect(filled.database.login("unrelated"), autocommit=True) as db:
        for sql in (
            "SELECT * FROM sams.grants",
            "SELECT * FROM sams.store",
            "SELECT * FROM sams.texts",
            "INSERT INTO sams.grants (login, role, container) VALUES (session_user, 'owner', 'org')",
            "SELECT sams.granted('agent', 'tenant:acme')",
            "SELECT sams.utc_now()",
            "CREATE TABLE sams.mine (x text)",
            "DROP SCHEMA sams CASCADE",
            "ALTER SCHEMA sams RENAME TO theirs",
            "CREATE SCHEMA theirs",
            "SELECT pg_get_functiondef('sams.granted(text,text)'::regprocedure)",
        ):
            assert attempt(db, sql) == "42501", sql


# Logins that aren't who they were.


def _replaced(store: Store, login: str) -> None:
    """Let the administrator drop a login and make another of its name."""
    with _root(store) as root:  # fmt: skip
        root.execute(f"DROP OWNED BY {login}")
        root.execute(f"DROP ROLE {login}")


def test_a_login_made_anew_has_no_grant_of_its_predecessor(store: Store) -> None:
    from sams_core.backends.postgres import PostgresBackend, grant

    store.owner().write(ACME, "p", "zanzibar", "d")
    login = store.database.login_name(f"owner {ACME} True")
    _replaced(store, login)
    url = store.database.login(f"owner {ACME} True")
    grant(store.database.admin, login, "agent", OTHER)
    backend = PostgresBackend(url)
    for container, role in ((ACME, "owner"), (ACME, "agent"), (OTHER, "owner")):
        with pytest.raises(PermissionDenied):
            backend._need(container, role)  # type: ignore[arg-type]
    backend.close()
    with psycopg.connect(url, autocommit=True) as db:
        assert db.execute("SELECT * FROM sams.versions").fetchall() == []
        assert db.execute("SELECT role, container FROM sams.grants").fetchall() == [
            ("agent", OTHER)
        ]


def test_a_login_renamed_to_anothers_name_has_no_grant_of_it(store: Store) -> None:
    store.owner().write(ACME, "p", "zanzibar", "d")
    owner = store.database.login_name(f"owner {ACME} True")
    store.backend("owner", OTHER)  # another owner, whose rights on tables are the same
    thief = store.database.login_name(f"owner {OTHER} True")
    _replaced(store, owner)
    with psycopg.connect(store.database._root, autocommit=True) as root:
        root.execute(f"ALTER ROLE {thief} RENAME TO {owner}")
        store.database.login(f"owner {ACME} True")  # its password again
    with psycopg.connect(store._url("owner", ACME, True), autocommit=True) as db:
        assert db.execute("SELECT * FROM sams.versions").fetchall() == []
        assert not db.execute("SELECT sams.granted('owner', %s)", (ACME,)).fetchone()[0]


def test_an_upgrade_isnt_stopped_by_a_login_that_is_gone(store: Store) -> None:
    from sams_core.backends.postgres import admin, grants, revoke

    store.session()
    login = store.database.login_name(f"agent {ACME} True")
    _replaced(store, login)
    with psycopg.connect(store.database.admin) as db:
        assert admin._logins(db) == []
    assert [g.login for g in grants(store.database.admin)] == [login]
    assert revoke(store.database.admin, login, "agent", ACME)
    store.database.login(f"agent {ACME} True")


def test_a_power_that_came_later_is_noticed_whatever_was_asked_before(store: Store) -> None:
    """A login that is owner too may review; that answer is none for its agent's side."""
    from sams_core.backends.postgres import grant

    backend = store.backend("agent")
    login = store.database.login_name(f"agent {ACME} True")
    grant(store.database.admin, login, "owner", ACME)
    key = SessionKey(ACME, "s1", "s1", "bot")
    backend.open_session(key)
    with psycopg.connect(store.database._root, autocommit=True) as root:
        root.execute(f"ALTER ROLE {login} BYPASSRLS")
    with pytest.raises(PermissionDenied) as caught:
        backend.open_session(key)
    assert caught.value.rule == "login-bypasses-rls"
    fresh = store.backend("agent")
    fresh.changes(ACME)
    fresh.read(ACME, ACME, "p")
    for verb in (
        lambda: fresh.open_session(key),
        lambda: fresh.pin(key),
        lambda: fresh.add_sources(ACME, "s1", [Source("tool", "t", None, "now")]),
        lambda: fresh.check_separation(ACME),
    ):
        with pytest.raises(PermissionDenied) as caught:
            verb()
        assert caught.value.rule == "login-bypasses-rls"


@pytest.mark.parametrize(
    "power",
    ["REPLICATION", "IN pg_read_server_files", "IN pg_write_server_files",
     "IN pg_execute_server_program"],
)  # fmt: skip
def test_a_login_that_gets_round_policies_by_the_servers_files_is_refused(
    store: Store, power: str
) -> None:
    backend = store.backend("agent")
    login = store.database.login_name(f"agent {ACME} True")
    with psycopg.connect(store.database._root, autocommit=True) as root:
        if power.startswith("IN "):
            root.execute(f"GRANT {power.removeprefix('IN ')} TO {login}")
        else:
            root.execute(f"ALTER ROLE {login} {power}")
    with pytest.raises(PermissionDenied, match="files") as caught:
        backend.open_session(SessionKey(ACME, "s1", "s1", "bot"))
    assert caught.value.rule == "login-bypasses-rls"


def test_marks_of_a_container_that_was_taken_back_arent_none(store: Store) -> None:
    """One of two grants taken back leaves the rights on tables: policies then show nothing."""
    from sams_core.backends.postgres import grant, revoke

    session = store.session()
    login = store.database.login_name(f"agent {ACME} True")
    grant(store.database.admin, login, "agent", OTHER, True)
    grant(store.database.admin, login, "dreamer", ACME, True)
    session.mark_tainted("a page")
    assert session.tainted
    revoke(store.database.admin, login, "agent", ACME)
    for verb in (
        lambda: session.tainted,
        lambda: session.memory_read("assigned", "p"),
        lambda: session.context_block(),
        lambda: session.mark_tainted("another"),
        lambda: session.memory_write("run", "n", "x", "d"),
        lambda: session.memory_write("assigned", "p", "x", "d"),
    ):
        with pytest.raises(SamsError) as caught:
            verb()
        assert caught.value.rule in ("no-grant", "session-closed", "not-found")


@pytest.mark.parametrize("way", ["GRANT SET ON PARAMETER session_replication_role TO {}",
                                 "ALTER ROLE {} SET session_replication_role = replica"])  # fmt: skip
def test_a_login_that_triggers_dont_bind_is_refused(store: Store, way: str) -> None:
    backend = store.backend("agent")
    login = store.database.login_name(f"agent {ACME} True")
    with psycopg.connect(store.database._root, autocommit=True) as root:
        root.execute(way.format(login))
        with pytest.raises(PermissionDenied, match="triggers") as caught:
            backend.open_session(SessionKey(ACME, "s1", "s1", "bot"))
        root.execute(f"REVOKE ALL ON PARAMETER session_replication_role FROM {login}")
    assert caught.value.rule == "login-bypasses-rls"


# A stolen agent's login within its container.


def test_a_note_stays_with_its_session(fresh: Store) -> None:
    """Else a labelled note could be moved to a session without marks, and lose its label."""
    db = fresh.raw("agent")
    fresh.session("s-clean")
    for values in ("session_id = 's-clean'", "session_id = 's-clean', scope = 'run:s-clean'"):
        sql = f"UPDATE sams.notes SET {values} WHERE path = 'note'"
        assert _code(db, sql) in ("SM006", "42501"), values
    assert fresh.session("s-clean").memory_search("run", "zanzibar").items == ()
    rows = fresh.admin().execute(
        "SELECT scope, labelled FROM sams.notes WHERE container = %s", (ACME,)
    )
    assert rows.fetchall() == [("run:s-marked", True)]


def test_nobody_chooses_what_a_sessions_context_is_made_from(fresh: Store) -> None:
    """A pin that says "marked" would show labelled text to a session without marks."""
    db = fresh.raw("agent")
    for verb in (
        "INSERT INTO sams.pins VALUES ('tenant:acme', 's-clean', 0, 1, 0, 0, true)",
        "UPDATE sams.pins SET marked = true",
        "DELETE FROM sams.pins",
        "SELECT * FROM sams.pins",
    ):
        assert _code(db, verb) == "42501", verb
    assert _code(db, "SELECT * FROM sams.pin('tenant:globex', 's')") == "SM001"
    session = fresh.session("s-clean")
    block = session.context_block()
    assert "zanzibar of tenant:acme" in block
    assert "zanzibar outside" not in block
    assert not session.tainted
    marked = fresh.session("s-marked").context_block()
    assert "zanzibar outside" in marked
    fresh.owner().write(ACME, "later", "zanzibar later", "d")
    assert fresh.session("s-clean").context_block() == block


def test_a_waiting_change_isnt_withdrawn_by_an_insert_that_stores_nothing(fresh: Store) -> None:
    db, owner = fresh.raw("agent"), fresh.owner()
    before = {(c.id, c.path) for c in owner.changes(ACME)}
    (waiting,) = [i for i, path in before if path == "pending"]
    for change_id in (waiting, *(i for i, _ in before)):
        with pytest.raises(psycopg.errors.UniqueViolation):
            _change(db, change_id, " ON CONFLICT DO NOTHING", path="pending")
    assert {(c.id, c.path) for c in owner.changes(ACME)} == before


def test_a_waiting_change_isnt_withdrawn_by_an_insert_beside_one_in_flight(fresh: Store) -> None:
    fresh.session("s-other")
    first, second = fresh.raw("agent"), fresh.raw("agent")
    before = {c.id for c in fresh.owner().changes(ACME)}
    first.execute("BEGIN")
    _change(first, "a" * 32, session="s-other", path="elsewhere")
    failed: list[str | None] = []

    def withdraw() -> None:
        try:
            _change(second, "a" * 32, " ON CONFLICT DO NOTHING", path="pending")
        except psycopg.Error as error:
            failed.append(error.sqlstate)

    thread = threading.Thread(target=withdraw)
    thread.start()
    while thread.is_alive() and not _waits(fresh):
        time.sleep(0.01)
    first.execute("COMMIT")
    thread.join()
    assert failed == ["23505"]
    assert {c.id for c in fresh.owner().changes(ACME)} == before | {"a" * 32}


def test_a_changes_id_tells_no_tenant_of_another(fresh: Store) -> None:
    fresh.session("s-marked", OTHER)
    theirs = [c.id for c in fresh.owner(OTHER).changes(OTHER)]
    assert theirs
    for role in ("agent", "dreamer", "owner"):
        db, answers = fresh.raw(role), set()
        for change_id in (*theirs, "a" * 32):
            for tail in ("", " ON CONFLICT DO NOTHING"):
                with pytest.raises(psycopg.Error) as caught:
                    _change(db, change_id, tail, container=OTHER)
                answers.add((caught.value.sqlstate, caught.value.diag.message_primary))
        assert len(answers) == 1, (role, answers)


def test_flags_of_a_superseded_change_stay_whatever_number_its_successor_claims(
    fresh: Store,
) -> None:
    flag = {"rule": "override", "field": "content", "start": 0, "end": 1, "why": "w"}
    db = fresh.raw("agent")
    _change(db, "a" * 32, flags=Jsonb([flag]))
    sql = (
        CHANGE.replace("evidence)", "evidence, seq)", 1)
        .replace("VALUES", "OVERRIDING SYSTEM VALUE VALUES")
        .replace("%(evidence)s)", "%(evidence)s, -1)")
    )
    values = {"container": ACME, "id": "b" * 32, "path": "p", "session": "s-marked", "content": "y"}
    db.execute(sql, values | {"flags": Jsonb([]), "evidence": Jsonb([])})
    (found,) = [c for c in fresh.owner().changes(ACME) if c.path == "p"]
    assert found.id == "b" * 32
    assert found.supersedes == ("a" * 32,)
    assert ("override", "superseded content") in {(f.rule, f.field) for f in found.flags}


@pytest.mark.parametrize(
    "broken",
    [
        {"flags": {"a": 1}},
        {"flags": [1]},
        {"flags": ["x"]},
        {"flags": [[{"rule": "r", "field": "f", "start": 0, "end": 1, "why": "w"}]]},
        {"flags": [{}]},
        {"flags": [{"rule": "r", "field": "f", "start": 0, "end": 1}]},
        {"flags": [{"rule": 1, "field": "f", "start": 0, "end": 1, "why": "w"}]},
        {"flags": [{"rule": "r", "field": "f", "start": 0.5, "end": 1, "why": "w"}]},
        {"flags": [{"rule": "r", "field": "f", "start": "0", "end": 1, "why": "w"}]},
        {"flags": [{"rule": "r", "field": "f", "start": 0, "end": 2**60, "why": "w"}]},
        {"flags": [{"rule": "r", "field": "f", "start": -1, "end": 1, "why": "w"}]},
        {"flags": [{"rule": None, "field": "f", "start": 0, "end": 1, "why": "w"}]},
        {"flags": None},
        {"evidence": {"a": 1}},
        {"evidence": [1]},
        {"evidence": [["x"]]},
        {"evidence": "text"},
    ],
)
def test_a_malformed_change_isnt_stored_so_it_blocks_no_review(
    filled: Store, broken: dict[str, Any]
) -> None:
    values = {name: Jsonb(value) for name, value in broken.items()}
    with pytest.raises(psycopg.errors.CheckViolation):
        _change(filled.raw("agent"), "c" * 32, **values)
    assert len(filled.owner().changes(ACME)) == 2


PATHS = ["p", "a/b/c/d/e/f/g/h", "x" * 96, "...", ".a", "a..", "Untrusted2", "untrustedx/a", "a/untrusted",
         "", "a/b/c/d/e/f/g/h/i", "x" * 97, ".", "..", "a/../b", "a/./b", "../a", "a/..", "/a", "a/",
         "a//b", "untrusted", "untrusted/deadbeef", "UNTRUSTED/x", "Untrusted", "a b", "a\nb", "a\n",
         "ä", "a\x00"[:1] + "\x7f", "a%", "a*", "untrusted/"]  # fmt: skip


def test_a_path_is_the_same_to_the_database_and_to_the_package(fresh: Store) -> None:
    db = fresh.raw("agent")
    for number, path in enumerate(PATHS):
        try:
            fine = check_path(path) == path
        except InvalidArguments:
            fine = False
        change_id = f"{number:032x}"
        if fine:
            _change(db, change_id, path=path)
        else:
            with pytest.raises(psycopg.errors.CheckViolation):
                _change(db, change_id, path=path)


def test_the_database_takes_marks_of_every_kind(store: Store) -> None:
    backend, session = store.backend("agent"), store.session()
    for kind in SOURCE_KINDS:
        backend.add_sources(ACME, "s1", [Source(kind, f"of {kind}", None, "now")])
    assert {s.kind for s in session.sources} == set(SOURCE_KINDS)


def test_a_falsely_indexed_note_breaks_no_search(fresh: Store) -> None:
    from sams_core.backends.postgres.words import asked

    term = asked("zanzibar")["terms"][0]  # type: ignore[index]
    db = fresh.raw("agent")
    put = "SELECT sams.put(%s, %s, %s, true, %s, %s)"
    for number, count in enumerate(["x", None, [1], {}, True, -5, 1e300, 10**400]):
        db.execute(put, (ACME, "run:s-marked", f"false{number}", 1, Jsonb({term: count})))
    for length, counts in ((0, {}), (-1, {}), (1, [1]), (1, "x")):
        with pytest.raises(psycopg.errors.CheckViolation):
            db.execute(put, (ACME, "run:s-marked", "no", length, Jsonb(counts)))
    hits = fresh.session("s-marked").memory_search("run", "zanzibar").items
    assert [hit.path for hit in hits] == ["note"]


@pytest.mark.parametrize("role", ["agent", "dreamer", "owner"])
def test_the_planner_tells_of_another_tenant_what_it_tells_of_none(fresh: Store, role: str) -> None:
    """EXPLAIN estimates from statistics of all rows, whatever the policies show."""
    owner = fresh.owner(OTHER)
    for number in range(40):
        owner.write(OTHER, f"globex/{number}", "x", "d")
    fresh.admin().execute("ANALYZE")
    db, seen = fresh.raw(role), 0
    columns = db.execute(
        "SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'sams' "
        "WHERE c.relkind = 'r' AND a.attnum > 0 AND a.atttypid = 'text'::regtype"
    ).fetchall()
    for table, column in columns:
        plans = set()
        for value in (OTHER, "tenant:nobody", "globex/7", "x", "active", "nothing"):
            for compared in ("=", "<"):
                sql = f"EXPLAIN SELECT 1 FROM sams.{table} WHERE {column} {compared} '{value}'"
                try:
                    rows = db.execute(sql).fetchall()
                except psycopg.errors.InsufficientPrivilege:
                    continue
                seen += 1
                text = "\n".join(row[0] for row in rows)
                plans.add((compared, text.replace(f"'{value}'", "'?'")))
        assert len(plans) in (0, 2), (table, column, plans)
    assert seen > 20


def test_a_change_that_waits_for_a_decision_is_measured_by_what_it_published(fresh: Store) -> None:
    session, raw = fresh.session("s-marked"), fresh.raw("owner")
    (change,) = [c for c in fresh.owner().changes(ACME) if c.path == "pending"]
    raw.execute("BEGIN")
    raw.execute(
        "INSERT INTO sams.decisions (container, change_id, outcome, owner, login, date, digest, note, "
        "flags) VALUES (%s, %s, 'accepted', 'olga', session_user, '', '', '', '[]')",
        (ACME, change.id),
    )
    raw.execute(
        "INSERT INTO sams.versions (container, path, version, labelled, born, date, digest, login, "
        "provenance) VALUES (%s, 'pending', 1, false, 9, '', 'x', session_user, '{}')",
        (ACME,),
    )
    failures: list[SamsError] = []

    def rewrite() -> None:
        try:
            session.memory_write("assigned", "pending", "rewritten", "d")
        except SamsError as error:
            failures.append(error)

    thread = threading.Thread(target=rewrite)
    thread.start()
    while thread.is_alive() and not _waits(fresh):
        time.sleep(0.01)
    raw.execute("COMMIT")
    thread.join()
    assert [error.rule for error in failures] == ["version-conflict"]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_default_isolation_that_isnt_ours_stops_no_verb(store: Store, level: str) -> None:
    with psycopg.connect(store.database._root, autocommit=True) as root:
        name = store.database.name
        root.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{level}'")
    session, owner = store.session(), store.owner()
    session.mark_tainted("a page")
    session.memory_write("run", "n", "x", "d")
    session.memory_write("assigned", "p", "x", "d")
    (change,) = owner.changes(ACME)
    assert change.tainted
    assert owner.accept(ACME, change.id, change.digest).version == 1
    store.dreamer().snapshot("all")
    assert owner.clear_runs(ACME) == 1


# What is on disk when a verb returns.


def test_a_setting_of_the_login_or_the_database_makes_no_verb_less_durable(fresh: Store) -> None:
    """`synchronous_commit` is on when the transaction of each such statement ends."""
    owner, agent = fresh.raw("owner"), fresh.raw("agent")
    for db in (owner, agent):
        db.execute("SET synchronous_commit = off")

    def ends_with(db: Any, work: Any) -> str:
        with db.transaction(force_rollback=True):
            work(db)
            return str(db.execute("SHOW synchronous_commit").fetchone()[0])

    mark = "SELECT sams.add_sources(%s, 's-marked', %s, 100)"
    source = Jsonb([{"kind": "tool", "name": "t", "origin": None, "first_seen": "now"}])
    change = "SELECT id FROM sams.changes WHERE container = %s AND path = 'pending'"
    waiting = owner.execute(change, (ACME,)).fetchone()[0]
    decide = (
        "INSERT INTO sams.decisions (container, change_id, outcome, owner, login, date, digest, note, "
        "flags) VALUES (%s, %s, 'rejected', 'olga', session_user, '', '', '', '[]')"
    )
    retire = "UPDATE sams.versions SET status = 'retired' WHERE container = %s AND path = 'facts'"
    works = {
        "a mark": (agent, lambda db: db.execute(mark, (ACME, source))),
        "a mark inserted": (agent, lambda db: db.execute(
            "INSERT INTO sams.sources (container, family, kind, name, first_seen, login) "
            "VALUES (%s, 's-marked', 'tool', 'x', 'now', session_user)", (ACME,))),
        "a session": (agent, lambda db: db.execute("SELECT sams.open_session(%s, 'new', 'bot')", (ACME,))),
        "a change": (agent, lambda db: _change(db, "a" * 32)),
        "a decision": (owner, lambda db: db.execute(decide, (ACME, waiting))),
        "a retirement": (owner, lambda db: db.execute(retire, (ACME,))),
    }  # fmt: skip
    assert {name: ends_with(db, work) for name, (db, work) in works.items()} == dict.fromkeys(
        works, "on"
    )


# Texts that the database can't hold, in every argument of every verb.


@pytest.mark.parametrize("text", ["lone \ud800 surrogate", "nul \0 in it", "\U0001f600" * 200])
def test_only_refusals_of_ours_come_out_and_none_shows_its_text(store: Store, text: str) -> None:
    agent, owner, dreamer = (store.backend(role) for role in ("agent", "owner", "dreamer"))
    agent.open_session(SessionKey(ACME, "s1", "s1", "bot"))
    dreamer.snapshot(ACME, "job", "all")

    def draft(key: SessionKey, path: str, **more: Any) -> Draft:
        values: dict[str, Any] = {"description": "d", "content": "c", "base_version": 0}
        return Draft(key, "run:s1", path, "write", **(values | more))

    good, odd = SessionKey(ACME, "s1", "s1", "bot"), SessionKey(ACME, text, text, text)
    verbs = [
        lambda: agent.open_session(odd),
        lambda: agent.open_session(SessionKey(text, "s", "s", "bot")),
        lambda: agent.add_sources(ACME, "s1", [Source("tool", text, text, "now")]),
        lambda: agent.add_sources(ACME, text, [Source(text, "t", None, text)]),
        lambda: agent.sources(ACME, text),
        lambda: agent.pin(odd),
        lambda: agent.run_write(draft(good, "n", content=text, description=text)),
        lambda: agent.run_write(draft(good, text)),
        lambda: agent.run_write(draft(odd, "n")),
        lambda: agent.run_write(draft(good, "m", replay=text)),
        lambda: agent.submit(draft(good, "p", content=text)),
        lambda: agent.submit(draft(good, "q", rationale=text, evidence=(text,))),
        lambda: agent.submit(draft(good, text)),
        lambda: agent.submit(draft(odd, "r")),
        lambda: agent.own_change(odd, text),
        lambda: agent.read(ACME, ACME, text),
        lambda: agent.read(ACME, text, text),
        lambda: agent.index(ACME, ACME, False, text, 5),
        lambda: agent.search(ACME, ACME, False, text, 5),
        lambda: owner.standing(ACME, text),
        lambda: owner.history(ACME, text),
        lambda: owner.version_with(ACME, text),
        lambda: owner.retire(ACME, "p", text),
        lambda: owner.clear_runs(text),
        lambda: dreamer.snapshot(ACME, text, "all"),
    ]
    for number, verb in enumerate(verbs):
        try:
            verb()
        except SamsError as error:
            shown = repr(error) + str(error) + str(error.to_dict())
            assert "surrogate in" not in shown, number
            assert "nul " not in shown, number
            assert error.__suppress_context__ or error.__context__ is None, number
    assert owner.read(ACME, ACME, "nothing") is None  # the connections are fine
    assert agent._pool._open == len(agent._pool._idle) == 1


@pytest.mark.parametrize(
    "url",
    ["postgresql://u:hunter2@h/d\ud800", "postgresql://u:hunter2@h/d\0", "postgresql://u:hunter2@h:x y/d",
     "host=h password=hunter2 nonsense", "postgresql://u:hunter2%zz@h/d", "hunter2"],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_without_being_shown(url: str) -> None:
    from sams_core.backends.postgres import PostgresBackend, grants

    for use in (lambda: PostgresBackend(url), lambda: grants(url)):
        with pytest.raises((InvalidArguments, StoreFailed)) as caught:
            use()
        assert "hunter2" not in repr(caught.value) + str(caught.value)
