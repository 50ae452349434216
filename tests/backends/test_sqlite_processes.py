"""Locks and connections across verbs, threads, forks and replaced files."""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sams_core import AgentSession, DreamerSession, NotFound, Owner, SQLiteBackend

Open = Callable[..., AgentSession]
ACME = "tenant:acme"
SCRIPT = """
import sys
from sams_core import AgentSession, SQLiteBackend
backend = SQLiteBackend(sys.argv[1])
session = AgentSession(backend, session_id=sys.argv[2], agent="bot", assigned="tenant:acme",
                       user="insider", observed="by-hand")
for number in range(int(sys.argv[3])):
    session.memory_write("run", f"n{number}", "c", "d")
    session.mark_tainted(f"page {number}")
print(session.tainted, len(session.memory_index("run").items))
"""


def elsewhere(backend: SQLiteBackend, session_id: str, writes: int = 0) -> str:
    """Open a session in a new process, write and mark there, and let the process end."""
    command = [sys.executable, "-c", SCRIPT, str(backend.folders.base), session_id, str(writes)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


VERBS: dict[str, Callable[[SQLiteBackend], Any]] = {
    "sessions": lambda b: b.sessions(ACME),
    "snapshot": lambda b: DreamerSession(b, job_id="j", scope=ACME).snapshot(),
    "accept_ledger_loss": lambda b: b.accept_ledger_loss(ACME, "olga"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_copy_taken_in_an_agents_process_costs_it_no_lock(
    verb: str, sqlite: SQLiteBackend, open_clean: Open
) -> None:
    """Closing a descriptor of a file drops the process's locks on it; others then unlink its log."""
    session = open_clean(sqlite)
    session.memory_write("run", "before", "c", "d")
    for _ in range(3):
        VERBS[verb](sqlite)
    assert elsewhere(sqlite, "s2", 5) == "True 5"
    session.mark_tainted("a page")
    session.memory_write("run", "after", "c", "d")
    assert elsewhere(sqlite, "s1") == "True 2"
    sqlite.close()
    assert elsewhere(sqlite, "s1") == "True 2"
    assert elsewhere(sqlite, "s2") == "True 5"


def test_copies_keep_at_most_one_descriptor_a_file(sqlite: SQLiteBackend, open_clean: Open) -> None:
    open_clean(sqlite).memory_write("run", "n", "c", "d")
    for verb in (*VERBS.values(), *VERBS.values()):
        verb(sqlite)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        for verb in VERBS.values():
            verb(sqlite)
    assert len(os.listdir("/proc/self/fd")) <= before
    sqlite.close()
    assert len(os.listdir("/proc/self/fd")) < before


def in_child(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            faulthandler.register(signal.SIGALRM, chain=True)  # tells where it waits for ever
            signal.alarm(60)
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def test_a_childs_marks_and_notes_outlive_others_that_close_the_store(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    session = open_clean(sqlite)
    session.memory_write("run", "n", "c", "d")

    def child() -> None:
        theirs = open_clean(sqlite, "s2")
        assert elsewhere(sqlite, "s3", 3) == "True 3"
        theirs.mark_tainted("a page")
        theirs.memory_write("run", "n", "c", "d")
        assert elsewhere(sqlite, "s2") == "True 1"

    pid = in_child(child)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert elsewhere(sqlite, "s2") == "True 1"


def test_a_fork_while_threads_write_leaves_both_sides_working(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    stop = threading.Event()
    failed: list[BaseException] = []

    def write(number: int) -> None:
        session = open_clean(sqlite, f"t{number}")
        turn = 0
        try:
            while not stop.is_set():
                session.memory_write("run", f"n{turn}", "c", "d")
                session.mark_tainted(f"page {turn}")
                turn += 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for number in range(10):
        pid = in_child(lambda n=number: open_clean(sqlite, f"c{n}").mark_tainted("a page"))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []
    assert all(open_clean(sqlite, f"c{n}").tainted for n in range(10))


def test_closing_in_one_thread_while_others_read_does_no_harm(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    session = open_clean(sqlite)
    session.memory_write("run", "n", "c", "d")
    stop = threading.Event()
    failed: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                session.memory_read("run", "n")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        sqlite.close()
        session.memory_read("run", "n")
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_restored_backup_is_read_at_once(
    sqlite: SQLiteBackend, open_clean: Open, tmp_path: Path
) -> None:
    owner = Owner(sqlite, "olga")
    owner.write(ACME, "p", "c", "d")
    session = open_clean(sqlite)
    assert session.memory_read("assigned", "p").content == "c"
    curated = sqlite.folders.store(ACME, "curated") / "curated.db"
    shutil.copy(curated, tmp_path / "backup")
    os.replace(tmp_path / "backup", curated)
    owner.retire(ACME, "p")
    with pytest.raises(NotFound):
        session.memory_read("assigned", "p")


def test_many_tenants_and_threads_stay_within_few_descriptors(
    tmp_path: Path, open_clean: Open
) -> None:
    backend = SQLiteBackend(tmp_path / "store")

    def work(number: int) -> None:
        for tenant in range(20):
            session = open_clean(
                backend, f"s{number}", assigned=f"tenant:t{tenant}", agent=f"a{number}"
            )
            session.memory_write("run", "n", "c", "d")

    before = len(os.listdir("/proc/self/fd"))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work(99)
    assert len(os.listdir("/proc/self/fd")) - before < 400
    backend.close()


def test_a_thread_that_ends_leaves_its_connections_to_the_next(
    sqlite: SQLiteBackend, open_clean: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_clean(sqlite)
    Owner(sqlite, "olga").write(ACME, "p", "c", "d")
    opened = []
    connect = sqlite3.connect

    def counted(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        opened.append(args)
        return connect(*args, **kwargs)

    monkeypatch.setattr(sqlite3, "connect", counted)

    def work() -> None:
        session.memory_read("assigned", "p")
        session.mark_tainted(f"page {len(opened)}")

    for _ in range(6):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(opened) == 2  # curated and ledger, by the first of them
    sqlite.close()
    assert _descriptors(sqlite) == []


def _descriptors(backend: SQLiteBackend) -> list[str]:
    """This process's descriptors of the store's databases."""
    found = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    base = str(backend.folders.base)
    return [each for each in found if os.path.realpath(each).startswith(base)]


def test_a_proposal_before_the_first_session_makes_no_session_doubtful(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    dreamer = DreamerSession(sqlite, job_id="j", scope=ACME)
    dreamer.snapshot()
    dreamer.propose("p", "c", "d")
    assert Owner(sqlite, "olga").clear_runs(ACME) == 0
    assert not open_clean(sqlite).tainted


def test_a_change_within_one_tick_of_a_coarse_clock_is_seen(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    session, owner = open_clean(sqlite), Owner(sqlite, "olga")
    other = SQLiteBackend(sqlite.folders.base)
    queue = sqlite.folders.store(ACME, "queue")
    session.memory_write("assigned", "p0", "c", "d")
    tick = queue.stat().st_mtime_ns // 1_000_000_000 * 1_000_000_000
    for number in range(1, 4):
        os.utime(queue, ns=(tick, tick))
        assert len(owner.changes(ACME)) == number
        open_clean(other).memory_write("assigned", f"p{number}", "c", "d")
    os.utime(queue, ns=(tick, tick))
    assert len(owner.changes(ACME)) == 4
    other.close()


def test_init_again_without_a_group_leaves_a_separated_store_as_it_is(
    sqlite: SQLiteBackend,
) -> None:
    import grp

    if os.geteuid() != 0:
        pytest.skip("handing folders to a group needs root")
    sqlite.init_scope(ACME, grp.getgrgid(65534).gr_name)
    container = sqlite.folders.container(ACME)
    before = {p: (p.stat().st_mode, p.stat().st_gid) for p in (container, *container.iterdir())}
    assert oct(before[container][0] & 0o7777) == "0o750"
    sqlite.init_scope(ACME)
    assert before == {
        p: (p.stat().st_mode, p.stat().st_gid) for p in (container, *container.iterdir())
    }


def test_a_harmless_view_in_place_of_a_table_is_refused_too(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    import sqlite3

    from sams_core import StoreFailed

    open_clean(sqlite).memory_write("run", "n", "c", "d")
    sqlite.close()
    (database,) = sqlite.folders.store(ACME, "runs").glob("*.db")
    with sqlite3.connect(database) as db:
        db.executescript(
            "ALTER TABLE notes RENAME TO other; CREATE VIEW notes AS SELECT * FROM other;"
        )
    db.close()
    with pytest.raises(StoreFailed) as caught:
        VERBS["snapshot"](sqlite)
    assert caught.value.rule == "schema"


def test_statistics_of_an_analysed_database_are_no_foreign_schema(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    import sqlite3

    open_clean(sqlite).memory_write("run", "n", "c", "d")
    sqlite.close()
    (database,) = sqlite.folders.store(ACME, "runs").glob("*.db")
    with sqlite3.connect(database) as db:
        db.execute("ANALYZE")
    db.close()
    assert len(VERBS["snapshot"](sqlite).notes) == 1


def test_beyond_the_process_wide_bound_every_verb_still_works(
    tmp_path: Path, open_clean: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sams_core.backends.sqlite import connect

    monkeypatch.setattr(connect, "_MOST_IN_ALL", 0)
    backends = [SQLiteBackend(tmp_path / f"store{n}") for n in range(3)]
    for _ in range(2):
        for backend in backends:
            for tenant in range(5):
                session = open_clean(backend, assigned=f"tenant:t{tenant}")
                version = (
                    len(session.memory_index("run").items)
                    and session.memory_read("run", "n").version
                )
                session.memory_write("run", "n", "c", "d", version)
                session.memory_write("assigned", "p", "c", "d")
                Owner(backend, "olga").changes(f"tenant:t{tenant}")
                DreamerSession(backend, job_id="j", scope=f"tenant:t{tenant}").snapshot()
                session.context_block()
    for backend in backends:
        assert len(backend._pool._held().open) <= 6
        backend.close()
