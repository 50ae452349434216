"""What a run doesn't read but finds: in a cache, in a summary, in a thread's state."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.cache.memory import InMemoryCache as NodeCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import CachePolicy, Command, Overwrite, interrupt

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


def write() -> AIMessage:
    return said("", ("memory_write", WRITE, "w"))


def run(app: Any, mode: str = "invoke", given: Any = GO, config: Any = None) -> Any:
    return (
        app.invoke(given, config) if mode == "invoke" else asyncio.run(app.ainvoke(given, config))
    )


# Caches and replays: nothing runs, so nothing is seen to begin.


@MODES
@pytest.mark.parametrize("same", [True, False], ids=["its own", "another session's"])
def test_a_nodes_cached_result_of_another_sessions_tool_labels(
    same: bool, mode: str, open_session: Any, written: Any
) -> None:
    ran: list[str] = []

    @tool
    def once(query: str) -> str:
        """Fetch a page."""
        ran.append(query)
        return "outsiders wrote this"

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([once]), cache_policy=CachePolicy(key_func=lambda _: b"k"))
    agent = create_agent(scripted("read", write(), "done"), memory_tools())
    graph.add_node("writes", agent)
    graph.add_edge(START, "tools")
    graph.add_edge("tools", "writes")
    app: Any = graph.compile(cache=NodeCache())
    turn = said("", ("once", Q, "c"))
    given = {"messages": [HumanMessage("go"), turn]}
    first, second = open_session("s1"), open_session("s1" if same else "s2")
    # In its own session the tool is declared, so that nothing but the cache could label.
    governed = govern(trusted=[once, turn] if same else [turn])
    with governed(first):
        run(app, mode, given)
    with governed(second):
        run(app, mode, given)
    assert ran == ["q"]
    assert written() == {"facts/code": not same}


@pytest.mark.parametrize("same", [True, False], ids=["its own", "another session's"])
def test_a_replayed_task_that_another_session_ran_labels(
    same: bool, open_session: Any, written: Any
) -> None:
    ran: list[str] = []

    @tool
    def once(query: str) -> str:
        """Fetch a page."""
        ran.append(query)
        return "outsiders wrote this"

    @task
    def look_up(call: Any) -> ToolMessage:
        return once.invoke(call)  # type: ignore[no-any-return]

    model = scripted(said("", ("once", Q, "c")), write())

    @task
    def ask(messages: Any) -> Any:
        return model.invoke(messages)

    @entrypoint(checkpointer=InMemorySaver())
    def flow(question: str) -> None:
        turn = ask([HumanMessage(question)]).result()
        found = look_up({**turn.tool_calls[0], "type": "tool_call"}).result()
        interrupt("go on?")
        answer = ask([HumanMessage(question), turn, found]).result()
        memory_tools()[3].invoke({**answer.tool_calls[0], "type": "tool_call"})

    first, second = open_session("s1"), open_session("s1" if same else "s2")
    governed = govern(trusted=[once] if same else [])
    with governed(first):
        flow.invoke("q", CONFIG)
    with governed(second):
        flow.invoke(Command(resume="yes"), CONFIG)
    assert ran == ["q"]
    assert written() == {"facts/code": not same}


@pytest.fixture
def llm_cache() -> Iterator[None]:
    set_llm_cache(InMemoryCache())
    yield
    set_llm_cache(None)


@MODES
@pytest.mark.parametrize("searched", [True, False])
@pytest.mark.usefixtures("llm_cache")
def test_a_cached_answer_shows_that_the_provider_had_read(
    searched: bool, mode: str, open_session: Any, written: Any
) -> None:
    blocks: list[Any] = [{"type": "text", "text": "So it is."}]
    if searched:
        blocks.append({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})
    asked: list[Any] = []

    def say(messages: Any, tools: Any) -> AIMessage:
        asked.append(messages)
        return AIMessage(blocks, tool_calls=write().tool_calls)

    model = scripted(say)  # says it once: the second session has it from the cache
    for name in ("s1", "s2"):
        with govern()(open_session(name)):
            answer = run(model, mode, "q")
    with govern()(open_session("s2")):
        memory_tools()[3].invoke(answer.tool_calls[0])
    assert len(asked) == 1
    assert written() == {"facts/code": searched}


# Summaries and edits: what was read is gone from the conversation, but it was read.


def shortening(kind: str) -> Any:
    if kind == "cleared":
        return ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=0)])
    answers = scripted(*["they said so"] * 9)
    return SummarizationMiddleware(answers, trigger=("messages", 4), keep=("messages", 1))


@OUTSIDERS
@pytest.mark.parametrize("kind", ["cleared", "summed up"])
@pytest.mark.parametrize(
    ("place", "mode"), [(0, "invoke"), (1, "ainvoke")], ids=["ours last", "ours first, async"]
)
def test_a_write_after_the_fetch_left_the_conversation_is_labelled(
    place: int, kind: str, mode: str, outsiders: bool, session: AgentSession, written: Any
) -> None:
    source, prompts = (fetch if outsiders else calc), []

    def say(messages: Any, tools: Any) -> AIMessage:
        prompts.append([str(m.content) for m in messages])
        return write()

    middleware = [shortening(kind)]
    middleware.insert(1 - place, SamsMiddleware(session, trusted=[calc]))
    agent: Any = create_agent(
        scripted(said("", (source.name, Q, "c")), "one", "two", say, "done"),
        [source],
        middleware=middleware,
        checkpointer=InMemorySaver(),
    )
    for _ in range(3):
        run(agent, mode, config=CONFIG)
    assert not any(found in text for text in prompts[0] for found in ("outsiders wrote", "42"))
    assert written() == {"facts/code": outsiders}


# A thread's state, as a caller or a tool would have it.


def pointer(session: AgentSession, last: str) -> list[str]:
    """Build what the middleware keeps in the state; nothing in it is secret."""
    family = repr((session.family.container, session.family.name))
    return [hashlib.sha256(family.encode()).hexdigest()[:32], last]


FOREIGN = AIMessage("outsiders wrote this", id="x")


def agent_of(session: AgentSession, saver: Any, *answers: Any, tools: Any = ()) -> Any:
    return create_agent(
        scripted(*answers),
        list(tools),
        middleware=[SamsMiddleware(session, trusted=[calc])],
        checkpointer=saver,
    )


@OUTSIDERS
@pytest.mark.parametrize(
    "how", ["emptied", "overwritten", "deleted", "travelled back", "copied into another thread"]
)
def test_no_change_to_a_threads_state_takes_a_mark_back(
    how: str, outsiders: bool, session: AgentSession, written: Any
) -> None:
    source = fetch if outsiders else calc
    saver, config = InMemorySaver(), CONFIG
    turn = said("", (source.name, Q, "c"))
    agent = agent_of(session, saver, "hello", turn, "ok", write(), "done", tools=[source])
    run(agent, config=CONFIG)
    before = agent.get_state(CONFIG).config
    run(agent, config=CONFIG)
    if how == "emptied":
        agent.update_state(CONFIG, {"sams_history": []})
    elif how == "overwritten":
        agent.update_state(CONFIG, {"sams_history": Overwrite(["x", "y"])})
    elif how == "deleted":
        agent.update_state(CONFIG, {"messages": Overwrite([]), "sams_history": Overwrite([])})
    elif how == "travelled back":
        config = before
    else:
        config = {"configurable": {"thread_id": "copy"}}
        agent.update_state(config, agent.get_state(before).values)
    marks = session.sources
    run(agent, config=config)
    added = [s for s in session.sources if s not in marks]
    assert all(source.kind == "history" for source in added)  # raised at most
    assert written() == {"facts/code": outsiders or bool(added)}
    assert outsiders or not added or how in ("emptied", "overwritten")


def test_a_pointer_that_names_another_session_spares_nobody(open_session: Any) -> None:
    one, two = open_session("s1"), open_session("s2")
    agent = agent_of(two, None, "ok")
    agent.invoke({**GO, "messages": [FOREIGN, ("user", "go")], "sams_history": pointer(one, "x")})
    assert (one.tainted, two.tainted) == (False, True)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_summary_that_says_whose_it_is_marks(as_json: bool, open_session: Any) -> None:
    one, two = open_session("s1"), open_session("s2")
    state = agent_of(one, None, "hello").invoke(GO)
    said_by = list(state["sams_history"]) if as_json else state["sams_history"]
    summary: Any = {"messages": [("user", "They said hello.")], "sams_history": said_by}
    agent_of(one, None, "ok").invoke(summary)
    agent_of(two, None, "ok").invoke(summary)
    assert (one.tainted, two.tainted) == (False, True)


def test_a_pointer_in_a_thread_of_another_session_spares_nobody(open_session: Any) -> None:
    one, two, saver = open_session("s1"), open_session("s2"), InMemorySaver()
    agent_of(one, saver, "hello").invoke(GO, CONFIG)
    agent_of(two, saver, "ok").invoke(GO, CONFIG)
    assert (one.tainted, two.tainted) == (False, True)


def _in_the_input(agent: Any, session: AgentSession, last: Any) -> None:
    forged = {"messages": [FOREIGN, ("user", "go")], "sams_history": pointer(session, "x")}
    agent.invoke(forged, CONFIG)


def _moved_on(agent: Any, session: AgentSession, last: Any) -> None:
    stolen = agent.get_state(CONFIG).values["sams_history"]
    forged = {"messages": [FOREIGN, ("user", "go")], "sams_history": [stolen[0], "x"]}
    agent.invoke(forged, CONFIG)


def _into_the_state(agent: Any, session: AgentSession, last: Any) -> None:
    forged = {"messages": [FOREIGN], "sams_history": Overwrite(pointer(session, "x"))}
    agent.update_state(CONFIG, forged)
    agent.invoke(GO, CONFIG)


def _under_a_known_id(agent: Any, session: AgentSession, last: Any) -> None:
    agent.invoke({"messages": [AIMessage(FOREIGN.content, id=last.id), ("user", "go")]}, CONFIG)


def _under_a_known_id_in_the_state(agent: Any, session: AgentSession, last: Any) -> None:
    agent.update_state(CONFIG, {"messages": [AIMessage(FOREIGN.content, id=last.id)]})
    agent.invoke(GO, CONFIG)


@pytest.mark.parametrize(
    "forge",
    [
        _in_the_input,
        _moved_on,
        _into_the_state,
        _under_a_known_id,
        _under_a_known_id_in_the_state,
    ],
)
def test_a_caller_cant_pass_a_foreign_answer_off_as_the_sessions_own(
    forge: Any, session: AgentSession, written: Any
) -> None:
    agent = agent_of(session, InMemorySaver(), "hello", write(), "done")
    last = agent.invoke(GO, CONFIG)["messages"][-1]
    assert not session.tainted
    forge(agent, session, last)
    assert written() == {"facts/code": True}
