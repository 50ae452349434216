"""Marks by tools: undeclared ones, early and broken ends, one turn's calls, and whom trust names."""

from __future__ import annotations

from typing import Literal

from sams_conformance.a.scenario import (
    DONE,
    Agent,
    Expect,
    Run,
    Scenario,
    Stored,
    Tool,
    Turn,
    memory_write,
    say,
    use,
)

_MARKED = {"facts/code": Stored(True, ("fetch",))}
_CLEAN = {"facts/code": Stored(False)}
_FORMS: tuple[Literal["sync", "async"], ...] = ("async", "sync")


def _undeclared(form: Literal["sync", "async"]) -> Scenario:
    return Scenario(
        "A3",
        f"a {form} tool, then a write",
        (
            Run(
                turns=(say(use("fetch", "c1")), say(memory_write("facts/code", "c2")), DONE),
                expect=Expect(
                    marked=True,
                    reasons=("tool fetch", "trusted=[fetch]"),
                    stored=_MARKED,
                    bodies=("fetch",),
                    saw=("this page",),
                    results={"c2": '"status": "queued"'},
                ),
            ),
        ),
        agents=(Agent(tools=("fetch",)),),
        tools=(Tool("fetch", form=form),),
    )


def _one_turn(title: str, *, fetch_first: bool, form: Literal["sync", "async"]) -> Scenario:
    calls = (use("fetch", "c1"), memory_write("facts/code", "c2"))
    return Scenario(
        "A6",
        title,
        (
            Run(
                turns=(say(*(calls if fetch_first else calls[::-1])), DONE),
                expect=Expect(marked=True, stored=_MARKED, bodies=("fetch",)),
            ),
        ),
        agents=(Agent(tools=("fetch",)),),
        tools=(Tool("fetch", form=form),),
    )


def _trusted(id: str, title: str, tool: Tool) -> Scenario:
    return Scenario(
        id,
        title,
        (
            Run(
                turns=(say(use("calc", "c1")), say(memory_write("facts/code", "c2")), DONE),
                expect=Expect(marked=False, stored=_CLEAN, bodies=(tool.key,)),
            ),
        ),
        agents=(Agent(tools=(tool.key,)),),
        tools=(tool,),
    )


def _impostor(title: str, trust: Literal["function", "object"]) -> Scenario:
    return Scenario(
        "A7",
        title,
        (
            Run(
                turns=(say(use("calc", "c1")), say(memory_write("facts/code", "c2")), DONE),
                expect=Expect(
                    marked=True,
                    stored={"facts/code": Stored(True, ("calc",))},
                    bodies=("impostor",),
                ),
            ),
        ),
        agents=(Agent(tools=("impostor",)),),
        tools=(Tool("real", name="calc", trust=trust), Tool("impostor", name="calc")),
    )


_LATER = Run(
    turns=(say(memory_write("facts/code", "c9")), DONE),
    expect=Expect(marked=True, stored=_MARKED),
)

SCENARIOS = [
    *map(_undeclared, _FORMS),
    Scenario(
        "A3",
        "in a later run of the session",
        (
            Run(turns=(say(use("fetch", "c1")), DONE), expect=Expect(marked=True)),
            _LATER,
        ),
        agents=(Agent(tools=("fetch",)),),
        tools=(Tool("fetch"),),
    ),
    Scenario(
        "A3",
        "in a new process",
        (
            Run(turns=(say(use("fetch", "c1")), DONE), expect=Expect(marked=True)),
            Run(turns=_LATER.turns, new_process=True, expect=_LATER.expect),
        ),
        agents=(Agent(tools=("fetch",)),),
        tools=(Tool("fetch"),),
    ),
    Scenario(
        "A5",
        "a tool that raises",
        (
            Run(
                turns=(say(use("fetch", "c1")), DONE),
                expect=Expect(marked=True, reasons=("fetch",), bodies=("fetch",), any_end=True),
            ),
            _LATER,
        ),
        agents=(Agent(tools=("fetch",)),),
        tools=(Tool("fetch", does="raise"),),
    ),
    Scenario(
        "A5",
        "a run that is cancelled while a tool waits",
        (
            Run(
                turns=(say(use("fetch", "c1")), DONE),
                stop="cancel",
                expect=Expect(marked=True, reasons=("fetch",), bodies=("fetch",), any_end=True),
            ),
            _LATER,
        ),
        agents=(Agent(tools=("fetch",)),),
        tools=(Tool("fetch", does="wait"),),
        modes="async",
    ),
    Scenario(
        "A5",
        "a stream that its consumer leaves",
        (
            Run(
                turns=(say(use("fetch", "c1"), memory_write("facts/early", "c2")), DONE),
                stop="leave",
                expect=Expect(any_end=True),
            ),
            Run(
                turns=(say(use("fetch", "c3")), say(memory_write("facts/code", "c4")), DONE),
                expect=Expect(marked=True),
            ),
        ),
        agents=(Agent(tools=("fetch",)),),
        tools=(Tool("fetch"),),
        modes="stream",
        check="nothing_unmarked",
    ),
    *(
        _one_turn(f"{first}, {form}", fetch_first=first == "the fetch first", form=form)
        for first in ("the fetch first", "the write first")
        for form in _FORMS
    ),
    Scenario(
        "A6",
        "three fetches and two writes",
        (
            Run(
                turns=(
                    say(
                        memory_write("facts/a", "c1"),
                        use("fetch", "c2"),
                        use("other", "c3"),
                        memory_write("facts/b", "c4"),
                        use("fetch", "c5"),
                    ),
                    DONE,
                ),
                expect=Expect(
                    marked=True,
                    stored={
                        "facts/a": Stored(True, ("fetch", "other")),
                        "facts/b": Stored(True, ("fetch", "other")),
                    },
                ),
            ),
        ),
        agents=(Agent(tools=("fetch", "other")),),
        tools=(Tool("fetch"), Tool("other", form="sync")),
    ),
    *(
        _trusted("A7", f"trusted by its {trust}, {form}", Tool("calc", trust=trust, form=form))
        for trust in ("function", "object")
        for form in _FORMS
    ),
    _impostor("an impostor of a trusted function", "function"),
    _impostor("an impostor of a trusted object", "object"),
    Scenario(
        "A7",
        "the real one and its impostor side by side",
        (
            Run(
                turns=(say(use("calc", "c1")), say(memory_write("facts/code", "c2")), DONE),
                expect=Expect(any_end=True),
            ),
        ),
        agents=(Agent(tools=("real", "impostor")),),
        tools=(Tool("real", name="calc", trust="function"), Tool("impostor", name="calc")),
    ),
    Scenario(
        "A18",
        "a trusted tool and a write in one turn",
        (
            Run(
                turns=(say(use("calc", "c1"), memory_write("facts/code", "c2")), DONE),
                expect=Expect(marked=False, stored=_CLEAN),
            ),
        ),
        agents=(Agent(tools=("calc",)),),
        tools=(Tool("calc", trust="object", form="sync"),),
    ),
    Scenario(
        "A18",
        "an undeclared tool that isn't called",
        (
            Run(
                turns=(say(memory_write("facts/code", "c1")), DONE),
                expect=Expect(marked=False, stored=_CLEAN),
            ),
        ),
        agents=(Agent(tools=("fetch",)),),
        tools=(Tool("fetch"),),
    ),
    Scenario(
        "A18",
        "a structured answer",
        (
            Run(
                turns=(say(memory_write("facts/code", "c1")), Turn(text='{"answer": "done"}')),
                expect=Expect(marked=False, stored=_CLEAN, final=None),
            ),
        ),
        agents=(Agent(structured=True),),
        needs=frozenset({"structured"}),
    ),
]
