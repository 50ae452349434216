"""The SQLite store as files: paths, processes, loss, recovery and who may write."""

from __future__ import annotations

import grp
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sams_core import (
    AgentSession,
    InvalidArguments,
    Owner,
    PermissionDenied,
    SamsError,
    SQLiteBackend,
    StoreFailed,
    StoreNeedsOwner,
    open_backend,
)
from sams_core.backends.sqlite.connect import migrations
from sams_core.search import create_sql

Open = Callable[..., AgentSession]
ACME = "tenant:acme"


def python(code: str, *arguments: object, count: int = 1) -> list[str]:
    """Run code in fresh processes at the same time and return what they print."""
    script = "from sams_core import *\nimport sys\n" + textwrap.dedent(code)
    command = [sys.executable, "-c", script, *map(str, arguments)]
    running = [
        subprocess.Popen(
            [*command, str(n)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for n in range(count)
    ]
    results = []
    for process in running:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        results.append(out.strip())
    return results


OPEN = """
backend = SQLiteBackend(sys.argv[1])
session = AgentSession(backend, session_id=sys.argv[2], agent="bot", assigned="tenant:acme",
                       user="insider", observed="by-hand")
"""


@pytest.mark.parametrize(
    "name", ["plain", "a#b", "a?x=1", "a%41b", "two words", "naïve-日本", "a'\"b;", "a&b"]
)
def test_a_base_path_is_taken_literally(name: str, tmp_path: Path, open_clean: Open) -> None:
    base = tmp_path / name / "store"
    backend = SQLiteBackend(base)
    Owner(backend, "olga").write(ACME, "p", "c", "d")
    session = open_clean(backend)
    session.memory_write("run", "n", "c", "d")
    assert session.memory_read("assigned", "p").content == "c"
    assert session.memory_search("assigned", "c").items
    backend.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]
    assert sorted(p.name for p in base.iterdir()) == ["tenant-acme"]
    again = open_backend(f"sqlite:{base}")
    assert Owner(again, "olga").get(ACME, "p") is not None
    again.close()


def test_a_relative_base_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_clean: Open
) -> None:
    monkeypatch.chdir(tmp_path)
    backend = SQLiteBackend("store")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    open_clean(backend).memory_write("run", "n", "c", "d")
    backend.close()
    assert (tmp_path / "store").is_dir()


def test_urls_of_other_schemes_are_refused() -> None:
    for url in ("http://x", "memory:x", "sqlite:"):
        with pytest.raises(InvalidArguments):
            open_backend(url)


def test_a_mark_is_seen_in_another_process_and_by_one_that_holds_the_session_open(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    session = open_clean(sqlite)
    assert not session.tainted
    base = sqlite.folders.base
    assert python(OPEN + "session.mark_tainted('a page'); print(session.tainted)", base, "s1") == [
        "True"
    ]
    assert session.tainted
    assert python(OPEN + "print(session.tainted)", base, "s1") == ["True"]
    assert python(OPEN + "print(session.tainted)", base, "s2") == ["False"]
    refused = """
    try:
        AgentSession(SQLiteBackend(sys.argv[1]), session_id="s1", agent="other", assigned="tenant:acme")
    except PermissionDenied as error:
        print(error.rule)
    """
    assert python(refused, base) == ["other-agent"]


def test_first_use_by_many_processes_at_once(tmp_path: Path, open_clean: Open) -> None:
    base = tmp_path / "store"
    code = (
        OPEN.replace("sys.argv[2]", "'s' + sys.argv[2]")
        + """
    session.memory_write("run", "n", "c", "d")
    session.memory_write("assigned", "p" + sys.argv[2], "c", "d")
    session.mark_tainted("a page")
    Owner(backend, "o" + sys.argv[2]).write("org", "p" + sys.argv[2], "c", "d")
    print(session.memory_search("org", "c").items != ())
    """
    )
    assert python(code.replace("\n    ", "\n"), base, count=8) == ["True"] * 8
    backend = SQLiteBackend(base)
    owner = Owner(backend, "olga")
    assert len(owner.changes(ACME)) == 8
    assert len(backend.index("org", "org", False, "", 100)) == 8
    infos = backend.sessions(ACME)
    assert len(infos) == 8
    assert all([s.kind for s in info.sources] == ["reason"] for info in infos)
    backend.close()


def test_processes_that_replay_one_call_at_once_store_one_change(tmp_path: Path) -> None:
    base = tmp_path / "store"
    code = (
        OPEN.replace("sys.argv[2]", "'s1'")
        + """
arguments = {"scope": "assigned", "path": "p", "content": "c", "description": "d"}
import json
print(json.loads(session.call_tool("memory_write", arguments, call_id="m1:c1"))["change_id"])
"""
    )
    answers = python(code, base, count=8)
    assert len(set(answers)) == 1
    backend = SQLiteBackend(base)
    (change,) = Owner(backend, "olga").changes(ACME)
    assert change.id == answers[0]
    assert change.supersedes == ()
    backend.close()


def test_processes_that_write_one_note_at_once_lose_nothing(tmp_path: Path) -> None:
    base = tmp_path / "store"
    code = (
        OPEN.replace("sys.argv[2]", "'s1'")
        + """
done = 0
while done < 10:
    try:
        old = session.memory_read("run", "n")
        session.memory_write("run", "n", old.content + ".", "d", old.version)
    except NotFound:
        try:
            session.memory_write("run", "n", ".", "d")
        except VersionConflict:
            continue
    except VersionConflict:
        continue
    done += 1
print(done)
"""
    )
    assert python(code, base, count=4) == ["10"] * 4
    backend = SQLiteBackend(base)
    note = backend.read(ACME, "run:s1", "n")
    assert note is not None
    assert (note.version, note.content) == (40, "." * 40)
    backend.close()


def test_a_forked_child_uses_connections_of_its_own(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    session = open_clean(sqlite)
    session.memory_write("run", "n", "c", "d")
    children = []
    for number in range(4):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for turn in range(5):
                    session.memory_write("run", f"n{number}-{turn}", "c", "d")
                    session.memory_write("assigned", f"p{number}-{turn}", "c", "d")
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    for turn in range(5):
        session.memory_write("run", f"own{turn}", "c", "d")
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 4
    assert len(session.memory_index("run").items) == 26
    assert len(Owner(sqlite, "olga").changes(ACME)) == 20


def test_a_closed_backend_opens_again(sqlite: SQLiteBackend, open_clean: Open) -> None:
    session = open_clean(sqlite)
    session.memory_write("run", "n", "c", "d")
    sqlite.close()
    assert session.memory_read("run", "n").content == "c"


def test_a_session_that_the_ledger_lost_starts_marked(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    for kind in ("note", "change", "entry"):
        session = open_clean(sqlite, kind)
        if kind == "note":
            session.memory_write("run", "n", "c", "d")
        else:
            session.memory_write("assigned", kind, "c", "d")
    owner = Owner(sqlite, "olga")
    accepted = next(c for c in owner.changes(ACME) if c.path == "entry")
    owner.accept(ACME, accepted.id, accepted.digest)
    ledger = sqlite.folders.store(ACME, "ledger") / "ledger.db"
    sqlite.close()
    with sqlite3.connect(ledger) as db:  # a ledger of the same name that knows none of them
        db.executescript("DROP TRIGGER sessions_stay; DELETE FROM sessions; DELETE FROM families;")
    db.close()
    again = SQLiteBackend(sqlite.folders.base)
    for kind in ("note", "change", "entry"):
        assert [s.kind for s in open_clean(again, kind).sources] == ["ledger-lost"]
    assert not open_clean(again, "new").tainted
    again.close()


@pytest.mark.parametrize("where", ["another thread", "after close"])
def test_an_open_session_writes_nothing_into_another_ledger(
    where: str, sqlite: SQLiteBackend, open_clean: Open
) -> None:
    session = open_clean(sqlite)
    session.mark_tainted("a page")
    session.memory_write("assigned", "p", "c", "d")
    shutil.rmtree(sqlite.folders.store(ACME, "ledger"))
    if where == "after close":
        sqlite.close()
    refused: list[SamsError] = []

    def use() -> None:
        for verb in (
            lambda: session.memory_write("assigned", "q", "c", "d"),
            lambda: session.memory_write("run", "n", "c", "d"),
            lambda: session.tainted,
        ):
            try:
                verb()
            except SamsError as error:
                refused.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(refused) == 3
    (only,) = Owner(sqlite, "olga").changes(ACME)
    assert (only.path, only.tainted) == ("p", True)


@pytest.mark.parametrize("left", ["queue", "runs", "history"])
def test_a_missing_ledger_beside_memory_marks_every_session_until_it_is_accepted(
    left: str, sqlite: SQLiteBackend, open_clean: Open
) -> None:
    session = open_clean(sqlite)
    owner = Owner(sqlite, "olga")
    if left == "runs":
        session.memory_write("run", "n", "c", "d")
    else:
        session.memory_write("assigned", "p", "c", "d")
    if left == "history":
        (change,) = owner.changes(ACME)
        owner.accept(ACME, change.id, change.digest)
    sqlite.close()
    shutil.rmtree(sqlite.folders.store(ACME, "ledger"))
    again = SQLiteBackend(sqlite.folders.base)
    assert [s.kind for s in open_clean(again, "new").sources] == ["ledger-lost"]
    again.accept_ledger_loss(ACME, "olga")
    assert open_clean(again, "new").tainted, "what is marked stays marked"
    assert not open_clean(again, "newer").tainted
    assert [s.kind for s in open_clean(again, "s1").sources] == ["ledger-lost"]
    again.close()


def test_an_owners_entries_alone_do_not_make_a_new_ledger_doubtful(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    Owner(sqlite, "olga").write(ACME, "p", "c", "d")
    assert not open_clean(sqlite).tainted


def crash_in_a_transaction(base: Path) -> None:
    """Kill an owner's process in the middle of a transaction that has spilled to the database."""
    code = """
    backend = SQLiteBackend(sys.argv[1])
    Owner(backend, "olga").write("tenant:acme", "p", "before", "d")
    import os, signal, sqlite3
    db = sqlite3.connect(backend.folders.store("tenant:acme", "curated") / "curated.db", isolation_level=None)
    db.execute("PRAGMA cache_size=1"); db.execute("PRAGMA cache_spill=1"); db.execute("BEGIN IMMEDIATE")
    for number in range(3000):
        db.execute("INSERT INTO texts VALUES (?, 'x', ?)", (number + 100, "x" * 500))
    os.kill(os.getpid(), signal.SIGKILL)
    """
    script = "from sams_core import *\nimport sys\n" + textwrap.dedent(code)
    ended = subprocess.run([sys.executable, "-c", script, str(base)], check=False)
    assert ended.returncode == -signal.SIGKILL


def test_a_reader_meeting_an_owners_hot_journal_waits_for_an_owner(
    tmp_path: Path, open_clean: Open
) -> None:
    backend = SQLiteBackend(tmp_path / "store")
    session = open_clean(backend)
    crash_in_a_transaction(tmp_path / "store")
    journal = backend.folders.store(ACME, "curated") / "curated.db-journal"
    assert journal.exists()
    with pytest.raises(StoreNeedsOwner):
        session.memory_read("assigned", "p")
    assert journal.exists()
    assert Owner(backend, "olga").get(ACME, "p").content == "before"  # type: ignore[union-attr]
    assert session.memory_read("assigned", "p").content == "before"
    backend.close()


def test_a_database_of_a_newer_schema_is_refused_and_left_alone(sqlite: SQLiteBackend) -> None:
    Owner(sqlite, "olga").write(ACME, "p", "c", "d")
    file = sqlite.folders.store(ACME, "curated") / "curated.db"
    sqlite.close()
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    before = file.read_bytes()
    again = SQLiteBackend(sqlite.folders.base)
    with pytest.raises(StoreFailed):
        Owner(again, "olga").write(ACME, "q", "c", "d")
    with pytest.raises(StoreFailed):
        Owner(again, "olga").get(ACME, "p")
    again.close()
    assert file.read_bytes() == before


def test_the_index_tables_in_the_migrations_are_those_of_the_search() -> None:
    for store, tables in (("curated", ["trusted", "labelled"]), ("runs", ["notes_index"])):
        script = "".join(migrations(store))  # type: ignore[arg-type]
        for table in tables:
            assert create_sql(table) + ";" in script


def test_each_store_has_its_stated_durability(sqlite: SQLiteBackend, open_clean: Open) -> None:
    session = open_clean(sqlite)
    session.memory_write("run", "n", "c", "d")
    Owner(sqlite, "olga").write(ACME, "p", "c", "d")
    found = {}
    for (file, mode), opened in sqlite._pool._held().open.items():
        if mode == "rw":
            pragmas = ("journal_mode", "synchronous")
            found[Path(file).name] = tuple(
                opened.connection.execute(f"PRAGMA {p}").fetchone()[0] for p in pragmas
            )
    assert found == {"ledger.db": ("wal", 2), "0.db": ("wal", 1), "curated.db": ("delete", 3)}


def test_history_decisions_and_marks_are_guarded_against_rewriting(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    session = open_clean(sqlite)
    session.mark_tainted("a page")
    receipt = session.memory_write("assigned", "p", "c", "d")
    owner = Owner(sqlite, "olga")
    owner.reject(ACME, str(receipt.change_id))
    owner.write(ACME, "p", "c", "d")
    sqlite.close()
    curated = sqlite.folders.store(ACME, "curated") / "curated.db"
    ledger = sqlite.folders.store(ACME, "ledger") / "ledger.db"
    for file, statement in (
        (curated, "DELETE FROM versions"),
        (curated, "UPDATE versions SET digest = ''"),
        (curated, "UPDATE texts SET content = ''"),
        (curated, "DELETE FROM decisions"),
        (curated, "UPDATE decisions SET owner = ''"),
        (ledger, "DELETE FROM sources"),
        (ledger, "UPDATE sources SET name = ''"),
        (ledger, "DELETE FROM sessions"),
        (ledger, "UPDATE sessions SET agent = ''"),
    ):
        with sqlite3.connect(file) as db, pytest.raises(sqlite3.IntegrityError):
            db.execute(statement)
        db.close()


def as_nobody(work: Callable[[], None]) -> None:
    """Run work in a forked child without rights; everything it needs is imported by now."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            work()
            code = 0
        except BaseException as error:
            os.write(2, repr(error).encode())
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.fixture
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder that another user can reach into, outside of pytest's own private ones."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="sams-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changing the user needs root")


@needs_root
def test_an_agents_user_can_queue_and_mark_but_not_touch_what_is_curated(
    shared: Path, open_clean: Open
) -> None:
    base = shared / "store"
    backend = SQLiteBackend(base)
    group = grp.getgrgid(65534).gr_name
    for scope in (ACME, "org"):
        backend.init_scope(scope, group)
    owner = Owner(backend, "olga")
    owner.write(ACME, "p", "trusted", "d")
    owner.write("org", "p", "trusted", "d")
    backend.close()

    def agent() -> None:
        theirs = SQLiteBackend(base)
        session = open_clean(theirs, require_separation=True)
        assert session.memory_read("assigned", "p").content == "trusted"
        assert session.memory_search("org", "trusted").items
        session.memory_write("assigned", "q", "queued", "d")
        session.memory_write("run", "n", "note", "d")
        session.mark_tainted("a page")
        for verb in (
            lambda: Owner(theirs, "me").write(ACME, "p", "evil", "d", expected_version=1),
            lambda: Owner(theirs, "me").retire(ACME, "p"),
        ):
            try:
                verb()
            except SamsError:
                continue
            raise AssertionError("an agent's user wrote curated memory")
        for path in (base, base / "tenant-acme", base / "tenant-acme" / "curated"):
            try:
                (path / "planted").write_text("x")
            except PermissionError:
                continue
            raise AssertionError("an agent's user wrote beside the owner's store")

    as_nobody(agent)
    (change,) = owner.changes(ACME)
    assert change.content == "queued"
    assert not change.tainted
    assert owner.get(ACME, "p").content == "trusted"  # type: ignore[union-attr]
    assert owner.accept(ACME, change.id, change.digest).version == 1
    assert [len(info.sources) for info in backend.sessions(ACME)] == [1]
    assert owner.clear_runs(ACME) == 1
    as_nobody(
        lambda: open_clean(SQLiteBackend(base)).memory_write("run", "n", "again", "d") and None
    )
    backend.close()


@needs_root
def test_require_separation_refuses_where_the_agents_user_could_write_the_owners_store(
    shared: Path, open_clean: Open
) -> None:
    base = shared / "store"
    backend = SQLiteBackend(base)

    def refused() -> None:
        try:
            open_clean(SQLiteBackend(base), require_separation=True)
        except PermissionDenied as error:
            assert error.rule == "separation"
            return
        raise AssertionError("not refused")

    as_nobody(refused)
    for scope in (ACME, "org"):
        backend.init_scope(scope, grp.getgrgid(65534).gr_name)
    curated = base / "tenant-acme" / "curated"
    for path in (curated, curated.parent, base):
        path.chmod(0o777)
        as_nobody(refused)
        path.chmod(0o755)
    as_nobody(lambda: open_clean(SQLiteBackend(base), require_separation=True) and None)
    backend.close()


def test_require_separation_refuses_for_one_user(sqlite: SQLiteBackend, open_clean: Open) -> None:
    sqlite.init_scope(ACME)
    with pytest.raises(PermissionDenied) as caught:
        open_clean(sqlite, require_separation=True)
    assert caught.value.rule == "separation"


def test_init_refuses_an_unknown_group_and_can_be_repeated(sqlite: SQLiteBackend) -> None:
    with pytest.raises(InvalidArguments):
        sqlite.init_scope(ACME, "no-such-group-here")
    for _ in range(2):
        sqlite.init_scope(ACME)
    container = sqlite.folders.container(ACME)
    modes = {folder.name: folder.stat().st_mode & 0o7777 for folder in container.iterdir()}
    assert modes == {"curated": 0o755, "queue": 0o700, "ledger": 0o700, "runs": 0o700}


def test_a_full_disk_leaves_the_old_state_and_says_so(tmp_path: Path, open_clean: Open) -> None:
    import resource

    base = tmp_path / "store"
    backend = SQLiteBackend(base)
    session = open_clean(backend)
    owner = Owner(backend, "olga")
    owner.write(ACME, "p", "old", "d")
    session.memory_write("run", "n", "old", "d")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, 4_096))
            refused = 0
            for verb in (
                lambda: session.memory_write("run", "n", "x" * 90_000, "d", 1),
                lambda: session.memory_write("assigned", "p", "x" * 90_000, "d", 1),
                lambda: owner.write(ACME, "p", "x" * 90_000, "d", expected_version=1),
                lambda: session.mark_tainted("a page"),
            ):
                try:
                    verb()
                except SamsError:
                    refused += 1
            answer = session.call_tool("memory_index", {"scope": "run"})
            code = 0 if refused == 4 and '"session-closed"' in answer else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert session.memory_read("run", "n").content == "old"
    assert owner.get(ACME, "p").content == "old"  # type: ignore[union-attr]
    assert owner.changes(ACME) == []
    assert not list((base / "tenant-acme").glob("queue/.new*"))
    backend.close()
