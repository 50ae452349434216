"""Governed memory for OpenAI Agents."""
