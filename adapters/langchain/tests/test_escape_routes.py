"""Outsiders' text on its way into a model by other ways than a plain call of a tool: each is labelled.

Every test is played twice, with a source that nobody vouched for and with the same one declared: what
the agent then writes is labelled in the first case, and clean in the second. Where each way is tested:

a vector store or loader asked directly, requests in a node, MCP prompts   test_escape_remedies
a retriever's public methods; copies, bindings, retries, fallbacks         test_routes, and below
a retriever of which only the sync half was overridden                     test_known_issues
a tool's other entry points; a tool made of another one's function         test_routes
a tool's function called directly                                          test_escape_remedies, and below
tools copied or pickled with what governs them                             test_tools, test_wrap
a fetch and a write in one turn                                            test_turns, test_routes, and below
a thread that goes on in another process, or whose process was killed      test_escape_processes
caches and replays, summaries, forged pointers                             test_escape_state
conversations that the provider keeps                                      test_escape_provider
hosted tools, citations, types that don't exist yet                        test_routes, and below
uploads; failing tools; what is handed over beside a result                below
swapped, added and played tools; agents as tools; servers' metadata        test_escape_tools
sub-agents of deep agents                                                  test_escape_deepagents
descriptions that a server chose                                           test_agents
hooks of other middleware                                                  test_other_middleware
remote graphs; threads of one's own; caches shared by sessions             test_escape_remedies
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, NotRequired

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnablePassthrough
from langchain_core.tools import StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.types import Command

from sams_core import AgentSession
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.scripted import said, scripted

WRITE = {
    "scope": "assigned",
    "path": "facts/code",
    "content": "7-7-7",
    "description": "A fact",
    "expected_version": None,
}
GO: Any = {"messages": [("user", "go")]}
CONFIG: Any = {"configurable": {"thread_id": "t"}}
Q = {"query": "q"}
OUTSIDERS = pytest.mark.parametrize("outsiders", [True, False], ids=["outsiders'", "declared"])
MODES = pytest.mark.parametrize("mode", ["invoke", "ainvoke"])


@tool
def fetch(query: str) -> str:
    """Fetch a page."""
    return "outsiders wrote this"


@tool
def calc(query: str) -> str:
    """Compute."""
    return "42"


class Docs(BaseRetriever):
    """Documents."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(f"outsiders wrote {query}")]


def write() -> AIMessage:
    return said("", ("memory_write", WRITE, "w"))


def run(app: Any, mode: str = "invoke", given: Any = GO, config: Any = None) -> Any:
    return (
        app.invoke(given, config) if mode == "invoke" else asyncio.run(app.ainvoke(given, config))
    )


def play(
    session: AgentSession, mode: str, tools: Any, trusted: Any, also: Any = (), **more: Any
) -> Any:
    """Let an agent whose governance is the middleware alone call the first tool, then write."""
    name = tools[0].name
    agent = create_agent(
        scripted(said("", (name, Q, "c")), write(), "done"),
        list(tools),
        middleware=[SamsMiddleware(session, trusted=trusted), *also],
        **more,
    )
    return run(agent, mode)


# A retriever composed into a chain that writes.

RETRIEVERS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda r: r,
    "with retry": lambda r: r.with_retry(),
    "a fallback": lambda r: RunnableLambda(lambda q: 1 // 0).with_fallbacks([r]),
    "an alternative": lambda r: (
        Docs()
        .configurable_alternatives(ConfigurableField("kb"), other=r)
        .with_config(configurable={"kb": "other"})
    ),
}


@OUTSIDERS
@MODES
@pytest.mark.parametrize("made", RETRIEVERS.values(), ids=RETRIEVERS.keys())
def test_what_a_retriever_in_a_chain_found_labels_what_the_chain_writes(
    made: Any, mode: str, outsiders: bool, session: AgentSession, written: Any
) -> None:
    docs, node = Docs(), ToolNode(memory_tools())
    graph = StateGraph(MessagesState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    chain = (
        {"context": made(docs), "q": RunnablePassthrough()}
        | ChatPromptTemplate.from_template("{context} {q}")
        | scripted(write()).bind_tools(memory_tools())
        | (lambda answer: {"messages": [answer]})
        | graph.compile()
    )
    with govern(trusted=[] if outsiders else [docs])(session):
        run(chain, mode, "q")
    assert written() == {"facts/code": outsiders}


@OUTSIDERS
def test_a_retriever_that_transforms_a_stream_of_questions_labels(
    outsiders: bool, session: AgentSession, written: Any
) -> None:
    docs = Docs()

    async def ask() -> None:
        async def questions() -> Any:
            yield "q"

        async with govern(trusted=[] if outsiders else [docs])(session):
            assert [found async for found in docs.atransform(questions())]
            session.memory_write(**WRITE)

    asyncio.run(ask())
    assert written() == {"facts/code": outsiders}


# A tool's function, or a retriever's inner method, called directly inside another tool.

DIRECT: dict[str, Callable[[], Any]] = {
    "a tool's function": lambda: fetch.func("q"),  # type: ignore[attr-defined]
    "a tool's inner method": lambda: fetch._run("q", config={}),
    "a retriever's inner method": lambda: Docs()._get_relevant_documents("q", run_manager=None),
}


@OUTSIDERS
@pytest.mark.parametrize("way", DIRECT.values(), ids=DIRECT.keys())
def test_what_is_called_directly_inside_a_tool_counts_as_that_tool(
    way: Any, outsiders: bool, session: AgentSession, written: Any
) -> None:
    outer = StructuredTool.from_function(
        lambda query: str(way()), name="outer", description="Look it up."
    )
    play(session, "invoke", [outer], [] if outsiders else [outer])
    assert written() == {"facts/code": outsiders}


# A fetch and a write in one turn, and the write is done before the fetch begins.


class WriteFirst(AgentMiddleware[Any, Any, Any]):
    """Holds every other call of the turn back until the write has been stored."""

    def __init__(self) -> None:
        super().__init__()
        self.stored = threading.Event()
        self.order: list[str] = []

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        if request.tool_call["name"] != "memory_write":
            assert self.stored.wait(30)
        answer = handler(request)
        self._ended(request)
        return answer

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        if request.tool_call["name"] != "memory_write":
            assert await asyncio.to_thread(self.stored.wait, 30)
        answer = await handler(request)
        self._ended(request)
        return answer

    def _ended(self, request: Any) -> None:
        self.order.append(request.tool_call["name"])
        if request.tool_call["name"] == "memory_write":
            self.stored.set()


@OUTSIDERS
@MODES
@pytest.mark.parametrize("slot", [True, False], ids=["middleware", "block alone"])
def test_a_write_that_is_stored_before_its_turns_fetch_begins_is_labelled(
    slot: bool, mode: str, outsiders: bool, session: AgentSession, written: Any
) -> None:
    other, held = (fetch if outsiders else calc), WriteFirst()
    turn = said("", (other.name, Q, "c"), ("memory_write", WRITE, "w"))
    agent = create_agent(
        scripted(turn, "done"),
        [other] if slot else [other, *memory_tools()],
        middleware=[*([SamsMiddleware(session, trusted=[calc])] if slot else []), held],
    )
    if slot:
        run(agent, mode)
    else:
        with govern(trusted=[calc])(session):
            run(agent, mode)
    assert held.order == ["memory_write", other.name]
    assert written() == {"facts/code": outsiders}


# A provider's own tool, in the very answer that asks for the write.

SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
TEXT = {"type": "text", "text": "So it is."}


@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "stream"])
@pytest.mark.parametrize("blocks", [[SEARCH, TEXT], [TEXT]], ids=["searched", "said"])
def test_a_write_that_comes_with_what_the_provider_read_is_labelled(
    blocks: Any, mode: str, session: AgentSession, written: Any
) -> None:
    answer = AIMessage(blocks, tool_calls=write().tool_calls)
    agent: Any = create_agent(scripted(answer, "ok"), [], middleware=[SamsMiddleware(session)])
    if mode == "stream":
        list(agent.stream(GO, stream_mode="messages"))
    else:
        run(agent, mode)
    assert written() == {"facts/code": SEARCH in blocks}


# Uploads.

UPLOADS: dict[str, dict[str, Any]] = {
    "image": {"type": "image", "base64": "QQ==", "mime_type": "image/png"},
    "image by address": {"type": "image_url", "image_url": {"url": "u"}},
    "file": {"type": "file", "file_id": "f"},
    "file of one provider": {"type": "input_file", "file_id": "f"},
    "document": {"type": "document", "source": {"type": "text", "data": "outsiders wrote"}},
    "audio": {"type": "audio", "base64": "QQ==", "mime_type": "audio/wav"},
    "video": {"type": "video", "url": "u"},
    "plain text": {"type": "text-plain", "text": "outsiders wrote", "mime_type": "text/plain"},
    "media": {"type": "media", "data": b"x", "mime_type": "application/pdf"},
    "container": {"type": "container_upload", "file_id": "f"},
}


def message(*blocks: Any) -> HumanMessage:
    return HumanMessage([TEXT, *blocks])


@pytest.mark.parametrize("upload", [*UPLOADS.values(), None], ids=[*UPLOADS, "none"])
def test_an_upload_labels_what_is_written_in_its_turn(
    upload: Any, session: AgentSession, written: Any
) -> None:
    agent = create_agent(scripted(write(), "ok"), [], middleware=[SamsMiddleware(session)])
    run(agent, given={"messages": [message(*([upload] if upload else []))]})
    assert written() == {"facts/code": upload is not None}


class Attaches(AgentMiddleware[Any, Any, Any]):
    """Puts what the app has stored for the user into the conversation."""

    def __init__(self, *blocks: Any) -> None:
        super().__init__()
        self.message = message(*blocks)

    def before_model(self, state: Any, runtime: Any) -> Any:
        return None if len(state["messages"]) > 1 else {"messages": [self.message]}


@MODES
@pytest.mark.parametrize("way", ["by another middleware", "into the thread's state"])
@pytest.mark.parametrize("upload", [UPLOADS["file"], None], ids=["a file", "none"])
def test_an_upload_that_comes_later_labels(
    upload: Any, way: str, mode: str, session: AgentSession, written: Any
) -> None:
    blocks = [upload] if upload else []
    also = [Attaches(*blocks)] if way == "by another middleware" else []
    agent = create_agent(
        scripted("hello", write(), "ok"),
        [],
        middleware=[SamsMiddleware(session), *also],
        checkpointer=InMemorySaver(),
    )
    run(agent, mode, config=CONFIG)
    if not also:
        agent.update_state(CONFIG, {"messages": [message(*blocks)]})
    run(agent, mode, config=CONFIG)
    assert written() == {"facts/code": upload is not None}


# A tool that fails with outsiders' words.


def _fails(query: str) -> str:
    raise ToolException("outsiders wrote this")


@OUTSIDERS
@MODES
@pytest.mark.parametrize("handled", [True, False], ids=["told to the model", "ends the run"])
def test_a_tool_that_fails_labels_what_is_written_after_it(
    handled: bool, mode: str, outsiders: bool, session: AgentSession, written: Any
) -> None:
    fails = StructuredTool.from_function(
        _fails, name="fails", description="Fail.", handle_tool_error=handled
    )
    trusted = [] if outsiders else [fails]
    if handled:
        play(session, mode, [fails], trusted)
    else:
        with pytest.raises(ToolException):
            play(session, mode, [fails], trusted)
        agent = create_agent(scripted(write(), "ok"), [], middleware=[SamsMiddleware(session)])
        run(agent, mode)
    assert written() == {"facts/code": outsiders}


# A tool whose text isn't in its result: in the graph's state, beside it, or in a stream.


class Noted(AgentState[Any]):
    """A state with a key of the app's own."""

    note: NotRequired[str]


class Repeats(AgentMiddleware[Any, Any, Any]):
    """Shows the model what a tool put beside its result."""

    def before_model(self, state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        if not isinstance(last, ToolMessage) or last.artifact is None:
            return None
        return {"messages": [HumanMessage(str(last.artifact))]}


@tool
def updates(query: str, runtime: ToolRuntime) -> Command[Any]:
    """Put outsiders' words into the state, and into the conversation as the user's."""
    done = ToolMessage("ok", tool_call_id=runtime.tool_call_id)
    said_by_user = HumanMessage("outsiders wrote this")
    return Command(update={"note": "outsiders wrote this", "messages": [done, said_by_user]})


@tool(response_format="content_and_artifact")
def beside(query: str) -> tuple[str, Any]:
    """Return them beside the result."""
    return "ok", {"raw": "outsiders wrote this"}


@OUTSIDERS
@MODES
@pytest.mark.parametrize("made", [updates, beside])
def test_what_a_tool_hands_over_beside_its_result_labels(
    made: Any, mode: str, outsiders: bool, session: AgentSession, written: Any
) -> None:
    state = play(
        session, mode, [made], [] if outsiders else [made], [Repeats()], state_schema=Noted
    )
    shown = [str(m.content) for m in state["messages"] if isinstance(m, HumanMessage)]
    assert any("outsiders wrote this" in each for each in shown)
    assert written() == {"facts/code": outsiders}


@OUTSIDERS
def test_what_a_tool_streams_to_the_consumer_labels_what_it_writes_then(
    outsiders: bool, session: AgentSession, written: Any
) -> None:
    @tool
    def streams(query: str) -> str:
        """Stream outsiders' words."""
        get_stream_writer()("outsiders wrote this")
        return "ok"

    agent: Any = create_agent(
        scripted(said("", ("streams", Q, "c")), "done"),
        [streams],
        middleware=[SamsMiddleware(session, trusted=[] if outsiders else [streams])],
    )
    stream = agent.stream(GO, stream_mode="custom")
    assert next(stream) == "outsiders wrote this"
    stream.close()
    with govern()(session):
        session.memory_write(**WRITE)
    assert written() == {"facts/code": outsiders}
