"""What could lose a mark: copies, what is made anew or taken apart, classes with ways of their own."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.load import dumpd, load
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import (
    ConfigurableField,
    Runnable,
    RunnableGenerator,
    RunnableLambda,
    RunnableSequence,
    RunnableSerializable,
)
from langchain_core.tools import BaseTool
from langchain_core.vectorstores import VectorStore
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph

from sams_core import AgentSession, NoSession, PermissionDenied, SQLiteBackend, tainting
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.scripted import ScriptedModel, said, scripted


class Worded(RunnableSerializable[Any, str]):
    """Made anew by configurable fields."""

    word: str = "got"

    @classmethod
    def is_lc_serializable(cls) -> bool:
        return True

    def invoke(self, input: Any, config: Any = None, **more: Any) -> str:
        return self.word


class One(Runnable[Any, str]):
    """An object of which there is one."""

    def __copy__(self) -> One:
        return self

    def __deepcopy__(self, memo: object) -> One:
        return self

    def __reduce__(self) -> str:
        return "one"

    def invoke(self, input: Any, config: Any = None, **more: Any) -> str:
        return "got"


one = One()


class Slots(Runnable[Any, Any]):
    """Keeps what it has in slots."""

    __slots__ = ("__hidden", "shown")

    def __init__(self) -> None:
        self.shown, self.__hidden = "a", "b"

    def invoke(self, input: Any, config: Any = None, **more: Any) -> Any:
        return self.shown, self.__hidden


class Told(Runnable[Any, str]):
    """Lets an object bring its own way in."""

    def __init__(self) -> None:
        self.invoke = lambda input, config=None, **more: "got"  # type: ignore[method-assign]

    def invoke(self, input: Any, config: Any = None, **more: Any) -> str:
        raise AssertionError


class Names(Runnable[Any, str]):
    """Makes others of itself by the name of its class."""

    def copy(self) -> Names:
        """Make another."""
        return Names()

    def with_config(self, config: Any = None, **more: Any) -> Names:
        return Names()

    def bind_tools(self, tools: Any) -> tuple[Names, int]:
        """Make another, beside something else."""
        return Names(), 1

    def __or__(self, other: Any) -> Names:  # type: ignore[override]
        return Names()

    def __deepcopy__(self, memo: object) -> Names:
        return Names()

    def invoke(self, input: Any, config: Any = None, **more: Any) -> str:
        return "got"


class Passing(Runnable[Any, str]):
    """Passes on what it doesn't know."""

    def __getattr__(self, name: str) -> Any:
        if name == "bind_tools":
            return lambda: Passing()
        if name == "search":
            return lambda query: "got"
        raise AttributeError(name)

    def invoke(self, input: Any, config: Any = None, **more: Any) -> str:
        return "got"


def configured(x: Any) -> Any:
    return x.configurable_fields(word=ConfigurableField("w")).with_config(configurable={"w": "now"})


def chat(text: str = "{q}") -> Any:
    return ChatPromptTemplate([("user", text)])


def two() -> Any:
    return RunnableLambda(str) | RunnableLambda(str.upper)


def ask(x: Any) -> Any:
    return x.invoke({"q": "q"})


Q = "q"
WAYS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "made anew": (Worded, lambda x: configured(x).invoke(Q)),
    "made anew, of a binding": (Worded, lambda x: configured(x).bind().with_retry().invoke(Q)),
    "made anew by hand": (Worded, lambda x: type(x)(**x.model_dump()).invoke(Q)),
    "copied by pydantic": (Worded, lambda x: x.model_copy(update={"word": "n"}).invoke(Q)),
    "copied deeply by pydantic": (Worded, lambda x: x.model_copy(deep=True).invoke(Q)),
    "one, copied": (lambda: one, lambda x: copy.copy(x).invoke(Q)),
    "one, copied deeply": (lambda: one, lambda x: copy.deepcopy(x).invoke(Q)),
    "slots": (Slots, lambda x: copy.deepcopy(copy.copy(x)).invoke(Q)),
    "an object's own way in": (Told, lambda x: x.invoke(Q)),
    "an object's own way in, by another": (Told, lambda x: x.batch([Q])),
    "copied by name": (Names, lambda x: x.copy().invoke(Q)),
    "copied deeply by name": (Names, lambda x: copy.deepcopy(x).invoke(Q)),
    "configured by name": (Names, lambda x: x.with_config(tags=["t"]).invoke(Q)),
    "bound by name": (Names, lambda x: x.bind_tools([])[0].invoke(Q)),
    "composed by name": (Names, lambda x: (x | str).invoke(Q)),
    "passed on": (Passing, lambda x: x.search(Q)),
    "made by what is passed on": (Passing, lambda x: x.bind_tools().invoke(Q)),
    "passed on by a binding": (lambda: Passing().bind(), lambda x: x.search(Q)),
    "taken apart: a sequence": (two, lambda x: RunnableSequence(str, x).steps[1].invoke(Q)),
    "taken apart: the end": (two, lambda x: (x | str).steps[1].invoke(Q)),
    "taken apart: a binding": (lambda: Worded().bind(), lambda x: x.bound.invoke(Q)),
    "taken apart: a map": (lambda: Worded().map(), lambda x: x.bind().invoke([Q])),
    "prompt + y": (chat, lambda x: ask(x + chat("y"))),
    "y + prompt": (chat, lambda x: ask(chat("y") + x)),
    "y + text prompt": (
        lambda: PromptTemplate.from_template("{q}"),
        lambda x: ask(PromptTemplate.from_template("y") + x),
    ),
    "part of a prompt": (chat, lambda x: ask(x[0:1])),
    "prompt in a prompt": (chat, lambda x: ask(ChatPromptTemplate([x, ("ai", "y")]))),
    "prompt, filled in": (chat, lambda x: x.partial(q="q").invoke({})),
    "prompt, formatted": (chat, lambda x: x.format_messages(q="q")),
    "as a tool": (
        Worded,
        lambda x: x.as_tool(name="n", description="d", arg_types={"q": str}).invoke({"q": "q"}),
    ),
    "recursion": (two, lambda x: RunnableLambda(lambda n: x if n == 0 else n - 1).invoke(0)),
}


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
@pytest.mark.parametrize(("make", "use"), WAYS.values(), ids=WAYS.keys())
def test_what_comes_of_it_marks_too(
    make: Callable[[], Any], use: Callable[[Any], Any], session: AgentSession
) -> None:
    expected = use(make())
    wrapped = session.tainting(make())
    assert not session.tainted
    assert use(wrapped) == expected
    assert session.tainted


@pytest.mark.parametrize("make", [Worded, two, Slots, Names, chat, lambda: one])
def test_what_is_wrapped_stays_in_its_process(
    make: Callable[[], Any], session: AgentSession
) -> None:
    wrapped = session.tainting(make())
    with pytest.raises((TypeError, pickle.PicklingError)):
        pickle.dumps(wrapped)


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
@pytest.mark.filterwarnings(
    "ignore::langchain_core._api.deprecation.LangChainPendingDeprecationWarning"
)
def test_what_is_written_down_is_nothing_that_can_be_loaded(session: AgentSession) -> None:
    assert dumpd(chat())["type"] == "constructor"
    with pytest.raises(NotImplementedError):
        load(dumpd(session.tainting(chat())))


def test_the_original_marks_nobody_and_is_not_changed(session: AgentSession) -> None:
    sequence = two()
    session.tainting(sequence)
    session.tainting(one)
    sequence.invoke(Q)
    one.invoke(Q)
    assert type(one) is One
    assert not session.tainted


def test_what_is_wrapped_twice_marks_twice(open_session: Any) -> None:
    first, second = open_session("s1"), open_session("s2")
    first.tainting(second.tainting(Worded())).invoke(Q)
    assert first.tainted and second.tainted


def test_entries_inside_entries_write_the_ledger_once(
    session: AgentSession, backend: SQLiteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    add = backend.add_sources

    def counted(container: str, family: str, sources: Any) -> None:
        written.append(len(sources))
        add(container, family, sources)

    monkeypatch.setattr(backend, "add_sources", counted)
    wrapped = session.tainting(two())
    assert wrapped.batch(["a", "b", "c"]) == ["A", "B", "C"]
    asyncio.run(wrapped.ainvoke("d"))
    assert written == [1]


def test_a_retry_marks_before_each_try(session: AgentSession) -> None:
    seen: list[bool] = []

    def fails(value: Any) -> None:
        seen.append(session.tainted)
        raise ConnectionError

    wrapped = session.tainting(RunnableLambda(fails))
    again: Any = wrapped.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    with pytest.raises(ConnectionError):
        again.invoke(Q)
    assert seen == [True, True]


def test_a_later_step_of_a_stream_marks_although_it_starts_first(session: AgentSession) -> None:
    seen: list[bool] = []

    def reads(values: Iterator[Any]) -> Iterator[Any]:
        seen.append(session.tainted)
        yield from values

    wrapped = session.tainting(RunnableLambda(str) | RunnableGenerator(reads))
    assert list((RunnableLambda(str) | wrapped).stream(Q)) == ["q"]
    assert seen == [True]


def test_threads_mark_the_same_session(session: AgentSession) -> None:
    wrapped = session.tainting(two())
    got: list[str] = []
    threads = [threading.Thread(target=lambda: got.append(wrapped.invoke(Q))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == ["Q"] * 8
    assert len(session.sources) == 1


@pytest.mark.parametrize("entry", ["invoke", "batch", "stream"])
def test_without_a_session_nothing_runs(entry: str) -> None:
    ran: list[Any] = []
    wrapped = tainting(RunnableLambda(ran.append))
    with pytest.raises(NoSession):
        list(getattr(wrapped, entry)([Q]) or ())
    assert not ran


def test_inside_anothers_run_it_is_refused_and_both_are_marked(open_session: Any) -> None:
    session, other = open_session("s1"), open_session("s2")
    ran: list[Any] = []
    wrapped = session.tainting(RunnableLambda(ran.append))
    with other.active(), pytest.raises(PermissionDenied):
        wrapped.invoke(Q)
    assert session.tainted and other.tainted and not ran


def test_a_part_that_an_object_hands_out_is_bound_as_well(open_session: Any) -> None:
    session, other = open_session("s1"), open_session("s2")
    part = session.tainting(chat())[0:1]
    with other.active(), pytest.raises(PermissionDenied):
        part.invoke({"q": "q"})


def test_what_it_is_composed_with_stays_as_it_was(session: AgentSession) -> None:
    plain = RunnableLambda(str)
    chain: Any = session.tainting(two()) | plain
    assert type(chain) is RunnableSequence and chain.last is plain


def test_a_model_that_is_chosen_late_needs_a_session_first() -> None:
    wrapped: Any = tainting(init_chat_model(configurable_fields="any"))
    made = wrapped.bind_tools([]).with_config(configurable={"model": "none:such"})
    with pytest.raises(NoSession):
        made.invoke(Q)


class Asked(BaseHTTPRequestHandler):
    """A remote graph's server, which only notes whether the session was marked when it was asked."""

    session: AgentSession
    seen: list[bool]

    def do_POST(self) -> None:
        """Refuse."""
        type(self).seen.append(type(self).session.tainted)
        self.send_error(503)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.mark.parametrize("entry", ["invoke", "ainvoke"])
def test_a_remote_graph_marks_before_it_is_asked(entry: str, session: AgentSession) -> None:
    class Noted(Asked):
        pass

    Noted.session, Noted.seen = session, []
    with HTTPServer(("127.0.0.1", 0), Noted) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            remote = RemoteGraph("g", url=f"http://127.0.0.1:{server.server_port}")
            wrapped = session.tainting(remote).with_config(tags=["t"])
            with pytest.raises(Exception, match="503"):
                if entry == "invoke":
                    wrapped.invoke({"messages": []})
                else:
                    asyncio.run(wrapped.ainvoke({"messages": []}))
        finally:
            server.shutdown()
            thread.join()
    assert Noted.seen and all(Noted.seen)


def test_a_wrapped_model_runs_an_agent_with_its_tools(session: AgentSession) -> None:
    def say(messages: Any, tools: Any) -> Any:
        assert session.tainted
        assert "memory_write" in {tool["function"]["name"] for tool in tools}
        return said("got")

    wrapped = session.tainting(ScriptedModel(say=say), "the proxy")
    agent = create_agent(wrapped, [], middleware=[SamsMiddleware(session)])
    assert not session.tainted
    assert agent.invoke({"messages": [("user", "q")]})["messages"][-1].content == "got"


def test_a_wrapped_agent_is_a_node_and_a_sub_agent(session: AgentSession) -> None:
    def before(state: Any) -> None:
        assert not session.tainted

    agent = session.tainting(create_agent(scripted("got"), []), "the helper")
    graph = StateGraph(MessagesState).add_node("before", before).add_node("agent", agent)
    graph = graph.add_edge(START, "before").add_edge("before", "agent").add_edge("agent", END)
    made = graph.compile()
    assert [name for name, _ in made.get_subgraphs()] == ["agent"]
    assert not session.tainted
    assert made.invoke({"messages": [("user", "q")]})["messages"][-1].content == "got"
    assert [source.name for source in session.sources] == ["the helper"]


def test_a_chain_with_memory_tools_keeps_them_as_they_are(session: AgentSession) -> None:
    (index,) = (tool for tool in memory_tools() if tool.name == "memory_index")
    wrapped: Any = session.tainting(RunnableLambda(lambda _: {"scope": "run"}) | index)
    with govern()(session):
        assert "error" not in str(wrapped.invoke(Q))


class Closing(VectorStore):
    """Closes what it shares with its copies."""

    def __init__(self, connection: list[str]) -> None:
        self.connection = connection

    def __del__(self) -> None:
        self.connection.clear()

    @classmethod
    def from_texts(cls, texts: Any, embedding: Any, metadatas: Any = None, **more: Any) -> Closing:
        return cls(["open"])

    def similarity_search(self, query: str, k: int = 4, **more: Any) -> Any:
        return list(self.connection)


def test_the_original_lives_as_long_as_what_is_wrapped(session: AgentSession) -> None:
    connection = ["open"]
    wrapped = session.tainting(Closing(connection))
    gc.collect()
    assert copy.copy(wrapped).similarity_search(Q) == ["open"]
    gc.collect()
    assert wrapped.similarity_search(Q) == ["open"]
    del wrapped
    gc.collect()
    assert connection == []


class Registered(BaseTool):
    """Of a class that allows no further class."""

    def __init_subclass__(cls, *, key: str, **more: Any) -> None:
        super().__init_subclass__(**more)


class Registering(Registered, key="1"):
    """A tool of such a class."""

    name: str = "n"
    description: str = "d"

    def _run(self) -> str:
        return "got"


def test_what_allows_no_subclass_is_refused(session: AgentSession) -> None:
    with pytest.raises(TypeError, match="mark_tainted"):
        session.tainting(Registering())
