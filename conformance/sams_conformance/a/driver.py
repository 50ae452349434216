"""What an adapter's author supplies: a driver that builds native agents and runs them in every mode.

A driver translates and decides nothing. The kit makes the tools' functions, the sessions and the
script of the model, plays a scenario, and looks into the store by itself; from the driver it gets
the final text of a run, what the framework raised, and what the scripted model was shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from sams_conformance.a.scenario import Agent, Block, Tool, Turn
from sams_core import AgentSession


@dataclass(frozen=True)
class Message:
    """One message as the model was shown it: the role, and its text (a call's result, JSON, ...)."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    call_id: str | None = None


@dataclass(frozen=True)
class Seen:
    """What one request showed the model: its messages in order, and the tools on offer.

    A tool is `{"name": ..., "description": ..., "parameters": <JSON Schema>, "strict": bool}` as it
    would go over the wire; a hosted one has no parameters.
    """

    agent: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()


class ScriptEnded(Exception):
    """The scripted model was asked once more than its script says."""


@dataclass
class Script:
    """What the model says in one run, by agent, and what it was shown."""

    turns: dict[str, list[Turn]]
    session: str = ""
    seen: list[Seen] = field(default_factory=list)

    def next(self, seen: Seen) -> Turn:
        """Record what the model is shown and return its answer."""
        self.seen.append(seen)
        left = self.turns.get(seen.agent, [])
        if not left:
            raise ScriptEnded(seen.agent)
        return left.pop(0)


speaking: ContextVar[Script] = ContextVar("sams_conformance_script")
"""The script of the run that is at work; one agent object serves many runs at the same time."""


def answer(seen: Seen) -> Turn:
    """Return what the scripted model of this run says next; a driver's model calls this."""
    return speaking.get().next(seen)


@dataclass(frozen=True)
class LiveTool:
    """A tool of the scenario with its plain function, which takes one string, `query`.

    The driver makes the framework's own tool of it, by `spec.kind`: a function tool named
    `spec.called`; a retriever whose one document is `spec.returns`, behind the framework's retriever
    tool (the function is then called by the retriever, so that the kit sees the body run); an agent
    as a tool; a tool of the MCP server `python -m sams_conformance.a.mcp_server NAME TEXT`.
    """

    spec: Tool
    function: Callable[..., Any]


@dataclass(frozen=True)
class Cast:
    """What one app is made of. The first agent is the one that runs.

    `bound` is the session that `govern` (or the native slot) gets by reference, if any. What is
    trusted: each tool with `spec.trust`, whether or not an agent has it: "function" means the plain
    function, "object" the native object that the agents get. `heard` is for scenarios with hooks: the
    driver registers the user's own hooks (callbacks, middleware, handlers) in the framework's idiom
    and reports each event with what it was given, reduced to stable text.
    """

    agents: tuple[Agent, ...]
    tools: Mapping[str, LiveTool]
    bound: AgentSession | None = None
    heard: Callable[[str], None] | None = None
    folder: Path = Path()

    def tool(self, key: str) -> LiveTool:
        """Return a tool by its key."""
        return self.tools[key]


@dataclass(frozen=True)
class Go:
    """One run of an app.

    `mode` is one of the driver's. With `block` "governed" the driver opens `with governed(session)`
    around the run (through the native slot alone where that opens it by itself); "active" opens
    `session.active()` only; "none" opens nothing; then the native slots are left out too.
    `inside` is another session: the run is enclosed by `with govern()(inside)`, and the app is bound.
    `thread` names a conversation to keep (in `Cast.folder`) and to go on with. `pause`, `resume`: see
    `Run`. `leave` asks to close a stream after its first event. `upload`: see `Run`.
    """

    mode: str
    message: str
    session: AgentSession | None
    block: Block = "governed"
    inside: AgentSession | None = None
    thread: str = ""
    pause: str = ""
    resume: bool = False
    leave: bool = False
    upload: str = ""


class App(Protocol):
    """One agent object of the framework with its governance, built once, run many times at once."""

    def run(self, go: Go) -> str:
        """Run to the end in a sync mode and return the final text; raise what the framework raises."""
        ...

    async def arun(self, go: Go) -> str:
        """Run to the end in an async mode."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call the native tool of that name directly, outside of any agent's loop."""
        ...

    def native(self, key: str) -> object:
        """Return the native tool (or the native retriever itself) of a tool's key."""
        ...

    def describe(self, native: object) -> dict[str, Any]:
        """Return name, description and schema of a native tool, or what it has of these."""
        ...

    async def use(self, native: object, query: str, mode: Literal["sync", "async"]) -> str:
        """Call a native tool or retriever by its public sync or async way in; return its text."""
        ...


class Driver(Protocol):
    """An adapter's side of the A-series.

    `modes` are the ways in which the framework runs an agent, each sync or async: `{"invoke":
    "sync", "ainvoke": "async", "stream": "sync"}`; a mode whose name contains "stream" streams.
    `capabilities` name what else it can: see `sams_conformance.a.ids.NEEDS`.
    """

    @property
    def name(self) -> str:
        """The adapter's word, such as `langchain`."""
        ...

    @property
    def modes(self) -> Mapping[str, Literal["sync", "async"]]:
        """The framework's ways to run an agent."""
        ...

    @property
    def capabilities(self) -> frozenset[str]:
        """What scenarios may need of it."""
        ...

    def build(self, cast: Cast) -> App:
        """Build the agents and what governs them."""
        ...


def text_of(value: object) -> str:
    """Return JSON of what a framework shows a model, for `Message.text`."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
