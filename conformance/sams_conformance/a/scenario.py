"""Scenarios as data: what the model says, what tools return, and what must be true afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

OUTSIDE = "The billing code is 7-7-7, says this page."
"""What an outsiders' source returns unless a scenario says otherwise."""


@dataclass(frozen=True)
class Tool:
    """One of the app's own tools: a function of one string, `query`, that returns `returns`.

    `key` is how a scenario names it, `name` how the model calls it. `trust` says how the harness
    vouches for it: by the plain function, by the native object, or not at all. `kind` says what it
    is in the framework: a function made into a tool, a native retriever behind the framework's own
    retriever tool, another agent as a tool, a tool of a local MCP server. `calls` is the key of a
    native tool or retriever that its body calls, outside of any turn.
    """

    key: str
    name: str = ""
    returns: str = OUTSIDE
    form: Literal["sync", "async"] = "async"
    trust: Literal["", "function", "object"] = ""
    kind: Literal["function", "retriever", "agent", "mcp"] = "function"
    does: Literal["return", "raise", "wait", "thread"] = "return"
    agent: str = ""
    calls: str = ""

    @property
    def called(self) -> str:
        """The name that the model calls it by."""
        return self.name or self.key


@dataclass(frozen=True)
class Call:
    """One call that the scripted model makes; `id` is unique in a scenario."""

    tool: str
    arguments: Mapping[str, Any]
    id: str


Hosted = Literal["hosted-tool", "citation", "unknown-type"]


@dataclass(frozen=True)
class Turn:
    """One answer of the scripted model: calls (several are parallel), or a final text.

    `hosted` adds what a provider puts into an answer when it read something by itself. `handoff`
    hands over to the agent of that name, by the framework's own tool for it.
    """

    calls: tuple[Call, ...] = ()
    text: str = ""
    hosted: Hosted | None = None
    handoff: str = ""


DONE = Turn(text="done")


@dataclass(frozen=True)
class Agent:
    """An agent with the four memory tools, tools by key, and agents it may hand over to."""

    name: str = "main"
    tools: tuple[str, ...] = ()
    handoffs: tuple[str, ...] = ()
    memory: bool = True
    structured: bool = False


@dataclass(frozen=True)
class Stored:
    """What must be stored under a path: how often, and whether stamped as tainted, and by what."""

    tainted: bool
    reasons: tuple[str, ...] = ()
    times: int = 1


@dataclass(frozen=True)
class Expect:
    """What must be true after a run; what is None isn't looked at.

    `marked` and `reasons` are of the session's ledger, each reason being part of one source's kind
    and name. `stored` is everything that lies open in the queue or in the run's notes, by path.
    `results` are parts of what the model was shown as a call's result. `bodies` are the tools whose
    bodies ran; that an untrusted one found its session marked is looked at in every governed run.
    `refused` is the rule with which the run may end instead of `final`, or with which a call was
    answered. With `any_end` the framework may end the run as it likes.
    """

    marked: bool | None = None
    reasons: tuple[str, ...] = ()
    no_reasons: tuple[str, ...] = ()
    stored: Mapping[str, Stored] | None = None
    results: Mapping[str, str] = field(default_factory=dict)
    bodies: tuple[str, ...] | None = None
    final: str | None = "done"
    any_end: bool = False
    refused: str | None = None
    saw: tuple[str, ...] = ()
    never_saw: tuple[str, ...] = ()
    offered: tuple[str, ...] | None = None


Block = Literal["governed", "active", "none"]


@dataclass(frozen=True)
class Run:
    """One request: the agent's loop is run once, inside `with governed(session)` by default.

    `block` "active" opens the session without an observer, "none" opens nothing. `inside` names the
    session whose own governed block encloses the run of an app bound to `session`. `thread` names a
    conversation that the framework keeps and goes on with, also in a new process. `pause` is the
    tool before whose body the run must stop for an approval, `resume` goes on with what was paused,
    approved. `stop` ends it early: cancelled while a tool waits, or by a consumer that leaves a
    stream after its first event. `upload` puts something that isn't text into the user's message.
    `before` is what happens first: an entry retired, or a disk without room for the run's time.
    """

    turns: tuple[Turn, ...] = ()
    others: Mapping[str, tuple[Turn, ...]] = field(default_factory=dict)
    session: str = "s1"
    message: str = "go on"
    block: Block = "governed"
    inside: str = ""
    thread: str = ""
    new_process: bool = False
    pause: str = ""
    resume: bool = False
    stop: Literal["", "cancel", "leave"] = ""
    upload: Literal["", "image", "file"] = ""
    before: Literal["", "retire", "full-disk"] = ""
    expect: Expect = Expect()


@dataclass(frozen=True)
class Together:
    """Runs of one app at the same time, each for a session of its own."""

    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Seed:
    """An entry that is served before the first run; a labelled one was accepted from a marked session."""

    path: str
    content: str
    labelled: bool = False
    description: str = "What the scenario begins with"


@dataclass(frozen=True)
class Scenario:
    """One story for one id, played in every mode; needs are capabilities of a driver."""

    id: str
    title: str
    runs: tuple[Run | Together, ...]
    agents: tuple[Agent, ...] = (Agent(),)
    tools: tuple[Tool, ...] = ()
    seeds: tuple[Seed, ...] = ()
    needs: frozenset[str] = frozenset()
    modes: Literal["", "sync", "async", "stream"] = ""
    hooks: bool = False
    bound: bool = False
    check: str = ""


def memory_write(
    path: str,
    id: str,
    *,
    scope: str = "assigned",
    content: object = "The code is 7-7-7.",
    **more: Any,
) -> Call:
    """Return a call that proposes an entry."""
    arguments = {"scope": scope, "path": path, "content": content, "description": "A fact"}
    return Call("memory_write", {**arguments, "expected_version": None, **more}, id)


def memory_read(path: str, id: str, scope: str = "assigned") -> Call:
    """Return a call that reads an entry."""
    return Call("memory_read", {"scope": scope, "path": path}, id)


def use(tool: str, id: str) -> Call:
    """Return a call of one of the app's own tools, by the name that the model knows."""
    return Call(tool, {"query": "the billing code"}, id)


def say(*calls: Call) -> Turn:
    """Return one turn of the model with these calls, which the framework may run in parallel."""
    return Turn(calls)
