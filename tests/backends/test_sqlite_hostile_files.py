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

from sams_core import (
    AgentSession,
    DreamerSession,
    Limits,
    NotFound,
    Owner,
    SamsError,
    SQLiteBackend,
    StoreFailed,
)
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
    "accept_ledger_loss": lambda b: b.accept_ledger_loss(ACME, "olga"),
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


def forge(backend: SQLiteBackend, **more: Any) -> None:
    """Put another file beside the real one, as a compromised agent's process could."""
    from dataclasses import replace

    from sams_core.backends.sqlite.spool import Spool

    real = backend.changes(ACME)[0]
    spool = Spool(folder(backend, "queue"), ACME, Limits(content_bytes=5_000_000))
    spool.add(replace(real, **({"id": "1" * 32, "path": "other"} | more)))


def test_deciding_about_a_forged_change_closes_no_other_writers_change(
    filled: SQLiteBackend,
) -> None:
    owner = Owner(filled, "olga")
    (victim,) = owner.changes(ACME)
    forge(filled, author="evil", source_session="evil", supersedes=(victim.id,))
    owner.reject(ACME, "1" * 32)
    assert [change.id for change in owner.changes(ACME)] == [victim.id]


@pytest.mark.parametrize(
    "more",
    [
        {"content": "x" * 100_001},
        {"description": "x" * 201},
        {"description": "two\nlines"},
        {"rationale": "x" * 2_001},
        {"evidence": ("x",) * 21},
        {"evidence": ("two\u2028lines",)},
        {"date": "\x1b[31m"},
        {"supersedes": ("not an id \u202e",)},
        {"author": "a\x1b[31m"},
        {"source_session": "a\u202eb"},
    ],
)
def test_a_forged_file_above_a_limit_or_with_hidden_characters_is_no_change(
    more: dict[str, Any], filled: SQLiteBackend
) -> None:
    try:
        forge(filled, **more)
    except (SamsError, ValueError):
        return  # the package itself would not have written it
    assert len(Owner(filled, "olga").changes(ACME)) == 1


def test_a_forged_change_with_a_secret_is_shown_and_published_without_it(
    filled: SQLiteBackend,
) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    texts = {"content": f"key {secret}", "rationale": secret, "evidence": (secret,)}
    owner = Owner(filled, "olga")
    for number, verb in enumerate(("accept", "reject", "edit")):
        forge(filled, id=f"{number}" * 32, path=f"other/{verb}", **texts)
        change = next(c for c in owner.changes(ACME) if c.path == f"other/{verb}")
        assert secret not in repr(change) + change.diff()
        if verb == "accept":
            owner.accept(ACME, change.id, change.digest)
        elif verb == "reject":
            owner.reject(ACME, change.id)
        else:
            owner.write(ACME, change.path, change.content, "d", based_on=change.id)
    filled.close()
    stored = b"".join(file.read_bytes() for file in folder(filled, "curated").iterdir())
    assert secret.encode() not in stored


def test_a_planted_view_in_place_of_a_table_is_refused(filled: SQLiteBackend) -> None:
    (database,) = folder(filled, "runs").glob("*.db")
    filled.close()
    with sqlite3.connect(database) as db:
        db.executescript(
            "DROP TABLE notes; CREATE VIEW notes AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 "
            "FROM r) SELECT n AS scope FROM r WHERE length(hex(zeroblob(100000000 + n))) > 5;"
        )
    db.close()
    for verb in ("snapshot", "clear_runs"):
        with pytest.raises(StoreFailed):
            VERBS[verb](filled)


def test_damaged_notes_can_be_cleared_and_leave_the_container_usable(
    filled: SQLiteBackend, open_clean: Open
) -> None:
    (database,) = folder(filled, "runs").glob("*.db")
    filled.close()
    for file in database.parent.iterdir():
        file.unlink()
    database.write_bytes(b"\0garbage" * 1000)
    assert [s.kind for s in open_clean(filled, "s9").sources] == ["ledger-lost"]
    with pytest.raises(StoreFailed, match="not served any more"):
        Owner(filled, "olga").clear_runs(ACME)
    assert open_clean(filled, "s10").memory_write("run", "n", "c", "d").status == "stored"


def test_a_ledger_removed_under_a_live_process_closes_its_sessions(
    filled: SQLiteBackend, open_clean: Open
) -> None:
    session = open_clean(filled)
    for file in folder(filled, "ledger").iterdir():
        file.unlink()
    for verb in (
        lambda: session.mark_tainted("a page"),
        lambda: session.memory_write("assigned", "q", "c", "d"),
        lambda: open_clean(filled, "s9"),
    ):
        with pytest.raises(SamsError):
            verb()
    assert [s.kind for s in open_clean(SQLiteBackend(filled.folders.base), "s9").sources] == [
        "ledger-lost"
    ]


def test_junk_in_the_queue_keeps_nobody_from_working(
    filled: SQLiteBackend, open_clean: Open
) -> None:
    queue = folder(filled, "queue")
    for number in range(3_000):
        (queue / f"junk{number}").touch()
    session = open_clean(filled)
    assert session.memory_read("assigned", "trusted").content == "trusted"
    session.memory_write("run", "m", "c", "d")
    assert len(Owner(filled, "olga").changes(ACME)) == 1


def test_init_does_not_follow_a_planted_link(sqlite: SQLiteBackend, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    container = sqlite.folders.container(ACME)
    container.mkdir(parents=True)
    (container / "queue").symlink_to(victim)
    with pytest.raises(StoreFailed):
        sqlite.init_scope(ACME)
    assert victim.stat().st_mode & 0o7777 == 0o755


def test_decided_leftovers_do_not_use_up_a_sessions_limit(tmp_path: Path, open_clean: Open) -> None:
    backend = SQLiteBackend(tmp_path / "store", Limits(session_open=3))
    session, owner = open_clean(backend), Owner(backend, "olga")
    kept = []
    for number in range(3):
        session.memory_write("assigned", f"p{number}", "c", "d")
        (file,) = folder(backend, "queue").iterdir()
        kept.append((file, file.read_bytes()))
        (change,) = owner.changes(ACME)
        owner.reject(ACME, change.id)
    for file, data in kept:
        file.write_bytes(data)
    assert owner.changes(ACME) == []
    assert session.memory_write("assigned", "p", "c", "d").status == "queued"
    backend.close()
