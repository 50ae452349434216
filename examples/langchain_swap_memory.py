"""Swapping the memory of a LangChain agent for governed memory.

    python examples/langchain_swap_memory.py [URL [FOLDER]]

then look at what waits: sams --base FOLDER review list tenant:acme. The model is scripted, or real with
OPENAI_API_KEY or ANTHROPIC_API_KEY (pip install langchain-openai or -anthropic). The swap:

    - agent = create_agent(model, [fetch_page, *langmem_tools], store=InMemoryStore())
    + session = AgentSession(SQLiteBackend(folder), session_id=..., agent=..., assigned=..., user=...)
    + agent = create_agent(model, [fetch_page], middleware=[SamsMiddleware(session)])
"""

from __future__ import annotations

import os
import sys
import tempfile
import urllib.request
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model

from sams_core import AgentSession, Owner, SQLiteBackend
from sams_langchain import SamsMiddleware
from sams_langchain.scripted import said, scripted

REAL = {"OPENAI_API_KEY": "openai:gpt-5.5", "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-5"}


def fetch_page(url: str) -> str:
    """Return a web page."""
    with urllib.request.urlopen(url, timeout=10) as page:
        text: str = page.read(100_000).decode("utf-8", "replace")
        return text


def add(a: int, b: int) -> int:
    """Add two numbers: insiders wrote all that this can return, so it is trusted by name below."""
    return a + b


def model(url: str) -> Any:
    """Return a real model if there is a key, else one that reads the page and remembers it."""
    for key, name in REAL.items():
        if os.environ.get(key):
            return init_chat_model(name)

    def remember(messages: Any, tools: Any) -> Any:
        note = {"scope": "assigned", "path": "notes/page", "description": "What the page says"}
        note |= {"content": messages[-1].content, "expected_version": None}
        return said("", ("memory_write", note, "c3"))

    first = said("", ("add", {"a": 40, "b": 2}, "c1"))
    return scripted(first, said("", ("fetch_page", {"url": url}, "c2")), remember, "It is queued.")


def main(url: str, folder: str) -> None:
    backend = SQLiteBackend(folder)
    # From authenticated state of the server, never from the model or the request's body:
    names: Any = {"session_id": "ticket-1", "agent": "helper", "assigned": "tenant:acme"}
    session = AgentSession(backend, user="insider", **names)
    memory = SamsMiddleware(session, trusted=[add])
    agent = create_agent(model(url), [fetch_page, add], middleware=[memory])
    task = f"Add 40 and 2. Then read {url} and write what it says to memory, under notes/page."
    state = agent.invoke({"messages": [("user", task)]})  # type: ignore[list-item]
    for message in state["messages"][1:]:
        print(f"{message.type}:", str(message.content)[:80].replace("\n", " "))
    for change in Owner(backend, "olga").changes("tenant:acme"):  # the run is over: owners may look
        print("waiting:", change.path, "tainted" if change.tainted else "clean")
        print("because of:", *(f"{source.kind} {source.name}" for source in change.sources))
    backend.close()


if __name__ == "__main__":
    page = sys.argv[1] if len(sys.argv) > 1 else "data:text/plain,Open%209%20to%205."
    with tempfile.TemporaryDirectory() as new:
        main(page, sys.argv[2] if len(sys.argv) > 2 else new)
