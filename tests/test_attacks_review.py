"""What an owner and a job are told of stores that are damaged, or that somebody damaged on purpose."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from sams_core import (
    AgentSession,
    Backend,
    DreamerSession,
    Limits,
    Owner,
    SQLiteBackend,
    StoreFailed,
)
from sams_core.cli import main
from sams_core.errors import LimitExceeded

Open = Callable[..., AgentSession]
ACME = "tenant:acme"
FOLDER = "tenant-acme"
# What one flipped bit can make of a file: bytes that are no UTF-8, in a text and in a name.
NO_UTF8 = {
    "a text": "UPDATE {table} SET {column} = CAST(x'ff00fe' AS TEXT)",
    "a name": "UPDATE sqlite_schema SET name = CAST(x'ff85fe' AS TEXT), sql = CAST(x'ff85fe' AS TEXT)",
}


def _spoil(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema=ON")
        for statement in statements:
            db.execute(statement)


@pytest.mark.parametrize("what", NO_UTF8)
def test_notes_that_are_no_text_are_a_typed_refusal_to_job_and_owner(
    what: str, tmp_path: Path, open_clean: Open
) -> None:
    backend = SQLiteBackend(tmp_path)
    open_clean(backend).memory_write("run", "n", "note", "d")
    backend.close()
    statement = NO_UTF8[what].format(table="notes", column="content")
    _spoil(tmp_path / FOLDER / "runs" / "0.db", statement)
    with pytest.raises(StoreFailed):
        DreamerSession(SQLiteBackend(tmp_path), job_id="job", scope=ACME).snapshot()
    told = CliRunner().invoke(main, ["--base", str(tmp_path), "doctor", ACME])
    assert "internal error" not in told.output
    if what == "a name":
        with pytest.raises(StoreFailed):
            Owner(SQLiteBackend(tmp_path), "olga").clear_runs(ACME)


@pytest.mark.parametrize(
    "spoilt",
    [
        "DELETE FROM meta",
        "UPDATE meta SET revision = 9223372036854775807",
        "UPDATE meta SET revision = -5",
    ],
)
def test_curated_memory_without_its_own_numbers_is_damaged_and_not_new(
    spoilt: str, tmp_path: Path, open_clean: Open
) -> None:
    owner = Owner(SQLiteBackend(tmp_path), "olga")
    owner.write(ACME, "p", "text", "d")
    owner.backend.close()
    _spoil(
        tmp_path / FOLDER / "curated" / "curated.db", "PRAGMA ignore_check_constraints=ON", spoilt
    )
    again = Owner(SQLiteBackend(tmp_path), "olga")
    for call in (
        lambda: again.retire(ACME, "p"),
        lambda: again.write(ACME, "q", "text", "d"),
        lambda: open_clean(again.backend),
    ):
        with pytest.raises(StoreFailed) as refused:
            call()
        assert refused.value.rule == "damaged"


def test_an_agents_share_of_the_queue_counts_what_it_takes_over_from_its_children(
    make_backend: Callable[..., Backend], open_clean: Open
) -> None:
    backend = make_backend(Limits(container_open=4, agent_share=0.5))
    parent = open_clean(backend, "s1", agent="bot")
    parent.child("kid").memory_write("assigned", "theirs", "c", "d")
    for path in ("one", "two"):
        parent.memory_write("assigned", path, "c", "d")
    with pytest.raises(LimitExceeded):
        parent.memory_write("assigned", "theirs", "c", "d")
    parent.memory_write("assigned", "two", "its own again", "d")


def test_an_entry_is_read_with_every_source_that_its_digest_covers(
    backend: Backend, open_clean: Open
) -> None:
    owner = Owner(backend, "olga")
    for name, origin in (("s1", "https://one.example"), ("s2", "https://two.example")):
        session = open_clean(backend, name)
        session.mark_tainted("a page", origin=origin)
        session.memory_write("assigned", name, "c", "d")
        (change,) = owner.changes(ACME)
        owner.accept(ACME, change.id, change.digest)
    (other,) = owner.history(ACME, "s2")
    both = owner.write(ACME, "s1", "of both", "d", expected_version=1, based_on=other.digest)
    assert [source.origin for source in both.sources] == [
        "https://two.example",
        "https://one.example",
    ]
    found = owner.get(ACME, "s1")
    assert found == both
    assert found.sealed().digest == both.digest


@pytest.mark.parametrize("what", NO_UTF8)
def test_stores_that_are_no_text_are_typed_refusals_to_agents_and_owner(
    what: str, tmp_path: Path, open_clean: Open
) -> None:
    backend = SQLiteBackend(tmp_path)
    Owner(backend, "olga").write(ACME, "p", "text", "d")
    open_clean(backend).memory_write("run", "n", "note", "d")
    open_clean(backend, "dirty").mark_tainted("page")
    backend.close()
    for file, table, column in (
        ("curated/curated.db", "texts", "content"),
        ("runs/0.db", "notes", "content"),
        ("ledger/ledger.db", "sources", "name"),
    ):
        with closing(sqlite3.connect(tmp_path / FOLDER / file)) as db:
            triggers = db.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
            ).fetchall()
        drop = [f"DROP TRIGGER {name}" for (name,) in triggers]  # a disk asks none
        _spoil(tmp_path / FOLDER / file, *drop, NO_UTF8[what].format(table=table, column=column))
    again = SQLiteBackend(tmp_path)
    owner = Owner(again, "olga")
    for call in (
        lambda: owner.history(ACME, "p"),
        lambda: owner.write(ACME, "p", "new", "d", expected_version=1),
        lambda: owner.retire(ACME, "p"),
        lambda: again.read(ACME, "run:s1", "n"),
        lambda: again.sources(ACME, "dirty"),
    ):
        with pytest.raises(StoreFailed):
            call()
