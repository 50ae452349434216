"""The demo on a real database: the same story, each role under its own login, and nothing stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

import sams_core
from sams_conformance.postgres_server import Database
from sams_core.backends.postgres import grant, install_schema
from sams_core.backends.postgres.scratch import MARK, scratch
from sams_core.cli import main
from sams_core.demo import story
from sams_core.errors import PermissionDenied, StoreFailed

_COUNTED = re.compile("12 drafts: .*? 0 poisons or other problems found")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SAMS_BASE", "SAMS_URL", "SAMS_OWNER", "SAMS_SESSION"):
        monkeypatch.delenv(name, raising=False)
    root = Path(sams_core.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", str(root))  # for the second process


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"{tmp_path} demo")
    made.create(install=False)
    yield made
    made.drop()


def left(database: Database) -> tuple[list[str], list[str]]:
    """Return what there is of ours: schemas of the database, and the demo's logins."""
    with psycopg.connect(database.admin) as db:
        schemas = db.execute("SELECT nspname FROM pg_namespace WHERE nspname = 'sams'").fetchall()
        roles = db.execute("SELECT rolname FROM pg_roles WHERE rolname ~ '^sams_demo_'").fetchall()
    return [row[0] for row in schemas], [row[0] for row in roles]


def counted(text: str) -> str:
    found = _COUNTED.search(" ".join(text.split()))
    assert found, text
    return found[0]


def test_the_story_is_the_same_and_nothing_of_it_stays(empty: Database) -> None:
    lines: list[str] = []
    assert story.run_in_database(lines.append, empty.admin) == 0
    text = "\n".join(lines)
    assert "FAILED" not in text
    assert counted(text) == counted(CliRunner().invoke(main, ["demo", "--plain"]).stdout)
    assert " ".join(text.split()).count("refused (no-grant)") == 5
    assert "login        sams_demo_agent_" in text
    assert empty.admin.split(":")[2].split("@")[0] not in text
    assert left(empty) == ([], [])


def test_a_careless_owner_is_found_out_and_nothing_stays(
    empty: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(self: story.Story) -> None:
        for change in self.owner.changes(story.SHOP):
            self.owner.accept(story.SHOP, change.id, change.digest, endorse="looks fine")

    monkeypatch.setattr(story.Story, "_decide_poison", careless)
    lines: list[str] = []
    assert story.run_in_database(lines.append, empty.admin) == 1
    assert any("FAILED: poison was served" in line for line in lines)
    assert left(empty) == ([], [])


def test_a_login_that_can_do_more_is_found_out(
    empty: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sams_core.backends.postgres.scratch.refused", lambda url, statement: None)
    lines: list[str] = []
    assert story.run_in_database(lines.append, empty.admin) == 1
    assert len({line for line in lines if "FAILED: not refused to the login of" in line}) == 5


def test_an_error_in_the_story_leaves_nothing_either(
    empty: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(self: story.Story) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(story.Story, "_queue", stumble)
    with pytest.raises(KeyboardInterrupt):
        story.run_in_database(lambda line: None, empty.admin)
    assert left(empty) == ([], [])


def _process(url: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sams_core.cli", "demo", "--url", url, "--plain", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {}
    )


def test_a_killed_demo_is_cleared_away_by_the_next(empty: Database) -> None:
    killed = _process(empty.admin)
    assert killed.stdout is not None
    while "2. An insider" not in killed.stdout.readline():
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    schemas, logins = left(empty)
    assert (len(schemas), len(logins)) == (1, 3)
    with psycopg.connect(empty.admin) as db:
        expiry = "SELECT bool_and(rolvaliduntil < now() + interval '1 hour') FROM pg_roles"
        assert db.execute(f"{expiry} WHERE rolname ~ '^sams_demo_'").fetchone() == (True,)
    for _ in range(100):  # until the server has noticed that the first one is gone
        again = _process(empty.admin)
        out, err = again.communicate()
        if "another demo" not in err:
            break
        time.sleep(0.05)
    assert again.returncode == 0, err
    counted(out)
    assert left(empty) == ([], [])


def test_a_database_with_our_schema_is_refused_and_left_as_it_was(empty: Database) -> None:
    install_schema(empty.admin)
    result = CliRunner().invoke(main, ["demo", "--url", empty.admin])
    assert result.exit_code == 1
    assert "not-scratch" in result.stderr
    assert left(empty) == (["sams"], [])


def test_a_demos_schema_that_others_were_granted_is_refused(empty: Database) -> None:
    install_schema(empty.admin)
    empty.login("bot")
    grant(empty.admin, empty.login_name("bot"), "owner", "tenant:acme")
    with psycopg.connect(empty.admin) as db:
        db.execute(f"COMMENT ON SCHEMA sams IS '{MARK}'")
    result = CliRunner().invoke(main, ["demo", "--url", empty.admin])
    assert result.exit_code == 1
    assert "not-scratch" in result.stderr
    assert left(empty) == (["sams"], [])


def test_a_login_that_may_not_make_schema_and_logins_is_refused(empty: Database) -> None:
    result = CliRunner().invoke(main, ["demo", "--url", empty.login("nobody")])
    assert result.exit_code == 1
    assert "scratch-rights" in result.stderr
    assert left(empty) == ([], [])


def test_two_demos_in_one_database_do_not_mix(empty: Database) -> None:
    with scratch(empty.admin, story.SHOP):
        with pytest.raises(StoreFailed, match="another demo"), scratch(empty.admin, story.SHOP):
            pytest.fail("two at once")
        assert len(left(empty)[1]) == 3
    assert left(empty) == ([], [])


def test_an_agents_process_makes_nothing(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMS_SESSION", "x")
    with pytest.raises(PermissionDenied):
        story.run_in_database(lambda line: None, empty.admin)
    assert left(empty) == ([], [])


@pytest.mark.parametrize(
    "words", [["--url", "sqlite:x"], ["--base", "x", "--url", "postgresql:///"]]
)
def test_another_kind_of_place_is_a_usage_error(words: list[str], tmp_path: Any) -> None:
    assert CliRunner().invoke(main, ["demo", *words]).exit_code == 2
