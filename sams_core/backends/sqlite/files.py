"""Database files as this process has them open: which, and who may close a descriptor of one.

POSIX locks belong to a process and a file: closing any descriptor of a file drops every lock that the
process holds on it, SQLite's among them, and then another process may take the log away under our
feet. So whoever opens a database file by itself asks here before closing it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

from sams_core.backends.sqlite.folders import failed, open_regular
from sams_core.errors import StoreFailed
from sams_core.locks import ForkSafeLock

Place = tuple[int, int]  # device and inode
State = tuple[int, int, int, int]  # device, inode, nanoseconds of the last change, bytes
_SETTLED = 2_500_000_000  # nanoseconds; then a time stamp tells every later change apart

_lock = ForkSafeLock()
_connected: Counter[Place] = Counter()
_parked: dict[Place, list[int]] = {}


def _place(found: os.stat_result) -> Place:
    return found.st_dev, found.st_ino


def place(path: str) -> Place | None:
    """Return what tells the file at a path from another, None if there is none."""
    try:
        return _place(os.stat(path))
    except OSError:
        return None


def state(path: Path, *, follow: bool) -> State | None:
    """Return what tells what lies at a path, or where a link there leads, from what lay there before.

    None if there is nothing. Raises `OSError`.
    """
    try:
        found = os.stat(path, follow_symlinks=follow)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def settled(found: State) -> bool:
    """Tell whether whatever is changed from now on will have another state: clocks tick coarsely."""
    return time.time_ns() - found[2] > _SETTLED


def expect(file: Path) -> Place | None:
    """Announce a connection to an existing file, before it is opened; None if there is no file."""
    with _lock:
        try:
            found = _place(os.stat(file))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise failed("looking at a database", error) from None
        _connected[found] += 1
        return found


def create(file: Path, mode: int) -> Place:
    """Create an empty file if there is none, and announce a connection to it.

    SQLite gives the mode of the database to its log and index too.
    """
    with _lock:
        found = expect(file)
        if found is not None:
            return found
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            made = os.open(file, flags, mode)
            try:
                os.fchmod(made, mode)
            finally:
                os.close(made)
        except FileExistsError:
            pass  # another process was faster, or a link lies there, which isn't followed below
        except OSError as error:
            raise failed("creating a database", error) from None
        if file.is_symlink():
            raise StoreFailed("a link in place of a database", rule="not-a-file")
        found = expect(file)
        if found is None:
            raise StoreFailed("a database vanished while it was created")
        return found


def forget(where: Place) -> None:
    """Say that a connection is closed; with the last one, what was kept open is closed too."""
    with _lock:
        _connected[where] -= 1
        if _connected[where] <= 0:
            del _connected[where]
            for descriptor in _parked.pop(where, []):
                os.close(descriptor)


def borrow(name: str, folder: int, limit: int) -> int:
    """Return a descriptor for reading a database file in a folder; `give_back` ends its use.

    Several may share one, so read with `os.pread`. Raises as `open_regular`.
    """
    with _lock:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        parked = _parked.get(_place(found), [])
        if parked and found.st_size <= limit:
            return parked[0]
    return open_regular(name, folder, limit)


def give_back(descriptor: int) -> None:
    """Close a borrowed descriptor, or keep it open while this process has the file connected."""
    with _lock:
        where = _place(os.fstat(descriptor))
        parked = _parked.get(where, [])
        if descriptor in parked:
            return
        if where in _connected:
            _parked[where] = [*parked, descriptor]
        else:
            os.close(descriptor)
