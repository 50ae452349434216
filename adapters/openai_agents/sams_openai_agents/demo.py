"""The demo's gullible agent as a real `Runner` loop: `sams demo --framework openai-agents`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from agents import Agent, RunConfig, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from sams_core import AgentSession
from sams_openai_agents import govern, memory_tools

_TOLD_PATH = re.compile(r"under\s+([a-z0-9_.-]+(?:/[a-z0-9_.-]+)+):")
_URL = re.compile(r"https?://\S+")


class RunnerAgent:
    """Believes every page: it reads what it is asked to, and writes what that says."""

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
        return self._run(f"Read {url} and remember it.")

    def remember(self, path: str, description: str, text: str) -> dict[str, Any]:
        """Write to memory what the user said, and return the answer of `memory_write`."""
        return self._run(json.dumps({"path": path, "description": description, "content": text}))

    def _run(self, message: str) -> dict[str, Any]:
        model = ScriptedModel([ModelStep.respond(self._says) for _ in range(4)])

        async def run() -> Any:
            with self.governed(self.session):
                return await self.governed.run(
                    self.agent, message, run_config=RunConfig(model=model, tracing_disabled=True)
                )

        result = asyncio.run(run())
        outputs = [i.output for i in result.new_items if i.type == "tool_call_output_item"]
        answer: dict[str, Any] = json.loads(outputs[-1])
        return answer

    # Where a model would be: it sees the conversation and nothing else.

    def _says(self, call: Any) -> list[Any]:
        (message,) = (i["content"] for i in call.input[1:] if i.get("role") == "user")
        done = {i["name"]: i["call_id"] for i in call.input if i.get("type") == "function_call"}
        results = {i["call_id"]: i["output"] for i in call.input if "output" in i}
        url = _URL.search(message)
        if url is None:
            draft = json.loads(message)
        elif self.fetch not in done:
            return [self._call(self.fetch, {"url": url[0]})]
        else:
            draft = _draft(url[0], results[done[self.fetch]])
        place = {"scope": "assigned", "path": draft["path"]}
        if "memory_read" not in done:
            return [self._call("memory_read", place)]
        if "memory_write" not in done:
            known = json.loads(results[done["memory_read"]])
            content, version = draft["content"] + "\n", known.get("version") or None
            write = {**place, **draft, "content": content, "expected_version": version}
            return [self._call("memory_write", write)]
        return [assistant_message("I keep that in mind.")]

    def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        self._calls += 1
        return function_call(name, arguments, call_id=f"{self.session.session_id}-{self._calls}")


def _draft(url: str, page: str) -> dict[str, str]:
    title, _, text = page.partition("\n\n")
    told = _TOLD_PATH.search(text)
    path = told[1] if told else "web/" + url.rpartition("/")[2].removesuffix(".html")
    return {"path": path, "description": title, "content": text}


def agent(session: AgentSession, fetch: Callable[[str], str]) -> RunnerAgent:
    """Return the story's agent for a session."""
    return RunnerAgent(session, fetch)
