"""The four memory tools as LlamaIndex tools: async first, and nothing between model and core."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Mapping
from typing import Any

from llama_index.core.bridge.pydantic import BaseModel, ConfigDict
from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput

from sams_core.canonical import digest
from sams_core.errors import InvalidArguments
from sams_core.govern import acall_memory, at_work, call_memory
from sams_core.tools import schemas


class MemoryMetadata(ToolMetadata):
    """Name, description and the core's own schema, whole: strict, every key required."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        wire = self._wire = copy.deepcopy(dict(schema["input_schema"]))

        class Arguments(BaseModel):
            """What the model sent, as it is: the core validates it."""

            model_config = ConfigDict(extra="allow")

            @classmethod
            def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
                """Return the core's schema."""
                return copy.deepcopy(wire)

        super().__init__(schema["description"], schema["name"], Arguments)

    def get_parameters_dict(self) -> dict[str, Any]:
        """Return the schema that goes over the wire."""
        return copy.deepcopy(self._wire)

    def to_openai_tool(self, skip_length_check: bool = False) -> dict[str, Any]:
        """Return the tool in OpenAI's form, strict."""
        tool = super().to_openai_tool(skip_length_check)
        tool["function"]["strict"] = True
        return tool


class MemoryTool(FunctionTool):
    """One of the four tools, for whichever session is at work when it is called.

    What the model sent goes to the core unchecked. A refusal is a result with `is_error`, whose
    content is the core's JSON; the run goes on.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        name = schema["name"]

        def function(*args: Any, **kwargs: Any) -> str:
            return _call(name, args, kwargs)

        async def async_function(*args: Any, **kwargs: Any) -> str:
            return await _acall(name, args, kwargs)

        keys = schema["input_schema"]["properties"]
        told = inspect.Signature(
            [inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY) for k in keys]
        )
        for each in (function, async_function):
            setattr(each, "__signature__", told)  # noqa: B010 - an agent that writes code is shown it
            each.__name__ = each.__qualname__ = name
            each.__doc__ = schema["description"]
        super().__init__(function, MemoryMetadata(schema), async_function)

    def call(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        """Run a model's call."""
        _check_seen()
        return self._output(args, kwargs, self._fn(*args, **kwargs))

    async def acall(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        """Run a model's call without blocking the event loop."""
        _check_seen()
        return self._output(args, kwargs, await self._async_fn(*args, **kwargs))

    def _output(self, args: Any, kwargs: Any, answer: str) -> ToolOutput:
        return ToolOutput(
            tool_name=self.metadata.get_name(),
            content=answer,
            raw_input={"args": args, "kwargs": kwargs},
            raw_output=answer,
            is_error="error" in json.loads(answer),
        )


def memory_tools() -> list[MemoryTool]:
    """Return the four memory tools, for the list of an agent's tools.

    They belong to no session: a call reaches the one at work, or is refused (`no-session`).
    """
    return [MemoryTool(schema) for schema in schemas()]


def _call(name: str, args: Any, kwargs: dict[str, Any]) -> str:
    _check_attached()
    arguments = _arguments(args, kwargs)
    return call_memory(name, arguments, _call_id(name, arguments))


async def _acall(name: str, args: Any, kwargs: dict[str, Any]) -> str:
    _check_attached()
    arguments = _arguments(args, kwargs)
    return await acall_memory(name, arguments, _call_id(name, arguments))


def _arguments(args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**kwargs, "": list(args)} if args else kwargs  # the core refuses what it doesn't know


def _check_seen() -> None:
    """Mark where the span of this very call didn't reach the adapter: then others don't either."""
    from sams_llamaindex import spans
    from sams_llamaindex.govern import OFF, mark

    if not spans.saw_this_call():
        mark("content", OFF)


def _check_attached() -> None:
    from sams_llamaindex import spans
    from sams_llamaindex.govern import OFF, GovernedLlamaIndex, mark

    if at_work(GovernedLlamaIndex) and not spans.attached():
        mark("content", OFF)


def _call_id(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return what identifies a call over replays of its step, also in another process; else None.

    A step that waits is run again from its beginning, and LlamaIndex doesn't tell a tool which call
    it answers. What stays the same are the step's work item, the model's id of the call and what
    names the beginning of its context, which the context's store remembers.
    """
    from sams_llamaindex.steps import running

    step = running.get()
    item = getattr(getattr(step and step.worker, "state", None), "work_item_id", None)
    if step is None or item is None:
        return None
    try:
        same = digest("llamaindex call", [name, dict(arguments)])
    except InvalidArguments:  # nothing that the core would store
        return None
    nth = step.calls[same] = step.calls.get(same, 0) + 1
    return f"{step.began} {step.tool_id} {item} {nth}"
