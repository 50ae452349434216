"""This side of the worker: other processes' sessions, used almost like one's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Any

import sams_core.errors
from sams_conformance.driver import Subject
from sams_conformance.support import ACME

PATIENCE = 300.0
"""Seconds after which a process that doesn't answer is killed, so that a hang fails."""


class Failed(AssertionError):
    """Another process raised something that is no refusal, or ended."""


class Process:
    """One subprocess that has the store open."""

    def __init__(self, popen: subprocess.Popen[str], stdin: IO[str], stdout: IO[str]) -> None:
        self._popen, self._in, self._out = popen, stdin, stdout
        self._names = 0

    def send(self, request: dict[str, Any]) -> None:
        """Send a request without waiting for its answer."""
        self._in.write(json.dumps(request) + "\n")
        self._in.flush()

    def receive(self) -> dict[str, Any]:
        """Return the next answer, raw."""
        line = self._out.readline()
        if not line:
            raise Failed("the other process ended; its standard error says why")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, request: dict[str, Any]) -> Any:
        """Send a request and return what it returned; a refusal there is raised here."""
        self.send(request)
        return result(self.receive())

    def _named(self, request: dict[str, Any]) -> Remote:
        self._names += 1
        name = f"o{self._names}"
        self.ask(request | {"as": name})
        return Remote(self, name)

    def agent(self, session_id: str = "s-1", *, assigned: str = ACME, **more: Any) -> Remote:
        """Open a session there; the same declarations as `support.agent`."""
        more["session_id"] = session_id
        return self._named({"open": "agent", "container": assigned, "with": more})

    def owner(self, scope: str = ACME, **more: Any) -> Remote:
        """Open an owner there."""
        return self._named({"open": "owner", "container": scope, "with": more})

    def dreamer(self, scope: str = ACME, **more: Any) -> Remote:
        """Open a dreaming job there."""
        return self._named({"open": "dreamer", "container": scope, "with": more})


class Remote:
    """A session, an owner or a job in another process; results are plain data."""

    def __init__(self, process: Process, name: str) -> None:
        self.process, self.name = process, name

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method there."""
        return self.process.ask(self.request(method, *args, **kwargs))

    def request(self, method: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the request of a call, for `Process.send` or a batch."""
        return {"call": method, "on": self.name, "args": args, "with": kwargs}

    def get(self, attribute: str) -> Any:
        """Return an attribute."""
        return self.process.ask({"get": attribute, "on": self.name})

    def child(self, agent: str) -> Remote:
        """Open a child there."""
        return self.process._named({"child": agent, "on": self.name})


def result(answer: dict[str, Any]) -> Any:
    """Return what an answer holds, or raise the refusal that it describes."""
    if "error" not in answer:
        return answer["ok"]
    found = answer["error"]
    kind = getattr(sams_core.errors, found["type"], None)
    if kind is None or not issubclass(kind, sams_core.errors.SamsError):
        raise Failed(f"{found['type']} in another process: {found['message']}")
    refusal = kind.__new__(kind)
    Exception.__init__(refusal, found["message"])
    vars(refusal).update(found["numbers"], rule=found["rule"])
    raise refusal


@contextmanager
def process(subject: Subject) -> Iterator[Process]:
    """Start a process that has the subject's store open; it ends with the block."""
    command = [sys.executable, "-P", "-m", "sams_conformance.worker"]
    environment = {k: v for k, v in os.environ.items() if k != "SAMS_SESSION"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [*command, subject.factory_name, subject.location],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment,
    ) as popen:
        assert popen.stdin is not None
        assert popen.stdout is not None
        watch = threading.Timer(PATIENCE, popen.kill)
        watch.start()
        try:
            yield Process(popen, popen.stdin, popen.stdout)
            popen.stdin.close()
            assert popen.wait() == 0, "the other process ended with an error"
        finally:
            watch.cancel()
            popen.kill()


@contextmanager
def processes(subject: Subject, count: int) -> Iterator[list[Process]]:
    """Start several processes on one store."""
    with ExitStack() as stack:
        yield [stack.enter_context(process(subject)) for _ in range(count)]


def at_once(requests: Sequence[tuple[Process, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Send each process its request before any answer is read; return the raw answers."""
    for there, request in requests:
        there.send(request)
    return [there.receive() for there, _ in requests]


def batch(remote: Remote, calls: Sequence[Callable[[Remote], dict[str, Any]]]) -> dict[str, Any]:
    """Return one request for several calls on a remote object."""
    return {"batch": [call(remote) for call in calls]}
