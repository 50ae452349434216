"""Stores that are right within a process and wrong across: only the subprocess tests catch them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from sams_conformance import run
from sams_conformance.runner import Case, collect

# What the kit must catch is a matrix of its own; its other mutants run in `make test`.
pytestmark = pytest.mark.slow

MODULE = """
import os
from contextlib import contextmanager
from dataclasses import replace

from sams_conformance.factories import Simple, sqlite
from sams_core import MemoryBackend, SQLiteBackend

IN_THIS_PROCESS = {}


def factory_of(connect):
    @contextmanager
    def factory(location):
        opened = []

        def opening():
            opened.append(connect(location))
            return opened[-1]

        yield Simple(location, opening, durable=True)
        for backend in opened:
            backend.close()

    return factory


@factory_of
def keeps_everything_in_its_process(location):
    return IN_THIS_PROCESS.setdefault(location, MemoryBackend())


@factory_of
class KeepsMarksInItsProcess(SQLiteBackend):
    def add_sources(self, container, family, sources):
        IN_THIS_PROCESS.setdefault((self.location, container, family), []).extend(sources)

    def sources(self, container, family):
        return tuple(IN_THIS_PROCESS.get((self.location, container, family), ()))


@factory_of
class KeepsPinsInItsProcess(SQLiteBackend):
    def pin(self, key):
        fresh = replace(key, session_id=f"{key.session_id}/{os.getpid()}")
        self.open_session(fresh)
        return super().pin(fresh)


@factory_of
class KnowsReplaysOfItsProcess(SQLiteBackend):
    def submit(self, draft):
        return super().submit(replace(draft, replay=draft.replay and f"{draft.replay}{os.getpid()}"))


@factory_of
class OverwritesNotes(SQLiteBackend):
    def run_write(self, draft):
        old = self.read(draft.key.container, draft.scope, draft.path)
        return super().run_write(replace(draft, base_version=old.version if old else 0))


@factory_of
class LetsAnotherProcessesAgentIn(SQLiteBackend):
    def open_session(self, key):
        super().open_session(replace(key, agent=IN_THIS_PROCESS.setdefault(key, "writer")))
"""


def reopening(id: str) -> list[Case]:
    return [case for case in collect() if case.id == id and case.needs_durable]


@cache
def passed_by_sqlite(id: str) -> frozenset[str]:
    report = run("sams_conformance.factories:sqlite", [id], cases=reopening(id))
    return frozenset(report.names("passed"))


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("keeps_everything_in_its_process", id)
        for id in ("C1", "C2", "C3", "C5", "C6", "C7", "C8", "C11", "C12")
    ]
    + [
        ("KeepsMarksInItsProcess", "C3"),
        ("KeepsPinsInItsProcess", "C11"),
        ("KnowsReplaysOfItsProcess", "C5"),
        ("OverwritesNotes", "C5"),
        ("LetsAnotherProcessesAgentIn", "C3"),
    ],
)
def test_a_store_that_is_right_in_one_process_only_is_caught(
    name: str, id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_stores.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    report = run(f"broken_stores:{name}", [id], cases=reopening(id))
    assert report.names("failed") & passed_by_sqlite(id), "nothing caught it"
