"""Each adapter beside no other framework: at the newest versions, at its floors, on each Python here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from sams_conformance.a.ids import TITLES

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEV = {Requirement(each).name: each for each in PROJECT["dependency-groups"]["dev"]}
CORE: list[str] = PROJECT["project"]["dependencies"]
UV = (sys.executable, "-m", "uv")
FRAMEWORKS = {"langchain": "langchain", "llamaindex": "llama_index", "openai-agents": "agents"}
HERE = f"3.{sys.version_info.minor}"
PYTHONS = [f"3.{minor}" for minor in range(11, 16)]

THREADS = DEV["langgraph-checkpoint-sqlite"]  # the driver's resumes in a new process
MCP = "langchain-mcp-adapters>=0.3.2"  # not in `dev`: it needs an older `mcp` than LlamaIndex's
MORE = {"langchain": [THREADS, MCP], "llamaindex": [DEV["llama-index-tools-mcp"]]}
LEFT_OUT = {"openai-agents": {"A4"}}  # what no scenario can need of the framework
# What wants newer versions than LangChain's floors: its tests run with the lowest of that.
NEWER = "(?m)^from (deepagents|langchain_google_genai|langchain_tests)|^from .*SamsMemoryFiles"
PYTEST = [
    *(DEV[name] for name in ("anyio", "hypothesis", "pytest", "sybil")),
    "numpy>=2",  # for LangChain's own fakes of embeddings
    "pytest-asyncio>=1",
]


def start(*command: str | Path, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=1_800,
        cwd=cwd,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | more,
    )


def run(*command: str | Path, cwd: Path = ROOT, **more: str) -> str:
    done = start(*command, cwd=cwd, **more)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-4_000:]
    return done.stdout


@cache
def pythons() -> dict[str, str]:
    """Return an interpreter of each version from 3.11 on: this one, else one of uv's or pyenv's."""
    listed = run(*UV, "python", "list", "--only-installed", "--output-format", "json")
    found = [Path(each["path"]) for each in json.loads(listed) if each["variant"] == "default"]
    try:
        root = Path(run("pyenv", "root").strip())
    except FileNotFoundError:
        pass  # no pyenv here
    else:
        found += sorted(root.glob("versions/3.*[0-9]/bin/python"))  # 3.13.0t has no GIL
    usable = {HERE: sys.executable}
    for path in found:
        said = start(path, "--version").stdout
        version = re.fullmatch(r"Python (3\.(\d+))\.\d+\n", said)  # no prerelease
        if version and int(version[2]) >= 11:
            usable.setdefault(version[1], str(path))
    return usable


def of(extra: str) -> list[str]:
    """Return what pyproject.toml says that an extra needs."""
    needs = PROJECT["project"]["optional-dependencies"][extra]
    return [need for need in needs if Requirement(need).name != PROJECT["project"]["name"]]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What users install, built once."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (built,) = folder.glob("*.whl")
    return built


class Environment:
    """A folder with a Python of its own, the wheel, and nothing that it doesn't name."""

    def __init__(self, folder: Path, version: str, resolution: str, wheel: Path) -> None:
        if version not in pythons():
            pytest.skip(f"NOT RUN: no Python {version} here")
        self.bin, self.resolution, self.wheel = folder / "bin", resolution, wheel
        run(*UV, "venv", "-q", "--python", pythons()[version], folder)

    def install(self, extra: str, *more: str) -> None:
        """Install the wheel with an extra, and more, all at the newest or all at the lowest."""
        run(
            *(*UV, "pip", "install", "-q", "--python", self.bin / "python"),
            *("--resolution", self.resolution, f"{self.wheel}[{extra},conformance]"),
            *(*CORE, *of(extra), *more),  # for uv a wheel's needs aren't direct ones
            UV_SYSTEM_CERTS="1",
        )

    def above_floors(self, needs: list[str]) -> dict[str, Version]:
        """Return what is installed at a higher version than the lowest that `needs` allow."""
        listed = run(*UV, "pip", "list", "--python", self.bin / "python", "--format", "json")
        installed = {each["name"]: Version(each["version"]) for each in json.loads(listed)}
        return {
            need.name: installed[need.name]
            for need in map(Requirement, needs)
            for spec in need.specifier
            if spec.operator == ">=" and installed[need.name] != Version(spec.version)
        }

    # Everything runs in a folder of its own: Python would find the packages in this one first.

    def has(self, module: str) -> bool:
        done = start(self.bin / "python", "-c", f"import {module}", cwd=self.bin)
        return done.returncode == 0

    def report(self, word: str, *asked: str) -> dict[str, Any]:
        """Return the kit's report, of which nothing failed."""
        command = (self.bin / "sams", "conformance", "--adapter", word, "--json", *asked)
        done = start(*command, cwd=self.bin)
        report: dict[str, Any] = json.loads(done.stdout)
        failed = [(t["name"], t["detail"]) for t in report["tests"] if t["status"] == "failed"]
        assert not failed
        assert done.returncode == 0 and report["passed"] is True
        return report

    def run_tests(self, but: str = "^$") -> None:
        """Run the LangChain adapter's tests against the wheel, but files with what this finds."""
        found = sorted((ROOT / "adapters/langchain/tests").glob("test_*.py"))
        left = [path for path in found if re.search(but, path.read_text())]
        told = run(
            *(self.bin / "python", "-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider"),
            *("-c", ROOT / "pyproject.toml", "--rootdir", ROOT),
            *(path for path in found if path not in left),
            cwd=self.bin,
        )
        print(told[-2_000:], "left out:", [path.name for path in left])
        assert re.search(r"\d+ passed", told.splitlines()[-1])


@pytest.fixture
def make(wheel: Path, tmp_path: Path) -> Iterator[Callable[[str, str], Environment]]:
    def make_one(version: str, resolution: str) -> Environment:
        return Environment(tmp_path / "venv", version, resolution, wheel)

    yield make_one
    shutil.rmtree(tmp_path / "venv", ignore_errors=True)  # pytest keeps folders; these are large


def proved(report: dict[str, Any]) -> set[str]:
    ids, tests = report["ids"], report["tests"]
    print(sum(t["status"] == "passed" for t in tests), "of", len(tests), "passed")
    return {id for id, found in ids.items() if found["proved"]}


def modes(report: dict[str, Any]) -> set[str]:
    return {test["name"].rpartition("[")[2].rstrip("]") for test in report["tests"]}


@pytest.mark.parametrize("version", PYTHONS)
@pytest.mark.parametrize("word", FRAMEWORKS)
def test_an_adapter_alone_is_conformant_at_the_newest_versions(
    word: str, version: str, make: Callable[[str, str], Environment]
) -> None:
    alone = make(version, "highest")
    alone.install(word, *MORE.get(word, ()))
    for other, module in FRAMEWORKS.items():
        assert alone.has(module) == (other == word), f"{module} beside {word}"
    report = alone.report(word)
    assert report["conformant"] is True
    assert proved(report) == TITLES.keys() - LEFT_OUT.get(word, set())
    if word == "langchain":
        assert {"stream_events_v3", "astream_events_v3"} <= modes(report)
        if version == HERE:
            brought = (DEV["deepagents"], DEV["langmem"], DEV["langchain-tests"])
            alone.install(word, *MORE[word], *brought, *PYTEST)
            alone.run_tests()


@pytest.mark.parametrize("version", PYTHONS)
def test_the_langchain_adapter_alone_is_conformant_at_its_floors(
    version: str, make: Callable[[str, str], Environment]
) -> None:
    alone = make(version, "lowest-direct")
    alone.install("langchain", THREADS)
    assert alone.above_floors(of("langchain")) == {}
    report = alone.report("langchain")
    assert report["conformant"] is True
    assert proved(report) == TITLES.keys() - {"A23"}
    if version == HERE:
        alone.install("langchain", THREADS, DEV["langmem"], *PYTEST)
        assert alone.above_floors(of("langchain")) == {}
        alone.run_tests(but=NEWER)
    # Its MCP adapters want a newer langchain-core, so these come last.
    alone.install("langchain", THREADS, MCP)
    assert proved(alone.report("langchain", "--id", "A23")) == {"A23"}


@pytest.mark.parametrize("word", [word for word in FRAMEWORKS if word != "langchain"])
def test_an_adapter_alone_is_conformant_at_its_floors(
    word: str, make: Callable[[str, str], Environment]
) -> None:
    alone = make(HERE, "lowest-direct")
    alone.install(word, *MORE.get(word, ()))
    assert alone.above_floors(of(word)) == {}
    report = alone.report(word)
    assert report["conformant"] is True
    assert proved(report) == TITLES.keys() - LEFT_OUT.get(word, set())


def test_the_langchain_adapter_passes_its_tests_with_the_lowest_deepagents(
    make: Callable[[str, str], Environment],
) -> None:
    alone = make(HERE, "lowest-direct")
    alone.install("deepagents", THREADS, MCP, DEV["langmem"], DEV["langchain-tests"], *PYTEST)
    alone.run_tests()


@pytest.mark.parametrize("resolution", ["highest", "lowest-direct"])
def test_the_core_alone_needs_no_framework(
    resolution: str, make: Callable[[str, str], Environment]
) -> None:
    alone = make(HERE, resolution)
    alone.install("conformance")
    assert resolution == "highest" or alone.above_floors(CORE) == {}
    for module in FRAMEWORKS.values():
        assert not alone.has(module)
    run(alone.bin / "sams", "conformance", "--id", "C3", "--id", "C11", cwd=alone.bin)
    asked = start(alone.bin / "sams", "conformance", "--adapter", "langchain", cwd=alone.bin)
    assert asked.returncode == 2
    assert "pip install 'sams-adapters[langchain]'" in asked.stderr


def test_pythons_that_are_not_here_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    missing = [version for version in PYTHONS if version not in pythons()]
    with capsys.disabled():
        for version in missing:
            print(f"\nNOT RUN: adapters on Python {version}, which isn't here", end="")
    assert HERE in pythons()
    assert pythons().keys() <= set(PYTHONS), "a newer Python than this file knows"
