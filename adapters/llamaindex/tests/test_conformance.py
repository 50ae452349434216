"""The adapter passes the A-series."""

from __future__ import annotations

import pytest

from sams_conformance import run_adapter


@pytest.mark.parametrize("id", ["A1", "A2", "A6", "A8", "A15", "A18", "A24"])
def test_what_needs_no_second_process(id: str) -> None:
    report = run_adapter("llamaindex", [id])
    assert report.outcomes
    failed = [o for o in report.outcomes if o.status != "passed"]
    assert not failed, report.to_text()


@pytest.mark.slow
def test_the_adapter_conforms() -> None:
    report = run_adapter("llamaindex")
    assert report.passed, report.to_text()
