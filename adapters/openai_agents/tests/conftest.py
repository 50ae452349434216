"""A laboratory: a real store, real runs of the SDK with its scripted model, in each of its modes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agents import RunConfig, Runner, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai.types.responses import Response, ResponseCompletedEvent, ResponseOutputItemDoneEvent

from sams_core import AgentSession, Owner, SQLiteBackend
from sams_core.records import Change
from sams_openai_agents import GovernedAgents, govern

ASSIGNED = "tenant:acme"
MODES = ("run", "run_sync", "run_streamed", "Runner.run", "Runner.run_streamed")


def done(*items: Any, response_id: str | None) -> ModelStep:
    """Return a streamed answer of any items; the scripted model streams only some by itself."""
    response = Response.model_construct(
        id=response_id, output=list(items), status="completed", usage=None
    )
    events: list[Any] = [
        ResponseOutputItemDoneEvent.model_construct(
            type="response.output_item.done", item=item, output_index=n, sequence_number=n
        )
        for n, item in enumerate(items)
    ]
    events.append(
        ResponseCompletedEvent.model_construct(
            type="response.completed", response=response, sequence_number=99
        )
    )
    return ModelStep.stream(events)


@dataclass
class Lab:
    """One store and what ran on it."""

    backend: SQLiteBackend
    folder: Path
    mode: str = "run"
    ids: bool = True  # of answers: chat completions have none
    evil_calls: list[str] = field(default_factory=list)
    _answers: int = 0

    def session(self, name: str = "s1", **more: Any) -> AgentSession:
        given = {"agent": "helper", "assigned": ASSIGNED, "user": "insider", **more}
        return AgentSession(self.backend, session_id=name, **given)

    def script(self, *answers: Any) -> ScriptedModel:
        """Return a model that says these, then "done"; the SDK's own, in both ways of answering."""

        def step(answer: Any) -> ModelStep:
            if isinstance(answer, Exception):
                return ModelStep.raise_error(answer)
            items = answer if isinstance(answer, list) else [answer]

            def respond(call: Any) -> Any:
                self._answers += 1
                name = f"resp_{self._answers}" if self.ids else None
                if call.streamed:
                    return done(*items, response_id=name)
                return ModelStep(output=items, response_id=name)

            return ModelStep.respond(respond)

        last = [assistant_message("done")]
        return ScriptedModel([step(each) for each in [*answers, last]])

    def write(self, call_id: str = "w1", path: str = "facts/code", **more: Any) -> Any:
        note = {
            "scope": "assigned", "path": path, "content": "The code is 7.",
            "description": "A fact", "expected_version": None,
        }  # fmt: skip
        return function_call("memory_write", {**note, **more}, call_id=call_id)

    def fetch(self) -> Any:
        """Return a new undeclared tool."""

        @function_tool
        async def fetch(url: str) -> str:
            """Fetch a page."""
            self.evil_calls.append(url)
            return "EVIL"

        return fetch

    def calls_fetch(self, call_id: str = "f1") -> Any:
        return function_call("fetch", {"url": "u"}, call_id=call_id)

    def quiet(self, **more: Any) -> RunConfig:
        return RunConfig(tracing_disabled=True, **more)

    async def go(self, governed: GovernedAgents, agent: Any, given: Any = "hi", **more: Any) -> Any:
        more.setdefault("run_config", self.quiet())
        if self.mode == "run":
            return await governed.run(agent, given, **more)
        if self.mode == "run_sync":
            return await asyncio.to_thread(self._sync, governed, agent, given, more)
        if self.mode == "run_streamed":
            stream = governed.run_streamed(agent, given, **more)
        elif self.mode == "Runner.run":
            return await Runner.run(agent, **governed.run_kwargs(input=given, **more))
        else:
            stream = Runner.run_streamed(agent, **governed.run_kwargs(input=given, **more))
        async for _ in stream.stream_events():
            pass
        return stream

    def _sync(self, governed: GovernedAgents, agent: Any, given: Any, more: Any) -> Any:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            return governed.run_sync(agent, given, **more)
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    async def play(
        self,
        agent: Any,
        given: Any = "hi",
        *,
        session: AgentSession | None = None,
        trusted: tuple[Any, ...] = (),
        **more: Any,
    ) -> AgentSession:
        """Run an agent once in a block of a session."""
        session = session or self.session()
        governed = govern(trusted=trusted)
        if "session_" in more:  # the SDK's history, which it calls a session
            more["session"] = more.pop("session_")
        with governed(session):
            await self.go(governed, agent, given, **more)
        return session

    def changes(self) -> list[Change]:
        return Owner(self.backend, "olga").changes(ASSIGNED)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    backend = SQLiteBackend(str(tmp_path / "store"))
    yield Lab(backend, tmp_path)
    backend.close()


@pytest.fixture(params=MODES)
def each_mode(lab: Lab, request: pytest.FixtureRequest) -> Callable[[], Lab]:
    lab.mode = request.param
    return lambda: lab
