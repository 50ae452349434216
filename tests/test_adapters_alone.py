"""Each adapter beside no other framework, at the newest versions and at the floors it states."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FRAMEWORKS = {"langchain": "langchain", "llamaindex": "llama_index", "openai-agents": "agents"}


def run(*command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=900,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | more,
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
    return done


@pytest.mark.slow
@pytest.mark.parametrize("resolution", ["highest", "lowest-direct"])
@pytest.mark.parametrize("word", FRAMEWORKS)
def test_an_adapter_alone_is_conformant(word: str, resolution: str, tmp_path: Path) -> None:
    run(sys.executable, "-m", "uv", "venv", "-q", "--python", sys.executable, tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    needs = [f"{ROOT}[{word},conformance]"]
    if word == "langchain":
        needs.append("langgraph-checkpoint-sqlite>=3.1.2")  # the driver's resumes in a new process
    run(
        *(sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python),
        *("--resolution", resolution, *needs),
        UV_SYSTEM_CERTS="1",
    )
    for other, module in FRAMEWORKS.items():
        found = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
        assert (found.returncode == 0) == (other == word), f"{module} beside {word}"
    done = run(tmp_path / "venv/bin/sams", "conformance", "--adapter", word)
    assert "CONFORMANT" in done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_the_core_alone_needs_no_framework(tmp_path: Path) -> None:
    run(sys.executable, "-m", "uv", "venv", "-q", "--python", sys.executable, tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    run(
        *(sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python),
        f"{ROOT}[conformance]",
        UV_SYSTEM_CERTS="1",
    )
    for module in FRAMEWORKS.values():
        assert subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode
    run(tmp_path / "venv/bin/sams", "conformance", "--id", "C3", "--id", "C11")
    asked = subprocess.run(
        [tmp_path / "venv/bin/sams", "conformance", "--adapter", "langchain"],
        capture_output=True,
        text=True,
    )
    assert asked.returncode == 2
    assert "pip install 'sams-adapters[langchain]'" in asked.stderr
