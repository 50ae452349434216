"""Governed memory for the OpenAI Agents SDK."""

from sams_openai_agents.govern import GovernedAgents, govern
from sams_openai_agents.tools import memory_tools
from sams_openai_agents.wrap import tainting

__all__ = ["GovernedAgents", "govern", "memory_tools", "tainting"]
