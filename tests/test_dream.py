"""A dreaming job reads a snapshot and proposes, and can do nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sams_core import (
    AgentSession,
    Backend,
    DreamerSession,
    InvalidArguments,
    LimitExceeded,
    Owner,
    PermissionDenied,
    ScopeError,
    SQLiteBackend,
    VersionConflict,
)

Open = Callable[..., AgentSession]
ACME = "tenant:acme"


@pytest.fixture
def dreamer(backend: Backend) -> DreamerSession:
    return DreamerSession(backend, job_id="nightly", scope=ACME)


@pytest.fixture
def filled(backend: Backend, owner: Owner, open_clean: Open, publish: Any) -> None:
    clean, dirty = open_clean(backend, "clean"), open_clean(backend, "dirty")
    dirty.mark_tainted("a page")
    for name, session in (("clean", clean), ("dirty", dirty)):
        publish(owner, session, f"{name}-entry", "c")
        session.memory_write("assigned", f"{name}-change", "c", "d")
        session.memory_write("run", f"{name}-note", "c", "d")


@pytest.mark.usefixtures("filled")
def test_a_snapshot_holds_entries_changes_and_notes_of_its_partition(
    dreamer: DreamerSession,
) -> None:
    every = dreamer.snapshot()
    assert [
        [item.path for item in part] for part in (every.entries, every.changes, every.notes)
    ] == [
        ["clean-entry", "dirty-entry"],
        ["clean-change", "dirty-change"],
        ["clean-note", "dirty-note"],
    ]
    clean = dreamer.snapshot("clean")
    assert [
        [item.path for item in part] for part in (clean.entries, clean.changes, clean.notes)
    ] == [
        ["clean-entry"],
        ["clean-change"],
        ["clean-note"],
    ]
    with pytest.raises(InvalidArguments):
        dreamer.snapshot("some")  # type: ignore[arg-type]


@pytest.mark.usefixtures("filled")
def test_a_proposal_is_as_tainted_as_what_the_job_has_read(
    backend: Backend, dreamer: DreamerSession
) -> None:
    dreamer.snapshot("clean")
    clean = dreamer.propose("a", "c", "d", evidence=["dirty: a page", "logs/s-1.jsonl"])
    assert not clean.tainted
    assert clean.evidence == ("dirty: a page", "logs/s-1.jsonl")
    dreamer.snapshot("all")
    assert [s.name for s in dreamer.propose("b", "c", "d").sources] == ["a page"]
    dreamer.snapshot("clean")
    assert dreamer.propose("c", "c", "d").tainted
    again = DreamerSession(backend, job_id="nightly", scope=ACME)
    again.snapshot("clean")
    assert again.propose("d", "c", "d").tainted


@pytest.mark.usefixtures("filled")
def test_what_a_job_reads_in_one_process_taints_what_it_proposes_in_another(
    backend: Backend, dreamer: DreamerSession
) -> None:
    here = backend
    if isinstance(backend, SQLiteBackend):  # another object knows what another process does
        here = SQLiteBackend(backend.folders.base)
    dreamer.snapshot("clean")
    DreamerSession(here, job_id="nightly", scope=ACME).snapshot("all")
    assert [s.name for s in dreamer.propose("p", "c", "d").sources] == ["a page"]


def test_what_was_cleared_from_the_scratchpads_does_not_clear_a_proposal(
    backend: Backend, owner: Owner, open_clean: Open, dreamer: DreamerSession
) -> None:
    dirty = open_clean(backend, "dirty")
    dirty.mark_tainted("a page")
    dirty.memory_write("run", "n", "c", "d")
    dreamer.snapshot()
    owner.clear_runs(ACME)
    assert dreamer.propose("p", "c", "d").tainted


def test_proposing_before_reading_is_refused(dreamer: DreamerSession) -> None:
    with pytest.raises(PermissionDenied) as caught:
        dreamer.propose("p", "c", "d")
    assert caught.value.rule == "snapshot-first"


def test_a_proposal_waits_for_the_owner_like_any_change(
    backend: Backend, dreamer: DreamerSession, owner: Owner
) -> None:
    owner.write(ACME, "p", "old", "d")
    dreamer.snapshot()
    proposal = dreamer.propose("p", "new", "d", rationale="seen often", occurrences=7)
    assert owner.changes(ACME) == [proposal]
    assert owner.get(ACME, "p").content == "old"  # type: ignore[union-attr]
    assert (proposal.kind, proposal.base_version, proposal.author) == ("proposal", 1, "nightly")
    assert (proposal.rationale, proposal.occurrences, proposal.source_session) == (
        "seen often",
        7,
        None,
    )
    assert owner.accept(ACME, proposal.id, proposal.digest).version == 2
    with pytest.raises(VersionConflict):
        dreamer.propose("p", "stale", "d")


def test_a_second_proposal_for_a_path_supersedes_the_jobs_first(
    backend: Backend, dreamer: DreamerSession, owner: Owner
) -> None:
    dreamer.snapshot()
    first = dreamer.propose("p", "one", "d")
    second = dreamer.propose("p", "two", "d")
    other = DreamerSession(backend, job_id="weekly", scope=ACME)
    other.snapshot()
    third = other.propose("p", "three", "d")
    assert owner.changes(ACME) == [second, third]
    assert second.supersedes == (first.id,)
    assert third.supersedes == ()


def test_a_job_has_no_other_verb() -> None:
    public = {name for name in dir(DreamerSession) if not name.startswith("_")}
    assert public == {"snapshot", "propose"}


def test_a_job_and_a_session_of_one_name_are_unrelated(
    backend: Backend, dreamer: DreamerSession, owner: Owner, open_clean: Open
) -> None:
    session = open_clean(backend, "nightly", agent="nightly")
    session.memory_write("assigned", "p", "session's", "d")
    dreamer.snapshot()
    dreamer.propose("p", "job's", "d")
    assert len(owner.changes(ACME)) == 2
    assert session.memory_read("assigned", "p").content == "session's"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"rationale": "x" * 2_001}, LimitExceeded),
        ({"evidence": ["x"] * 21}, LimitExceeded),
        ({"evidence": ["x" * 201]}, LimitExceeded),
        ({"evidence": ["two\nlines"]}, InvalidArguments),
        ({"evidence": "abc"}, InvalidArguments),
        ({"evidence": None}, InvalidArguments),
        ({"evidence": {"abc"}}, InvalidArguments),
        ({"evidence": [7]}, InvalidArguments),
        ({"occurrences": 0}, InvalidArguments),
        ({"occurrences": True}, InvalidArguments),
        ({"occurrences": 10**7}, InvalidArguments),
    ],
)
def test_proposals_of_another_form_are_refused(
    more: dict[str, Any], error: type[Exception], dreamer: DreamerSession, owner: Owner
) -> None:
    dreamer.snapshot()
    with pytest.raises(error):
        dreamer.propose("p", "c", "d", **more)
    assert owner.changes(ACME) == []


def test_every_text_of_a_proposal_is_redacted(dreamer: DreamerSession) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    dreamer.snapshot()
    proposal = dreamer.propose("p", secret, secret, rationale=secret, evidence=[secret])
    assert secret not in repr(proposal) + proposal.diff()
    with pytest.raises(InvalidArguments):
        dreamer.propose(secret, "c", "d")


def test_a_job_has_one_container(backend: Backend) -> None:
    for scope in ("run:s1", "tenant:", "*"):
        with pytest.raises(ScopeError):
            DreamerSession(backend, job_id="j", scope=scope)


def test_a_clean_partition_shows_no_labelled_base_of_a_clean_change(
    backend: Backend, owner: Owner, open_clean: Open, publish: Any, dreamer: DreamerSession
) -> None:
    dirty = open_clean(backend, "dirty")
    dirty.mark_tainted("a page")
    publish(owner, dirty, "p", "POISON")
    open_clean(backend, "clean").memory_write("assigned", "p", "harmless", "d", 1)
    assert dreamer.snapshot("clean").changes == ()
    assert not dreamer.propose("q", "c", "d").tainted
    change = dreamer.snapshot("all").changes[0]
    assert "POISON" in change.diff()
    assert dreamer.propose("q", "c", "d").tainted


def test_the_label_of_a_changes_base_marks_what_a_job_has_read(
    backend: Backend, owner: Owner, open_clean: Open, publish: Any, dreamer: DreamerSession
) -> None:
    dirty = open_clean(backend, "dirty")
    dirty.mark_tainted("a page")
    labelled = publish(owner, dirty, "p", "POISON")
    open_clean(backend, "clean").memory_write("assigned", "p", "harmless", "d", 1)
    owner.endorse(ACME, "p", labelled.digest, "checked")
    snapshot = dreamer.snapshot("all")
    assert not any(entry.tainted for entry in snapshot.entries)
    assert "POISON" in snapshot.changes[-1].diff()
    assert dreamer.propose("q", "c", "d").tainted
