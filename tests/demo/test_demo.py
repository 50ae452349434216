"""The demo: what it tells is true, its check has teeth, and no page acts on the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import sams_core
from sams_core import AgentSession, Owner, SQLiteBackend
from sams_core.cli import main
from sams_core.demo import story
from sams_core.demo.agent import ScriptedAgent
from sams_core.demo.site import fetch_page, pages, serve
from sams_core.demo.witness import Seen, plain, poison_in


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SAMS_BASE", "SAMS_URL", "SAMS_OWNER", "SAMS_SESSION"):
        monkeypatch.delenv(name, raising=False)
    root = Path(sams_core.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", str(root))  # for the second process


def test_the_story_ends_well_and_keeps_its_store_on_request(tmp_path: Path) -> None:
    lines: list[str] = []
    assert story.run(lines.append, str(tmp_path / "a b")) == 0
    text = "\n".join(lines)
    assert "FAILED" not in text
    assert "tainted = True" in text
    owner = Owner(SQLiteBackend(str(tmp_path / "a b")), "olga")
    assert [c.path for c in owner.changes(story.SHOP)][:1] != []
    entry = owner.get(story.SHOP, story.NOTE)
    assert entry is not None
    assert not entry.tainted


def test_nothing_of_a_page_reaches_the_terminal_raw(tmp_path: Path) -> None:
    lines: list[str] = []
    story.run(lines.append, str(tmp_path / "s"))
    bad = [c for c in "".join(lines) if not c.isprintable()]
    assert bad == []
    assert any("\\U000e00" in line for line in lines) or any("\\u200b" in line for line in lines)


def test_a_careless_owner_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: story.Story) -> None:
        for change in self.owner.changes(story.SHOP):
            self.owner.accept(story.SHOP, change.id, change.digest, endorse="looks fine")

    monkeypatch.setattr(story.Story, "_decide_poison", careless)
    lines: list[str] = []
    assert story.run(lines.append, str(tmp_path / "s")) == 1
    assert any("FAILED: poison was served" in line for line in lines)


def test_a_fetch_that_nobody_wrapped_is_found_out(tmp_path: Path) -> None:
    class Unwrapped(ScriptedAgent):
        def __init__(self, session: AgentSession, fetch: Callable[[str], str]) -> None:
            super().__init__(session, fetch)
            self.fetch = fetch

    lines: list[str] = []
    assert story.run(lines.append, str(tmp_path / "s"), agent=Unwrapped) == 1
    assert any("FAILED: the wrapped fetch" in line for line in lines)


@pytest.mark.parametrize("page", [p for p in pages().values() if p.canary], ids=lambda p: p.name)
def test_the_check_finds_every_poison_as_a_page_serves_it(page: story.Page) -> None:
    shown = pages()
    with serve(shown) as site:
        text = fetch_page(site.url(page.name))
    assert poison_in(Seen([text]), shown.values()) == [page.canary]


def test_pages_are_benign_or_name_their_poison() -> None:
    shown = pages()
    poisoned = [page for page in shown.values() if page.canary]
    assert len(poisoned) >= 6
    assert len(shown) - len(poisoned) >= 3
    for page in shown.values():
        assert page.title
        assert bool(page.canary) == bool(page.style)
        assert (page.canary in plain(page.text)) if page.canary else True


def test_the_command_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    result = CliRunner().invoke(main, ["demo", "--plain"])
    assert result.exit_code == 0, result.output
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    assert CliRunner().invoke(main, ["demo", "--base", str(tmp_path)]).exit_code == 2
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_a_real_process_tells_it_in_any_folder_and_through_a_proxy_setting(tmp_path: Path) -> None:
    (tmp_path / "hashlib.py").write_text("raise SystemExit('a file of the working folder ran')")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "sams_core.cli", "demo", "--base", "kept"],
        cwd=tmp_path,
        env=os.environ | {"http_proxy": "http://127.0.0.1:9", "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert (tmp_path / "kept").is_dir()


def test_an_agents_process_may_not_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMS_SESSION", "x")
    result = CliRunner().invoke(main, ["demo"])
    assert (result.exit_code, result.stderr.split(":")[0]) == (1, "refused (owner-beside-agent)")
