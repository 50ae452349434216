"""Governed memory for LangChain, LangGraph and what is built on them.

`govern`, `memory_tools` and `SamsToolkit` need langchain-core and langgraph alone; the
others import what they stand on when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sams_langchain.govern import govern
from sams_langchain.tools import SamsToolkit, memory_tools
from sams_langchain.wrap import tainting as tainting  # for the core: call sams_core.tainting

if TYPE_CHECKING:
    from sams_langchain.deep import DEEP_AGENT_TOOLS
    from sams_langchain.files import SamsMemoryFiles
    from sams_langchain.slots import SamsMiddleware, SamsState
    from sams_langchain.store import SamsStore

__all__ = [
    "DEEP_AGENT_TOOLS",
    "SamsMemoryFiles",
    "SamsMiddleware",
    "SamsState",
    "SamsStore",
    "SamsToolkit",
    "govern",
    "memory_tools",
]


_LATER = {
    "DEEP_AGENT_TOOLS": "deep",
    "SamsMemoryFiles": "files",
    "SamsMiddleware": "slots",
    "SamsState": "slots",
    "SamsStore": "store",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
