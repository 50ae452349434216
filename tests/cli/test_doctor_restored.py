"""`sams doctor --restored` on SQLite stores whose four parts were restored from different moments."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sams_core import DreamerSession
from sams_core.backends.finding import AFTER_A_RESTORE, Finding
from sams_core.backends.sqlite.checkup import examine

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

SHOP = "project:shop"


def facts(shop: Shop) -> list[Finding]:
    return examine(shop.backend.folders, shop.backend.limits, after_restore=True)


def of(found: list[Finding], what: str, level: str) -> list[str]:
    return [f.detail for f in found if (f.what, f.level) == (what, level)]


def part(shop: Shop, name: str) -> Path:
    return shop.base / "project-shop" / name


@pytest.fixture
def moment(shop: Shop, tmp_path: Path) -> Path:
    """A store with something of everything, backed up; then its session reads a page and goes on."""
    shop.owner.write(SHOP, "a/own", "text", "a note")
    session = shop.session()
    accepted = shop.write("a/one", "text", session=session)
    shop.owner.accept(SHOP, accepted, shop.digest(accepted))
    session.memory_write("run", "n", "a note", "d")
    shop.write("a/two", "queued", session=session)
    shop.backend.close()
    shutil.copytree(shop.base / "project-shop", tmp_path / "backup")
    session.mark_tainted("web page")
    shop.write("a/three", "from the page", session=session)
    shop.write("a/four", "of another", session=shop.session())
    second = shop.write("a/one", "again", version=1, session=shop.session())
    shop.owner.accept(SHOP, second, shop.digest(second))
    shop.owner.clear_runs(SHOP)
    shop.write("a/one", "a third time", version=2, session=shop.session())
    shop.session().memory_write("run", "n", "a note", "d")
    shop.backend.close()
    return tmp_path / "backup"


def restore(shop: Shop, backup: Path, *names: str) -> None:
    for name in names:
        shutil.rmtree(part(shop, name))
        shutil.copytree(backup / name, part(shop, name))


def test_a_store_restored_as_a_whole_agrees_and_the_loss_is_said(shop: Shop, moment: Path) -> None:
    restore(shop, moment, "curated", "queue", "ledger", "runs")
    found = facts(shop)
    assert [f.what for f in found if f.level == "bad"] == ["gate"], "one user, and nothing worse"
    assert of(found, "restored", "warn") == [AFTER_A_RESTORE]
    assert of(found, "restored", "ok")
    assert of(found, "ledger", "ok") == ["it knows every session and mark that memory names"]
    assert of(found, "clock", "note")[0].startswith("newest of ledger 20")
    assert not shop.session().tainted, "a new id isn't doubted"


def test_without_the_option_nothing_is_said_of_it(shop: Shop, moment: Path) -> None:
    result = shop.sams("doctor")
    assert AFTER_A_RESTORE[:30] not in result.stdout
    result = shop.sams("doctor", "--restored")
    assert AFTER_A_RESTORE[:30] in result.stdout
    assert result.exit_code == 1


def test_an_older_ledger_beside_newer_memory_is_bad_and_names_the_sessions(
    shop: Shop, moment: Path
) -> None:
    restore(shop, moment, "ledger")
    found = facts(shop)
    (lost,) = of(found, "ledger", "bad")
    assert "1 sessions wrote under marks that it has lost" in lost
    assert lost.endswith("s1")
    assert "decisions newer than the whole ledger" in of(found, "clock", "note")[0]
    (unknown,) = of(found, "ledger", "warn")
    assert "4 sessions of which memory exists are unknown to it" in unknown
    assert unknown.endswith("(ledger-lost): s2, s3, s4, s5")
    shop._opened = 1
    assert [source.kind for source in shop.session().sources] == ["ledger-lost"]


def test_an_older_curated_store_is_bad(shop: Shop, moment: Path) -> None:
    restore(shop, moment, "curated")
    (detail,) = of(facts(shop), "restored", "bad")
    assert "1 open changes on versions that aren't here" in detail
    assert "1 files of notes of a later generation" in detail


@pytest.mark.parametrize("decided", [True, False])
def test_a_job_whose_readings_are_lost_is_named(decided: bool, shop: Shop, moment: Path) -> None:
    job = DreamerSession(shop.backend, job_id="nightly", scope=SHOP)
    job.snapshot()
    change = job.propose("a/dream", "from the page", "d")
    if decided:
        shop.owner.accept(SHOP, change.id, shop.digest(change.id))
    assert not of(facts(shop), "queue", "bad")
    readings = [file for file in part(shop, "queue").iterdir() if "-r-" in file.name]
    assert len(readings) == 1
    readings[0].unlink()
    (lost,) = of(facts(shop), "queue", "bad")
    assert lost.startswith("1 dreaming jobs proposed under marks that it has lost")
    assert lost.endswith(": nightly")


EDITS = {
    "DELETE FROM texts WHERE id = 1": "1 versions without their text",
    "UPDATE versions SET version = 7 WHERE path = 'a/own'": "6 versions missing before later ones",
    "DELETE FROM versions WHERE path = 'a/one'": "2 accepted changes without their version",
    "DELETE FROM decisions": "2 versions of changes that aren't decided",
    "UPDATE meta SET revision = 0": "revisions above the store's own",
    "UPDATE sqlite_sequence SET seq = 1": "2 ids above their sequence",
}


@pytest.mark.parametrize("sql", EDITS)
def test_a_database_that_disagrees_with_itself_is_bad(sql: str, shop: Shop, moment: Path) -> None:
    file = part(shop, "curated") / "curated.db"
    with sqlite3.connect(file) as db:
        schema = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in schema:
            db.execute(f"DROP TRIGGER {name}")
        assert db.execute(sql).rowcount != 0
        for _, trigger in schema:
            db.execute(trigger)
    db.close()
    (detail,) = of(facts(shop), "restored", "bad")
    assert EDITS[sql] in detail


def test_records_from_the_future_tell_of_a_slow_clock(shop: Shop, moment: Path) -> None:
    with sqlite3.connect(part(shop, "ledger") / "ledger.db") as db:
        db.execute(
            "INSERT INTO sources (family, kind, name, first_seen) VALUES ('s1', 'k', 'n', '2999')"
        )
    db.close()
    assert "ledger 2999" in of(facts(shop), "clock", "warn")[0]


def test_a_ledger_that_is_gone_is_told_with_every_session_that_memory_names(
    shop: Shop, moment: Path
) -> None:
    shutil.rmtree(part(shop, "ledger"))
    found = facts(shop)
    assert of(found, "ledger", "bad") == ["the ledger is gone, and memory of sessions is there"]
    assert "5 sessions of which memory exists" in of(found, "ledger", "warn")[0]


def test_damaged_records_stop_no_other_check(shop: Shop, moment: Path) -> None:
    with sqlite3.connect(part(shop, "runs") / "1.db") as db:
        db.execute("UPDATE notes SET provenance = 'no json'")
    db.close()
    found = facts(shop)
    assert "a record is damaged" in of(found, "restored", "bad")[0]
    assert of(found, "schema", "ok")
