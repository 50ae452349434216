"""Deep agents as `create_deep_agent` builds them: sub-agents, files, rules, approvals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from deepagents import (
    FilesystemPermission,
    create_deep_agent,
)
from deepagents.backends import CompositeBackend, StateBackend
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from sams_core import AgentSession, Owner, SQLiteBackend
from sams_langchain import (
    DEEP_AGENT_TOOLS,
    SamsMemoryFiles,
    SamsMiddleware,
    memory_tools,
)
from sams_langchain.scripted import said, scripted

ACME = "tenant:acme"
MODES = ["invoke", "ainvoke", "stream"]
GO: Any = {"messages": [("user", "go")]}
CONFIG: Any = {"configurable": {"thread_id": "t"}}
MEMORY_TOOLS = {"memory_index", "memory_read", "memory_search", "memory_write"}
WRITE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}
GENERAL = ("task", {"description": "look", "subagent_type": "general-purpose"}, "t")
HELPER = ("task", {"description": "look", "subagent_type": "helper"}, "t")
FETCH = ("fetch", {"query": "q"}, "f")


@tool
def fetch(query: str) -> str:
    """Fetch a page."""
    return "outsiders wrote this"


def helper(**more: Any) -> Any:
    return {"name": "helper", "description": "helps", "system_prompt": "Help.", **more}


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


# The agent and its sub-agents.


@pytest.mark.parametrize("mode", MODES)
def test_a_deep_agent_that_reads_nothing_of_outsiders_stays_clean(
    mode: str, session: AgentSession, owner: Owner, written: Any, told: Any
) -> None:
    owner.write(ACME, "facts/old", "Six.", "An old fact")
    edit = {"file_path": "/memories/n.md", "old_string": "one", "new_string": "two"}
    model, seen = watched(
        session,
        said("", ("write_file", {"file_path": "/plan.md", "content": "1. look"}, "p")),
        said("", ("read_file", {"file_path": "/plan.md"}, "r"), ("ls", {"path": "/"}, "l")),
        said("", GENERAL),
        "I looked",
        said("", ("write_file", {"file_path": "/memories/n.md", "content": "one"}, "w")),
        said("", ("edit_file", edit, "e")),
        said("", ("glob", {"pattern": "*.md"}, "g"), ("grep", {"pattern": "Six"}, "s")),
        said("", ("delete", {"file_path": "/memories/n.md"}, "d"), ("memory_write", WRITE, "m")),
        "done",
    )
    agent = create_deep_agent(
        model,
        [fetch],
        backend=routed(SamsMemoryFiles(session)),
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS])],
    )
    state = run(agent, mode)
    assert told(session) == []
    assert written() == {"n.md": False, "facts/code": False}
    assert seen.tools[0] >= MEMORY_TOOLS and "An old fact" in seen.text(0)
    found = results(state)
    assert found["r"].content == "@@ lines 1-1 of 1 @@\n1. look"
    assert found["w"].text.startswith("queued for review as ")
    assert found["e"].text.startswith("1 replaced; queued for review as ")
    assert found["s"].content == "/memories/facts/old"
    assert "deletion is the owner's" in found["d"].text


def test_without_the_declaration_deepagents_own_tools_mark(
    session: AgentSession, told: Any
) -> None:
    model = scripted(said("", ("ls", {"path": "/"}, "l")), "done")
    run(create_deep_agent(model, middleware=[SamsMiddleware(session)]))
    assert told(session) == [
        "tool ls: undeclared; govern(trusted=[DEEP_AGENT_TOOLS]) would declare it"
    ]


@pytest.mark.filterwarnings("ignore:The feature `forked subagents` is in beta")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sub", ["general", "bare", "governed", "forked"])
def test_what_a_sub_agent_reads_marks_the_family(
    sub: str, mode: str, session: AgentSession, written: Any, told: Any
) -> None:
    model = scripted(
        said("", GENERAL if sub == "general" else HELPER),
        said("", FETCH),
        "I read it",
        said("", ("memory_write", WRITE, "w")),
        "done",
    )
    trusted = [DEEP_AGENT_TOOLS]
    own = {"middleware": [SamsMiddleware(session, trusted=trusted)]} if sub == "governed" else {}
    forked = {"mode": "fork"} if sub == "forked" else {}
    agent = create_deep_agent(
        model,
        [fetch],
        middleware=[SamsMiddleware(session, trusted=trusted)],
        subagents=[] if sub == "general" else [helper(**own, **forked)],
    )
    run(agent, mode)
    assert told(session) == ["tool fetch: undeclared; govern(trusted=[fetch]) would declare it"]
    assert written() == {"facts/code": True}


@pytest.mark.filterwarnings("ignore:The feature `forked subagents` is in beta")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sub", ["bare", "governed", "forked"])
def test_a_sub_agent_that_reads_nothing_of_outsiders_leaves_the_family_clean(
    sub: str, mode: str, session: AgentSession, written: Any, told: Any
) -> None:
    trusted = [DEEP_AGENT_TOOLS]
    own = {"middleware": [SamsMiddleware(session, trusted=trusted)]} if sub == "governed" else {}
    forked = {"mode": "fork"} if sub == "forked" else {}
    agent: Any = create_deep_agent(
        scripted(
            *(said("", HELPER), said("", ("ls", {"path": "/"}, "l")), "I looked"),
            *(said("", ("memory_write", WRITE, "w")), "done"),
            "hello again",
        ),
        [fetch],
        middleware=[SamsMiddleware(session, trusted=trusted)],
        subagents=[helper(**own, **forked)],
        checkpointer=InMemorySaver(),
    )
    run(agent, mode, config=CONFIG)
    run(agent, mode, config=CONFIG)
    assert told(session) == []
    assert written() == {"facts/code": False}


@pytest.mark.parametrize("given", ["nothing", "tools", "middleware"])
def test_a_sub_agent_has_the_memory_tools_that_it_was_given(
    given: str, session: AgentSession, written: Any
) -> None:
    own: dict[str, Any] = {
        "nothing": {"tools": [fetch]},
        "tools": {"tools": [fetch, *memory_tools()]},
        "middleware": {"tools": [fetch], "middleware": [SamsMiddleware(session)]},
    }[given]
    model, seen = watched(
        session,
        said("", HELPER),
        said("", FETCH),
        said("", ("memory_write", WRITE, "w")),
        "I wrote it",
        "done",
    )
    agent = create_deep_agent(
        model,
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS])],
        subagents=[helper(**own)],
    )
    run(agent)
    assert seen.tools[0] >= MEMORY_TOOLS
    assert bool(seen.tools[1] & MEMORY_TOOLS) == (given != "nothing")
    assert written() == ({} if given == "nothing" else {"facts/code": True})


def test_the_general_purpose_sub_agent_has_no_memory_tools_but_the_files(
    session: AgentSession, written: Any
) -> None:
    model, seen = watched(
        session,
        said("", GENERAL),
        said("", ("write_file", {"file_path": "/memories/n.md", "content": "one"}, "w")),
        "I wrote it",
        "done",
    )
    agent = create_deep_agent(
        model,
        backend=routed(SamsMemoryFiles()),
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS])],
    )
    run(agent)
    assert not seen.tools[1] & MEMORY_TOOLS
    assert written() == {"n.md": False}


@pytest.mark.parametrize("mode", MODES)
def test_a_hosted_tool_of_a_sub_agent_marks_before_it_is_offered(
    mode: str, session: AgentSession, told: Any
) -> None:
    model, seen = watched(session, said("", HELPER), "I searched", "done")
    agent = create_deep_agent(
        model,
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS])],
        subagents=[helper(tools=[{"type": "web_search"}])],
    )
    run(agent, mode)
    assert seen.marked == [False, True, True]
    assert told(session) == ["content offered hosted web_search"]


@pytest.mark.parametrize("named", [True, False])
def test_a_compiled_sub_agent_is_named_like_a_tool(
    named: bool, session: AgentSession, told: Any
) -> None:
    compiled = create_agent(scripted("I looked"), [])
    trusted = [DEEP_AGENT_TOOLS, *([compiled] if named else [])]
    agent = create_deep_agent(
        scripted(said("", HELPER), "done"),
        middleware=[SamsMiddleware(session, trusted=trusted)],
        subagents=[{"name": "helper", "description": "helps", "runnable": compiled}],
    )
    run(agent)
    found = [] if named else ["tool task: undeclared; govern(trusted=[task]) would declare it"]
    assert told(session) == found


def test_a_sub_agent_replaces_no_file_that_only_its_caller_has_read(
    session: AgentSession, owner: Owner, written: Any
) -> None:
    owner.write(ACME, "a.md", "first", "A file")
    answers: list[str] = []

    def reports(messages: Any, tools: Any) -> Any:
        answers.append(messages[-1].text)
        return said("done")

    write = ("write_file", {"file_path": "/memories/a.md", "content": "second"}, "w")
    model = scripted(
        said("", ("read_file", {"file_path": "/memories/a.md"}, "r")),
        said("", GENERAL),
        said("", write),
        reports,
        said("", write),
        "done",
    )
    agent = create_deep_agent(
        model,
        backend=routed(SamsMemoryFiles(session)),
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS])],
    )
    state = run(agent)
    assert answers[0].startswith("version-conflict: ")
    assert results(state)["w"].text.startswith("queued for review as ")
    assert written() == {"a.md": False}


# What deepagents offers beside.


def test_rules_for_paths_hold_for_memory(session: AgentSession, owner: Owner) -> None:
    for path in ("hr/pay.md", "open.md"):
        owner.write(ACME, path, "seven", "A file")
    turns = [
        ("read_file", {"file_path": "/memories/hr/pay.md"}, "r"),
        ("grep", {"pattern": "seven"}, "g"),
        ("ls", {"path": "/memories/hr"}, "l"),
        ("write_file", {"file_path": "/memories/hr/new.md", "content": "x"}, "w"),
    ]
    agent = create_deep_agent(
        scripted(*[said("", each) for each in turns], "done"),
        backend=routed(SamsMemoryFiles(session)),
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS])],
        permissions=[
            FilesystemPermission(["read", "write"], ["/memories/hr/**"], mode="deny"),
        ],
    )
    found = results(run(agent))
    assert "permission denied" in found["r"].text and "permission denied" in found["w"].text
    assert found["g"].content == "/memories/open.md"
    assert "pay.md" not in found["l"].text
    assert owner.changes(ACME) == []


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_person_may_be_asked_before_a_file_is_queued(
    decision: str, session: AgentSession, written: Any, told: Any
) -> None:
    write = ("write_file", {"file_path": "/memories/n.md", "content": "one"}, "w")
    agent: Any = create_deep_agent(
        scripted(said("", write), "done"),
        backend=routed(SamsMemoryFiles(session)),
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS])],
        interrupt_on={"write_file": True},
        checkpointer=InMemorySaver(),
    )
    assert "__interrupt__" in agent.invoke(GO, CONFIG)
    assert written() == {}
    agent.invoke(Command(resume={"decisions": [{"type": decision}]}), CONFIG)
    assert written() == ({"n.md": False} if decision == "approve" else {})
    assert told(session) == []


def test_files_that_the_caller_gives_are_the_callers(session: AgentSession, told: Any) -> None:
    page = {"content": "given", "encoding": "utf-8"}
    agent: Any = create_deep_agent(
        scripted(said("", ("read_file", {"file_path": "/page.md"}, "r")), "done"),
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS])],
    )
    state = run(agent, given={**GO, "files": {"/page.md": page}})
    assert "given" in results(state)["r"].text
    assert told(session) == []  # who gives what outsiders wrote calls mark_tainted first


@pytest.mark.parametrize("mode", MODES)
def test_one_agent_serves_many_sessions_by_a_resolver(
    mode: str, open_session: Any, owner: Owner
) -> None:
    sessions = {name: open_session(name) for name in ("s1", "s2")}

    def of(runtime: Any) -> AgentSession:
        found: AgentSession = sessions[runtime.context["session"]]
        return found

    def agent(text: str) -> Any:
        write = ("write_file", {"file_path": f"/memories/{text}.md", "content": text}, "w")
        return create_deep_agent(
            scripted(said("", write), "done"),
            memory=["/memories/AGENTS.md"],
            backend=routed(SamsMemoryFiles(of)),
            middleware=[SamsMiddleware(of, trusted=[DEEP_AGENT_TOOLS])],
            context_schema=dict,
        )

    for name in sessions:
        one = agent(name)
        if mode == "ainvoke":
            asyncio.run(one.ainvoke(GO, context={"session": name}))
        elif mode == "stream":
            list(one.stream(GO, context={"session": name}))
        else:
            one.invoke(GO, context={"session": name})
    found = {c.path: (c.source_session, c.tainted) for c in owner.changes(ACME)}
    assert found == {"s1.md": ("s1", False), "s2.md": ("s2", False)}
