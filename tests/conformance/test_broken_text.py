"""Sessions, owners, jobs and stores that let a secret through or a flag fall (C9, C10)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest

from sams_conformance import run
from sams_conformance.factories import memory, simple
from sams_core import AgentSession, DreamerSession, MemoryBackend, Owner, review
from sams_core.backends import stamp
from sams_core.errors import InvalidArguments
from sams_core.flags import review_flags
from sams_core.records import Change, Entry, Flag
from sams_core.redaction import Cuts
from sams_core.redaction.model import Redacted
from sams_core.screen import Screened, screen

# What the kit must catch is a matrix of its own; its other mutants run in `make test`.
pytestmark = pytest.mark.slow


@cache
def passed_by_memory(id: str) -> set[str]:
    return run(memory, [id]).names("passed")


BROKEN: list[tuple[str, str, dict[str, type]]] = []


def breaks(role: str, id: str) -> Callable[[type], type]:
    """Register a harness class under its role, or a backend under no role."""

    def register(kind: type) -> type:
        BROKEN.append((kind.__name__, id, {role: kind}))
        return kind

    return register


def kept(text: str, **_: Any) -> Redacted:
    return Redacted(text, ())


def unchecked(value: str, what: str, cuts: Cuts) -> str:
    return value


def raw_title(description: Any, content: Any, *more: Any) -> Screened:
    return replace(screen(description, content, *more), description=description)


def raw_content(description: Any, content: Any, *more: Any) -> Screened:
    return replace(screen(description, content, *more), content=content)


def late(description: Any, content: Any, *more: Any) -> Screened:
    """Flag what is left after redaction."""
    done = screen(description, content, *more)
    flags = review_flags(done.description, "description") + review_flags(done.content)
    return replace(done, flags=flags)


def unflagged(description: Any, content: Any, *more: Any) -> Screened:
    return replace(screen(description, content, *more), flags=())


def content_only(description: Any, content: Any, *more: Any) -> Screened:
    done = screen(description, content, *more)
    return replace(done, flags=tuple(f for f in done.flags if f.field != "description"))


# C9: what isn't cut out.


@breaks("AgentSession", "C9")
class KeepsDescriptions(AgentSession):
    def _write(self, *args: Any) -> Any:
        with patch("sams_core.session.screen", raw_title):
            return super()._write(*args)


@breaks("AgentSession", "C9")
class KeepsNotes(AgentSession):
    """The scratchpad is private, isn't it?"""

    def _write(self, scope: str, *args: Any) -> Any:
        if scope != "run":
            return super()._write(scope, *args)
        with patch("sams_core.session.screen", raw_content):
            return super()._write(scope, *args)


@breaks("AgentSession", "C9")
class RedactsToolCallsOnly(AgentSession):
    def memory_write(self, *args: Any, **more: Any) -> Any:
        with patch("sams_core.screen.redact", kept):
            return super().memory_write(*args, **more)


@breaks("AgentSession", "C9")
class RedactsMethodsOnly(AgentSession):
    def call_tool(self, *args: Any, **more: Any) -> str:
        with patch("sams_core.screen.redact", kept):
            return super().call_tool(*args, **more)


@breaks("AgentSession", "C9")
class KeepsReasons(AgentSession):
    def mark_tainted(self, reason: str, *, origin: str | None = None) -> None:
        with patch("sams_core.taint.redact", kept):
            super().mark_tainted(reason, origin=None)


@breaks("AgentSession", "C9")
class KeepsOrigins(AgentSession):
    def mark_tainted(self, reason: str, *, origin: str | None = None) -> None:
        with patch("sams_core.taint.redact", kept):
            super().mark_tainted("a page", origin=origin)


@breaks("AgentSession", "C9")
class KeepsNamesOfSources(AgentSession):
    def tainting(self, obj: Any, reason: str | None = None) -> Any:
        with patch("sams_core.taint.redact", kept):
            return super().tainting(obj, reason)


@breaks("AgentSession", "C9")
class TakesAnyName(AgentSession):
    def _open(self, *args: Any) -> None:
        with patch("sams_core.session.check_name", unchecked):
            super()._open(*args)


@breaks("AgentSession", "C9")
class TakesAnyPath(AgentSession):
    def _write(self, *args: Any) -> Any:
        with patch("sams_core.session.check_name", unchecked):
            return super()._write(*args)


@breaks("AgentSession", "C9")
class RewritesPaths(AgentSession):
    """A path that holds a secret is kept under another name: nobody finds it there."""

    def _write(self, scope: str, path: str, *args: Any) -> Any:
        with contextlib.suppress(InvalidArguments):
            return super()._write(scope, path, *args)
        return super()._write(scope, "redacted", *args)


@breaks("AgentSession", "C9")
class RepeatsWhatItRefuses(AgentSession):
    def memory_write(self, scope: str, path: str, *args: Any, **more: Any) -> Any:
        try:
            return super().memory_write(scope, path, *args, **more)
        except InvalidArguments as error:
            raise InvalidArguments(f"{error}: {path!r}", rule=error.rule) from None


@breaks("AgentSession", "C9")
class RepeatsArgumentsToTheModel(AgentSession):
    def call_tool(self, name: str, arguments: Any, *, call_id: str | None = None) -> str:
        answer = json.loads(super().call_tool(name, arguments, call_id=call_id))
        if "error" in answer:
            answer["error"]["message"] += f" in {arguments}"
        return json.dumps(answer)


@breaks("AgentSession", "C9")
class CutsOutTooMuch(AgentSession):
    """Long words, hashes and ids included."""

    def _write(self, scope: str, path: str, content: str, *args: Any) -> Any:
        words = [word if len(word) < 30 else "[REDACTED]" for word in content.split(" ")]
        return super()._write(scope, path, " ".join(words), *args)


@breaks("AgentSession", "C9")
class SeesNoDisguise(AgentSession):
    def _write(self, *args: Any) -> Any:
        with (
            patch("sams_core.shadow.normalised", lambda *_: None),
            patch("sams_core.redaction.decoding.unpacked", lambda view: None),
        ):
            return super()._write(*args)


@breaks("Owner", "C9")
class KeepsWhatTheOwnerWrites(Owner):
    def write(self, *args: Any, **more: Any) -> Entry:
        with patch("sams_core.screen.redact", kept):
            return super().write(*args, **more)


@breaks("Owner", "C9")
class KeepsNotesOnRejections(Owner):
    def reject(self, *args: Any, **more: Any) -> None:
        with patch("sams_core.screen.redact", kept):
            super().reject(*args, **more)


@breaks("Owner", "C9")
class KeepsReasonsOfEndorsements(Owner):
    def endorse(self, *args: Any, **more: Any) -> Entry:
        with patch("sams_core.screen.redact", kept):
            return super().endorse(*args, **more)


@breaks("Owner", "C9")
class KeepsReasonsOfAcceptances(Owner):
    def _why(self, scope: str, why: str) -> str:
        return why


@breaks("Owner", "C9")
class TakesAnyOwner(Owner):
    def __init__(self, backend: Any, name: str) -> None:
        super().__init__(backend, "olga")
        self.name = name


def _jobs_keep(**fields: bool) -> Callable[..., Change]:
    def propose(self: Any, path: str, content: str, description: str, **given: Any) -> Change:
        def clean(value: str, what: str, cuts: Cuts, **form: Any) -> str:
            return value if what in fields else real(value, what, cuts, **form)

        from sams_core.screen import clean as real

        with patch("sams_core.dream.clean", clean):
            return DreamerSession.propose(self, path, content, description, **given)

    return propose


@breaks("DreamerSession", "C9")
class KeepsEvidence(DreamerSession):
    propose = _jobs_keep(evidence=True)


@breaks("DreamerSession", "C9")
class KeepsRationales(DreamerSession):
    propose = _jobs_keep(rationale=True)


@breaks("DreamerSession", "C9")
class KeepsWhatJobsPropose(DreamerSession):
    def propose(self, *args: Any, **more: Any) -> Change:
        with patch("sams_core.dream.screen", raw_content):
            return super().propose(*args, **more)


@breaks("DreamerSession", "C9")
class TakesAnyJob(DreamerSession):
    def __init__(self, backend: Any, **given: Any) -> None:
        with patch("sams_core.dream.check_name", unchecked):
            super().__init__(backend, **given)


# C10: what isn't flagged, and what is flagged without a reason.


@breaks("AgentSession", "C10")
class FlagsAfterRedaction(AgentSession):
    def _write(self, *args: Any) -> Any:
        with patch("sams_core.session.screen", late):
            return super()._write(*args)


@breaks("AgentSession", "C10")
class FlagsContentsOnly(AgentSession):
    def _write(self, *args: Any) -> Any:
        with patch("sams_core.session.screen", content_only):
            return super()._write(*args)


@breaks("AgentSession", "C10")
class FlagsEverything(AgentSession):
    def _write(self, *args: Any) -> Any:
        def noisy(description: Any, content: Any, *more: Any) -> Screened:
            done = screen(description, content, *more)
            noise = Flag("text", "content", 0, 1, "is a text")
            return replace(done, flags=(*done.flags, noise))

        with patch("sams_core.session.screen", noisy):
            return super()._write(*args)


@breaks("AgentSession", "C10")
class RefusesWhatIsFlagged(AgentSession):
    def _write(self, *args: Any) -> Any:
        if review_flags(args[2]):
            raise InvalidArguments("that looks like an attack")
        return super()._write(*args)


@breaks("DreamerSession", "C10")
class FlagsNoProposals(DreamerSession):
    def propose(self, *args: Any, **more: Any) -> Change:
        with patch("sams_core.dream.screen", unflagged):
            return super().propose(*args, **more)


@breaks("DreamerSession", "C10")
class FlagsProposalsAfterRedaction(DreamerSession):
    def propose(self, *args: Any, **more: Any) -> Change:
        with patch("sams_core.dream.screen", late):
            return super().propose(*args, **more)


def _shown(self: Any, flags: Callable[..., Any], scope: str, kind: Any) -> list[Change]:
    with patch.object(review, "review_flags", flags):
        return Owner.changes(self, scope, kind)


@breaks("Owner", "C10")
class LooksAtNoRemovedLines(Owner):
    def changes(self, scope: str, kind: Any = None) -> list[Change]:
        def flags(text: str, field: str, rules: Any) -> Sequence[Flag]:
            return () if field == "removed" else review_flags(text, field, rules)

        return _shown(self, flags, scope, kind)


@breaks("Owner", "C10")
class BelievesWhatIsClaimed(Owner):
    def changes(self, scope: str, kind: Any = None) -> list[Change]:
        return _shown(self, lambda *_: (), scope, kind)


@breaks("Owner", "C10")
class ShowsNoFlags(Owner):
    def changes(self, scope: str, kind: Any = None) -> list[Change]:
        return [replace(change, flags=()) for change in super().changes(scope, kind)]


@breaks("Owner", "C10")
class LeavesFlagsOutOfTheDigest(Owner):
    def changes(self, scope: str, kind: Any = None) -> list[Change]:
        with patch.object(review, "digest_of", _without_flags):
            return super().changes(scope, kind)

    def accept(self, *args: Any, **more: Any) -> Entry:
        with patch.object(review, "digest_of", _without_flags):
            return super().accept(*args, **more)


_digest_of = review.digest_of


def _without_flags(kind: str, covered: dict[str, Any]) -> str:
    return _digest_of(kind, {key: value for key, value in covered.items() if key != "flags"})


@breaks("", "C10")
class DropsFlagsOnSubmission(MemoryBackend):
    """The owner computes them again: but not those of what was cut out."""

    def submit(self, draft: Any) -> Any:
        return super().submit(replace(draft, flags=()))


@breaks("", "C10")
class KeepsFlagsOfWritesOnly(MemoryBackend):
    def submit(self, draft: Any) -> Any:
        flags = draft.flags if draft.kind == "write" else ()
        return super().submit(replace(draft, flags=flags))


@pytest.mark.parametrize(("name", "id", "roles"), BROKEN, ids=[name for name, _, _ in BROKEN])
def test_what_lets_a_secret_through_or_a_flag_fall_is_caught(
    name: str, id: str, roles: dict[str, type]
) -> None:
    store = roles.get("", MemoryBackend)
    report = run(simple(store, **{role: kind for role, kind in roles.items() if role}), [id])
    assert report.names("failed") & passed_by_memory(id), "nothing caught it"
    assert report.names("passed"), "everything fails: it is broken in other ways too"


def _blind_to(kind: str) -> Callable[..., Redacted]:
    from sams_core.redaction import redact

    def some(text: str, **more: Any) -> Redacted:
        found = redact(text, **more)
        return Redacted(text, ()) if kind in found.kinds else found

    return some


@contextlib.contextmanager
def blind_to(kind: str) -> Iterator[None]:
    blind = _blind_to(kind)
    with patch("sams_core.screen.redact", blind):
        yield


@pytest.mark.parametrize(
    "kind", ["github-token", "private-key", "jwt", "slack-webhook", "url-credentials"]
)
def test_a_redaction_that_is_blind_to_one_kind_is_caught(kind: str) -> None:
    right = passed_by_memory("C9")
    with blind_to(kind):
        report = run(memory, ["C9"])
    assert report.names("failed") & right, "nothing caught it"


def test_a_store_that_keeps_what_it_was_given_beside_what_it_serves_is_caught() -> None:
    """A decision's record is as much of a store as an entry is."""
    made = stamp.make_change
    right = passed_by_memory("C9")

    def with_rest(draft: Any, *args: Any) -> Change:
        return replace(made(draft, *args), rationale=f"{draft.rationale} {KEPT[-1]}")

    KEPT = [""]

    def keeping(description: Any, content: Any, *more: Any) -> Screened:
        KEPT.append(content)
        return screen(description, content, *more)

    with (
        patch.object(stamp, "make_change", with_rest),
        patch("sams_core.session.screen", keeping),
    ):
        report = run(memory, ["C9"])
    assert report.names("failed") & right


def test_every_id_of_these_catches_a_broken_one() -> None:
    assert {id for _, id, _ in BROKEN} == {"C9", "C10"}
