"""Governed memory for LlamaIndex: `govern` an agent, give it `memory_tools`, wrap what reads."""

from importlib.metadata import PackageNotFoundError, version

try:
    _found = version("llama-index-workflows")
except PackageNotFoundError:
    raise ImportError("no LlamaIndex: pip install 'sams-adapters[llamaindex]'") from None
if tuple(map(int, _found.split(".")[:2])) < (2, 24):
    # Older releases number no work items and run steps in which neither runs nor calls can be told
    # apart: much would go unseen, without a word.
    raise ImportError("sams_llamaindex needs llama-index-workflows 2.24 or later")

from sams_llamaindex.govern import GovernedLlamaIndex, govern
from sams_llamaindex.slots import SamsMemoryBlock, SamsToolSpec
from sams_llamaindex.tools import MemoryTool, memory_tools
from sams_llamaindex.wrap import tainting as tainting  # for the core: call sams_core.tainting

__all__ = [
    "GovernedLlamaIndex",
    "MemoryTool",
    "SamsMemoryBlock",
    "SamsToolSpec",
    "govern",
    "memory_tools",
]
