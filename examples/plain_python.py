"""Governed memory under an agent loop of your own, with no framework.

    python examples/plain_python.py [URL [FOLDER]]

then look at what waits: sams --base FOLDER review list tenant:acme

The model is scripted, so that this runs without a key; put yours where `scripted_model` is called.
The three lines marked (1) to (3) are what governed memory adds to the loop.
"""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from sams_core import TOOL_NAMES, AgentSession, Owner, SQLiteBackend

Call = tuple[str, str, dict[str, Any]]  # id, tool, arguments


def fetch_page(url: str) -> str:
    """Return a web page."""
    with urllib.request.urlopen(url, timeout=10) as page:
        text: str = page.read(100_000).decode("utf-8", "replace")
        return text


def add(a: int, b: int) -> int:
    """Add two numbers: insiders wrote all that this can return, so it stays unwrapped."""
    return a + b


def scripted_model(task: str, url: str) -> Iterator[Call]:
    """Stand where a model would: a real one gets `session.tool_schemas()` beside the app's tools."""
    answer = yield "c1", "add", {"a": 40, "b": 2}
    answer = yield "c2", "fetch_page", {"url": url}
    note = {
        "scope": "assigned",
        "path": "notes/page",
        "description": task,
        "expected_version": None,
    }
    yield "c3", "memory_write", note | {"content": answer}


def run_agent(session: AgentSession, task: str, url: str) -> list[str]:
    """Run one task to its end and return what the tools answered."""
    tools: dict[str, Callable[..., Any]] = {
        "add": add,
        "fetch_page": session.tainting(fetch_page),
    }  # (1)
    prompt = (
        f"{session.context_block()}\n{task}"  # (2) as data in the conversation, not as instructions
    )
    model, answers = scripted_model(prompt.splitlines()[-1], url), []
    with session.active():
        call = next(model, None)
        while call is not None:
            call_id, name, arguments = call
            if name in TOOL_NAMES:
                answer = session.call_tool(name, arguments, call_id=f"m1:{call_id}")  # (3)
            else:
                answer = str(tools[name](**arguments))
            answers.append(answer)
            try:
                call = model.send(answer)  # type: ignore[attr-defined]
            except StopIteration:
                call = None
    return answers


def main(url: str, base: str) -> None:
    """Let an agent read a page and remember it, and the owner look at what it wants to keep."""
    backend = SQLiteBackend(base)
    # From authenticated state of the server, never from the model or the request's body:
    session = AgentSession(
        backend, session_id="ticket-1", agent="helper", assigned="tenant:acme",
        user="insider", observed="by-hand",
    )  # fmt: skip
    for answer in run_agent(session, "What does the page say?", url):
        print("tool:", json.dumps(answer[:80]))
    (change,) = Owner(backend, "olga").changes("tenant:acme")
    print("waiting:", change.path, "tainted" if change.tainted else "clean")
    print("because of:", *(source.name for source in change.sources))
    backend.close()


if __name__ == "__main__":
    page = sys.argv[1] if len(sys.argv) > 1 else "data:text/plain,Open%209%20to%205."
    with tempfile.TemporaryDirectory() as folder:
        main(page, sys.argv[2] if len(sys.argv) > 2 else folder)
