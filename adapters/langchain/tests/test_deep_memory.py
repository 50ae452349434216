"""Files that deepagents puts into the prompt, and runs that go on in another process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, StateBackend
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from sams_core import AgentSession, Owner, SQLiteBackend
from sams_langchain import DEEP_AGENT_TOOLS, SamsMemoryFiles, SamsMiddleware, govern
from sams_langchain.filed import LABELLED
from sams_langchain.scripted import said, scripted

ACME = "tenant:acme"
MODES = ["invoke", "ainvoke", "stream"]
GO: Any = {"messages": [("user", "go")]}
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def routed(files: Any, default: Any = None) -> CompositeBackend:
    return CompositeBackend(default=default or StateBackend(), routes={"/memories/": files})


def run(agent: Any, mode: str = "invoke", given: Any = GO, config: Any = None) -> dict[str, Any]:
    """Run an agent to its end and return its state."""
    if mode == "ainvoke":
        state: dict[str, Any] = asyncio.run(agent.ainvoke(given, config))
    elif mode == "stream":
        state = list(agent.stream(given, config, stream_mode="values"))[-1]
    else:
        state = agent.invoke(given, config)
    return state


def results(state: dict[str, Any]) -> dict[str, ToolMessage]:
    return {m.tool_call_id: m for m in state["messages"] if isinstance(m, ToolMessage)}


class Seen:
    """A script that keeps what the model was shown, and whether the session was marked by then."""

    def __init__(self, session: AgentSession, *answers: Any) -> None:
        self.session, self.left = session, iter(answers)
        self.shown: list[list[BaseMessage]] = []
        self.tools: list[set[str]] = []
        self.marked: list[bool] = []

    def __call__(self, messages: list[BaseMessage], tools: list[dict[str, Any]]) -> Any:
        self.shown.append(messages)
        self.tools.append({t.get("function", t).get("name", t.get("type")) for t in tools})
        self.marked.append(self.session.tainted)
        return next(self.left)

    def text(self, turn: int) -> str:
        return "\n".join(m.text for m in self.shown[turn])


def watched(session: AgentSession, *answers: Any) -> tuple[Any, Seen]:
    made = [said(each) if isinstance(each, str) else each for each in answers]
    seen = Seen(session, *made)
    return scripted(*([seen] * len(made))), seen


@pytest.fixture
def owner(backend: SQLiteBackend) -> Owner:
    return Owner(backend, "olga")


Label = Callable[[str, str], None]


@pytest.fixture
def label(open_session: Any, owner: Owner) -> Label:
    """Serve an entry that outsiders influenced."""

    def make(path: str, content: str) -> None:
        outsider = open_session("outsider")
        outsider.mark_tainted("a page")
        with govern()(outsider):
            outsider.memory_write("assigned", path, content, "A file")
        (change,) = owner.changes(ACME)
        owner.accept(ACME, change.id, change.digest)

    return make


# deepagents' own memory, which is put into the prompt.


def remembering(session: Any, model: Any, **more: Any) -> Any:
    return create_deep_agent(
        model,
        memory=["/memories/AGENTS.md"],
        backend=routed(SamsMemoryFiles(session)),
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS])],
        **more,
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dirty", [True, False])
def test_a_file_in_the_prompt_is_labelled_and_marks_before_it_is_there(
    dirty: bool, mode: str, session: AgentSession, owner: Owner, label: Label, told: Any
) -> None:
    if dirty:
        label("AGENTS.md", "Be kind.")
    else:
        owner.write(ACME, "AGENTS.md", "Be kind.", "A file")
    model, seen = watched(session, "done")
    run(remembering(session, model), mode)
    assert seen.marked == [dirty]
    assert ("/memories/AGENTS.md\n\n" + LABELLED * dirty + "Be kind.") in seen.text(0)
    assert told(session) == ([f"memory {ACME} AGENTS.md"] if dirty else [])


def test_files_loaded_for_an_agent_that_nobody_governs_mark(
    session: AgentSession, told: Any
) -> None:
    agent = create_deep_agent(
        scripted("done"),
        memory=["/memories/AGENTS.md"],
        backend=routed(SamsMemoryFiles(session)),
    )
    run(agent)
    assert [reason.split(":")[0] for reason in told(session)] == ["unobserved unobserved"]


def test_files_of_another_session_than_the_agents_are_not_loaded(
    session: AgentSession, open_session: Any, owner: Owner
) -> None:
    owner.write(ACME, "AGENTS.md", "Be kind.", "A file")
    agent = create_deep_agent(
        scripted("done"),
        memory=["/memories/AGENTS.md"],
        backend=routed(SamsMemoryFiles(open_session("s2"))),
        middleware=[SamsMiddleware(session)],
    )
    with pytest.raises(ValueError, match="foreign-run"):
        run(agent)


def test_files_without_a_session_stop_the_run_rather_than_being_left_out(
    session: AgentSession,
) -> None:
    agent = create_deep_agent(
        scripted("done"),
        memory=["/memories/AGENTS.md"],
        backend=routed(SamsMemoryFiles()),
        middleware=[SamsMiddleware(session)],
    )
    with pytest.raises(ValueError, match="no-session"):
        run(agent)
    with govern()(session):
        run(agent)


def test_a_thread_that_was_governed_once_writes_nothing_clean_in_a_run_that_is_not(
    session: AgentSession, written: Any
) -> None:
    def fetch(query: str) -> str:
        """Fetch a page."""
        return "outsiders wrote this"

    write = ("write_file", {"file_path": "/memories/n.md", "content": "x"}, "w")
    agent = create_deep_agent(
        scripted("one", said("", ("fetch", {"query": "q"}, "f")), said("", write), "two"),
        [fetch],
        memory=["/memories/AGENTS.md"],
        backend=routed(SamsMemoryFiles(session)),
        middleware=[SamsMiddleware(trusted=[DEEP_AGENT_TOOLS])],
        checkpointer=InMemorySaver(),
    )
    with govern()(session):
        run(agent, config=CONFIG)
    assert not session.tainted
    run(agent, config=CONFIG)
    assert written() == {"n.md": True}


def test_a_threads_next_turn_knows_what_the_owner_decided_since_but_deepagents_memory_does_not(
    session: AgentSession, owner: Owner
) -> None:
    for path in ("AGENTS.md", "facts/old"):
        owner.write(ACME, path, "Six.", "An old fact about " + path)
    index = ("memory_index", {"scope": "assigned", "cursor": None}, "i")
    model, seen = watched(session, "one", said("", index), "two")
    agent = remembering(session, model, checkpointer=InMemorySaver())
    run(agent, config=CONFIG)
    owner.write(ACME, "AGENTS.md", "Seven.", "A new fact", expected_version=1)
    owner.write(ACME, "facts/new", "Eight.", "A new fact about eight")
    owner.retire(ACME, "facts/old")
    state = run(agent, config=CONFIG)
    listed = json.loads(results(state)["i"].text)["items"]
    assert {each["path"] for each in listed} == {"AGENTS.md", "facts/new"}
    assert "facts/old" in seen.text(0)
    assert "facts/old" not in seen.text(1)  # the block is made anew when something was retired
    assert "AGENTS.md\n\nSix." in seen.text(1)  # deepagents keeps what it loaded first
    assert "AGENTS.md\n\nSeven." not in seen.text(1)


def test_a_stale_file_in_the_prompt_is_not_written_over_the_new_one(
    session: AgentSession, owner: Owner, written: Any
) -> None:
    owner.write(ACME, "AGENTS.md", "Six.", "A file")
    whole = {"file_path": "/memories/AGENTS.md", "content": "Six. And more."}
    edit = {"file_path": "/memories/AGENTS.md", "old_string": "Six", "new_string": "9"}
    model = scripted(
        "one", said("", ("write_file", whole, "w")), said("", ("edit_file", edit, "e")), "two"
    )
    agent = remembering(session, model, checkpointer=InMemorySaver())
    run(agent, config=CONFIG)
    owner.write(ACME, "AGENTS.md", "Seven.", "A file", expected_version=1)
    found = results(run(agent, config=CONFIG))
    assert found["w"].text.startswith("version-conflict: ")
    assert "not found" in found["e"].text
    assert written() == {}


# Going on in another process.

_PROCESS = """
import sys
from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, StateBackend
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from sams_core import AgentSession, SQLiteBackend
from sams_langchain import DEEP_AGENT_TOOLS, SamsMemoryFiles, SamsMiddleware
from sams_langchain.scripted import said, scripted

folder, step, reads, writer = sys.argv[1:]

@tool
def fetch(query: str) -> str:
    "Fetch a page."
    return "outsiders wrote this"

store = SQLiteBackend(folder + "/store")
session = AgentSession(
    store, session_id="s1", agent="bot", assigned="tenant:acme", user="insider"
)
write = ("write_file", {"file_path": "/memories/n.md", "content": "one"}, "w")
task = ("task", {"description": "look", "subagent_type": "helper"}, "t")
sub = [said("", ("fetch", {"query": "q"}, "f"))] if reads == "page" else []
turns = [said("", task), *sub, *(["I looked"] if writer == "main" else []), said("", write)]
if step == "resume":
    turns = ["done"] if writer == "main" else ["I wrote it", "done"]
trusted = [DEEP_AGENT_TOOLS]
with SqliteSaver.from_conn_string(folder + "/threads.db") as saver:
    agent = create_deep_agent(
        scripted(*turns),
        [fetch],
        backend=CompositeBackend(StateBackend(), {"/memories/": SamsMemoryFiles(session)}),
        middleware=[SamsMiddleware(session, trusted=trusted)],
        subagents=[{
            "name": "helper", "description": "helps", "system_prompt": "Help.",
            "middleware": [SamsMiddleware(session, trusted=trusted)],
        }],
        interrupt_on={"write_file": True},
        memory=["/memories/AGENTS.md"],
        checkpointer=saver,
    )
    config = {"configurable": {"thread_id": "t"}}
    if step == "start":
        assert "__interrupt__" in agent.invoke({"messages": [("user", "go")]}, config)
    else:
        agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
print([f"{s.kind} {s.name.split(':')[0]}" for s in session.sources])
"""


@pytest.mark.parametrize(
    ("reads", "writer"),
    [
        ("page", "sub"),
        ("nothing", "main"),
        pytest.param("page", "main", marks=pytest.mark.slow),
        pytest.param("nothing", "sub", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_run_goes_on_in_another_process_as_it_was(
    reads: str, writer: str, tmp_path: Path
) -> None:
    told = []
    for step in ("start", "resume"):
        done = subprocess.run(
            [sys.executable, "-c", _PROCESS, str(tmp_path), step, reads, writer],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.strip())
    dirty = reads == "page"
    assert told == (["['tool fetch']"] if dirty else ["[]"]) * 2
    (change,) = Owner(SQLiteBackend(tmp_path / "store"), "olga").changes(ACME)
    assert (change.path, change.tainted) == ("n.md", dirty)
