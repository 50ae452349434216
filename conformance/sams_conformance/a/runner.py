"""Play every scenario in every mode of a driver; whatever is unclear fails."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from pathlib import Path

from sams_conformance.a.catalog import scenarios
from sams_conformance.a.check import problems
from sams_conformance.a.driver import Driver
from sams_conformance.a.ids import MANDATORY, NEEDS, TITLES
from sams_conformance.a.play import Observed, Stage
from sams_conformance.a.scenario import Run, Scenario, Together
from sams_conformance.a.special import SPECIAL
from sams_conformance.driver import load_callable
from sams_conformance.report import Outcome, Report, Status
from sams_conformance.runner import short, version


def driver_name(word: str) -> str:
    """Return `module:factory` of an adapter's driver; `word` may be such a name already.

    Raises `ValueError` where no adapter of that word is installed, or its framework isn't.
    """
    if ":" in word:
        return word
    for found in entry_points(group="sams.adapters"):
        if found.name == word:
            try:
                importlib.import_module(found.value)
            except ModuleNotFoundError as error:
                raise ValueError(
                    f"{error.name} isn't installed: pip install 'sams-adapters[{word}]'"
                ) from None
            return f"{found.value}.testing:driver"
    known = ", ".join(sorted(e.name for e in entry_points(group="sams.adapters"))) or "none"
    raise ValueError(f"no adapter of that name; installed: {known}")


def run_adapter(
    word: str,
    ids: Iterable[str] | None = None,
    *,
    chosen: list[Scenario] | None = None,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Report:
    """Play the scenarios of `ids` (by default all) through an adapter's driver.

    `word` is an adapter's (`langchain`) or `module:factory`, where the factory returns a `Driver`.
    Raises `ValueError` for an unknown id, word or factory, or a capability that isn't known.
    Nothing that a driver or a framework does is raised: it is in the report.
    """
    named = driver_name(word)
    driver: Driver = load_callable(named)()
    unknown = sorted(driver.capabilities - NEEDS.keys())
    if unknown or not driver.modes:
        raise ValueError(f"unknown capabilities, or no mode: {unknown}, {list(driver.modes)}")
    wanted = tuple(dict.fromkeys(TITLES if ids is None else ids))
    strange = [id for id in wanted if id not in TITLES]
    if strange:
        raise ValueError(f"unknown ids: {', '.join(strange)}; known are {', '.join(TITLES)}")
    stories = scenarios() if chosen is None else chosen
    outcomes: list[Outcome] = []
    elsewhere = Elsewhere(named)
    try:
        for id in wanted:
            mine = [story for story in stories if story.id == id]
            for story in mine:
                for mode in _modes(driver, story) or ("any mode",):
                    outcomes.append(_one(driver, elsewhere, story, mode))
                    if on_outcome is not None:
                        on_outcome(outcomes[-1])
            if not any(o.id == id for o in outcomes):
                outcomes.append(Outcome(id, "this id has a scenario", "", "failed", 0.0, "none"))
    finally:
        elsewhere.close()
    needed = [
        id
        for id in TITLES
        if id in MANDATORY
        or any(s.id == id and s.needs <= driver.capabilities and _modes(driver, s) for s in stories)
    ]
    return Report(version(), driver.name, wanted, tuple(outcomes), TITLES, tuple(needed))


def _modes(driver: Driver, story: Scenario) -> list[str]:
    if story.modes == "stream":
        return [mode for mode in driver.modes if "stream" in mode]
    return [mode for mode, kind in driver.modes.items() if story.modes in ("", kind)]


def _one(driver: Driver, elsewhere: Elsewhere, story: Scenario, mode: str) -> Outcome:
    start = time.perf_counter()
    status: Status = "failed"
    rule = f"{story.title} [{mode}]"
    if not story.needs <= driver.capabilities or mode not in driver.modes:
        lacks = ", ".join(sorted(story.needs - driver.capabilities)) or "a mode of that kind"
        return Outcome(story.id, rule, rule, "not applicable", 0.0, f"the driver has no {lacks}")
    try:
        with tempfile.TemporaryDirectory(prefix="sams-conformance-") as folder:
            found = _story(driver, elsewhere, story, mode, Path(folder))
        status, detail = ("failed" if found else "passed"), "\n".join(found)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit from a stranger's code is a failure, not our end
        detail = short(error)
    return Outcome(story.id, rule, rule, status, time.perf_counter() - start, detail)


def _story(
    driver: Driver, elsewhere: Elsewhere, story: Scenario, mode: str, folder: Path
) -> list[str]:
    stage = Stage(driver, story, folder)
    found: list[str] = []
    try:
        stage.seed()
        past: list[Observed] = []
        for number, step in enumerate(story.runs):
            runs = step.runs if isinstance(step, Together) else (step,)
            if any(run.new_process for run in runs):
                seen = elsewhere.play(story, number, mode, folder)
            else:
                seen = stage.play(step, mode)
            past += seen
            for run, each in zip(runs, seen, strict=True):
                found += [f"run {number + 1}: {text}" for text in problems(stage, run, each)]
        if story.check:
            found += SPECIAL[story.check](stage, mode, past)
    finally:
        stage.close()
    return found


class Elsewhere:
    """Plays steps in new processes; the process that makes them is started when it is needed."""

    def __init__(self, named: str) -> None:
        self.named = named
        self._maker: subprocess.Popen[str] | None = None

    def play(self, story: Scenario, number: int, mode: str, folder: Path) -> list[Observed]:
        """Play one step in a process that knows nothing of those before."""
        if self._maker is None:
            self._maker = subprocess.Popen(
                [sys.executable, "-P", "-m", "sams_conformance.a.worker", self.named],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        assert self._maker.stdin is not None
        assert self._maker.stdout is not None
        arguments = [f"{story.id} {story.title}", number, mode, str(folder)]
        print(json.dumps(arguments), file=self._maker.stdin, flush=True)
        answer = json.loads(self._maker.stdout.readline() or '{"failed": "the process ended"}')
        if isinstance(answer, dict):
            raise RuntimeError(f"in a new process: {answer['failed']}")
        return [Observed.from_dict(each) for each in answer]

    def close(self) -> None:
        """End the process."""
        if self._maker is not None:
            self._maker.communicate(timeout=30)


__all__ = ["Run", "driver_name", "run_adapter"]
