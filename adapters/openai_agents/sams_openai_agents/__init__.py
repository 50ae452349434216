"""Governed memory for the OpenAI Agents SDK."""

from sams_openai_agents.govern import GovernedAgents, govern
from sams_openai_agents.tools import memory_tools
from sams_openai_agents.wrap import tainting as tainting  # for the core: call sams_core.tainting

__all__ = ["GovernedAgents", "govern", "memory_tools"]
