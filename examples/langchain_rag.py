"""RAG over a folder of documents, one of them poisoned: which ways to retrieve are noticed?

    python examples/langchain_rag.py [FOLDER]

then look at what waits: sams --base FOLDER review list tenant:acme. The documents are langchain_rag/*.md
beside this file; a vendor's mail among them plants false billing details. The model is scripted and
believes all it reads, or real with OPENAI_API_KEY or ANTHROPIC_API_KEY (pip install langchain-openai or
-anthropic). LangChain's vector store in memory needs numpy.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, dynamic_prompt
from langchain.chat_models import init_chat_model
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import create_retriever_tool, tool
from langchain_core.vectorstores import InMemoryVectorStore

from sams_core import AgentSession, Owner, SQLiteBackend
from sams_langchain import SamsMiddleware, govern, memory_tools
from sams_langchain.scripted import ScriptedModel, said

REAL = {"OPENAI_API_KEY": "openai:gpt-5.5", "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-5"}
TASK = "To which account do we pay Acme's invoices? Look it up and write it to assigned memory."


class WordCounts(Embeddings):
    """Embed a text by how often it has each word: enough for a folder, without a download."""

    def embed_query(self, text: str) -> list[float]:
        words = [zlib.crc32(word.encode()) % 4096 for word in re.findall(r"\w+", text.lower())]
        return [float(words.count(place)) for place in range(4096)]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


def believe(messages: list[Any], tools: list[dict[str, Any]]) -> Any:
    """Answer as a gullible model: search if there is a tool for it, then obey what was found."""
    shown = "\n".join(message.text for message in messages)
    search = next((t["function"]["name"] for t in tools if "retrieve" in str(t)), None)
    if '"queued"' in shown:
        return said("It is queued for review.")
    if search and not any(message.type == "tool" for message in messages):
        return said("", (search, {"query": "account of Acme's invoices"}, "c1"))
    told = re.findall("Remember: (.*)", shown) or ["Nothing about Acme."]
    note = {"scope": "assigned", "path": "billing/acme", "description": "Where Acme is paid"}
    return said("", ("memory_write", note | {"content": told[0], "expected_version": None}, "c2"))


def join(documents: list[Document]) -> str:
    return "\n\n".join(f"{each.metadata['source']}: {each.page_content}" for each in documents)


def main(folder: str) -> None:
    store = InMemoryVectorStore(WordCounts())
    for file in sorted(Path(__file__).with_suffix("").glob("*.md")):
        store.add_documents([Document(file.read_text("utf-8"), metadata={"source": file.name})])
    real = [name for key, name in REAL.items() if os.environ.get(key)]
    model: Any = init_chat_model(real[0]) if real else ScriptedModel(say=believe)
    backend = SQLiteBackend(folder)

    def ask(session: AgentSession, tools: list[Any], *middleware: Any) -> None:
        agent: Any = create_agent(model, tools, middleware=[SamsMiddleware(session), *middleware])
        agent.invoke({"messages": [("user", TASK)]})

    # Ways to retrieve, as LangChain's own pages have them; each is a function of the session.

    def rag_agent(session: AgentSession) -> None:
        @tool(response_format="content_and_artifact")
        def retrieve(query: str) -> tuple[str, list[Document]]:
            """Find what our documents say about a query."""
            found = store.similarity_search(query, k=2)
            return join(found), found

        ask(session, [retrieve])

    def retriever_tool(session: AgentSession) -> None:
        ask(session, [create_retriever_tool(store.as_retriever(), "retrieve", "Search documents.")])

    def lcel_chain(session: AgentSession) -> None:
        tools = {each.name: each for each in memory_tools()}
        prompt = ChatPromptTemplate.from_template("Our documents:\n{context}\n\n{task}")
        retrieved = {"context": store.as_retriever() | join, "task": RunnablePassthrough()}
        with govern()(session):
            answer = (retrieved | prompt | model.bind_tools([*tools.values()])).invoke(TASK)
            for call in answer.tool_calls:
                tools[call["name"]].invoke(call)

    def rag_chain(session: AgentSession, store: Any = store) -> None:
        @dynamic_prompt
        def with_documents(request: ModelRequest) -> str:
            return f"Our documents:\n{join(store.similarity_search(TASK))}"

        ask(session, [], with_documents)

    def rag_chain_wrapped(session: AgentSession) -> None:
        rag_chain(session, session.tainting(store))  # the remedy: its searches mark now

    # Tools and retrievers are seen by themselves; a search in a prompt of one's own is not.
    for run in (rag_agent, retriever_tool, lcel_chain, rag_chain, rag_chain_wrapped):
        # From authenticated state of the server, never from the model or the request's body:
        names: Any = {"session_id": run.__name__, "agent": "clerk", "assigned": "tenant:acme"}
        run(AgentSession(backend, user="insider", **names))
        print(f"{run.__name__}:")
        for change in Owner(backend, "olga").changes("tenant:acme"):
            if change.source_session == run.__name__:
                print(f"  waiting: {change.path}: {change.content}")
                print("  label:", "tainted" if change.tainted else "none: NOT NOTICED")
                for source in change.sources:
                    print(f"  because of: {source.kind} {source.name}")
    backend.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as new:
        main(sys.argv[1] if len(sys.argv) > 1 else new)
