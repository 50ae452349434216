"""Several agents and several sessions: sub-agents, hand-offs, one app for many, and no session at all."""

from __future__ import annotations

from typing import Literal

from sams_conformance.a.scenario import (
    DONE,
    Agent,
    Expect,
    Run,
    Scenario,
    Stored,
    Together,
    Tool,
    Turn,
    memory_write,
    say,
    use,
)

_SUB = Agent("helper", tools=("fetch", "calc"))
_BARE = Agent("helper", tools=("fetch", "calc"), memory=False)
_AGENTS = (Agent(tools=("helper", "fetch", "calc")), _SUB)


def _sub(trust: Literal["", "object"]) -> tuple[Tool, ...]:
    return (
        Tool("helper", kind="agent", agent="helper", trust=trust),
        Tool("fetch"),
        Tool("calc", trust="function"),
    )


_WRITE = say(memory_write("facts/code", "w1"))
_FETCHED = Expect(marked=True, reasons=("fetch",), stored={"facts/code": Stored(True, ("fetch",))})


def _handed(
    title: str, first: tuple[Turn, ...], then: tuple[Turn, ...], expect: Expect
) -> Scenario:
    return Scenario(
        "A18" if expect.marked is False else "A10",
        title,
        (Run(turns=first, others={"other": then}, expect=expect),),
        agents=(
            Agent(tools=("fetch",), handoffs=("other",)),
            Agent("other", tools=("fetch",), handoffs=("main",)),
        ),
        tools=(Tool("fetch"),),
        needs=frozenset({"handoff"}),
    )


_OVER = Turn(handoff="other")
_MANY = {
    "s1/fact": Stored(True, ("fetch",)),
    "s2/fact": Stored(False),
    "s3/fact": Stored(True, ("fetch",)),
    "s4/fact": Stored(False),
}


def _one_of_many(session: str, *, fetches: bool) -> Run:
    write = say(memory_write(f"{session}/fact", "c9"))
    turns = (say(use("fetch", "c1")), write, DONE) if fetches else (write, DONE)
    return Run(turns, session=session, expect=Expect(marked=fetches, stored=_MANY))


SCENARIOS = [
    Scenario(
        "A9",
        "the helper reads, its caller writes",
        (
            Run(
                turns=(say(use("helper", "c1")), _WRITE, DONE),
                others={"helper": (say(use("fetch", "c2")), Turn(text="read"))},
                expect=_FETCHED,
            ),
        ),
        agents=_AGENTS,
        tools=_sub("object"),
        needs=frozenset({"agent-tool"}),
    ),
    Scenario(
        "A9",
        "the caller reads, its helper writes",
        (
            Run(
                turns=(say(use("fetch", "c1")), say(use("helper", "c2")), DONE),
                others={"helper": (_WRITE, Turn(text="written"))},
                expect=_FETCHED,
            ),
        ),
        agents=_AGENTS,
        tools=_sub("object"),
        needs=frozenset({"agent-tool"}),
    ),
    Scenario(
        "A9",
        "the helper reads and writes",
        (
            Run(
                turns=(say(use("helper", "c1")), DONE),
                others={"helper": (say(use("fetch", "c2")), _WRITE, Turn(text="written"))},
                expect=_FETCHED,
            ),
        ),
        agents=_AGENTS,
        tools=_sub("object"),
        needs=frozenset({"agent-tool"}),
    ),
    Scenario(
        "A9",
        "the helper reads, the same helper writes later",
        (
            Run(
                turns=(say(use("helper", "c1")), say(use("helper", "c2")), DONE),
                others={
                    "helper": (
                        say(use("fetch", "c3")),
                        Turn(text="read"),
                        _WRITE,
                        Turn(text="written"),
                    )
                },
                expect=_FETCHED,
            ),
        ),
        agents=_AGENTS,
        tools=_sub("object"),
        needs=frozenset({"agent-tool"}),
    ),
    Scenario(
        "A9",
        "a helper that nobody declared",
        (
            Run(
                turns=(say(use("helper", "c1")), _WRITE, DONE),
                others={"helper": (Turn(text="thought"),)},
                expect=Expect(
                    marked=True,
                    reasons=("helper",),
                    stored={"facts/code": Stored(True, ("helper",))},
                ),
            ),
        ),
        agents=_AGENTS,
        tools=_sub(""),
        needs=frozenset({"agent-tool"}),
    ),
    Scenario(
        "A18",
        "a trusted helper that reads nothing of outsiders",
        (
            Run(
                turns=(say(use("helper", "c1")), _WRITE, DONE),
                others={"helper": (say(use("calc", "c2")), Turn(text="thought"))},
                expect=Expect(marked=False, stored={"facts/code": Stored(False)}),
            ),
        ),
        agents=_AGENTS,
        tools=_sub("object"),
        needs=frozenset({"agent-tool"}),
    ),
    Scenario(
        "A9",
        "a helper without memory reads, its caller writes",
        (
            Run(
                turns=(say(use("helper", "c1")), _WRITE, DONE),
                others={"helper": (say(use("fetch", "c2")), Turn(text="read"))},
                expect=_FETCHED,
            ),
        ),
        agents=(_AGENTS[0], _BARE),
        tools=_sub("object"),
        needs=frozenset({"agent-tool"}),
    ),
    Scenario(
        "A10",
        "an agent without memory reads in between",
        (
            Run(
                turns=(_OVER, _WRITE, DONE),
                others={"other": (say(use("fetch", "c1")), Turn(handoff="main"))},
                expect=_FETCHED,
            ),
        ),
        agents=(
            Agent(handoffs=("other",)),
            Agent("other", tools=("fetch",), handoffs=("main",), memory=False),
        ),
        tools=(Tool("fetch"),),
        needs=frozenset({"handoff"}),
    ),
    _handed(
        "read before, written after",
        (say(use("fetch", "c1")), _OVER),
        (_WRITE, DONE),
        _FETCHED,
    ),
    _handed(
        "read and written after",
        (_OVER,),
        (say(use("fetch", "c1")), _WRITE, DONE),
        _FETCHED,
    ),
    _handed(
        "a hand-off without any reading",
        (_OVER,),
        (_WRITE, DONE),
        Expect(marked=False, stored={"facts/code": Stored(False)}),
    ),
    Scenario(
        "A15",
        "four sessions of one app at the same time",
        (
            Together(
                (
                    _one_of_many("s1", fetches=True),
                    _one_of_many("s2", fetches=False),
                    _one_of_many("s3", fetches=True),
                    _one_of_many("s4", fetches=False),
                )
            ),
        ),
        agents=(Agent(tools=("fetch",)),),
        tools=(Tool("fetch"),),
    ),
    Scenario(
        "A15",
        "one session after another",
        (
            Run(turns=(say(use("fetch", "c1")), DONE), session="s1", expect=Expect(marked=True)),
            Run(
                turns=(_WRITE, DONE),
                session="s2",
                expect=Expect(marked=False, stored={"facts/code": Stored(False)}),
            ),
        ),
        agents=(Agent(tools=("fetch",)),),
        tools=(Tool("fetch"),),
    ),
    Scenario(
        "A15",
        "a session's app inside another session's run",
        (
            Run(
                turns=(_WRITE, DONE),
                inside="s2",
                expect=Expect(marked=True, refused="foreign-run", stored={}),
            ),
        ),
        bound=True,
    ),
    Scenario(
        "A16",
        "no session at all",
        (
            Run(
                turns=(_WRITE, DONE),
                block="none",
                expect=Expect(stored={}, results={"w1": '"rule": "no-session"'}),
            ),
        ),
    ),
    Scenario(
        "A16",
        "a session, and nobody who observes",
        (
            Run(
                turns=(_WRITE, DONE),
                block="active",
                expect=Expect(marked=True, stored={"facts/code": Stored(True, ("unobserved",))}),
            ),
        ),
    ),
    Scenario(
        "A16",
        "after a governed run, nothing is left of it",
        (
            Run(turns=(DONE,), expect=Expect(marked=False)),
            Run(
                turns=(_WRITE, DONE),
                block="none",
                expect=Expect(marked=False, stored={}, results={"w1": '"rule": "no-session"'}),
            ),
        ),
    ),
    Scenario(
        "A22",
        "a bare thread inside a trusted tool",
        (
            Run(
                turns=(say(use("calc", "c1")), DONE),
                expect=Expect(stored={}, results={"c1": "no-session"}),
            ),
        ),
        agents=(Agent(tools=("calc",)),),
        tools=(Tool("calc", trust="function", does="thread", form="sync"),),
    ),
]
