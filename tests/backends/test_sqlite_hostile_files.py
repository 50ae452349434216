"""What somebody plants in a folder that agents write changes nothing outside it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sams_core import AgentSession, DreamerSession, NotFound, Owner, SamsError, SQLiteBackend
from sams_core.backends.sqlite.folders import AGENT_STORES

Open = Callable[..., AgentSession]
ACME = "tenant:acme"
JOURNAL_MAGIC = bytes([0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7])


@pytest.fixture
def filled(sqlite: SQLiteBackend, open_clean: Open) -> SQLiteBackend:
    """A store with an entry, a queued change, a mark and a note."""
    session = open_clean(sqlite)
    session.memory_write("run", "n", "note", "d")
    session.mark_tainted("a page")
    session.memory_write("assigned", "p", "queued", "d")
    owner = Owner(sqlite, "olga")
    owner.write(ACME, "trusted", "trusted", "d")
    return sqlite


def folder(backend: SQLiteBackend, store: str) -> Path:
    return backend.folders.store(ACME, store)


def databases(backend: SQLiteBackend) -> list[Path]:
    return [file for store in AGENT_STORES for file in folder(backend, store).glob("*.db")]


VERBS: dict[str, Callable[[SQLiteBackend], object]] = {
    "changes": lambda b: Owner(b, "olga").changes(ACME),
    "get": lambda b: Owner(b, "olga").get(ACME, "trusted"),
    "history": lambda b: Owner(b, "olga").history(ACME, "trusted"),
    "write": lambda b: Owner(b, "olga").write(ACME, "new", "c", "d"),
    "clear_runs": lambda b: Owner(b, "olga").clear_runs(ACME),
    "snapshot": lambda b: DreamerSession(b, job_id="j", scope=ACME).snapshot(),
    "sessions": lambda b: b.sessions(ACME),
    "accept_ledger_loss": lambda b: b.accept_ledger_loss(ACME),
}


def plant_super_journal(database: Path, victim: Path) -> None:
    """Write a hot journal whose super-journal is the victim: SQLite deletes it on recovery."""
    pages = database.stat().st_size // 4096
    name = os.fsencode(victim)
    header = JOURNAL_MAGIC + struct.pack(">IIIII", 0, 0x1234, pages, 512, 4096)
    check = sum(byte if byte < 128 else byte - 256 for byte in name) & 0xFFFFFFFF
    tail = struct.pack(">I", 0x40000000 // 4096 + 1) + name
    tail += struct.pack(">II", len(name), check) + JOURNAL_MAGIC
    Path(f"{database}-journal").write_bytes(header.ljust(512, b"\0") + tail)


def offline(backend: SQLiteBackend, base: Path) -> SQLiteBackend:
    """Copy the store as it lies on disk with no process attached, without any WAL."""
    backend.close()
    shutil.copytree(backend.folders.base, base)
    copied = SQLiteBackend(base)
    for file in databases(copied):
        with sqlite3.connect(file) as db:
            db.execute("PRAGMA journal_mode=DELETE")
        db.close()
    return copied


def test_the_planted_journal_is_one_that_sqlite_obeys(
    filled: SQLiteBackend, tmp_path: Path
) -> None:
    copied = offline(filled, tmp_path / "copy")
    (database,) = folder(copied, "ledger").glob("*.db")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    plant_super_journal(database, victim)
    with sqlite3.connect(database) as db:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    db.close()
    assert not victim.exists(), "the attack that the next test defends against works"


@pytest.mark.parametrize("verb", VERBS)
def test_no_owner_or_dreamer_verb_obeys_a_planted_journal(
    verb: str, filled: SQLiteBackend, tmp_path: Path
) -> None:
    copied = offline(filled, tmp_path / "copy")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for database in databases(copied):
        plant_super_journal(database, victim)
    assert len(databases(copied)) == 2
    VERBS[verb](copied)
    copied.close()
    assert victim.read_text() == "precious"


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


PLANTED: dict[str, Callable[[Path, Path], None]] = {
    "a link": lambda path, victim: path.symlink_to(victim),
    "a fifo": lambda path, victim: os.mkfifo(path),
    "a gigabyte": lambda path, victim: sparse(path),
    "a folder": lambda path, victim: path.mkdir(),
    "a hard link": lambda path, victim: os.link(victim, path),
    "garbage": lambda path, victim: path.write_bytes(b"\0garbage" * 1000) and None,
}


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("verb", VERBS)
def test_a_planted_file_in_place_of_a_database_is_refused_or_ignored(
    kind: str, verb: str, filled: SQLiteBackend, tmp_path: Path
) -> None:
    filled.close()
    victim = tmp_path / "victim.db"
    with sqlite3.connect(victim) as db:
        db.execute("CREATE TABLE precious (x)")
    db.close()
    before = victim.read_bytes()
    for database in databases(filled):
        for old in database.parent.glob(f"{database.name}*"):
            old.unlink()
        PLANTED[kind](database, victim)
    try:
        VERBS[verb](filled)
    except SamsError as error:
        assert verb in ("clear_runs", "snapshot", "sessions", "accept_ledger_loss"), error
    else:
        assert verb not in ("snapshot", "sessions", "accept_ledger_loss")
    filled.close()
    assert victim.read_bytes() == before
    assert not Path(f"{victim}-wal").exists()
    assert not Path(f"{victim}-journal").exists()


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_file_in_the_queue_hides_no_change(
    kind: str, filled: SQLiteBackend, tmp_path: Path
) -> None:
    queue = folder(filled, "queue")
    (real,) = queue.iterdir()
    victim = tmp_path / "victim"
    victim.write_text("{}")
    name = real.name[:-37] + "0" * 32 + ".json"
    PLANTED[kind](queue / name, victim)
    PLANTED[kind](queue / "anything", victim)
    owner = Owner(filled, "olga")
    (change,) = owner.changes(ACME)
    assert change.content == "queued"
    with pytest.raises(NotFound):
        owner.accept(ACME, "0" * 32, "0" * 64)
    assert owner.accept(ACME, change.id, change.digest).tainted
    assert victim.read_text() == "{}"


def test_a_link_in_place_of_an_agents_folder_is_not_followed(
    filled: SQLiteBackend, tmp_path: Path
) -> None:
    filled.close()
    for store in AGENT_STORES:
        real = folder(filled, store)
        real.rename(tmp_path / store)
        real.symlink_to(tmp_path / store)
    assert Owner(filled, "olga").changes(ACME) == []
    for verb in ("snapshot", "sessions"):
        with pytest.raises(SamsError):
            VERBS[verb](filled)


def document(backend: SQLiteBackend) -> tuple[Path, dict[str, Any]]:
    (file,) = folder(backend, "queue").iterdir()
    return file, json.loads(file.read_bytes())


FORGED: dict[str, Any] = {
    "id": "1" * 32,
    "scope": "org",
    "path": "other",
    "kind": "proposal",
    "author": "admin",
    "source_session": "another",
    "base_version": 2**70,
    "base_digest": "x",
    "occurrences": 0,
    "flags": [{"rule": 1}],
    "sources": [["tool"]],
    "supersedes": ["x"] * 1_001,
    "evidence": "text",
    "content": None,
    "description": 7,
    "date": None,
    "extra": 1,
}


@pytest.mark.parametrize("field", FORGED)
def test_a_file_whose_content_does_not_fit_its_name_or_form_is_no_change(
    field: str, filled: SQLiteBackend
) -> None:
    file, data = document(filled)
    data[field] = FORGED[field]
    file.chmod(0o600)
    file.write_text(json.dumps(data))
    assert Owner(filled, "olga").changes(ACME) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", "evil"),
        ("description", "evil"),
        ("flags", []),
        ("sources", []),
        ("date", "2020-01-01"),
        ("base_digest", "0" * 64),
        ("rationale", "evil"),
        ("evidence", ["evil"]),
        ("occurrences", 9),
        ("supersedes", ["0" * 32]),
    ],
)
def test_a_file_that_is_rewritten_after_the_review_is_not_accepted(
    field: str, value: Any, filled: SQLiteBackend
) -> None:
    file, data = document(filled)
    data["flags"] = data["flags"] or [
        {"rule": "x", "field": "content", "start": 0, "end": 1, "why": "x"}
    ]
    file.chmod(0o600)
    file.write_text(json.dumps(data))
    owner = Owner(filled, "olga")
    (reviewed,) = owner.changes(ACME)
    data[field] = value
    file.write_text(json.dumps(data))
    with pytest.raises(SamsError) as caught:
        owner.accept(ACME, reviewed.id, reviewed.digest)
    assert caught.value.rule == "changed-since-review"
    assert owner.get(ACME, "p") is None


def test_one_session_cannot_supersede_anothers_change(
    filled: SQLiteBackend, open_clean: Open
) -> None:
    other = open_clean(filled, "s2")
    other.memory_write("assigned", "p", "by another session", "d")
    owner = Owner(filled, "olga")
    first, second = owner.changes(ACME)
    (file,) = (f for f in folder(filled, "queue").iterdir() if second.id in f.name)
    data = json.loads(file.read_bytes())
    data["supersedes"] = [first.id]
    file.chmod(0o600)
    file.write_text(json.dumps(data))
    assert {change.id for change in owner.changes(ACME)} == {first.id, second.id}


def test_deep_or_huge_json_in_the_queue_is_no_change(filled: SQLiteBackend) -> None:
    file, _ = document(filled)
    file.chmod(0o600)
    for data in (b"[" * 1_000_000, b"{" * 10, b'{"id": 1e999}', b"\xff\xfe", b"", b"9" * 3_000_000):
        file.write_bytes(data)
        assert Owner(filled, "olga").changes(ACME) == []
