"""`sams doctor` on real stores: what it says of them, and that it leaves them as they were."""

from __future__ import annotations

import datetime
import json
import os
import pwd
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from sams_core import AgentSession, DreamerSession, Limits, Owner, SQLiteBackend
from sams_core.backends.finding import Finding
from sams_core.backends.sqlite.checkup import examine, scope_of
from sams_core.backends.sqlite.folders import Folders, folder_name
from sams_core.cli import main

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

SHOP = "project:shop"
AGENT, GROUP = 65_534, 65_533
EVIL = "\x1b]52;c;x\x07\u202e\U000e0041\nok    gate"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changing the user needs root")


def facts(shop: Shop, *scopes: str) -> list[Finding]:
    return examine(shop.backend.folders, shop.backend.limits, scopes)


def of(found: list[Finding], what: str, level: str | None = None) -> list[str]:
    return [f.detail for f in found if f.what == what and level in (None, f.level)]


def worst(found: list[Finding], what: str) -> str:
    levels = [f.level for f in found if f.what == what]
    return next((level for level in ("bad", "warn", "note", "ok") if level in levels), "none")


def state(base: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return every file below the base with bytes, mode and time of its last change."""
    found = {}
    for file in sorted(base.rglob("*")):
        here = file.lstat()
        data = file.read_bytes() if file.is_file() and not file.is_symlink() else b""
        found[str(file)] = (data, here.st_mode, here.st_mtime_ns)
    return found


@pytest.fixture
def filled(shop: Shop) -> Shop:
    """A store with an entry, a note, a mark, a queued change and what a job has read."""
    shop.owner.write(SHOP, "a/one", "text", "a note")
    session = shop.session(marked=True)
    session.memory_write("run", "n", "a note", "d")
    shop.write("a/two", "queued", session=session)
    DreamerSession(shop.backend, job_id="nightly", scope=SHOP).snapshot()
    shop.backend.close()
    return shop


def test_a_store_under_one_user_is_red_and_everything_else_fine(filled: Shop) -> None:
    found = facts(filled)
    assert [f.what for f in found if f.level == "bad"] == ["gate"]
    (gate,) = of(found, "gate")
    assert "the review gate is a convention here" in gate
    assert f"uid {os.geteuid()})" in gate
    assert of(found, "schema") == ["curated 2, ledger 1, runs 1"]
    assert of(found, "durability") == [
        "curated: journal DELETE, synchronous=EXTRA",
        "ledger: journal WAL, synchronous=FULL",
        "runs: journal WAL, synchronous=NORMAL: a power cut may cost the last notes",
    ]
    assert len(of(found, "search", "ok")) == 3
    assert of(found, "source") == ["marked 1 sessions: reason: web page"]
    assert of(found, "sessions") == ["1, of them marked 1"]
    assert "open changes 1/10000, of one agent 1/2000" in of(found, "limits")[0]
    result = filled.sams("doctor")
    assert result.exit_code == 1, result.output
    assert "bad   gate" in result.stdout


def test_doctor_leaves_every_byte_and_time_as_it_was(filled: Shop) -> None:
    before = state(filled.base)
    assert filled.sams("doctor", SHOP).exit_code == 1
    assert filled.sams("doctor", "--json").exit_code == 1
    assert state(filled.base) == before


def test_the_demos_store_can_be_examined(
    process: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    base = str(tmp_path / "demo")
    assert process("demo", "--base", base, "--plain").returncode == 0
    done = process("--base", base, "doctor")
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("bad   ") == 1
    assert "tool: fetch_page" in done.stdout
    assert "\x1b" not in done.stdout


def test_json_is_ascii_and_counts_what_it_lists(filled: Shop) -> None:
    result = filled.sams("doctor", "--json")
    assert result.stdout.isascii()
    told = json.loads(result.stdout)
    assert set(told) == {"base", "counts", "findings"}
    levels = [found["level"] for found in told["findings"]]
    assert told["counts"] == {level: levels.count(level) for level in told["counts"]}
    assert all(set(found) == {"level", "what", "scope", "detail"} for found in told["findings"])


def test_what_is_bad_is_red_on_a_terminal_only(
    filled: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    red = "\x1b[31m\x1b[1mbad\x1b[0m"
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert red in filled.sams("doctor", color=True).stdout
    assert "\x1b" not in filled.sams("doctor").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in filled.sams("doctor", color=True).stdout


def test_only_the_scopes_that_are_named_are_examined(filled: Shop) -> None:
    filled.owner.write("org", "a/one", "text", "d")
    assert {f.scope for f in facts(filled)} == {"org", SHOP}
    assert {f.scope for f in facts(filled, "org")} == {"org"}
    assert filled.sams("doctor", "tenant:mistyped").exit_code == 1
    assert filled.sams("doctor", "nonsense").exit_code == 1
    assert filled.sams("doctor", SHOP, "--accept-ledger-loss", SHOP).exit_code == 2


def test_an_empty_store_has_nothing_bad(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["doctor", "--base", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "no container yet" in result.stdout


def test_doctor_is_refused_beside_an_agent(filled: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ((), ("--accept-ledger-loss", SHOP)):
        with filled.session().active():
            result = filled.sams("doctor", *words)
        assert result.exit_code == 1
        assert "owner-beside-agent" in result.stderr
        assert result.stdout == ""
    monkeypatch.setenv("SAMS_SESSION", "s1")
    assert "owner-beside-agent" in filled.sams("doctor").stderr


# Hostile texts and files.


def test_stored_text_and_names_of_files_are_shown_inert(shop: Shop) -> None:
    session = shop.session()
    session.mark_tainted(f"page {EVIL}")
    shop.write("a/one", "text", session=session)
    shop.backend.close()
    with sqlite3.connect(shop.base / "project-shop" / "ledger" / "ledger.db") as db:
        values = ("s1", f"kind{EVIL}", f"name{EVIL}", EVIL, "2026")
        db.execute(
            "INSERT INTO sources (family, kind, name, origin, first_seen) VALUES (?, ?, ?, ?, ?)",
            values,
        )
    db.close()
    (shop.base / f"tenant-{'x' * 140}{EVIL}=={'0' * 64}").mkdir()
    (shop.base / "project-shop" / "runs").mkdir(exist_ok=True)
    (shop.base / "project-shop" / "runs" / f"{EVIL}.db").write_text("x")
    result = shop.sams("doctor")
    assert "name\\x1b]52;c;x\\x07\\u202e\\U000e0041\\nok" in result.stdout
    assert not [c for c in "\x1b\x07\u202e\U000e0041" if c in result.output]
    ours = [line for line in result.stdout.splitlines() if line.startswith("  ok ")]
    assert not [line for line in ours if "gate" in line]
    assert shop.sams("doctor", "--json").stdout.isascii()


def test_sources_are_ranked_by_sessions_and_the_rest_is_counted(shop: Shop) -> None:
    for number in range(3):
        session = shop.session()
        session.mark_tainted("seen by all")
        for other in range(10):
            session.mark_tainted(f"page {number}-{other}")
    named = of(facts(shop), "source")
    assert named[0] == "marked 3 sessions: reason: seen by all"
    assert len(named) == 21
    assert named[-1] == "11 more sources marked sessions"


def test_what_nobody_declared_is_named_with_the_line_that_declares_it(shop: Shop) -> None:
    AgentSession(shop.backend, session_id="bare", agent="a", assigned=SHOP).memory_index("run")
    named = " ".join(of(facts(shop), "source"))
    assert 'AgentSession(user="insider")' in named
    assert 'observed="by-hand"' in named


def plant_gigabyte(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "a link": lambda path, victim: path.symlink_to(victim),
    "a fifo": lambda path, victim: os.mkfifo(path),
    "a gigabyte": lambda path, victim: plant_gigabyte(path),
    "a folder": lambda path, victim: path.mkdir(),
    "garbage": lambda path, victim: path.write_bytes(b"\0garbage" * 1000),
    "another database": lambda path, victim: shutil.copy(victim, path),
}


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("file", ["ledger/ledger.db", "runs/0.db", "curated/curated.db"])
def test_a_planted_database_is_bad_and_never_opened_in_place(
    kind: str, file: str, filled: Shop, tmp_path: Path
) -> None:
    victim = tmp_path / "victim.db"
    with sqlite3.connect(victim) as db:
        db.execute("CREATE TABLE precious (x)")
    db.close()
    database = filled.base / "project-shop" / file
    database.unlink()
    PLANTED[kind](database, victim)
    before = victim.read_bytes()
    found = facts(filled)
    assert [f for f in found if f.level == "bad" and f.what in (*file.split("/"), "durability")]
    assert victim.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["my shop's #1", "victim.db"]


def test_planted_files_in_the_queue_are_counted_and_harm_nothing(
    filled: Shop, tmp_path: Path
) -> None:
    queue = filled.base / "project-shop" / "queue"
    (real,) = (file for file in queue.iterdir() if "-w-" in file.name)
    forged = real.name[:-37] + "0" * 32 + ".json"
    (queue / forged).write_text("{}")
    (queue / "notes.txt").write_text("x")
    (queue / f"{EVIL}.json").write_text("x")
    os.mkfifo(queue / "fifo")
    (queue / "link").symlink_to(tmp_path)
    (queue / ".new-0123456789abcdef").write_text("half")
    os.utime(queue / ".new-0123456789abcdef", (1, 1))
    found = facts(filled)
    assert "1 files in queue/ aren't what their name says" in of(found, "queue", "warn")[0]
    assert of(found, "leftovers", "warn") == ["4 names in queue/ that are no change's"]
    (temporary,) = of(found, "leftovers", "note")
    assert temporary.startswith("1 temporary files")
    assert filled.sams("doctor").exit_code == 1  # one user, and nothing worse


@pytest.mark.parametrize("store", ["curated", "queue", "ledger", "runs"])
def test_a_link_in_place_of_a_folder_is_bad_and_not_followed(
    store: str, filled: Shop, tmp_path: Path
) -> None:
    folder = filled.base / "project-shop" / store
    folder.rename(tmp_path / store)
    folder.symlink_to(tmp_path / store)
    found = facts(filled)
    assert f"{store}/ is a link or a file, and is not followed" in of(found, "folders", "bad")


def test_a_link_in_place_of_a_container_is_bad_and_not_followed(
    filled: Shop, tmp_path: Path
) -> None:
    (filled.base / "tenant-acme").symlink_to(tmp_path)
    (bad,) = [f for f in facts(filled) if f.scope == "tenant:acme"]
    assert bad.level == "bad"


# Journals, leftovers, generations.


def test_an_unfinished_transaction_of_the_owner_is_bad_once_it_is_old(filled: Shop) -> None:
    curated = filled.base / "project-shop" / "curated"
    journal = curated / "curated.db-journal"
    journal.write_bytes(b"\0" * 512)
    before = state(curated)
    assert of(facts(filled), "journal", "warn")
    old = time.time() - 3_600
    os.utime(journal, (old, old))
    found = facts(filled)
    assert "an owner verb" in of(found, "journal", "bad")[0]
    assert of(found, "curated", "bad"), "a database in the middle of a transaction isn't read"
    assert state(curated).keys() == before.keys()


def test_a_journal_beside_an_agents_database_is_bad(filled: Shop) -> None:
    (filled.base / "project-shop" / "ledger" / "ledger.db-journal").write_bytes(b"x")
    assert "ledger/ledger.db-journal" in of(facts(filled), "journal", "bad")[0]


def test_a_log_that_a_killed_process_left_is_read_and_noted(shop: Shop) -> None:
    session = shop.session(marked=True)  # its connection stays open, so the marks are in the log
    found = facts(shop)
    assert session.tainted
    assert "ledger/ledger.db-wal" in of(found, "wal", "note")[0]
    assert of(found, "sessions") == ["1, of them marked 1"]


def test_decided_changes_and_cleared_generations_are_leftovers(filled: Shop) -> None:
    queue, runs = (filled.base / "project-shop" / store for store in ("queue", "runs"))
    kept = {file.name: file.read_bytes() for file in queue.iterdir()}
    (change,) = filled.owner.changes(SHOP)
    filled.owner.reject(SHOP, change.id)
    for name, data in kept.items():
        (queue / name).write_bytes(data)
    notes = (runs / "0.db").read_bytes()
    filled.owner.clear_runs(SHOP)
    (runs / "0.db").write_bytes(notes)
    (runs / "7.db").write_bytes(notes)
    found = facts(filled)
    assert sorted(of(found, "leftovers", "note")) == [
        "1 decided changes still lie in queue/; harmless",
        "1 files of cleared generations of notes in runs/; safe to remove",
    ]
    assert of(found, "leftovers", "warn") == ["1 names in runs/ that are no generation's"]
    assert "open changes 0/10000" in of(found, "limits")[0]


def test_names_that_are_no_containers_are_counted(filled: Shop) -> None:
    (filled.base / "project-Shop").mkdir()  # ours would be written with an escape
    (filled.base / "readme").write_text("x")
    assert of(facts(filled), "leftovers", "warn") == ["2 names that are no container's"]


@pytest.mark.parametrize(
    "scope", ["org", "project:shop", "tenant:A b\u00fc#%", "tenant:org", "project:a-b=3d"]
)
def test_a_folders_name_tells_its_scope(scope: str) -> None:
    assert scope_of(folder_name(scope)) == scope


def test_a_folder_with_a_cut_name_is_examined_and_read_once_its_scope_is_given(shop: Shop) -> None:
    scope = "tenant:" + "x" * 190
    Owner(shop.backend, "olga").write(scope, "a/one", "text", "d")
    session = AgentSession(
        shop.backend, session_id="s", agent="a", assigned=scope, user="insider", observed="by-hand"
    )
    session.memory_write("assigned", "p", "c", "d")
    assert "name the scope" in of(facts(shop), "queue", "note")[0]
    assert of(facts(shop, scope), "queue") == []


def test_a_queue_near_its_limit_is_warned_about_with_the_session(filled: Shop) -> None:
    limits = Limits(session_open=5)
    for number in range(3):
        filled.write(f"p/{number}", "c", session=filled.session())
    busy = filled.session()
    for number in range(4):
        filled.write(f"q/{number}", "c", session=busy)
    (line,) = [f for f in examine(filled.backend.folders, limits) if f.what == "limits"]
    assert line.level == "warn"
    assert "open of one session 4/5" in line.detail
    assert line.detail.endswith(f"most by session {busy.session_id}")


# Schema and index.


def edit(database: Path, *sql: str) -> None:
    with sqlite3.connect(database) as db:
        for statement in sql:
            db.execute(statement)
    db.close()


def test_another_schema_and_another_version_are_bad(filled: Shop) -> None:
    edit(filled.base / "project-shop" / "ledger" / "ledger.db", "CREATE TABLE more (x)")
    edit(filled.base / "project-shop" / "runs" / "0.db", "PRAGMA user_version=9")
    found = facts(filled)
    assert "the file says 1" in of(found, "ledger", "bad")[0]
    assert "the file says 9" in of(found, "runs", "bad")[0]
    assert of(found, "schema") == ["curated 2"]


def test_an_index_that_misses_or_keeps_a_row_is_bad(filled: Shop) -> None:
    curated = filled.base / "project-shop" / "curated" / "curated.db"
    edit(curated, "INSERT INTO trusted (rowid, path, description, content) VALUES (9, 'a', '', '')")
    assert "1 rows are indexed wrongly in trusted" in of(facts(filled), "search", "bad")[0]
    edit(curated, "INSERT INTO trusted (trusted) VALUES ('delete-all')")
    assert "1 rows are indexed wrongly in trusted" in of(facts(filled), "search", "bad")[0]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM meta",
        "UPDATE meta SET lost = 'x', ledger = x'00ff'",
        "INSERT INTO sessions VALUES (x'ff', 'f', 'a', 'o')",
        "INSERT INTO sessions VALUES (7, x'ff', 7, 7)",
        "INSERT INTO sources (family, kind, name, first_seen) VALUES ('s1', x'ff', 7, 7)",
        "INSERT INTO sources (family, kind, name, first_seen) VALUES ('s1', 'k', "
        "CAST(x'ff' AS TEXT), '')",
    ],
)
def test_values_of_the_wrong_type_stop_no_other_check(sql: str, filled: Shop) -> None:
    edit(filled.base / "project-shop" / "ledger" / "ledger.db", sql)
    result = filled.sams("doctor")
    assert result.exit_code == 1, result.output
    assert result.stderr == ""
    assert {"gate", "limits", "schema"} <= {found.what for found in facts(filled)}


def test_another_journal_mode_on_disk_is_warned_about(filled: Shop) -> None:
    edit(filled.base / "project-shop" / "ledger" / "ledger.db", "PRAGMA journal_mode=DELETE")
    assert "isn't in journal mode WAL" in of(facts(filled), "durability", "warn")[0]


# The ledger.


def lose_ledger(shop: Shop) -> None:
    shop.backend.close()
    for file in (shop.base / "project-shop" / "ledger").iterdir():
        file.unlink()


def test_a_lost_ledger_is_told_and_its_loss_accepted_on_demand(filled: Shop) -> None:
    lose_ledger(filled)
    assert "the ledger is gone" in of(facts(filled), "ledger", "bad")[0]
    refused = filled.sams("doctor", "--accept-ledger-loss", SHOP)
    assert refused.exit_code == 1
    assert "no-ledger" in refused.stderr
    assert filled.session().tainted
    assert "--accept-ledger-loss" in of(facts(filled), "ledger", "warn")[0]
    done = filled.sams("doctor", "--accept-ledger-loss", SHOP, "--name", "olga")
    assert done.exit_code == 0, done.output
    assert "accepted for project:shop" in done.stdout
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    accepted = f"a ledger was lost; that was accepted on {today} by olga"
    assert of(facts(filled), "ledger") == [accepted]
    assert not filled.session().tainted
    told = filled.json("doctor", "--accept-ledger-loss", SHOP)
    assert told["accepted_ledger_loss"] == SHOP
    assert told["by"] == pwd.getpwuid(os.getuid()).pw_name, "nobody said who: the system does"
    assert of(facts(filled), "ledger")[0] == accepted, "an acceptance is not rewritten"
    assert len(of(facts(filled), "ledger")) == 2


# Who can write what.


def test_others_rights_on_the_owners_folders_are_each_named(filled: Shop) -> None:
    (filled.base / "project-shop" / "curated").chmod(0o777)
    (filled.base / "project-shop").chmod(0o775)
    (filled.base / "project-shop" / "curated" / "curated.db").chmod(0o666)
    (gate,) = of(facts(filled), "gate", "bad")
    for part in (
        "curated/ is writable for group",
        "everybody",
        "container's folder is",
        "files in",
    ):
        assert part in gate


def test_a_queue_that_everybody_can_write_is_bad(filled: Shop) -> None:
    (filled.base / "project-shop" / "queue").chmod(0o777)
    found = facts(filled)
    assert "everybody on this machine can write queue/" in of(found, "folders", "bad")
    assert "no set-group-id bit" in of(found, "folders", "warn")[0]


def test_a_folder_above_the_store_that_everybody_can_write_is_bad(filled: Shop) -> None:
    filled.base.parent.chmod(0o777)
    assert "everybody can put another folder" in " ".join(of(facts(filled), "above", "bad"))
    filled.base.parent.chmod(0o1777)
    assert not [d for d in of(facts(filled), "above") if str(filled.base.parent) in d]
    filled.base.parent.chmod(0o700)


@pytest.fixture
def separate() -> Iterator[SQLiteBackend]:
    """A store in a folder that another user can reach, whose agents run as that user."""
    home = Path(tempfile.mkdtemp(prefix="sams-test-"))
    home.chmod(0o711)
    backend = SQLiteBackend(home / "store")
    backend.folders.init(SHOP, GROUP)
    backend.folders.init("org", GROUP)
    Owner(backend, "olga").write(SHOP, "a/one", "text", "d")
    backend.close()
    yield backend
    backend.close()
    shutil.rmtree(home)


def as_agent(work: Callable[[], Any]) -> None:
    """Run work in a forked child of the agents' user; everything it needs is imported by now."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(GROUP)
            os.setuid(AGENT)
            os.umask(0o022)
            work()
            code = 0
        except BaseException as error:
            os.write(2, repr(error).encode())
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def write_as_agent(backend: SQLiteBackend) -> None:
    session = AgentSession(
        backend, session_id="s1", agent="a", assigned=SHOP, user="insider", observed="by-hand"
    )
    session.mark_tainted("a page")
    session.memory_write("assigned", "p", "c", "d")
    session.memory_write("run", "n", "c", "d")


@needs_root
def test_a_separated_store_has_nothing_bad(separate: SQLiteBackend) -> None:
    as_agent(lambda: write_as_agent(separate))
    base = str(separate.folders.base)
    result = CliRunner().invoke(main, ["--base", base, "doctor"])
    assert result.exit_code == 0, result.output
    assert f"uid {AGENT}" in result.stdout
    assert "curated/ is root (uid 0)'s alone" in result.stdout
    found = examine(separate.folders, separate.limits)
    assert worst(found, "gate") == "ok"
    assert of(found, "sessions") == ["1, of them marked 1"]
    assert not of(found, "folders", "note"), "other users can't reach in"


@needs_root
def test_a_separated_store_turns_red_when_the_agents_can_write_curated(
    separate: SQLiteBackend,
) -> None:
    as_agent(lambda: write_as_agent(separate))
    folder = separate.folders.container(SHOP)
    for place, mode in (
        (folder, 0o770),
        (folder / "curated", 0o775),
        (separate.folders.base, 0o777),
    ):
        before = place.stat().st_mode & 0o7777
        place.chmod(mode)
        assert worst(examine(separate.folders, separate.limits, [SHOP]), "gate") == "bad", place
        place.chmod(before)
    for place in (folder, separate.folders.base, folder / "curated" / "curated.db"):
        os.chown(place, AGENT, -1)
        assert worst(examine(separate.folders, separate.limits, [SHOP]), "gate") == "bad", place
        os.chown(place, 0, -1)
    assert worst(examine(separate.folders, separate.limits), "gate") == "ok"


@needs_root
def test_an_agent_that_ran_as_the_owner_once_turns_it_red(separate: SQLiteBackend) -> None:
    write_as_agent(separate)
    gates = [f for f in examine(separate.folders, separate.limits) if f.what == "gate"]
    assert {f.level for f in gates} == {"bad"}
    assert {f.scope for f in gates} == {"org", SHOP}, "that user can write the other containers too"


@needs_root
def test_a_container_that_is_open_to_all_is_noted_where_agents_are_separate(
    separate: SQLiteBackend,
) -> None:
    separate.folders.container(SHOP).chmod(0o755)
    assert (
        "can read curated/" in of(examine(separate.folders, separate.limits), "folders", "note")[0]
    )


@needs_root
def test_what_the_caller_may_not_look_at_is_bad_and_never_fine(separate: SQLiteBackend) -> None:
    as_agent(lambda: write_as_agent(separate))
    examine(Folders(separate.folders.base), separate.limits)  # imports what that user couldn't

    folder = separate.folders.container(SHOP)
    for store in ("ledger", "curated", "queue"):
        before = (folder / store).stat().st_mode & 0o7777
        (folder / store).chmod(0)

        def blind(store: str = store) -> None:
            found = examine(Folders(separate.folders.base), separate.limits)
            (told,) = of(found, store, "bad")
            assert told.startswith("could not be checked"), found
            assert told.endswith("Permission denied"), found
            assert store == "curated" or "warn" in {f.level for f in found if f.what == "gate"}

        as_agent(blind)
        (folder / store).chmod(before)
    as_agent(lambda: os._exit(len([f for f in look(separate) if f.level == "bad"])))


def look(backend: SQLiteBackend) -> list[Finding]:
    return examine(Folders(backend.folders.base), backend.limits)
