"""All scenarios of the A-series, by theme; `scenarios()` returns them in the order of their ids."""

from __future__ import annotations

from sams_conformance.a.catalog import elsewhere, families, lives, marks, memory
from sams_conformance.a.scenario import Scenario


def scenarios() -> list[Scenario]:
    """Return every scenario, by id; no two have one id and title."""
    found = [
        scenario
        for module in (memory, marks, elsewhere, families, lives)
        for scenario in module.SCENARIOS
    ]
    return sorted(found, key=lambda scenario: int(scenario.id[1:]))
