"""Times an agent's turn with and without governance, in each adapter's framework.

Run as ``python benchmarks/adapters.py [WORD...]``. Through the conformance kit's driver an agent with a
scripted model makes turns of one call each, of an undeclared tool that returns at once; then it answers.
Governed: inside ``with governed(session)`` on a SQLite store in a temporary folder, the session already
marked by the tool, as it is after its first call. Ungoverned: the same agent without the block, the native
slot and the context block. Both run in each round, in shuffled order; a turn's time is the run's by its
number of turns, the cost the median of the rounds' differences. Nothing is asserted.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from importlib.metadata import entry_points
from pathlib import Path

from sams_conformance.a.driver import Driver, Go, Script, speaking
from sams_conformance.a.play import Stage
from sams_conformance.a.runner import driver_name
from sams_conformance.a.scenario import (
    DONE,
    Agent,
    Block,
    Call,
    Run,
    Scenario,
    Seed,
    Tool,
    memory_read,
    say,
    use,
)
from sams_conformance.driver import load_callable

TURNS, ROUNDS = 8, 15  # the OpenAI SDK ends a run after ten turns


def scenario(trust: bool) -> Scenario:
    """Return an agent with one tool and one entry to read."""
    return Scenario(
        "A3",
        "benchmark",
        (Run(),),
        agents=(Agent(tools=("fetch",)),),
        tools=(Tool("fetch", trust="function" if trust else ""),),
        seeds=(Seed("facts/hours", "Open from nine to five."),),
    )


def call(what: str, number: int) -> Call:
    """Return the call of one turn."""
    if what == "memory_read":
        return memory_read("facts/hours", f"c{number}")
    return use("fetch", f"c{number}")


def seconds(stage: Stage, mode: str, block: Block, what: str) -> float:
    """Run the agent once and return the time of one turn."""
    turns = [say(call(what, number)) for number in range(TURNS)] + [DONE]
    speaking.set(Script({"main": turns}, "s1"))
    go = Go(mode, "go on", None if block == "none" else stage.session("s1"), block)
    start = time.perf_counter()
    if stage.driver.modes[mode] == "async":
        asyncio.run(stage.app.arun(go))
    else:
        stage.app.run(go)
    return (time.perf_counter() - start) / (TURNS + 1)


def compare(driver: Driver, mode: str, what: str, trust: bool) -> tuple[float, float]:
    """Return the median seconds of an ungoverned turn, and of what governance adds to it."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(driver, scenario(trust), Path(folder))
        stage.seed()
        plain, added = [], []
        for number in range(ROUNDS + 1):
            took = {}
            for block in random.sample(["governed", "none"], 2):
                took[block] = seconds(stage, mode, block, what)  # type: ignore[arg-type]
            if number:  # the first warms up, and marks
                plain.append(took["none"])
                added.append(took["governed"] - took["none"])
        stage.close()
    return statistics.median(plain), statistics.median(added)


def main(words: list[str]) -> None:
    """Print a table for each adapter."""
    words = words or sorted(each.name for each in entry_points(group="sams.adapters"))
    print(f"{TURNS} turns a run, median of {ROUNDS} rounds; ms a turn\n")
    print("| adapter, mode | turn with | ungoverned | governance adds |")
    print("|---|---|---|---|")
    for word in words:
        driver: Driver = load_callable(driver_name(word))()
        for mode in driver.modes:
            for name, what, trust in (
                ("an undeclared tool's call", "fetch", False),
                ("a trusted tool's call", "fetch", True),
            ):
                plain, added = compare(driver, mode, what, trust)
                row = f"{plain * 1e3:.2f} | {added * 1e3:+.2f} ({added / plain:+.0%})"
                print(f"| {word}, {mode} | {name} | {row} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
