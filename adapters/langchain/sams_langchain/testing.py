"""The driver of the conformance kit's A-series: real agent loops, and a scripted chat model."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from importlib.util import find_spec
from typing import Any, Literal, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core._api import LangChainBetaWarning
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, StructuredTool, create_retriever_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command

from sams_conformance.a.driver import Cast, Go, LiveTool
from sams_conformance.a.scenario import Agent
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.cast import (
    UPLOADS,
    Answer,
    Docs,
    handoff,
    kit_model,
    mcp_tool,
    own_callbacks,
    own_middleware,
    sync_half,
)

# Events of version 3 are LangGraph's own; earlier ones inherit a method that knows version 2 alone.
_HAS_V3 = "stream_events" in vars(Pregel)


class _Context(TypedDict):
    """What the app's server hands to each run."""

    session: Any


class LangChainApp:
    """Agents of `create_agent`; several make a graph with hand-offs, or tools of each other."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self._halves = {key: sync_half(live) for key, live in cast.tools.items()}
        self._natives = {
            key: self._native(key, live)
            for key, live in cast.tools.items()
            if live.spec.kind != "agent"
        }
        self._tools = {key: self._tool(key, live) for key, live in cast.tools.items()}
        self.trusted = self._trusted()
        self._main = {True: self._build(True)}  # and False, if it is asked for
        starting = cast.agents if self._over else cast.agents[:1]
        self._outside = not all(each.memory for each in starting)  # of every middleware

    # Building.

    def _native(self, key: str, live: LiveTool) -> Any:
        spec = live.spec
        if spec.kind == "retriever":
            return Docs(live=live)
        if spec.kind == "mcp":
            return mcp_tool(live)
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
        self._over = {name: handoff(name) for each in self.cast.agents for name in each.handoffs}
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
        graph = StateGraph(MessagesState, context_schema=_Context)
        for name, agent in agents.items():
            graph.add_node(name, agent)
        graph.add_edge(START, self.cast.agents[0].name)
        return graph.compile(checkpointer=saver)

    def _agent(self, agent: Agent, governed: bool, first: bool, pause: str, saver: Any) -> Any:
        middleware: list[Any] = []
        tools: list[Any] = [self._tools[key] for key in agent.tools]
        tools += [self._over[name] for name in agent.handoffs]
        if governed and agent.memory:
            bound = self.cast.bound or (_from_context if first or self._over else None)
            middleware.append(SamsMiddleware(bound, trusted=self.trusted))
        elif agent.memory:
            tools = [*memory_tools(), *tools]
        if self.cast.heard is not None:
            middleware.append(own_middleware(self.cast.heard))
        if pause and first:
            middleware.append(HumanInTheLoopMiddleware(interrupt_on={pause: True}))
        return create_agent(
            kit_model(agent),
            tools,
            middleware=middleware,
            response_format=ToolStrategy(Answer) if agent.structured else None,
            context_schema=_Context,
            checkpointer=saver,
            name=agent.name,
        )

    # Running.

    def _agent_for(self, go: Go, saver: Any) -> Any:
        governed = go.block == "governed"
        if saver is None:
            if governed not in self._main:
                self._main[governed] = self._build(governed)
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
        blocks: list[str | dict[str, Any]] = [{"type": "text", "text": go.message}]
        return {"messages": [HumanMessage([*blocks, UPLOADS[go.upload]])]}

    def _config(self, go: Go) -> Any:
        config: dict[str, Any] = {"configurable": {"thread_id": go.thread or "none"}}
        if self.cast.heard is not None:
            config["callbacks"] = [own_callbacks(self.cast.heard)]
        return config

    def _around(self, go: Go) -> AbstractContextManager[Any]:
        stack = ExitStack()
        if go.inside is not None:
            stack.enter_context(govern()(go.inside))
        elif go.block == "active" and go.session is not None:
            stack.enter_context(go.session.active())
        elif go.block == "governed" and self._outside:
            stack.enter_context(govern(trusted=self.trusted)(go.session))
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
            if go.mode == "stream_events_v3":
                pulled = agent.stream_events(given, self._config(go), version="v3", **more)
                return _pull(pulled, go)
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
        if go.mode == "astream_events_v3":
            pulled = await agent.astream_events(given, config, version="v3", **more)
            return await _apull(pulled, go)
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
        **({"stream_events_v3": "sync"} if _HAS_V3 else {}),
        "ainvoke": "async",
        "astream": "async",
        "abatch": "async",
        "astream_events_v2": "async",
        **({"astream_events_v3": "async"} if _HAS_V3 else {}),
    }
    capabilities = frozenset(
        {
            "agent-tool",
            "direct",
            "handoff",
            "hosted",
            "retriever",
            "structured",
            "upload",
            # of distributions that a user may do without
            *(["resume", "thread"] if find_spec("langgraph.checkpoint.sqlite") else []),
            *(["mcp"] if find_spec("langchain_mcp_adapters") else []),
        }
    )

    def build(self, cast: Cast) -> LangChainApp:
        """Build the agents and what governs them."""
        return LangChainApp(cast)


def driver() -> LangChainDriver:
    """Return the driver: `sams conformance --adapter langchain` calls this."""
    warnings.filterwarnings("ignore", "The v3 streaming protocol", LangChainBetaWarning)
    return LangChainDriver()


def _from_context(runtime: Any) -> Any:
    """The resolver: a server would look its session up by what it authenticated."""
    return runtime.context["session"]


def _input(text: str) -> Any:
    return {"messages": [("user", text)]}


def _pull(run: Any, go: Go) -> str:
    """Return the answer of a run whose consumer pulls one event after the other, or leaves."""
    with run:  # which ends what its consumer left
        for _ in run:
            if go.leave:
                return ""
        return _text(run.output)


async def _apull(run: Any, go: Go) -> str:
    """Do the same in an async run."""
    async with run:
        async for _ in run:
            if go.leave:
                return ""
        return _text(await run.output())


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
