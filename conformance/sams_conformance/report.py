"""What a run found, as data and as text; conformant only where every mandatory id was proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sams_conformance.ids import MANDATORY, TITLES
from sams_core.visible import visible, visible_line

Status = Literal["passed", "failed", "not applicable"]


@dataclass(frozen=True)
class Outcome:
    """One test's end. `rule` is its docstring, `detail` the short traceback of a failure."""

    id: str
    name: str
    rule: str
    status: Status
    seconds: float
    detail: str = ""


@dataclass(frozen=True)
class Report:
    """The outcomes of one run against one backend, for the ids that were asked for."""

    version: str
    backend: str
    ids: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    titles: Mapping[str, str] = field(default_factory=lambda: TITLES)
    mandatory: tuple[str, ...] = MANDATORY

    def count(self, status: Status, id: str | None = None) -> int:
        """Count the outcomes of one status, of one id or of all."""
        return sum(o.status == status for o in self.outcomes if id in (None, o.id))

    def names(self, status: Status) -> set[str]:
        """Return the names of the tests with this status."""
        return {o.name for o in self.outcomes if o.status == status}

    def proved(self, id: str) -> bool:
        """Tell whether at least one test of `id` ran, and all that ran passed."""
        return self.count("passed", id) > 0 and self.count("failed", id) == 0

    @property
    def passed(self) -> bool:
        """Whether every id that was asked for is proved; nothing asked for proves nothing.

        An id that isn't mandatory here, and of which nothing applies, is left out.
        """
        asked = [id for id in self.ids if id in self.mandatory or self.count("passed", id)]
        return bool(asked) and all(map(self.proved, asked)) and not self.count("failed")

    @property
    def conformant(self) -> bool:
        """Whether every mandatory id was asked for and proved."""
        return self.passed and all(map(self.proved, self.mandatory))

    @property
    def seconds(self) -> float:
        """The time that the tests took, opening and closing of their stores included."""
        return sum(o.seconds for o in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready data."""
        return {
            "version": self.version,
            "backend": self.backend,
            "conformant": self.conformant,
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "ids": {
                id: {
                    "title": self.titles.get(id, ""),
                    "mandatory": id in self.mandatory,
                    "proved": self.proved(id),
                    "passed": self.count("passed", id),
                    "failed": self.count("failed", id),
                    "not_applicable": self.count("not applicable", id),
                    "seconds": round(sum(o.seconds for o in self.outcomes if o.id == id), 3),
                }
                for id in self.ids
            },
            "missing": [id for id in self.mandatory if id not in self.ids],
            "tests": [
                {
                    "id": o.id,
                    "name": o.name,
                    "rule": o.rule,
                    "status": o.status,
                    "seconds": round(o.seconds, 3),
                    "detail": visible(o.detail),
                }
                for o in self.outcomes
            ],
        }

    def to_text(self) -> str:
        """Return the report for a person: a line an id, then what failed and what wasn't run."""
        lines = [f"conformance of {visible_line(self.backend)} (sams-adapters {self.version})", ""]
        for id in self.ids:
            passed, failed, skipped = (
                self.count("passed", id),
                self.count("failed", id),
                self.count("not applicable", id),
            )
            mark = "ok  " if self.proved(id) else "FAIL"
            if not passed and not failed and id not in self.mandatory:
                mark = "none"  # nothing of it applies here, and nothing of it is claimed
            counts = f"{passed} passed, {failed} failed, {skipped} not applicable"
            lines.append(f"{mark} {id:<4} {self.titles.get(id, '')}: {counts}")
        broken = [o for o in self.outcomes if o.status == "failed"]
        if broken:
            lines += ["", "failed:"]
        for o in broken:
            lines.append(f"  {o.id} {_sentence(o.name)}")
            lines += [f"      {line}" for line in visible(o.detail).splitlines()]
        aside = [o for o in self.outcomes if o.status == "not applicable"]
        if aside:
            lines += ["", "not applicable:"]
        for why in dict.fromkeys(o.detail for o in aside):
            lines.append(f"  {visible_line(why)}:")
            lines += [f"      {o.id} {_sentence(o.name)}" for o in aside if o.detail == why]
        missing = [id for id in self.mandatory if id not in self.ids]
        if missing:
            lines += ["", f"not asked for: {', '.join(missing)}"]
        lines += ["", f"{self._verdict()} in {self.seconds:.1f} s"]
        return "\n".join(lines)

    def _verdict(self) -> str:
        counts = f"{self.count('passed')} of {len(self.outcomes)} tests passed"
        if self.conformant:
            return f"CONFORMANT: {counts}"
        if self.passed:
            return f"passed what was asked for, which is not all that is mandatory: {counts}"
        return f"NOT CONFORMANT: {counts}"


def _sentence(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")
