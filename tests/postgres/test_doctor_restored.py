"""`sams doctor --restored` on databases that were dumped and restored, whole and in pieces."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from sams_conformance.postgres_server import Database, binaries, superuser_url
from sams_core import AgentSession, Limits
from sams_core.backends.finding import AFTER_A_RESTORE, UNSEEN, Finding
from sams_core.backends.postgres import PostgresBackend
from sams_core.backends.postgres.checkup import examine

from .conftest import ACME, Store


def found(url: str, scope: str | None = ACME) -> list[Finding]:
    fast = {"durability", "connection"}
    findings = examine(url, Limits(), after_restore=True)
    return [f for f in findings if f.what not in fast and f.scope in (None, scope)]


def of(findings: list[Finding], what: str, level: str) -> list[str]:
    return [f.detail for f in findings if (f.what, f.level) == (what, level)]


def program(name: str, *words: str) -> None:
    done = subprocess.run(
        [str(binaries() / name), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def copy(tmp_path: Path, fresh: Store) -> Iterator[Database]:
    """Another database, into which the administrator has restored his dump of the first."""
    made = Database(f"{tmp_path} copy")
    made.create(install=False)
    dump = str(tmp_path / "dump")
    words = ("--enable-row-security", "--schema=sams", "--format=custom")
    program("pg_dump", *words, f"--file={dump}", fresh.database.admin)
    program("pg_restore", "--exit-on-error", f"--dbname={made.admin}", dump)
    yield made
    made.drop()


def edit(database: Database, *statements: str) -> None:
    """Do what no login of ours can: change rows behind the triggers."""
    url = superuser_url().rpartition("/")[0] + f"/{database.name}"
    with psycopg.connect(url) as db:
        db.execute("SET session_replication_role = replica")
        for statement in statements:
            assert db.execute(statement.encode()).rowcount != 0, statement


def session(copy: Database, fresh: Store, session_id: str) -> AgentSession:
    url = fresh._urls["agent", ACME, True].rpartition("/")[0] + f"/{copy.name}"
    backend = PostgresBackend(url)
    fresh._stack.callback(backend.close)
    return AgentSession(
        backend,
        session_id=session_id,
        agent="bot",
        assigned=ACME,
        user="insider",
        observed="by-hand",
    )


def test_a_dump_is_restored_with_every_guard_and_grant(copy: Database, fresh: Store) -> None:
    findings = found(copy.admin)
    assert [f for f in findings if f.level == "bad"] == []
    assert [f.detail for f in findings if f.level == "warn"] == [AFTER_A_RESTORE]
    ok = {f.what for f in findings if f.level == "ok"}
    assert {"ledger", "sequences", "restored", "policies", "privileges", "gate"} <= ok
    assert session(copy, fresh, "s-marked").tainted
    assert not session(copy, fresh, "s-later").tainted


def test_what_came_after_the_backup_is_unknown_and_therefore_said(
    copy: Database, fresh: Store
) -> None:
    """A session that was marked after the backup begins clean: nothing in it can tell."""
    fresh.session("s-after").mark_tainted("a page")
    assert not session(copy, fresh, "s-after").tainted
    assert AFTER_A_RESTORE in of(found(copy.admin), "restored", "warn")


def test_sessions_that_an_older_ledger_does_not_know_are_counted_and_start_marked(
    copy: Database, fresh: Store
) -> None:
    where = f"WHERE container = '{ACME}'"
    edit(copy, *(f"DELETE FROM sams.{t} {where}" for t in ("sources", "sessions", "families")))
    (detail,) = of(found(copy.admin), "ledger", "warn")
    assert "1 sessions of which memory exists are unknown to it" in detail
    assert detail.endswith("(ledger-lost): s-marked")
    opened = session(copy, fresh, "s-marked")
    assert [source.kind for source in opened.sources] == ["ledger-lost"]
    assert "1 sessions began marked" in of(found(copy.admin), "ledger", "warn")[0]


def test_a_mark_that_an_older_ledger_lost_is_bad_and_names_the_session(
    copy: Database, fresh: Store
) -> None:
    edit(copy, f"DELETE FROM sams.sources WHERE container = '{ACME}'")
    assert not session(copy, fresh, "s-marked").tainted, "which is why it is bad"
    (detail,) = of(found(copy.admin), "ledger", "bad")
    assert "1 sessions wrote under marks that it has lost" in detail
    assert detail.endswith("s-marked")
    assert of(found(copy.admin, "tenant:globex"), "ledger", "ok")


TORN = {
    "DELETE FROM sams.texts WHERE path = 'facts'": "1 versions without their text",
    "UPDATE sams.versions SET version = 3 WHERE path = 'facts'": "2 versions missing before",
    "DELETE FROM sams.versions WHERE change_id IS NOT NULL": "1 accepted changes without their ver",
    "DELETE FROM sams.decisions": "1 versions of changes that aren't decided",
    "UPDATE sams.changes SET state = 'open' WHERE state = 'accepted'": "1 decisions of changes that",
    "UPDATE sams.changes SET base_version = 9 WHERE state = 'open'": "2 open changes on versions",
    "UPDATE sams.meta SET revision = 0": "revisions below those of served versions",
}


@pytest.mark.parametrize("sql", TORN)
def test_tables_of_different_times_are_bad(sql: str, copy: Database) -> None:
    container = f"container = '{ACME}'"
    edit(copy, sql + (f" AND {container}" if "WHERE" in sql else f" WHERE {container}"))
    (detail,) = of(found(copy.admin), "restored", "bad")
    assert TORN[sql] in detail


def test_a_sequence_behind_its_table_is_bad(copy: Database) -> None:
    with psycopg.connect(copy.admin) as db:
        db.execute("ALTER TABLE sams.changes ALTER COLUMN seq RESTART WITH 1")
    (detail,) = of(found(copy.admin), "sequences", "bad")
    assert detail.endswith("changes_seq_seq")


def test_records_from_the_future_tell_of_a_slow_clock(copy: Database) -> None:
    edit(copy, "UPDATE sams.changes SET date = '2999-01-01T00:00:00.000000+00:00'")
    (detail,) = of(found(copy.admin), "clock", "warn")
    assert "2999-01-01" in detail


def test_grants_of_logins_that_the_new_server_lacks_are_void(copy: Database, fresh: Store) -> None:
    login = fresh.database.login_name(f"agent {ACME} True")
    edit(copy, f"UPDATE sams.grants SET who = 1 WHERE login = '{login}'")
    findings = found(copy.admin)
    assert [d for d in of(findings, "grants", "warn") if login in d and "another login" in d]
    assert [d for d in of(findings, "privileges", "bad") if login in d], "its rights are left over"
    edit(copy, f"UPDATE sams.grants SET login = 'gone' WHERE login = '{login}'")
    assert [d for d in of(found(copy.admin), "grants", "warn") if "gone" in d and "no login" in d]


def test_an_owners_login_sees_its_container_and_says_what_it_cannot_see(
    copy: Database, fresh: Store
) -> None:
    url = fresh._urls["owner", ACME, True].rpartition("/")[0] + f"/{copy.name}"
    findings = found(url)
    assert of(findings, "sequences", "warn") == [UNSEEN]
    assert of(findings, "ledger", "ok")
    assert of(findings, "restored", "ok")
    assert {f.scope for f in findings} == {None, ACME}
