"""The adapter's driver for the A-series: `sams conformance --adapter openai-agents`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Literal, cast

from agents import (
    Agent,
    AgentHooks,
    FunctionTool,
    Model,
    ModelResponse,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    SQLiteSession,
    Usage,
    function_tool,
)
from agents.mcp import MCPServer, MCPServerStdio
from agents.run_config import ToolExecutionConfig
from agents.tool_context import ToolContext
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseFunctionWebSearch,
    ResponseOutputMessage,
)
from pydantic import BaseModel

from sams_conformance.a.driver import App, Cast, Go, LiveTool, Message, Seen, answer, text_of
from sams_conformance.a.scenario import Hosted, Turn
from sams_openai_agents import govern, memory_tools

Way = Literal["sync", "async"]
_FILE = "data:text/plain;base64,aGVsbG8="
_UPLOADS: dict[str, dict[str, str]] = {
    "image": {"type": "input_image", "image_url": _FILE, "detail": "auto"},
    "file": {"type": "input_file", "file_data": _FILE, "filename": "page.txt"},
}


class _Answer(BaseModel):
    answer: str


class _Model(Model):
    """The kit's script, as a model."""

    def __init__(self, agent: str, helpers: set[str]) -> None:
        self.agent, self.helpers = agent, helpers

    async def get_response(self, *given: Any, **more: Any) -> ModelResponse:
        names = ("system_instructions", "input", "model_settings", "tools")
        asked = dict(zip(names, given, strict=False)) | more
        system_instructions, input, tools = (asked[names[n]] for n in (0, 1, 3))
        turn = answer(_seen(self.agent, system_instructions, input, tools))
        return ModelResponse(output=self._items(turn), usage=Usage(), response_id=None)

    async def stream_response(self, *given: Any, **more: Any) -> AsyncIterator[Any]:
        done = await self.get_response(*given, **more)
        response = Response.model_construct(
            id="resp_1", output=done.output, usage=None, status="completed"
        )
        yield ResponseCompletedEvent.model_construct(
            type="response.completed", response=response, sequence_number=0
        )

    def _items(self, turn: Turn) -> list[Any]:
        items = [_hosted(turn.hosted)] if turn.hosted else []
        for call in turn.calls:
            arguments = dict(call.arguments)
            if call.tool in self.helpers:
                arguments = {"input": arguments["query"]}
            items.append(_call(call.tool, arguments, call.id))
        if turn.handoff:
            items.append(_call(f"transfer_to_{turn.handoff}", {}, f"to-{turn.handoff}"))
        if turn.text:
            items.append(_text(turn.text))
        return items


def _call(name: str, arguments: dict[str, Any], call_id: str) -> Any:
    return ResponseFunctionToolCall(
        type="function_call", name=name, arguments=json.dumps(arguments), call_id=call_id
    )


def _text(text: str, annotations: tuple[Any, ...] = ()) -> Any:
    part = {"type": "output_text", "text": text, "annotations": list(annotations)}
    return ResponseOutputMessage.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    )


def _hosted(kind: Hosted) -> Any:
    if kind == "hosted-tool":
        action = {"type": "search", "query": "q", "sources": []}
        return ResponseFunctionWebSearch.model_validate(
            {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": action}
        )
    if kind == "citation":
        page = {
            "type": "url_citation",
            "url": "https://page.example",
            "title": "t",
            "start_index": 0,
            "end_index": 1,
        }
        return _text("As this page says.", (page,))
    # As the client reads what it doesn't know: an item of some class it knows, not validated.
    strange: Any = {"type": "hologram_call", "id": "h1", "status": "completed"}
    return ResponseFunctionWebSearch.model_construct(**strange)


def _seen(agent: str, system: str | None, items: Any, tools: Any) -> Seen:
    messages = [Message("system", system)] if system else []
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        kind = item.get("type")
        if kind == "function_call_output":
            messages.append(Message("tool", text_of(item["output"]), item["call_id"]))
        elif "role" in item:
            content = item["content"]
            parts = content if isinstance(content, list) else [{"text": content}]
            text = "".join(str(part.get("text", "")) for part in parts)
            role: Any = "system" if item["role"] == "developer" else item["role"]
            messages.append(Message(role, text))
        else:
            messages.append(Message("assistant", text_of(item)))
    return Seen(agent, tuple(messages), tuple(map(_offered, tools)))


def _offered(tool: Any) -> Mapping[str, Any]:
    if not isinstance(tool, FunctionTool):
        return {"name": tool.name}
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.params_json_schema,
        "strict": tool.strict_json_schema,
    }


class _Server(MCPServer):
    """The kit's MCP server over the SDK's own client, connected anew for each request.

    `run_sync` closes what lives in its event loop longer than a run.
    """

    def __init__(self, tool: LiveTool) -> None:
        super().__init__()
        self.tool = tool.spec

    @property
    def name(self) -> str:
        return self.tool.key

    def _client(self) -> MCPServerStdio:
        module = ["-P", "-m", "sams_conformance.a.mcp_server", self.tool.called, self.tool.returns]
        return MCPServerStdio({"command": sys.executable, "args": module}, name=self.name)

    async def connect(self) -> None:
        """Do nothing."""

    async def cleanup(self) -> None:
        """Do nothing."""

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> Any:
        async with self._client() as client:
            return await client.list_tools(run_context, agent)

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        async with self._client() as client:
            return await client.call_tool(tool_name, arguments, meta)

    async def list_prompts(self) -> Any:
        async with self._client() as client:
            return await client.list_prompts()

    async def get_prompt(self, name: str, arguments: Any = None) -> Any:
        async with self._client() as client:
            return await client.get_prompt(name, arguments)


class _Heard(RunHooks[Any]):
    def __init__(self, heard: Any) -> None:
        self.heard = heard

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.heard(f"run: agent_start {type(context).__name__} {agent.name}")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.heard(f"run: agent_end {type(context).__name__} {agent.name} {output}")

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.heard(f"run: handoff {from_agent.name} {to_agent.name}")

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: Any, input_items: Any
    ) -> None:
        self.heard(f"run: llm_start {agent.name} {system_prompt} {input_items[-1]}")

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.heard(f"run: llm_end {agent.name} {[item.type for item in response.output]}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.heard(f"run: tool_start {context.tool_call_id} {agent.name} {tool.name}")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.heard(f"run: tool_end {context.tool_call_id} {agent.name} {tool.name} {result}")


class _HeardOfAgent(AgentHooks[Any]):
    def __init__(self, heard: Any) -> None:
        self.heard = heard

    async def on_start(self, context: Any, agent: Any) -> None:
        self.heard(f"agent: start {type(context).__name__} {agent.name}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.heard(f"agent: tool_start {context.tool_call_id} {agent.name} {tool.name}")

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        self.heard(f"agent: end {agent.name} {output}")


class _App:
    def __init__(self, cast_: Cast) -> None:
        self.cast = cast_
        self.tools: dict[str, FunctionTool] = {}
        helpers = {t.spec.called for t in cast_.tools.values() if t.spec.kind == "agent"}
        self.agents: dict[str, Agent[Any]] = {
            each.name: Agent(
                name=each.name,
                instructions="Remember what matters.",
                model=_Model(each.name, helpers),
                output_type=_Answer if each.structured else None,
                hooks=_HeardOfAgent(cast_.heard) if cast_.heard else None,
            )
            for each in cast_.agents
        }
        for key, tool in cast_.tools.items():
            if tool.spec.kind != "mcp":
                self.tools[key] = self._native(tool)
        for each in cast_.agents:
            agent = self.agents[each.name]
            agent.handoffs = [self.agents[name] for name in each.handoffs]
            for key in each.tools:
                if key in self.tools:
                    agent.tools.append(self.tools[key])
                else:
                    agent.mcp_servers.append(_Server(cast_.tools[key]))
            if each.memory:
                agent.tools += memory_tools()
        self.first = self.agents[cast_.agents[0].name]
        trusted = [
            tool.function if tool.spec.trust == "function" else self.tools[key]
            for key, tool in cast_.tools.items()
            if tool.spec.trust
        ]
        self.governed = govern(cast_.bound, trusted=trusted)

    def _native(self, tool: LiveTool) -> FunctionTool:
        spec = tool.spec
        if spec.kind == "agent":
            return self.agents[spec.agent].as_tool(spec.called, f"Ask {spec.called}.")
        return function_tool(tool.function, name_override=spec.called)

    # Running.

    def run(self, go: Go) -> str:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)  # run_sync takes this one, and leaves it open
        try:
            given = loop.run_until_complete(self._input(go))
            with self._around(go):
                start = self.governed.run_sync if go.block == "governed" else Runner.run_sync
                return self._end(go, start(self.first, given, **self._more(go)))
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    async def arun(self, go: Go) -> str:
        given = await self._input(go)
        more = self._more(go)
        governed = go.block == "governed"
        with self._around(go):
            if go.mode == "run_streamed":
                stream = self.governed.run_streamed if governed else Runner.run_streamed
                streamed = stream(self.first, given, **more)
                async for _ in streamed.stream_events():
                    if go.leave:
                        return ""
                return self._end(go, streamed)
            if go.mode == "run" and governed:
                return self._end(go, await self.governed.run(self.first, given, **more))
            more["input"] = given
            if governed:
                more = self.governed.run_kwargs(**more)
            return self._end(go, await Runner.run(self.first, **more))

    @contextlib.contextmanager
    def _around(self, go: Go) -> Iterator[None]:
        pausing = [
            tool
            for agent in self.agents.values()
            for tool in agent.tools
            if isinstance(tool, FunctionTool) and tool.name == go.pause
        ]
        for tool in pausing:
            tool.needs_approval = True
        with contextlib.ExitStack() as stack:
            if go.inside is not None:
                stack.enter_context(govern()(go.inside))
            elif go.block == "governed" and self.cast.bound is None:
                stack.enter_context(self.governed(go.session))
            elif go.block == "active" and go.session is not None:
                stack.enter_context(go.session.active())
            try:
                yield
            finally:
                for tool in pausing:
                    tool.needs_approval = False

    def _more(self, go: Go) -> dict[str, Any]:
        # One tool after the other in one mode: a write then ends before what follows it begins.
        execution = ToolExecutionConfig(1 if go.mode == "Runner.run" else None)
        config = RunConfig(tracing_disabled=True, tool_execution=execution)
        more: dict[str, Any] = {"run_config": config}
        if self.cast.heard is not None:
            more["hooks"] = _Heard(self.cast.heard)
        if go.thread and not (go.pause or go.resume):
            more["session"] = SQLiteSession(go.thread, self.cast.folder / "history.db")
        return more

    async def _input(self, go: Go) -> Any:
        if go.resume:
            saved = json.loads((self.cast.folder / f"{go.thread}.json").read_text())
            state: RunState[Any] = await RunState.from_json(self.first, saved)
            for each in state.get_interruptions():
                state.approve(each)
            return state
        if go.upload:
            text = {"type": "input_text", "text": go.message}
            return [{"role": "user", "content": [text, _UPLOADS[go.upload]]}]
        return go.message

    def _end(self, go: Go, done: Any) -> str:
        if go.pause:
            saved = json.dumps(done.to_state().to_json())
            (self.cast.folder / f"{go.thread}.json").write_text(saved)
        return str(done.final_output)

    # Native objects.

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        (tool,) = (t for t in memory_tools() if t.name == name)
        return await self._invoke(tool, json.dumps(dict(arguments)))

    def native(self, key: str) -> object:
        return self.tools[key]

    def describe(self, native: object) -> dict[str, Any]:
        return dict(_offered(native))

    async def use(self, native: object, query: str, mode: Way) -> str:
        # The SDK has one way in, and it is asynchronous.
        return await self._invoke(cast(FunctionTool, native), json.dumps({"query": query}))

    async def _invoke(self, tool: FunctionTool, arguments: str) -> str:
        context: ToolContext[Any] = ToolContext(
            context=None, tool_name=tool.name, tool_call_id="direct", tool_arguments=arguments
        )
        return str(await tool.on_invoke_tool(context, arguments))


class OpenAIAgentsDriver:
    """Plays scenarios through `Runner`, in each of its modes."""

    name = "openai-agents"
    modes: Mapping[str, Way] = {
        "run": "async",
        "run_sync": "sync",
        "run_streamed": "async",
        "Runner.run": "async",
    }
    capabilities = frozenset(
        {"agent-tool", "handoff", "hosted", "mcp", "resume", "structured", "thread", "upload"}
    )

    def build(self, cast: Cast) -> App:
        """Build the agents of a scenario."""
        return _App(cast)


def driver() -> OpenAIAgentsDriver:
    """Return the driver."""
    return OpenAIAgentsDriver()
