"""The owner's side: what is waiting, exactly what it would change, and the decisions."""

from __future__ import annotations

import hmac
from dataclasses import replace
from typing import Literal

from sams_core.ambient import refuse_beside_agent
from sams_core.backend import Backend, Standing
from sams_core.canonical import digest as digest_of
from sams_core.errors import (
    InvalidArguments,
    NotFound,
    PermissionDenied,
    ReviewMismatch,
    StoreFailed,
    VersionConflict,
)
from sams_core.flags import review_flags
from sams_core.limits import check_text
from sams_core.records import Act, Change, Decision, Entry, Flag, Source, now
from sams_core.redaction import BUILT_IN, TextPolicy, policy_of
from sams_core.redaction.model import Rule
from sams_core.scopes import check_container, check_id, check_path, is_handle
from sams_core.screen import check_name, clean, cut, screen

CONFLICT = "drops most of what the entry says now"
UNCUT = "was stored with something that is cut here: the writer's rules were weaker"
_UNLABELLED: tuple[Source, ...] = ()


def present(change: Change, policy: TextPolicy = BUILT_IN) -> Change:
    """Return a change as a reviewer is shown it, with the digest over all of that.

    Flags are the union of what the submitter claims, which were computed before redaction, and what
    the stored text gives here and now, on removed lines too. The texts are redacted once more: a rule
    may be newer than they are, or a process that isn't ours or has another policy wrote them; a flag
    `uncut` says so. What is shown then is what is covered and what would be served; the base is covered
    by its own digest.
    """
    cuts = policy.at(change.scope)
    own = review_flags(change.description, "description", cuts.rules)
    own += review_flags(change.content, "content", cuts.rules)
    own += _against(change, cuts.rules)
    shown = replace(
        change,
        digest="",
        description=cut(change.description, cuts),
        content=cut(change.content, cuts),
        rationale=cut(change.rationale, cuts),
        evidence=tuple(cut(item, cuts) for item in change.evidence),
        sources=tuple(
            replace(s, name=cut(s.name, cuts), origin=s.origin and cut(s.origin, cuts))
            for s in change.sources
        ),
    )
    for name in ("description", "content", "rationale", "evidence", "sources"):
        if getattr(shown, name) != getattr(change, name):
            own += (Flag("uncut", name, 0, 0, UNCUT),)
    shown = replace(shown, flags=tuple(dict.fromkeys(change.flags + own)))
    covered = shown.to_dict()
    del covered["digest"]
    return replace(shown, digest=digest_of("change", covered))


def _against(change: Change, rules: tuple[Rule, ...]) -> tuple[Flag, ...]:
    """Return what there is to say about what a change takes away from its base."""
    if change.base is None:
        return ()
    kept = set(change.content.splitlines())
    served = [line for line in change.base.content.splitlines() if line.strip()]
    removed = [line for line in served if line not in kept]
    flags = review_flags("\n".join(removed), "removed", rules)
    if 2 * len(removed) > len(served):
        flags += (Flag("conflict", "content", 0, 0, CONFLICT),)
    return flags


class Owner:
    """Decides what becomes memory; `name` is recorded with every decision.

    Every method is refused (`PermissionDenied`, rule `owner-beside-agent`) while an agent session is
    active in this process or named in `SAMS_SESSION`. Scopes are `org`, `project:<id>` and
    `tenant:<id>`. A decision is one transaction; the same decision again gives the same result.
    """

    def __init__(self, backend: Backend, name: str) -> None:
        self.backend = backend
        self._policy = policy_of(backend)
        self.name = check_name(check_id(name, "owner"), "owner", self._policy.at())

    def changes(self, scope: str, kind: Literal["write", "proposal"] | None = None) -> list[Change]:
        """Return the open changes of a scope, oldest first; `kind` keeps writes or proposals only."""
        self._check(scope)
        if kind not in (None, "write", "proposal"):
            raise InvalidArguments('kind: "write", "proposal" or None')
        return [
            present(change, self._policy)
            for change in self.backend.changes(scope)
            if kind is None or change.kind == kind
        ]

    def accept(
        self, scope: str, change_id: str, digest: str, *, endorse: str | None = None
    ) -> Entry:
        """Serve exactly what `digest` covers, labelled if it is tainted; `endorse` vouches for it.

        Raises `NotFound` for an id that isn't open, `ReviewMismatch` if anything shown has changed
        or the author has rewritten it, `VersionConflict` if the entry has moved since, and
        `PermissionDenied` (rule `would-hide-trusted`) for a tainted change over an unlabelled entry
        unless it is endorsed: clean sessions would lose the entry.
        """
        self._check(scope)
        why = self._why(scope, endorse) if endorse is not None else None
        standing = self._standing(scope, change_id)
        if standing.decision is not None:
            entry = self._again(scope, standing, digest, "accepted")
            if why is not None and entry.tainted:
                raise NotFound("accepted without endorsement: endorse the entry", rule="not-open")
            return entry
        change = self._reviewed(scope, standing, digest)
        cuts = self._policy.at(scope)
        for name in (change.path, change.author, change.source_session or ""):
            check_name(name, "path, author or session of the change", cuts)
        if change.base is None or change.base.tainted:
            pass
        elif change.tainted and why is None:
            raise PermissionDenied(
                "a tainted change would replace trusted text by text that clean sessions can't "
                "see; endorse it with a reason or reject it",
                rule="would-hide-trusted",
            )
        sources = change.sources if why is None else _UNLABELLED
        entry = self._entry(
            scope, change.path, change.description, change.content, sources, "accept", why
        )
        entry = replace(
            entry,
            author=change.author,
            source_session=change.source_session,
            login=change.login,
            based_on=change.digest,
            change_id=change.id,
        )
        return self._decide(scope, change, "accepted", "", entry, change.base_version)

    def reject(self, scope: str, change_id: str, note: str = "") -> None:
        """Close a change without serving it; `note` (at most 500 characters) is kept with it."""
        self._check(scope)
        limit = self.backend.limits.reason_chars
        note = clean(note, "note", self._policy.at(scope), limit=limit, one_line=False)
        standing = self._standing(scope, change_id)
        if standing.decision is not None:
            if standing.decision.outcome == "rejected":
                return
            raise _not_open(standing)
        if standing.state != "open":
            raise _not_open(standing)
        change = self._present(standing)
        decision = Decision(change, "rejected", self.name, change.digest, note, now())
        self.backend.decide(scope, decision, None, 0)

    def endorse(self, scope: str, path: str, digest: str, why: str) -> Entry:
        """Vouch for a labelled entry: publish the same text as a new version without the label.

        `digest` names the active version, `why` (1 to 500 characters) is recorded with the owner's
        name. The labelled version stays labelled in history.
        """
        self._check(scope)
        why = self._why(scope, why)
        entry = self._active(scope, path)
        if entry.act == "endorse" and entry.based_on is not None and _same(entry.based_on, digest):
            return entry
        if not _same(entry.digest, digest):
            raise ReviewMismatch(_text(digest), entry.digest)
        if not entry.tainted:
            raise InvalidArguments("the entry carries no label", rule="not-labelled")
        return self._publish_again(entry, entry, _UNLABELLED, "endorse", why)

    def get(self, scope: str, path: str) -> Entry | None:
        """Return the active entry at a path or handle, labelled or not; None if there is none."""
        self._check(scope)
        return self.backend.read(scope, scope, self._path(path))

    def history(self, scope: str, path: str) -> list[Entry]:
        """Return every version of a path with its provenance, oldest first."""
        self._check(scope)
        if is_handle(path):
            path = self._active(scope, path).path
        return self.backend.history(scope, check_path(path))

    def write(
        self,
        scope: str,
        path: str,
        content: str,
        description: str,
        *,
        expected_version: int | None = None,
        based_on: str | None = None,
    ) -> Entry:
        """Publish the owner's own text; None as `expected_version` means that there must be none.

        `based_on` is the id of an open change, which is thereby decided (`edited`), or the digest of
        a version; the text keeps the label of that base. Over a labelled version that version is
        the base unless another is named. Raises `VersionConflict`, `NotFound` for an unknown base.
        """
        self._check(scope)
        cuts = self._policy.at(scope)
        check_name(check_path(path), "path", cuts)
        expected = 0 if expected_version is None else expected_version
        if type(expected) is not int or expected < 0:
            raise InvalidArguments("expected_version: a version number or None")
        screened = screen(description, content, self.backend.limits, cuts)
        texts = (screened.description, screened.content)
        if based_on is not None and len(_text(based_on)) == 32:
            standing = self._standing(scope, based_on)
            if standing.decision is not None:
                entry = self._again(scope, standing, standing.decision.digest, "edited")
                if (entry.path, entry.description, entry.content) == (path, *texts):
                    return entry
                raise _not_open(standing)
            if standing.state != "open":
                raise _not_open(standing)
            change = self._present(standing)
            if change.path != path:
                raise InvalidArguments("based_on: that change is of another path")
            entry = self._entry(scope, path, *texts, change.sources, "edit", None)
            entry = replace(entry, based_on=change.digest, change_id=change.id)
            return self._decide(scope, change, "edited", "", entry, expected)
        over = self.backend.read(scope, scope, path)
        base = over if over is not None and over.tainted else None
        sources = base.sources if base is not None else _UNLABELLED
        if based_on is not None:
            base = self.backend.version_with(scope, based_on)
            if base is None:
                raise NotFound("no version has that digest, no change that id")
            # An older version of this path may be chosen over a labelled one; another path's text,
            # labelled or not, doesn't clear the label of what it is written over.
            if base.path == path:
                sources = base.sources
            else:
                sources = tuple(dict.fromkeys((*base.sources, *sources)))
        entry = self._entry(scope, path, *texts, sources, "write", None)
        entry = replace(entry, based_on=base.digest if base is not None else None)
        return self.backend.publish(scope, entry, expected)

    def restore(self, scope: str, path: str, digest: str) -> Entry:
        """Publish the text of the version with this digest again, with the label that it had.

        Raises `NotFound` if the path has no such version.
        """
        self._check(scope)
        versions = self.history(scope, path)
        named = next((entry for entry in versions if _same(entry.digest, digest)), None)
        if named is None:
            raise NotFound("no version of that path has that digest")
        current = next((entry for entry in versions if entry.status == "active"), None)
        if current is not None:
            again = current.act == "restore" and current.based_on == named.digest
            if again or current.digest == named.digest:
                return current
        return self._publish_again(named, current, named.sources, "restore", None)

    def retire(self, scope: str, path: str) -> None:
        """Stop serving a path; its history stays and `restore` brings it back.

        Retiring what is retired does nothing; a path that never was raises `NotFound`.
        """
        self._check(scope)
        if is_handle(path):
            path = self._active(scope, path).path
        self.backend.retire(scope, check_path(path), self.name)

    def clear_runs(self, scope: str) -> int:
        """Stop serving every run note of a container; marks stay. Returns how many notes there were."""
        self._check(scope)
        return self.backend.clear_runs(scope)

    # Shared steps.

    def _check(self, scope: str) -> None:
        refuse_beside_agent()
        cuts = self._policy.at(check_container(scope))
        if cuts.personal:  # which of them count is known here only
            check_name(self.name, "owner", cuts)
        self.backend.recover(check_name(scope, "scope", cuts))

    def _path(self, path: str) -> str:
        return path if isinstance(path, str) and is_handle(path) else check_path(path)

    def _why(self, scope: str, why: str) -> str:
        why = clean(why, "reason", self._policy.at(scope), limit=self.backend.limits.reason_chars)
        if not why.strip():
            raise InvalidArguments("reason: say why", rule="reason-needed")
        return why

    def _active(self, scope: str, path: str) -> Entry:
        entry = self.backend.read(scope, scope, self._path(path))
        if entry is None:
            raise NotFound("no active entry at that path")
        return entry

    def _present(self, standing: Standing) -> Change:
        return present(standing.change, self._policy)

    def _standing(self, scope: str, change_id: str) -> Standing:
        standing = self.backend.standing(scope, _text(change_id))
        if standing is None:
            raise NotFound("no change has that id")
        return standing

    def _reviewed(self, scope: str, standing: Standing, digest: str) -> Change:
        change = self._present(standing)
        if standing.successor is not None:
            successor = self.backend.standing(scope, standing.successor)
            if successor is None or successor.decision is not None:  # nothing to look at again
                raise _not_open(standing)
            raise ReviewMismatch(_text(digest), self._present(successor).digest)
        if not _same(change.digest, digest):
            raise ReviewMismatch(_text(digest), change.digest)
        base = None if change.base is None else change.base.digest
        if base != change.base_digest:
            if change.base is None:
                raise VersionConflict(change.base_version, 0)
            raise ReviewMismatch(change.digest, change.base.digest)
        return change

    def _again(self, scope: str, standing: Standing, digest: str, outcome: str) -> Entry:
        decision = standing.decision
        if decision is None or decision.outcome != outcome:
            raise _not_open(standing)
        if not _same(decision.digest, digest):
            raise ReviewMismatch(_text(digest), decision.digest)
        for entry in self.backend.history(scope, standing.change.path):
            if entry.change_id == standing.change.id:
                return entry
        raise _not_open(standing)

    def _entry(
        self,
        scope: str,
        path: str,
        description: str,
        content: str,
        sources: tuple[Source, ...],
        act: Act,
        why: str | None,
    ) -> Entry:
        return Entry(
            scope,
            path,
            0,
            description,
            content,
            bool(sources),
            sources,
            "",
            self.name,
            None,
            "active",
            date=now(),
            act=act,
            decided_by=self.name,
            why=why,
        )

    def _decide(
        self,
        scope: str,
        change: Change,
        outcome: Literal["accepted", "edited"],
        note: str,
        entry: Entry,
        expected: int,
    ) -> Entry:
        decision = Decision(change, outcome, self.name, change.digest, note, entry.date)
        published = self.backend.decide(scope, decision, entry, expected)
        if published is None:  # the contract promises an entry for an entry
            raise StoreFailed("the decision published nothing")
        return published

    def _publish_again(
        self,
        text: Entry,
        over: Entry | None,
        sources: tuple[Source, ...],
        act: Act,
        why: str | None,
    ) -> Entry:
        cuts = self._policy.at(text.scope)
        if any(cut(one, cuts) != one for one in (text.path, text.description, text.content)):
            raise PermissionDenied(
                "the text of that version holds what is cut by now: write it anew",
                rule="text-policy",
            )
        entry = self._entry(
            text.scope, text.path, text.description, text.content, sources, act, why
        )
        entry = replace(
            entry,
            author=text.author,
            source_session=text.source_session,
            login=text.login,
            based_on=text.digest,
        )
        return self.backend.publish(text.scope, entry, over.version if over else 0)


def _text(value: object) -> str:
    return check_text(value, "id or digest", limit=200, unit="characters", one_line=True)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), _text(other).encode())


def _not_open(standing: Standing) -> NotFound:
    return NotFound(f"that change is not open any more: {standing.state}", rule="not-open")
