"""langchain-mcp-adapters over a real server: what reads from it marks before the server is asked.

It wants another version of `mcp` than the tests beside this one, so this file is empty where it isn't
installed and runs in an environment of its own.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool

from sams_core import AgentSession, NoSession, PermissionDenied, tainting

# Answers whether the session's mark is on disk when it is asked, as another process sees it.
SERVER = '''
import sys
from mcp.server.fastmcp import FastMCP
from sams_core import AgentSession, SQLiteBackend

server = FastMCP("server", log_level="ERROR")

def marked():
    backend = SQLiteBackend(sys.argv[1])
    one = dict(session_id="s1", agent="bot", assigned="tenant:acme", user="insider")
    return f"marked: {AgentSession(backend, **one).tainted}"

@server.resource("kb://page")
def page() -> str:
    return marked()

@server.prompt()
def ask(topic: str) -> str:
    return f"{topic} {marked()}"

@server.tool()
def look(topic: str) -> str:
    """Look something up."""
    return f"{topic} {marked()}"

server.run()
'''

if find_spec("langchain_mcp_adapters") is not None:
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.prompts import load_mcp_prompt
    from langchain_mcp_adapters.resources import load_mcp_resources
    from langchain_mcp_adapters.tools import load_mcp_tools

    @pytest.fixture
    def client(tmp_path: Path) -> MultiServerMCPClient:
        script = tmp_path / "server.py"
        script.write_text(SERVER)
        how = {
            "transport": "stdio",
            "command": sys.executable,
            "args": [str(script), str(tmp_path / "store")],
        }
        return MultiServerMCPClient({"kb": how})

    def same(x: Any) -> Any:
        return x

    async def resources(x: Any, wrap: Callable[[Any], Any]) -> str:
        (blob,) = await wrap(x).get_resources("kb")
        return str(blob.as_string())

    async def prompt(x: Any, wrap: Callable[[Any], Any]) -> str:
        (message,) = await wrap(x).get_prompt("kb", "ask", arguments={"topic": "tax"})
        return str(message.content)

    async def tool(x: Any, wrap: Callable[[Any], Any]) -> str:
        (look,) = await x.get_tools()
        return str(await wrap(look).ainvoke({"topic": "tax"}))

    async def a_sessions_resources(x: Any, wrap: Callable[[Any], Any]) -> str:
        async with x.session("kb") as connected:
            (blob,) = await wrap(load_mcp_resources)(connected)
            return str(blob.as_string())

    async def a_sessions_prompt(x: Any, wrap: Callable[[Any], Any]) -> str:
        async with x.session("kb") as connected:
            (message,) = await wrap(load_mcp_prompt)(connected, "ask", arguments={"topic": "tax"})
            return str(message.content)

    async def connected(x: Any, wrap: Callable[[Any], Any]) -> str:
        async with wrap(x).session("kb") as held:
            return str((await held.read_resource("kb://page")).contents[0].text)

    WAYS = [resources, prompt, tool, a_sessions_resources, a_sessions_prompt, connected]

    @pytest.mark.parametrize("way", WAYS)
    def test_what_reads_from_a_server_marks_before_it_is_asked(
        way: Callable[..., Any], client: MultiServerMCPClient, session: AgentSession
    ) -> None:
        assert "marked: False" in asyncio.run(way(client, same))
        assert not session.tainted
        assert "marked: True" in asyncio.run(way(client, session.tainting))
        assert session.tainted

    @pytest.mark.parametrize("way", WAYS)
    def test_without_a_session_no_server_is_asked(
        way: Callable[..., Any], client: MultiServerMCPClient, session: AgentSession
    ) -> None:
        with pytest.raises((NoSession, ExceptionGroup)) as caught:
            asyncio.run(way(client, tainting))
        error: BaseException = caught.value
        while isinstance(error, BaseExceptionGroup):  # of the connection that it ended
            (error,) = error.exceptions
        assert isinstance(error, NoSession)
        with session.active():
            assert "marked: True" in asyncio.run(way(client, tainting))

    def test_a_wrapped_client_marks_when_it_lists_and_its_tools_are_wrapped(
        client: MultiServerMCPClient, open_session: Any
    ) -> None:
        session, other = open_session("s1"), open_session("s2")
        wrapped = session.tainting(client, "the wiki's server")
        assert isinstance(wrapped, MultiServerMCPClient)
        assert wrapped.connections == client.connections
        (look,) = asyncio.run(wrapped.get_tools())
        assert [source.name for source in session.sources] == ["the wiki's server"]
        assert isinstance(look, BaseTool) and look.name == "look"
        with other.active(), pytest.raises(PermissionDenied):
            asyncio.run(look.ainvoke({"topic": "tax"}))
        assert other.tainted

    def test_a_loader_of_tools_marks_since_a_server_describes_them(
        client: MultiServerMCPClient, session: AgentSession
    ) -> None:
        async def loaded() -> list[BaseTool]:
            async with client.session("kb") as connected:
                return await session.tainting(load_mcp_tools)(connected)

        assert [tool.name for tool in asyncio.run(loaded())] == ["look"]
        assert session.tainted

    def test_a_wrapped_client_stays_in_its_process(
        client: MultiServerMCPClient, session: AgentSession
    ) -> None:
        with pytest.raises(TypeError):
            pickle.dumps(session.tainting(client))
