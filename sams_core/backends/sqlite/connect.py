"""Connections: one a thread and database, reopened after a fork, patient by jittered retries.

A thread that ends leaves its connections to the next one: agent frameworks run each tool in a new
thread, and to open a connection takes longer than to use it.

SQLite keeps a table of the locks that its process holds. A forked child inherits that table but not the
locks, and so do connections that it opens afterwards: they may believe to hold what they don't, or wait
for a thread that doesn't exist there. So before a fork all connections are closed, once nobody is using
or closing one, and both sides open new ones.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
import urllib.parse
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from sams_core.backend import WouldBlock, is_impatient
from sams_core.backends.sqlite import files
from sams_core.backends.sqlite.folders import file_mode
from sams_core.errors import StoreFailed, StoreNeedsOwner
from sams_core.locks import ForkSafeLock, gate

T = TypeVar("T")
Store = Literal["curated", "ledger", "runs"]
_MOST_HELD = 64  # connections of a thread, of up to three descriptors each
_MOST_IN_ALL = 200  # connections of a process; beyond it a thread keeps only
_FEWEST_HELD = 6  # of its newest, which is more than one verb uses at once
_MOST_LEFT = 8  # threads' connections that wait for another thread
_DEADLINE = 10.0  # seconds; then the store counts as stuck
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
# A reader that may not write meets a journal which only a writer can roll back.
_HOT = {
    sqlite3.SQLITE_READONLY_ROLLBACK,
    sqlite3.SQLITE_READONLY_RECOVERY,
    sqlite3.SQLITE_READONLY_CANTINIT,
}
# Durability, per store. Curated: a rollback journal opens on a read-only mount and EXTRA also syncs
# the folder after the journal is deleted. Ledger: every commit is on disk. Runs: a scratchpad may
# lose its last commits to a power cut, never to a killed process.
_PRAGMAS: dict[Store, tuple[str, ...]] = {
    "curated": ("PRAGMA journal_mode=DELETE", "PRAGMA synchronous=EXTRA"),
    "ledger": ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"),
    "runs": ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL"),
}


class _Held:
    """The connections of one thread, the least recently used first."""

    def __init__(self) -> None:
        self.open: dict[tuple[str, str], _Open] = {}
        with _all_held_lock:
            _all_held.add(self)

    def get(self, key: tuple[str, str]) -> sqlite3.Connection | None:
        """Return a connection if its file is still the one at its path."""
        found = self.open.pop(key, None)
        if found is None:
            return None
        if found.place != files.place(key[0]):
            if key[0].endswith("ledger.db"):
                # Marks would go to a file that no other process sees any more.
                self.open[key] = found
                raise StoreFailed("the ledger was removed while in use", rule="ledger-gone")
            found.close()
            return None
        self.open[key] = found
        return found.connection

    def put(self, key: tuple[str, str], opened: _Open) -> None:
        """Keep a connection; idle ones make room, so that tenants and threads don't eat descriptors."""
        with _all_held_lock:
            held = sum(len(other.open) for other in _all_held)
        self.shrink((_MOST_HELD if held < _MOST_IN_ALL else _FEWEST_HELD) - 1)
        self.open[key] = opened

    @gate.through
    def shrink(self, most: int) -> None:
        """Close what is idle and was least recently used, until only `most` are left."""
        idle = [k for k, o in self.open.items() if not o.connection.in_transaction]
        for old in idle[: max(0, len(self.open) - most)]:
            self.open.pop(old).close()

    @gate.through
    def close(self) -> None:
        """Close every connection."""
        while self.open:
            self.open.popitem()[1].close()

    def __del__(self) -> None:
        self.close()


@dataclass
class _Open:
    connection: sqlite3.Connection
    place: files.Place
    process: int = field(default_factory=os.getpid)

    def close(self) -> None:
        if self.process != os.getpid():  # its locks and its transaction are the parent's
            _inherited.append(self)
            return
        self.connection.close()
        files.forget(self.place)


_inherited: list[_Open] = []  # only where a fork couldn't wait: neither used nor closed
_all_held: weakref.WeakSet[_Held] = weakref.WeakSet()
_all_held_lock = ForkSafeLock()


def _close_all() -> None:
    for held in list(_all_held):
        held.close()


gate.before_fork(_close_all)


class _Left:
    """What threads that ended left to others."""

    def __init__(self) -> None:
        self.epoch = 0
        self.idle: list[_Held] = []

    def take(self) -> _Held:
        try:
            return self.idle.pop()
        except IndexError:  # asking first would race
            return _Held()


class _Lease:
    """One thread's hold of its connections; freed when the thread ends."""

    def __init__(self, left: _Left) -> None:
        self._left, self.epoch, self.held = left, left.epoch, left.take()

    def __del__(self) -> None:
        left, held = self._left, self.held
        busy = any(each.connection.in_transaction for each in held.open.values())
        if busy or self.epoch != left.epoch or len(left.idle) >= _MOST_LEFT:
            held.close()
        else:
            held.shrink(_FEWEST_HELD)
            left.idle.append(held)


class Pool:
    """The connections of one backend object, each used by one thread at a time."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._left = _Left()

    def retry(self, work: Callable[[], T]) -> T:
        """Run `work` until no lock is in its way, sleeping 0.2 to 2 ms at random between attempts.

        SQLite's own time-out backs off and starves a writer among many; chance doesn't.
        """
        deadline = time.monotonic() + _DEADLINE
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                code = getattr(error, "sqlite_errorcode", 0)  # a text that isn't UTF-8 has none
                if (code & 0xFF) not in _BUSY or code in _HOT:
                    raise translated(error) from None
                if is_impatient():
                    raise WouldBlock from None
                if time.monotonic() > deadline:
                    raise StoreFailed("the database stays locked", rule="store-locked") from None
                time.sleep(random.uniform(0.0002, 0.002))  # noqa: S311 - jitter, not a secret
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                # The latter is an error whose message quotes a name that isn't UTF-8.
                raise translated(error) from None

    def _held(self) -> _Held:
        if gate.spoilt:
            raise StoreFailed(
                "this process was forked while its parent used the store", rule="forked"
            )
        lease: _Lease | None = getattr(self._local, "lease", None)
        if lease is None or lease.epoch != self._left.epoch:
            lease = self._local.lease = _Lease(self._left)
        return lease.held

    def writer(
        self, store: Store, file: Path, first: Callable[[sqlite3.Connection], None]
    ) -> sqlite3.Connection:
        """Return this thread's read-write connection; `first` runs inside the creating transaction."""
        held = self._held()
        found = held.get((str(file), "rw"))
        if found is None:
            opened = self._open(store, file, first)
            held.put((str(file), "rw"), opened)
            found = opened.connection
        return found

    def _open(self, store: Store, file: Path, first: Callable[[sqlite3.Connection], None]) -> _Open:
        mode = 0o644 if file.parent.name == "curated" else file_mode(file.parent)
        place = files.create(file, mode)
        try:
            connection = _connect(str(file), uri=False)
        except sqlite3.Error as error:
            files.forget(place)
            raise translated(error) from None
        opened = _Open(connection, place)
        try:
            for pragma in _PRAGMAS[store]:
                self.retry(lambda pragma=pragma: connection.execute(pragma).fetchall())  # type: ignore[misc]
            connection.execute("PRAGMA trusted_schema=OFF")
            self._migrate(connection, store, first)
            # Read the schema now, waiting for whoever writes it: later SQLite would answer "no such
            # table" from an empty schema that it can't check while the file is locked.
            self.retry(lambda: connection.execute("SELECT count(*) FROM sqlite_schema").fetchone())
        except BaseException:
            opened.close()
            raise
        return opened

    def _migrate(
        self,
        connection: sqlite3.Connection,
        store: Store,
        first: Callable[[sqlite3.Connection], None],
    ) -> None:
        scripts = migrations(store)
        if self._version(connection) == len(scripts):
            return
        with self.transaction(connection):
            version = self._version(connection)
            if version > len(scripts):
                raise StoreFailed(
                    f"schema version {version} is newer than this package", rule="schema-newer"
                )
            for script in scripts[version:]:
                for statement in statements(script):
                    connection.execute(statement)
            if version == 0:
                first(connection)
            connection.execute(f"PRAGMA user_version={len(scripts)}")

    def _version(self, connection: sqlite3.Connection) -> int:
        found: int = self.retry(lambda: connection.execute("PRAGMA user_version").fetchone()[0])
        return found

    def reader(self, store: Store, file: Path) -> sqlite3.Connection | None:
        """Return this thread's read-only connection, or None while there is no such database."""
        held = self._held()
        found = held.get((str(file), "ro"))
        if found is not None:
            return found
        place = files.expect(file)
        if place is None:
            return None
        quoted = urllib.parse.quote(os.fsencode(file.absolute()))
        try:
            connection = _connect(f"file:{quoted}?mode=ro", uri=True)
        except sqlite3.Error as error:
            files.forget(place)
            raise translated(error) from None
        opened = _Open(connection, place)
        try:
            connection.execute("PRAGMA trusted_schema=OFF")
            version = self._version(connection)
        except BaseException:
            opened.close()
            raise
        if version != len(migrations(store)):
            opened.close()
            if version == 0:  # its owner is creating it at this moment
                return None
            raise StoreFailed(f"schema version {version}: the owner must open it with this package")
        held.put((str(file), "ro"), opened)
        return connection

    @contextmanager
    def transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Run a block as one immediate transaction: all of it is stored, or nothing."""
        if connection.in_transaction:  # a signal's handler, in the middle of another verb
            raise StoreFailed("a transaction inside another one", rule="nested")
        process = os.getpid()
        try:
            # Inside, because an interrupt that comes while it begins is raised when it has begun.
            self.retry(lambda: connection.execute("BEGIN IMMEDIATE"))
            yield
            self.retry(lambda: connection.execute("COMMIT"))
        except BaseException as error:
            if connection.in_transaction and os.getpid() == process:  # not in a child forked in it
                with suppress(sqlite3.Error):  # a full disk can undo the transaction by itself
                    connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error | UnicodeDecodeError):
                raise translated(error) from None
            raise

    def close(self) -> None:
        """Close this thread's connections now, and other threads' when they next use or end."""
        left = self._left
        left.epoch += 1
        while left.idle:
            left.take().close()
        self._held()


class _Connection(sqlite3.Connection):
    """One that is closed at the gate, too, where an interrupt lost it before anybody held it."""

    _end = gate.through(sqlite3.Connection.close)

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it came before it was opened
            self._end()


def _connect(database: str, *, uri: bool) -> sqlite3.Connection:
    return sqlite3.connect(
        database,
        factory=_Connection,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
        uri=uri,
    )


def translated(error: sqlite3.Error | UnicodeDecodeError) -> Exception:
    """Return the refusal for an engine's error: its code, never its text, which may quote stored text."""
    code = getattr(error, "sqlite_errorcode", None)
    if code in _HOT:
        return StoreNeedsOwner(
            "the owner's store was left in the middle of a transaction; any owner verb recovers it"
        )
    return StoreFailed(f"the database refused: {getattr(error, 'sqlite_errorname', 'error')}")


_scripts: dict[Store, list[str]] = {}


def migrations(store: Store) -> list[str]:
    """Return a store's migrations in order; their number is the schema version."""
    if store not in _scripts:
        folder = Path(__file__).with_name("migrations") / store
        _scripts[store] = [file.read_text("utf-8") for file in sorted(folder.glob("*.sql"))]
    return _scripts[store]


def statements(script: str) -> Iterator[str]:
    """Split a script at its complete statements, so that it runs inside a transaction."""
    buffer = ""
    for line in script.splitlines(keepends=True):
        buffer += line
        if sqlite3.complete_statement(buffer):
            yield buffer
            buffer = ""
