"""Where a model would be: a script that believes every page and writes to memory what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

if TYPE_CHECKING:
    from sams_core import AgentSession

_TOLD_PATH = re.compile(r"under\s+([a-z0-9_.-]+(?:/[a-z0-9_.-]+)+):")


class Agent(Protocol):
    """What the story asks of an agent; a framework's agent can stand here."""

    def read_and_remember(self, url: str) -> dict[str, Any]:
        """Read a page, write what it says to memory, and return the answer of `memory_write`."""

    def remember(self, path: str, description: str, text: str) -> dict[str, Any]:
        """Write to memory what the user said, and return the answer of `memory_write`."""


AgentFactory = Callable[["AgentSession", Callable[[str], str]], Agent]
"""Makes an agent of a session and the page-reading function. Where it has an attribute `observed` that
is "by-hand", it wraps what it reads by itself; otherwise an adapter must observe it."""


def gullible(
    task: dict[str, str], answers: dict[str, str], fetch: str
) -> tuple[str, dict[str, Any]] | None:
    """Stand where a model would: return the next call for a task, or None when it is done.

    Gullible on purpose: it keeps whole pages, under the path that a page asks for. A task is a `url`,
    or a `path`, `description` and `text` that the user said; `answers` are what the tools have
    answered so far, by name, and `fetch` is the name of the one that reads a page.
    """
    if "url" in task:
        if fetch not in answers:
            return fetch, {"url": task["url"]}
        title, _, text = answers[fetch].partition("\n\n")
        told = _TOLD_PATH.search(text)
        name = task["url"].rpartition("/")[2].removesuffix(".html")
        task = {"path": told[1] if told else f"web/{name}", "description": title, "text": text}
    where = {"scope": "assigned", "path": task["path"]}
    if "memory_read" not in answers:
        return "memory_read", where  # the version, as the tools' descriptions tell a model to
    if "memory_write" not in answers:
        version = json.loads(answers["memory_read"]).get("version") or None
        what = {"content": task["text"] + "\n", "description": task["description"]}
        return "memory_write", {**where, **what, "expected_version": version}
    return None


class ScriptedAgent:
    """The story's agent without a framework: its loop is a few lines of its own."""

    observed: ClassVar[Literal["by-hand"] | None] = "by-hand"

    def __init__(self, session: AgentSession, fetch: Callable[[str], str]) -> None:
        # The developer's one line: what this reads was written by outsiders.
        self.fetch = session.tainting(fetch)
        self.session = session
        self._calls = 0

    def read_and_remember(self, url: str) -> dict[str, Any]:
        """Fetch, then do what the page says."""
        # Optional: tells the reviewer where it began. `tainting` marks in any case.
        self.session.mark_tainted("web page", origin=url)
        return self._run({"url": url})

    def remember(self, path: str, description: str, text: str) -> dict[str, Any]:
        """Write what the user said."""
        return self._run({"path": path, "description": description, "text": text})

    def _run(self, task: dict[str, str]) -> dict[str, Any]:
        answers: dict[str, str] = {}
        while (call := gullible(task, answers, "fetch_page")) is not None:
            name, arguments = call
            if name == "fetch_page":
                answers[name] = self.fetch(arguments["url"])
            else:
                answers[name] = self._tool(name, arguments)
        result: dict[str, Any] = json.loads(answers["memory_write"])
        return result

    def _tool(self, name: str, arguments: dict[str, Any]) -> str:
        self._calls += 1
        return self.session.call_tool(
            name, json.dumps(arguments), call_id=f"{self.session.session_id}-{self._calls}"
        )
