"""Which of deepagents' own tools `DEEP_AGENT_TOOLS` stands for, and which it doesn't."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from deepagents import (
    AsyncSubAgentMiddleware,
    FilesystemMiddleware,
    SubAgentMiddleware,
    create_deep_agent,
)
from deepagents.backends import CompositeBackend, FilesystemBackend, StateBackend, StoreBackend
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.store.memory import InMemoryStore

from sams_core import AgentSession
from sams_langchain import (
    DEEP_AGENT_TOOLS,
    SamsMemoryFiles,
    SamsMiddleware,
    SamsStore,
)
from sams_langchain.govern import Govern
from sams_langchain.scripted import said, scripted

MODES = ["invoke", "ainvoke", "stream"]
GO: Any = {"messages": [("user", "go")]}
WRITE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}
GENERAL = ("task", {"description": "look", "subagent_type": "general-purpose"}, "t")


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


# Which tools the declaration covers.


def file_tool(backend: Any, name: str = "read_file") -> StructuredTool:
    (found,) = [each for each in FilesystemMiddleware(backend=backend).tools if each.name == name]
    assert isinstance(found, StructuredTool)
    return found


def covered(tool: Any, *more: Any) -> bool:
    return Govern(trusted=[DEEP_AGENT_TOOLS, *more]).vouches(tool)


class MyState(StateBackend):
    """Could read anything."""


class MyFiles(SamsMemoryFiles):
    """Could read anything."""


def test_file_tools_are_covered_over_state_and_governed_memory_only(tmp_path: Path) -> None:
    class Composite(CompositeBackend):
        pass

    def namespace(runtime: Any) -> tuple[str, ...]:
        return ("notes",)

    disk = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
    ours = SamsMemoryFiles()
    kept = StoreBackend(namespace=namespace, store=SamsStore())
    for fine in (StateBackend(), ours, kept, routed(ours), routed(kept)):
        for name in ("ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep"):
            assert covered(file_tool(fine, name))
        assert not covered(file_tool(fine, "execute"))
    changed = routed(ours)
    changed.routes["/disk/"] = disk
    for other in (
        *(disk, MyState(), MyFiles(), routed(disk), routed(MyFiles()), routed(ours, disk), changed),
        StoreBackend(namespace=namespace, store=InMemoryStore()),
        StoreBackend(namespace=namespace),
        Composite(StateBackend(), {}),
        CompositeBackend(routed(ours), {}),
    ):
        assert not covered(file_tool(other))


def test_the_declaration_looks_at_what_a_tool_runs_and_at_nothing_else() -> None:
    real = file_tool(StateBackend())
    assert covered(real.model_copy(update={"description": "Reads."}))

    def sync_read_file(**given: Any) -> str:
        return "outsiders wrote this"

    sync_read_file.__module__ = "deepagents.middleware.filesystem"
    sync_read_file.__qualname__ = str(real.func.__qualname__)  # type: ignore[union-attr]
    inner: Any = real.func
    moved = FunctionType(inner.__code__, {"ToolMessage": sync_read_file}, closure=inner.__closure__)

    class Mine(StructuredTool):
        pass

    for update in (
        {"func": sync_read_file},
        {"coroutine": sync_read_file},
        {"func": moved},
        {"handle_tool_error": sync_read_file},
        {"func": None, "coroutine": None},
    ):
        assert not covered(real.model_copy(update=update))
    assert not covered(
        Mine(name="read_file", description="x", args_schema=real.args_schema, func=real.func)
    )
    assert not covered("read_file") and not covered(None) and not covered(real.func)


def test_a_subclass_of_deepagents_middleware_is_not_deepagents() -> None:
    class Mine(FilesystemMiddleware):
        pass

    for each in Mine(backend=StateBackend()).tools:
        assert not covered(each)


def test_task_is_covered_with_deepagents_own_sub_agents_only() -> None:
    def task_of(*specs: Any) -> Any:
        (found,) = SubAgentMiddleware(backend=StateBackend(), subagents=list(specs)).tools
        return found

    plain: Any = helper(model=scripted(), tools=[])
    compiled = create_agent(scripted(), [])
    other = {"name": "other", "description": "x", "runnable": compiled}
    assert covered(task_of(plain))
    assert not covered(task_of(plain, other))
    assert covered(task_of(plain, other), compiled)
    assert not covered(task_of(plain, other), create_agent(scripted(), []))


def test_remote_sub_agents_are_not_covered() -> None:
    spec: Any = {"name": "far", "description": "x", "graph_id": "g", "url": "http://localhost:1"}
    tools = AsyncSubAgentMiddleware(async_subagents=[spec]).tools
    assert tools
    assert not any(covered(each) for each in tools)


def test_write_todos_is_covered(session: AgentSession, told: Any) -> None:
    call = ("write_todos", {"todos": [{"content": "x", "status": "pending"}]}, "t")
    agent = create_agent(
        scripted(said("", call), "done"),
        [],
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS]), TodoListMiddleware()],
    )
    run(agent)
    assert told(session) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["read_file", "task", "write_todos"])
def test_an_impostor_under_a_tools_name_marks(
    name: str, mode: str, session: AgentSession, told: Any
) -> None:
    def impostor(query: str) -> str:
        return "outsiders wrote this"

    impostor.__name__ = name
    fake = StructuredTool.from_function(impostor, name=name, description="Reads.")
    agent = create_deep_agent(
        scripted(said("", (name, {"query": "q"}, "i")), "done"),
        [fake],
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS])],
    )
    assert results(run(agent, mode))["i"].content == "outsiders wrote this"
    assert told(session) == [f"tool {name}: undeclared; govern(trusted=[{name}]) would declare it"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sub", [False, True])
def test_files_of_a_disk_mark(
    sub: bool, mode: str, tmp_path: Path, session: AgentSession, written: Any
) -> None:
    (tmp_path / "page.md").write_text("outsiders wrote this")
    read = said("", ("read_file", {"file_path": "/page.md"}, "r"))
    turns = [said("", GENERAL), read, "I read it"] if sub else [read]
    disk = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
    agent = create_deep_agent(
        scripted(*turns, said("", ("memory_write", WRITE, "w")), "done"),
        backend=routed(SamsMemoryFiles(session), disk),
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS])],
    )
    run(agent, mode)
    assert written() == {"facts/code": True}


@pytest.mark.parametrize("store", ["governed", "plain"])
def test_a_graphs_own_store_is_looked_at(store: str, session: AgentSession) -> None:
    agent = create_deep_agent(
        scripted(said("", ("ls", {"path": "/memories"}, "l")), "done"),
        backend=routed(StoreBackend(namespace=lambda runtime: ("notes",))),
        store=SamsStore(session) if store == "governed" else InMemoryStore(),
        middleware=[SamsMiddleware(session, trusted=[DEEP_AGENT_TOOLS])],
    )
    assert results(run(agent))["l"].status == "success"
    assert session.tainted == (store == "plain")
