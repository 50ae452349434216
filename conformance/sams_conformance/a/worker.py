"""Plays steps of scenarios in new processes, for a driver that is named, not passed.

The process imports the driver's module, which may take seconds, and for each line on stdin forks a
child that plays one step and ends: a new process that knows nothing of earlier steps.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from sams_conformance.a.catalog import scenarios
from sams_conformance.a.driver import Driver
from sams_conformance.a.play import Stage
from sams_conformance.driver import load_callable


def play(driver: Driver, title: str, step: int, mode: str, folder: str) -> str:
    """Play step number `step` of a scenario and return what was observed, as JSON."""
    (scenario,) = [s for s in scenarios() if f"{s.id} {s.title}" == title]
    stage = Stage(driver, scenario, Path(folder))
    try:
        seen = stage.play(scenario.runs[step], mode)
    finally:
        stage.close()
    return json.dumps([each.to_dict() for each in seen], default=str)


def main(name: str) -> None:
    """Answer one line of JSON for each line of JSON arguments, until stdin closes."""
    factory = load_callable(name)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a framework prints is no answer
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                answer = play(factory(), *json.loads(line))
            except BaseException:
                answer = json.dumps({"failed": traceback.format_exc()[-2_000:]})
            print(answer, file=answers, flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
