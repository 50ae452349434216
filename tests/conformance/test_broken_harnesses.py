"""Sessions, owners, jobs and digests with one rule broken each: the rule's id must catch it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest

from sams_conformance import run
from sams_conformance.factories import memory, simple
from sams_core import AgentSession, DreamerSession, MemoryBackend, Owner, records, review
from sams_core.backend import Standing
from sams_core.records import Change, Entry
from sams_core.taint import family


@cache
def passed_by_memory(id: str) -> set[str]:
    return run(memory, [id]).names("passed")


BROKEN: list[tuple[str, str, type]] = []


def breaks(role: str, id: str) -> Callable[[type], type]:
    def register(kind: type) -> type:
        BROKEN.append((role, id, kind))
        return kind

    return register


@breaks("AgentSession", "C1")
class LetsSessionsWriteOrg(AgentSession):
    def _writable(self, scope: str) -> str:
        return self.run_scope if scope == "org" else super()._writable(scope)


@breaks("AgentSession", "C1")
class LetsSessionsReadAnyRun(AgentSession):
    def _readable(self, scope: str) -> tuple[str, str]:
        if isinstance(scope, str) and scope.startswith("run:"):
            return self.assigned, scope
        return super()._readable(scope)


@breaks("AgentSession", "C1")
class LetsChildrenWriteTheirParentsRun(AgentSession):
    def _writable(self, scope: str) -> str:
        return (
            self._readable(scope)[1] if str(scope).startswith("run:") else super()._writable(scope)
        )


@breaks("AgentSession", "C3")
class GivesChildrenALedgerOfTheirOwn(AgentSession):
    def child(self, agent: str) -> AgentSession:
        child = super().child(agent)
        key = replace(child.key, family=child.session_id)
        child.key, child.family = key, family(child.backend, key)
        self.backend.open_session(key)
        return child


@breaks("AgentSession", "C3")
class NeedsNoDeclarations(AgentSession):
    def __init__(self, backend: Any, **given: Any) -> None:
        super().__init__(backend, **given | {"user": "insider", "observed": "by-hand"})


@breaks("AgentSession", "C3")
class MarksWhenTheCallHasReturned(AgentSession):
    def tainting(self, obj: Any, reason: str | None = None) -> Any:
        def late(*args: Any) -> Any:
            result = obj(*args)
            self.mark_tainted(reason or "late")
            return result

        return late


@breaks("AgentSession", "C4")
class IgnoresUnknownArguments(AgentSession):
    def call_tool(self, name: str, arguments: Any, *, call_id: str | None = None) -> str:
        known = {"scope", "path", "content", "description", "expected_version", "cursor", "query"}
        if isinstance(arguments, dict):
            arguments = {k: v for k, v in arguments.items() if k in known}
        return super().call_tool(name, arguments, call_id=call_id)


@breaks("AgentSession", "C4")
class OpensTheSchemas(AgentSession):
    def tool_schemas(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(json.dumps(super().tool_schemas()))
        for schema in found:
            schema["input_schema"].pop("additionalProperties")
        return found


@breaks("AgentSession", "C4")
class OffersAFifthTool(AgentSession):
    def tools(self) -> dict[str, Any]:
        return super().tools() | {"memory_delete": self.memory_read}


@breaks("AgentSession", "C4")
class EchoesTheArgumentsInErrors(AgentSession):
    def call_tool(self, name: str, arguments: Any, *, call_id: str | None = None) -> str:
        answer = json.loads(super().call_tool(name, arguments, call_id=call_id))
        if "error" in answer:
            answer["error"]["message"] += f": {name} {arguments}"
        return json.dumps(answer)


@breaks("Owner", "C6")
class RestoresWithoutTheLabel(Owner):
    def restore(self, scope: str, path: str, digest: str) -> Entry:
        named = self.backend.version_with(scope, digest)
        if named is None:
            return super().restore(scope, path, digest)
        current = self.get(scope, path)
        return self._publish_again(named, current, (), "restore", None)


@breaks("Owner", "C6")
class ForgetsWhoWroteIt(Owner):
    def history(self, scope: str, path: str) -> list[Entry]:
        return [replace(entry, source_session=None) for entry in super().history(scope, path)]


@breaks("AgentSession", "C7")
class ReadsTheScopeThatTheModelNames(AgentSession):
    def _readable(self, scope: str) -> tuple[str, str]:
        if isinstance(scope, str) and scope.startswith(("tenant:", "project:")):
            return scope, scope
        return super()._readable(scope)


@breaks("DreamerSession", "C8")
class ProposesUnread(DreamerSession):
    def __init__(self, backend: Any, **given: Any) -> None:
        super().__init__(backend, **given)
        self.snapshot("clean")


@breaks("DreamerSession", "C8")
class LetsAJobAccept(DreamerSession):
    def accept(self, change_id: str) -> None:
        """Do what only an owner may."""


@breaks("AgentSession", "C11")
class ShowsLabelledTextToCleanSessions(AgentSession):
    def _listing(self, scope: str, row: Any, marked: bool) -> Any:
        return super()._listing(scope, row, True)


@breaks("AgentSession", "C11")
class ReadsLabelledTextUnmarked(AgentSession):
    def memory_read(self, scope: str, path: str) -> Entry:
        container, full = self._readable(scope)
        return self.backend.read(container, full, path) or super().memory_read(scope, path)


@breaks("AgentSession", "C11")
class PutsRawTextIntoTheContext(AgentSession):
    def context_block(self, max_chars: int = 16_384) -> str:
        with patch("html.escape", lambda text: text):
            return super().context_block(max_chars)


@breaks("AgentSession", "C11")
class LetsHiddenCharactersIntoTheContext(AgentSession):
    def context_block(self, max_chars: int = 16_384) -> str:
        with patch("sams_core.context.visible", lambda text: text):
            return super().context_block(max_chars)


@breaks("AgentSession", "C11")
class RendersAnewEachTime(AgentSession):
    def context_block(self, max_chars: int = 16_384) -> str:
        for at in self.backend._containers.values():  # type: ignore[attr-defined]
            at.pins.clear()
        return super().context_block(max_chars)


@breaks("Owner", "C12")
class AcceptsByNumber(Owner):
    def accept(self, scope: str, change_id: str, digest: str, **more: Any) -> Entry:
        standing = self.backend.standing(scope, change_id)
        if standing is not None:
            digest = review.present(standing.change).digest
        return super().accept(scope, change_id, digest, **more)


@breaks("Owner", "C12")
class ShowsOnlyClaimedFlags(Owner):
    def changes(self, scope: str, kind: Any = None) -> list[Change]:
        with patch.object(review, "review_flags", lambda *args: ()):
            return super().changes(scope, kind)


@breaks("Owner", "C12")
class ReplacesTrustedTextByTaintedText(Owner):
    def _standing(self, scope: str, change_id: str) -> Standing:
        standing = super()._standing(scope, change_id)
        base = standing.change.base
        if base is not None:
            change = replace(standing.change, base=replace(base, tainted=True))
            standing = replace(standing, change=change)
        return standing


@breaks("Owner", "C2")
class RejectsNothing(Owner):
    def reject(self, scope: str, change_id: str, note: str = "") -> None:
        """Say that it is done."""


@breaks("Owner", "C12")
class AcceptsWhatWasSuperseded(Owner):
    def _standing(self, scope: str, change_id: str) -> Standing:
        standing = super()._standing(scope, change_id)
        open_again = standing.state == "superseded"
        return replace(standing, state="open", successor=None) if open_again else standing


@breaks("Owner", "C12")
class EndorsesByAccepting(Owner):
    def accept(
        self, scope: str, change_id: str, digest: str, *, endorse: str | None = None
    ) -> Entry:
        return super().accept(scope, change_id, digest, endorse=endorse or "accepted")


@breaks("Owner", "C12")
class EndorsesWhateverIsThere(Owner):
    def endorse(self, scope: str, path: str, digest: str, why: str) -> Entry:
        entry = self.get(scope, path)
        return super().endorse(scope, path, entry.digest if entry else digest, why)


@breaks("Owner", "C12")
class WashesByEditing(Owner):
    def write(self, *args: Any, **more: Any) -> Entry:
        with patch.object(Owner, "_entry", _unlabelled):
            return super().write(*args, **more)


@breaks("Owner", "C12")
class WorksBesideAnAgent(Owner):
    def _check(self, scope: str) -> None:
        """Let everybody in."""


@breaks("AgentSession", "C1")
class WritesToAnyPath(AgentSession):
    def _write(self, *args: Any) -> Any:
        with patch("sams_core.session.check_path", lambda path: str(path)):
            return super()._write(*args)


@breaks("AgentSession", "C2")
class ClaimsToHaveSaved(AgentSession):
    def call_tool(self, name: str, arguments: Any, *, call_id: str | None = None) -> str:
        return super().call_tool(name, arguments, call_id=call_id).replace("queued", "saved")


@breaks("AgentSession", "C3")
class WorksOnWhileAMarkIsOwed(AgentSession):
    def _enter(self) -> None:
        with patch.object(self.family, "settle", lambda: None):
            super()._enter()


@breaks("AgentSession", "C3")
class WorksInAnyRun(AgentSession):
    def _enter(self) -> None:
        with patch("sams_core.session.check_family", lambda *_: None):
            super()._enter()


@breaks("AgentSession", "C11")
class SaysNothingBesideMemory(AgentSession):
    def context_block(self, max_chars: int = 16_384) -> str:
        with patch("sams_core.context._HEAD", "<memory>\n"):
            return super().context_block(max_chars)


@breaks("AgentSession", "C11")
class ShowsLabelledTextLikeAnyOther(AgentSession):
    def call_tool(self, name: str, arguments: Any, *, call_id: str | None = None) -> str:
        with patch("sams_core.tools.LABEL", ""):
            return super().call_tool(name, arguments, call_id=call_id)


@breaks("DreamerSession", "C8")
class ClipsEvidence(DreamerSession):
    def propose(self, *args: Any, evidence: Any = (), **more: Any) -> Change:
        clipped = tuple(str(item).replace("\n", " ")[:200] for item in evidence[:20])
        return super().propose(*args, evidence=clipped, **more)


@breaks("DreamerSession", "C8")
class ProposesOverWhatItHasntRead(DreamerSession):
    def propose(self, path: str, *args: Any, **more: Any) -> Change:
        found = self.backend.read(self.scope, self.scope, path)
        if self._versions is not None and found is not None:
            self._versions[path] = found.version
        return super().propose(path, *args, **more)


_entry = Owner._entry


def _unlabelled(self: Any, *args: Any) -> Entry:
    *front, _sources, act, why = args
    return _entry(self, *front, (), act, why)


@pytest.mark.parametrize(
    ("role", "id", "kind"), BROKEN, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_broken_harness_is_caught_by_its_id(role: str, id: str, kind: type) -> None:
    report = run(simple(MemoryBackend, **{role: kind}), [id])
    assert report.names("failed") & passed_by_memory(id), "nothing caught it"
    assert report.names("passed"), "everything fails: it is broken in other ways too"


# `id` is random and looked up by, `scope` is what is looked in: an owner can't confuse either.
SHOWN = sorted(set(Change.__dataclass_fields__) - {"digest", "base", "id", "scope"})


@pytest.mark.parametrize("name", SHOWN)
def test_a_field_left_out_of_the_digest_is_caught(name: str) -> None:
    digest_of, right = review.digest_of, passed_by_memory("C12")

    def without(kind: str, covered: dict[str, Any]) -> str:
        return digest_of(kind, {key: value for key, value in covered.items() if key != name})

    with patch.object(review, "digest_of", without):
        report = run(memory, ["C12"])
    assert report.names("failed") & right == {"test_every_shown_field_counts_in_the_digest"}


SEALED = sorted(set(Entry.__dataclass_fields__) - set(records._OUTSIDE_THE_DIGEST))


@pytest.mark.parametrize("name", SEALED)
def test_a_field_left_out_of_an_entrys_digest_is_caught(name: str) -> None:
    outside, right = records._OUTSIDE_THE_DIGEST, passed_by_memory("C12")
    with patch.object(records, "_OUTSIDE_THE_DIGEST", (*outside, name)):
        report = run(memory, ["C12"])
    caught = report.names("failed") & right
    assert "test_every_shown_field_of_a_served_version_counts_in_its_digest" in caught


def test_siblings_that_read_each_other_are_caught() -> None:
    def related(one: str, other: str) -> bool:
        return one.split("/")[0] == other.split("/")[0]

    right = passed_by_memory("C1")

    with patch("sams_core.session.related", related):
        report = run(memory, ["C1"])
    assert report.names("failed") & right


def test_a_diff_that_hides_characters_is_caught() -> None:
    right = passed_by_memory("C12")

    def raw(self: Change) -> str:
        return f"+{self.description}\n+{self.content}"

    with patch.object(Change, "diff", raw):
        report = run(memory, ["C12"])
    assert report.names("failed") & right
