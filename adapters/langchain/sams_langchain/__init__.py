"""Governed memory for LangChain."""
