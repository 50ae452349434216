"""A real store with an owner, a clean session and a marked one, and a way to run `sams` on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import sams_core
from sams_core import AgentSession, Owner, SQLiteBackend
from sams_core.cli import main

SHOP = "project:shop"


class Shop:
    """The store under test; its folder's name has a blank, a quote and a hash sign."""

    def __init__(self, folder: Path) -> None:
        self.base = folder / "my shop's #1"
        self.backend = SQLiteBackend(str(self.base))
        self.owner = Owner(self.backend, "olga")
        self._opened = 0

    def session(self, *, marked: bool = False, agent: str = "desk-agent") -> AgentSession:
        self._opened += 1
        session = AgentSession(
            self.backend,
            session_id=f"s{self._opened}",
            agent=agent,
            assigned=SHOP,
            user="insider",
            observed="by-hand",
        )
        if marked:
            session.mark_tainted("web page", origin="http://127.0.0.1/page")
        return session

    def write(
        self,
        path: str,
        content: str,
        description: str = "a note",
        *,
        marked: bool = False,
        version: int | None = None,
        session: AgentSession | None = None,
    ) -> str:
        session = session or self.session(marked=marked)
        receipt = session.memory_write("assigned", path, content, description, version)
        assert receipt.change_id is not None
        return receipt.change_id

    def digest(self, change_id: str) -> str:
        return next(c.digest for c in self.owner.changes(SHOP) if c.id == change_id)

    def sams(self, *words: str, **given: Any) -> Result:
        return CliRunner().invoke(main, ["--base", str(self.base), *words], **given)

    def json(self, *words: str) -> Any:
        result = self.sams(*words, "--json")
        assert result.exit_code == 0, result.output
        assert result.stdout.isascii()
        return json.loads(result.stdout)


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SAMS_BASE", "SAMS_URL", "SAMS_OWNER", "SAMS_SESSION", "SAMS_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    store = Shop(tmp_path)
    yield store
    store.backend.close()


@pytest.fixture
def process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `python -m sams_core.cli` for real, from another folder."""

    def run(*words: str, **given: Any) -> subprocess.CompletedProcess[str]:
        root = str(Path(sams_core.__file__).parents[1])
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, f"{root}/conformance"])}
        environment |= given.pop("env", {})
        return subprocess.run(
            [sys.executable, "-m", "sams_core.cli", *words],
            capture_output=True,
            text=True,
            encoding=given.pop("encoding", "utf-8"),
            env=environment,
            check=False,
            **given,
        )

    return run
