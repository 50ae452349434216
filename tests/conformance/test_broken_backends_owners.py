"""Backends that break a rule of the owner's side or of serving (C6 to C12): its id must catch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest

from sams_conformance import run
from sams_conformance.factories import memory, simple
from sams_core import MemoryBackend
from sams_core.backend import Row
from sams_core.backends import stamp
from sams_core.records import Change, Entry

# What the kit must catch is a matrix of its own; its other mutants run in `make test`.
pytestmark = pytest.mark.slow


@cache
def passed_by_memory(id: str) -> set[str]:
    return run(memory, [id]).names("passed")


BROKEN: list[tuple[str, type[MemoryBackend]]] = []


def breaks(id: str) -> Callable[[type[MemoryBackend]], type[MemoryBackend]]:
    def register(kind: type[MemoryBackend]) -> type[MemoryBackend]:
        BROKEN.append((id, kind))
        return kind

    return register


@breaks("C6")
class ListsTheNewestFirst(MemoryBackend):
    def history(self, container: str, path: str) -> list[Entry]:
        return super().history(container, path)[::-1]


@breaks("C6")
class FindsSupersededText(MemoryBackend):
    def _end(self, at: Any, path: str, status: Any) -> None:
        with patch("sams_core.backends.fts.remove"):
            super()._end(at, path, status)


@breaks("C6")
class RestartsVersions(MemoryBackend):
    def retire(self, container: str, path: str, owner: str) -> None:
        super().retire(container, path, owner)
        at = self._at(container)
        at.versions = [v for v in at.versions if v.entry.path != path]


@breaks("C6")
class SharesDigests(MemoryBackend):
    def publish(self, container: str, entry: Entry, expected: int) -> Entry:
        super().publish(container, entry, expected)
        last = self._at(container).versions[-1]
        last.entry = replace(last.entry, digest=replace(last.entry, version=0).sealed().digest)
        last.entry = replace(last.entry, digest=stamp.new_id() * 2) if expected else last.entry
        twin = replace(last.entry, version=1, base_digest=None, date="", path="", scope="").sealed()
        last.entry = replace(last.entry, digest=twin.digest)
        return last.entry


class _Renamed(MemoryBackend):
    """Containers are kept under what `rename` makes of their names."""

    def rename(self, container: str) -> str:
        raise NotImplementedError

    def _at(self, container: str) -> Any:
        return super()._at(self.rename(container))


@breaks("C7")
class FoldsTheCaseOfContainers(_Renamed):
    def rename(self, container: str) -> str:
        return container.casefold()


@breaks("C7")
class TakesUnderscoresForHyphens(_Renamed):
    def rename(self, container: str) -> str:
        return container.replace("_", "-")


@breaks("C7")
class TrimsContainers(_Renamed):
    def rename(self, container: str) -> str:
        return container.rstrip(" .")


@breaks("C7")
class ConfusesProjectsWithTenants(_Renamed):
    def rename(self, container: str) -> str:
        return container.rpartition(":")[2]


@breaks("C7")
class FindsChangesOfAnyContainer(MemoryBackend):
    def standing(self, container: str, change_id: str) -> Any:
        every = [
            super(FindsChangesOfAnyContainer, self).standing(c, change_id) for c in self._every()
        ]
        return next(filter(None, every), None)

    def _every(self) -> list[str]:
        return list(self._containers)


@breaks("C7")
class OpensHandlesOfAnyContainer(MemoryBackend):
    def read(self, container: str, scope: str, path: str) -> Entry | None:
        if path.startswith("untrusted/") and scope == container:
            for other in list(self._containers):
                found = super().read(other, other, path)
                if found is not None:
                    return found
        return super().read(container, scope, path)


@breaks("C7")
class SearchesAllContainers(MemoryBackend):
    def search(self, container: str, scope: str, labelled: bool, query: str, limit: int) -> Any:
        rows = super().search(container, scope, labelled, query, limit)
        for other in [c for c in self._containers if c != container]:
            rows += super().search(other, other, labelled, query, limit)
        return rows


@breaks("C7")
class ClearsEveryContainersRuns(MemoryBackend):
    def clear_runs(self, container: str) -> int:
        return sum(super(ClearsEveryContainersRuns, self).clear_runs(c) for c in self._containers)


@breaks("C7")
class HandsOutSnapshotsOfAllContainers(MemoryBackend):
    def snapshot(self, container: str, job: str, partition: Any) -> Any:
        entries, changes, notes = super().snapshot(container, job, partition)
        for at in self._containers.values():
            entries += tuple(v.entry for v in at.versions)
        return entries, changes, notes


@breaks("C8")
class LaundersProposals(MemoryBackend):
    def snapshot(self, container: str, job: str, partition: Any) -> Any:
        shown = super().snapshot(container, job, partition)
        self._at(container).read_by[job] = ()
        return shown


@breaks("C8")
class WashesAJobWithACleanSnapshot(MemoryBackend):
    def snapshot(self, container: str, job: str, partition: Any) -> Any:
        self._at(container).read_by.pop(job, None)
        return super().snapshot(container, job, partition)


@breaks("C8")
class PutsTaintedTextIntoTheCleanPartition(MemoryBackend):
    def snapshot(self, container: str, job: str, partition: Any) -> Any:
        return super().snapshot(container, job, "all")


@breaks("C8")
class LetsJobsSupersedeAgents(MemoryBackend):
    def submit(self, draft: Any) -> Any:
        at = self._at(draft.key.container)
        for other, (change, _) in list(at.spool.items()):
            if draft.kind == "proposal" and change.path == draft.path:
                del at.spool[other]
        return super().submit(draft)


@breaks("C11")
class ServesPendingAsCurated(MemoryBackend):
    def read(self, container: str, scope: str, path: str) -> Entry | None:
        found = super().read(container, scope, path)
        for change in self.changes(container) if found is None and scope == container else ():
            if change.path == path:
                return Entry(
                    container, path, 1, change.description, change.content, change.tainted,
                    change.sources, "", change.author, change.source_session, "active",
                )  # fmt: skip
        return found


@breaks("C11")
class ShowsPendingToEverybody(MemoryBackend):
    def own_change(self, key: Any, path: str) -> Change | None:
        return next((c for c in self.changes(key.container) if c.path == path), None)


@breaks("C11")
class ListsPending(MemoryBackend):
    def index(self, container: str, scope: str, labelled: bool, *args: Any, **more: Any) -> Any:
        rows = super().index(container, scope, labelled, *args, **more)
        changes = self.changes(container) if scope == container and not labelled else []
        return rows + [Row(c.path, None, 1, c.description, c.date, False) for c in changes]


@breaks("C11")
class KeepsRetiredTextInTheContext(MemoryBackend):
    def retire(self, container: str, path: str, owner: str) -> None:
        super().retire(container, path, owner)
        self._at(container).epoch = 0


@breaks("C11")
class FindsPending(MemoryBackend):
    def search(self, container: str, scope: str, labelled: bool, query: str, limit: int) -> Any:
        rows = super().search(container, scope, labelled, query, limit)
        changes = [] if labelled or scope != container else self.changes(container)
        found = [c for c in changes if query.split()[0] in c.content]
        return rows + [Row(c.path, None, 1, "", c.date, False, c.content) for c in found]


@breaks("C11")
class SkipsALineBetweenPages(MemoryBackend):
    def index(
        self, container: str, scope: str, labelled: bool, after: str, *args: Any, **more: Any
    ) -> Any:
        rows = super().index(container, scope, labelled, after, *args, **more)
        return rows[1:] if after else rows


@breaks("C11")
class ListsLabelledHitsFirst(MemoryBackend):
    def search(self, container: str, scope: str, labelled: bool, query: str, limit: int) -> Any:
        rows = super().search(container, scope, labelled, query, limit)
        return super().search(container, scope, True, query, limit) + rows if not labelled else []


@breaks("C11")
class FloodsWithHandles(MemoryBackend):
    def search(self, container: str, scope: str, labelled: bool, query: str, limit: int) -> Any:
        return super().search(container, scope, labelled, query, 20)


@breaks("C12")
class DecidesAnew(MemoryBackend):
    def decide(self, container: str, decision: Any, entry: Any, expected: int) -> Any:
        published = super().decide(container, decision, entry, expected)
        del self._at(container).decisions[decision.change.id]
        return published


@breaks("C12")
class ServesOtherBytes(MemoryBackend):
    def decide(self, container: str, decision: Any, entry: Any, expected: int) -> Any:
        if entry is not None:
            entry = replace(entry, content=entry.content.replace("\u200b", ""))
        return super().decide(container, decision, entry, expected)


class ReusesIds(MemoryBackend):
    """Ids are made from the path, as if they were numbers that restart."""

    def submit(self, draft: Any) -> Any:
        at = self._at(draft.key.container)
        change_id = f"{abs(hash(draft.path)):032x}"
        at.decisions.pop(change_id, None)
        with patch.object(stamp, "new_id", lambda: change_id):
            return super().submit(draft)


@pytest.mark.parametrize(
    ("id", "kind"), BROKEN, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_broken_backend_is_caught_by_its_id(id: str, kind: type[MemoryBackend]) -> None:
    report = run(simple(kind), [id])
    assert report.names("failed") & passed_by_memory(id), "nothing caught it"
    assert report.names("passed"), "everything fails: it is broken in other ways too"


def test_every_id_of_these_catches_a_broken_backend() -> None:
    assert {id for id, _ in BROKEN} == {"C6", "C7", "C8", "C11", "C12"}
