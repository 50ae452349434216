"""The dreaming job's side: it reads a snapshot and proposes; it can do nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sams_core.backend import Backend
from sams_core.errors import InvalidArguments, LimitExceeded, PermissionDenied
from sams_core.records import Change, Draft, SessionKey, Snapshot
from sams_core.redaction import policy_of
from sams_core.review import present
from sams_core.scopes import check_container, check_id, check_path
from sams_core.screen import check_name, clean, screen


class DreamerSession:
    """A scheduled job over one container; `job_id` is an id of 1 to 200 printable characters.

    Its proposals are as tainted as the most tainted thing in the partitions it has read, whatever
    they cite. It has no way to write, accept or reject.
    """

    def __init__(self, backend: Backend, *, job_id: str, scope: str) -> None:
        self.backend = backend
        self._policy = policy_of(backend)
        self._cuts = self._policy.at(check_container(scope))
        self.job_id = check_name(check_id(job_id, "job_id"), "job_id", self._cuts)
        self.scope = check_name(scope, "scope", self._cuts)
        self._versions: dict[str, int] | None = None

    def snapshot(self, partition: Literal["clean", "all"] = "all") -> Snapshot:
        """Return entries, open changes and run notes; `clean` leaves out all that is tainted."""
        if partition not in ("clean", "all"):
            raise InvalidArguments('partition: "clean" or "all"')
        entries, changes, notes = self.backend.snapshot(self.scope, self.job_id, partition)
        self._versions = {entry.path: entry.version for entry in entries}
        return Snapshot(
            entries, tuple(present(change, self._policy) for change in changes), notes, partition
        )

    def propose(
        self,
        path: str,
        content: str,
        description: str,
        *,
        rationale: str = "",
        evidence: Sequence[str] = (),
        occurrences: int = 1,
    ) -> Change:
        """Queue a proposal for the owner; `snapshot` comes first (rule `snapshot-first`).

        `content` and `description` as in `memory_write`; `rationale` at most 2,000 characters;
        `evidence` at most 20 one-line strings of 200 characters, shown as claimed and never opened;
        `occurrences` 1 to 1,000,000. All texts are redacted. The base is the version in the snapshot.
        """
        if self._versions is None:
            raise PermissionDenied("take a snapshot before proposing", rule="snapshot-first")
        limits = self.backend.limits
        check_name(check_path(path), "path", self._cuts)
        if isinstance(evidence, str) or not isinstance(evidence, Sequence):
            raise InvalidArguments("evidence: a sequence of strings")
        if len(evidence) > limits.evidence_items:
            raise LimitExceeded("evidence, items", limits.evidence_items, len(evidence))
        if type(occurrences) is not int or not 1 <= occurrences <= 1_000_000:
            raise InvalidArguments("occurrences: 1 to 1000000")
        screened = screen(description, content, limits, self._cuts)
        cuts = self._cuts
        cited = tuple(
            clean(item, "evidence", cuts, limit=limits.evidence_chars) for item in evidence
        )
        reason = clean(rationale, "rationale", cuts, limit=limits.rationale_chars, one_line=False)
        key = SessionKey(self.scope, self.job_id, self.job_id, self.job_id)
        draft = Draft(
            key,
            self.scope,
            path,
            "proposal",
            screened.description,
            screened.content,
            self._versions.get(path, 0),
            screened.flags,
            None,
            reason,
            cited,
            occurrences,
        )
        return present(self.backend.submit(draft).change, self._policy)
