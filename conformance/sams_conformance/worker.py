"""Another process: opens the store by its factory's name and obeys JSON lines on standard input.

Run as `python -m sams_conformance.worker package.module:factory location`. One request a line, one
answer a line, `{"ok": ...}` or `{"error": {...}}`:

* `{"open": "agent" | "owner" | "dreamer", "as": name, "container": ..., "with": {...}}`
* `{"child": agent, "on": name, "as": name}`
* `{"call": method, "on": name, "args": [...], "with": {...}}`
* `{"get": attribute, "on": name}`
* `{"batch": [request, ...]}` answers with the list of the answers
* `{"count": method, "on": name, "args": [scope, path], "times": n}`: adds 1 to a note n times
"""

from __future__ import annotations

import json
import sys
from typing import Any

from sams_conformance import support
from sams_conformance.driver import Subject, load_factory
from sams_core.errors import NotFound, SamsError, VersionConflict


def plain(value: Any) -> Any:
    """Return a result as JSON-ready data: records as their dicts."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def count_up(session: Any, scope: str, path: str, times: int) -> int:
    """Add 1 to the number in a note `times` times, reading again after each conflict."""
    conflicts = 0
    for _ in range(times):
        while True:
            try:
                note = session.memory_read(scope, path)
                number, version = int(note.content), note.version
            except NotFound:
                number, version = 0, None
            try:
                session.memory_write(scope, path, str(number + 1), "a counter", version)
                break
            except VersionConflict:
                conflicts += 1
    return conflicts


class Worker:
    """The objects that one process has opened, by name."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.objects: dict[str, Any] = {}

    def do(self, request: dict[str, Any]) -> Any:
        """Carry out one request; raises what the store raises."""
        if "batch" in request:
            return [self.answer(one) for one in request["batch"]]
        if "open" in request:
            self.objects[request["as"]] = self._open(request)
            return None
        target = self.objects[request["on"]]
        if "child" in request:
            self.objects[request["as"]] = target.child(request["child"])
            return None
        if "get" in request:
            return plain(getattr(target, request["get"]))
        if "count" in request:
            scope, path = request["args"]
            return count_up(target, scope, path, request["times"])
        method = getattr(target, request["call"])
        return plain(method(*request.get("args", ()), **request.get("with", {})))

    def _open(self, request: dict[str, Any]) -> Any:
        container, more = request["container"], request.get("with", {})
        if request["open"] == "agent":
            return support.agent(self.subject, assigned=container, **more)
        if request["open"] == "owner":
            return support.owner(self.subject, container, **more)
        return support.dreamer(self.subject, container, **more)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request and return its answer; nothing is raised."""
        try:
            return {"ok": self.do(request)}
        except SamsError as refusal:
            return {"error": _described(refusal)}
        except Exception as error:  # the test that asked fails, with this as its reason
            return {"error": {"type": type(error).__name__, "message": str(error)}}


def _described(refusal: SamsError) -> dict[str, Any]:
    numbers = {name: vars(refusal).get(name) for name in ("expected", "found", "what", "limit")}
    name = type(refusal).__name__
    return {"type": name, "rule": refusal.rule, "message": str(refusal), "numbers": numbers}


def main(name: str, location: str) -> None:
    """Serve requests until standard input ends."""
    factory = load_factory(name)
    answers, sys.stdout = sys.stdout, sys.stderr  # a stranger's print must not look like an answer
    with factory(location) as deployment:
        worker = Worker(Subject(deployment, factory))
        for line in sys.stdin:
            answers.write(json.dumps(worker.answer(json.loads(line))) + "\n")
            answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
