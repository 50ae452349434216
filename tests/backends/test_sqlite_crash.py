"""A process killed anywhere leaves the old state or the new one, and every acknowledged write."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from sams_core import AgentSession, Owner, SQLiteBackend, redact, review_flags

Open = Callable[..., AgentSession]
ACME = "tenant:acme"


def work(base: Path, log: int, number: int, open_clean: Open) -> None:
    """Write, read an undeclared source, write and decide without end, logging what is acknowledged."""
    backend = SQLiteBackend(base)
    owner = Owner(backend, "olga")

    def say(*words: object) -> None:
        os.write(log, (" ".join(map(str, words)) + "\n").encode())

    for turn in range(10_000):
        name = f"{number}-{turn}"
        session = open_clean(backend, name)

        @session.tainting
        def fetch(name: str = name) -> str:
            say("read", name)
            return "outsiders' text"

        note = session.memory_write("run", "n", "before", "d")
        say("note", name, note.version)
        clean = session.memory_write("assigned", f"clean/{name}", "before", "d")
        say("change", name, clean.change_id)
        text = fetch()
        tainted = session.memory_write("assigned", f"tainted/{name}", text, "d")
        say("change", name, tainted.change_id)
        for change in owner.changes(ACME)[:2]:
            say("deciding", name, change.id)
            if change.tainted:
                owner.reject(ACME, change.id, "no")
                say("rejected", name, change.id)
            else:
                owner.accept(ACME, change.id, change.digest)
                say("accepted", name, change.id)


def killed(base: Path, number: int, open_clean: Open, delay: float) -> list[list[str]]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            work(base, write, number, open_clean)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(write)
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    with os.fdopen(read) as log:
        return [line.split() for line in log.read().splitlines()]


def check(base: Path, log: list[list[str]], open_clean: Open) -> None:
    backend = SQLiteBackend(base)
    owner = Owner(backend, "olga")
    queue = {change.id: change for change in owner.changes(ACME)}
    standing = {word[2]: backend.standing(ACME, word[2]) for word in log if word[0] == "change"}
    for what, name, *rest in log:
        if what == "note":
            note = backend.read(ACME, f"run:{name}", "n")
            assert note is not None and note.version == int(rest[0])
        elif what == "change":
            found = standing[rest[0]]
            assert found is not None, "an acknowledged change is gone"
            tainted = found.change.path.startswith("tainted/")
            assert found.change.tainted == tainted
            assert (found.state == "open") == (rest[0] in queue)
        elif what == "read":
            assert open_clean(backend, name).tainted
        elif what in ("accepted", "rejected"):
            decided = standing.get(rest[0]) or backend.standing(ACME, rest[0])
            assert decided is not None and decided.state == what
        elif what == "deciding":
            decided = backend.standing(ACME, rest[0])
            assert decided is not None
            entry = owner.get(ACME, decided.change.path)
            assert (entry is not None) == (decided.state == "accepted")
    for change in queue.values():
        if change.path.startswith("tainted/"):
            assert change.tainted, "an unmarked change after an undeclared read"
    session = open_clean(backend, f"after-{time.time_ns()}")
    session.memory_write("run", "n", "c", "d")
    session.memory_write("assigned", f"after/{time.time_ns()}", "c", "d")
    owner.write(ACME, f"after/{time.time_ns()}", "c", "d")
    backend.snapshot(ACME, "job", "all")
    assert backend.sessions(ACME)
    backend.close()


def test_a_process_killed_at_thirty_random_points_loses_nothing_it_acknowledged(
    tmp_path: Path, open_clean: Open
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    acknowledged = 0
    redact("x"), review_flags("x")  # compiled here once rather than in every child
    for number in range(30):
        log = killed(tmp_path / "store", number, open_clean, chance.uniform(0.01, 0.15))
        acknowledged += len(log)
        check(tmp_path / "store", log, open_clean)
    assert acknowledged > 30  # enough to have lost one; a busy machine acknowledges fewer


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(10))
def test_a_process_killed_at_three_hundred_random_points(
    round_: int, tmp_path: Path, open_clean: Open
) -> None:
    test_a_process_killed_at_thirty_random_points_loses_nothing_it_acknowledged(
        tmp_path, open_clean
    )
