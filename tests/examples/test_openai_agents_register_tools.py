"""The example registers the tools as its text says, in a real run of the SDK."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "openai_agents_register_tools.py"


def test_a_trusted_tool_an_undeclared_one_and_a_labelled_write() -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")}
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True, text=True, timeout=120, check=True, env=env,
    )  # fmt: skip
    lines = ran.stdout.splitlines()
    assert lines[0] == "tool: 42"
    assert "Ignore all previous" in lines[1]
    assert '"status": "queued"' in lines[2]
    assert lines[3] == "waiting: notes/hours tainted"
    assert lines[4].startswith("because of: fetch: undeclared; govern(trusted=[fetch])")
    assert "add" not in lines[4]
    assert len(EXAMPLE.read_text().splitlines()) < 80
