"""Play one run of a scenario through a driver, and observe what only the store and the script know."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sams_conformance.a.driver import (
    App,
    Cast,
    Driver,
    Go,
    LiveTool,
    Message,
    Script,
    Seen,
    speaking,
)
from sams_conformance.a.scenario import Run, Scenario, Together, Tool
from sams_core import AgentSession, Owner, SamsError, SQLiteBackend

ASSIGNED = "tenant:acme-7"
AGENT = "conformance-agent"
_DEADLINE = 60.0  # seconds; a run that hangs fails instead of stopping the kit


@dataclass
class Observed:
    """What one run showed: to the model, to the tools' bodies, and to its caller."""

    seen: list[Seen] = field(default_factory=list)
    unsaid: int = 0
    final: str | None = None
    raised: str | None = None  # the rule of a SamsError, else the type's name
    detail: str = ""
    bodies: list[tuple[str, bool]] = field(default_factory=list)  # key, marked when it began
    heard: list[str] = field(default_factory=list)
    block: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data, for another process."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Observed:
        """Read what `to_dict` returned."""
        seen = [
            Seen(s["agent"], tuple(Message(**m) for m in s["messages"]), tuple(s["tools"]))
            for s in data["seen"]
        ]
        bodies = [(key, marked) for key, marked in data["bodies"]]
        return cls(**{**data, "seen": seen, "bodies": bodies})

    def result(self, call_id: str) -> str | None:
        """Return what the model was shown as the result of a call, the last time it was."""
        found = [m.text for s in self.seen for m in s.messages if m.call_id == call_id]
        return found[-1] if found else None

    @property
    def shown(self) -> str:
        """Everything that the model was shown, in one text."""
        return "\n".join(m.text for s in self.seen for m in s.messages)


class Stage:
    """One scenario's store, app and sessions, in this process."""

    def __init__(self, driver: Driver, scenario: Scenario, folder: Path) -> None:
        self.driver, self.scenario, self.folder = driver, scenario, folder
        self.backend = SQLiteBackend(str(folder / "store"))
        self._sessions: dict[str, AgentSession] = {}
        self._bodies: dict[str, list[tuple[str, bool]]] = {}  # by session
        self._waiting = threading.Event()
        self._heard: list[str] = []
        self._app: App | None = None

    def close(self) -> None:
        """Close the store."""
        self.backend.close()

    def seed(self) -> None:
        """Serve the scenario's entries, the labelled ones by accepting a marked session's change."""
        owner = Owner(self.backend, "olga")
        for seed in self.scenario.seeds:
            if not seed.labelled:
                owner.write(ASSIGNED, seed.path, seed.content, seed.description)
                continue
            writer = self._open("seed")
            writer.mark_tainted("a page")
            writer.memory_write("assigned", seed.path, seed.content, seed.description)
            (change,) = owner.changes(ASSIGNED)
            owner.accept(ASSIGNED, change.id, change.digest)

    def session(self, name: str) -> AgentSession:
        """Return the session of that name, opened once a process."""
        if name not in self._sessions:
            self._sessions[name] = self._open(name)
        return self._sessions[name]

    def _open(self, name: str) -> AgentSession:
        return AgentSession(
            self.backend, session_id=name, agent=AGENT, assigned=ASSIGNED, user="insider"
        )

    @property
    def app(self) -> App:
        """The app, built once in a process."""
        if self._app is None:
            tools = {t.key: LiveTool(t, self._function(t)) for t in self.scenario.tools}
            self._app = self.driver.build(
                Cast(
                    self.scenario.agents,
                    tools,
                    self.session("s1") if self.scenario.bound else None,
                    self._heard.append if self.scenario.hooks else None,
                    self.folder,
                )
            )
        return self._app

    def app_tools(self) -> list[str]:
        """Return the keys of the scenario's tools."""
        return [tool.key for tool in self.scenario.tools]

    def tool(self, key: str) -> Tool:
        """Return a tool of the scenario."""
        return next(tool for tool in self.scenario.tools if tool.key == key)

    # Running.

    def play(self, step: Run | Together, mode: str) -> list[Observed]:
        """Run one step; several runs at once are threads, or tasks of one loop."""
        runs = step.runs if isinstance(step, Together) else (step,)
        for run in runs:
            if run.before == "retire":
                Owner(self.backend, "olga").retire(ASSIGNED, self.scenario.seeds[0].path)
        try:
            app = self.app  # built before any run, and before a disk is full
        except SamsError as error:  # an agent that may not even be built
            seen = Observed()
            _raised(seen, error)
            return [seen for _ in runs]
        for run in runs:
            self.session(run.inside or run.session)
            self.session(run.session)
        full = any(run.before == "full-disk" for run in runs)
        with no_room() if full else contextlib.nullcontext():
            if self.driver.modes[mode] == "async":
                return asyncio.run(self._tasks(app, runs, mode))
            return self._threads(app, runs, mode)

    async def _tasks(self, app: App, runs: tuple[Run, ...], mode: str) -> list[Observed]:
        async def one(run: Run) -> Observed:
            seen, script, go = self._start(run, mode)
            speaking.set(script)  # in this task's own context
            task = asyncio.ensure_future(app.arun(go))
            try:
                if run.stop == "cancel":
                    # the tool may wait in another loop, which no asyncio.Event reaches
                    while not self._waiting.is_set() and not task.done():  # noqa: ASYNC110
                        await asyncio.sleep(0.005)
                    task.cancel()
                seen.final = await asyncio.wait_for(task, _DEADLINE)
            except BaseException as error:
                _raised(seen, error)
            return self._finish(seen, script, run)

        return list(await asyncio.gather(*(asyncio.ensure_future(one(run)) for run in runs)))

    def _threads(self, app: App, runs: tuple[Run, ...], mode: str) -> list[Observed]:
        done: dict[int, Observed] = {}

        def one(number: int, run: Run) -> None:
            seen, script, go = self._start(run, mode)
            speaking.set(script)  # a new thread has a context of its own
            try:
                seen.final = app.run(go)
            except BaseException as error:
                _raised(seen, error)
            done[number] = self._finish(seen, script, run)

        threads = [threading.Thread(target=one, args=each, daemon=True) for each in enumerate(runs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_DEADLINE)
        hung = Observed(raised="hung", detail=f"no end after {_DEADLINE:.0f} s")
        return [done.get(number, hung) for number in range(len(runs))]

    def _start(self, run: Run, mode: str) -> tuple[Observed, Script, Go]:
        self._waiting.clear()
        first = self.scenario.agents[0].name
        turns = {first: list(run.turns), **{name: list(t) for name, t in run.others.items()}}
        none = run.block == "none"
        go = Go(
            mode,
            run.message,
            None if none else self.session(run.session),
            run.block,
            self.session(run.inside) if run.inside else None,
            run.thread,
            run.pause,
            run.resume,
            run.stop == "leave",
            run.upload,
        )
        self._bodies[run.session] = []
        self._heard.clear()
        return Observed(), Script(turns, run.session), go

    def _finish(self, seen: Observed, script: Script, run: Run) -> Observed:
        seen.seen = script.seen
        seen.unsaid = sum(map(len, script.turns.values()))
        seen.bodies = list(self._bodies[run.session])
        seen.heard = list(self._heard)
        with contextlib.suppress(SamsError):
            seen.block = self.session(run.session).context_block()
        return seen

    # The tools' bodies.

    def _function(self, tool: Tool) -> Callable[..., Any]:
        def began() -> None:
            script = speaking.get(None)  # the kit's own, so it says whose run this is
            name = script.session if script is not None else ""
            session = self._sessions.get(name)
            self._bodies.setdefault(name, []).append((tool.key, bool(session and session.tainted)))

        def ended() -> str:
            if tool.does == "raise":
                raise RuntimeError(tool.returns)
            if tool.does == "thread":
                return self._from_a_thread()
            return tool.returns

        function: Callable[..., Any]
        if tool.form == "sync":

            def function(query: str) -> str:
                began()
                return ended()

        else:

            async def function(query: str) -> str:
                began()
                if tool.does == "wait":
                    self._waiting.set()
                    await asyncio.sleep(_DEADLINE)
                if tool.calls:
                    return await self.app.use(self.app.native(tool.calls), query, "async")
                return ended()

        function.__name__ = function.__qualname__ = tool.called.replace("-", "_")
        function.__doc__ = f"Look something up with {tool.called}."
        return function

    def _from_a_thread(self) -> str:
        """Call memory_write natively from a bare thread, which carries no context."""
        answers: list[str] = []
        arguments = {
            "scope": "assigned",
            "path": "from/a-thread",
            "content": "x",
            "description": "x",
            "expected_version": None,
        }

        def work() -> None:
            try:
                answers.append(asyncio.run(self.app.call("memory_write", arguments)))
            except BaseException as error:
                answers.append(repr(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(_DEADLINE)
        return "".join(answers)


def _raised(seen: Observed, error: BaseException) -> None:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, SamsError):
        cause = cause.__cause__ or cause.__context__
    seen.raised = cause.rule if isinstance(cause, SamsError) else type(error).__name__
    seen.detail = f"{type(error).__name__}: {error}"[:500]


@contextlib.contextmanager
def no_room() -> Iterator[None]:
    """Let no file of this process grow or be written, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
