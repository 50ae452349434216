"""The runner fails closed, and each broken rule is caught by the id that stands for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sams_conformance import Report, driver, run
from sams_conformance.driver import Deployment, Subject, load_factory, name_of
from sams_conformance.factories import Simple, memory, sqlite
from sams_conformance.ids import MANDATORY, TITLES
from sams_conformance.report import Outcome
from sams_conformance.runner import Case, collect
from sams_core import MemoryBackend


def passing(deployment: Subject) -> None:
    assert deployment.backend("agent", "org")


def failing(deployment: Subject) -> None:
    raise AssertionError("\x1b[2K broken \u202e")


def leaving(deployment: Subject) -> None:
    raise SystemExit(0)


def case(id: str, test: Any, *, durable: bool = False) -> Case:
    return Case(id, f"test_{test.__name__}", "a rule", test, durable)


def every(test: Any = passing, **more: Any) -> list[Case]:
    return [case(id, test, **more) for id in MANDATORY]


def test_every_mandatory_id_has_tests_with_a_rule_and_a_name_of_its_own() -> None:
    cases = collect()
    assert {one.id for one in cases} == set(MANDATORY)
    assert len({(one.id, one.name) for one in cases}) == len(cases)
    assert not [one.name for one in cases if not one.rule.endswith((".", "?"))]
    assert all(sum(one.id == id for one in cases) >= 5 for id in MANDATORY)


def test_ids_come_in_order_and_are_the_mandatory_ones_by_default() -> None:
    report = run(memory, cases=every())
    assert report.ids == MANDATORY
    assert report.conformant
    assert list(report.to_dict()["ids"]) == list(TITLES)


def test_an_id_without_tests_fails() -> None:
    report = run(memory, cases=every()[:-1])
    assert not report.conformant
    assert not report.proved(MANDATORY[-1])
    assert report.count("failed", MANDATORY[-1]) == 1


def test_no_tests_at_all_is_no_conformance() -> None:
    assert not run(memory, cases=[]).conformant
    assert not run(memory, [], cases=every()).passed
    assert not Report("0", "x", (), ()).conformant
    assert not Report("0", "x", MANDATORY, ()).conformant


def test_an_id_whose_tests_are_all_not_applicable_fails() -> None:
    report = run(memory, cases=[*every()[1:], case("C1", passing, durable=True)])
    assert not report.conformant
    assert report.count("not applicable", "C1") == 1
    assert report.count("passed", "C1") == 0
    assert report.count("failed", "C1") == 1


def test_what_isnt_applicable_is_listed_and_never_passed() -> None:
    report = run(memory, cases=[*every(), case("C1", leaving, durable=True)])
    assert report.conformant
    assert report.count("passed") == len(MANDATORY)
    assert (
        "not applicable:\n  the store ends with its process:\n      C1 leaving" in report.to_text()
    )


def test_an_unknown_id_is_an_error() -> None:
    for ids in (["C99"], ["C1", "c1"], [""]):
        with pytest.raises(ValueError, match="unknown ids"):
            run(memory, ids, cases=every())


def test_a_part_of_the_ids_can_pass_and_is_not_conformance() -> None:
    report = run(memory, ["C1"], cases=every())
    assert report.passed
    assert not report.conformant
    assert "C2" in report.to_dict()["missing"]
    assert "not asked for: C2" in report.to_text()


@pytest.mark.parametrize("failure", [ValueError, SystemExit, GeneratorExit])
def test_a_crash_of_the_factory_is_a_failure_of_every_test(failure: type[BaseException]) -> None:
    def crashing(location: str) -> Any:
        raise failure("no database")

    report = run(crashing, cases=every())
    assert report.count("failed") == len(MANDATORY)
    assert not report.passed


def test_a_crash_when_the_deployment_is_closed_is_a_failure() -> None:
    @contextmanager
    def leaking(location: str) -> Iterator[Deployment]:
        yield Simple(location, MemoryBackend, durable=False)
        raise OSError("not closed")

    assert run(leaking, cases=every()).count("failed") == len(MANDATORY)


def test_a_deployment_that_swallows_failures_doesnt_pass() -> None:
    class Swallowing:
        def __init__(self, location: str) -> None:
            self.deployment = Simple(location, MemoryBackend, durable=False)

        def __enter__(self) -> Deployment:
            return self.deployment

        def __exit__(self, *exception: object) -> bool:
            return True

    report = run(Swallowing, cases=every(failing))
    assert report.count("failed") == len(MANDATORY)


@pytest.mark.parametrize("durable", [None, 1, "no"])
def test_a_deployment_that_doesnt_say_whether_it_is_durable_fails(durable: Any) -> None:
    @contextmanager
    def vague(location: str) -> Iterator[Deployment]:
        yield Simple(location, MemoryBackend, durable=durable)

    assert run(vague, cases=every()).count("failed") == len(MANDATORY)


def test_a_test_that_leaves_the_interpreter_is_a_failure() -> None:
    assert run(memory, cases=every(leaving)).count("failed") == len(MANDATORY)


def test_an_interrupt_is_passed_on() -> None:
    def interrupting(deployment: Subject) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(memory, cases=every(interrupting))


def test_every_test_gets_a_location_of_its_own_that_is_removed() -> None:
    seen: list[Path] = []

    @contextmanager
    def noting(location: str) -> Iterator[Deployment]:
        path = Path(location)
        assert path.is_absolute()
        assert not path.exists()
        assert path.parent.exists()
        path.mkdir()
        seen.append(path)
        yield Simple(location, MemoryBackend, durable=False)

    report = run(noting, cases=[*every(), *every()])
    assert report.count("failed") == 0
    assert len(set(seen)) == 2 * len(MANDATORY)
    assert not any(path.parent.exists() for path in seen)


def test_a_durable_store_whose_factory_has_no_name_fails_the_tests_that_reopen_it() -> None:
    @contextmanager
    def local(location: str) -> Iterator[Deployment]:
        with sqlite(location) as deployment:
            yield deployment

    def needs_name(deployment: Subject) -> None:
        assert deployment.factory_name

    assert name_of(local) is None
    assert name_of(sqlite) == "sams_conformance.factories:sqlite"
    report = run(local, ["C1"], cases=[case("C1", needs_name, durable=True)])
    assert report.count("failed") == 1
    assert "importable" in report.to_text()


def test_factories_are_loaded_by_name() -> None:
    assert load_factory("sams_conformance.factories:memory") is memory
    for name in ("", "memory", ":memory", "x:", "no.such:thing", "sams_conformance.factories:no"):
        with pytest.raises(ValueError, match="factory"):
            load_factory(name)
    with pytest.raises(ValueError, match="callable"):
        load_factory("sams_conformance.ids:MANDATORY")
    report = run("sams_conformance.factories:memory", ["C1"], cases=every())
    assert report.backend == "sams_conformance.factories:memory"


def test_the_report_is_json_and_text_that_acts_on_no_terminal() -> None:
    report = run(memory, cases=[*every()[1:], case("C1", failing)])
    data = json.loads(json.dumps(report.to_dict()))
    assert data["conformant"] is False
    assert data["ids"]["C1"]["failed"] == 1
    assert data["ids"]["C2"]["passed"] == 1
    assert {"version", "backend", "ids", "seconds", "tests"} <= set(data)
    for text in (report.to_text(), data["tests"][0]["detail"]):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "FAIL C1" in report.to_text()
    assert report.to_text().splitlines()[-1].startswith("NOT CONFORMANT")


def test_each_outcome_is_told_as_it_happens() -> None:
    heard: list[Outcome] = []
    report = run(memory, cases=every(), on_outcome=heard.append)
    assert tuple(heard) == report.outcomes


def test_a_failure_shows_where_it_happened_and_stays_short() -> None:
    def long(deployment: Subject) -> None:
        raise AssertionError("x" * 100_000)

    (outcome, *_) = run(memory, ["C1"], cases=[case("C1", long)]).outcomes
    assert isinstance(outcome, Outcome)
    assert "test_runner.py" in outcome.detail
    assert len(outcome.detail) < 2_000


def test_a_deployment_may_bring_a_harness_of_its_own() -> None:
    class Mine:
        def __init__(self, backend: Any, **given: Any) -> None:
            self.given = given

    deployment: Any = Simple("x", MemoryBackend, durable=False)
    assert Subject(deployment, memory).harness("AgentSession") is driver.sams_core.AgentSession
    deployment.AgentSession = Mine
    assert Subject(deployment, memory).harness("AgentSession") is Mine
