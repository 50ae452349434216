"""Where a model would be: a script that believes every page and writes to memory what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

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


class ScriptedAgent:
    """Gullible on purpose: it keeps whole pages, under the path that a page asks for."""

    def __init__(self, session: AgentSession, fetch: Callable[[str], str]) -> None:
        # The developer's one line: what this reads was written by outsiders.
        self.fetch = session.tainting(fetch)
        self.session = session
        self._calls = 0

    def read_and_remember(self, url: str) -> dict[str, Any]:
        """Fetch, then do what the page says."""
        # Optional: tells the reviewer where it began. `tainting` marks in any case.
        self.session.mark_tainted("web page", origin=url)
        title, _, text = self.fetch(url).partition("\n\n")
        told = _TOLD_PATH.search(text)
        path = told[1] if told else "web/" + url.rpartition("/")[2].removesuffix(".html")
        return self.remember(path, title, text)

    def remember(self, path: str, description: str, text: str) -> dict[str, Any]:
        """Look up the version, then write, as the tools' descriptions tell a model to."""
        known = self._tool("memory_read", {"scope": "assigned", "path": path})
        return self._tool(
            "memory_write",
            {
                "scope": "assigned",
                "path": path,
                "content": text + "\n",
                "description": description,
                "expected_version": known.get("version") or None,
            },
        )

    def _tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        answer = self.session.call_tool(
            name, json.dumps(arguments), call_id=f"{self.session.session_id}-{self._calls}"
        )
        result: dict[str, Any] = json.loads(answer)
        return result
