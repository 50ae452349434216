"""Governed memory for LangChain, LangGraph and what is built on them.

`govern`, `memory_tools`, `SamsToolkit` and `tainting` need langchain-core and langgraph alone;
`SamsMiddleware` imports `langchain.agents` when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sams_langchain.govern import govern
from sams_langchain.tools import SamsToolkit, memory_tools
from sams_langchain.wrap import tainting

if TYPE_CHECKING:
    from sams_langchain.slots import SamsMiddleware

__all__ = ["SamsMiddleware", "SamsToolkit", "govern", "memory_tools", "tainting"]


def __getattr__(name: str) -> Any:
    if name == "SamsMiddleware":
        from sams_langchain.slots import SamsMiddleware

        return SamsMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
