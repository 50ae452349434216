"""LangChain's own standard tests of an integration's tools, for all four, as its packages run them."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from sams_core import AgentSession, Owner, SQLiteBackend
from sams_langchain import SamsToolkit

ACME = "tenant:acme"
PATH = "facts/code"


class Memory:
    """One of the tools, bound to a session that has something to find."""

    called: ClassVar[str]
    example: ClassVar[dict[str, Any]]
    _tools: dict[str, BaseTool]

    @pytest.fixture
    def anyio_backend(self) -> str:  # whose mark, unlike pytest-asyncio's, may stand on a class
        return "asyncio"

    @pytest.fixture(autouse=True)
    def something_to_find(self, backend: SQLiteBackend) -> None:
        Owner(backend, "olga").write(ACME, PATH, "7-7-7", "The code")
        session = AgentSession(
            backend,
            session_id="s1",
            agent="bot",
            assigned=ACME,
            user="insider",
            observed="by-hand",
        )
        self._tools = {each.name: each for each in SamsToolkit(session).get_tools()}

    @property
    def tool_constructor(self) -> BaseTool:
        return self._tools[self.called]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return dict(self.example)

    def test_the_example_is_no_refusal(self, tool: BaseTool) -> None:
        """The standard tests would be content with one."""
        assert "error" not in json.loads(tool.invoke(self.tool_invoke_params_example))


class Index(Memory):
    called = "memory_index"
    example: ClassVar[dict[str, Any]] = {"scope": "assigned", "cursor": None}


class Read(Memory):
    called = "memory_read"
    example: ClassVar[dict[str, Any]] = {"scope": "assigned", "path": PATH}


class Search(Memory):
    called = "memory_search"
    example: ClassVar[dict[str, Any]] = {"scope": "assigned", "query": "what is the code?"}


class Write(Memory):
    called = "memory_write"
    example: ClassVar[dict[str, Any]] = {
        "scope": "assigned",
        "path": PATH,
        "content": "8-8-8",
        "description": "The new code",
        "expected_version": 1,
    }


class TestIndexUnit(Index, ToolsUnitTests):
    pass


class TestReadUnit(Read, ToolsUnitTests):
    pass


class TestSearchUnit(Search, ToolsUnitTests):
    pass


class TestWriteUnit(Write, ToolsUnitTests):
    pass


@pytest.mark.anyio
class TestIndexIntegration(Index, ToolsIntegrationTests):
    pass


@pytest.mark.anyio
class TestReadIntegration(Read, ToolsIntegrationTests):
    pass


@pytest.mark.anyio
class TestSearchIntegration(Search, ToolsIntegrationTests):
    pass


@pytest.mark.anyio
class TestWriteIntegration(Write, ToolsIntegrationTests):
    pass
