"""What can be told about a store from outside: nothing is changed, no database is opened in place.

Not even `curated/` is: whether others can write it is one of the questions. Whatever can't be looked at
counts as bad, never as fine. Details may end in stored text or in names of files; show them as
`visible_line`. What agents' processes wrote is repeated here, not vouched for.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sams_core.backends.finding import TOP, Finding, Level
from sams_core.backends.sqlite import access, curated, ledger, runs
from sams_core.backends.sqlite.backlog import FRESH, contents, room
from sams_core.backends.sqlite.connect import _PRAGMAS, Store, migrations
from sams_core.backends.sqlite.folders import (
    AGENT_STORES,
    CURATED,
    LEDGER,
    POLICY_FILE,
    QUEUE,
    RUNS,
    Folders,
    folder_name,
    open_folder,
    open_regular,
)
from sams_core.backends.sqlite.private import private_copy
from sams_core.backends.sqlite.restored import restored
from sams_core.backends.sqlite.spool import Name
from sams_core.errors import SamsError, ScopeError, StoreFailed
from sams_core.limits import Limits
from sams_core.records import SessionInfo
from sams_core.scopes import ORG, check_container

_DEEP = 64_000_000  # bytes of a database up to which its pages and its word index are checked
_LARGE_WAL = 64_000_000
_CONVENTION = "the review gate is a convention here"


def examine(
    folders: Folders, limits: Limits, scopes: Sequence[str] = (), *, after_restore: bool = False
) -> list[Finding]:
    """Return what was found about the store and its containers, or those of `scopes` alone.

    `after_restore` adds where parts of a container seem older than others.
    """
    found: list[Finding] = []
    containers = _containers(folders.base, scopes, found)
    agents = access.agents(folders.base)
    for by_agents, detail in access.above(folders.base, agents):
        found.append(Finding("bad" if by_agents else "warn", "above", None, detail))
    wanted = {folder_name(scope) for scope in scopes}
    for name, scope in containers:
        if not wanted or name in wanted:
            container = _Container(folders.base / name, scope, limits, agents, found)
            container.examine()
            if after_restore:
                container.guard("restored", container.restored)
    return found


def scope_of(name: str) -> str | None:
    """Return the container whose folder has this name; None if it is none's, or too long to tell."""
    kind, dash, coded = name.partition("-")
    ident = re.sub(
        r"((?:=[0-9a-f]{2})+)",
        lambda run: bytes.fromhex(run[0].replace("=", "")).decode("utf-8", "replace"),
        coded,
    )
    try:
        scope = check_container(f"{kind}:{ident}" if dash else kind)
    except ScopeError:
        return None
    return scope if folder_name(scope) == name else None


def _containers(
    base: Path, scopes: Sequence[str], found: list[Finding]
) -> list[tuple[str, str | None]]:
    given = {folder_name(scope): scope for scope in scopes}
    containers, strange = [], 0
    for entry in sorted(os.scandir(base), key=lambda entry: entry.name):
        scope = given.get(entry.name) or scope_of(entry.name)
        long = re.fullmatch(r"(project|tenant)-.*==[0-9a-f]{64}", entry.name) is not None
        if entry.name == POLICY_FILE:
            continue
        if scope is None and not long:
            strange += 1
        elif not entry.is_dir(follow_symlinks=False):
            detail = "a link or a file in place of a container's folder; it was not examined"
            found.append(Finding("bad", "folders", scope or f"folder {entry.name}", detail))
        else:
            containers.append((entry.name, scope))
    if strange:
        found.append(Finding("warn", "leftovers", None, f"{strange} names that are no container's"))
    if not containers and not found:
        found.append(Finding("note", "folders", None, "no container yet"))
    return containers


# One container.


class _Container:
    def __init__(
        self,
        folder: Path,
        scope: str | None,
        limits: Limits,
        agents: access.Agents,
        found: list[Finding],
    ) -> None:
        self.folder, self.scope, self.limits = folder, scope, limits
        self.agents, self.found = agents, found
        self.generation: int | None = None  # unknown until curated/ has been read
        self.accepted: str | None = None
        self.closed: set[str] = set()
        self.known = False  # an entry, a decision or a file came from some session
        self.schema: list[str] = []
        self.names: list[Name] = []
        self.infos: list[SessionInfo] = []

    def say(self, level: Level, what: str, detail: str) -> None:
        scope = self.scope or f"folder {self.folder.name}"
        self.found.append(Finding(level, what, scope, detail))

    def examine(self) -> None:
        self.guard("gate", self.gate)
        self.guard("folders", self.stores)
        self.guard("durability", self.files)
        self.guard("queue", self.queue)
        self.guard(CURATED, self.curated)
        self.guard(LEDGER, self.ledger)
        self.guard(RUNS, self.runs)
        self.guard("limits", self.room)
        if self.schema:
            self.say("ok", "schema", ", ".join(self.schema))

    def guard(self, what: str, check: Callable[..., None], *given: object) -> None:
        """Run a check; one that fails is bad, and stops no other."""
        try:
            check(*given)
        except SamsError as error:
            self.say("bad", what, f"could not be checked ({error.rule}): {error}")
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "error")
            self.say("bad", what, f"could not be checked: {name}")
        except OSError as error:
            why = os.strerror(error.errno or 0)
            self.say("bad", what, f"could not be checked: {why}")
        except Exception as error:  # an agent's process can store any type in any column
            name = type(error).__name__
            self.say("bad", what, f"could not be checked, a record is damaged: {name}")

    def gate(self) -> None:
        """Tell whether anybody but the owner can write what the owner decides."""
        owner, reasons = access.around(self.folder, self.agents)
        if reasons:
            self.say("bad", "gate", f"{_CONVENTION}: {'; '.join(reasons)}")
            return
        if self.agents.unseen:
            detail = f"not certain: {self.agents.unseen} agents' folders could not be listed"
            self.say("warn", "gate", detail)
            return
        others = ", ".join(map(access.user, sorted(self.agents.users)[:5])) or "nobody yet"
        detail = f"curated/ is {access.user(owner)}'s alone; agents' files come from: {others}"
        self.say("ok", "gate", detail)

    def stores(self) -> None:
        shapes, groups = [], set()
        for store in (CURATED, *AGENT_STORES):
            folder = self.folder / store
            if not access.there(folder):
                continue
            here = os.lstat(folder)
            if not stat.S_ISDIR(here.st_mode):
                self.say("bad", "folders", f"{store}/ is a link or a file, and is not followed")
                continue
            shapes.append(access.shape(folder))
            if store == CURATED:
                continue
            groups.add(here.st_gid)
            if here.st_mode & stat.S_IWOTH:
                self.say("bad", "folders", f"everybody on this machine can write {store}/")
            if here.st_mode & stat.S_IWGRP and not here.st_mode & stat.S_ISGID:
                detail = f"{store}/ has no set-group-id bit: one agent's files shut the others out"
                self.say("warn", "folders", detail)
        if len(groups) > 1:
            self.say("warn", "folders", "the agents' folders belong to different groups")
        if self.scope != ORG and access.shared_and_readable(self.folder):
            self.say("note", "folders", "every user of this machine can read curated/")
        known = {CURATED, *AGENT_STORES}
        strange = sum(entry.name not in known for entry in os.scandir(self.folder))
        if strange:
            self.say("warn", "leftovers", f"{strange} names in the folder that are no store's")
        self.say("ok", "folders", "; ".join([access.shape(self.folder), *shapes]))

    def files(self) -> None:
        for store, file in self.databases():
            self.guard("durability", self.durability, store, file)
            self.guard("journal", self.beside, store, file)

    def durability(self, store: Store, file: Path) -> None:
        """Compare the journal mode on disk with ours; how writes are synced isn't stored there."""
        mode, sync = (pragma.rpartition("=")[2] for pragma in _PRAGMAS[store])
        head = _head(file, self.limits.copy_bytes)
        if len(head) < 100:
            return  # being created
        if not head.startswith(b"SQLite format 3\0"):
            self.say("bad", "durability", f"{store}: the file is no database")
        elif mode == ("WAL" if head[18] == 2 else "DELETE"):
            lose = ": a power cut may cost the last notes" if sync == "NORMAL" else ""
            self.say("ok", "durability", f"{store}: journal {mode}, synchronous={sync}{lose}")
        else:
            detail = f"{store}: the file isn't in journal mode {mode}, as this package leaves it"
            self.say("warn", "durability", detail)

    def databases(self) -> list[tuple[Store, Path]]:
        files: list[tuple[Store, Path]] = [
            ("curated", self.folder / CURATED / curated.FILE),
            ("ledger", self.folder / LEDGER / ledger.FILE),
        ]
        folder = self.folder / RUNS
        if access.there(folder) and stat.S_ISDIR(os.lstat(folder).st_mode):
            names = sorted(e.name for e in access.files(folder) if e.name.endswith(".db"))
            files += [("runs", folder / name) for name in names[:100]]
        return [(store, file) for store, file in files if access.there(file)]

    def beside(self, store: Store, file: Path) -> None:
        """Look at the journals beside a database."""
        journal, wal = _settled(file), _lstat(file.with_name(f"{file.name}-wal"))
        if journal is not None and store == "curated":
            level: Level = "bad" if time.time() - journal.st_mtime > FRESH else "warn"
            detail = (
                "curated.db-journal: an owner's process is at work, or died in a transaction; "
                "agents may be refused until an owner verb (sams history) completes the recovery"
            )
            self.say(level, "journal", detail)
        elif journal is not None:
            detail = (
                "a rollback journal beside a database that has none: who opens that in place obeys "
                f"it, agents do, owner and dreamer never: {store}/{file.name}-journal"
            )
            self.say("bad", "journal", detail)
        if wal is not None and store == "curated":
            self.say("warn", "wal", "a write-ahead log beside curated.db, which keeps none")
        elif wal is not None and wal.st_size > _LARGE_WAL:
            detail = f"each owner verb copies a log of {wal.st_size} bytes: {store}/{file.name}-wal"
            self.say("warn", "wal", detail)
        elif wal is not None and wal.st_size:
            detail = f"{wal.st_size} bytes of a process at work or killed: {store}/{file.name}-wal"
            self.say("note", "wal", detail)

    def queue(self) -> None:
        folder = self.folder / QUEUE
        if access.there(folder):
            for fact in contents(folder, self.scope, self.limits, self.names):
                self.say(*fact)
            self.known = self.known or bool(self.names)

    def room(self) -> None:
        for fact in room(self.names, self.closed, self.infos, self.limits):
            self.say(*fact)

    def restored(self) -> None:
        if self.scope is None:
            self.say("warn", "restored", "not looked at: name the scope to doctor")
            return
        if self.generation is None:
            raise StoreFailed("curated/, which names the generation, was not read")
        for fact in restored(self.folder, self.scope, self.limits, self.generation):
            self.say(*fact)

    # The databases, each read through a private copy.

    def curated(self) -> None:
        file = self.folder / CURATED / curated.FILE
        if not access.there(file):
            self.schema.append("curated none")
            self.generation = 0
            return
        if _settled(file) is not None:
            raise StoreFailed("a transaction is unfinished", rule="journal")
        with self.copy("curated", file) as db:
            if db is None:
                self.generation = 0
                return
            sql = "SELECT generation, accepted_ledger FROM meta"
            self.generation, self.accepted = db.execute(sql).fetchone()
            for owner, date in db.execute("SELECT owner, date FROM losses ORDER BY rowid"):
                detail = f"a ledger was lost; that was accepted on {date[:10]} by {owner}"
                self.say("note", "ledger", detail)
            sql = "SELECT 1 FROM closed WHERE change_id = ?"
            self.closed = {n.id for n in self.names if db.execute(sql, (n.id,)).fetchone()}
            sql = (
                "SELECT EXISTS (SELECT 1 FROM versions WHERE family IS NOT NULL) "
                "OR EXISTS (SELECT 1 FROM decisions WHERE family IS NOT NULL)"
            )
            self.known = self.known or bool(db.execute(sql).fetchone()[0])
            rows = {
                table: f"SELECT id FROM versions WHERE status = 'active' AND labelled = {labelled}"  # noqa: S608
                for labelled, table in enumerate(("trusted", "labelled"))
            }
            self.whole("curated", db, file, rows)

    def ledger(self) -> None:
        file = self.folder / LEDGER / ledger.FILE
        if not access.there(file):
            self.schema.append("ledger none")
            notes = access.there(self.folder / RUNS) and any(access.files(self.folder / RUNS))
            if self.known or notes or self.generation:
                self.say("bad", "ledger", "the ledger is gone, and memory of sessions is there")
            return
        with self.copy("ledger", file) as db:
            if db is None:
                return
            name, lost = db.execute("SELECT ledger, lost FROM meta").fetchone()
            self.whole("ledger", db, file, {})
        if lost and name != self.accepted:
            detail = (
                "made beside memory of an earlier ledger, which is gone: every new session starts "
                "marked until --accept-ledger-loss"
            )
            self.say("warn", "ledger", detail)
        self.infos = ledger.sessions(file, self.limits)
        marked = sum(bool(info.sources) for info in self.infos)
        self.say("ok", "sessions", f"{len(self.infos)}, of them marked {marked}")
        seen = Counter((s.kind, s.name) for info in self.infos for s in info.sources)
        for (kind, source), count in seen.most_common(TOP):
            self.say("note", "source", f"marked {count} sessions: {kind}: {source}")
        if len(seen) > TOP:
            self.say("note", "source", f"{len(seen) - TOP} more sources marked sessions")

    def runs(self) -> None:
        folder = self.folder / RUNS
        if not access.there(folder):
            return
        if self.generation is None:
            raise StoreFailed("curated/, which names the generation, was not read")
        old, strange = 0, 0
        for entry in access.files(folder):
            form = re.fullmatch(r"(\d{1,18})\.db(-wal|-shm|-journal)?", entry.name, re.ASCII)
            if form is None or int(form[1]) > self.generation:
                strange += 1
            else:
                old += int(form[1]) < self.generation
        if old:
            detail = f"{old} files of cleared generations of notes in runs/; safe to remove"
            self.say("note", "leftovers", detail)
        if strange:
            self.say("warn", "leftovers", f"{strange} names in runs/ that are no generation's")
        file = folder / runs.file_name(self.generation)
        if access.there(file):
            with self.copy("runs", file) as db:
                if db is not None:
                    self.whole("runs", db, file, {"notes_index": "SELECT id FROM notes"})

    @contextmanager
    def copy(self, store: Store, file: Path) -> Iterator[sqlite3.Connection | None]:
        """Open a private copy, and note its schema version."""
        mine = len(migrations(store))
        try:
            with private_copy(store, file, self.limits.copy_bytes) as db:
                if db is not None:
                    version = db.execute("PRAGMA user_version").fetchone()[0]
                    if version != mine:
                        raise StoreFailed("a version that isn't the schema's", rule="schema")
                    self.schema.append(f"{store} {version}")
                yield db
        except StoreFailed as error:
            if error.rule != "schema":
                raise
            version = int.from_bytes(_head(file, self.limits.copy_bytes)[60:64], "big")
            detail = f"{store}: not as this package's version {mine} is; the file says {version}"
            raise StoreFailed(detail, rule="schema") from None

    def whole(self, store: Store, db: sqlite3.Connection, file: Path, rows: dict[str, str]) -> None:
        """Check the pages of a copy, and that each word index holds exactly the rows it should."""
        if file.lstat().st_size > _DEEP:
            self.say(
                "note", "search", f"{store}: above {_DEEP} bytes pages and index aren't checked"
            )
            return
        if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            self.say("bad", "pages", f"{store}: the database is damaged")
            return
        for table, wanted in rows.items():
            held = f"SELECT id FROM {table}_docsize"  # noqa: S608 - names of our own
            differ = db.execute(
                f"SELECT count(*) FROM (SELECT * FROM ({wanted} EXCEPT {held}) "  # noqa: S608
                f"UNION ALL SELECT * FROM ({held} EXCEPT {wanted}))"
            ).fetchone()[0]
            try:
                db.execute(f"INSERT INTO {table}({table}) VALUES ('integrity-check')")  # noqa: S608
            except sqlite3.DatabaseError:
                differ = differ or "some"
            if differ:
                self.say("bad", "search", f"{store}: {differ} rows are indexed wrongly in {table}")
            else:
                self.say("ok", "search", f"{store}: the index {table} agrees with its rows")


def _lstat(file: Path) -> os.stat_result | None:
    try:
        return os.lstat(file)
    except FileNotFoundError:
        return None


def _head(file: Path, limit: int) -> bytes:
    folder = open_folder(file.parent)
    try:
        opened = open_regular(file.name, folder, limit)
    finally:
        os.close(folder)
    with closing(os.fdopen(opened, "rb", buffering=0)) as readable:
        return readable.read(100)


def _settled(file: Path) -> os.stat_result | None:
    """Return the journal of a database that stays longer than a transaction at work takes."""
    for _ in range(10):
        found = _lstat(file.with_name(f"{file.name}-journal"))
        if found is None:
            break
        time.sleep(0.02)
    return found
