"""The demo's story, told by a real agent loop."""

from __future__ import annotations

from pathlib import Path

from sams_core.demo.story import run
from sams_llamaindex.demo import agent


def test_no_poison_is_served_and_the_fetch_marks_by_itself(tmp_path: Path) -> None:
    lines: list[str] = []
    assert run(lines.append, str(tmp_path / "store"), agent=agent) == 0
    assert any("tool fetch_page" in line for line in lines)
