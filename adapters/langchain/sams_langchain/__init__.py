"""Governed memory for LangChain, LangGraph and what is built on them.

`govern`, `memory_tools`, `SamsToolkit` and `tainting` need langchain-core and langgraph alone;
`SamsMiddleware` and `SamsState` import `langchain.agents` when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sams_langchain.govern import govern
from sams_langchain.tools import SamsToolkit, memory_tools
from sams_langchain.wrap import tainting

if TYPE_CHECKING:
    from sams_langchain.slots import SamsMiddleware, SamsState

__all__ = ["SamsMiddleware", "SamsState", "SamsToolkit", "govern", "memory_tools", "tainting"]


def __getattr__(name: str) -> Any:
    if name in ("SamsMiddleware", "SamsState"):
        from sams_langchain import slots

        return getattr(slots, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
