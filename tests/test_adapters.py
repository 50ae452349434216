"""How a framework's object finds its adapter without the core importing anything."""

from __future__ import annotations

import functools
import sys
import types
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from sams_core import AgentSession, taint


class Tool:
    """A framework's object, with more than one way in."""

    def invoke(self) -> str:
        """Return what an outsider wrote."""
        return "text"


Tool.__module__ = "some_framework.tools"


class Derived(Tool):
    """An application's own subclass of it."""


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    adapter = types.ModuleType("sams_some")
    adapter.tainting = lambda *a: calls.append(a) or "wrapped"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sams_some", adapter)
    found = {
        "sams.adapter_roots": [EntryPoint("some_framework", "some", "sams.adapter_roots")],
        "sams.adapters": [EntryPoint("some", "sams_some", "sams.adapters")],
    }
    monkeypatch.setattr(taint, "entry_points", lambda *, group: EntryPoints(found[group]))
    monkeypatch.setattr(taint, "_installed", functools.cache(taint._installed.__wrapped__))
    return calls


def test_an_object_is_wrapped_by_the_adapter_of_its_class_or_of_a_base(
    installed: list[Any], session: AgentSession
) -> None:
    for tool in (Tool(), Derived()):
        assert session.tainting(tool, "the tool") == "wrapped"  # type: ignore[comparison-overlap]
        assert installed[-1] == (tool, session, "the tool")


def test_without_its_adapter_it_is_a_type_error_that_says_what_to_install(
    session: AgentSession,
) -> None:
    with pytest.raises(TypeError, match="pip install"):
        session.tainting(Tool())
