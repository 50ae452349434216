"""Public issues of LangChain and what is built on it: the behaviour, and that governance holds all the same.

Each test shows first what went wrong there, so it tells when a framework no longer behaves like that.
"""

from __future__ import annotations

import asyncio
import json
import threading
from contextvars import ContextVar
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import (
    AIMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import StructuredTool, tool
from langchain_core.vectorstores import InMemoryVectorStore, VectorStoreRetriever
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from pydantic import Field

from sams_core import AgentSession, SessionClosed, SQLiteBackend
from sams_core.errors import StoreFailed
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
SEARCHED: Any = [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]


@tool
def fetch(query: str) -> str:
    """Fetch a page."""
    return "outsiders wrote this"


@tool
def calc(query: str) -> str:
    """Compute."""
    return "42"


def write() -> AIMessage:
    return said("", ("memory_write", WRITE, "w"))


class Heard(BaseCallbackHandler):
    """The app's own handler."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_chat_model_start(self, *args: Any, **more: Any) -> None:
        self.events.append("model starts")

    def on_tool_start(self, *args: Any, **more: Any) -> None:
        self.events.append("tool starts")

    def on_tool_end(self, *args: Any, **more: Any) -> None:
        self.events.append("tool ends")


# langchain-ai/langchain#36393: the agent's model node loses the config's callbacks under `ainvoke`.


class Loses(AgentMiddleware[Any, Any, Any]):
    """What asynchronous nodes do on Python 3.10: the run's config doesn't reach the model."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        var_child_runnable_config.set(None)
        return await handler(request)


def test_langchain_36393_a_model_that_lost_the_callbacks_is_observed(
    session: AgentSession, written: Any
) -> None:
    heard = Heard()
    answer = AIMessage(SEARCHED, tool_calls=write().tool_calls)
    agent: Any = create_agent(scripted(answer, "ok"), memory_tools(), middleware=[Loses()])

    async def run() -> None:
        async with govern()(session):
            await agent.ainvoke(GO, {"callbacks": [heard]})

    asyncio.run(run())
    assert "model starts" not in heard.events
    assert written() == {"facts/code": True}


# langchain-ai/langchain#27920: a chain's `ainvoke` doesn't use what a retriever overrides for sync.


class OnlySync(VectorStoreRetriever):
    """Guards its sync half, as most subclasses do."""

    guarded: list[str] = Field(default_factory=list)

    def _get_relevant_documents(self, query: str, *, run_manager: Any, **more: Any) -> Any:
        self.guarded.append(query)
        return super()._get_relevant_documents(query, run_manager=run_manager, **more)


@pytest.mark.parametrize("way", ["observed", "wrapped"])
def test_langchain_27920_a_retriever_of_which_only_the_sync_half_is_guarded_marks_in_both(
    way: str, open_session: Any
) -> None:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    docs, marked = OnlySync(vectorstore=store), []
    for mode in ("invoke", "ainvoke"):
        session = open_session(mode)
        chain = (session.tainting(docs) if way == "wrapped" else docs) | (lambda found: found)
        if way == "wrapped":
            with session.active():
                chain.invoke("q") if mode == "invoke" else asyncio.run(chain.ainvoke("q"))
        else:
            with govern()(session):
                chain.invoke("q") if mode == "invoke" else asyncio.run(chain.ainvoke("q"))
        marked.append(any(source.kind == "retriever" for source in session.sources))
    assert docs.guarded == ["q"]  # once for two calls
    assert marked == [True, True]


# langchain-ai/langchain#20043: `on_tool_end` didn't come when arguments were wrong and that was handled.


@pytest.mark.parametrize("trusted", [True, False])
def test_langchain_20043_a_tool_that_never_ran_marks_for_what_its_error_handler_said(
    trusted: bool, session: AgentSession, written: Any
) -> None:
    """Closed there, so an end is told today; an error that isn't handled still has none."""
    heard, ran = Heard(), []

    def look_up(number: int) -> str:
        """Look it up."""
        ran.append(number)
        return "x"

    made = [
        StructuredTool.from_function(look_up, name=name, handle_validation_error=handles)
        for name, handles in (("asks", lambda error: "outsiders wrote this"), ("raises", False))
    ]
    many = {"number": "many"}
    agent: Any = create_agent(
        scripted(said("", ("asks", many, "a")), said("", ("raises", many, "r")), write(), "done"),
        made,
        middleware=[SamsMiddleware(session, trusted=[*made] if trusted else [])],
    )
    state = agent.invoke(GO, {"callbacks": [heard]})
    assert "outsiders wrote this" in [m.content for m in state["messages"]]
    assert ran == [] and heard.events.count("tool starts") == 3
    assert heard.events.count("tool ends") == 2  # of one that was handled, and of the write
    assert written() == {"facts/code": not trusted}


# langchain-ai/langgraph#6533: what resumes one tool goes to another that was interrupted beside it.


def test_langgraph_6533_a_write_beside_interrupted_tools_asks_nobody_and_is_stored_once(
    session: AgentSession, written: Any
) -> None:
    """A node that runs several calls is run anew on resume, the write with it."""
    asked, got, writes = threading.Event(), [], []

    @tool
    def first(query: str) -> str:
        """Ask, but not before the other one did."""
        asked.wait(30)
        got.append(("first", interrupt("for the first")))
        return "ok"

    @tool
    def second(query: str) -> str:
        """Ask."""
        asked.set()
        got.append(("second", interrupt("for the second")))
        return "ok"

    class Counts(BaseCallbackHandler):
        def on_tool_start(self, serialized: Any, *args: Any, **more: Any) -> None:
            writes.extend([1] if serialized["name"] == "memory_write" else [])

    turn = said("", ("first", Q, "1"), ("second", Q, "2"), ("memory_write", WRITE, "w"))
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([first, second, *memory_tools()]))
    graph.add_edge(START, "tools")
    app: Any = graph.compile(checkpointer=InMemorySaver())
    config = {**CONFIG, "callbacks": [Counts()], "max_concurrency": 3}
    with govern(trusted=[first, second])(session):
        scripted(turn).invoke("go")  # so that the turn is the session's own
        paused = app.invoke({"messages": [turn]}, config)["__interrupt__"]
        state = app.invoke(Command(resume="for the second"), config)
        while "__interrupt__" in state:
            state = app.invoke(Command(resume="for whom?"), config)
    assert len(paused) == 1 and ("first", "for the second") in got  # the issue
    assert len(writes) > 1
    assert written() == {"facts/code": False}
    (answer,) = [m for m in state["messages"] if isinstance(m, ToolMessage) and m.name not in
                 ("first", "second")]  # fmt: skip
    assert json.loads(str(answer.content))["status"] == "queued"


# langchain-ai/langchain#33856: summarising removes system messages that were kept in the conversation.


def test_langchain_33856_the_context_block_outlives_the_system_messages_of_a_thread(
    session: AgentSession,
) -> None:
    prompts: list[list[Any]] = []

    def say(messages: Any, tools: Any) -> AIMessage:
        prompts.append(messages)
        return said("fine")

    shorten = SummarizationMiddleware(
        scripted(*["summary"] * 9), trigger=("messages", 4), keep=("messages", 2)
    )
    agent: Any = create_agent(
        scripted(*[say] * 4),
        [],
        middleware=[SamsMiddleware(session), shorten],
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": [SystemMessage("the house rules"), ("user", "go")]}, CONFIG)
    for _ in range(3):
        agent.invoke(GO, CONFIG)
    ruled = [any(m.content == "the house rules" for m in prompt) for prompt in prompts]
    assert ruled[0] and not ruled[-1]  # the issue
    assert all(sum("<memory note=" in str(m.content) for m in prompt) == 1 for prompt in prompts)


# langchain-ai/langchain#8051: what a handler raises is swallowed.


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
@pytest.mark.filterwarnings("ignore:.*Error in .* callback.*")
def test_langchain_8051_a_mark_that_cant_be_recorded_is_not_swallowed(
    mode: str, session: AgentSession, backend: SQLiteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    class Vetoes(BaseCallbackHandler):
        def on_tool_start(self, *args: Any, **more: Any) -> None:
            raise PermissionError("no")

    @tool
    def read(query: str) -> str:
        """Read a page."""
        ran.append(query)
        return "outsiders wrote this"

    def full(*args: Any) -> None:
        raise StoreFailed("full")

    def use(config: Any = None) -> None:
        read.invoke(Q, config) if mode == "invoke" else asyncio.run(read.ainvoke(Q, config))

    use({"callbacks": [Vetoes()]})
    assert ran == ["q"]  # the issue
    monkeypatch.setattr(backend, "add_sources", full)
    with govern()(session), pytest.raises(SessionClosed):
        use()
    assert ran == ["q"]


# langchain-ai/langchain#31398: what an asynchronous handler puts into the context is lost.


def test_langchain_31398_a_mark_is_there_when_the_tools_body_begins(session: AgentSession) -> None:
    seen: ContextVar[bool] = ContextVar("seen", default=False)
    found: list[tuple[bool, bool]] = []

    class Sets(AsyncCallbackHandler):
        async def on_tool_start(self, *args: Any, **more: Any) -> None:
            seen.set(True)

    @tool
    async def read(query: str) -> str:
        """Read a page."""
        found.append((seen.get(), session.tainted))
        return "outsiders wrote this"

    async def run() -> None:
        async with govern()(session):
            await read.ainvoke(Q, {"callbacks": [Sets()]})

    asyncio.run(run())
    assert found == [(False, True)]


# langchain-ai/deepagents#270: a shortened conversation has results without the answer that called.


@pytest.mark.parametrize("own", [True, False], ids=["its own", "another session's"])
def test_deepagents_270_a_result_without_its_call_is_known_by_whose_it_was(
    own: bool, open_session: Any, told: Any
) -> None:
    saver = InMemorySaver()
    one = open_session("s1")

    def agent_of(session: AgentSession, *answers: Any) -> Any:
        middleware = [SamsMiddleware(session, trusted=[calc])]
        return create_agent(scripted(*answers), [calc], middleware=middleware, checkpointer=saver)

    agent = agent_of(one, said("", ("calc", Q, "c")), "42")
    _, caller, result, _ = agent.invoke(GO, CONFIG)["messages"]
    agent.update_state(CONFIG, {"messages": [RemoveMessage(id=caller.id)]})
    session = one if own else open_session("s2")
    shown = agent_of(session, "ok").invoke(GO, CONFIG)["messages"]
    assert result in shown and caller not in shown
    assert told(session) == ([] if own else ["history a conversation from elsewhere"])


# cuga-project/cuga-agent#276: a list of callbacks in the config, even an empty one, replaces the others.


def test_cuga_agent_276_callbacks_that_replace_the_others_dont_replace_ours(
    session: AgentSession, written: Any
) -> None:
    heard = Heard()
    node = StructuredTool.from_function(
        lambda query: fetch.invoke({"query": query}, {"callbacks": []}),
        name="outer",
        description="Look it up.",
    )
    agent: Any = create_agent(
        scripted(said("", ("outer", Q, "c")), write(), "done"),
        [node],
        middleware=[SamsMiddleware(session, trusted=[node])],
    )
    agent.invoke(GO, {"callbacks": [heard]})
    assert heard.events.count("tool starts") == 2  # outer and the write: the inner one is lost
    assert written() == {"facts/code": True}


# NousResearch/hermes-agent#98587: a list of untrusted tools' names missed those that read, too.


@pytest.mark.parametrize("name", ["read_file", "terminal", "browser", "delegate"])
def test_hermes_agent_98587_a_tool_marks_whatever_it_is_called(
    name: str, session: AgentSession, written: Any
) -> None:
    reads = StructuredTool.from_function(
        lambda query: "outsiders wrote", name=name, description="d"
    )
    agent = create_agent(
        scripted(said("", (name, Q, "c")), write(), "done"),
        [reads],
        middleware=[SamsMiddleware(session, trusted=[calc])],
    )
    agent.invoke(GO)
    assert written() == {"facts/code": True}
