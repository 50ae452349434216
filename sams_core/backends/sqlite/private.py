"""Reading a database that somebody else can write: through a private copy, never in place.

Opening a database runs whatever lies beside it: a planted journal can name another file as its
super-journal, and SQLite then deletes or rewrites that file with the opener's rights. So only the
database and its WAL are copied, into a folder of mode 0700, and the copy is opened.
"""

from __future__ import annotations

import functools
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from sams_core.backends.sqlite import files
from sams_core.backends.sqlite.connect import Store, migrations, translated
from sams_core.backends.sqlite.folders import failed, open_folder, open_regular
from sams_core.errors import StoreFailed

_ATTEMPTS = 50
_WAL_HEADER = 32  # bytes; salted anew whenever the log is restarted
_LARGEST_VALUE = 4_000_000  # bytes of a string or row in the copy
_DEADLINE = 20.0  # seconds for all that is done with a copy


def _head(folder: int, name: str, limit: int) -> bytes | None:
    try:
        file = open_regular(name, folder, limit)
    except FileNotFoundError:
        return None
    with closing(os.fdopen(file, "rb", buffering=0)) as opened:
        return opened.read(_WAL_HEADER)


def _copy_database(folder: int, name: str, target: Path, limit: int) -> None:
    source = files.borrow(name, folder, limit)
    try:
        _copy(source, target, limit)
    finally:
        files.give_back(source)


def _copy_log(folder: int, name: str, target: Path, limit: int) -> None:
    source = open_regular(name, folder, limit)
    try:
        _copy(source, target, limit)
    finally:
        os.close(source)


def _copy(source: int, target: Path, limit: int) -> None:
    done = 0
    with target.open("xb") as writable:
        while done <= limit and (block := os.pread(source, 1 << 20, done)):
            writable.write(block)
            done += len(block)
    if done > limit:
        raise StoreFailed(f"a file grew beyond {limit} bytes", rule="file-size")


def _stamp(folder: int, name: str, head: bytes | None) -> tuple[bytes | None, int, int]:
    """Return what changes when the copied state stops being one state."""
    if head is not None:
        return head, 0, 0
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return None, found.st_size, found.st_mtime_ns


@contextmanager
def private_copy(store: Store, database: Path, limit: int) -> Iterator[sqlite3.Connection | None]:
    """Open a copy of a database and its WAL, or None if there is no such database yet.

    `limit` is the most bytes of each file. Raises `StoreFailed` if no consistent copy can be had (a
    link, a FIFO or an oversized file in its place, a log that keeps being restarted), or if the copy's
    schema isn't exactly ours: a view in place of a table could answer anything, for ever.
    """
    with ExitStack() as stack:
        try:
            # What can't be removed now is this user's alone, and hides no error of what was done with it.
            made = tempfile.TemporaryDirectory(prefix="sams-", ignore_cleanup_errors=True)
            private = Path(stack.enter_context(made))
        except OSError as error:
            raise failed("making a private folder", error) from None
        try:
            found = _consistent(database, private / "copy.db", limit)
        except FileNotFoundError:
            found = False
        except OSError as error:
            raise failed("copying a database", error) from None
        if not found:
            yield None
            return
        connection = sqlite3.connect(private / "copy.db", isolation_level=None)
        stack.enter_context(closing(connection))
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
            connection.execute("PRAGMA trusted_schema=OFF")
            deadline = time.monotonic() + _DEADLINE
            connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
            schema = _schema(connection)
            if not schema:
                yield None  # its writer is creating it at this moment
                return
            if schema not in _expected(store):
                raise StoreFailed("a database's schema isn't this package's", rule="schema")
            yield connection
        except sqlite3.Error as error:
            raise translated(error) from None
        except UnicodeDecodeError:  # an error that quotes a name which isn't UTF-8
            raise StoreFailed("a database is damaged", rule="damaged") from None


def _schema(connection: sqlite3.Connection) -> list[tuple[str, str, str | None]]:
    """Return what is defined, without what SQLite makes by itself (statistics, sequences)."""
    sql = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    return sorted(connection.execute(sql), key=repr)


@functools.cache
def _expected(store: Store) -> list[list[tuple[str, str, str | None]]]:
    """Return the schema after each migration: a store may not have been opened since an upgrade."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        found = []
        for script in migrations(store):
            connection.executescript(script)
            found.append(_schema(connection))
        return found


def _consistent(database: Path, target: Path, limit: int) -> bool:
    wal = target.with_name(target.name + "-wal")
    folder = open_folder(database.parent)
    try:
        os.stat(database.name, dir_fd=folder, follow_symlinks=False)
        for attempt in range(_ATTEMPTS):
            before = _stamp(folder, database.name, _head(folder, f"{database.name}-wal", limit))
            for old in (target, wal):
                old.unlink(missing_ok=True)
            _copy_database(folder, database.name, target, limit)
            if before[0] is not None:
                try:
                    _copy_log(folder, f"{database.name}-wal", wal, limit)
                except FileNotFoundError:
                    continue
            after = _stamp(folder, database.name, _head(folder, f"{database.name}-wal", limit))
            if before == after:
                return True
            time.sleep(0.002 * attempt)
    finally:
        os.close(folder)
    raise StoreFailed("a database keeps changing while it is copied", rule="copy")
