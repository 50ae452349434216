"""`SamsMiddleware`: govern an agent of `create_agent` by one line in its list of middleware."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import FrameType
from typing import Annotated, Any, NotRequired
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool
from langgraph.channels import LastValue
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command
from langsmith.run_helpers import get_tracing_context

from sams_core.ambient import off_loop
from sams_core.errors import NoSession, PermissionDenied, SamsError, StoreFailed
from sams_core.govern import Bound, Governing, refuse_shadow
from sams_core.session import AgentSession
from sams_core.tools import TOOL_NAMES, refusal
from sams_langchain import history
from sams_langchain.content import asked, described_elsewhere, foreign, offered
from sams_langchain.govern import Govern, blocks, mark, rejoined, trusted, vouched
from sams_langchain.observe import govern_run
from sams_langchain.tools import is_memory_tool, memory_tools, plain_runtime, refused
from sams_langchain.turns import Judged, judge, judge_call

_BUILDERS = ("langchain", "langgraph", "deepagents")
Answer = Callable[[ModelRequest[Any]], ModelResponse[Any]]
AnswerLater = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


class _Mirror(LastValue[list[str]]):
    """Takes what the middleware wrote; anybody else can say that it is another's, and nothing more."""

    def update(self, values: Sequence[list[str]]) -> bool:
        before = self.value if self.is_available() else None
        for each in values:
            if isinstance(each, history.Pointer):
                self.value = each  # agents side by side may both write; either is about itself
            elif claimed := history.claim(each, before):
                self.value = claimed
        return self.is_available() and self.value is not before

    def checkpoint(self) -> Any:
        value = super().checkpoint()
        return [*value] if isinstance(value, list) else value

    def from_checkpoint(self, checkpoint: Any) -> Any:
        made = super().from_checkpoint(checkpoint)
        if isinstance(made.value, list):
            made.value = history.Pointer(made.value)
        return made


class SamsState(AgentState[Any]):
    """A graph's state with a pointer: whose conversation it is, up to which message.

    For graphs whose nodes are agents with `SamsMiddleware`: `StateGraph(SamsState)` keeps the pointer
    with the thread, so that going on in another process is known to be the same conversation.
    """

    sams_history: NotRequired[Annotated[list[str], _Mirror]]


class SamsMiddleware(AgentMiddleware[SamsState, Any, Any]):
    """Give an agent governed memory: the four tools, the context block, and marks.

    `session_or_resolver` is the session, or a callable that returns it from LangGraph's `Runtime`
    (called several times a run, from authenticated state only); without it the session of the block
    around the run is used. `trusted` lists tool objects, or the functions that tools are made of, all
    of whose results insiders wrote; the agent's own list of tools is refused (`PermissionDenied`, rule
    `trusts-everything`). Put it first in the list of middleware: what runs outside of it is observed
    only inside a `with governed(session):` block. One instance serves many sessions at once.

    A refusal reaches the model as the call's result and the run goes on. A mark that can't be recorded
    stops what would have been read: the call is refused, or the model isn't asked (`SessionClosed`).
    """

    state_schema = SamsState

    def __init__(
        self, session_or_resolver: Bound = None, *, trusted: Iterable[object] = ()
    ) -> None:
        super().__init__()
        self.governed = Govern(session_or_resolver, trusted=trusted)
        self._tools = memory_tools()
        if not _traced():
            for name in _TRACED:
                setattr(self, name, _plain(getattr(self, name)))

    def __getstate__(self) -> dict[str, Any]:
        # A copy has its class's hooks: these would go on with the object that it was made of.
        return {name: value for name, value in vars(self).items() if name not in _TRACED}

    @property
    # An attribute there; here the agent's own list is looked at when it is read.
    def tools(self) -> list[BaseTool]:  # type: ignore[override]
        """The four memory tools; read when an agent is built, so its list of tools is checked here."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if str(frame.f_globals.get("__name__")).partition(".")[0] in _BUILDERS:
                for each in frame.f_locals.values():
                    if each is self.governed.given and isinstance(each, list):
                        raise PermissionDenied(
                            "trusted is the agent's own list of tools: name the trusted ones "
                            "one by one",
                            rule="trusts-everything",
                        )
            frame = frame.f_back
        return list(self._tools)

    # Before the run. A resume doesn't come by here, so nothing else relies on it.

    def before_agent(self, state: SamsState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Judge the conversation that the run begins with."""
        with rejoined():
            session = self._session(runtime)
            if session is None:
                return None
            with self.governed.during(session):
                messages = list(state.get("messages", ()))
                _judge_history(session, messages, state, blocks(), entering=True)
            return _pointed(session, state)

    async def abefore_agent(self, state: SamsState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Judge the conversation that the run begins with."""
        return self.before_agent(state, runtime)

    def after_agent(self, state: SamsState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Take what the app's other middleware said in this run for the session's own."""
        with rejoined():
            session = self._session(runtime)
            if session is None:
                return None
            history.remember(session.family, state.get("messages", ()))
            return _pointed(session, state)

    async def aafter_agent(self, state: SamsState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Take what the app's other middleware said in this run for the session's own."""
        return self.after_agent(state, runtime)

    # Around the model.

    def wrap_model_call(self, request: ModelRequest[Any], handler: Answer) -> Any:
        """Mark for what is sent, add the context block, and judge the answer's calls together."""
        with rejoined():
            session = self._session(request.runtime)
            if session is None:
                return handler(request)
            with self.governed.during(session):
                self._before(session, request)
                response = handler(_with_block(request, _block(session)))
                return self._after(session, request, response)

    async def awrap_model_call(self, request: ModelRequest[Any], handler: AnswerLater) -> Any:
        """Do the same in an async run."""
        with rejoined():
            session = self._session(request.runtime)
            if session is None:
                return await handler(request)
            with self.governed.during(session):
                self._before(session, request)
                block = await off_loop(session.backend, lambda: _block(session))
                response = await handler(_with_block(request, block))
                return self._after(session, request, response)

    def _before(self, session: AgentSession, request: ModelRequest[Any]) -> None:
        where = blocks()
        _judge_history(session, request.messages, request.state, where)
        # What is in the messages is judged as it is sent, when the model's call begins.
        told = offered(request.tools) + asked(request.model_settings)
        for tool in request.tools:
            if is_memory_tool(tool) or not described_elsewhere(tool):
                continue
            if not trusted(where, tool):
                told.append(f"{getattr(tool, 'name', '')}, described by its server")
        for each in dict.fromkeys(told):
            mark(where, "content", each)

    def _after(
        self, session: AgentSession, request: ModelRequest[Any], response: ModelResponse[Any]
    ) -> ExtendedModelResponse[Any]:
        said, where = list(response.result), blocks()
        for told in dict.fromkeys(each for message in said for each in foreign(message)):
            mark(where, "content", told)
        for place, message in enumerate(said):
            if message.id is None:
                message.id = str(uuid4())  # so that the pointer can name it
            known = vouched(where, session.family)
            if getattr(message, "tool_calls", ()) and history.strange(
                session.family, [message], known
            ):
                mark(where, "history", history.FOREIGN)  # other middleware had it from elsewhere
            judge(where, message, request.tools, said[place + 1 :])
        history.remember(session.family, said)
        history.judged(session.family, said)
        state = request.state
        kept = [*state.get("messages", request.messages), *said]
        update = {history.STATE: history.pointer(session, kept, state.get(history.STATE))}
        return ExtendedModelResponse(response, Command(update=update))

    # Around each tool.

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> Any:
        """Judge the whole turn before the call runs, in the session's block; refuse as a result."""
        try:
            with rejoined():
                session = self._for_call(request)
                if session is None:
                    return handler(request)
                with (block := self.governed.during(session)):
                    block.call = self._judge(session, request)
                    return handler(request)
        except SamsError as error:
            return _refusal(request, error)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Do the same in an async run."""
        try:
            with rejoined():
                session = self._for_call(request)
                if session is None:
                    return await handler(request)
                with (block := self.governed.during(session)):
                    block.call = self._judge(session, request)
                    return await handler(request)
        except SamsError as error:
            return _refusal(request, error)

    def _judge(self, session: AgentSession, request: ToolCallRequest) -> Judged:
        call_id = request.tool_call["id"]
        refuse_shadow(request.tool_call["name"], is_memory_tool(request.tool))
        where = blocks()
        messages = history.messages_of(request.state, call_id)
        place = history.turn(messages, call_id)
        answer = history.heard(session.family, call_id)
        # What was judged when the model was asked needn't be again; after a restart nothing was.
        said = None if answer is None else answer.id
        if said is None or place is None or said != messages[place].id:
            _judge_history(session, messages, request.state, where)
        tools = getattr(request.runtime, "tools", ())
        unique = judge_call(where, request.state, call_id, tools, messages, place)
        # What other middleware made of the answer by now is the session's own, too.
        history.remember(session.family, messages[place:][:1] if place is not None else (), call_id)
        return Judged(call_id, request.state, unique)

    # Whose run this is.

    def _for_call(self, request: ToolCallRequest) -> AgentSession | None:
        """Return the session; None for a tool of the app's own where nobody can be marked any more."""
        try:
            given = [plain_runtime(request.runtime)] if self.governed.resolves else []
            session = self.governed.session(*given)
            govern_run(request.runtime, self.governed, session)
            return session
        except SamsError as error:
            if request.tool_call["name"] in TOOL_NAMES or error.rule not in _UNGOVERNED:
                raise
            return None

    def _session(self, runtime: Runtime[Any]) -> AgentSession | None:
        try:
            session = self.governed.session(runtime)
            govern_run(runtime, self.governed, session)
            return session
        except SamsError as error:
            if error.rule not in _UNGOVERNED:
                raise
            return None


# Hooks that LangChain has LangSmith trace.
_TRACED = ("wrap_model_call", "awrap_model_call", "wrap_tool_call", "awrap_tool_call")


def _traced() -> bool:
    """Tell whether tracing is on; LangSmith's own answer would stand for as long as the process runs."""
    here = get_tracing_context()
    names = (f"{one}_TRACING{two}" for one in ("LANGSMITH", "LANGCHAIN") for two in ("", "_V2"))
    told = any(os.environ.get(name, "").lower() == "true" for name in names)
    return bool(here.get("parent") or here.get("enabled") or told)


def _plain(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook in a form of which LangSmith asks little where there is nothing to trace.

    At each call it looks up the signature, and of a coroutine function it asks a thread, twice,
    whether to trace. Where tracing is on when the middleware is made, its hooks stay as they are.
    """

    def call(request: Any, handler: Any) -> Any:
        return hook(request, handler)

    vars(call)["__signature__"] = inspect.signature(call)
    return call


# Without a session there is no memory to protect; inside another family's run both are marked by now.
_UNGOVERNED = (NoSession.rule, "foreign-run")


def _pointed(session: AgentSession, state: SamsState) -> dict[str, Any]:
    return {history.STATE: history.pointer(session, list(state.get("messages", ())))}


def _judge_history(
    session: AgentSession,
    messages: list[Any],
    state: Any,
    where: list[Governing],
    entering: bool = False,
) -> None:
    said = state.get(history.STATE) if isinstance(state, dict) else None
    if not history.own(session, messages, said, vouched(where, session.family), entering):
        mark(where, "history", history.FOREIGN)


def _block(session: AgentSession) -> str:
    try:
        return session.context_block()
    except (
        StoreFailed
    ):  # a full disk keeps the first render from being recorded; the run can do without
        return ""


def _with_block(request: ModelRequest[Any], block: str) -> ModelRequest[Any]:
    """Put the block before the conversation, in the user's place: data, never instructions."""
    messages = [HumanMessage(block), *request.messages] if block else []
    return request.override(messages=messages) if messages else request


def _refusal(request: ToolCallRequest, error: SamsError) -> Any:
    return refused(request.tool_call["name"], request.tool_call["id"], refusal(error))
