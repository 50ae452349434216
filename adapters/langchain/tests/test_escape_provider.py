"""A conversation that the provider keeps, with a real client of one; only the wire is played."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from sams_core import AgentSession
from sams_langchain import SamsMiddleware

GO: Any = {"messages": [("user", "go")]}
CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Provider:
    """Answers as the Responses API does, and keeps what it was sent."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.marked: list[bool] = []
        self.session: AgentSession | None = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert self.session is not None
        self.bodies.append(json.loads(request.content))
        self.marked.append(self.session.tainted)
        number = len(self.bodies)
        text = {"type": "output_text", "text": f"answer {number}", "annotations": []}
        said = {"type": "message", "id": f"m{number}", "role": "assistant", "status": "completed"}
        return httpx.Response(
            200,
            json={
                "id": f"resp_{number}",
                "object": "response",
                "created_at": 1,
                "model": "m",
                "status": "completed",
                "parallel_tool_calls": True,
                "tool_choice": "auto",
                "tools": [],
                "output": [{**said, "content": [text]}],
            },
        )

    def model(self, **more: Any) -> Any:
        client = httpx.Client(transport=httpx.MockTransport(self))
        return ChatOpenAI(model="m", api_key="k", http_client=client, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "marked"),
    [
        ({"model_kwargs": {"conversation": "conv_1"}}, True),
        ({"model_kwargs": {"previous_response_id": "resp_9"}}, True),
        ({"extra_body": {"conversation": "conv_1"}}, True),
        ({}, False),
    ],
    ids=["a conversation", "an answer", "an extra", "nothing"],
)
def test_a_request_that_names_what_the_provider_keeps_marks_before_it_is_sent(
    more: Any, marked: bool, session: AgentSession
) -> None:
    provider = Provider()
    provider.session = session
    model = provider.model(use_responses_api=True, **more)
    create_agent(model, [], middleware=[SamsMiddleware(session)]).invoke(GO)
    assert provider.marked == [marked]


def test_a_conversation_that_goes_on_by_an_answers_id_is_anothers_for_another_session(
    open_session: Any,
) -> None:
    """The request then holds the newest message only, whatever stands before that."""
    provider, saver = Provider(), InMemorySaver()
    model = provider.model(use_previous_response_id=True)
    for name in ("s1", "s1", "s2"):
        provider.session = open_session(name)
        agent: Any = create_agent(
            model, [], middleware=[SamsMiddleware(provider.session)], checkpointer=saver
        )
        agent.invoke(GO, CONFIG)
    assert [b.get("previous_response_id") for b in provider.bodies] == [None, "resp_1", "resp_2"]
    assert provider.marked == [False, False, True]
