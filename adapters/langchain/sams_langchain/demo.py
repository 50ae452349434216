"""The demo's gullible agent as a real LangChain agent: only what the model says is scripted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool

from sams_core import AgentSession
from sams_core.demo.agent import Agent, gullible
from sams_langchain import SamsMiddleware
from sams_langchain.scripted import ScriptedModel, said


class LangChainAgent:
    """Runs `create_agent`'s loop: read a page, look up the version, write what the page says."""

    def __init__(self, session: AgentSession, fetch: Callable[[str], str]) -> None:
        @tool
        def fetch_page(url: str) -> str:
            """Return the title and the text of a web page."""
            return fetch(url)

        self._agent: Any = create_agent(
            ScriptedModel(say=_say), [fetch_page], middleware=[SamsMiddleware(session)]
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


def _say(messages: list[BaseMessage], tools: list[dict[str, Any]]) -> AIMessage:
    """Stand where a model would be: told everything that one would be told, and believing it."""
    task = json.loads([str(m.content) for m in messages if m.type == "human"][-1])
    answers = {str(m.name): str(m.content) for m in messages if isinstance(m, ToolMessage)}
    call = gullible(task, answers, "fetch_page")
    return said("", (*call, f"call-{len(answers)}")) if call else said("It is queued for review.")


def agent(session: AgentSession, fetch: Callable[[str], str]) -> Agent:
    """Return the story's agent; `fetch` becomes an ordinary tool that nobody declared."""
    return LangChainAgent(session, fetch)
