"""The demo's gullible agent as a real `Runner` loop: `sams demo --framework openai-agents`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from agents import Agent, RunConfig, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from sams_core import AgentSession
from sams_core.demo.agent import gullible
from sams_openai_agents import govern, memory_tools


class RunnerAgent:
    """Reads what it is asked to, and writes what that says."""

    def __init__(self, session: AgentSession, fetch: Callable[[str], str]) -> None:
        self.session = session
        self.governed = govern()
        # An ordinary tool. Nobody declared it, so its calls mark.
        self.agent = Agent(
            name="web-agent",
            instructions="Keep what is worth knowing.",
            tools=[*memory_tools(), function_tool(fetch)],
        )
        self.fetch = fetch.__name__
        self._calls = 0

    def read_and_remember(self, url: str) -> dict[str, Any]:
        """Read a page, write what it says to memory, and return the answer of `memory_write`."""
        return self._run({"url": url})

    def remember(self, path: str, description: str, text: str) -> dict[str, Any]:
        """Write to memory what the user said, and return the answer of `memory_write`."""
        return self._run({"path": path, "description": description, "text": text})

    def _run(self, task: dict[str, str]) -> dict[str, Any]:
        def says(call: Any) -> list[Any]:
            """Stand where a model would be: it sees the conversation and nothing else."""
            results = {item["call_id"]: item["output"] for item in call.input if "output" in item}
            calls = [item for item in call.input if item.get("type") == "function_call"]
            answers = {item["name"]: results[item["call_id"]] for item in calls}
            following = gullible(task, answers, self.fetch)
            if following is None:
                return [assistant_message("I keep that in mind.")]
            self._calls += 1
            return [function_call(*following, call_id=f"{self.session.session_id}-{self._calls}")]

        model = ScriptedModel([ModelStep.respond(says)] * 4)

        async def run() -> Any:
            with self.governed(self.session):
                return await self.governed.run(
                    self.agent,
                    json.dumps(task),
                    run_config=RunConfig(model=model, tracing_disabled=True),
                )

        result = asyncio.run(run())
        outputs = [i.output for i in result.new_items if i.type == "tool_call_output_item"]
        answer: dict[str, Any] = json.loads(outputs[-1])
        return answer


def agent(session: AgentSession, fetch: Callable[[str], str]) -> RunnerAgent:
    """Return the story's agent for a session."""
    return RunnerAgent(session, fetch)
