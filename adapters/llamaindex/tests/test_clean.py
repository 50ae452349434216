"""Clean runs that a third attacker found marked: structured answers, filled templates, usual settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core import PromptTemplate
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ToolCallBlock
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import BaseModel, Field

from sams_core import AgentSession
from sams_llamaindex import govern

pytestmark = pytest.mark.anyio
ASK = [ChatMessage(role="user", content="q")]


def names(session: AgentSession) -> str:
    return " | ".join(f"{source.kind} {source.name}" for source in session.sources)


class Ours(BaseRetriever):
    """A retriever of what insiders wrote."""

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text="ours"))]


class Answer(BaseModel):
    """An answer whose fields are called as a provider calls what it has read."""

    text: str
    citations: list[str]


def respond(messages: Any, tools: Any = None, **_: Any) -> ChatMessage:
    if not tools:
        return ChatMessage(role="assistant", content="done")
    arguments = {"text": "x", "citations": ["page 1"]}
    call = ToolCallBlock(tool_call_id="1", tool_name="Answer", tool_kwargs=arguments)
    return ChatMessage(role="assistant", blocks=[call])


LLM = MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)


async def agent() -> Any:
    out = await FunctionAgent(tools=[], llm=LLM, output_cls=Answer).run(user_msg="go")
    return out.structured_response


STRUCTURED: dict[str, Callable[[], Any]] = {
    "agent": agent,
    "chat": lambda: LLM.as_structured_llm(Answer).achat(ASK),
    "completion": lambda: LLM.as_structured_llm(Answer).acomplete("q"),
    "prediction": lambda: LLM.astructured_predict(Answer, PromptTemplate("q")),
}


@pytest.mark.parametrize("way", STRUCTURED)
async def test_a_structured_answer_may_call_its_fields_anything(
    way: str, session: AgentSession
) -> None:
    with govern()(session):
        assert "page 1" in str(await STRUCTURED[way]())
    assert not session.tainted, names(session)


async def test_a_query_engine_with_a_structured_model_stays_clean(session: AgentSession) -> None:
    ours = Ours()
    llm = LLM.as_structured_llm(Answer)
    with govern(trusted=[ours])(session):
        # Asked by no other test: a mock that repeats its prompt would say it for a marked session.
        answer = await RetrieverQueryEngine.from_args(ours, llm=llm).aquery("what is structured?")
    assert "page 1" in str(answer)
    assert not session.tainted, names(session)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "left half-way"])
@pytest.mark.parametrize("says", [True, False], ids=["the same", "more"])
def test_a_raw_answer_that_tells_of_reading_marks_with_its_first_piece(
    says: bool, whole: bool, session: AgentSession
) -> None:
    raw = Answer(text="x", citations=["page 1"])
    text = raw.model_dump_json() if says else '{"text": "x"}'

    class Streams(MockLLM):
        @llm_chat_callback()
        def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
            message = ChatMessage(role="assistant", content=text)
            return (ChatResponse(message=message, raw=raw, delta="") for _ in range(3))

    with govern()(session):
        answer = Streams().stream_chat(ASK)
        next(answer)
        if whole:
            _ = list(answer)
        answer.close()
        assert session.tainted is not says, names(session)


# Templates and what fills them.


TEMPLATE = PromptTemplate("{messages} {chat_history} {question}")
FILLS = {"messages": "m", "chat_history": "h", "question": "q"}


@pytest.mark.parametrize("way", ["predict", "stream", "structured_predict"])
def test_a_template_may_be_filled_with_anything(way: str, session: AgentSession) -> None:
    with govern()(session):
        if way == "structured_predict":
            LLM.structured_predict(Answer, TEMPLATE, **FILLS)
        else:
            _ = list(getattr(MockLLM(), way)(TEMPLATE, **FILLS))
    assert not session.tainted, names(session)


def test_a_chat_engine_that_condenses_stays_clean(session: AgentSession) -> None:
    ours = Ours()
    engine = RetrieverQueryEngine.from_args(ours, llm=MockLLM())
    chat = CondenseQuestionChatEngine.from_defaults(query_engine=engine, llm=MockLLM())
    with govern(trusted=[ours])(session):
        for question in ("first", "second"):
            chat.chat(question)
    assert not session.tainted, names(session)


# Settings.

SETTINGS: dict[str, tuple[dict[str, Any], bool]] = {
    "a schema": ({"format": {"type": "object"}}, False),
    "headers": ({"extra_headers": {"x-team": "a"}}, False),
    "a body with settings": (
        {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 1}},
        False,
    ),
    "a body with a search": ({"extra_body": {"plugins": [{"id": "web"}]}}, True),
    "a template's documents": (
        {"extra_body": {"chat_template_kwargs": {"documents": ["EVIL"]}}},
        True,
    ),
    "a configuration with a search": ({"generation_config": {"tools": [{"search": {}}]}}, True),
    "a search's options": ({"extra_body": {"web_search_options": {"a": 1}}}, True),
}


@pytest.mark.parametrize("given", SETTINGS)
@pytest.mark.parametrize("where", ["request", "model"])
async def test_settings_may_lie_in_settings(where: str, given: str, session: AgentSession) -> None:
    settings, marks = SETTINGS[given]

    class Set(MockLLM):
        additional_kwargs: dict[str, Any] = Field(default_factory=dict)

    llm = Set()
    if where == "model":
        llm.additional_kwargs = settings
    with govern()(session):
        await llm.achat(ASK, **(settings if where == "request" else {}))
    assert session.tainted is marks, names(session)


def test_a_message_may_ask_to_be_cached(session: AgentSession) -> None:
    kept = ChatMessage(
        role="user", content="q", additional_kwargs={"cache_control": {"type": "ephemeral"}}
    )
    with govern()(session):
        MockLLM().chat([kept])
    assert not session.tainted, names(session)
