"""What a restored store may have lost, as far as its four parts tell by disagreeing.

They can be from different backups, or different moments of one. Each is read through a private copy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sams_core.backends.finding import AFTER_A_RESTORE, Level, clock, some
from sams_core.backends.sqlite import curated, ledger, runs
from sams_core.backends.sqlite.folders import CURATED, LEDGER, QUEUE, RUNS
from sams_core.backends.sqlite.private import private_copy
from sams_core.backends.sqlite.spool import Spool
from sams_core.limits import Limits
from sams_core.records import now
from sams_core.scopes import family_of

Fact = tuple[Level, str, str]
Mark = tuple[str, str]  # kind and name
_TORN = {
    "versions without their text": (
        "SELECT count(*) FROM versions WHERE id NOT IN (SELECT id FROM texts)"
    ),
    "versions missing before later ones": (
        "SELECT coalesce(sum(most - n), 0) FROM "
        "(SELECT max(version) most, count(*) n FROM versions GROUP BY path)"
    ),
    "accepted changes without their version": (
        "SELECT count(*) FROM decisions WHERE outcome IN ('accepted', 'edited') AND change_id NOT IN "
        "(SELECT change_id FROM versions WHERE change_id IS NOT NULL)"
    ),
    "versions of changes that aren't decided": (
        "SELECT count(*) FROM versions WHERE change_id IS NOT NULL "
        "AND change_id NOT IN (SELECT change_id FROM decisions)"
    ),
    "revisions above the store's own": (
        "SELECT count(*) FROM versions WHERE max(born, coalesce(ended, 0)) > "
        "(SELECT revision FROM meta)"
    ),
    "ids above their sequence": (
        "SELECT count(*) FROM versions WHERE id > "
        "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'versions'), 0)"
    ),
}


class Memory:
    """What memory says of sessions and jobs: the marks that their texts were stamped with."""

    def __init__(self) -> None:
        self.marks: dict[str, set[Mark]] = {}  # by family
        self.jobs: dict[str, set[Mark]] = {}
        self.newest = {"ledger": "", "changes and notes": "", "decisions": ""}

    def written(self, family: str, sources: Iterable[dict[str, Any]]) -> None:
        """Add a text and its marks."""
        self.marks.setdefault(family, set()).update(_marks(sources))

    def proposed(self, change: dict[str, Any]) -> None:
        """Add a change and its marks if it is a job's."""
        if change["source_session"] is None:
            self.jobs.setdefault(str(change["author"]), set()).update(_marks(change["sources"]))

    def at(self, what: str, date: str | None) -> None:
        """Note a date."""
        self.newest[what] = max(self.newest[what], str(date or ""))


def _marks(sources: Iterable[dict[str, Any]]) -> set[Mark]:
    return {(str(s["kind"]), str(s["name"])) for s in sources}


def restored(folder: Path, scope: str, limits: Limits, generation: int) -> Iterator[Fact]:
    """Yield where a container's parts show that some are older than others."""
    yield "warn", "restored", AFTER_A_RESTORE
    memory, torn = Memory(), {}
    served: dict[str, int] = {}
    with private_copy("curated", folder / CURATED / curated.FILE, limits.copy_bytes) as db:
        if db is not None:
            torn = {what: db.execute(sql).fetchone()[0] for what, sql in _TORN.items()}
            served = dict(db.execute("SELECT path, max(version) FROM versions GROUP BY path"))
            for family, date, stored in db.execute("SELECT family, date, provenance FROM versions"):
                memory.at("decisions", date)
                if family is not None:
                    memory.written(family, json.loads(stored)["sources"])
            for family, date, change in db.execute("SELECT family, date, change FROM decisions"):
                memory.at("decisions", date)
                decided = json.loads(change)
                memory.proposed(decided)
                if family is not None:
                    memory.written(family, decided["sources"])
    spool = Spool(folder / QUEUE, scope, limits)
    ahead = 0
    for name in spool.listing().names if (folder / QUEUE).is_dir() else []:
        change = spool.read(name)
        if change is None:
            continue
        memory.at("changes and notes", change.date)
        memory.proposed(change.to_dict())
        ahead += change.base_version > served.get(change.path, 0)
        if change.source_session is not None:
            memory.written(
                family_of(change.source_session), [source.to_dict() for source in change.sources]
            )
    torn["open changes on versions that aren't here"] = ahead
    later = [
        f for f in (folder / RUNS).glob("*.db") if f.stem.isdecimal() and int(f.stem) > generation
    ]
    torn["files of notes of a later generation"] = len(later)
    with private_copy("runs", folder / RUNS / runs.file_name(generation), limits.copy_bytes) as db:
        rows = () if db is None else db.execute("SELECT family, date, provenance FROM notes")
        for family, date, stored in rows:
            memory.at("changes and notes", date)
            memory.written(family, json.loads(stored)["sources"])
    yield from _ledger(folder / LEDGER / ledger.FILE, memory, limits)
    yield from _jobs(spool, memory.jobs)
    parts = [f"{count} {what}" for what, count in torn.items() if count]
    if parts:
        yield "bad", "restored", f"parts are of different times: {'; '.join(parts)}"
    else:
        yield "ok", "restored", "versions, changes and decisions agree with each other"
    level, detail = clock(memory.newest, now())
    yield level, "clock", detail


def _ledger(file: Path, memory: Memory, limits: Limits) -> Iterator[Fact]:
    known: dict[str, set[Mark]] = {}
    with private_copy("ledger", file, limits.copy_bytes) as db:
        if db is not None:
            known = {row[0]: set() for row in db.execute("SELECT family FROM families")}
            for family, kind, name, date in db.execute(
                "SELECT family, kind, name, first_seen FROM sources"
            ):
                known.setdefault(family, set()).add((kind, name))
                memory.at("ledger", date)
            memory.at("ledger", db.execute("SELECT max(opened) FROM sessions").fetchone()[0])
    yield from doubts(known, memory.marks)


def _jobs(spool: Spool, proposed: dict[str, set[Mark]]) -> Iterator[Fact]:
    """Yield which jobs proposed under marks of which no reading is recorded any more."""
    readings = {job: {(s.kind, s.name) for s in spool.readings(job)} for job in proposed}
    if lost := sorted(job for job, marks in proposed.items() if _lost(marks, readings[job])):
        detail = f"{len(lost)} dreaming jobs proposed under marks that it has lost, so never use "
        yield "bad", "queue", f"{detail}their ids again: {some(lost)}"


def doubts(known: dict[str, set[Mark]], written: dict[str, set[Mark]]) -> Iterator[Fact]:
    """Yield what a ledger should know and doesn't: sessions, and marks of sessions."""
    unknown = sorted(written.keys() - known.keys())
    lost = sorted(f for f, marks in written.items() if f in known and _lost(marks, known[f]))
    if unknown:
        detail = f"{len(unknown)} sessions of which memory exists are unknown to it and will start "
        yield "warn", "ledger", f"{detail}marked (ledger-lost): {some(unknown)}"
    if lost:
        detail = f"{len(lost)} sessions wrote under marks that it has lost, so never open their "
        yield "bad", "ledger", f"{detail}ids again: {some(lost)}"
    if not unknown and not lost:
        yield "ok", "ledger", "it knows every session and mark that memory names"


def _lost(written: set[Mark], known: set[Mark]) -> bool:
    more = any(kind == "more" for kind, _ in known)  # the rest was not kept
    return not more and any(mark not in known and mark[0] != "more" for mark in written)
