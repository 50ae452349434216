"""A process that read is killed; what goes on in the next one, without reading again, is labelled.

Two real processes on one store and one file of threads: the first plays the beginning of every case and
is killed inside a tool, the second plays the ends, which all write.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sams_core import Owner, SQLiteBackend

LIVES = '''
import asyncio, json, os, signal, sys
from contextlib import nullcontext
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, interrupt
from sams_core import AgentSession, SQLiteBackend
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.scripted import said, scripted

folder, life, cases = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
backend = SQLiteBackend(folder + "/store")
ran = []

def fetch(query: str) -> str:
    "Fetch a page."
    ran.append("fetch")
    return "outsiders wrote this"

def calc(query: str) -> str:
    "Compute."
    ran.append("calc")
    return "42"

def killed(query: str) -> str:
    "Fetch a page, if there is time."
    os.kill(os.getpid(), signal.SIGKILL)

def person(question: str) -> str:
    "Ask a person."
    return str(interrupt(question))

TRUSTED = [calc, person]

def script(kind, source, write):
    """What the model says in this life."""
    reads = (source, {"query": "q"}, "c")
    if kind == "approved":
        return [said("", reads, write), "done"] if life == "first" else ["done"]
    if life == "second":
        return [said("", write), "done"]
    if kind == "next":
        return [said("", reads), "done"]
    return [said("", reads, ("person", {"question": "sure?"}, "p"))]

def given(kind):
    if life == "first" or kind == "next":
        return {"messages": [("user", "go")]}
    yes = {"decisions": [{"type": "approve"}]} if kind == "approved" else "yes"
    return Command(resume=yes)

async def later(agent, *what):
    async with AsyncSqliteSaver.from_conn_string(folder + "/threads.db") as agent.checkpointer:
        await agent.ainvoke(*what)

def play(case):
    kind, source, mode = case.split("-")
    name = case + "-2" if kind == "other" and life == "second" else case
    session = AgentSession(backend, session_id=name, agent="a", assigned="tenant:acme", user="insider")
    note = {"scope": "assigned", "path": "facts/" + case, "content": "7", "description": "d",
            "expected_version": None}
    alone = kind == "alone"
    middleware = [] if alone else [SamsMiddleware(session, trusted=TRUSTED)]
    if kind == "approved":
        middleware.append(HumanInTheLoopMiddleware(interrupt_on={"memory_write": True}))
    tools = [fetch, calc, killed, person, *(memory_tools() if alone else [])]
    model = scripted(*script(kind, source, ("memory_write", note, "w")))
    agent = create_agent(model, tools, middleware=middleware)
    what = given(kind), {"configurable": {"thread_id": case}}
    with govern(trusted=TRUSTED)(session) if alone else nullcontext():
        if mode == "ainvoke":
            asyncio.run(later(agent, *what))
        else:
            with SqliteSaver.from_conn_string(folder + "/threads.db") as agent.checkpointer:
                agent.invoke(*what)

for case in cases:
    ran.clear()
    play(case)
    print(case, *ran, flush=True)
'''
KINDS = ("resumed", "approved", "next", "other", "alone")
CASES = [f"{k}-{s}-{m}" for k in KINDS for s in ("fetch", "calc") for m in ("invoke", "ainvoke")]
KILLED = "next-killed-invoke"  # the last one: it takes the first process with it


def live(folder: Path, life: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-W", "error", "-c", LIVES, str(folder), life]
    cases = json.dumps([*CASES, KILLED])
    return subprocess.run([*words, cases], capture_output=True, text=True, timeout=120, check=False)


def ran(life: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in life.stdout.splitlines()}


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What ran in each life, and whether what was written in the end is labelled."""
    folder = tmp_path_factory.mktemp("lives")
    first, second = live(folder, "first"), live(folder, "second")
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert second.returncode == 0, second.stderr
    backend = SQLiteBackend(folder / "store")
    changes = Owner(backend, "olga").changes("tenant:acme")
    backend.close()
    labelled = {c.path.removeprefix("facts/"): c.tainted for c in changes}
    return ran(first), ran(second), labelled


@pytest.mark.parametrize("case", CASES)
def test_what_goes_on_in_the_next_process_is_labelled_if_outsiders_text_was_read(
    case: str, lives: Any
) -> None:
    first, second, labelled = lives
    kind, source, _ = case.split("-")
    # An approver is asked before anything runs; in all other cases nothing is read twice.
    assert (first[case], second[case]) == (([], [source]) if kind == "approved" else ([source], []))
    # Another session's thread, and one that only a block governed, count as read elsewhere.
    assert labelled[case] == (source == "fetch" or kind in ("other", "alone"))


def test_a_process_that_died_while_it_read_leaves_its_mark(lives: Any) -> None:
    first, second, labelled = lives
    assert KILLED not in first and second[KILLED] == []
    assert labelled[KILLED]
