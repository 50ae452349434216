"""What marking costs: a source is written down once, and never again by the same process."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from sams_conformance.a.play import Stage
from sams_conformance.a.runner import driver_name
from sams_conformance.a.scenario import DONE, Agent, Expect, Run, Scenario, Tool, say, use
from sams_conformance.driver import load_callable

WORDS = sorted(each.name for each in entry_points(group="sams.adapters"))
TURNS = tuple(
    say(*(use(name, f"{name}{number}") for name in ("fetch", "other"))) for number in range(6)
)


@pytest.mark.filterwarnings("ignore")  # of the frameworks about themselves
@pytest.mark.parametrize("word", WORDS)
def test_a_source_is_recorded_once_however_often_it_is_read(word: str, tmp_path: Path) -> None:
    driver = load_callable(driver_name(word))()
    run = Run((*TURNS, DONE), expect=Expect())
    story = Scenario(
        "A3",
        "costs",
        (run,),
        agents=(Agent(tools=("fetch", "other")),),
        tools=(Tool("fetch"), Tool("other", form="sync")),
    )
    for mode in driver.modes:
        stage = Stage(driver, story, tmp_path / mode)
        recorded: list[list[str]] = []
        real = stage.backend.add_sources

        def counted(container: str, family: str, sources: Any) -> Any:
            recorded.append([source.name.partition(":")[0] for source in sources])  # noqa: B023
            return real(container, family, sources)  # noqa: B023

        stage.backend.add_sources = counted  # type: ignore[method-assign]
        (seen,) = stage.play(run, mode)
        assert seen.final == "done", (mode, seen.detail)
        assert len(seen.bodies) == 12
        assert sorted(name for call in recorded for name in call) == ["fetch", "other"], mode
        (again,) = stage.play(run, mode)  # the next request of the session: nothing at all
        assert again.final == "done"
        assert len(recorded) <= 2, mode
        stage.close()
