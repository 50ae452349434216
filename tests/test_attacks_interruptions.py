"""Work that is cut off in the middle: interrupts at every point, forks beside every kind of work."""

from __future__ import annotations

import contextvars
import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

from sams_core import (
    AgentSession,
    MemoryBackend,
    NoSession,
    Owner,
    PermissionDenied,
    SQLiteBackend,
    current_session,
    redact,
    review_flags,
    tainting,
)
from sams_core.backends.sqlite import connect
from sams_core.backends.sqlite.curated import Curated
from sams_core.govern import Governed, begin_tool
from sams_core.locks import gate
from sams_core.records import Draft
from sams_core.redaction import engine, scan

Open = Callable[..., AgentSession]
ACME = "tenant:acme"


class Interrupt(BaseException):
    """What a signal's handler raises."""


def _finalizes(frame: FrameType | None) -> bool:
    """Tell whether what runs is a finalizer, in which Python swallows what is raised."""
    while frame is not None:
        if frame.f_code.co_name in ("__del__", "_remove"):
            return True
        frame = frame.f_back
    return False


def interrupted(work: Callable[[], object], when: int) -> bool:
    """Interrupt at the `when`-th point at which the interpreter runs handlers; False if it ends first."""
    left = when

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal left
        if event in ("call", "c_return"):
            left -= 1
            if left <= 0 and not _finalizes(frame):
                raise Interrupt

    sys.setprofile(count)
    try:
        work()
    except Interrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


VERBS: dict[str, Callable[[AgentSession, Owner, int], object]] = {
    "mark": lambda session, owner, n: session.mark_tainted(f"page {n}"),
    "note": lambda session, owner, n: session.backend.run_write(draft(session, f"n{n}")),
    "change": lambda session, owner, n: session.backend.submit(draft(session, "p", ACME)),
    "publish": lambda session, owner, n: owner.write(ACME, f"o{n}", "c", "d"),
}


def draft(session: AgentSession, path: str, scope: str = "") -> Draft:
    return Draft(session.key, scope or session.run_scope, path, "write", "d", "c", 0, (), None)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # opened, and not held yet
@pytest.mark.parametrize("step", [41, pytest.param(11, marks=pytest.mark.slow)])
@pytest.mark.parametrize("verb", VERBS)
def test_wherever_an_interrupt_comes_others_work_on(
    verb: str, step: int, sqlite: SQLiteBackend, open_clean: Open
) -> None:
    """No lock, transaction or count at the gate is left behind, and what is owed is still recorded."""
    session, owner = open_clean(sqlite), Owner(sqlite, "olga")
    other, work = open_clean(sqlite, "s2"), VERBS[verb]
    for each in VERBS.values():
        each(session, owner, 0)  # opened and compiled
    when = random.randrange(step) + 1
    with ThreadPoolExecutor(1) as elsewhere:
        while interrupted(partial(work, session, owner, when), when):
            assert gate._inside == {}
            elsewhere.submit(other.mark_tainted, "a page").result(60)
            elsewhere.submit(work, other, owner, -when).result(60)
            session.mark_tainted("a page")
            assert not session.family._owed
            when += step
    assert when > 100
    gc.collect()  # while the warning is ignored


def forked(work: Callable[[], object]) -> int:
    """Run work in a forked child; 0 if it ended."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(20)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextmanager
def beside(work: Callable[[], object], threads: int) -> Iterator[None]:
    """Do `work` again and again in other threads."""
    stop, failed = threading.Event(), []

    def go() -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            failed.append(error)

    running = [threading.Thread(target=go) for _ in range(threads)]
    for each in running:
        each.start()
    try:
        yield
    finally:
        stop.set()
        for each in running:
            each.join()
    assert failed == []


def odd_text() -> str:
    text = "".join(chr(random.randrange(32, 0x3000)) for _ in range(3_000))
    return f"{text} password = {random.getrandbits(200):x}"


@pytest.mark.parametrize("look", [redact, review_flags])
def test_a_fork_while_others_look_at_texts_leaves_the_child_free(
    look: Callable[[str], object],
) -> None:
    """RE2's automata have locks, which a child inherits as they are."""
    engine._compile.cache_clear()  # automata grow most at first
    scan.scanner.cache_clear()
    with beside(lambda: look(odd_text()), 3):
        assert [forked(lambda: look(odd_text())) for _ in range(5)] == [0] * 5


def test_a_fork_while_others_search_in_memory_leaves_the_child_free(open_clean: Open) -> None:
    backend = MemoryBackend()
    owner, session = Owner(backend, "olga"), open_clean(backend)
    for number in range(50):
        owner.write(ACME, f"p{number}", "words to be found " * 300, "d")

    def search() -> None:
        assert session.memory_search("assigned", "words found").items

    with beside(search, 2):
        assert [forked(search) for _ in range(5)] == [0] * 5


def test_a_fork_while_threads_end_leaves_the_child_free(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    """A thread that ends closes its connections, which isn't a verb."""
    for number in range(10):
        open_clean(sqlite, assigned=f"tenant:t{number}")

    def look() -> None:
        for number in range(10):
            assert not open_clean(sqlite, assigned=f"tenant:t{number}").tainted

    def come_and_go() -> None:
        threads = [threading.Thread(target=look) for _ in range(12)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    with beside(come_and_go, 1):
        assert [forked(look) for _ in range(40)] == [0] * 40


def test_a_thread_begins_while_another_counts_connections(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    begun: list[threading.Thread] = []

    def begin(frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        counting = code.co_name == "__iter__" and "_weakrefset" in code.co_filename
        if event == "call" and counting and frame.f_lasti > 20 and len(begun) < 3:  # it goes on
            begun.append(threading.Thread(target=connect._Held))
            begun[-1].start()
            begun[-1].join(0.2)

    keep = [connect._Held() for _ in range(3)]
    sys.setprofile(begin)
    try:
        session = open_clean(sqlite)
    finally:
        sys.setprofile(None)
    for each in begun:
        each.join()
    assert begun and keep and not session.tainted


@tainting
def fetch() -> str:
    return "outsiders' text"


def whose() -> str | None:
    session = current_session()
    return session.session_id if session else None


def fetched() -> str:
    try:
        return fetch()
    except NoSession as error:
        return error.rule


def test_a_pools_worker_forked_in_one_sessions_block_is_at_work_for_nobody(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    first, second = open_clean(sqlite, "s1", assigned="tenant:t1"), open_clean(sqlite, "s2")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        with first.active():
            assert pool.submit(whose).result(60) is None
        with second.active():
            assert pool.submit(whose).result(60) is None
            assert pool.submit(fetched).result(60) == NoSession.rule
    assert not first.tainted and not second.tainted


class _Observed(Governed):
    word = "test"

    def attach(self) -> None:
        """Do nothing."""

    def detach(self) -> None:
        """Do nothing."""


def _call(session: AgentSession) -> None:
    with _Observed()(session):
        begin_tool(_Observed, "fetch", fetch)


def test_what_a_pools_worker_does_in_its_own_block_marks_nobody_it_was_forked_beside(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    first, second = open_clean(sqlite), open_clean(sqlite, "s2")
    with _Observed()(first):
        code = forked(lambda: _call(second))
    assert (code, first.tainted, second.tainted) == (0, False, True)


@pytest.mark.parametrize("thread", [False, True])
def test_a_child_forked_inside_a_block_opens_its_own_and_is_no_owner(
    thread: bool, sqlite: SQLiteBackend, open_clean: Open
) -> None:
    session, other, owner = open_clean(sqlite), open_clean(sqlite, "s2"), Owner(sqlite, "olga")

    def child() -> None:
        with pytest.raises(PermissionDenied) as caught:
            owner.changes(ACME)
        assert caught.value.rule == "owner-beside-agent"
        with pytest.raises(NoSession):
            fetch()
        other.memory_write("run", "n", "c", "d")  # no foreign run
        with session.active():
            assert fetch() == "outsiders' text"

    codes: list[int] = []
    with session.active():
        context = contextvars.copy_context()
        if thread:
            worker = threading.Thread(
                target=context.run, args=(lambda: codes.append(forked(child)),)
            )
            worker.start()
            worker.join()
        else:
            codes.append(forked(child))
    assert codes == [0]
    assert session.tainted and not other.tainted


def test_a_handler_that_forks_while_its_own_thread_looks_at_a_text_leaves_the_child_its_store(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    """Nothing of the thread's own is open between two steps of it."""
    session = open_clean(sqlite)
    codes: list[int] = []

    def fork(frame: FrameType, event: str, arg: object) -> None:
        if not codes and frame.f_code.co_name == "redacted":
            sys.setprofile(None)
            codes.append(forked(lambda: session.memory_write("run", "n", "c", "d")))

    sys.setprofile(fork)
    try:
        redact("words")
    finally:
        sys.setprofile(None)
    assert codes == [0]


FORKERS = """
import os, sys, threading, time
os.register_at_fork(before=lambda: time.sleep(0.003))  # of another library, after ours
from sams_core import AgentSession, SQLiteBackend

backend = SQLiteBackend(sys.argv[1])
session = AgentSession(backend, session_id="s", agent="a", assigned="tenant:acme")
session.memory_write("run", "n", "c", "d")
codes = []

def fork():
    for _ in range(10):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                session.memory_read("run", "n")
                code = 0
            finally:
                os._exit(code)
        codes.append(os.waitpid(pid, 0)[1])

threads = [threading.Thread(target=fork) for _ in range(3)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(codes == [0] * 30)
"""


def test_threads_that_fork_at_once_leave_each_child_its_store(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKERS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "True\n", done.stderr[-2_000:]


def test_a_child_forked_in_a_transaction_that_unwinds_leaves_its_parents_alone(
    sqlite: SQLiteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, revise = Owner(sqlite, "olga"), Curated._revise
    owner.write(ACME, "p", "before", "d")

    def forking(self: Curated, *args: object, **more: object) -> object:
        result = revise(self, *args, **more)  # type: ignore[arg-type]  # as it came
        pid = os.fork()
        if pid == 0:
            raise Interrupt
        os.waitpid(pid, 0)
        return result

    monkeypatch.setattr(Curated, "_revise", forking)
    try:
        owner.write(ACME, "p", "after", "d", expected_version=1)
    except Interrupt:
        os._exit(0)
    assert [entry.content for entry in owner.history(ACME, "p")][-1] == "after"
