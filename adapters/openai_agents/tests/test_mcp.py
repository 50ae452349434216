"""Tools, descriptions, prompts and resources of a real MCP server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunContextWrapper, Runner, SQLiteSession
from agents.mcp import MCPServer, MCPServerStdio, MCPUtil
from agents.testing import function_call

from sams_core import PermissionDenied
from sams_openai_agents import govern, memory_tools, restored

pytestmark = pytest.mark.anyio
SERVER = str(Path(__file__).with_name("server.py"))


def connect(*words: str, name: str | None = "crm") -> MCPServerStdio:
    return MCPServerStdio(
        {"command": sys.executable, "args": [SERVER, *words]},
        name=name,
        client_session_timeout_seconds=60,
    )


def agent(lab: Any, server: Any, *answers: Any) -> Agent[Any]:
    return Agent(name="A", tools=memory_tools(), mcp_servers=[server], model=lab.script(*answers))


@pytest.fixture(params=["run", "run_streamed"])
def mode(lab: Any, request: pytest.FixtureRequest) -> Any:
    lab.mode = request.param
    return lab


@pytest.mark.parametrize("tool", ["fetch", "boom", None])
async def test_a_call_of_its_tool_or_its_descriptions_alone_mark(
    mode: Any, tool: str | None
) -> None:
    calls = [[function_call(tool, {"url": "u"}, call_id="c1")]] if tool else []
    async with connect() as server:
        session = await mode.play(agent(mode, server, *calls, [mode.write()]))
    assert [c.tainted for c in mode.changes()] == [True]
    assert any("MCP server crm" in source.name for source in session.sources)


@pytest.mark.parametrize("vouched", [None, "server", "tools"])
async def test_tools_made_of_it_by_hand_bring_its_descriptions_too(
    mode: Any, vouched: str | None
) -> None:
    async with connect("lookup") as server:
        reader = agent(mode, server, [mode.write()])
        made = await MCPUtil.get_function_tools(server, False, RunContextWrapper(None), reader)
        reader.mcp_servers, reader.tools = [], [*reader.tools, *made]
        trusted = {None: (), "server": (server,), "tools": tuple(made)}[vouched]
        session = await mode.play(reader, trusted=trusted)
    assert [c.tainted for c in mode.changes()] == [vouched is None], session.sources


async def test_a_server_that_the_harness_vouches_for_stays_clean(mode: Any) -> None:
    call = function_call("fetch", {"url": "u"}, call_id="c1")
    async with connect() as server:
        session = await mode.play(agent(mode, server, [call, mode.write()]), trusted=(server,))
    assert [c.tainted for c in mode.changes()] == [False], session.sources


async def test_one_trusted_server_vouches_for_no_other(mode: Any) -> None:
    call = function_call("fetch", {"url": "u"}, call_id="c1")
    async with connect() as other, connect("lookup") as server:
        both = agent(mode, server, [call], [mode.write()])
        both.mcp_servers = [server, other]
        session = await mode.play(both, trusted=(server,))
    assert [c.tainted for c in mode.changes()] == [True]
    assert any("fetch" in source.name for source in session.sources)


class Fresh(MCPServer):
    """A server that lists its tools anew, and keeps nothing."""

    name = "fresh"

    def __init__(self, inner: MCPServerStdio) -> None:
        super().__init__()
        self.inner = inner

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> Any:
        return await self.inner.list_tools()

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        return await self.inner.call_tool(tool_name, arguments, meta)

    async def connect(self) -> None: ...
    async def cleanup(self) -> None: ...
    async def list_prompts(self) -> Any: ...
    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...


@pytest.mark.parametrize(
    "mode", ["run", pytest.param("run_streamed", marks=pytest.mark.slow)], indirect=True
)
@pytest.mark.parametrize(
    "whose",
    ["the agent's", "a later agent's", "of another class", "prefixed", "prefixed and unnamed"],
)
@pytest.mark.parametrize("foreign", [False, True], ids=["clean", "with a foreign result"])
async def test_a_trusted_server_vouches_in_a_history_for_its_own_tools_only(
    mode: Any, whose: str, foreign: bool
) -> None:
    history = SQLiteSession("chat", mode.folder / "history.db")
    if foreign:
        reader = Agent(name="A", tools=[mode.fetch()], model=mode.script([mode.calls_fetch()]))
        await Runner.run(reader, "read", session=history, run_config=mode.quiet())
    async with connect("lookup", name=None if "unnamed" in whose else "crm") as stdio:
        for again in (False, True):
            server = Fresh(stdio) if whose == "of another class" else stdio
            reader = agent(mode, server)
            reader.mcp_config = {"include_server_in_tool_names": "prefixed" in whose}
            (tool,) = await reader.get_mcp_tools(RunContextWrapper(None))
            calls = [] if again else [[function_call(tool.name, {"url": "u"}, call_id="c1")]]
            reader.model = mode.script(*calls, [mode.write(f"w{again}", f"p/{again}")])
            if whose == "a later agent's" and not calls:
                first = agent(mode, server, [mode.write("w0", "p/0")])
                first.mcp_servers, first.handoffs, reader = [], [reader], first
            await mode.play(reader, session_=history, trusted=(server,))
            restored._calls.clear()  # as in a new process
    assert [c.tainted for c in mode.changes()] == [foreign] * 2


async def test_its_tool_under_a_memory_tools_name_is_refused_before_it_runs(mode: Any) -> None:
    async with connect("memory_write") as server:
        alone = Agent(name="A", mcp_servers=[server], model=mode.script([mode.write()]))
        with pytest.raises(PermissionDenied) as refused:
            await mode.play(alone)
        assert refused.value.rule == "shadowed-tool"
        beside = agent(mode, server, [mode.write()])
        await mode.play(beside, session=mode.session("s2"))
    assert [c.tainted for c in mode.changes()] == [True]  # ours ran


@pytest.mark.parametrize("what", ["prompt", "resource", "tools", "call"])
async def test_a_wrapped_server_marks_for_what_the_app_reads_itself(lab: Any, what: str) -> None:
    session = lab.session()
    wrapped = session.tainting(connect(), "the CRM")
    assert type(wrapped) is MCPServerStdio
    with govern()(session):
        async with wrapped:
            assert not session.tainted
            if what == "prompt":
                read: Any = await wrapped.get_prompt("ask")
            elif what == "resource":
                read = await wrapped.read_resource("res://page")
            elif what == "tools":
                read = await wrapped.list_tools()
            else:
                read = await wrapped.call_tool("fetch", {"url": "u"})
    assert "EVIL" in str(read) or what == "tools"
    assert [(s.kind, s.name) for s in session.sources] == [("tool", "the CRM")]
