"""The demo's gullible agent as a real LangChain agent: only what the model says is scripted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool

from sams_core import AgentSession
from sams_core.demo.agent import Agent
from sams_langchain import SamsMiddleware
from sams_langchain.scripted import ScriptedModel, said

_TOLD_PATH = re.compile(r"under\s+([a-z0-9_.-]+(?:/[a-z0-9_.-]+)+):")


class LangChainAgent:
    """Runs `create_agent`'s loop: read a page, look up the version, write what the page says."""

    def __init__(self, session: AgentSession, fetch: Callable[[str], str]) -> None:
        @tool
        def fetch_page(url: str) -> str:
            """Return the title and the text of a web page."""
            return fetch(url)

        self._calls = 0
        self._agent: Any = create_agent(
            ScriptedModel(say=self._say), [fetch_page], middleware=[SamsMiddleware(session)]
        )

    def read_and_remember(self, url: str) -> dict[str, Any]:
        """Read a page, and do what it says."""
        return self._run({"url": url})

    def remember(self, path: str, description: str, text: str) -> dict[str, Any]:
        """Write to memory what the user said."""
        return self._run({"path": path, "description": description, "text": text})

    def _run(self, task: dict[str, str]) -> dict[str, Any]:
        state = self._agent.invoke({"messages": [("user", json.dumps(task))]})
        answers = [m for m in state["messages"] if isinstance(m, ToolMessage)]
        result: dict[str, Any] = json.loads(str(answers[-1].content))
        return result

    # Where a model would be. It is told everything that one would be told, and believes it.

    def _say(self, messages: list[BaseMessage], tools: list[dict[str, Any]]) -> AIMessage:
        start = max(n for n, message in enumerate(messages) if message.type == "human")
        task = json.loads(str(messages[start].content))
        answers = {m.name: str(m.content) for m in messages[start:] if isinstance(m, ToolMessage)}
        if "url" in task and "fetch_page" not in answers:
            return self._call("fetch_page", {"url": task["url"]})
        if "url" in task:
            title, _, text = answers["fetch_page"].partition("\n\n")
            told = _TOLD_PATH.search(text)
            name = task["url"].rpartition("/")[2].removesuffix(".html")
            task = {"path": told[1] if told else f"web/{name}", "description": title, "text": text}
        if "memory_read" not in answers:
            return self._call("memory_read", {"scope": "assigned", "path": task["path"]})
        if "memory_write" not in answers:
            version = json.loads(answers["memory_read"]).get("version") or None
            what = {"content": task["text"] + "\n", "description": task["description"]}
            where = {"scope": "assigned", "path": task["path"], "expected_version": version}
            return self._call("memory_write", {**where, **what})
        return said("It is queued for review.")

    def _call(self, name: str, arguments: dict[str, Any]) -> AIMessage:
        self._calls += 1
        return said("", (name, arguments, f"call-{self._calls}"))


def agent(session: AgentSession, fetch: Callable[[str], str]) -> Agent:
    """Return the story's agent; `fetch` becomes an ordinary tool that nobody declared."""
    return LangChainAgent(session, fetch)
