"""What the kit's cast is in LangChain: its models, tools, retrievers, hand-offs and the user's own hooks."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, Literal

from langchain.agents.middleware import AgentMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command
from pydantic import BaseModel

from sams_conformance.a.driver import LiveTool, Message, Seen, answer, text_of
from sams_conformance.a.scenario import Agent, Turn
from sams_langchain.scripted import ScriptedModel, said

_ROLES: dict[str, Literal["system", "user", "assistant", "tool"]] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
}
UPLOADS = {
    "image": {"type": "image", "base64": "QQ==", "mime_type": "image/png"},
    "file": {"type": "file", "base64": "QQ==", "mime_type": "application/pdf"},
}
_HOSTED: dict[str, list[dict[str, Any]]] = {
    "hosted-tool": [{"type": "server_tool_use", "id": "h", "name": "web_search", "input": {}}],
    "citation": [{"type": "text", "text": "so", "annotations": [{"type": "citation"}]}],
    "unknown-type": [{"type": "hologram", "data": "..."}],
}


class Answer(BaseModel):
    """The structured answer of agents that give one."""

    answer: str


def kit_model(agent: Agent) -> ScriptedModel:
    """Return the model of one of the kit's agents, which says what the run's script says."""

    def say(messages: list[BaseMessage], tools: list[dict[str, Any]]) -> AIMessage:
        shown = tuple(
            Message(
                _ROLES[message.type],
                text_of(message.content),
                message.tool_call_id if isinstance(message, ToolMessage) else None,
            )
            for message in messages
        )
        functions = [tool.get("function", tool) for tool in tools]
        offered = tuple(f for f in functions if f.get("name") != Answer.__name__)
        return _message(agent, answer(Seen(agent.name, shown, offered)))

    return ScriptedModel(say=say)


def _message(agent: Agent, turn: Turn) -> AIMessage:
    calls = [(call.tool, call.arguments, call.id) for call in turn.calls]
    if turn.handoff:
        calls.append((f"transfer_to_{turn.handoff}", {}, f"to-{turn.handoff}"))
    if agent.structured and turn.text:
        calls.append((Answer.__name__, json.loads(turn.text), "structured"))
    made = said("" if agent.structured else turn.text, *calls)
    if turn.hosted:
        made.content = [*_HOSTED[turn.hosted]]
    return made


class Docs(BaseRetriever):
    """A native retriever over one document."""

    live: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        sync_half(self.live)(query)
        return [Document(self.live.spec.returns)]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if self.live.spec.form == "sync":
            return self._get_relevant_documents(query, run_manager=run_manager)
        await self.live.function(query)
        return [Document(self.live.spec.returns)]


def sync_half(live: LiveTool) -> Callable[[str], str]:
    """Return a function for sync modes, in which LangChain runs no async tool."""
    if live.spec.form == "sync":
        return live.function

    def function(query: str) -> str:
        result: str = asyncio.run(live.function(query))
        return result

    return function


def mcp_tool(live: LiveTool) -> BaseTool:
    """Return what `langchain-mcp-adapters` makes of the kit's server, for sync modes as well."""
    module = ["-P", "-m", "sams_conformance.a.mcp_server", live.spec.called, live.spec.returns]
    server: Any = {"transport": "stdio", "command": sys.executable, "args": module}
    client = import_module("langchain_mcp_adapters.client").MultiServerMCPClient({"kit": server})
    with ThreadPoolExecutor() as pool:  # an event loop may be running here
        (made,) = pool.submit(lambda: asyncio.run(client.get_tools())).result()
    coroutine: Any = made.coroutine

    def function(**arguments: Any) -> Any:
        return asyncio.run(coroutine(**arguments))

    tool: BaseTool = made.model_copy(update={"func": function})
    return tool


class _Hooks(BaseCallbackHandler):
    """The user's own callbacks."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        self.heard = heard

    def on_tool_start(self, serialized: Any, input_str: str, **more: Any) -> None:
        self.heard(f"tool starts: {serialized} {input_str} {more.get('inputs')}")

    def on_tool_end(self, output: Any, **more: Any) -> None:
        self.heard(f"tool ends: {getattr(output, 'content', output)}")

    def on_llm_end(self, response: Any, **more: Any) -> None:
        self.heard(f"model ends: {response.generations[0][0].text}")


class _Middle(AgentMiddleware[Any, Any, Any]):
    """The user's own middleware."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        self.heard = heard

    def before_model(self, state: Any, runtime: Any) -> None:
        self.heard(f"before the model: {[m.content for m in state['messages']]}")

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        self.before_model(state, runtime)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.heard(f"around a tool: {request.tool_call['name']} {request.tool_call['args']}")
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.heard(f"around a tool: {request.tool_call['name']} {request.tool_call['args']}")
        return await handler(request)


def own_callbacks(heard: Callable[[str], None]) -> BaseCallbackHandler:
    """Return the user's own callbacks, which tell what they are given."""
    return _Hooks(heard)


def own_middleware(heard: Callable[[str], None]) -> AgentMiddleware[Any, Any, Any]:
    """Return the user's own middleware, which tells what it is given."""
    return _Middle(heard)


def handoff(name: str) -> BaseTool:
    """Return a hand-off as LangGraph's documents write it: a tool whose result is a `Command`."""

    def transfer(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        done = ToolMessage("transferred", tool_call_id=runtime.tool_call_id)
        messages = [*runtime.state["messages"], done]
        return Command(goto=name, graph=Command.PARENT, update={"messages": messages})

    return StructuredTool.from_function(
        transfer, name=f"transfer_to_{name}", description=f"Hand over to {name}."
    )
