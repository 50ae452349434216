"""`sams doctor` on real databases: what each login is told, and what it is told that it can't see."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from sams_conformance.postgres_server import Database, Server, binaries
from sams_core import AgentSession, Limits
from sams_core.backends.finding import UNSEEN, Finding
from sams_core.backends.postgres import grant
from sams_core.backends.postgres.checkup import examine, transport
from sams_core.cli import main

from .conftest import ACME, OTHER, Store
from .pooler import pooled

EVIL = "page \x1b]52;c;x\x07\u202e\U000e0041\nok    gate"


def sams(url: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *words], env={"SAMS_URL": url, "COLUMNS": "200"})


def of(findings: list[Finding], what: str, level: str | None = None) -> list[str]:
    return [f.detail for f in findings if f.what == what and level in (None, f.level)]


@pytest.fixture
def careful(tmp_path: Path) -> Iterator[Server]:
    """A server that is set up to keep what it acknowledges."""
    server = Server(fsync="on", full_page_writes="on", synchronous_commit="on")
    yield server
    server.stop()


@pytest.fixture
def kept(careful: Server, tmp_path: Path) -> Database:
    database = Database(str(tmp_path), careful.superuser)
    database.create()
    database.granted("owner", ACME)
    database.granted("agent", ACME)
    return database


def test_a_well_kept_database_is_fine_and_the_exit_code_says_so(kept: Database) -> None:
    result = sams(kept.admin)
    assert result.exit_code == 0, result.output
    assert "0 bad, 0 warn" in result.stdout
    assert "decided by owners alone" in result.stdout


def test_a_server_that_may_lose_what_it_acknowledged_is_bad(store: Store) -> None:
    with store.admin() as db:
        off = {
            n
            for n in ("fsync", "full_page_writes")
            if db.execute(f"SHOW {n}").fetchone()[0] == "off"
        }
    told = of(examine(store.database.admin, Limits()), "durability", "bad")
    assert {detail.split()[0] for detail in told} == off
    assert sams(store.database.admin).exit_code == (1 if off else 0)


def test_an_asynchronous_receiver_is_warned_about_where_the_login_may_know(
    careful: Server, kept: Database, tmp_path: Path
) -> None:
    assert of(examine(kept.admin, Limits()), "standbys", "ok") == ["0 connected, none asynchronous"]
    log = [str(binaries() / "pg_receivewal"), "-D", str(tmp_path), "-d", careful.superuser]
    receiver = subprocess.Popen(log, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with psycopg.connect(careful.superuser, autocommit=True) as db:
            sql = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
            while db.execute(sql).fetchone() == (0,):
                assert receiver.poll() is None
                time.sleep(0.02)
        root = careful.superuser.rpartition("/")[0] + f"/{kept.name}"
        assert "1 of 1 are asynchronous" in of(examine(root, Limits()), "standbys", "warn")[0]
        assert UNSEEN in of(examine(kept.admin, Limits()), "standbys", "warn")[0]
    finally:
        receiver.terminate()
        receiver.wait()


def test_a_server_restored_to_a_point_in_time_tells_its_timeline(
    careful: Server, kept: Database
) -> None:
    before = examine(kept.admin, Limits(), after_restore=True)
    assert of(before, "restored", "note")[0].startswith("timeline 1:")
    careful.kill()
    data = careful.folder / "data"
    with open(data / "postgresql.auto.conf", "a") as conf:
        conf.write("restore_command = 'false'\n")
    (data / "recovery.signal").touch()
    owner = data.stat()
    with suppress(PermissionError):
        os.chown(data / "recovery.signal", owner.st_uid, owner.st_gid)
    careful.start()
    with psycopg.connect(careful.superuser, autocommit=True) as db:
        while db.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
            time.sleep(0.02)
        db.execute("CHECKPOINT")
    after = examine(kept.admin, Limits(), after_restore=True)
    assert "timeline 2: a standby was promoted" in " ".join(of(after, "restored", "warn"))


def test_a_database_without_our_schema_is_bad(tmp_path: Path) -> None:
    database = Database(f"{tmp_path} bare")
    database.create(install=False)
    result = sams(database.admin)
    assert result.exit_code == 1
    assert "no schema here: run `sams admin install`" in result.stdout
    database.drop()


def test_an_owners_login_is_told_its_own_and_what_it_cannot_see(fresh: Store) -> None:
    findings = examine(fresh._urls["owner", ACME, True], Limits())
    assert {f.scope for f in findings} == {None, ACME}
    (login,) = of(findings, "login")
    assert login.endswith(f"is owner of {ACME}")
    for what in ("grants", "privileges", "gate"):
        assert any(UNSEEN in detail for detail in of(findings, what, "warn")), what
        assert of(findings, what, "ok") == [], what
    assert of(findings, "sessions") == ["1, of them marked 1"]
    assert of(findings, "queue", "note")[0].startswith("1 writes and 1 proposals await the owner")


def test_an_agents_login_is_told_no_containers_contents(fresh: Store) -> None:
    findings = examine(fresh._urls["agent", ACME, True], Limits())
    assert of(findings, "containers", "warn") == [f"sessions, marks and changes: {UNSEEN}"]
    assert not {"sessions", "source", "queue", "limits"} & {f.what for f in findings}
    assert of(findings, "policies", "ok")


def test_a_login_without_any_grant_sees_nothing_and_is_told_so(store: Store) -> None:
    findings = examine(store.database.login("nobody"), Limits())
    assert of(findings, "schema", "warn") == [UNSEEN]
    assert of(findings, "login", "warn")[0].endswith("has no grant here")
    assert of(findings, "containers", "warn")


def test_a_superuser_is_red_and_sees_everything(fresh: Store) -> None:
    url = fresh.database._root.rpartition("/")[0] + f"/{fresh.database.name}"
    findings = examine(url, Limits())
    assert "is a superuser" in of(findings, "login", "bad")[0]
    assert {f.scope for f in findings} == {None, ACME, OTHER}


def test_only_the_scopes_that_are_named_are_examined(fresh: Store) -> None:
    assert {f.scope for f in examine(fresh.database.admin, Limits(), [OTHER])} == {None, OTHER}
    assert sams(fresh.database.admin, "tenant:mistyped").exit_code == 1
    owner = sams(fresh._urls["owner", ACME, True], OTHER)
    assert owner.exit_code == 1
    assert "not-found" in owner.stderr
    assert sams(fresh.database.admin, "nonsense").exit_code == 1


@pytest.mark.parametrize(("role", "where"), [("agent", ACME), ("dreamer", ACME), ("agent", OTHER)])
def test_a_login_that_writes_and_decides_makes_the_gate_a_convention(
    role: str, where: str, store: Store
) -> None:
    store.owner()
    decided = ACME if where == ACME else "org"
    store.backend("owner", decided)
    login = store.database.login_name(f"owner {decided} True")
    grant(store.database.admin, login, role, where)
    (gate,) = of([f for f in examine(store.database.admin, Limits()) if f.scope == decided], "gate")
    assert gate.startswith("the review gate is a convention here")
    assert login in gate
    assert sams(store.database.admin).exit_code == 1


def test_who_vouched_for_a_host_is_told_with_the_date(store: Store) -> None:
    store.backend("agent", clean=True)
    store.backend("agent", OTHER, clean=False)
    (told,) = of(examine(store.database.admin, Limits()), "vouched", "note")
    login = store.database.login_name(f"agent {ACME} True")
    assert told.startswith(f"sessions of agent {login} begin unmarked: sams_test_admin vouched")


def test_whoever_vouches_later_is_named_and_not_whoever_granted(store: Store) -> None:
    store.backend("agent", clean=False)
    login, admin = store.database.login_name(f"agent {ACME} False"), store.admin()
    where = "WHERE login = %s RETURNING granted_by::text, granted > now() - interval '1 day'"
    with admin.transaction():
        # As if somebody else had granted it, long ago.
        admin.execute("ALTER TABLE sams.grants DISABLE TRIGGER stamp")
        change = "UPDATE sams.grants SET granted_by = 'erwin', granted = '2000-01-01' "
        assert admin.execute(change + where, (login,)).fetchone() == ("erwin", False)
        admin.execute("ALTER TABLE sams.grants ENABLE TRIGGER stamp")
    again = "UPDATE sams.grants SET clean_sessions = clean_sessions "
    assert admin.execute(again + where, (login,)).fetchone() == ("erwin", False)
    grant(store.database.admin, login, "agent", ACME, clean_sessions=True)
    assert admin.execute(again + where, (login,)).fetchone() == ("sams_test_admin", True)
    (told,) = of(examine(store.database.admin, Limits()), "vouched", "note")
    assert told.startswith(f"sessions of agent {login} begin unmarked: sams_test_admin vouched")


def test_what_marked_sessions_is_ranked_and_lost_ones_are_counted(store: Store) -> None:
    for number in range(3):
        session = store.session(f"s{number}")
        session.mark_tainted("seen by all")
        for other in range(5):
            session.mark_tainted(f"page {number}-{other}")
    AgentSession(store.backend("agent"), session_id="bare", agent="a", assigned=ACME).memory_index(
        "run"
    )
    findings = examine(store.database.admin, Limits())
    named = of(findings, "source")
    assert named[0] == "marked 3 sessions: reason: seen by all"
    assert 'AgentSession(user="insider")' in " ".join(named)
    for number in range(5):
        store.session("s0").mark_tainted(f"one more page {number}")
    more = of(examine(store.database.admin, Limits()), "source")
    assert (len(more), more[-1]) == (21, "3 more sources marked sessions")


def test_a_queue_near_its_limit_is_warned_about(store: Store) -> None:
    for number in range(4):
        store.session().memory_write("assigned", f"p{number}", "c", "d")
    (line,) = of(examine(store.database.admin, Limits(session_open=5)), "limits", "warn")
    assert "open of one session 4/5" in line
    assert of(examine(store.database.admin, Limits()), "limits", "ok")


@pytest.mark.parametrize(
    ("encrypted", "mode", "near", "level"),
    [
        (True, "verify-full", False, "ok"),
        (True, "require", False, "warn"),
        (True, "prefer", True, "warn"),
        (False, "prefer", True, "note"),
        (False, "disable", False, "bad"),
    ],
)
def test_the_way_to_the_server_is_judged(
    encrypted: bool, mode: str, near: bool, level: str
) -> None:
    assert transport(encrypted, mode, near)[0] == level


@pytest.mark.parametrize(("share", "level"), [(True, "warn"), (False, "note")])
def test_a_pooler_is_seen_and_its_mode_where_it_shows(
    share: bool, level: str, store: Store
) -> None:
    with pooled(store.database.admin, share=share) as url:
        (told,) = of(examine(url, Limits()), "pooler", level)
    assert ("transaction mode" in told) == share
    assert of(examine(store.database.admin, Limits()), "pooler", "ok")


def test_json_is_ascii_and_shows_no_password(fresh: Store) -> None:
    url = fresh.database.admin
    result = sams(url, "--json")
    told = json.loads(result.stdout)
    assert result.stdout.isascii()
    assert url.split(":")[2].split("@")[0] not in result.output
    assert told["url"].endswith(f"/{fresh.database.name}")
    levels = [finding["level"] for finding in told["findings"]]
    assert told["counts"] == {level: levels.count(level) for level in told["counts"]}


def test_stored_text_acts_on_no_terminal(store: Store) -> None:
    store.session()
    store.raw("agent").execute(
        "INSERT INTO sams.sources (container, family, kind, name, first_seen, login) "
        "VALUES (%s, 's1', 'tool', %s, '2026', session_user)",
        (ACME, EVIL),
    )
    result = sams(store.database.admin)
    assert "page \\x1b]52;c;x\\x07\\u202e\\U000e0041\\nok" in result.stdout
    assert not [char for char in "\x1b\x07\u202e\U000e0041" if char in result.output]


def test_doctor_writes_nothing_and_so_works_where_nothing_can_be_written(fresh: Store) -> None:
    with fresh.admin() as db:
        db.execute(f"ALTER DATABASE {fresh.database.name} SET default_transaction_read_only = on")
    findings = examine(fresh.database.admin, Limits(), after_restore=True)
    assert not [f for f in findings if "could not be checked" in f.detail]
    assert of(findings, "schema", "ok")


def test_the_loss_of_a_ledger_is_accepted_on_sqlite_alone(fresh: Store) -> None:
    result = sams(fresh.database.admin, "--accept-ledger-loss", ACME)
    assert result.exit_code == 2
    assert "for SQLite stores" in result.stderr


def test_doctor_is_refused_beside_an_agent(fresh: Store) -> None:
    with fresh.session().active():
        result = sams(fresh.database.admin)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "owner-beside-agent" in result.stderr


def test_an_unreachable_server_is_one_line_without_its_address() -> None:
    result = sams("postgresql://somebody:hush@127.0.0.1:1/nothing")
    assert result.exit_code == 1
    assert "store-unreachable" in result.stderr
    assert "hush" not in result.output
