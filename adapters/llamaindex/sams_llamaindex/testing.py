"""The conformance kit's driver: scenarios played by real agents, with LlamaIndex's scripted model."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import json
import sys
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, cast

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCall, ToolCallResult
from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import (
    BaseContentBlock,
    ChatMessage,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool, RetrieverTool
from llama_index.core.tools.types import BaseTool
from llama_index.core.workflow import (
    Context,
    HumanResponseEvent,
    InputRequiredEvent,
    step,
)
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span_handlers import BaseSpanHandler

from sams_conformance.a.driver import App, Cast, Go, LiveTool, Message, Seen, answer, text_of
from sams_conformance.a.scenario import Agent, Turn
from sams_llamaindex import SamsMemoryBlock, govern, memory_tools

_MCP = importlib.util.find_spec("llama_index.tools") is not None and (
    importlib.util.find_spec("llama_index.tools.mcp") is not None
)


class Answer(BaseModel):
    """A structured final answer."""

    answer: str


class Documents(BaseRetriever):
    """A native retriever of one document, which the kit's function returns."""

    def __init__(self, live: LiveTool) -> None:
        super().__init__()
        self._live = live

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return list(asyncio_run(self._aretrieve(query_bundle)))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._live.function(query_bundle.query_str)
        text = await found if asyncio.iscoroutine(found) else found
        return [NodeWithScore(node=TextNode(text=text), score=1.0)]


# The tool before whose body a run stops, and the conversation's memory, for the run at work.
_stop_before: ContextVar[str] = ContextVar("sams_llamaindex_stop", default="")
_conversation: ContextVar[Memory | None] = ContextVar("sams_llamaindex_memory", default=None)
_said: ContextVar[list[str]] = ContextVar("sams_llamaindex_said")


class Approved(FunctionAgent):
    """An agent whose calls of one tool wait for a person's answer, as LlamaIndex documents it."""

    @step
    async def call_tool(self, ctx: Context, ev: ToolCall) -> ToolCallResult:
        """Wait if need be, then call; the whole step is run again when the answer is there."""
        if not await ctx.store.get("memory", default=None):  # no memory survives serialisation
            await ctx.store.set("memory", _conversation.get())
        if ev.tool_name == _stop_before.get():
            asked = InputRequiredEvent.model_validate({"prefix": ev.tool_name})
            await ctx.wait_for_event(HumanResponseEvent, waiter_event=asked, waiter_id=ev.tool_id)
        result: ToolCallResult = await super().call_tool(ctx, ev)
        return result


def scripted(agent: str) -> MockFunctionCallingLLM:
    """Return the model of an agent: it says what the script of the run at work says."""

    def respond(messages: Sequence[ChatMessage], **kwargs: Any) -> ChatMessage:
        tools = [_wire(tool) for tool in kwargs.get("tools") or ()]
        if [tool["name"] for tool in tools] == [Answer.__name__]:  # the framework's own request
            said = _said.get()[-1]
            return _calling(ToolCallBlock(tool_name=Answer.__name__, tool_kwargs=json.loads(said)))
        shown = tuple(map(_message, messages))
        turn = answer(Seen(agent, shown, tuple(tools)))
        _said.get().append(turn.text)
        return _speech(turn)

    return MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)


def _wire(tool: BaseTool) -> dict[str, Any]:
    function: dict[str, Any] = tool.metadata.to_openai_tool(skip_length_check=True)["function"]
    return {"strict": False, **function}


def _message(message: ChatMessage) -> Message:
    role = cast(Literal["system", "user", "assistant", "tool"], message.role.value)
    texts = [
        block.text if isinstance(block, TextBlock) else text_of(block.model_dump(mode="json"))
        for block in message.blocks
    ]
    return Message(role, "\n".join(texts), message.additional_kwargs.get("tool_call_id"))


def _calling(*blocks: BaseContentBlock) -> ChatMessage:
    return ChatMessage(role="assistant", blocks=list(blocks))


def _speech(turn: Turn) -> ChatMessage:
    blocks: list[BaseContentBlock] = [TextBlock(text=turn.text)] if turn.text else []
    calls = [(call.id, call.tool, dict(call.arguments)) for call in turn.calls]
    if turn.handoff:
        given = {"to_agent": turn.handoff, "reason": "it knows"}
        calls.append((uuid.uuid4().hex, "handoff", given))
    blocks += [
        ToolCallBlock(tool_call_id=id, tool_name=name, tool_kwargs=given)
        for id, name, given in calls
    ]
    if turn.hosted == "citation":
        cited = TextBlock(text="found on a page")
        location = {"start": 0, "end": 5}
        blocks.append(
            CitationBlock(
                cited_content=cited,
                source="page",
                title="A page",
                additional_location_info=location,
            )
        )
    message = _calling(*blocks)
    if turn.hosted == "hosted-tool":
        message.additional_kwargs["built_in_tool_calls"] = [{"type": "web_search_call"}]
    if turn.hosted == "unknown-type":  # of blocks LlamaIndex's own classes let no other in
        message.additional_kwargs["pages_found"] = ["The billing code is 7-7-7."]
    return message


class LlamaIndexApp:
    """Agents built once; a workflow for answers in one piece and one for streamed ones."""

    def __init__(self, cast: Cast) -> None:
        self.cast, self.heard = cast, cast.heard
        self.memory_tools = memory_tools()
        self.natives: dict[str, BaseTool] = {}
        self.agents: dict[tuple[str, bool], FunctionAgent] = {}
        for key, live in cast.tools.items():
            self.natives[key] = self._native(live)
        trusted: list[object] = []
        for key, live in cast.tools.items():
            if live.spec.trust:
                named = live.spec.trust == "function"
                trusted.append(live.function if named else self.natives[key])
        for each in cast.agents:
            for streaming in (False, True):
                self.agents[each.name, streaming] = self._agent(each, streaming)
        self.governed = govern(cast.bound, trusted=trusted)

    def _agent(self, agent: Agent, streaming: bool) -> FunctionAgent:
        own = [self.natives[key] for key in agent.tools]
        return Approved(
            name=agent.name,
            description=f"The agent {agent.name}.",
            tools=[*(self.memory_tools if agent.memory else ()), *own],
            llm=scripted(agent.name),
            can_handoff_to=list(agent.handoffs),
            output_cls=Answer if agent.structured else None,
            streaming=streaming,
        )

    def _native(self, live: LiveTool) -> BaseTool:
        spec = live.spec
        about = f"Look something up with {spec.called}."
        if spec.kind == "retriever":
            return RetrieverTool.from_defaults(Documents(live), name=spec.called, description=about)
        if spec.kind == "mcp":
            return _of_server(spec.called, spec.returns)
        function = live.function
        if spec.kind == "agent":

            async def function(query: str) -> str:
                helper, memory = self.agents[spec.agent, False], self._memory("")
                try:
                    return str(await helper.run(user_msg=query, memory=memory))
                finally:
                    await _close(memory)

        return FunctionTool.from_defaults(
            function, name=spec.called, description=about, callback=self._hook(spec.called)
        )

    def _hook(self, name: str) -> Any:
        heard = self.heard
        if heard is None:
            return None

        def callback(result: object) -> None:
            heard(f"callback of {name}: {result}")

        return callback

    def _memory(self, thread: str) -> Memory:
        blocks: list[Any] = [SamsMemoryBlock()]
        if not thread:
            return Memory.from_defaults(memory_blocks=blocks)
        uri = f"sqlite+aiosqlite:///{self.cast.folder / 'conversations.db'}"
        return Memory.from_defaults(session_id=thread, memory_blocks=blocks, async_database_uri=uri)

    def run(self, go: Go) -> str:
        """Refuse: LlamaIndex runs agents asynchronously only."""
        raise NotImplementedError

    async def arun(self, go: Go) -> str:
        """Run to the end."""
        with contextlib.ExitStack() as stack:
            if self.heard is not None:
                stack.enter_context(_listening(self.heard))
            if go.inside is not None:
                stack.enter_context(govern()(go.inside))
            if go.block == "governed":
                bound = self.cast.bound is not None
                stack.enter_context(self.governed() if bound else self.governed(go.session))
            elif go.block == "active" and go.session is not None:
                stack.enter_context(go.session.active())
            return await self._run(go)

    async def _run(self, go: Go) -> str:
        streaming = "stream" in go.mode
        first = self.cast.agents[0]
        workflow: Any = self.agents[first.name, streaming]
        if first.handoffs:
            team: list[Any] = [self.agents[each.name, streaming] for each in self.cast.agents]
            workflow = AgentWorkflow(agents=team, root_agent=first.name)
        memory, saved = self._memory(go.thread), self.cast.folder / f"{go.thread}.json"
        _conversation.set(memory)
        _said.set([])
        if go.resume:
            paused = json.loads(saved.read_text())
            _stop_before.set(paused["before"])
            context = Context.from_dict(workflow, paused["context"])
            handler = workflow.run(ctx=context)
            context.send_event(HumanResponseEvent.model_validate({"response": "yes"}))
        else:
            _stop_before.set(go.pause)
            handler = workflow.run(user_msg=_user(go), memory=memory)
        try:
            if streaming or go.pause:
                async for event in handler.stream_events():
                    if isinstance(event, InputRequiredEvent):
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")  # of what can't be serialised
                            state = handler.ctx.to_dict()
                        saved.write_text(json.dumps({"before": go.pause, "context": state}))
                    if go.leave or isinstance(event, InputRequiredEvent):
                        await handler.cancel_run()
                        return ""
            return str(await handler)
        except asyncio.CancelledError:
            await handler.cancel_run()
            raise
        finally:
            await _close(memory)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a native tool outside of any agent's loop."""
        every: list[Any] = [*self.memory_tools, *self.natives.values()]
        (tool,) = [each for each in every if each.metadata.name == name]
        output = await tool.acall(**arguments)
        return str(output.content)

    def native(self, key: str) -> object:
        """Return the native tool."""
        return self.natives[key]

    def describe(self, native: object) -> dict[str, Any]:
        """Return what the model would be told of a tool."""
        return _wire(cast(BaseTool, native))

    async def use(self, native: object, query: str, mode: Literal["sync", "async"]) -> str:
        """Call a native tool by its sync or async way in."""
        tool = cast(Any, native)
        return str(
            (tool.call(query=query) if mode == "sync" else await tool.acall(query=query)).content
        )


async def _close(memory: Memory) -> None:
    """Close the database behind a memory; LlamaIndex has nothing that does."""
    engine: Any = getattr(memory.sql_store, "_async_engine", None)
    if engine is not None:
        await engine.dispose()


def _user(go: Go) -> ChatMessage:
    message = ChatMessage(role="user", content=go.message)
    if go.upload == "image":
        message.blocks.append(ImageBlock(image=b"\x89PNG\r\n\x1a\n", image_mimetype="image/png"))
    elif go.upload == "file":
        message.blocks.append(
            DocumentBlock(data=b"text", title="notes.txt", document_mimetype="text/plain")
        )
    return message


def _of_server(name: str, text: str) -> BaseTool:
    mcp = importlib.import_module("llama_index.tools.mcp")  # a distribution of its own
    arguments = ["-P", "-m", "sams_conformance.a.mcp_server", name, text]
    spec = mcp.McpToolSpec(mcp.BasicMCPClient(sys.executable, args=arguments))
    (tool,) = asyncio_run(spec.to_tool_list_async())
    return cast(BaseTool, tool)


@contextlib.contextmanager
def _listening(heard: Any) -> Iterator[None]:
    """Register handlers of the user's own on the root dispatcher."""

    class Events(BaseEventHandler):
        def handle(self, event: Any, **kwargs: Any) -> None:
            heard(f"event {event.class_name()}")

    class Spans(BaseSpanHandler[Any]):
        def span_enter(
            self,
            id_: str,
            bound_args: Any,
            instance: Any | None = None,
            parent_id: str | None = None,
            tags: dict[str, Any] | None = None,
            **kwargs: Any,
        ) -> None:
            given = dict(bound_args.arguments) if isinstance(instance, BaseTool) else ""
            heard(f"span {id_[:-37]} {given}")

        def new_span(self, *args: Any, **kwargs: Any) -> None: ...

        def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None: ...

        def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None: ...

    root, events, spans = get_dispatcher(), Events(), Spans()
    root.add_event_handler(events)
    root.add_span_handler(spans)
    try:
        yield
    finally:
        root.event_handlers[:] = [each for each in root.event_handlers if each is not events]
        root.span_handlers[:] = [each for each in root.span_handlers if each is not spans]


class LlamaIndexDriver:
    """Plays scenarios with `FunctionAgent` and `AgentWorkflow`."""

    name = "llamaindex"
    modes: Mapping[str, Literal["sync", "async"]] = {"run": "async", "stream": "async"}
    capabilities = frozenset(
        {
            *("agent-tool", "direct", "handoff", "hosted", "resume", "retriever", "structured"),
            *("thread", "upload"),
        }
        | ({"mcp"} if _MCP else set())
    )

    def build(self, cast: Cast) -> App:
        """Build the agents and what governs them."""
        return LlamaIndexApp(cast)


def driver() -> LlamaIndexDriver:
    """Return the driver; `sams conformance --adapter llamaindex` calls this."""
    return LlamaIndexDriver()
