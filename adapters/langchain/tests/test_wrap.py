"""`session.tainting(x)` for LangChain's objects: the same thing, which marks at the start of a call."""

from __future__ import annotations

import asyncio
import copy
import functools
import pickle
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.document_loaders import BaseBlobParser, BaseLoader, Blob, BlobLoader
from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField
from langchain_core.stores import InMemoryStore
from langchain_core.tools import BaseTool, StructuredTool, Tool, create_retriever_tool, tool
from langchain_core.vectorstores import VectorStore

from sams_core import AgentSession, NoSession, PermissionDenied, tainting
from sams_langchain import SamsToolkit, memory_tools


@tool
def fetch(query: str) -> str:
    """Fetch a page."""
    return f"got {query}"


@tool
async def afetch(query: str) -> str:
    """Fetch a page."""
    return f"got {query}"


class Own(BaseTool):
    """A tool of its own class."""

    name: str = "own"
    description: str = "Own."
    prefix: str = "got"

    def _run(self, query: str) -> str:
        return f"{self.prefix} {query}"


class Docs(BaseRetriever):
    """Documents."""

    k: int = 1

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(query)] * self.k


class Pages(BaseLoader):
    """A loader."""

    def lazy_load(self) -> Iterator[Document]:
        yield Document("page")

    async def alazy_load(self) -> AsyncIterator[Document]:
        yield Document("page")

    def scrape(self) -> str:
        """Read in a way that only this loader has."""
        return "page"


class Shelf(VectorStore):
    """A vector store without vectors."""

    @classmethod
    def from_texts(cls, texts: Any, embedding: Any, metadatas: Any = None, **more: Any) -> Shelf:
        return cls()

    def get_by_ids(self, ids: Any, /) -> list[Document]:
        return [Document("page")]

    def similarity_search(self, query: str, k: int = 4, **more: Any) -> list[Document]:
        return [Document("page")]

    def similarity_search_with_score(self, *args: Any, **more: Any) -> list[Any]:
        return [(Document("page"), 1.0)]

    def hybrid(self, query: str) -> list[Document]:
        """Read in a way that only this store has."""
        return [Document("page")]

    def add_texts(self, texts: Any, metadatas: Any = None, **more: Any) -> list[str]:
        return ["1"]

    @functools.cache  # noqa: B019
    def remembered(self, query: str) -> str:
        """Read in a way that is no plain function."""
        return "page"

    in_part = functools.partialmethod(hybrid, "q")
    of_its_own = len

    @staticmethod
    def static(query: str) -> str:
        """Read without the object."""
        return "page"

    @classmethod
    def of_the_class(cls, query: str) -> str:
        """Read without the object."""
        return "page"

    def __getitem__(self, key: str) -> str:
        return "page"

    def max_marginal_relevance_search(self, query: str, **more: Any) -> list[Document]:  # type: ignore[override]
        return [Document("page")]


store = Shelf


class Shorter(BaseDocumentCompressor):
    """A compressor."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        return documents[:1]


class Blobs(BlobLoader):
    """A loader of files."""

    def yield_blobs(self) -> Iterator[Blob]:
        yield Blob.from_data("page")


class Text(BaseBlobParser):
    """A parser of files."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        yield Document(blob.as_string())


class Talk(BaseChatMessageHistory):
    """A history: its messages are an attribute."""

    def clear(self) -> None:
        """Forget."""


def kept() -> InMemoryStore:
    made = InMemoryStore()
    made.mset([("k", "page")])
    return made


Q = {"query": "q"}
simple = Tool(name="t", func=lambda q: q, description="d")
WAYS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "tool": (lambda: fetch, lambda x: x.invoke(Q)),
    "tool, its function": (lambda: fetch, lambda x: x.func("q")),
    "tool, async": (lambda: fetch, lambda x: asyncio.run(x.ainvoke(Q))),
    "async tool": (lambda: afetch, lambda x: asyncio.run(x.ainvoke(Q))),
    "async tool, its coroutine": (lambda: afetch, lambda x: asyncio.run(x.coroutine("q"))),
    "simple tool": (lambda: simple, lambda x: x.invoke("q")),
    "tool of its own class": (Own, lambda x: x.invoke(Q)),
    "tool of its own class, async": (Own, lambda x: asyncio.run(x.ainvoke(Q))),
    "tool of its own class, directly": (Own, lambda x: x._run("q")),
    "async tool, directly": (
        lambda: afetch,
        lambda x: asyncio.run(x._arun(config={}, **Q)),
    ),
    "retriever": (Docs, lambda x: x.invoke("q")),
    "retriever, directly": (Docs, lambda x: x._get_relevant_documents("q", run_manager=None)),
    "retriever, async": (Docs, lambda x: asyncio.run(x.ainvoke("q"))),
    "retriever, batch": (Docs, lambda x: x.batch(["q", "r"])),
    "retriever, callbacks=[]": (Docs, lambda x: x.invoke("q", {"callbacks": []})),
    "retriever's tool": (
        lambda: create_retriever_tool(Docs(), "kb", "d"),
        lambda x: x.invoke(Q),
    ),
    "vector store": (store, lambda x: x.similarity_search("q")),
    "vector store, scores": (store, lambda x: x.similarity_search_with_score("q")),
    "vector store, async": (store, lambda x: asyncio.run(x.asimilarity_search("q"))),
    "vector store, mmr": (store, lambda x: x.max_marginal_relevance_search("q", k=1)),
    "vector store, by id": (store, lambda x: x.get_by_ids(["1"])),
    "vector store, search": (store, lambda x: x.search("q", "similarity")),
    "vector store's retriever": (store, lambda x: x.as_retriever().invoke("q")),
    "vector store, in its own way": (store, lambda x: x.hybrid("q")),
    "vector store, cached": (store, lambda x: x.remembered("q")),
    "vector store, in part": (store, lambda x: x.in_part()),
    "vector store, its own function": (store, lambda x: x.of_its_own("q")),
    "vector store, static": (store, lambda x: x.static("q")),
    "vector store's class": (store, lambda x: x.of_the_class("q")),
    "vector store, by key": (store, lambda x: x["k"]),
    "vector store of its retriever": (
        store,
        lambda x: x.as_retriever().vectorstore.similarity_search("q"),
    ),
    "vector store, made by it": (
        store,
        lambda x: x.from_texts(["page"], None).similarity_search("q"),
    ),
    "key-value store": (kept, lambda x: x.mget(["k"])),
    "key-value store, its keys": (kept, lambda x: list(x.yield_keys())),
    "key-value store, async": (kept, lambda x: asyncio.run(x.amget(["k"]))),
    "compressor": (Shorter, lambda x: x.compress_documents([Document("a"), Document("b")], "q")),
    "blob loader": (Blobs, lambda x: [b.as_string() for b in x.yield_blobs()]),
    "blob parser": (Text, lambda x: x.parse(Blob.from_data("page"))),
    "loader": (Pages, lambda x: x.load()),
    "loader, in its own way": (Pages, lambda x: x.scrape()),
    "loader, lazily": (Pages, lambda x: list(x.lazy_load())),
    "loader, async": (Pages, lambda x: asyncio.run(x.aload())),
}


@pytest.mark.parametrize(("make", "use"), WAYS.values(), ids=WAYS.keys())
def test_what_is_wrapped_marks_and_is_still_what_it_was(
    make: Callable[[], Any], use: Callable[[Any], Any], open_session: Any
) -> None:
    session, other = open_session("s1"), open_session("s2")
    plain = make()
    wrapped = session.tainting(plain)
    assert isinstance(wrapped, type(plain)) and type(wrapped).__name__ == type(plain).__name__
    assert not session.tainted
    expected = use(plain)
    assert not session.tainted
    assert use(wrapped) == expected
    assert session.tainted
    with other.active(), pytest.raises(PermissionDenied):
        use(wrapped)
    assert other.tainted


def _configured(x: Any) -> Any:
    return x.configurable_fields(k=ConfigurableField("k")).with_config(configurable={"k": 2})


COPIES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Any]] = {
    "a tool, copied": (lambda: fetch, lambda x: x.model_copy(update={"name": "n"}), Q),
    "a tool, deep-copied": (lambda: fetch, copy.deepcopy, Q),
    "a tool, bound": (lambda: fetch, lambda x: x.bind(), Q),
    "a tool of its own class, copied": (
        Own,
        lambda x: x.model_copy(update={"prefix": "p"}),
        Q,
    ),
    "a tool of its own class, deep-copied": (Own, copy.deepcopy, Q),
    "a tool of its own class, configured": (
        Own,
        lambda x: x.configurable_fields(prefix=ConfigurableField("p")).with_config(
            configurable={"p": "now"}
        ),
        Q,
    ),
    "a retriever, copied": (Docs, lambda x: x.model_copy(update={"k": 2}), "q"),
    "a retriever, deep-copied": (Docs, copy.deepcopy, "q"),
    "a retriever, bound": (Docs, lambda x: x.bind(), "q"),
    "a retriever, configured": (Docs, _configured, "q"),
    "a retriever, with retry": (Docs, lambda x: x.with_retry(), "q"),
    "a store's retriever, copied": (
        store,
        lambda x: x.as_retriever().model_copy(update={"search_kwargs": {"k": 1}}),
        "q",
    ),
    "a store, copied": (store, lambda x: copy.copy(x).as_retriever(), "q"),
}


@pytest.mark.parametrize(("make", "copied", "given"), COPIES.values(), ids=COPIES.keys())
def test_a_copy_marks_too(
    make: Callable[[], Any], copied: Callable[[Any], Any], given: Any, session: AgentSession
) -> None:
    made = copied(session.tainting(make()))
    assert not session.tainted
    made.invoke(given)
    assert session.tainted


def test_filling_a_store_reads_nothing(session: AgentSession) -> None:
    wrapped = session.tainting(Shelf())
    assert wrapped.add_texts(["page"]) == ["1"]
    assert session.tainting(wrapped.as_retriever()).add_documents([Document("page")]) == ["1"]
    session.tainting(InMemoryStore()).mset([("k", "page")])
    assert not session.tainted


@pytest.mark.parametrize("make", [lambda: fetch, Own, Docs, store, Pages])
def test_what_is_wrapped_for_whichever_session_needs_one(make: Callable[[], Any]) -> None:
    wrapped = tainting(make())
    with pytest.raises(NoSession):
        if isinstance(wrapped, BaseRetriever):
            wrapped.invoke("q")
        elif isinstance(wrapped, BaseTool):
            wrapped.invoke(Q)
        else:
            wrapped.load() if isinstance(wrapped, Pages) else wrapped.search("q", "similarity")


@pytest.mark.parametrize("make", [lambda: fetch, Own, Docs, store, Pages, kept])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_is_wrapped_stays_in_its_process(
    make: Callable[[], Any], protocol: int, session: AgentSession
) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(session.tainting(make()), protocol)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DeterministicFakeEmbedding(size=2),
        Talk,
        SamsToolkit,
        lambda: memory_tools()[0],
        lambda: Document("page"),
    ],
)
def test_anything_else_is_a_type_error_that_says_what_to_do(
    make: Callable[[], Any], session: AgentSession
) -> None:
    with pytest.raises(TypeError, match="mark_tainted"):
        session.tainting(make())


def test_the_reason_is_the_mark(session: AgentSession, told: Any) -> None:
    wrapped: StructuredTool = session.tainting(fetch, "the crm")  # type: ignore[assignment]
    wrapped.invoke(Q)
    session.tainting(Docs(), "the wiki").invoke("q")
    session.tainting(Pages()).load()
    assert told(session) == ["tool the crm", "retriever the wiki", "tool Pages"]
