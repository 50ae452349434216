"""The driver of the conformance kit's A-series: real agent loops, and a scripted chat model."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, StructuredTool, create_retriever_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command
from pydantic import BaseModel

from sams_conformance.a.driver import Cast, Go, LiveTool, Message, Seen, answer, text_of
from sams_conformance.a.scenario import Agent, Turn
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.scripted import ScriptedModel, said

_ROLES: dict[str, Literal["system", "user", "assistant", "tool"]] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
}
_UPLOADS = {
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


def _kit_model(agent: Agent) -> ScriptedModel:
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


class _Docs(BaseRetriever):
    """A native retriever over one document."""

    live: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        _sync_half(self.live)(query)
        return [Document(self.live.spec.returns)]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if self.live.spec.form == "sync":
            return self._get_relevant_documents(query, run_manager=run_manager)
        await self.live.function(query)
        return [Document(self.live.spec.returns)]


def _sync_half(live: LiveTool) -> Callable[[str], str]:
    """Return a function for sync modes, in which LangChain runs no async tool."""
    if live.spec.form == "sync":
        return live.function

    def function(query: str) -> str:
        result: str = asyncio.run(live.function(query))
        return result

    return function


def _mcp_tool(live: LiveTool) -> BaseTool:
    """Return what `langchain-mcp-adapters` makes of the kit's server, for sync modes as well."""
    module = ["-m", "sams_conformance.a.mcp_server", live.spec.called, live.spec.returns]
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


class LangChainApp:
    """Agents of `create_agent`; several make a graph with hand-offs, or tools of each other."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self._halves = {key: _sync_half(live) for key, live in cast.tools.items()}
        self._natives = {
            key: self._native(key, live)
            for key, live in cast.tools.items()
            if live.spec.kind != "agent"
        }
        self._tools = {key: self._tool(key, live) for key, live in cast.tools.items()}
        self.trusted = self._trusted()
        self._main = {True: self._build(True), False: self._build(False)}

    # Building.

    def _native(self, key: str, live: LiveTool) -> Any:
        spec = live.spec
        if spec.kind == "retriever":
            return _Docs(live=live)
        if spec.kind == "mcp":
            return _mcp_tool(live)
        about = f"Look something up with {spec.called}."
        if spec.form == "sync":
            return StructuredTool.from_function(live.function, name=spec.called, description=about)
        return StructuredTool.from_function(
            self._halves[key], live.function, name=spec.called, description=about
        )

    def _tool(self, key: str, live: LiveTool) -> BaseTool:
        spec = live.spec
        if spec.kind == "retriever":
            return create_retriever_tool(self._natives[key], spec.called, "Search documents.")
        if spec.kind == "agent":
            return self._agent_tool(spec.called, spec.agent)
        native: BaseTool = self._natives[key]
        return native

    def _agent_tool(self, name: str, agent: str) -> BaseTool:
        def ask(query: str) -> str:
            return _text(self._agents[agent].invoke(_input(query)))

        async def aask(query: str) -> str:
            return _text(await self._agents[agent].ainvoke(_input(query)))

        return StructuredTool.from_function(ask, aask, name=name, description=f"Ask {agent}.")

    def _trusted(self) -> list[object]:
        found: list[object] = []
        for key, live in self.cast.tools.items():
            if live.spec.trust == "object":
                found.append(self._tools[key])
            elif live.spec.trust == "function":
                found += [live.function, self._halves[key]]
        self._over = {name: _handoff(name) for each in self.cast.agents for name in each.handoffs}
        return found + list(self._over.values())

    def _build(self, governed: bool, pause: str = "", saver: Any = None) -> Any:
        agents = {
            each.name: self._agent(each, governed, each is self.cast.agents[0], pause, saver)
            for each in self.cast.agents
        }
        if governed:
            self._agents = agents
        if not self._over:
            return agents[self.cast.agents[0].name]
        graph = StateGraph(MessagesState, context_schema=dict)  # type: ignore[type-var]
        for name, agent in agents.items():
            graph.add_node(name, agent)
        graph.add_edge(START, self.cast.agents[0].name)
        return graph.compile(checkpointer=saver)

    def _agent(self, agent: Agent, governed: bool, first: bool, pause: str, saver: Any) -> Any:
        middleware: list[Any] = []
        tools: list[Any] = [self._tools[key] for key in agent.tools]
        tools += [self._over[name] for name in agent.handoffs]
        if governed:
            bound = self.cast.bound or (_from_context if first or self._over else None)
            middleware.append(SamsMiddleware(bound, trusted=self.trusted))
            if not agent.memory:
                raise NotImplementedError("an agent without memory tools")
        elif agent.memory:
            tools = [*memory_tools(), *tools]
        if self.cast.heard is not None:
            middleware.append(_Middle(self.cast.heard))
        if pause and first:
            middleware.append(HumanInTheLoopMiddleware(interrupt_on={pause: True}))
        return create_agent(
            _kit_model(agent),
            tools,
            middleware=middleware,
            response_format=ToolStrategy(Answer) if agent.structured else None,
            context_schema=dict,
            checkpointer=saver,
            name=agent.name,
        )

    # Running.

    def _agent_for(self, go: Go, saver: Any) -> Any:
        governed = go.block == "governed"
        if saver is None:
            return self._main[governed]
        kept = self.cast.folder / f"{go.thread}.pause"
        if go.pause:
            kept.write_text(go.pause)
        pause = kept.read_text() if kept.exists() else ""
        return self._build(governed, pause, saver)

    def _input(self, go: Go) -> Any:
        if go.resume:
            return Command(resume={"decisions": [{"type": "approve"}]})
        if not go.upload:
            return _input(go.message)
        blocks = [{"type": "text", "text": go.message}, _UPLOADS[go.upload]]
        return {"messages": [HumanMessage(blocks)]}  # type: ignore[arg-type]

    def _config(self, go: Go) -> Any:
        config: dict[str, Any] = {"configurable": {"thread_id": go.thread or "none"}}
        if self.cast.heard is not None:
            config["callbacks"] = [_Hooks(self.cast.heard)]
        return config

    def _around(self, go: Go) -> AbstractContextManager[Any]:
        stack = ExitStack()
        if go.inside is not None:
            stack.enter_context(govern()(go.inside))
        elif go.block == "active" and go.session is not None:
            stack.enter_context(go.session.active())
        return stack

    def run(self, go: Go) -> str:
        """Run in a sync mode."""
        with self._around(go), _saver(self.cast, go) as saver:
            agent = self._agent_for(go, saver)
            given, more = self._input(go), {"context": {"session": go.session}}
            if go.mode == "invoke":
                return _text(agent.invoke(given, self._config(go), **more))
            if go.mode == "batch":
                return _text(agent.batch([given], self._config(go), **more)[0])
            state: Any = {}
            stream = agent.stream(
                given, self._config(go), stream_mode=["messages", "values"], **more
            )
            for kind, part in stream:
                if go.leave:
                    stream.close()
                    break
                state = part if kind == "values" else state
            return _text(state)

    async def arun(self, go: Go) -> str:
        """Run in an async mode."""
        with self._around(go):
            async with _asaver(self.cast, go) as saver:
                agent = self._agent_for(go, saver)
                return await self._arun(agent, go)

    async def _arun(self, agent: Any, go: Go) -> str:
        given, config = self._input(go), self._config(go)
        more = {"context": {"session": go.session}}
        if go.mode == "ainvoke":
            return _text(await agent.ainvoke(given, config, **more))
        if go.mode == "abatch":
            return _text((await agent.abatch([given], config, **more))[0])
        state: Any = {}
        if go.mode == "astream":
            parts = agent.astream(given, config, stream_mode=["messages", "values"], **more)
            async for kind, part in parts:
                if go.leave:
                    await parts.aclose()
                    break
                state = part if kind == "values" else state
            return _text(state)
        events = agent.astream_events(given, config, version="v2", **more)
        async for event in events:
            if go.leave:
                await events.aclose()
                break
            if event["event"] == "on_chain_end" and not event["parent_ids"]:
                state = event["data"]["output"]
        return _text(state)

    # Single objects.

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a memory tool outside of any loop."""
        (tool,) = [each for each in memory_tools() if each.name == name]
        return str(await tool.ainvoke(dict(arguments)))

    def native(self, key: str) -> object:
        """Return the tool, or the retriever itself."""
        return self._natives.get(key, self._tools[key])

    def describe(self, native: object) -> dict[str, Any]:
        """Return what a model or a trace would be told of it."""
        if isinstance(native, BaseTool):
            return convert_to_openai_tool(native)
        assert isinstance(native, BaseRetriever)  # noqa: S101 - there is nothing else
        return {"name": native.get_name(), "tags": native.tags}

    async def use(self, native: object, query: str, mode: Literal["sync", "async"]) -> str:
        """Call it by `invoke` or `ainvoke`."""
        assert isinstance(native, BaseTool | BaseRetriever)  # noqa: S101 - there is nothing else
        given: Any = query if isinstance(native, BaseRetriever) else {"query": query}
        if mode == "sync":
            found: Any = await asyncio.to_thread(native.invoke, given)
        else:
            found = await native.ainvoke(given)
        return "\n".join(d.page_content for d in found) if isinstance(found, list) else str(found)


class LangChainDriver:
    """What the kit asks for."""

    name = "langchain"
    modes: Mapping[str, Literal["sync", "async"]] = {
        "invoke": "sync",
        "stream": "sync",
        "batch": "sync",
        "ainvoke": "async",
        "astream": "async",
        "abatch": "async",
        "astream_events": "async",
    }
    capabilities = frozenset(
        {
            "agent-tool",
            "direct",
            "handoff",
            "hosted",
            "resume",
            "retriever",
            "structured",
            "thread",
            "upload",
            *(["mcp"] if find_spec("langchain_mcp_adapters") else []),
        }
    )

    def build(self, cast: Cast) -> LangChainApp:
        """Build the agents and what governs them."""
        return LangChainApp(cast)


def driver() -> LangChainDriver:
    """Return the driver: `sams conformance --adapter langchain` calls this."""
    return LangChainDriver()


def _from_context(runtime: Any) -> Any:
    """The resolver: a server would look its session up by what it authenticated."""
    return runtime.context["session"]


def _handoff(name: str) -> BaseTool:
    """Return a hand-off as LangGraph's documents write it: a tool whose result is a `Command`."""

    def transfer(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        done = ToolMessage("transferred", tool_call_id=runtime.tool_call_id)
        messages = [*runtime.state["messages"], done]
        return Command(goto=name, graph=Command.PARENT, update={"messages": messages})

    return StructuredTool.from_function(
        transfer, name=f"transfer_to_{name}", description=f"Hand over to {name}."
    )


def _input(text: str) -> Any:
    return {"messages": [("user", text)]}


def _text(state: Any) -> str:
    messages = state.get("messages") if isinstance(state, dict) else None
    return str(messages[-1].text) if messages else ""


@contextmanager
def _saver(cast: Cast, go: Go) -> Iterator[Any]:
    if not go.thread:
        yield None
        return
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(cast.folder / "threads.db")) as saver:
        yield saver


@asynccontextmanager
async def _asaver(cast: Cast, go: Go) -> AsyncIterator[Any]:
    if not go.thread:
        yield None
        return
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(str(cast.folder / "threads.db")) as saver:
        yield saver
