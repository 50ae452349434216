"""Where a container's four stores lie, who may write which, and how their folders come to be."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import TypeVar

from sams_core.errors import PermissionDenied, StoreFailed
from sams_core.scopes import ORG

K = TypeVar("K")
V = TypeVar("V")
CURATED, QUEUE, LEDGER, RUNS = "curated", "queue", "ledger", "runs"
AGENT_STORES = (QUEUE, LEDGER, RUNS)
POLICY_FILE = "sams.toml"  # in the base; the owner's, like the base itself
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_LONGEST = 150


def folder_name(container: str) -> str:
    """Return a container's folder: readable, one to one, safe on any file system.

    Lower-case ASCII letters, digits, `_` and `-` stand for themselves, every other byte of UTF-8 is
    `=xx`, so that names which differ in case or in normalisation stay apart where the file system
    folds them. A long name ends in its SHA-256.
    """
    kind, _, ident = container.partition(":")
    coded = "".join(
        chr(byte) if chr(byte) in _PLAIN else f"={byte:02x}" for byte in ident.encode("utf-8")
    )
    name = f"{kind}-{coded}" if ident else kind
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}=={hashlib.sha256(container.encode()).hexdigest()}"
    return name


def keep(kept: dict[K, V], key: K, value: V) -> None:
    """Remember something cheap to make again, of a server's many tenants too."""
    if len(kept) > 4_000:
        kept.clear()
    kept[key] = value


class Folders:
    """The folders under one base directory."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self._stores: dict[tuple[str, str], Path] = {}

    def container(self, container: str) -> Path:
        """Return a container's folder."""
        return self.base / folder_name(container)

    def store(self, container: str, store: str) -> Path:
        """Return the folder of one of its stores."""
        found = self._stores.get((container, store))
        if found is None:  # kept, because joining paths costs as much as reading an entry
            found = self.container(container) / store
            keep(self._stores, (container, store), found)
        return found

    def make(self, container: str, store: str) -> Path:
        """Create a store's folder if it is missing, private to this user unless it is `curated`."""
        folder = self.store(container, store)
        if not exists(folder):
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir(0o755 if store == CURATED else 0o700, exist_ok=True)
            except OSError as error:
                raise failed("creating a folder", error) from None
        return folder

    def init(self, container: str, group: int | None) -> None:
        """Create all four folders; the agents' three are shared with `group` if it is given.

        With a group only its members reach a project's or tenant's folder; every agent reads `org`.
        A link in place of a folder isn't followed, and another user's folder isn't taken over.
        """
        folder = self.container(container)
        try:
            self.base.mkdir(parents=True, exist_ok=True)
            _own(folder, 0o755 if group is None or container == ORG else 0o750, group)
            _own(folder / CURATED, 0o755, None)
            for store in AGENT_STORES:
                _own(folder / store, 0o700 if group is None else 0o2770, group)
        except OSError as error:
            raise failed("creating the folders", error) from None

    def check_separation(self, container: str) -> None:
        """Raise `PermissionDenied` (rule `separation`) if this process can write the owner's store.

        Whoever can write the base or the container's folder can put another `curated/` in place; the
        text policy decides what the owner's process cuts.
        """
        folder, curated = self.container(container), self.store(container, CURATED)
        policy = self.base / POLICY_FILE
        if os.access(self.base, os.W_OK):
            raise _not_separate("the base directory is writable")
        if not exists(curated):
            raise _not_separate("there is no curated/; the owner runs sams init")
        if os.access(folder, os.W_OK) or os.access(curated, os.W_OK):
            raise _not_separate("curated/ or its parent is writable")
        if any(os.access(entry.path, os.W_OK) for entry in os.scandir(curated)):
            raise _not_separate("a file in curated/ is writable")
        if os.access(policy, os.W_OK):
            raise _not_separate("the text policy is writable")
        owned = [self.base, folder, curated, *([policy] if exists(policy) else [])]
        if any(os.stat(path).st_uid == os.geteuid() for path in owned):
            raise _not_separate("this user owns the store and could make it writable")


def _own(folder: Path, mode: int, group: int | None) -> None:
    """Create a folder, or give one that is there to the group; without a group it stays as it is."""
    try:
        folder.mkdir(0o700)
        made = True
    except FileExistsError:
        made = False
    opened = open_folder(folder)
    try:
        if os.fstat(opened).st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
            raise PermissionError(errno.EPERM, "")
        if group is not None:
            os.fchown(opened, -1, group)
        if made or group is not None:
            os.fchmod(opened, mode)
    finally:
        os.close(opened)


def exists(path: Path) -> bool:
    """Tell whether something is there; raises `StoreFailed` if that can't be told."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise failed("looking at the store", error) from None
    return True


def _not_separate(why: str) -> PermissionDenied:
    return PermissionDenied(f"agent and owner aren't separated: {why}", rule="separation")


def file_mode(folder: Path) -> int:
    """Return the mode for files in a folder: shared with its group if the folder is."""
    return 0o660 if folder.stat().st_mode & stat.S_ISGID else 0o600


def failed(doing: str, error: OSError) -> StoreFailed:
    """Return the refusal for a failed system call: its code, not its file name."""
    return StoreFailed(f"{doing} failed: {os.strerror(error.errno or 0)}")


def open_folder(folder: Path) -> int:
    """Open a folder that somebody else may have replaced by a link; raises OSError."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def open_regular(name: str, folder: int, limit: int) -> int:
    """Open a regular file in a folder for reading without following or waiting on what it may be.

    Raises OSError; one of more than `limit` bytes is refused with `StoreFailed`.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.open(name, flags, dir_fd=folder)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise StoreFailed("not a regular file", rule="not-a-file")
        if found.st_size > limit:
            raise StoreFailed(f"a file of {found.st_size} bytes, at most {limit}", rule="file-size")
    except BaseException:
        os.close(file)
        raise
    return file
