"""The two handlers on LlamaIndex's root dispatcher: put in with the first block, out with the last.

The framework swallows whatever a handler raises, and any library may take handlers away. So the
handlers here decide nothing: they call what judges, inside a net that marks where that fails.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from llama_index_instrumentation import get_dispatcher, root_manager
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span import active_span_id
from llama_index_instrumentation.span_handlers import BaseSpanHandler

Entered = Callable[[str, Any, Any, str | None], None]
Left = Callable[[str, Any, Any, BaseException | None], None]
Heard = Callable[[Any], None]
Begun = Callable[[], None]

_last_entered: ContextVar[str | None] = ContextVar("sams_llamaindex_span", default=None)


class Spans(BaseSpanHandler[Any]):
    """Hears of each tool, retriever, query engine, model and workflow step before its body runs."""

    def span_enter(
        self,
        id_: str,
        bound_args: Any,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Judge a call that is about to begin."""
        _last_entered.set(id_)
        if _entered is not None:
            _entered(id_, bound_args, instance, parent_id)

    def span_exit(
        self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **kwargs: Any
    ) -> None:
        """Look at what a call returned."""
        if _left is not None:
            _left(id_, instance, result, None)

    def span_drop(
        self,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> None:
        """Look at what a call raised."""
        if _left is not None:
            _left(id_, instance, None, err)

    def capture_propagation_context(self) -> dict[str, Any]:
        """Hear that a workflow's run is about to be put on the loop; nothing else is told so early."""
        if _begun is not None:
            _begun()
        return {}

    def new_span(self, *args: Any, **kwargs: Any) -> None:
        """Keep no record."""

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
        """Keep no record."""

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
        """Keep no record."""


class Events(BaseEventHandler):
    """Hears what models answer."""

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        """Look at an event."""
        if _heard is not None:
            _heard(event)


_spans, _events = Spans(), Events()
_entered: Entered | None = None
_left: Left | None = None
_heard: Heard | None = None
_begun: Begun | None = None


def attach(entered: Entered, left: Left, heard: Heard, begun: Begun) -> None:
    """Put the handlers first in the root dispatcher's lists."""
    global _entered, _left, _heard, _begun
    _entered, _left, _heard, _begun = entered, left, heard, begun
    root = get_dispatcher()
    root.span_handlers.insert(0, _spans)
    root.event_handlers.insert(0, _events)


def detach() -> None:
    """Take the handlers out again, wherever they are by now."""
    global _entered, _left, _heard, _begun
    root = get_dispatcher()
    root.span_handlers[:] = [each for each in root.span_handlers if each is not _spans]
    root.event_handlers[:] = [each for each in root.event_handlers if each is not _events]
    _entered = _left = _heard = _begun = None


def attached() -> bool:
    """Tell whether everything that LlamaIndex dispatches reaches the handlers."""
    root = get_dispatcher()
    return (
        any(each is _spans for each in root.span_handlers)
        and any(each is _events for each in root.event_handlers)
        and all(each is root or each.propagate for each in list(root_manager.dispatchers.values()))
    )


def saw_this_call() -> bool:
    """Tell, inside a tool's body, whether the span of this very call reached the handlers."""
    return _last_entered.get() is not None and _last_entered.get() == active_span_id.get()
