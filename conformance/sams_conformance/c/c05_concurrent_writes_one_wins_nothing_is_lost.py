"""C5: of concurrent writes on one base one wins, the others conflict with numbers, no text is lost."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from sams_conformance.driver import Subject
from sams_conformance.support import (
    ACME,
    OTHER,
    accept,
    agent,
    owner,
    publish,
    queued,
    race,
    refused,
    split,
    tampered,
    whole_index,
)
from sams_conformance.worker import count_up
from sams_core.errors import NotFound, ReviewMismatch, SamsError, VersionConflict

CROWD = 8


def _numbers(conflict: Any) -> tuple[int, int]:
    assert isinstance(conflict, VersionConflict), repr(conflict)
    return conflict.expected or 0, conflict.found or 0


def _decide(boss: Any, act: str, change: Any) -> Any:
    if act == "accept":
        return boss.accept(ACME, change.id, change.digest)
    return boss.reject(ACME, change.id)


def test_of_two_changes_on_one_base_the_second_conflicts_and_is_kept(deployment: Subject) -> None:
    """Accepting the first moves the base; the second is refused and its text stays in the queue."""
    publish(deployment, "facts", "version one")
    first, second = (
        agent(deployment, f"s-{n}").memory_write("assigned", "facts", f"text {n}", "d", 1)
        for n in range(2)
    )
    loser = queued(deployment, second.change_id)
    accept(deployment, first.change_id)
    with refused(VersionConflict) as refusal:
        owner(deployment).accept(ACME, loser.id, loser.digest)
    assert _numbers(refusal.error) == (1, 2)
    (kept,) = owner(deployment).changes(ACME)
    assert (kept.id, kept.content, kept.base_version) == (loser.id, "text 1", 1)
    contents = [entry.content for entry in owner(deployment).history(ACME, "facts")]
    assert contents == ["version one", "text 0"]


def test_two_new_entries_of_one_path_conflict(deployment: Subject) -> None:
    """ "Must not exist" is a base like any other."""
    ids = [
        agent(deployment, f"s-{n}").memory_write("assigned", "new", f"text {n}", "d").change_id
        for n in range(2)
    ]
    loser = queued(deployment, ids[1])
    accept(deployment, ids[0])
    with refused(VersionConflict) as refusal:
        owner(deployment).accept(ACME, loser.id, loser.digest)
    assert _numbers(refusal.error) == (0, 1)
    assert queued(deployment, ids[1]).content == "text 1"


def test_an_agent_with_an_old_base_is_told_at_once(deployment: Subject) -> None:
    """A write on a version that is gone is refused when it is submitted; nothing is queued."""
    publish(deployment, "facts")
    publish(deployment, "facts", "two", version=1)
    session = agent(deployment)
    with refused(VersionConflict) as refusal:
        session.memory_write("assigned", "facts", "stale", "d", 1)
    assert _numbers(refusal.error) == (1, 2)
    assert not owner(deployment).changes(ACME)
    assert session.memory_write("assigned", "facts", "fresh", "d", 2).version == 2


def test_of_many_owners_accepting_rival_changes_one_wins(deployment: Subject) -> None:
    """Each owner accepts another change of one base at the same time."""
    publish(deployment, "facts", "version one")
    for n in range(CROWD):
        agent(deployment, f"s-{n}").memory_write("assigned", "facts", f"text {n}", "d", 1)
    changes = owner(deployment).changes(ACME)
    owners = [owner(deployment, name=f"owner-{n}") for n in range(CROWD)]
    winners, losers = split(
        race(
            [
                partial(boss.accept, ACME, change.id, change.digest)
                for boss, change in zip(owners, changes, strict=True)
            ]
        )
    )
    assert len(winners) == 1
    assert {_numbers(loser) for loser in losers} == {(1, 2)}
    history = owner(deployment).history(ACME, "facts")
    assert [entry.version for entry in history] == [1, 2]
    kept = {change.content for change in owner(deployment).changes(ACME)}
    assert kept | {winners[0].content} == {f"text {n}" for n in range(CROWD)}
    assert len(kept) == CROWD - 1


def test_of_many_owners_writing_one_version_one_wins(deployment: Subject) -> None:
    """Owners' own texts compare and set like everything else, first version and later."""
    for expected in (None, 1, 2):
        jobs = [
            partial(
                owner(deployment, name=f"owner-{n}").write,
                ACME,
                "facts",
                f"text {n} on {expected}",
                "d",
                expected_version=expected,
            )
            for n in range(CROWD)
        ]
        winners, losers = split(race(jobs))
        assert len(winners) == 1
        assert winners[0].version == (expected or 0) + 1
        assert {_numbers(loser) for loser in losers} == {(expected or 0, (expected or 0) + 1)}
    assert len(owner(deployment).history(ACME, "facts")) == 3


def test_the_same_decision_by_many_owners_is_one_decision(deployment: Subject) -> None:
    """All get the same entry; there is one version."""
    owners = [owner(deployment, name=f"owner-{n}") for n in range(CROWD)]
    for round_ in range(10):
        path = f"facts-{round_}"
        receipt = agent(deployment).memory_write("assigned", path, "text", "d")
        change = queued(deployment, receipt.change_id)
        entries, refusals = split(
            race([partial(boss.accept, ACME, change.id, change.digest) for boss in owners])
        )
        assert not refusals, repr(refusals)
        assert len({entry.digest for entry in entries}) == 1
        assert len(owner(deployment).history(ACME, path)) == 1


def test_accepting_and_rejecting_one_change_has_one_outcome(deployment: Subject) -> None:
    """Either it is served or it is not; the other owner is told."""
    for round_ in range(6):
        path = f"facts-{round_}"
        receipt = agent(deployment).memory_write("assigned", path, "text", "d")
        change = queued(deployment, receipt.change_id)
        one, two = owner(deployment, name="one"), owner(deployment, name="two")
        accepted, rejected = race(
            [
                partial(one.accept, ACME, change.id, change.digest),
                partial(two.reject, ACME, change.id),
            ]
        )
        served = owner(deployment).get(ACME, path)
        if isinstance(accepted, SamsError):
            assert served is None
            assert rejected is None
        else:
            assert served is not None
            assert isinstance(rejected, NotFound)
        assert not owner(deployment).changes(ACME)


def test_a_decision_that_comes_second_by_a_hair_is_told(deployment: Subject) -> None:
    """Between an owner's look and their decision another owner decides: one outcome, one truth."""
    for mine, theirs in (("reject", "accept"), ("accept", "reject")):
        path = f"{mine}-{theirs}"
        receipt = agent(deployment).memory_write("assigned", path, "text", "d")
        change = queued(deployment, receipt.change_id)

        faster = [partial(_decide, owner(deployment, name="faster"), theirs, change)]

        def decide(real: Any, *args: Any, first: list[Any] = faster) -> Any:
            if first:
                first.pop()()
            return real.decide(*args)

        backend = tampered(deployment, "owner", ACME, decide=decide)
        with refused(NotFound, note=f"{mine} after {theirs}"):
            _decide(owner(deployment, backend=backend), mine, change)
        assert (owner(deployment).get(ACME, path) is not None) == (theirs == "accept")


def test_sessions_that_write_one_path_at_once_are_all_queued(deployment: Subject) -> None:
    """No session's change displaces another's."""
    sessions = [agent(deployment, f"s-{n}") for n in range(CROWD)]
    receipts, refusals = split(
        race(
            [
                partial(session.memory_write, "assigned", "facts", f"text {n}", "d")
                for n, session in enumerate(sessions)
            ]
        )
    )
    assert not refusals, repr(refusals)
    changes = owner(deployment).changes(ACME)
    assert {change.id for change in changes} == {receipt.change_id for receipt in receipts}
    assert {change.content for change in changes} == {f"text {n}" for n in range(CROWD)}


def _rewrites_at_once(deployment: Subject) -> set[str]:
    """Have one session, held open several times, write one path at once; return the changes' ids."""
    sessions = [agent(deployment) for _ in range(CROWD)]
    receipts, refusals = split(
        race(
            [
                partial(session.memory_write, "assigned", "facts", f"text {n}", "d")
                for n, session in enumerate(sessions)
            ]
        )
    )
    assert not refusals, repr(refusals)
    ids = {receipt.change_id for receipt in receipts}
    assert len(ids) == CROWD
    return ids


def test_one_sessions_rewrites_at_once_are_all_accounted_for(deployment: Subject) -> None:
    """Every acknowledged write is open or named by what superseded it; the next one replaces all."""
    ids = _rewrites_at_once(deployment)
    changes = owner(deployment).changes(ACME)
    assert ids == {change.id for change in changes} | {i for c in changes for i in c.supersedes}
    last = agent(deployment).memory_write("assigned", "facts", "the last word", "d")
    (change,) = owner(deployment).changes(ACME)
    assert (change.id, change.content) == (last.change_id, "the last word")
    assert ids <= set(change.supersedes)


def test_one_sessions_rewrites_at_once_leave_one_change(deployment: Subject) -> None:
    """A session and path have one open change, also where several processes race to replace it."""
    ids = _rewrites_at_once(deployment)
    (change,) = owner(deployment).changes(ACME)
    assert {change.id, *change.supersedes} == ids


def test_of_threads_that_create_one_note_one_wins(deployment: Subject) -> None:
    """Notes compare and set too."""
    sessions = [agent(deployment) for _ in range(CROWD)]
    winners, losers = split(
        race(
            [
                partial(session.memory_write, "run", "n", f"text {n}", "d")
                for n, session in enumerate(sessions)
            ]
        )
    )
    assert len(winners) == 1
    assert {_numbers(loser) for loser in losers} == {(0, 1)}
    assert len(whole_index(sessions[0], "run")) == 1


def test_counting_in_a_note_loses_no_step(deployment: Subject) -> None:
    """Threads add to one number, reading again after each conflict."""
    sessions = [agent(deployment) for _ in range(4)]
    race([partial(count_up, session, "run", "counter", 10) for session in sessions])
    note = sessions[0].memory_read("run", "counter")
    assert (note.content, note.version) == ("40", 40)


def test_a_rewrite_beside_an_accept_is_never_promoted_unseen(deployment: Subject) -> None:
    """What is served is what was reviewed, and the newer text is still in the queue."""
    for round_ in range(12):
        path = f"facts-{round_}"
        session = agent(deployment)
        receipt = session.memory_write("assigned", path, "reviewed", "d")
        change = queued(deployment, receipt.change_id)
        accepted, rewritten = race(
            [
                partial(owner(deployment).accept, ACME, change.id, change.digest),
                partial(session.memory_write, "assigned", path, "unseen", "d"),
            ]
        )
        served = owner(deployment).get(ACME, path)
        waiting = [c.content for c in owner(deployment).changes(ACME) if c.path == path]
        if isinstance(accepted, SamsError):
            assert isinstance(accepted, ReviewMismatch), repr(accepted)
            assert served is None
        else:
            assert served is not None
            assert served.content == "reviewed"
        if isinstance(rewritten, SamsError):
            assert _numbers(rewritten) == (0, 1)
            assert waiting == []
        else:
            assert waiting == ["unseen"]
        for left in owner(deployment).changes(ACME):
            owner(deployment).reject(ACME, left.id)


def test_a_repeated_tool_call_answers_alike_and_stores_once(deployment: Subject) -> None:
    """A replay is the same family, call id and arguments; in threads or one after another."""
    write = {"scope": "assigned", "path": "facts", "content": "text", "description": "d"}
    sessions = [agent(deployment) for _ in range(CROWD)]
    answers = race(
        [
            partial(session.call_tool, "memory_write", write, call_id="call-1")
            for session in sessions
        ]
    )
    again = agent(deployment).call_tool("memory_write", json.dumps(write), call_id="call-1")
    assert {*answers, again} == {again}
    assert "error" not in json.loads(again)
    (change,) = owner(deployment).changes(ACME)
    assert not change.supersedes
    note = write | {"scope": "run"}
    notes = [agent(deployment).call_tool("memory_write", note, call_id="call-2") for _ in range(2)]
    assert notes[0] == notes[1]
    assert agent(deployment).memory_read("run", "facts").version == 1


def test_a_call_that_differs_is_another_write(deployment: Subject) -> None:
    """Another call id, other arguments, another family or container: not a replay."""
    write = {"scope": "assigned", "path": "facts", "content": "text", "description": "d"}
    calls = (
        (agent(deployment), write, "call-1"),
        (agent(deployment), write, "call-2"),
        (agent(deployment), write | {"content": "other"}, "call-1"),
        (agent(deployment, "s-2"), write, "call-1"),
        (agent(deployment, assigned=OTHER), write, "call-1"),
    )
    for session, arguments, call_id in calls:
        answer = json.loads(session.call_tool("memory_write", arguments, call_id=call_id))
        assert answer["status"] == "queued"
    changes = owner(deployment).changes(ACME)
    assert [change.source_session for change in changes] == ["s-1", "s-2"]
    assert len(changes[0].supersedes) == 2
    assert len(owner(deployment, OTHER).changes(OTHER)) == 1


def test_a_replay_tells_what_has_become_of_the_change(deployment: Subject) -> None:
    """After a decision the repeated call stores nothing and doesn't claim that it still waits."""
    write = {"scope": "assigned", "path": "facts", "content": "text", "description": "d"}
    session = agent(deployment)
    session.call_tool("memory_write", write, call_id="call-1")
    (change,) = owner(deployment).changes(ACME)
    owner(deployment).reject(ACME, change.id)
    answer = json.loads(session.call_tool("memory_write", write, call_id="call-1"))
    assert "error" in answer or answer["state"] == "rejected"
    assert not owner(deployment).changes(ACME)


def test_a_replay_of_a_superseded_call_stores_nothing(deployment: Subject) -> None:
    """Replayed from an old checkpoint, after its successor is open or decided, it changes nothing."""
    first = {"scope": "assigned", "path": "facts", "content": "one", "description": "d"}
    second = first | {"content": "two"}
    session = agent(deployment)
    session.call_tool("memory_write", first, call_id="call-1")
    session.call_tool("memory_write", second, call_id="call-2")
    (change,) = owner(deployment).changes(ACME)
    answer = json.loads(session.call_tool("memory_write", first, call_id="call-1"))
    assert "error" in answer or answer["state"] == "superseded"
    assert [c.id for c in owner(deployment).changes(ACME)] == [change.id]
    owner(deployment).reject(ACME, change.id)
    for call_id, arguments in (("call-1", first), ("call-2", second)):
        session.call_tool("memory_write", arguments, call_id=call_id)
        assert owner(deployment).changes(ACME) == [], call_id
