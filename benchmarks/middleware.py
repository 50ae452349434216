"""Times what LangChain itself asks for a middleware, beside what ours adds.

Run as ``python benchmarks/middleware.py``. An agent of ``create_agent`` with a scripted model makes turns of
one call of a trusted tool each, then answers: without middleware but with as many tools, with a middleware
whose hooks do nothing, and with ``SamsMiddleware`` on a SQLite store in a temporary folder. What one turn
costs is the time of a run with eight turns less that of a run with none, by eight. All run in each round,
in shuffled order. Nothing is asserted.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import tempfile
import time
from contextlib import closing
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import StructuredTool

from sams_core import AgentSession, SQLiteBackend
from sams_langchain import SamsMiddleware, memory_tools
from sams_langchain.scripted import ScriptedModel, said

TURNS, ROUNDS = 8, 40
KINDS = ("none", "one that does nothing", "SamsMiddleware")


def fetch(query: str) -> str:
    """Look something up."""
    return "nothing"


async def afetch(query: str) -> str:
    """Look something up."""
    return "nothing"


class Idle(AgentMiddleware[Any, Any, Any]):
    """Has the hooks that ours has."""

    def before_agent(self, state: Any, runtime: Any) -> None:
        """Do nothing."""

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Do nothing."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Do nothing."""
        return handler(request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Do nothing."""
        return handler(request)

    async def abefore_agent(self, state: Any, runtime: Any) -> None:
        """Do nothing."""

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """Do nothing."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Do nothing."""
        return await handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Do nothing."""
        return await handler(request)


def agent(kind: str, session: AgentSession) -> Any:
    """Return an agent that calls its tool as often as it is told to."""
    numbers = itertools.count()

    def say(messages: list[Any], tools: list[Any]) -> Any:
        asked = [int(m.content) for m in messages if m.type == "human" and m.content.isdigit()]
        if sum(m.type == "tool" for m in messages) < sum(asked):
            return said("", ("fetch", {"query": "q"}, f"c{next(numbers)}"))
        return said("done")

    tool = StructuredTool.from_function(fetch, afetch, name="fetch")
    model = ScriptedModel(say=say)
    if kind == "SamsMiddleware":
        governed = SamsMiddleware(session, trusted=[tool])
        return create_agent(model, [tool], middleware=[governed])
    idle = [Idle()] if kind == "one that does nothing" else []
    return create_agent(model, [tool, *memory_tools()], middleware=idle)


async def seconds(agent: Any, mode: str) -> float:
    """Return the time of one turn."""
    took = []
    for turns in (0, TURNS):
        given = {"messages": [("user", str(turns))]}
        start = time.perf_counter()
        if mode == "ainvoke":
            await agent.ainvoke(given)
        else:
            agent.invoke(given)
        took.append(time.perf_counter() - start)
    return (took[1] - took[0]) / TURNS


async def measure(mode: str, session: AgentSession) -> dict[str, float]:
    """Return the median seconds of a turn for each kind of agent."""
    agents = {kind: agent(kind, session) for kind in KINDS}
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(ROUNDS + 2):
        for kind in random.sample(KINDS, len(KINDS)):
            found = await seconds(agents[kind], mode)
            if number >= 2:  # the first ones warm up
                took[kind].append(found)
    return {kind: statistics.median(each) for kind, each in took.items()}


def main() -> None:
    """Print a table."""
    print(
        f"{TURNS} turns a run, median of {ROUNDS} rounds; ms a turn, times that without middleware\n"
    )
    print("| | " + " | ".join(KINDS) + " |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, closing(SQLiteBackend(folder)) as backend:
        session = AgentSession(
            backend, session_id="s1", agent="a", assigned="tenant:acme", user="insider"
        )
        for mode in ("invoke", "ainvoke"):
            found = asyncio.run(measure(mode, session))
            bare = found["none"]
            cells = [f"{each * 1e3:.2f} ({each / bare:.2f})" for each in found.values()]
            print(f"| {mode} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
