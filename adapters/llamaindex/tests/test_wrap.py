"""`session.tainting` of LlamaIndex's objects: the same kind of object, which marks at each call."""

import asyncio
import copy
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding, SimpleDirectoryReader, SummaryIndex
from llama_index.core.agent.workflow import CodeActAgent, FunctionAgent
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.readers.base import BasePydanticReader, BaseReader
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool, ToolMetadata
from llama_index.core.tools.ondemand_loader_tool import OnDemandLoaderTool
from llama_index.core.tools.types import AsyncBaseTool, BaseTool, ToolOutput
from llama_index.core.workflow import Context
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.span_handlers import BaseSpanHandler

from sams_core import AgentSession, NoSession, PermissionDenied, tainting
from sams_llamaindex import memory_tools

LLM = MockLLM()
Model = Callable[..., Any]


def fetch(url: str, most: int = 3) -> str:
    """Fetch a page."""
    return f"page {url}"


async def afetch(url: str, most: int = 3) -> str:
    """Fetch a page."""
    return f"page {url}"


class Pages(BaseRetriever):
    """A retriever."""

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text="page u"), score=1.0)]


class Own(CustomQueryEngine):
    """A query engine that is a pydantic model."""

    text: str = "page u"

    def custom_query(self, query_str: str) -> str:
        return self.text


class OwnTool(AsyncBaseTool):
    """A tool of the app's own class."""

    @property
    def metadata(self) -> ToolMetadata:
        return ToolMetadata("d", "own")

    def call(self, input: Any) -> ToolOutput:
        return ToolOutput(tool_name="own", content="page u", raw_input={})

    async def acall(self, input: Any) -> ToolOutput:
        return self.call(input)


class OwnFunctionTool(FunctionTool):
    """A function tool whose calls don't come to its functions."""

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        return ToolOutput(tool_name="own", content="page u", raw_input={})

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        return self.call()


class Mail(BasePydanticReader):
    """A remote reader that is a pydantic model."""

    is_remote: bool = True
    text: str = "page u"

    def lazy_load_data(self, *args: Any, **kwargs: Any) -> Any:
        yield Document(text=self.text)


class Raw(BaseQueryEngine):
    """A query engine of which others call the inside."""

    def __init__(self) -> None:
        super().__init__(None)

    def _query(self, query_bundle: Any) -> Any:
        return "page u"

    async def _aquery(self, query_bundle: Any) -> Any:
        return "page u"

    def _get_prompt_modules(self) -> dict[str, Any]:
        return {}


class Sorts(BaseNodePostprocessor):
    """A postprocessor that adds what it finds."""

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
        return [NodeWithScore(node=TextNode(text="page " + query_bundle.query_str), score=1.0)]


def function_tool() -> FunctionTool:
    return FunctionTool.from_defaults(fetch)


def async_tool() -> FunctionTool:
    return FunctionTool.from_defaults(afetch)


def engine() -> BaseQueryEngine:
    return RetrieverQueryEngine.from_args(Pages(), llm=LLM)


def pages_tool() -> RetrieverTool:
    return RetrieverTool.from_defaults(Pages(), name="pages", description="d")


def own_engine_tool() -> QueryEngineTool:
    return QueryEngineTool.from_defaults(Own(), name="own", description="d")


WAYS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "FunctionTool.call": (function_tool, lambda w: w.call(url="u")),
    "FunctionTool()": (function_tool, lambda w: w(url="u")),
    "FunctionTool.acall": (function_tool, lambda w: w.acall(url="u")),
    "FunctionTool.fn": (function_tool, lambda w: w.fn(url="u")),
    "FunctionTool.async_fn": (function_tool, lambda w: w.async_fn(url="u")),
    "FunctionTool.real_fn": (function_tool, lambda w: w.real_fn(url="u")),
    "an async FunctionTool.call": (async_tool, lambda w: w.call(url="u")),
    "an async FunctionTool.acall": (async_tool, lambda w: w.acall(url="u")),
    "an async FunctionTool.fn": (async_tool, lambda w: w.fn(url="u")),
    "an async FunctionTool.real_fn": (async_tool, lambda w: w.real_fn(url="u")),
    "a subclass of FunctionTool.call": (
        lambda: OwnFunctionTool.from_defaults(fetch),
        lambda w: w.call(url="u"),
    ),
    "a subclass of FunctionTool.acall": (
        lambda: OwnFunctionTool.from_defaults(fetch),
        lambda w: w.acall(url="u"),
    ),
    "RetrieverTool.call": (pages_tool, lambda w: w.call("u")),
    "RetrieverTool.acall": (pages_tool, lambda w: w.acall("u")),
    "QueryEngineTool.call": (own_engine_tool, lambda w: w.call("u")),
    "QueryEngineTool.acall": (own_engine_tool, lambda w: w.acall("u")),
    "an own tool.call": (OwnTool, lambda w: w.call("u")),
    "an own tool.acall": (OwnTool, lambda w: w.acall("u")),
    "retrieve": (Pages, lambda w: w.retrieve("u")[0].text),
    "aretrieve": (Pages, lambda w: w.aretrieve("u")),
    "_retrieve": (Pages, lambda w: w._retrieve("u")[0].text),
    "_aretrieve": (Pages, lambda w: w._aretrieve(query_bundle="u")),
    "an engine over it": (
        Pages,
        lambda w: RetrieverQueryEngine.from_args(w, llm=LLM).retrieve("u")[0].text,  # type: ignore[arg-type]
    ),
    "query": (engine, lambda w: w.query("page u")),
    "aquery": (engine, lambda w: w.aquery("page u")),
    "_query": (Raw, lambda w: w._query("u")),
    "_aquery": (Raw, lambda w: w._aquery("u")),
    "a pydantic engine's aquery": (Own, lambda w: w.aquery("u")),
    "postprocess_nodes": (Sorts, lambda w: w.postprocess_nodes([], query_str="u")),
    "apostprocess_nodes": (Sorts, lambda w: w.apostprocess_nodes([], query_str="u")),
    "_postprocess_nodes": (Sorts, lambda w: w._postprocess_nodes([], QueryBundle("u"))),
    "_apostprocess_nodes": (Sorts, lambda w: w._apostprocess_nodes([], QueryBundle("u"))),
    "load_data": (Mail, lambda w: w.load_data()[0].text),
    "aload_data": (Mail, lambda w: w.aload_data()),
    "lazy_load_data": (Mail, lambda w: next(iter(w.lazy_load_data())).text),
    "alazy_load_data": (Mail, lambda w: w.alazy_load_data()),
}


async def done(found: Any) -> str:
    found = await found if inspect.isawaitable(found) else found
    if isinstance(found, str):
        return found
    if inspect.isgenerator(found):
        found = list(found)
    return str(found)


@pytest.mark.anyio
@pytest.mark.parametrize("copied", [False, True], ids=["itself", "its copy"])
@pytest.mark.parametrize("way", WAYS)
async def test_every_way_in_marks(way: str, copied: bool, session: AgentSession) -> None:
    make, call = WAYS[way]
    native = make()
    wrapped = session.tainting(native)
    if copied:
        wrapped = copy.deepcopy(wrapped) if "FunctionTool" in way else copy.copy(wrapped)
    assert isinstance(wrapped, type(native))
    assert type(wrapped).__name__ == type(native).__name__
    with session.active():
        await done(call(native))
        assert not session.tainted
        assert "page u" in await done(call(wrapped)) or way in ("query", "aquery")
    assert session.tainted


@pytest.mark.anyio
async def test_the_very_class_stays_where_it_can() -> None:
    for make in (function_tool, async_tool, pages_tool, own_engine_tool):
        native = make()
        wrapped: Any = tainting(native)
        assert type(wrapped) is type(native)
        assert wrapped.metadata is native.metadata
    tool: Any = tainting(async_tool())
    assert inspect.iscoroutinefunction(tool.real_fn)
    assert inspect.signature(tool.real_fn) == inspect.signature(afetch)


@pytest.mark.parametrize("way", ["load_data", "iter_data", "load_resource", "two workers"])
def test_a_directory_marks(way: str, session: AgentSession, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text("page")
    reader = session.tainting(SimpleDirectoryReader(tmp_path / "in"))
    assert isinstance(reader, SimpleDirectoryReader | BaseReader)
    with session.active():
        if way == "two workers":
            found = reader.load_data(num_workers=2)
        elif way == "load_resource":
            found = reader.load_resource(str(tmp_path / "in" / "a.txt"))
        else:
            found = list(getattr(reader, way)())
    assert found
    assert session.tainted


def test_loaders_made_of_a_wrapped_tool_mark(session: AgentSession) -> None:
    def load(path: str) -> list[Document]:
        """Load."""
        return [Document(text="page")]

    wrapped: Any = session.tainting(FunctionTool.from_defaults(load))
    loader = OnDemandLoaderTool.from_tool(
        wrapped, index_cls=SummaryIndex, index_kwargs={"embed_model": MockEmbedding(embed_dim=4)}
    )
    with session.active():
        loader._loader("p") if hasattr(loader, "_loader") else wrapped.fn("p")
    assert session.tainted


@pytest.mark.anyio
async def test_a_context_is_still_given_to_the_function(
    session: AgentSession, scripted: Model
) -> None:
    given: list[Any] = []

    async def look(ctx: Context, url: str) -> str:
        """Look."""
        given.append(ctx)
        return "page"

    wrapped: Any = session.tainting(FunctionTool.from_defaults(async_fn=look))
    assert "ctx" not in wrapped.metadata.get_parameters_dict()["properties"]
    llm = scripted([("c", "look", {"url": "u"})], "done")
    with session.active():
        await FunctionAgent(tools=[wrapped], llm=llm).run(user_msg="go")
    assert len(given) == 1
    assert session.tainted


@pytest.mark.anyio
async def test_code_that_calls_the_function_itself_marks(
    session: AgentSession, scripted: Model
) -> None:
    wrapped: Any = session.tainting(function_tool())

    def execute(code: str) -> str:
        """Run code."""
        return str(eval(code, {"fetch": wrapped.real_fn}))

    llm = scripted("<execute>fetch('u')</execute>", "done")
    with session.active():
        await CodeActAgent(execute, tools=[wrapped], llm=llm, streaming=False).run(user_msg="go")
    assert session.tainted


def test_wrapping_adds_no_span(session: AgentSession) -> None:
    heard: list[str] = []

    class Hears(BaseSpanHandler[Any]):
        def span_enter(self, id_: str, *args: Any, **kwargs: Any) -> None:
            heard.append(id_[:-37])

        def new_span(self, *args: Any, **kwargs: Any) -> None: ...

        def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None: ...

        def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None: ...

    root, hears = get_dispatcher(), Hears()
    root.add_span_handler(hears)
    try:
        Pages().retrieve("q")
        plain = list(heard)
        heard.clear()
        with session.active():
            session.tainting(Pages()).retrieve("q")
    finally:
        root.span_handlers.remove(hears)
    assert heard == plain


@pytest.mark.anyio
@pytest.mark.parametrize("make", [function_tool, async_tool, pages_tool, Pages, OwnTool])
async def test_another_sessions_run_is_refused_and_both_are_marked(
    make: Callable[[], Any], session: AgentSession, open_session: Callable[[str], AgentSession]
) -> None:
    other, wrapped = open_session("s2"), session.tainting(make())
    with other.active(), pytest.raises(PermissionDenied) as refused:
        if isinstance(wrapped, BaseTool):
            await wrapped.acall(url="u") if isinstance(wrapped, FunctionTool) else wrapped("u")
        else:
            await wrapped.aretrieve("q")
    assert refused.value.rule == "foreign-run"
    assert session.tainted
    assert other.tainted


@pytest.mark.parametrize("make", [function_tool, async_tool, Pages, Mail, Own])
def test_without_a_session_nothing_is_read(make: Callable[[], Any]) -> None:
    wrapped: Any = tainting(make())
    way = next(
        name for name in ("call", "retrieve", "load_data", "query") if hasattr(wrapped, name)
    )
    with pytest.raises(NoSession):
        getattr(wrapped, way)(*(["q"] if way != "load_data" else []))


WONT: dict[str, Callable[[], Any]] = {
    "an index": lambda: SummaryIndex([], embed_model=MockEmbedding(embed_dim=4)),
    "a model": MockLLM,
    "an agent": lambda: FunctionAgent(tools=[], llm=LLM),
    "a memory tool": lambda: memory_tools()[0],
}


@pytest.mark.parametrize("what", WONT)
def test_what_cant_be_wrapped_says_what_to_do(what: str, session: AgentSession) -> None:
    with pytest.raises(TypeError, match=r"wrap the|by itself"):
        session.tainting(WONT[what]())
    assert not session.tainted
    asyncio.run(asyncio.sleep(0))
