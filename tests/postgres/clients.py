"""A client process: does one job over and over, says what was acknowledged, outlives its server.

Run as `python clients.py JOB URL NAME TIMES`; it ends by itself after `TIMES` turns, or after the turn
in which standard input ends. One JSON list a line is what was acknowledged, or what was refused.
"""

from __future__ import annotations

import json
import random
import select
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from sams_core import AgentSession, NotFound, Owner, ReviewMismatch, VersionConflict
from sams_core.backends.postgres import PostgresBackend
from sams_core.errors import SamsError

ACME = "tenant:acme"
A_SESSION = 40  # turns; its limits hold far more
PATHS, REWRITES = 12, 2


def say(*words: Any) -> None:
    print(json.dumps(words), flush=True)


def again(call: Callable[[], Any]) -> Any:
    """Repeat a call with the same arguments until the server is back; say what it was refused for."""
    said = None
    while True:
        try:
            return call()
        except SamsError as error:
            if error.rule not in ("store-unreachable", "session-closed"):
                raise
            if error.rule != said:
                said = error.rule
                say("refused", said)
            time.sleep(0.01)


def session(backend: PostgresBackend, name: str) -> AgentSession:
    declared: dict[str, Any] = {"user": "insider", "observed": "by-hand"}
    return AgentSession(backend, session_id=name, agent="bot", assigned=ACME, **declared)


def tool(opened: AgentSession, call_id: str, **arguments: Any) -> dict[str, Any]:
    def call() -> dict[str, Any]:
        answer = json.loads(opened.call_tool("memory_write", arguments, call_id=call_id))
        if "error" in answer:
            raise SamsError(answer["error"]["message"], rule=answer["error"]["rule"])
        return dict(answer)

    return again(call)


class Jobs:
    """What a client can be told to do; each call of a job is one turn."""

    def __init__(self, url: str, name: str) -> None:
        self.backend, self.name = PostgresBackend(url), name
        self.owner = Owner(self.backend, "olga")
        self.dice = random.Random(name)

    def agent(self, turn: int) -> None:
        """Count up in a note, read a page, queue a change: each acknowledged before the next."""
        part, step = divmod(turn, A_SESSION)
        name = f"{self.name}-{part}"
        if step == 0:
            self.opened = again(lambda: session(self.backend, name))
        note = {"scope": "run", "path": "counter", "content": str(step + 1), "description": "d"}
        tool(self.opened, f"note {step}", **note, expected_version=step or None)
        say("note", name, step + 1)
        again(lambda: self.opened.mark_tainted(f"page {step}"))
        say("mark", name, f"page {step}")
        path = f"{name}/{step}"
        change = {"scope": "assigned", "path": path, "content": path, "description": "d"}
        answer = tool(self.opened, f"change {step}", **change)
        say("queued", path, answer["change_id"])

    def decide(self, turn: int) -> None:
        """Accept or reject what is waiting, write an entry of one's own and retire it."""
        for change in again(lambda: self.owner.changes(ACME)):
            if change.path.endswith("7"):
                again(lambda change=change: self.owner.reject(ACME, change.id, "no"))
                say("rejected", change.path, change.id)
                continue
            entry = again(lambda change=change: self.owner.accept(ACME, change.id, change.digest))
            say("accepted", change.path, entry.digest)
        path = f"own/{turn}"

        def write() -> None:
            try:
                self.owner.write(ACME, path, path, "d")
            except VersionConflict as error:  # the one whose acknowledgement was lost
                if (error.expected, error.found) != (0, 1):
                    raise

        again(write)
        say("written", path)
        again(lambda: self.owner.retire(ACME, path))
        say("retired", path)

    def count_note(self, turn: int) -> None:
        """Add 1 to a note that all sessions of the family see, or to one's own."""
        if turn == 0:
            self.opened = session(self.backend, "s1")
        self._count(
            lambda path: self.opened.memory_read("run", path),
            lambda path, text, version: self.opened.memory_write("run", path, text, "d", version),
        )

    def count_entry(self, turn: int) -> None:
        """Add 1 to an entry of curated memory."""

        def read(path: str) -> Any:
            entry = self.owner.get(ACME, path)
            if entry is None:
                raise NotFound("none yet")
            return entry

        def write(path: str, text: str, version: int | None) -> None:
            self.owner.write(ACME, path, text, "d", expected_version=version)

        self._count(read, write)

    def _count(self, read: Callable[[str], Any], write: Callable[..., Any]) -> None:
        while True:
            try:
                found = read(self.name)
                number, version = int(found.content), found.version
            except NotFound:
                number, version = 0, None
            try:
                write(self.name, str(number + 1), version)
            except VersionConflict:
                continue
            say("counted", self.name)
            return

    def rewrite(self, turn: int) -> None:
        """Queue a text for an entry, and another in its place; then wait until the entry moves."""
        if turn == 0:
            self.opened = session(self.backend, self.name)
            self.stored: Counter[tuple[str, int | None]] = Counter()
        path = f"p{self.dice.randrange(PATHS)}"
        entry = self.backend.read(ACME, ACME, path)
        version = entry.version if entry is not None else None
        if self.stored[path, version] == REWRITES:
            time.sleep(0.01)  # what goes on without end leaves the owners nothing to accept
            return
        text = f"{self.name} {turn}"
        try:
            self.opened.memory_write("assigned", path, text, "d", version)
        except VersionConflict:
            return
        self.stored[path, version] += 1
        say("written", path, text)

    def accept(self, turn: int) -> None:
        """Review all that waits and accept a change for each entry, while they are being rewritten."""
        waiting = self.owner.changes(ACME)
        self.dice.shuffle(waiting)
        for change in {change.path: change for change in waiting}.values():
            try:
                entry = self.owner.accept(ACME, change.id, change.digest)
            except (ReviewMismatch, NotFound, VersionConflict) as error:
                say("too late", error.rule)
            else:
                say("accepted", change.path, entry.version, change.content, entry.content)


def main(job: str, url: str, name: str, times: str) -> None:
    work = getattr(Jobs(url, name), job)
    for turn in range(int(times)):
        work(turn)
        if select.select([sys.stdin], [], [], 0)[0]:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
