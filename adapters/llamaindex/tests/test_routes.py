"""Every known way by which a text reaches a run of LlamaIndex marks; a line a route."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core import (
    Document,
    MockEmbedding,
    Settings,
    SummaryIndex,
    VectorStoreIndex,
)
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.image_retriever import BaseImageRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.objects import ObjectIndex
from llama_index.core.query_engine import (
    CustomQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
)
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.retrievers import QueryFusionRetriever, RouterRetriever
from llama_index.core.schema import IndexNode, NodeWithScore, TextNode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool, ToolMetadata
from llama_index.core.tools.calling import acall_tool, call_tool
from llama_index.core.tools.ondemand_loader_tool import OnDemandLoaderTool
from llama_index.core.tools.tool_spec.load_and_search import LoadAndSearchToolSpec
from llama_index.core.tools.types import BaseTool, ToolOutput, adapt_to_async_tool

from sams_core import AgentSession
from sams_llamaindex import govern

LLM, EMBED = MockLLM(), MockEmbedding(embed_dim=4)
INDEX = VectorStoreIndex.from_documents([Document(text="EVIL")], embed_model=EMBED)


class Pages(BaseRetriever):
    """A retriever with a sync half only."""

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text="EVIL"), score=1.0)]


class Pictures(BaseImageRetriever):
    """No `BaseRetriever` at all."""

    def _text_to_image_retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return []

    def _image_to_image_retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return []

    async def _atext_to_image_retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return []

    async def _aimage_to_image_retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return []

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _get_prompt_modules(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None: ...


class Own(CustomQueryEngine):
    """A query engine without a retriever; pydantic, so it has no hash."""

    def custom_query(self, query_str: str) -> str:
        return "EVIL"


class Duck:
    """A retriever of no class that LlamaIndex knows."""

    def retrieve(self, query: Any) -> list[NodeWithScore]:
        return []

    async def aretrieve(self, query: Any) -> list[NodeWithScore]:
        return []


class OldTool(BaseTool):
    """A tool with a sync half only, whose metadata is broken."""

    @property
    def metadata(self) -> ToolMetadata:
        raise RuntimeError("no metadata")

    def __call__(self, input: Any) -> ToolOutput:
        return ToolOutput(tool_name="old", content="EVIL", raw_input={})


class Asks(BaseQuestionGenerator):
    """Asks one question of the first tool."""

    def generate(self, tools: Any, query: Any) -> list[SubQuestion]:
        return [SubQuestion(sub_question="q", tool_name=tools[0].name)]

    async def agenerate(self, tools: Any, query: Any) -> list[SubQuestion]:
        return self.generate(tools, query)

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None: ...


def fetch(url: str) -> str:
    """Fetch a page."""
    return "EVIL"


async def afetch(url: str) -> str:
    """Fetch a page."""
    return "EVIL"


def fails(url: str) -> str:
    """Fetch a page."""
    raise ValueError("EVIL")


def load(path: str) -> list[Document]:
    """Load a file."""
    return [Document(text="EVIL")]


FETCH = FunctionTool.from_defaults(fetch)
AFETCH = FunctionTool.from_defaults(afetch)
FAILS = FunctionTool.from_defaults(fails)
ENGINE = INDEX.as_query_engine(llm=LLM)
DOCS = QueryEngineTool.from_defaults(ENGINE, name="docs", description="d")
PAGES = RetrieverTool.from_defaults(Pages(), name="pages", description="d")
RECURSIVE = SummaryIndex([IndexNode(text="x", index_id="x", obj=Own())], embed_model=EMBED)


def select() -> LLMSingleSelector:
    answer = '[{"choice": 1, "reason": "r"}]'

    class Chooses(MockLLM):
        def complete(self, *args: Any, **kwargs: Any) -> Any:
            from llama_index.core.llms import CompletionResponse

            return CompletionResponse(text=answer)

        async def acomplete(self, *args: Any, **kwargs: Any) -> Any:
            return self.complete()

        predict = lambda self, *a, **k: answer  # noqa: E731

        async def apredict(self, *args: Any, **kwargs: Any) -> str:
            return answer

    return LLMSingleSelector.from_defaults(llm=Chooses())


def fusion() -> QueryFusionRetriever:
    return QueryFusionRetriever([Pages(), Pages()], llm=LLM, num_queries=1, use_async=True)


def sub_question() -> SubQuestionQueryEngine:
    return SubQuestionQueryEngine.from_defaults(
        [DOCS], llm=LLM, question_gen=Asks(), use_async=True
    )


def router() -> RouterQueryEngine:
    return RouterQueryEngine(selector=select(), query_engine_tools=[DOCS], llm=LLM)


def router_of_retrievers() -> RouterRetriever:
    return RouterRetriever(selector=select(), retriever_tools=[PAGES], llm=LLM)


def chat(mode: str) -> Any:
    return INDEX.as_chat_engine(chat_mode=mode, llm=LLM)


def stream(response: Any) -> Any:
    return list(response.response_gen)


SYNC: dict[str, Callable[[], Any]] = {
    "FunctionTool.call": lambda: FETCH.call(url="u"),
    "FunctionTool()": lambda: FETCH(url="u"),
    "an async function's sync half": lambda: AFETCH.call(url="u"),
    "call_tool": lambda: call_tool(FETCH, {"url": "u"}),
    "a tool that raises": lambda: call_tool(FAILS, {"url": "u"}),
    "a tool without metadata": lambda: OldTool()("q"),
    "QueryEngineTool.call": lambda: DOCS.call("q"),
    "RetrieverTool.call": lambda: PAGES.call("q"),
    "retrieve": lambda: Pages().retrieve("q"),
    "an index's retriever": lambda: INDEX.as_retriever().retrieve("q"),
    "query": lambda: ENGINE.query("q"),
    "a streaming query engine": lambda: stream(
        INDEX.as_query_engine(llm=LLM, streaming=True).query("q")
    ),
    "an engine of a retriever": lambda: RetrieverQueryEngine.from_args(Pages(), llm=LLM).query("q"),
    "an engine of a duck": lambda: RetrieverQueryEngine.from_args(Duck(), llm=LLM).query("q"),  # type: ignore[arg-type]
    "a custom query engine": lambda: Own().query("q"),
    "recursive retrieval": lambda: RECURSIVE.as_retriever().retrieve("q"),
    "an image retriever": lambda: Pictures().text_to_image_retrieve("q"),
    "fusion, in a loop of its own": lambda: fusion().retrieve("q"),
    "sub-questions": lambda: sub_question().query("q"),
    "a router": lambda: router().query("q"),
    "a router of retrievers": lambda: router_of_retrievers().retrieve("q"),
    "chat: context": lambda: chat("context").chat("q"),
    "chat: condense_plus_context, streamed": lambda: stream(
        chat("condense_plus_context").stream_chat("q")
    ),
    "chat: condense_question": lambda: chat("condense_question").chat("q"),
    "a loader on demand": lambda: OnDemandLoaderTool.from_tool(
        FunctionTool.from_defaults(load), index_cls=SummaryIndex, name="od", description="d"
    ).call(path="p", query_str="q"),
    "load and search": lambda: (
        LoadAndSearchToolSpec.from_defaults(
            FunctionTool.from_defaults(load), index_cls=SummaryIndex
        )
        .to_tool_list()[0]
        .call(path="p")
    ),
    "a tools index asked by the app": lambda: (
        ObjectIndex.from_objects([FETCH], embed_model=EMBED).as_retriever().retrieve("q")
    ),
}
ASYNC: dict[str, Callable[[], Any]] = {
    "FunctionTool.acall": lambda: AFETCH.acall(url="u"),
    "a sync function's async half": lambda: FETCH.acall(url="u"),
    "acall_tool": lambda: acall_tool(FETCH, {"url": "u"}),
    "an old tool, adapted": lambda: adapt_to_async_tool(OldTool()).acall("u"),
    "QueryEngineTool.acall": lambda: DOCS.acall("q"),
    "RetrieverTool.acall": lambda: PAGES.acall("q"),
    "aretrieve of a sync retriever": lambda: Pages().aretrieve("q"),
    "aquery": lambda: ENGINE.aquery("q"),
    "a custom query engine": lambda: Own().aquery("q"),
    "recursive retrieval": lambda: RECURSIVE.as_retriever().aretrieve("q"),
    "fusion": lambda: fusion().aretrieve("q"),
    "sub-questions": lambda: sub_question().aquery("q"),
    "a router": lambda: router().aquery("q"),
    "chat": lambda: chat("context").achat("q"),
    "a thread with the context": lambda: asyncio.to_thread(Pages().retrieve, "q"),
    "an executor without it": lambda: asyncio.get_running_loop().run_in_executor(
        None, Pages().retrieve, "q"
    ),
}


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "_llm", LLM)
    monkeypatch.setattr(Settings, "_embed_model", EMBED)


@pytest.mark.parametrize("route", SYNC)
def test_a_sync_route_marks(route: str, session: AgentSession) -> None:
    with govern()(session):
        assert not session.tainted
        try:
            SYNC[route]()
        except RuntimeError as error:
            assert str(error) == "no metadata"
    assert session.tainted
    assert {source.kind for source in session.sources} <= {"tool", "retriever"}


@pytest.mark.anyio
@pytest.mark.parametrize("route", ASYNC)
async def test_an_async_route_marks(route: str, session: AgentSession) -> None:
    async with govern()(session):
        try:
            await ASYNC[route]()
        except RuntimeError as error:
            assert str(error) == "no metadata"
    assert session.tainted
    assert {source.kind for source in session.sources} <= {"tool", "retriever"}


@pytest.mark.parametrize("route", ["retrieve", "FunctionTool.call", "query"])
def test_a_bare_thread_marks_every_open_block(
    route: str, session: AgentSession, open_session: Callable[[str], AgentSession]
) -> None:
    other, closed = open_session("s2"), open_session("s3")
    with govern()(closed):
        pass
    with govern()(session), govern()(other):
        thread = threading.Thread(target=SYNC[route])
        thread.start()
        thread.join()
    assert session.tainted
    assert other.tainted
    assert not closed.tainted


@pytest.mark.parametrize("route", ["retrieve", "FunctionTool.call", "query"])
def test_outside_of_a_block_nothing_is_observed(route: str, session: AgentSession) -> None:
    SYNC[route]()
    with session.active():
        SYNC[route]()
    assert not session.tainted


@pytest.mark.anyio
async def test_another_task_of_the_same_loop_is_no_part_of_a_block(session: AgentSession) -> None:
    begin, ended = asyncio.Event(), asyncio.Event()

    async def ungoverned() -> None:
        await begin.wait()
        await Pages().aretrieve("q")
        ended.set()

    task = asyncio.create_task(ungoverned())
    async with govern()(session):
        begin.set()
        await ended.wait()
    await task
    assert not session.tainted


def test_an_inner_session_marks_the_outer_one_too(
    session: AgentSession, open_session: Callable[[str], AgentSession]
) -> None:
    inner = open_session("s2")
    with govern()(session), govern()(inner):
        Pages().retrieve("q")
    assert session.tainted
    assert inner.tainted


def test_a_plain_conversation_marks_nothing(session: AgentSession) -> None:
    with govern()(session):
        LLM.chat([ChatMessage(role="user", content="hello")])
        LLM.complete("hello")
        list(LLM.stream_chat([ChatMessage(role="user", content="hello")]))
    assert not session.tainted
