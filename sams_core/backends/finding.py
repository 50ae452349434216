"""What a checkup says: one thing found, how grave it is, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sams_core.records import Record

Level = Literal["ok", "note", "warn", "bad"]
TOP = 20  # sources that are named
NAMED = 5  # things of one sort that are named in one sentence
UNSEEN = "not visible to this login"
_NEARLY = 0.8  # of a limit


@dataclass(frozen=True)
class Finding(Record):
    """One thing found; `what` is a fixed word, `scope` None for the store as a whole."""

    level: Level
    what: str
    scope: str | None
    detail: str


def used(rows: Sequence[tuple[str, int, int]]) -> tuple[Level, str]:
    """Return how much of some limits is used: (of what, how many, at most)."""
    full = any(count >= _NEARLY * most for _, count, most in rows)
    return "warn" if full else "ok", ", ".join(
        f"{what} {count}/{most}" for what, count, most in rows
    )


def some(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


AFTER_A_RESTORE = (
    "what came after the backup is not here, marks included: a session that was marked meanwhile can "
    "begin unmarked under its old id, so give sessions and dreaming jobs new ids from now on"
)


def clock(newest: dict[str, str], now: str) -> tuple[Level, str]:
    """Return what the newest dates tell: of the ledger, of what sessions wrote, of decisions."""
    told = ", ".join(f"{what} {date[:19] or 'none'}" for what, date in newest.items())
    if max(newest.values(), default="") > now:
        return "warn", f"newer than this machine's clock ({now[:19]}), which may be slow: {told}"
    later = [what for what, date in newest.items() if date > newest["ledger"]]
    doubt = (
        f"; {' and '.join(later)} newer than the whole ledger, so marks may be missing"
        if later
        else ""
    )
    return "note", f"newest of {told}{doubt}; what came later still is lost, if there was any"
