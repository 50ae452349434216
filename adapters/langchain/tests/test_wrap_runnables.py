"""`session.tainting(x)` for runnables of every kind, by every entry, composed in every way."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.language_models.llms import LLM
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    ConfigurableField,
    Runnable,
    RunnableBranch,
    RunnableGenerator,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
    RunnableSequence,
    RunnableSerializable,
)
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.func import entrypoint
from langgraph.graph import END, START, MessagesState, StateGraph

from sams_core import AgentSession
from sams_langchain.scripted import ScriptedModel, said

pytestmark = [  # old ways in work for as long as they are there
    pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning"),
]
Look = Callable[[], None]


class Own(Runnable[Any, str]):
    """A runnable that has what the interface asks for and no more."""

    __slots__ = ("look",)

    def __init__(self, look: Look) -> None:
        self.look = look

    def invoke(self, input: Any, config: Any = None, **more: Any) -> str:
        self.look()
        return "got"


class Fields(RunnableSerializable[Any, str]):
    """A runnable that the framework makes anew from class and fields."""

    look: Any
    word: str = "got"
    _private: str = "kept"

    def invoke(self, input: Any, config: Any = None, **more: Any) -> str:
        self.look()
        return f"{self.word} {self._private}"


class Proxy(Runnable[Any, str]):
    """A runnable that passes on what it doesn't know."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def invoke(self, input: Any, config: Any = None, **more: Any) -> str:
        return str(self.inner.invoke(input))


class Plain(LLM):
    """A model that isn't a chat model."""

    look: Any

    @property
    def _llm_type(self) -> str:
        return "plain"

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **more: Any) -> str:
        self.look()
        return "got"


class Docs(BaseRetriever):
    """Documents."""

    look: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.look()
        return [Document("got")]


class OwnTool(BaseTool):
    """A tool of its own class."""

    name: str = "own"
    description: str = "Own."
    look: Any

    def _run(self, q: str) -> str:
        self.look()
        return "got"


class Parser(StrOutputParser):
    """A parser that looks something up."""

    look: Any

    def parse(self, text: str) -> str:
        self.look()
        return text


def function(look: Look) -> Any:
    def got(value: Any) -> str:
        look()
        return "got"

    return RunnableLambda(got)


def both(look: Look) -> Any:
    async def agot(value: Any) -> str:
        look()
        return "got"

    return RunnableLambda(function(look).func, agot)


def generator(look: Look) -> Any:
    def got(values: Iterator[Any]) -> Iterator[str]:
        look()
        list(values)
        yield from ("g", "ot")

    async def agot(values: AsyncIterator[Any]) -> AsyncIterator[str]:
        look()
        async for _ in values:
            pass
        for part in ("g", "ot"):
            yield part

    return RunnableGenerator(got, agot)


def fails(value: Any) -> str:
    raise ValueError


def same(value: Any) -> Any:
    return value


def tool(look: Look) -> Any:
    def got(q: str) -> str:
        """Get."""
        look()
        return "got"

    return StructuredTool.from_function(got)


def model(look: Look) -> Any:
    def say(messages: list[BaseMessage], tools: list[dict[str, Any]]) -> Any:
        look()
        return said("got")

    return ScriptedModel(say=say)


def graph(look: Look) -> Any:
    def node(state: Any) -> Any:
        look()
        return {"messages": [("assistant", "got")]}

    made = StateGraph(MessagesState).add_node("node", node)
    return made.add_edge(START, "node").add_edge("node", END).compile()


def functional(look: Look) -> Any:
    @entrypoint()
    def got(value: Any) -> str:
        look()
        return "got"

    return got


def prompt(look: Look) -> Any:
    def looked_up() -> str:
        look()
        return "got"

    return ChatPromptTemplate([("user", "{q} {more}")], partial_variables={"more": looked_up})


def history(look: Look) -> Any:
    kept: dict[str, Any] = {}
    made: Any = RunnableWithMessageHistory(
        function(look), lambda session_id: kept.setdefault(session_id, InMemoryChatMessageHistory())
    )
    return made.with_config(configurable={"session_id": "1"})


ASK = {"q": "q"}
TALK = {"messages": [("user", "q")]}
Kinds = dict[str, tuple[Callable[[Look], Any], Any]]
# What is wrapped, and what it is called with.
SIMPLE: Kinds = {
    "function": (function, "q"),
    "generator": (generator, "q"),
    "sequence": (lambda look: RunnableLambda(str) | str.upper | generator(look), "q"),
    "parallel": (lambda look: RunnableParallel(a=function(look)), "q"),
    "binding": (lambda look: function(look).bind(), "q"),
    "own": (Own, "q"),
    "fields": (lambda look: Fields(look=look), "q"),
    "proxy": (lambda look: Proxy(function(look)), "q"),
    "configurable": (
        lambda look: Fields(look=look).configurable_fields(word=ConfigurableField("w")),
        "q",
    ),
    "prompt": (prompt, ASK),
    "model": (model, "q"),
    "tool": (tool, ASK),
    "retriever": (lambda look: Docs(look=look), "q"),
}
KINDS: Kinds = SIMPLE | {
    "function, async too": (both, "q"),
    "sequence, its first": (lambda look: generator(look) | RunnableLambda(str), "q"),
    "assign": (lambda look: RunnablePassthrough.assign(a=function(look)), ASK),
    "branch": (lambda look: RunnableBranch((lambda _: True, function(look)), fails), "q"),
    "retry": (lambda look: function(look).with_retry(), "q"),
    "fallbacks": (lambda look: RunnableLambda(fails).with_fallbacks([function(look)]), "q"),
    "map": (lambda look: function(look).map(), ["q", "r"]),
    "alternatives": (
        lambda look: Fields(look=look).configurable_alternatives(
            ConfigurableField("which"), other=lambda: function(look)
        ),
        "q",
    ),
    "bound model": (lambda look: model(look).bind_tools([tool(look)]), "q"),
    "model without chat": (lambda look: Plain(look=look), "q"),
    "parser": (lambda look: Parser(look=look), "q"),
    "chain": (lambda look: ChatPromptTemplate([("user", "{q}")]) | model(look) | str, ASK),
    "history": (history, "q"),
    "tool of its own class": (lambda look: OwnTool(look=look), ASK),
    "runnable's tool": (lambda look: function(look).as_tool(name="got", arg_types={"q": str}), ASK),
    "graph": (graph, TALK),
    "agent": (lambda look: create_agent(model(look), []), TALK),
    "functional graph": (functional, "q"),
}


async def each(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


async def given(value: Any) -> AsyncIterator[Any]:
    yield value


async def events_v3(x: Any, value: Any) -> None:
    stream = await x.astream_events(value, version="v3")
    async for _ in stream:
        pass


Use = Callable[[Any, Any], Any]
ENTRIES: dict[str, Use] = {
    "invoke": lambda x, v: x.invoke(v),
    "invoke, callbacks=[]": lambda x, v: x.invoke(v, {"callbacks": []}),
    "ainvoke": lambda x, v: asyncio.run(x.ainvoke(v)),
    "batch": lambda x, v: x.batch([v, v]),
    "abatch": lambda x, v: asyncio.run(x.abatch([v, v])),
    "batch_as_completed": lambda x, v: list(x.batch_as_completed([v])),
    "abatch_as_completed": lambda x, v: asyncio.run(each(x.abatch_as_completed([v]))),
    "stream": lambda x, v: list(x.stream(v)),
    "astream": lambda x, v: asyncio.run(each(x.astream(v))),
    "transform": lambda x, v: list(x.transform(iter([v]))),
    "atransform": lambda x, v: asyncio.run(each(x.atransform(given(v)))),
    "astream_log": lambda x, v: asyncio.run(each(x.astream_log(v))),
    "astream_events": lambda x, v: asyncio.run(each(x.astream_events(v, version="v2"))),
}
CALLS = [
    (kind, entry)
    for kind in KINDS
    for entry in ENTRIES
    if (kind, entry) != ("map", "astream_events")  # it has none
]
COMPOSED: dict[str, Callable[[Any], Any]] = {
    "x | y": lambda x: x | RunnableLambda(same),
    "y | x": lambda x: RunnableLambda(same) | x,
    "f | x": lambda x: same | x,
    "y | x | f": lambda x: RunnableLambda(same) | x | same,
    "RunnableSequence": lambda x: RunnableSequence(x, RunnableLambda(same)),
    "dict": lambda x: RunnableLambda(same) | {"a": x, "b": same},
    "bind": lambda x: x.bind(),
    "with_config": lambda x: x.with_config(tags=["t"]),
    "with_types": lambda x: x.with_types(output_type=str),
    "with_listeners": lambda x: x.with_listeners(on_start=lambda run: None),
    "with_retry": lambda x: x.with_retry(),
    "with_fallbacks": lambda x: x.with_fallbacks([RunnableLambda(same)]),
    "as a fallback": lambda x: RunnableLambda(fails).with_fallbacks([x]),
    "as a function's answer": lambda x: RunnableLambda(lambda _: x),
    "bind, with_retry, with_config": lambda x: x.bind().with_retry().with_config(tags=["t"]),
    "alternatives of alternatives": lambda x: RunnableSerializable.configurable_alternatives(
        RunnableSerializable.configurable_alternatives(
            x if isinstance(x, RunnableSerializable) else x.bind(),
            ConfigurableField("z"),
            other=RunnableLambda(same),
        ),
        ConfigurableField("y"),
        other=RunnableLambda(same),
    ),
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
}


def shown(result: Any) -> Any:
    """A result without what differs between two runs of one thing: ids, addresses, order of threads."""
    if isinstance(result, list):
        return sorted(map(shown, result))
    parts = result.items() if isinstance(result, dict) else [result]
    text = " ".join(sorted(map(str, parts)))
    return re.sub(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.+]+", "-", text)


def check(
    session: AgentSession, kind: str, use: Use, composed: Callable[[Any], Any] = same
) -> None:
    seen: list[bool] = []
    make, value = KINDS[kind]
    plain, other = (make(lambda: seen.append(session.tainted)) for _ in range(2))
    wrapped = session.tainting(other)
    assert isinstance(wrapped, type(plain)) and type(wrapped).__name__ == type(plain).__name__
    used = composed(wrapped)
    assert not session.tainted, "composing is no call"
    expected = shown(use(composed(plain), value))
    assert seen and not any(seen)
    seen.clear()
    assert shown(use(used, value)) == expected
    assert seen and all(seen)


@pytest.mark.parametrize(("kind", "entry"), CALLS)
def test_every_entry_marks_before_the_body_and_answers_as_before(
    kind: str, entry: str, session: AgentSession
) -> None:
    check(session, kind, ENTRIES[entry])


@pytest.mark.parametrize("kind", SIMPLE)
@pytest.mark.parametrize("composed", COMPOSED)
def test_every_composition_marks_before_the_body_and_answers_as_before(
    kind: str, composed: str, open_session: Any
) -> None:
    for number, entry in enumerate(("invoke", "astream")):
        check(open_session(f"s{number}"), kind, ENTRIES[entry], COMPOSED[composed])


def test_the_first_form_of_events_marks_too(session: AgentSession) -> None:
    check(session, "function", lambda x, v: asyncio.run(each(x.astream_events(v, version="v1"))))


if hasattr(Runnable, "stream_events"):  # came with a later version than the floor

    @pytest.mark.parametrize("kind", ["model", "bound model", "graph", "agent"])
    @pytest.mark.parametrize(
        "events", [lambda x, v: list(x.stream_events(v, version="v3")), events_v3]
    )
    def test_the_third_form_of_events_marks_too(
        kind: str, events: Use, session: AgentSession
    ) -> None:
        def used(x: Any, value: Any) -> None:
            going = events(x, value)
            if asyncio.iscoroutine(going):
                asyncio.run(going)

        check(session, kind, used)


def _described(x: Any) -> list[Any]:
    return [
        x.get_name(),
        x.get_input_schema().model_json_schema(),
        x.get_output_schema().model_json_schema(),
        [str(spec) for spec in x.config_specs],
        x.get_graph().draw_mermaid(),
        getattr(x, "description", None),
        getattr(x, "args", None) if isinstance(x, BaseTool) else None,
        type(x).__doc__,
        type(x).__module__,
        type(x).__qualname__,
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrapped_describes_itself_as_before(kind: str, session: AgentSession) -> None:
    plain = KINDS[kind][0](lambda: None)
    assert _described(session.tainting(plain)) == _described(plain)
    assert not session.tainted
