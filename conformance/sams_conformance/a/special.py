"""Checks of scenarios that are about native objects or several runs, by the names scenarios use."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Literal

from sams_conformance.a.check import stored
from sams_conformance.a.play import ASSIGNED, Observed, Stage
from sams_core import Owner, SamsError

Check = Callable[[Stage, str, list[Observed]], list[str]]
_WAYS: tuple[Literal["sync", "async"], ...] = ("sync", "async")


def same_hooks(stage: Stage, mode: str, past: list[Observed]) -> list[str]:
    """Compare what the user's hooks heard in a governed and in an ungoverned run."""
    governed, plain = past
    if not plain.heard:
        return ["the user's hooks heard nothing"]
    if governed.heard != plain.heard:
        return [f"heard when governed: {governed.heard}", f"otherwise: {plain.heard}"]
    return []


def same_block(stage: Stage, mode: str, past: list[Observed]) -> list[str]:
    """Compare the context block over the runs: the same until something is retired, then another."""
    first, second, retired = (each.block for each in past)
    found = []
    if not first or first != second:
        found.append("the context block changed between two runs")
    if retired == second or stage.scenario.seeds[0].content in retired:
        found.append("the context block still has what was retired")
    return found


def second_write(stage: Stage, mode: str, past: list[Observed]) -> list[str]:
    """Look whether the open change superseded another one: two calls are two writes."""
    changes = Owner(stage.backend, "olga").changes(ASSIGNED)
    return [] if [bool(c.supersedes) for c in changes] == [True] else ["the second call is lost"]


def one_write(stage: Stage, mode: str, past: list[Observed]) -> list[str]:
    """Look whether the open change is the only one that ever was."""
    changes = Owner(stage.backend, "olga").changes(ASSIGNED)
    return [] if [bool(c.supersedes) for c in changes] == [False] else ["written twice"]


def later_is_marked(stage: Stage, mode: str, past: list[Observed]) -> list[str]:
    """What was written a turn after the reading is marked; in the same turn it may come first."""
    lying = stored(stage).get("facts/later", [])
    return [] if [tainted for tainted, _ in lying] == [True] else ["the later write is unmarked"]


def nothing_unmarked(stage: Stage, mode: str, past: list[Observed]) -> list[str]:
    """Nothing that was stored beside or after a reading is unmarked."""
    clean = [path for path, texts in stored(stage).items() if not all(t for t, _ in texts)]
    return [f"{path} is stored unmarked" for path in clean]


def wrappers(stage: Stage, mode: str, past: list[Observed]) -> list[str]:
    """Wrap each tool explicitly: same type and description, and it marks, sync and async."""
    found = []
    for key in stage.app_tools():
        for way in _WAYS:
            found += [f"{key} [{way}]: {text}" for text in _wrapped(stage, key, way)]
    return found


def _wrapped(stage: Stage, key: str, way: Literal["sync", "async"]) -> list[str]:
    native = stage.app.native(key)
    before = stage.app.describe(native)
    session = stage.session(f"wrap-{key}-{way}")
    wrapped = session.tainting(native)
    found = []
    if not isinstance(wrapped, type(native)):
        found.append(f"a {type(native).__name__} became a {type(wrapped).__name__}")
    if stage.app.describe(wrapped) != before:
        found.append("the description changed")
    if stage.app.describe(native) != before:
        found.append("the description of the original changed")
    if session.tainted:
        found.append("wrapping alone marked")
    text = stage.tool(key).returns
    with session.active():
        answer = asyncio.run(stage.app.use(wrapped, "q", way))
    if text not in answer:
        found.append(f"answered {answer!r}")
    if not session.tainted:
        found.append("the call left the session unmarked")
    elsewhere = stage.session(f"other-{key}-{way}")
    try:
        with elsewhere.active():
            answer = asyncio.run(stage.app.use(wrapped, "q", way))
    except SamsError as error:
        answer = error.rule
    except Exception as error:
        answer = repr(error)
    if text in answer or not elsewhere.tainted:
        found.append(f"another session's run got {answer!r}; marked: {elsewhere.tainted}")
    return found


SPECIAL: dict[str, Check] = {
    name: check
    for name, check in dict(globals()).items()
    if inspect.isfunction(check) and not name.startswith("_") and check.__module__ == __name__
}
