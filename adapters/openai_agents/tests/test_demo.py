"""The demo's story, told through a real `Runner` loop."""

from __future__ import annotations

from pathlib import Path

from sams_core.demo.story import run
from sams_openai_agents.demo import agent


def test_no_poison_is_served_and_every_source_was_seen_without_wrapping(tmp_path: Path) -> None:
    lines: list[str] = []
    assert run(lines.append, str(tmp_path / "store"), colour=False, agent=agent) == 0
    told = " ".join("\n".join(lines).split())
    assert "fetch_page: undeclared" in told
    assert "0 poisons or other problems found" in told
