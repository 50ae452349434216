"""Times an agent's turn with and without governance, in each adapter's framework.

Run as ``python benchmarks/adapters.py [WORD...]``. Through the conformance kit's driver an agent with a
scripted model makes turns of one call each, then answers. What one turn costs in steady state is the time of
a run with eight turns less that of a run with none, by eight.

Governed: inside ``with governed(session)`` on a SQLite store in a temporary folder; the session has called
the tool before. Bare: the same agent, with as many tools, without the block, the native slot and the context
block, and its own tool does the same work: nothing; a read by key of one row in SQLite; one commit of such a
row in WAL mode with synchronous=FULL. So the read and the write compare what governance costs, and not what
a disk costs; ours also reads marks, checks versions, flags and redacts.

Both run in each round, in shuffled order. Nothing is asserted.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, cast

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
    memory_write,
    say,
    use,
)
from sams_conformance.driver import load_callable

TURNS, ROUNDS = 8, 15  # the OpenAI SDK ends a run after ten turns
TEXT = "Open from nine to five. " * 20
# Turn with, the tool is trusted, governed calls, goal (MISSION's reader wants a turn that costs no more).
CASES = (
    ("an undeclared tool's call", False, "fetch", None),
    ("a trusted tool's call", True, "fetch", None),
    ("a read by key", True, "memory_read", 1.05),
    ("a durable write", True, "memory_write", 1.3),
)


class Bench(Stage):
    """A stage whose tool does by itself what the governed agent does through memory."""

    def __init__(self, driver: Driver, trusted: bool, form: str, does: str, folder: Path) -> None:
        tool = Tool(
            "fetch", trust="function" if trusted else "", form=cast(Literal["sync", "async"], form)
        )
        super().__init__(
            driver,
            Scenario(
                "A3",
                "benchmark",
                (Run(),),
                agents=(Agent(tools=("fetch",)),),
                tools=(tool,),
                seeds=(Seed("facts/hours", TEXT),),
            ),
            folder,
        )
        self.does = does
        self.db = sqlite3.connect(
            folder / "bare.db", isolation_level=None, check_same_thread=False, cached_statements=64
        )
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.execute("CREATE TABLE entries (path TEXT PRIMARY KEY, content TEXT)")
        self.db.execute("INSERT INTO entries VALUES ('facts/hours', ?)", (TEXT,))
        self.number = 0

    def work(self) -> str:
        """Do what memory would."""
        if self.does == "memory_read":
            sql = "SELECT content FROM entries WHERE path = 'facts/hours'"
            return str(self.db.execute(sql).fetchone()[0])
        if self.does == "memory_write":
            self.number += 1
            row = (f"facts/{self.number}", TEXT)
            self.db.execute("INSERT INTO entries VALUES (?, ?)", row)
            return "stored"
        return "nothing"

    def _function(self, tool: Tool) -> Callable[..., Any]:
        def fetch(query: str) -> str:
            """Look something up."""
            return self.work()

        async def afetch(query: str) -> str:
            """Look something up."""
            waits = self.does == "memory_write"
            return await asyncio.to_thread(self.work) if waits else self.work()

        afetch.__name__ = "fetch"
        return fetch if tool.form == "sync" else afetch


def call(what: str, number: int, path: str) -> Call:
    """Return the call of one turn."""
    if what == "memory_read":
        return memory_read("facts/hours", f"c{number}")
    if what == "memory_write":
        return memory_write(f"{path}/{number}", f"c{number}", content=TEXT)
    return use("fetch", f"c{number}")


def seconds(stage: Bench, mode: str, block: Block, what: str, session: str) -> float:
    """Return the time of one turn in steady state."""
    took = []
    for turns in (0, TURNS):
        calls = [say(call(what, number, session)) for number in range(turns)] + [DONE]
        speaking.set(Script({"main": calls}, session))
        go = Go(mode, "go on", None if block == "none" else stage.session(session), block)
        start = time.perf_counter()
        if stage.driver.modes[mode] == "async":
            asyncio.run(stage.app.arun(go))
        else:
            stage.app.run(go)
        took.append(time.perf_counter() - start)
    return (took[1] - took[0]) / TURNS


def compare(driver: Driver, mode: str, trusted: bool, what: str) -> tuple[float, float]:
    """Return the median seconds of a bare turn, and of a governed one."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Bench(driver, trusted, driver.modes[mode], what, Path(folder))
        stage.seed()
        took: dict[str, list[float]] = {"governed": [], "none": []}
        for number in range(ROUNDS + 1):
            # A session may leave 100 changes undecided.
            session = f"s{number}" if what == "memory_write" else "s0"
            for block in random.sample(["governed", "none"], 2):
                does = what if block == "governed" else "fetch"
                found = seconds(stage, mode, cast(Block, block), does, session)
                if number:  # the first warms up, and marks
                    took[block].append(found)
        stage.close()
        stage.db.close()
    return statistics.median(took["none"]), statistics.median(took["governed"])


def main(words: list[str]) -> None:
    """Print a table for each adapter."""
    words = words or sorted(each.name for each in entry_points(group="sams.adapters"))
    print(f"steady state: {TURNS} turns a run, median of {ROUNDS} rounds; ms a turn\n")
    print("| adapter, mode | turn with | bare | governed | times |")
    print("|---|---|---|---|---|")
    for word in words:
        driver: Driver = load_callable(driver_name(word))()
        for mode in driver.modes:
            for name, trusted, what, goal in CASES:
                bare, governed = compare(driver, mode, trusted, what)
                times = f"{governed / bare:.2f}"
                if goal is not None:
                    times += f" (goal {goal}{', missed' if governed > goal * bare else ''})"
                row = f"{bare * 1e3:.2f} | {governed * 1e3:.2f} | {times}"
                print(f"| {word}, {mode} | {name} | {row} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
