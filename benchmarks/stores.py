"""Times the SQLite store against a floor that does the same work by hand, and against others.

Run as ``python benchmarks/stores.py``. The floor is one table with a version check, its history by
trigger and a full-text index by trigger, one statement a write, the standard library's sqlite3, tuples
out; it has no marks, no review, no redaction, no digests. It is as durable as our curated store:
rollback journal, synchronous=EXTRA. Rows of ours go through `Owner`, `AgentSession` or the tool call,
and with ", backend" through the storage verb alone. Every system runs a batch in each round, in
shuffled order; a ratio is the median over the rounds of that round's CPU time by the floor's. Nothing
is asserted.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from sams_core import AgentSession, MemoryBackend, Owner, SQLiteBackend
from sams_core.limits import Limits
from sams_core.records import Entry, now

PEER = "safer-agent-memory==0.1.1"
SCOPE = "project:bench"
Text = tuple[str, str, str]  # path, description, content

# What a batch does, how many times, and which of the floor's operations it is compared with.
BATCHES = {
    "new entry": (10, "new entry"),
    "update": (10, "update"),
    "read by key": (200, "read by key"),
    "search": (10, "search"),
    "index page": (10, "index page"),
    "context block": (5, "index page"),
    "pending write": (10, "new entry"),
    "accept": (10, "new entry"),
}
_SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu".split()


def vocabulary() -> list[str]:
    """Return 4,000 words of an invented language, the common ones first."""
    rng = random.Random(7)
    words: dict[str, None] = {}
    while len(words) < 4_000:
        words["".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4)))] = None
    return list(words)


WORDS = vocabulary()
WEIGHTS = [1 / (rank + 3) for rank in range(len(WORDS))]


def text(number: int, kind: str = "e") -> Text:
    """Return an entry of about 1 KB, always the same for a number."""
    rng = random.Random(f"{kind}{number}")
    words = rng.choices(WORDS, weights=WEIGHTS, k=170)
    return f"{kind}/{number % 97}/{number}", " ".join(words[:8]), " ".join(words)[:1_000]


def queries(rng: random.Random) -> str:
    """Return a question of two words that about one entry in ten has."""
    return " ".join(rng.choices(WORDS[60:400], k=2))


class System(Protocol):
    """One store under test; each verb does one operation on the next text."""

    def fill(self, texts: list[Text]) -> None:
        """Preload."""

    def run(self, what: str, items: list[Any]) -> float:
        """Run one batch; return CPU seconds."""

    def close(self) -> None:
        """Release everything."""


def timed(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call, the system's included."""
    cpu = time.process_time()
    work()
    return time.process_time() - cpu


class Floor:
    """The same work by hand."""

    def __init__(self, folder: Path) -> None:
        self.db = sqlite3.connect(folder / "floor.db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode=DELETE")
        self.db.execute("PRAGMA synchronous=EXTRA")
        self.db.executescript(
            """
            CREATE TABLE entries (
              id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, version INTEGER NOT NULL,
              description TEXT NOT NULL, content TEXT NOT NULL, author TEXT NOT NULL,
              date TEXT NOT NULL);
            CREATE TABLE history (
              path TEXT NOT NULL, version INTEGER NOT NULL, description TEXT NOT NULL,
              content TEXT NOT NULL, author TEXT NOT NULL, date TEXT NOT NULL,
              PRIMARY KEY (path, version)) WITHOUT ROWID;
            CREATE INDEX listing ON entries (path, version, description, date);
            CREATE VIRTUAL TABLE words USING fts5(path, description, content, content=entries,
              content_rowid=id);
            CREATE TRIGGER added AFTER INSERT ON entries BEGIN
              INSERT INTO history SELECT new.path, new.version, new.description, new.content,
                new.author, new.date;
              INSERT INTO words(rowid, path, description, content)
                VALUES (new.id, new.path, new.description, new.content);
            END;
            CREATE TRIGGER changed AFTER UPDATE ON entries BEGIN
              INSERT INTO words(words, rowid, path, description, content)
                VALUES ('delete', old.id, old.path, old.description, old.content);
              INSERT INTO words(rowid, path, description, content)
                VALUES (new.id, new.path, new.description, new.content);
              INSERT INTO history SELECT new.path, new.version, new.description, new.content,
                new.author, new.date;
            END;
            """
        )

    def fill(self, texts: list[Text]) -> None:
        self.db.execute("BEGIN")
        for item in texts:
            self.new(item)
        self.db.execute("COMMIT")

    def new(self, item: Text) -> None:
        self.db.execute(
            "INSERT INTO entries (path, version, description, content, author, date) "
            "VALUES (?, 1, ?, ?, 'olga', ?) RETURNING version",
            (*item, now()),
        ).fetchone()

    def update(self, item: Text) -> None:
        path, description, content = item
        changed = self.db.execute(
            "UPDATE entries SET version = version + 1, description = ?, content = ?, date = ? "
            "WHERE path = ? AND version = 1 RETURNING version",
            (description, content, now(), path),
        ).fetchone()
        if changed is None:
            raise RuntimeError("version conflict")

    def read(self, item: Text) -> None:
        sql = "SELECT path, version, description, content, author, date FROM entries WHERE path = ?"
        if self.db.execute(sql, item[:1]).fetchone() is None:
            raise RuntimeError("not found")

    def search(self, query: str) -> None:
        sql = (
            "SELECT e.path, e.version, e.description, snippet(words, 2, '', '', '...', 16) "
            "FROM words JOIN entries e ON e.id = words.rowid WHERE words MATCH ? "
            "ORDER BY bm25(words, 2.0, 3.0, 1.0) LIMIT 20"
        )
        asked = " OR ".join(f'"{word}"' for word in query.split())
        self.db.execute(sql, (asked,)).fetchall()

    def index(self, item: Text) -> None:
        sql = "SELECT path, version, description, date FROM entries WHERE path > ? ORDER BY path"
        self.db.execute(f"{sql} LIMIT 100", item[:1]).fetchall()

    def run(self, what: str, items: list[Any]) -> float:
        verb = {
            "new entry": self.new,
            "update": self.update,
            "read by key": self.read,
            "search": self.search,
            "index page": self.index,
        }[what]
        return timed(lambda: [verb(item) for item in items])

    def close(self) -> None:
        self.db.close()


class Ours:
    """The core over one of its backends, used as agents and owners use it."""

    def __init__(self, backend: SQLiteBackend | MemoryBackend) -> None:
        self.backend = backend
        self.owner = Owner(backend, "olga")
        self.session = AgentSession(
            backend,
            session_id="bench",
            agent="bench-agent",
            assigned=SCOPE,
            user="insider",
            observed="by-hand",
        )
        self.waiting: list[Text] = []

    def entry(self, item: Text) -> Entry:
        path, description, content = item
        return Entry(
            SCOPE, path, 0, description, content, False, (), "", "olga", None, "active", date=now()
        )

    def fill(self, texts: list[Text]) -> None:
        if isinstance(self.backend, MemoryBackend):
            for item in texts:
                self.backend.publish(SCOPE, self.entry(item), 0)
            return
        curated = self.backend._curated(SCOPE)  # one transaction: the preload isn't timed
        db = curated._writer()
        with self.backend._pool.transaction(db):
            for item in texts:
                curated._publish(db, self.entry(item), 0)

    def write(self, item: Text) -> None:
        path, description, content = item
        answer = self.session.call_tool(
            "memory_write",
            {"scope": "assigned", "path": path, "content": content, "description": description},
        )
        if '"queued"' not in answer:
            raise RuntimeError(answer)

    def run(self, what: str, items: list[Any]) -> float:
        owner, session, backend = self.owner, self.session, self.backend
        if what == "accept":
            changes = owner.changes(SCOPE)[: len(items)]
            return timed(lambda: [owner.accept(SCOPE, c.id, c.digest) for c in changes])
        verbs: dict[str, Callable[[Any], object]] = {
            "new entry": lambda t: owner.write(SCOPE, t[0], t[2], t[1]),
            "new entry, backend": lambda t: backend.publish(SCOPE, self.entry(t), 0),
            "update": lambda t: owner.write(SCOPE, t[0], t[2], t[1], expected_version=1),
            "update, backend": lambda t: backend.publish(SCOPE, self.entry(t), 1),
            "read by key": lambda t: session.memory_read("assigned", t[0]),
            "read by key, backend": lambda t: backend.read(SCOPE, SCOPE, t[0]),
            "search": lambda query: session.memory_search("assigned", query),
            "search, backend": lambda query: backend.search(SCOPE, SCOPE, False, query, 20),
            "index page": lambda t: session.memory_index("assigned"),
            "index page, backend": lambda t: backend.index(SCOPE, SCOPE, False, "", 100),
            "context block": lambda t: session.context_block(),
            "pending write": self.write,
        }
        return timed(lambda: [verbs[what](item) for item in items])

    def close(self) -> None:
        self.backend.close()


# The peer runs in an environment of its own and does a batch whenever a line asks for it.
PEER_SCRIPT = """
import json, sys, time
from sams import AgentSession, Owner, SQLiteBackend
base, scope = sys.argv[1:]
backend = SQLiteBackend(base)
owner = Owner(backend, "olga")
session = AgentSession(backend, session_id="bench", agent="bench-agent", assigned=scope)
tools = session.tools()
def accept(t):
    owner.accept_pending(scope, t[0], "bench", 1)
verbs = {
    "new entry": lambda t: owner.write(scope, t[0], t[2], t[1]),
    "update": lambda t: owner.write(scope, t[0], t[2], t[1], 1),
    "read by key": lambda t: session.memory_read(scope, t[0]),
    "search": lambda query: session.memory_search(scope, query),
    "index page": lambda t: session.memory_index(scope),
    "context block": lambda t: session.context_block(),
    "pending write": lambda t: tools["memory_write"](scope=scope, path=t[0], content=t[2], description=t[1]),
    "accept": accept,
}
for line in sys.stdin:
    what, items = json.loads(line)
    verb = verbs[what]
    cpu = time.process_time()
    for item in items:
        verb(item)
    print(json.dumps(time.process_time() - cpu), flush=True)
"""


class Peer:
    """Another implementation, in a process of its own; its CPU time is measured in there."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.base = python, folder / "peer"
        self.process = self._start(self.base)

    def _start(self, base: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, "-c", PEER_SCRIPT, base, SCOPE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def fill(self, texts: list[Text]) -> None:
        """Preload in memory where that is possible, since each of its writes syncs five times."""
        memory = Path("/dev/shm")
        self.close()
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
            self.process = self._start(Path(name) / "peer")
            for start in range(0, len(texts), 100):
                self.run("new entry", texts[start : start + 100])
            self.close()
            shutil.copytree(Path(name) / "peer", self.base)
        self.process = self._start(self.base)

    def run(self, what: str, items: list[Any]) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([what, items]) + "\n")
        self.process.stdin.flush()
        return float(json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        self.process.communicate()


def install(folder: Path) -> Path | None:
    """Build the peer's environment and return its Python, or say why not."""
    python = folder / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", PEER],
    ):
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=120)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"skipped: {PEER} could not be installed ({type(error).__name__})")
            return None
        if done.returncode != 0:
            print(f"skipped: {PEER} could not be installed (exit {done.returncode})")
            return None
    return python


@dataclass
class Series:
    """The rounds of one operation of one system."""

    cpu: list[float]
    ratio: list[float]


def measure(
    systems: dict[str, System], size: int, rounds: int, rng: random.Random
) -> dict[tuple[str, str], Series]:
    """Run interleaved rounds; the first is not counted."""
    texts = [text(number) for number in range(size)]
    for system in systems.values():
        system.fill(texts)
    found: dict[tuple[str, str], Series] = {}
    fresh = iter(range(10**9))
    updated = iter(rng.sample(range(size), size))
    for turn in range(rounds + 1):
        given: dict[str, list[Any]] = {}
        for what, (count, _) in BATCHES.items():
            if what in ("new entry", "pending write"):
                given[what] = [text(next(fresh), "n") for _ in range(count)]
            elif what == "update":
                numbers = [next(updated) for _ in range(count)]
                given[what] = [(text(i)[0], *text(i, "u")[1:]) for i in numbers]
            elif what == "search":
                given[what] = [queries(rng) for _ in range(count)]
            elif what == "read by key":
                given[what] = [texts[i] for i in rng.choices(range(size), k=count)]
            else:
                given[what] = [("", "", "")] * count
        given["accept"] = given["pending write"]
        extra = {
            f"{what}, backend": given[what] for what in ("read by key", "search", "index page")
        }
        extra["new entry, backend"] = [text(next(fresh), "n") for _ in range(10)]
        extra["update, backend"] = extra["new entry, backend"]
        base: dict[str, float] = {}
        order = sorted(systems, key=lambda name: (name != "floor", rng.random()))
        if turn % 2:
            order.reverse()
        took: dict[tuple[str, str], float] = {}
        for what, items in (given | extra).items():
            for name in order:
                if what in extra and not isinstance(systems[name], Ours):
                    continue
                if name == "floor" and what in ("context block", "pending write", "accept"):
                    continue
                took[name, what] = systems[name].run(what, items)
                if name == "floor":
                    base[what] = took[name, what]
        if turn == 0:
            continue
        for (name, what), cpu in took.items():
            count, against = BATCHES[what.removesuffix(", backend")]
            per = BATCHES[against][0]
            series = found.setdefault((name, what), Series([], []))
            series.cpu.append(cpu / count)
            series.ratio.append((cpu / count) / (base[against] / per))
    return found


def _place(what: str) -> tuple[int, str]:
    return list(BATCHES).index(what.removesuffix(", backend")), what


def rows(found: dict[tuple[str, str], Series], names: list[str]) -> Iterator[str]:
    """Render a table: microseconds of CPU an operation, and the ratio by the floor's."""
    width = 22
    yield f"  {'':24}" + "".join(f"{name:>{width}}" for name in names)
    for what in sorted({what for _, what in found}, key=_place):
        cells = []
        for name in names:
            series = found.get((name, what))
            if series is None:
                cells.append(f"{'-':>{width}}")
                continue
            cpu = statistics.median(series.cpu) * 1e6
            ratio = statistics.median(series.ratio)
            cells.append(f"{cpu:>{width - 9},.0f} {ratio:>7.2f}x")
        against = BATCHES[what.removesuffix(", backend")][1]
        note = f"   (x the floor's {against})" if against not in what else ""
        yield f"  {what:24}" + "".join(cells) + note


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--peers", action="store_true", help=f"measure {PEER} as well")
    parser.add_argument("--seed", type=int, default=20_261)
    options = parser.parse_args()
    print(
        f"stores: sams {version('sams-adapters')}, Python {sys.version.split()[0]}, "
        f"SQLite {sqlite3.sqlite_version}; median CPU us an operation and ratio by the floor's, "
        f"{options.rounds} rounds"
    )
    print(
        "  curated and floor: rollback journal, synchronous=EXTRA; queue: file and folder synced;"
    )
    print("  CPU of process and system; waiting for the disk isn't in it")
    if options.peers:
        print("  the peer as it ships: WAL, synchronous=FULL, a connection a call")
        print(
            "  the peer answers a search with entries that have every word, the others with any word"
        )
    with tempfile.TemporaryDirectory(prefix="sams-bench-") as name:
        home = Path(name)
        python = install(home / "peer-venv") if options.peers else None
        for size in options.sizes:
            folder = home / str(size)
            folder.mkdir()
            limits = Limits(session_stored=10**6, session_bytes=10**12)
            systems: dict[str, System] = {
                "floor": Floor(folder),
                "sams SQLite": Ours(SQLiteBackend(folder / "sams", limits)),
                "sams in memory": Ours(MemoryBackend(limits)),
            }
            if python is not None:
                systems["peer 0.1.1"] = Peer(python, folder)
            found = measure(systems, size, options.rounds, random.Random(options.seed))
            print(f"\n{size:,} entries of about 1 KB")
            for line in rows(found, list(systems)):
                print(line)
            for system in systems.values():
                system.close()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
