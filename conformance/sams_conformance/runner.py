"""Collect the tests of each id and run every one on a store of its own; whatever is unclear fails."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sams_conformance.c
from sams_conformance.driver import Factory, Subject, load_factory, name_of
from sams_conformance.ids import MANDATORY
from sams_conformance.report import Outcome, Report, Status

__all__ = ["Case", "collect", "load_factory", "run", "subject"]


@dataclass(frozen=True)
class Case:
    """One test of one id."""

    id: str
    name: str
    rule: str
    test: Callable[[Subject], None]
    needs_durable: bool = False


def collect() -> list[Case]:
    """Return every test, in the order of the ids and of the lines; an id may have several files."""
    cases: list[Case] = []
    for found in sorted(pkgutil.iter_modules(sams_conformance.c.__path__), key=lambda m: m.name):
        number = re.match(r"c(\d\d)_", found.name)
        if number is None:
            continue
        module = importlib.import_module(f"sams_conformance.c.{found.name}")
        for name, test in vars(module).items():
            if name.startswith("test_") and getattr(test, "__module__", "") == module.__name__:
                rule = " ".join((inspect.getdoc(test) or "").split())
                durable = getattr(test, "needs_durable", False)
                cases.append(Case(f"C{int(number[1])}", name, rule, test, durable))
    return cases


@contextmanager
def subject(factory: Factory, location: str) -> Iterator[Subject]:
    """Open a deployment as the tests get it; one that can't say whether it is durable fails."""
    with factory(location) as deployment:
        if not isinstance(deployment.durable, bool):
            raise TypeError("Deployment.durable is True or False")
        yield Subject(deployment, factory)


def run(
    factory: Factory | str,
    ids: Iterable[str] | None = None,
    *,
    cases: list[Case] | None = None,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Report:
    """Run the tests of `ids` (all mandatory ones by default) against the stores of `factory`.

    `factory` may be named as `package.module:factory`; `on_outcome` hears of each test as it ends.
    Raises `ValueError` for an unknown id or a name that can't be loaded. Nothing that a test or a
    store does is raised: it is in the report.
    """
    named = factory if isinstance(factory, str) else name_of(factory)
    opened = load_factory(factory) if isinstance(factory, str) else factory
    chosen = collect() if cases is None else cases
    known = dict.fromkeys([*MANDATORY, *(case.id for case in chosen)])
    wanted = tuple(dict.fromkeys(known if ids is None else ids))
    unknown = [id for id in wanted if id not in known]
    if unknown:
        raise ValueError(f"unknown ids: {', '.join(unknown)}; known are {', '.join(known)}")
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="sams-conformance-") as folder:
        for id in wanted:
            mine = [case for case in chosen if case.id == id]
            for number, case in enumerate(mine):
                location = str(Path(folder, f"{case.id.lower()}-{number:03}"))
                outcomes.append(_run_one(opened, case, location))
                if on_outcome is not None:
                    on_outcome(outcomes[-1])
            if not any(o.id == id and o.status != "not applicable" for o in outcomes):
                outcomes.append(
                    Outcome(id, "test_this_id_has_a_test_that_ran", "", "failed", 0.0, "none ran")
                )
    return Report(version(), named or repr(factory), wanted, tuple(outcomes))


def _run_one(factory: Factory, case: Case, location: str) -> Outcome:
    start = time.perf_counter()
    # Stands unless the test came to its end: a deployment may swallow what the test raises.
    status: Status = "failed"
    detail = "the deployment suppressed an exception"
    try:
        with subject(factory, location) as deployment:
            if case.needs_durable and not deployment.durable:
                status, detail = "not applicable", "the store ends with its process"
            else:
                case.test(deployment)
                status, detail = "passed", ""
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit from a stranger's code is a failure, not our end
        status, detail = "failed", short(error)
    seconds = time.perf_counter() - start
    return Outcome(case.id, case.name, case.rule, status, seconds, detail)


def short(error: BaseException) -> str:
    """Return the innermost calls and the exception; long texts cut."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    where = [f"{Path(f.filename).name}:{f.lineno} {f.name}: {f.line}" for f in frames]
    what = "".join(traceback.format_exception_only(error)).strip()
    return "\n".join([*where, what[:1_000]])


def version() -> str:
    """Return the version of the distribution, or "unknown" in a bare tree."""
    try:
        return importlib.metadata.version("sams-adapters")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
