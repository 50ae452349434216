"""C8: a dreaming job reads a snapshot and proposes; a human decides each proposal."""

from __future__ import annotations

from typing import Any

from sams_conformance.driver import Subject, needs_durable
from sams_conformance.process import process
from sams_conformance.support import (
    ACME,
    ORIGIN,
    SECRET,
    agent,
    dreamer,
    marked,
    owner,
    publish,
    publish_labelled,
    queued,
    refused,
    whole_index,
)
from sams_core.errors import (
    InvalidArguments,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    SamsError,
    VersionConflict,
)


def _job(deployment: Subject, partition: str = "all", job_id: str = "job-1") -> Any:
    job = dreamer(deployment, job_id=job_id)
    job.snapshot(partition)
    return job


def test_a_job_has_no_verb_but_snapshot_and_propose(deployment: Subject) -> None:
    """Nothing on it writes, accepts, rejects, endorses, restores or marks."""
    job = dreamer(deployment)
    callables = {
        name
        for name in dir(job)
        if not name.startswith("_") and name != "backend" and callable(getattr(job, name))
    }
    assert callables == {"snapshot", "propose"}


def test_proposing_before_reading_is_refused(deployment: Subject) -> None:
    """Without a snapshot nobody knows what a proposal was made from."""
    job = dreamer(deployment)
    with refused(PermissionDenied):
        job.propose("facts", "x", "d")
    assert not owner(deployment).changes(ACME)
    _job(deployment)
    with refused(PermissionDenied):
        dreamer(deployment, job_id="job-2").propose("facts", "x", "d")


def test_a_snapshot_holds_entries_changes_and_notes(deployment: Subject) -> None:
    """Everything of the container is in `all`; nothing retired, decided or of org."""
    publish(deployment, "facts", "curated")
    publish(deployment, "gone", "retired")
    owner(deployment).retire(ACME, "gone")
    publish(deployment, "rules", "of everybody", scope="org")
    session = agent(deployment)
    session.memory_write("assigned", "pending", "waiting", "d")
    session.memory_write("run", "n", "a note", "d")
    snapshot = dreamer(deployment).snapshot("all")
    assert [entry.content for entry in snapshot.entries] == ["curated"]
    assert [change.content for change in snapshot.changes] == ["waiting"]
    assert [note.content for note in snapshot.notes] == ["a note"]
    assert snapshot.partition == "all"


def test_the_clean_partition_leaves_out_all_that_is_tainted(deployment: Subject) -> None:
    """Labelled entries, marked sessions' changes and notes are in `all` only."""
    publish(deployment, "ours", "clean entry")
    publish_labelled(deployment, "outside", "tainted entry")
    clean, dirty = agent(deployment, "s-clean"), marked(deployment)
    clean.memory_write("assigned", "c", "clean change", "d")
    clean.memory_write("run", "c", "clean note", "d")
    dirty.memory_write("assigned", "d", "tainted change", "d")
    dirty.memory_write("run", "d", "tainted note", "d")
    job = dreamer(deployment)
    some, everything = job.snapshot("clean"), job.snapshot("all")
    assert "tainted" not in {
        item.content.split()[0] for item in (*some.entries, *some.changes, *some.notes)
    }
    assert (len(some.entries), len(some.changes), len(some.notes)) == (1, 1, 1)
    counts = (len(everything.entries), len(everything.changes), len(everything.notes))
    assert counts == (2, 2, 2)
    with refused(SamsError):
        job.snapshot("dirty")


def test_a_proposal_is_queued_and_served_to_nobody(deployment: Subject) -> None:
    """It is a change of kind `proposal` with its rationale, evidence and count."""
    publish(deployment, "facts", "the old fact")
    proposed = _job(deployment, job_id="nightly").propose(
        "facts",
        "the new fact",
        "d",
        rationale="three sessions\nagree",
        evidence=("run s-1, note a", "run s-2, note b"),
        occurrences=3,
    )
    (change,) = owner(deployment).changes(ACME, "proposal")
    assert change == queued(deployment, proposed.id)
    assert change.digest == proposed.digest
    assert (change.kind, change.author, change.base_version) == ("proposal", "nightly", 1)
    assert change.rationale == "three sessions\nagree"
    assert change.evidence == ("run s-1, note a", "run s-2, note b")
    assert change.occurrences == 3
    assert owner(deployment).changes(ACME, "write") == []
    reader = agent(deployment)
    assert reader.memory_read("assigned", "facts").content == "the old fact"
    assert reader.memory_read("assigned", "facts").pending is None
    assert not reader.memory_search("assigned", "new").items
    assert len(owner(deployment).history(ACME, "facts")) == 1


def test_an_accepted_proposal_is_served_and_a_rejected_one_is_gone(deployment: Subject) -> None:
    """A human decides each one, by its digest."""
    job = _job(deployment)
    good, bad = job.propose("good", "kept", "d"), job.propose("bad", "dropped", "d")
    boss = owner(deployment)
    boss.accept(ACME, good.id, queued(deployment, good.id).digest)
    boss.reject(ACME, bad.id, "no")
    assert [x.path for x in whole_index(agent(deployment), "assigned")] == ["good"]
    assert boss.changes(ACME) == []


def test_a_proposal_is_as_tainted_as_the_partition_that_was_read(deployment: Subject) -> None:
    """One tainted thing of any kind in `all` taints every proposal; `clean` doesn't."""
    publish(deployment, "ours", "clean entry")
    assert not _job(deployment, "all", "job-before").propose("p", "x", "d").tainted
    marked(deployment, "s-1").memory_write("run", "n", "x", "d")
    assert _job(deployment, "all", "job-note").propose("p", "x", "d").tainted
    assert not _job(deployment, "clean", "job-clean").propose("p", "x", "d").tainted
    owner(deployment).clear_runs(ACME)
    receipt = marked(deployment, "s-2").memory_write("assigned", "c", "x", "d")
    assert _job(deployment, "all", "job-change").propose("p2", "x", "d").tainted
    change = queued(deployment, receipt.change_id)
    owner(deployment).accept(ACME, change.id, change.digest)
    assert _job(deployment, "all", "job-entry").propose("p3", "x", "d").tainted
    proposed = queued(deployment, _job(deployment, "all", "job-why").propose("p4", "x", "d").id)
    assert proposed.tainted
    assert any(ORIGIN in (source.origin or "") for source in proposed.sources)


def test_what_a_job_cites_cant_lower_its_taint(deployment: Subject) -> None:
    """Evidence is shown as claimed; citing a clean session, or nothing, changes nothing."""
    publish_labelled(deployment, "outside", "tainted entry")
    agent(deployment, "s-clean").memory_write("run", "n", "clean note", "d")
    job = _job(deployment)
    for number, evidence in enumerate(((), ("session s-clean",), ("logs/2026.jsonl", "clean"))):
        proposed = job.propose(f"p{number}", "x", "d", rationale="clean", evidence=evidence)
        change = queued(deployment, proposed.id)
        assert change.tainted
        assert change.evidence == evidence


def test_a_later_clean_snapshot_doesnt_wash_a_job(deployment: Subject) -> None:
    """What a job has read it has read; other jobs haven't."""
    publish_labelled(deployment, "outside", "tainted entry")
    job = _job(deployment, "all")
    job.snapshot("clean")
    assert job.propose("p", "x", "d").tainted
    owner(deployment).retire(ACME, "outside")
    job.snapshot("all")
    assert job.propose("p2", "x", "d").tainted, "the source is gone, but it was read"
    assert not _job(deployment, "clean", "job-other").propose("p3", "x", "d").tainted


def test_a_job_that_is_opened_again_has_read_what_it_had_read(deployment: Subject) -> None:
    """The same job id is the same job, in this process or the next."""
    publish_labelled(deployment, "outside", "tainted entry")
    _job(deployment, "all")
    assert _job(deployment, "clean").propose("p", "x", "d").tainted


def test_an_accepted_tainted_proposal_is_labelled(deployment: Subject) -> None:
    """Consolidation launders nothing."""
    publish_labelled(deployment, "outside", "tainted entry")
    proposed = _job(deployment).propose("summary", "what the pages said", "d")
    change = queued(deployment, proposed.id)
    assert owner(deployment).accept(ACME, change.id, change.digest).tainted
    reader = agent(deployment, "s-reader")
    assert "pages said" not in reader.context_block()
    reader.memory_read("assigned", "summary")
    assert reader.tainted


def test_a_proposal_on_a_version_that_moved_conflicts(deployment: Subject) -> None:
    """Its base is the snapshot's version: newer text is never overwritten unseen."""
    publish(deployment, "facts", "one")
    early, late = _job(deployment, job_id="early"), _job(deployment, job_id="late")
    proposed = early.propose("facts", "tidied", "d")
    publish(deployment, "facts", "two", version=1)
    change = queued(deployment, proposed.id)
    with refused(VersionConflict):
        owner(deployment).accept(ACME, change.id, change.digest)
    with refused(VersionConflict):
        late.propose("facts", "tidied too", "d")
    assert owner(deployment).get(ACME, "facts").content == "two"


def test_a_proposal_and_a_write_of_one_path_are_both_open(deployment: Subject) -> None:
    """A job can't supersede an agent's change, whatever its job id is."""
    written = agent(deployment, "job-1").memory_write("assigned", "p", "by an agent", "d")
    proposed = _job(deployment, job_id="job-1").propose("p", "by a job", "d")
    changes = owner(deployment).changes(ACME)
    assert [change.id for change in changes] == [written.change_id, proposed.id]
    assert not any(change.supersedes for change in changes)


def test_a_jobs_texts_are_bounded_and_redacted(deployment: Subject) -> None:
    """Evidence is one-line strings of 200 characters; secrets are cut out of every text."""
    job = _job(deployment)
    for more in (
        {"evidence": ("two\nlines",)},
        {"evidence": ("x" * 201,)},
        {"evidence": ("x",) * 10_000},
        {"evidence": (7,)},
        {"rationale": "x" * 100_000},
        {"occurrences": 0},
        {"occurrences": "many"},
    ):
        with refused(InvalidArguments, LimitExceeded, note=str(more)[:80]):
            job.propose("p", "x", "d", **more)
    for path in ("../p", "untrusted/0123abcd", "", SECRET):
        with refused(SamsError, note=path):
            job.propose(path, "x", "d")
    assert not owner(deployment).changes(ACME)
    job.propose("p", SECRET, SECRET, rationale=f"saw {SECRET}", evidence=(f"note: {SECRET}",))
    (change,) = owner(deployment).changes(ACME)
    assert SECRET not in str(change.to_dict())


def test_a_jobs_flags_and_text_are_reviewed_like_an_agents(deployment: Subject) -> None:
    """A digest that was shown for other text accepts nothing."""
    job = _job(deployment)
    first = queued(deployment, job.propose("p", "harmless", "d").id)
    owner(deployment).reject(ACME, first.id)
    second = queued(deployment, job.propose("p", "evil", "d").id)
    for change_id, digest in ((second.id, first.digest), (first.id, first.digest)):
        with refused(SamsError):
            owner(deployment).accept(ACME, change_id, digest)
    with refused(NotFound):
        agent(deployment).memory_read("assigned", "p")


@needs_durable
def test_a_proposal_survives_its_process_and_a_snapshot_doesnt(deployment: Subject) -> None:
    """What was queued is there for the owner; a new process reads before it proposes."""
    publish_labelled(deployment, "outside", "tainted entry")
    with process(deployment) as there:
        job = there.dreamer(job_id="job-1")
        assert len(job.call("snapshot", "all")["entries"]) == 1
        proposed = job.call("propose", "p", "x", "d", evidence=["a note"])
        assert proposed["tainted"]
    change = queued(deployment, proposed["id"])
    assert (change.tainted, change.evidence) == (True, ("a note",))
    assert change.digest == proposed["digest"]
    with process(deployment) as there, refused(PermissionDenied):
        there.dreamer(job_id="job-1").call("propose", "p2", "x", "d")


@needs_durable
def test_what_a_job_has_read_outlives_its_process(deployment: Subject) -> None:
    """Reopened in another process and given the clean partition, it is still tainted."""
    publish_labelled(deployment, "outside", "tainted entry")
    with process(deployment) as there:
        there.dreamer(job_id="job-1").call("snapshot", "all")
    assert _job(deployment, "clean").propose("p2", "x", "d").tainted
