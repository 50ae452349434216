"""The handler that LangChain asks for at each run inside a block, and what it marks.

It comes by a configure hook, which reaches every public way to run a tool, retriever or model, also
where the app passes callbacks of its own. It is synchronous, inline and may raise: only such a
handler vetoes in sync and async runs alike.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from types import FunctionType
from typing import Any, TypeVar, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool
from langchain_core.tracers.context import register_configure_hook

from sams_core.ambient import around, current_activation
from sams_core.govern import Governing, refuse_shadow
from sams_core.session import AgentSession
from sams_core.taint import check_family
from sams_langchain import history
from sams_langchain.content import asked, foreign
from sams_langchain.govern import Govern, begin, blocks, mark, pulling, strayed, vouched
from sams_langchain.tools import is_memory_tool
from sams_langchain.turns import judge

T = TypeVar("T")


class Observer(BaseCallbackHandler):
    """Marks for one block, and for every block that encloses it."""

    raise_error = True
    run_inline = True
    # Chains, nodes and retries tell nothing; without these each of them would call here twice.
    ignore_chain = ignore_retry = ignore_custom_event = True

    def __init__(self, block: Governing) -> None:
        self._block = weakref.ref(block)
        self._later = block.governed.during(block.session)  # never entered: it says whom to mark

    def where(self) -> list[Governing]:
        """Return whom to mark: the blocks in which this runs.

        Once the run's block has ended: whose run it is, and who pulls the rest of it.
        """
        found = blocks(self.block)
        return found if self.block is not None else [*found, *pulling(), self._later]

    def __deepcopy__(self, memo: object) -> Observer:
        return self  # a copy would mark nobody

    def __copy__(self) -> Observer:
        return self

    @property
    def block(self) -> Governing | None:
        """The block in which the run began, while it lasts."""
        found = self._block()
        return found if found is not None and found.alive else None

    def on_tool_start(self, serialized: Any, input_str: str, **more: Any) -> None:
        """Mark before the tool's body runs, unless it is trusted or a memory tool."""
        where = self.where()
        tool = _caller(BaseTool)
        name = tool.name if tool is not None else str((serialized or {}).get("name") or "tool")
        refuse_shadow(name, is_memory_tool(tool))
        if where and not is_memory_tool(tool):
            begin(where, name, tool)
        call_id = more.get("tool_call_id")
        for block in where:
            if call_id is None:  # a loop of one's own, which gives the tool its arguments alone
                answer = history.ran(block.session.family, name, more.get("inputs"))
                if answer is not None and is_memory_tool(tool):
                    judge(where, answer, ())
            history.remember(block.session.family, call_id=call_id)

    def on_retriever_start(self, serialized: Any, query: str, **more: Any) -> None:
        """Mark before anything is retrieved, unless the retriever is trusted."""
        retriever = _caller(BaseRetriever)
        name = (
            retriever.get_name() if retriever is not None else str(more.get("name") or "retriever")
        )
        begin(self.where(), name, retriever, "retriever")

    def on_chat_model_start(self, serialized: Any, messages: Any, **more: Any) -> None:
        """Mark before a request is sent that holds or asks for what nobody vouched for."""
        where = self.where()
        if not where:
            return
        sent = [message for batch in messages for message in batch]
        for told in dict.fromkeys([*_asked(more), *(told for m in sent for told in foreign(m))]):
            mark(where, "content", told)
        for block in where:
            family = block.session.family
            if history.strange(family, sent, vouched(where, family)):
                mark([block], "history", history.FOREIGN)

    def on_llm_start(self, serialized: Any, prompts: Any, **more: Any) -> None:
        """Mark before a model that takes plain text is asked to read by itself."""
        where = self.where()
        for told in dict.fromkeys(_asked(more)):
            mark(where, "content", told)

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **more: Any) -> None:
        """Mark as soon as a stream shows that the provider read something."""
        message = getattr(chunk, "message", None)
        if isinstance(message, BaseMessage):
            self._answered([message])

    def on_stream_event(self, event: Any, **more: Any) -> None:
        """Do the same for the newer form of streams."""
        content = event.get("content") if isinstance(event, Mapping) else None
        if isinstance(content, dict):
            self._answered([AIMessage([content])])

    def on_llm_end(self, response: LLMResult, **more: Any) -> None:
        """Mark for what an answer was made from, and know it as the family's own."""
        said = [getattr(each, "message", None) for row in response.generations for each in row]
        messages = [message for message in said if isinstance(message, BaseMessage)]
        self._answered(messages)
        for block in self.where():
            history.remember(block.session.family, messages)

    def _answered(self, messages: list[BaseMessage]) -> None:
        told = [told for message in messages for told in foreign(message)]
        if told:
            where = self.where()
            for each in dict.fromkeys(told):
                mark(where, "content", each)


def _asked(more: Mapping[str, Any]) -> list[str]:
    """Name what a request asks for; some of its options are fields of the model alone."""
    model: Any = _caller(BaseLanguageModel)
    fields = dict(getattr(model, "__dict__", ()))  # a copy: another thread may be adding a client
    return [*asked(more.get("invocation_params")), *asked(fields)]


def _caller(kind: Callable[..., T]) -> T | None:
    """Return the tool or retriever whose run reports its start: handlers are told only its name.

    That is whoever called the callback manager, in sync and inline async runs alike. If it can't be
    found nobody is trusted.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in (
        __name__,
        "langchain_core.callbacks.manager",
    ):
        frame = frame.f_back
    found = frame.f_locals.get("self")
    return found if isinstance(found, cast("type[T]", kind)) else None


class RunObserver(Observer):
    """Marks for the sessions of one run of a graph where no block is at work.

    What other middleware of an agent does in its own nodes, or around the middleware that governs, runs
    outside of its blocks; but it is part of the same run.
    """

    def __init__(self, outer: RunObserver | None) -> None:
        # Never entered: they say whom to mark and who is trusted. What is read here flows upward.
        self.run: list[Governing] = [] if outer is None else [*outer.run]

    @property
    def block(self) -> None:
        """There is none."""

    def where(self) -> list[Governing]:
        """Return the blocks in which this runs, else the run's sessions."""
        return blocks() or self.run


# What LangGraph makes anew for each run and hands to every node of it is the stream's writer, a function.
# What is known of the run is kept with it, and ends with it. Runs inside of a run may share it
# (`stream(subgraphs=True)`), so it is kept by the node that they are part of.
_RUNS = "sams_runs"


def _runs(runtime: Any, make: bool = False) -> dict[str, RunObserver]:
    writer = getattr(runtime, "stream_writer", None)
    if not isinstance(writer, FunctionType) or "<locals>" not in writer.__qualname__:
        return {}  # outside of a run all share one
    kept: dict[str, RunObserver]
    kept = vars(writer).setdefault(_RUNS, {}) if make else vars(writer).get(_RUNS, {})
    return kept


def govern_run(runtime: Any, governed: Govern, session: AgentSession) -> None:
    """Say whose run it is, for what other middleware reads in it."""
    runs, place = _runs(runtime, make=True), _place()
    found = runs.get(place) or runs.setdefault(place, RunObserver(_around(runs, place)))
    if not any(each.session.family is session.family for each in found.run):
        found.run.append(governed.during(session))


def _of_run() -> RunObserver | None:
    config = var_child_runnable_config.get() if _slot.registered else None
    runtime = (config or {}).get("configurable", {}).get("__pregel_runtime")
    return _around(_runs(runtime), _place())


def _place() -> str:
    """Return where the graph is that this node is part of: empty for the outermost."""
    given = (var_child_runnable_config.get() or {}).get("configurable", {})
    return str(given.get("checkpoint_ns") or "").rpartition("|")[0]


def _around(runs: Mapping[str, RunObserver], place: str) -> RunObserver | None:
    """Return the innermost governed run that a place is in.

    LangGraph numbers the runs inside a node, but for the first: they lie beside that one.
    """
    while place and place not in runs:
        place, _, last = place.rpartition("|")
        if last.isdigit():
            place = place.rpartition("|")[0]
    return runs.get(place)


def hooked(session: AgentSession) -> AbstractContextManager[Any]:
    """Return a block for reading memory in a hook of other middleware, where none is at work.

    That is part of a governed run, and observed as such. Raises `PermissionDenied` (rule
    `foreign-run`) where the run is another family's, after both were marked.
    """
    found = _of_run() if current_activation() is None else None
    if found is None:
        return nullcontext()
    for each in found.run:
        if each.session.family is session.family:
            return cast(Govern, each.governed).during(session)
    check_family(session, found.run[0].session)
    return nullcontext()


class _Slot:
    """Stands where LangChain expects a context variable, and looks up which block is at work."""

    attached = registered = False

    def get(self) -> Observer | None:
        own = strayed() if self.attached else None
        found = [own] if own is not None else blocks() if self.attached else []
        return _observer(found[0]) if found else _of_run()


_slot = _Slot()
_observers: weakref.WeakKeyDictionary[Governing, Observer] = weakref.WeakKeyDictionary()


def _observer(block: Governing) -> Observer:
    return _observers.setdefault(block, Observer(block))  # one a block: LangChain compares identity


def attach() -> None:
    """Give out handlers from now on."""
    if not _slot.registered:  # LangChain has no way to take a hook back; it is inert when detached
        register_configure_hook(cast("ContextVar[Any]", _slot), inheritable=True)
        around.append(strayed)
        _slot.registered = True
    _slot.attached = True


def detach() -> None:
    """Give out no handler any more."""
    _slot.attached = False
