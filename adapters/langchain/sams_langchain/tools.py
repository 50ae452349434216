"""The four memory tools as native tools: strict schemas, and arguments as the model sent them."""

# Annotations are objects here, not text: LangChain resolves those of `_run` at every call.

import sys
from dataclasses import fields
from functools import cache, cached_property, partial
from typing import Annotated, Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool, BaseToolkit, InjectedToolArg
from pydantic import BaseModel, ConfigDict, Field

from sams_core.errors import NoSession, SamsError
from sams_core.govern import Bound, acall_memory, call_memory
from sams_core.session import AgentSession
from sams_core.tools import is_refusal, refusal, schemas
from sams_langchain.govern import Govern, blocks, rejoined
from sams_langchain.turns import Judged, judge_call

_AMBIENT = Govern()


class _Call(BaseModel):
    """What LangGraph's `ToolNode` reads to know that it is to inject its runtime."""

    model_config = ConfigDict(extra="allow")

    runtime: Annotated[Any, InjectedToolArg] = None


class MemoryTool(BaseTool):
    """One of the four tools; it acts for the ambient session, or for the one it is bound to.

    Arguments reach the core unvalidated. A refusal is a result: a `ToolMessage` with status "error".
    """

    bound: Any = Field(default=None, exclude=True, repr=False)

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return a schema that takes anything: the core validates."""
        return _Call

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        runtime = None
        if isinstance(tool_input, dict):
            runtime = tool_input.get("runtime")
            if _is_runtime(runtime):  # a model can't make one
                tool_input = {k: v for k, v in tool_input.items() if k != "runtime"}
            else:
                runtime = None
        return (), {"arguments": tool_input, "call_id": tool_call_id, "runtime": runtime}

    # What is injected is left out of what callbacks are told, and of traces. Older versions of
    # LangChain see no annotation here.
    @cached_property
    def _injected_args_keys(self) -> frozenset[str]:
        return frozenset({"runtime"})

    def _run(self, arguments: Any, call_id: str | None, runtime: Any) -> Any:
        with rejoined():
            try:
                unique = _judged(call_id, arguments, runtime)
            except SamsError as error:
                return self._answer(refusal(error), call_id)
            answer = call_memory(self.name, arguments, unique, partial(self._session, runtime))
        return self._answer(answer, call_id)

    async def _arun(self, arguments: Any, call_id: str | None, runtime: Any) -> Any:
        with rejoined():
            try:
                unique = _judged(call_id, arguments, runtime)
            except SamsError as error:
                return self._answer(refusal(error), call_id)
            find = partial(self._session, runtime)
            answer = await acall_memory(self.name, arguments, unique, find)
        return self._answer(answer, call_id)

    def _session(self, runtime: Any) -> AgentSession:
        governed = self.bound if isinstance(self.bound, Govern) else _AMBIENT
        if not governed.resolves:
            return governed.session()
        if runtime is not None:
            return governed.session(plain_runtime(runtime))
        return governed.session(var_child_runnable_config.get() or {})

    def _answer(self, answer: str, call_id: str | None) -> Any:
        return refused(self.name, call_id, answer) if is_refusal(answer) else answer


def is_memory_tool(tool: object) -> bool:
    """Tell whether it is ours, by type: a subclass could do anything."""
    return type(tool) is MemoryTool


def refused(name: str, call_id: str | None, answer: str) -> Any:
    """Return a refusal in the form in which a tool's result reaches the model."""
    if call_id is None:
        return answer
    return ToolMessage(answer, tool_call_id=call_id, name=name, status="error")


def _is_runtime(value: object) -> bool:
    node = sys.modules.get("langgraph.prebuilt.tool_node")  # without it there is none
    return node is not None and isinstance(value, node.ToolRuntime)


@cache
def _of_a_node() -> tuple[str, ...]:
    from langgraph.prebuilt import ToolRuntime
    from langgraph.runtime import Runtime

    # A call's runtime is an object of another class, and may lack some.
    return tuple({f.name for f in fields(Runtime)} & {f.name for f in fields(ToolRuntime)})


def plain_runtime(runtime: Any) -> Any:
    """Return what a resolver may see: a node's `Runtime`, without a call's state and arguments."""
    from langgraph.runtime import Runtime

    return Runtime(**{name: getattr(runtime, name) for name in _of_a_node()})


def session_here(governed: Govern) -> AgentSession:
    """Return the session of a call that is told nothing of its run; raises as `Govern.session`.

    A resolver gets LangGraph's `Runtime`, outside of a graph the run's config.
    """
    from langgraph.runtime import get_runtime

    try:
        runtime = get_runtime()
    except (RuntimeError, KeyError):  # no run, or no graph's
        runtime = None
    given = var_child_runnable_config.get() or {} if runtime is None else plain_runtime(runtime)
    try:
        return governed.session(given)
    except SamsError:
        raise
    except Exception as error:
        raise NoSession("the resolver found no session here") from error


def _judged(call_id: str | None, arguments: Any, runtime: Any) -> str | None:
    """Judge the turn that this call is part of, and return an id that no other turn repeats."""
    if not call_id:
        return call_id
    where, state = blocks(), getattr(runtime, "state", None)
    judged = where[0].call if where else None
    if isinstance(judged, Judged) and judged.state is state and judged.call_id == call_id:
        return judged.unique  # by the middleware, around this very call
    tools = getattr(runtime, "tools", ())
    return judge_call(where, state, call_id, tools, arguments=arguments)


def memory_tools(governed: Govern | None = None) -> list[BaseTool]:
    """Return the four tools; one list serves every session.

    Each call acts for the session whose block is at work, or for the one that `governed` was made with.
    Without one it is refused (`no-session`).
    """
    return [
        MemoryTool(
            name=schema["name"],
            description=schema["description"],
            args_schema=schema["input_schema"],
            bound=governed,
        )
        for schema in schemas()
    ]


class SamsToolkit(BaseToolkit):
    """The four tools as a toolkit, bound to a session, to a resolver, or to neither.

    A resolver is called with LangGraph's `Runtime` inside a `ToolNode`, else with the run's config. A
    call inside another family's run marks both families and is refused (`foreign-run`).
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    governed: Any = Field(exclude=True, repr=False)

    def __init__(self, session_or_resolver: Bound = None, /) -> None:
        # pydantic's own __init__, of which the type checker sees the base class's fields only
        super().__init__(governed=Govern(session_or_resolver))  # type: ignore[call-arg]

    def get_tools(self) -> list[BaseTool]:
        """Return `memory_index`, `memory_read`, `memory_search` and `memory_write`."""
        return memory_tools(self.governed)
