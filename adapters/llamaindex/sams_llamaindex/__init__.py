"""Governed memory for LlamaIndex."""
