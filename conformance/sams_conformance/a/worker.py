"""Play one step of a scenario in a process of its own, for a driver that is named, not passed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sams_conformance.a.catalog import scenarios
from sams_conformance.a.play import Stage
from sams_conformance.driver import load_callable


def main(driver: str, title: str, step: str, mode: str, folder: str) -> None:
    """Play step number `step` and print what was observed, as JSON on the last line."""
    (scenario,) = [s for s in scenarios() if f"{s.id} {s.title}" == title]
    stage = Stage(load_callable(driver)(), scenario, Path(folder))
    try:
        seen = stage.play(scenario.runs[int(step)], mode)
    finally:
        stage.close()
    print(json.dumps([each.to_dict() for each in seen], default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
