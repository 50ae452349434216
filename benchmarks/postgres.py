"""Times the Postgres store against itself without row-level security, and against another store.

Run as ``python benchmarks/postgres.py``. It starts the server of the tests with fsync, full_page_writes
and synchronous_commit on, fills one schema, and has the server copy the database file by file. In the
copy row-level security is disabled on every table. Nothing else differs: the same logins with the same
grants, queries, triggers, and checks inside functions. With ``--peers`` LangGraph's `PostgresStore`
does the same in an environment of its own: on the same server, each commit as durable, from a pool.
It has no history, no version check and no policies. It searches by vectors where an index is set up,
so a second store has one, over 64 numbers that cost next to nothing to make; the first has no search.

Two times are taken of each call: what the caller waits, and the CPU that its process and the server's
processes for it use, which a busy machine disturbs less. Each system runs a batch in each round, in
shuffled order; a ratio is the median over the rounds of that round's ratio. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from stores import SCOPE, WORDS, Text, queries, text

from sams_conformance.postgres_server import ADDRESS, Database, Server
from sams_core import AgentSession, Owner
from sams_core.backends.postgres import PostgresBackend
from sams_core.backends.postgres.words import asked, indexed
from sams_core.limits import Limits
from sams_core.records import Entry, now

PEER = ("langgraph-checkpoint-postgres==3.2.0", f"psycopg[binary]=={version('psycopg')}")
DURABLE = dict.fromkeys(("fsync", "full_page_writes", "synchronous_commit"), "on")
LIMITS = Limits(
    session_open=10**6, session_stored=10**6, container_open=10**7, session_bytes=10**12
)
LARGE = 100_000

# What a batch does, how many times, and the goals: the ratio by no policies, and by the other store.
BATCHES: dict[str, tuple[int, float | None, float | None]] = {
    "read by key": (40, 1.3, 0.35),
    "index page of 100": (20, 1.2, None),
    "new entry": (20, 1.15, 1.3),
    "new entry, search on": (20, None, None),
    "update": (20, 1.15, None),
    "search": (5, None, None),
    "memory_read": (20, None, None),
    "memory_write, queued": (20, None, None),
}
# What the other store does in the place of a verb that it hasn't got.
INSTEAD = {"memory_read": "read by key", "memory_write, queued": "new entry"}


Times = tuple[float, float]  # seconds waited, seconds of CPU
Series = dict[tuple[str, str], list[Times]]


class System(Protocol):
    """One store under test."""

    databases: tuple[str, ...]

    def run(self, what: str, items: list[Any]) -> Times | None:
        """Run one batch; return what it took here, None if there is no such verb."""

    def close(self) -> None:
        """Release everything."""


class Ours:
    """The backend under an owner's and an agent's login, and an agent's session over it."""

    def __init__(self, owner: str, agent: str) -> None:
        self.databases = (str(conninfo_to_dict(owner)["dbname"]),)
        self.owner = PostgresBackend(owner, LIMITS)
        self.agent = PostgresBackend(agent, LIMITS)
        self.session = AgentSession(
            self.agent,
            session_id="bench",
            agent="bench-agent",
            assigned=SCOPE,
            user="insider",
            observed="by-hand",
        )

    def entry(self, item: Text) -> Entry:
        path, description, content = item
        return Entry(
            SCOPE, path, 0, description, content, False, (), "", "olga", None, "active", date=now()
        )

    def fill(self, texts: list[Text]) -> None:
        """Publish everything in one transaction: the preload isn't timed."""
        Owner(self.owner, "olga").write(SCOPE, "first", "text", "d")
        self.owner._pool.transaction(
            lambda db: [self.owner._publish(db, SCOPE, self.entry(item), 0) for item in texts]
        )

    def queue(self, item: Text) -> None:
        path, description, content = item
        receipt = self.session.memory_write("assigned", path, content, description)
        if receipt.status != "queued":
            raise RuntimeError(receipt.status)

    def run(self, what: str, items: list[Any]) -> Times:
        owner, agent, session = self.owner, self.agent, self.session
        verbs: dict[str, Callable[[Any], object]] = {
            "read by key": lambda t: agent.read(SCOPE, SCOPE, t[0]),
            "index page of 100": lambda t: agent.index(SCOPE, SCOPE, False, t[0], 100),
            "new entry": lambda t: owner.publish(SCOPE, self.entry(t), 0),
            "update": lambda t: owner.publish(SCOPE, self.entry(t), 1),
            "search": lambda query: agent.search(SCOPE, SCOPE, False, query, 20),
            "memory_read": lambda t: session.memory_read("assigned", t[0]),
            "memory_write, queued": self.queue,
        }
        verb = verbs[what.removesuffix(", search on")]
        start = time.perf_counter(), time.process_time()
        for item in items:
            verb(item)
        return time.perf_counter() - start[0], time.process_time() - start[1]

    def close(self) -> None:
        self.owner.close()
        self.agent.close()


# The other store runs in an environment of its own and does a batch whenever a line asks for it.
PEER_SCRIPT = """
import hashlib, json, sys, time
from contextlib import ExitStack
from langgraph.store.base import PutOp
from langgraph.store.postgres import PostgresStore
plain, vectors = sys.argv[1:]
name = ("project", "bench")
def embed(texts):
    return [[b / 255 for b in hashlib.sha512(text.encode()).digest()] for text in texts]
def value(t):
    return {"description": t[1], "content": t[2]}
with ExitStack() as stack:
    def opened(url, **more):
        store = stack.enter_context(
            PostgresStore.from_conn_string(url, pool_config={"min_size": 1, "max_size": 8}, **more))
        store.setup()
        return store
    store = opened(plain)
    index = {"dims": 64, "embed": embed, "fields": ["content"]}
    found = opened(vectors, index=index) if vectors else None
    def read(t):
        assert store.get(name, t[0]) is not None
    def page(t):
        assert store.search(name, limit=100)
    def search(query):
        assert len(found.search(name, query=query, limit=20)) == 20
    verbs = {
        "read by key": read,
        "index page of 100": page,
        "new entry": lambda t: store.put(name, t[0], value(t)),
        "update": lambda t: store.put(name, t[0], value(t)),
    }
    if found is not None:
        verbs["search"] = search
        verbs["new entry, search on"] = lambda t: found.put(name, t[0], value(t))
    for line in sys.stdin:
        what, items = json.loads(line)
        took = None
        if what == "fill":
            for start in range(0, len(items), 500):
                for one in (store, found):
                    if one is not None:
                        one.batch([PutOp(name, t[0], value(t)) for t in items[start:start + 500]])
        elif what in verbs:
            verb = verbs[what]
            start = time.perf_counter(), time.process_time()
            for item in items:
                verb(item)
            took = time.perf_counter() - start[0], time.process_time() - start[1]
        print(json.dumps(took), flush=True)
"""


class Peer:
    """The other store, in a process of its own, which takes the time itself."""

    def __init__(self, python: Path, plain: str, vectors: str) -> None:
        urls = [url for url in (plain, vectors) if url]
        self.databases = tuple(str(conninfo_to_dict(url)["dbname"]) for url in urls)
        self.process = subprocess.Popen(
            [python, "-c", PEER_SCRIPT, plain, vectors],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, what: str, items: list[Any]) -> Times | None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([INSTEAD.get(what, what), items]) + "\n")
        self.process.stdin.flush()
        took = json.loads(self.process.stdout.readline())
        return None if took is None else (took[0], took[1])

    def close(self) -> None:
        self.process.communicate()


def install(folder: Path) -> Path | None:
    """Build the peer's environment and return its Python, or say why not."""
    python = folder / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PEER],
    ):
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=300)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"skipped: {PEER[0]} could not be installed ({type(error).__name__})")
            return None
        if done.returncode != 0:
            print(f"skipped: {PEER[0]} could not be installed (exit {done.returncode})")
            return None
    return python


def administer(root: str, database: str, *statements: str) -> list[Any]:
    """Run statements as the server's administrator; return the rows of the last."""
    rows: list[Any] = []
    with psycopg.connect(make_conninfo(root, dbname=database), autocommit=True) as db:
        for statement in statements:
            cursor = db.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else []
    return rows


def without_policies(root: str, original: Database) -> Database:
    """Copy a database to which nobody is connected, and disable row-level security in the copy."""
    copy = Database("bench without policies", root)
    administer(root, "postgres", f"CREATE DATABASE {copy.name} TEMPLATE {original.name}")
    tables = administer(
        root, copy.name, "SELECT tablename FROM pg_tables WHERE schemaname = 'sams'"
    )
    for (table,) in tables:
        for change in ("DISABLE", "NO FORCE"):
            administer(root, copy.name, f"ALTER TABLE sams.{table} {change} ROW LEVEL SECURITY")
    return copy


def peers(root: str, python: Path, stack: ExitStack) -> Peer:
    """Start the other store over a database for itself, and one more with vectors if it can be."""
    plain, vectors = Database("bench peer", root), Database("bench vectors", root)
    for database in (plain, vectors):
        database.create(install=False)
        stack.callback(database.drop)
    url = vectors.admin
    try:
        administer(root, vectors.name, "CREATE EXTENSION vector")
    except psycopg.Error as error:
        print(f"skipped: its search, since this server has no pgvector ({error.sqlstate})")
        url = ""
    peer = Peer(python, plain.admin, url)
    stack.callback(peer.close)
    return peer


def processes(root: str, system: System) -> list[int]:
    """Return the server's processes that serve a system."""
    names = ", ".join(f"'{name}'" for name in system.databases)
    sql = f"SELECT pid FROM pg_stat_activity WHERE datname IN ({names}) AND backend_type = 'client backend'"
    return [row[0] for row in administer(root, "postgres", sql)]


def on_cpu(pids: list[int]) -> float:
    """Return the seconds that processes of this machine have run, as the kernel counts them."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9


def measure(
    root: str, local: bool, systems: dict[str, System], size: int, rounds: int, rng: random.Random
) -> Series:
    """Run interleaved rounds; return the times a call. The first round is not counted."""
    found: Series = {}
    fresh = iter(range(10**9))
    updated = iter(rng.sample(range(size), size))
    for turn in range(rounds + 1):
        pids = {name: processes(root, s) if local else [] for name, s in systems.items()}
        for what, (count, _, _) in BATCHES.items():
            if what == "update":
                items: list[Any] = [text(next(updated)) for _ in range(count)]
            elif what == "search":
                items = [queries(rng) for _ in range(count)]
            elif what.startswith(("new", "memory_write")):
                items = [text(next(fresh), "n") for _ in range(count)]
            else:
                items = [text(rng.randrange(size)) for _ in range(count)]
            order = list(systems)
            rng.shuffle(order)
            for name in order:
                before = on_cpu(pids[name])
                took = systems[name].run(what, items)
                if turn and took is not None:
                    cpu = took[1] + on_cpu(pids[name]) - before
                    found.setdefault((name, what), []).append((took[0] / count, cpu / count))
    return found


def ratio(one: list[float], other: list[float], goal: float | None) -> str:
    """Render the median ratio of two series beside its goal."""
    if not other:
        return f"{'-':>6}{'':20}"
    value = statistics.median(a / b for a, b in zip(one, other, strict=True))
    said = "" if goal is None else f" (goal {goal:.2f}{', missed' if value > goal else ''})"
    return f"{value:>6.2f}{said:<20}"


def rows(found: Series, column: int) -> Iterator[str]:
    """Render a table: microseconds a call, and ratios beside their goals."""
    yield f"  {'':22}{'ours':>9}{'no RLS':>9}  {'by no RLS':24}{'peer':>9}  by PostgresStore"
    for what, (_, policies, other) in BATCHES.items():
        ours, free, peer = (
            [times[column] for times in found.get((name, what), ())]
            for name in ("ours", "no RLS", "peer")
        )
        cells = [
            f"{statistics.median(series) * 1e6:>9,.0f}" if series else f"{'-':>9}"
            for series in (ours, free, peer)
        ]
        line = f"  {what:22}{cells[0]}{cells[1]}{ratio(ours, free, policies)}{cells[2]}"
        yield (line + ratio(ours, peer, other)).rstrip()


# Copies of what is there, under paths of their own; triggers and policies don't bind a superuser.
GROW = """
SET session_replication_role = replica;
INSERT INTO sams.versions (container, path, version, status, labelled, handle, born, date, digest,
    login, sources, provenance)
  SELECT container, path || '/c' || n, version, status, labelled, handle, born, date, digest || n,
    login, sources, provenance
  FROM sams.versions v, generate_series(1, {copies}) n WHERE status = 'active' AND path LIKE 'e/%';
INSERT INTO sams.texts SELECT t.container, t.path || '/c' || n, t.version, t.description, t.content
  FROM sams.texts t JOIN sams.versions v USING (container, path, version),
    generate_series(1, {copies}) n WHERE v.status = 'active' AND t.path LIKE 'e/%';
INSERT INTO sams.lookup (container, scope, path, labelled, length, counts, seq)
  SELECT l.container, scope, path || '/c' || n, labelled, length, counts, seq + n * newest
  FROM sams.lookup l JOIN sams.partitions p USING (container, scope, labelled),
    generate_series(1, {copies}) n WHERE path LIKE 'e/%';
UPDATE sams.partitions p SET texts = x.texts, terms = x.terms, newest = x.newest FROM (
  SELECT container, scope, labelled, count(*) AS texts, sum(length) AS terms, max(seq) AS newest
  FROM sams.lookup GROUP BY 1, 2, 3) x
  WHERE (p.container, p.scope, p.labelled) = (x.container, x.scope, x.labelled);
"""


def questions(size: int) -> dict[str, str]:
    """Return words that few, some and most of the entries have, or a word that begins alike."""
    entries = Counter(term for n in range(size) for term in indexed(*text(n)).counts)
    hits = {
        word: max(entries[term] for term in found["terms"])
        for word in WORDS
        if (found := asked(word)) is not None
    }
    return {
        f"of {share:.1%} of them": min(hits, key=lambda word: abs(hits[word] - share * size))
        for share in (0.001, 0.01, 0.6)
    }


def searches(system: Ours, words: dict[str, str], rounds: int) -> dict[str, float]:
    """Return milliseconds of a search for each word."""
    took: dict[str, list[float]] = {name: [] for name in words}
    for _ in range(rounds + 1):
        for name, word in words.items():
            took[name].append(system.run("search", [word])[0])
    return {name: statistics.median(series[1:]) * 1e3 for name, series in took.items()}


def grow(root: str, database: Database, system: Ours, size: int, rounds: int) -> None:
    """Time the search, grow the container to 100,000 entries, and time it again."""
    words = questions(size)
    administer(root, database.name, "VACUUM ANALYZE")
    before = searches(system, words, rounds)
    copies = LARGE // size - 1
    administer(root, database.name, *GROW.format(copies=copies).split(";")[:-1], "VACUUM ANALYZE")
    after = searches(system, words, rounds)
    (count,) = administer(root, database.name, "SELECT count(*) FROM sams.lookup")[0]
    print("\nsearch for a word, milliseconds, by how many entries the container has")
    print(f"  {'':22}{size:>9,}{count:>9,}")
    for name in words:
        print(f"  {name:22}{before[name]:>9.1f}{after[name]:>9.1f}")


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peers", action="store_true", help=f"measure {PEER[0]} as well")
    parser.add_argument("--seed", type=int, default=20_261)
    options = parser.parse_args()
    with ExitStack() as stack:
        server = None if ADDRESS in os.environ else Server(**DURABLE)
        if server is not None:
            stack.callback(server.stop)
        root = os.environ[ADDRESS] if server is None else server.superuser
        settings = [administer(root, "postgres", f"SHOW {name}")[0][0] for name in DURABLE]
        (release,) = administer(root, "postgres", "SHOW server_version")[0]
        said = ", ".join(f"{name} {value}" for name, value in zip(DURABLE, settings, strict=True))
        print(
            f"postgres: sams {version('sams-adapters')}, Python {sys.version.split()[0]}, "
            f"psycopg {version('psycopg')}, server {release} on this machine ({said})"
        )
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sams-bench-"))
        python = install(Path(folder) / "venv") if options.peers else None
        database = Database("bench", root)
        database.create()
        stack.callback(database.drop)
        urls = [database.granted(role, SCOPE) for role in ("owner", "agent")]
        texts = [text(number) for number in range(options.size)]
        filling = Ours(*urls)
        filling.fill(texts)
        filling.close()
        copy = without_policies(root, database)
        stack.callback(copy.drop)
        ours = Ours(*urls)
        stack.callback(ours.close)
        free = Ours(*(make_conninfo(url, dbname=copy.name) for url in urls))
        stack.callback(free.close)
        systems: dict[str, System] = {"ours": ours, "no RLS": free}
        if python is not None:
            systems["peer"] = peers(root, python, stack)
            systems["peer"].run("fill", texts)
        for (name,) in administer(root, "postgres", "SELECT datname FROM pg_database"):
            if name != "template0":
                administer(root, name, "VACUUM ANALYZE")
        rng = random.Random(options.seed)
        local = server is not None and Path("/proc/self/schedstat").exists()
        found = measure(root, local, systems, options.size, options.rounds, rng)
        print(
            f"\n{options.size:,} entries of about 1 KB, {options.rounds} rounds, microseconds a call"
        )
        for column, title in enumerate(("waited for", "of CPU")[: 1 + local]):
            print(f"{title}:")
            for line in rows(found, column):
                print(line)
        grow(root, database, ours, options.size, options.rounds)


if __name__ == "__main__":
    main()
