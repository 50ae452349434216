"""Backends that break a rule of the agents' side (C1 to C5): its id must catch it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from sams_conformance import Deployment, run
from sams_conformance.factories import Simple, memory, simple
from sams_core import MemoryBackend
from sams_core.backend import Standing
from sams_core.records import Change, Entry, Source


@cache
def passed_by_memory(id: str) -> set[str]:
    return run(memory, [id]).names("passed")


BROKEN: list[tuple[str, type[MemoryBackend]]] = []


def breaks(id: str) -> Callable[[type[MemoryBackend]], type[MemoryBackend]]:
    def register(kind: type[MemoryBackend]) -> type[MemoryBackend]:
        BROKEN.append((id, kind))
        return kind

    return register


@breaks("C1")
class OverwritesNotesOfAnyVersion(MemoryBackend):
    def run_write(self, draft: Any) -> Any:
        old = self.read(draft.key.container, draft.scope, draft.path)
        return super().run_write(replace(draft, base_version=old.version if old else 0))


@breaks("C1")
class MatchesRunsByPattern(MemoryBackend):
    def read(self, container: str, scope: str, path: str) -> Entry | None:
        found = super().read(container, scope, path)
        if found is None and scope != container:
            for (run, name), note in self._at(container).notes.items():
                if name == path and run.lower().replace("_", "-") == scope.lower().replace(
                    "_", "-"
                ):
                    return note
        return found


@breaks("C1")
class ServesClearedNotes(MemoryBackend):
    def clear_runs(self, container: str) -> int:
        return len(self._at(container).notes)


@breaks("C2")
class PublishesAtOnce(MemoryBackend):
    def submit(self, draft: Any) -> Any:
        standing = super().submit(draft)
        c = standing.change
        entry = Entry(
            c.scope, c.path, 0, c.description, c.content, c.tainted, c.sources, "", c.author,
            c.source_session, "active",
        )  # fmt: skip
        self.publish(c.scope, entry, c.base_version)
        return standing


@breaks("C2")
class KeepsSupersededChangesOpen(MemoryBackend):
    def changes(self, container: str) -> list[Change]:
        return [change for change, _ in self._at(container).spool.values()]


@breaks("C2")
class SupersedesWhateverIsOpen(MemoryBackend):
    def submit(self, draft: Any) -> Any:
        at = self._at(draft.key.container)
        for other, (change, _) in list(at.spool.items()):
            if change.path == draft.path:
                del at.spool[other]
        return super().submit(draft)


@breaks("C2")
class HidesWhatWasSuperseded(MemoryBackend):
    def changes(self, container: str) -> list[Change]:
        return [
            replace(c, flags=tuple(f for f in c.flags if not f.field.startswith("superseded")))
            for c in super().changes(container)
        ]


@breaks("C2")
class TakesAnyBaseOnSubmission(MemoryBackend):
    def submit(self, draft: Any) -> Any:
        current = self._at(draft.key.container).current(draft.path)
        return super().submit(replace(draft, base_version=current.version if current else 0))


@breaks("C2")
class CountsNothing(MemoryBackend):
    def __init__(self) -> None:
        super().__init__()
        self.limits = replace(self.limits, session_open=10**9)


@breaks("C3")
class ForgetsMarksOnReopen(MemoryBackend):
    def open_session(self, key: Any) -> None:
        super().open_session(key)
        self._at(key.container).sources.pop(key.family, None)


@breaks("C3")
class DropsSourcesOnSubmit(MemoryBackend):
    def submit(self, draft: Any) -> Any:
        standing = super().submit(draft)
        change = replace(standing.change, sources=(), tainted=False)
        at = self._at(draft.key.container)
        at.spool[change.id] = (change, at.spool[change.id][1])
        return replace(standing, change=change)


@breaks("C3")
class ForgetsMarksWithTheNotes(MemoryBackend):
    def clear_runs(self, container: str) -> int:
        self._at(container).sources.clear()
        return super().clear_runs(container)


@breaks("C3")
class LetsAnotherAgentIn(MemoryBackend):
    def open_session(self, key: Any) -> None:
        self._at(key.container).sessions.pop(key.session_id, None)
        super().open_session(key)


@breaks("C3")
class KeepsMarksOfOneIdInAllContainers(MemoryBackend):
    def sources(self, container: str, family: str) -> tuple[Source, ...]:
        found: tuple[Source, ...] = ()
        for at in self._containers.values():
            found += tuple(at.sources.get(family, ()))
        return found


@breaks("C3")
class OverwritesTheFirstRecord(MemoryBackend):
    def add_sources(self, container: str, family: str, sources: Any) -> None:
        have = self._at(container).sources.setdefault(family, [])
        have[:] = [h for h in have if (h.kind, h.name) not in {(s.kind, s.name) for s in sources}]
        super().add_sources(container, family, sources)


@breaks("C4")
class BelievesTheTextAboutItsAuthor(MemoryBackend):
    def submit(self, draft: Any) -> Any:
        if "author: olga" in draft.content:
            draft = replace(draft, key=replace(draft.key, agent="olga"))
        return super().submit(draft)


@breaks("C5")
class PublishesOnAnyBase(MemoryBackend):
    def publish(self, container: str, entry: Entry, expected: int) -> Entry:
        current = self._at(container).current(entry.path)
        return super().publish(container, entry, current.version if current else 0)


@breaks("C5")
class LosesTheRivals(MemoryBackend):
    def decide(self, container: str, decision: Any, entry: Any, expected: int) -> Any:
        published = super().decide(container, decision, entry, expected)
        at = self._at(container)
        for change_id, (change, _) in list(at.spool.items()):
            if change.path == decision.change.path:
                del at.spool[change_id]
        return published


@breaks("C5")
class StoresReplays(MemoryBackend):
    def submit(self, draft: Any) -> Any:
        return super().submit(replace(draft, replay=None))


@breaks("C5")
class TakesNamesForReplays(MemoryBackend):
    def submit(self, draft: Any) -> Any:
        with self._lock:
            for change, _ in self._at(draft.key.container).spool.values():
                if change.path == draft.path and change.author == draft.key.agent:
                    return Standing(change, "open")
            return super().submit(draft)


@pytest.mark.parametrize(
    ("id", "kind"), BROKEN, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_broken_backend_is_caught_by_its_id(id: str, kind: type[MemoryBackend]) -> None:
    report = run(simple(kind), [id])
    assert report.names("failed") & passed_by_memory(id), "nothing caught it"
    assert report.names("passed"), "everything fails: it is broken in other ways too"


def test_every_id_of_these_catches_a_broken_backend() -> None:
    assert {id for id, _ in BROKEN} == {"C1", "C2", "C3", "C4", "C5"}


class CachesClean:
    """A connection that looks each family up once."""

    def __init__(self, store: MemoryBackend) -> None:
        self._store, self._seen = store, dict[Any, Any]()

    def sources(self, container: str, family: str) -> Any:
        return self._seen.setdefault((container, family), self._store.sources(container, family))

    def add_sources(self, container: str, family: str, sources: Any) -> None:
        self._store.add_sources(container, family, sources)
        self._seen.pop((container, family), None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_backend_that_caches_clean_is_caught() -> None:
    @contextmanager
    def factory(location: str) -> Iterator[Deployment]:
        store = MemoryBackend()
        yield Simple(location, lambda: CachesClean(store), durable=False)

    report = run(factory, ["C3"])
    assert "test_a_mark_reaches_a_session_that_is_open_already" in report.names("failed")
    assert report.names("passed")
