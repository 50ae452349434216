"""C5, across processes: several write at once, first use included, and nothing is lost."""

from __future__ import annotations

from typing import Any

from sams_conformance.driver import Subject, needs_durable
from sams_conformance.process import Process, Remote, at_once, processes, result
from sams_conformance.support import ACME, agent, owner, publish, queued, whole_index
from sams_core.errors import SamsError, VersionConflict

COUNT = 4
EACH = 8


def _all(requests: list[tuple[Process, dict[str, Any]]]) -> list[Any]:
    """Run one batch in each process at once; return every answer, refusals as exceptions."""
    found: list[Any] = []
    for answers in map(result, at_once(requests)):
        for answer in answers:
            try:
                found.append(result(answer))
            except SamsError as refusal:
                found.append(refusal)
    return found


def _batches(
    opened: list[tuple[Process, Remote]], *calls: tuple[Any, ...]
) -> list[tuple[Process, dict[str, Any]]]:
    return [
        (there, {"batch": [remote.request(*call) for call in calls]}) for there, remote in opened
    ]


@needs_durable
def test_processes_that_use_a_fresh_store_at_once_all_succeed(deployment: Subject) -> None:
    """Nobody prepared the store; every acknowledged note and change is there afterwards."""
    with processes(deployment, COUNT) as several:
        requests: list[tuple[Process, dict[str, Any]]] = []
        for number, there in enumerate(several):
            opening = {
                "open": "agent",
                "as": "s",
                "container": ACME,
                "with": {"session_id": f"s-{number}"},
            }
            remote = Remote(there, "s")
            writes = [
                remote.request("memory_write", scope, f"p{n}", f"text {number}-{n}", "d")
                for n in range(EACH)
                for scope in ("assigned", "run")
            ]
            requests.append((there, {"batch": [opening, *writes]}))
        answers = _all(requests)
    refusals = [answer for answer in answers if isinstance(answer, SamsError)]
    assert not refusals, repr(refusals[:3])
    wanted = {f"text {number}-{n}" for number in range(COUNT) for n in range(EACH)}
    assert {change.content for change in owner(deployment).changes(ACME)} == wanted
    for number in range(COUNT):
        session = agent(deployment, f"s-{number}")
        assert len(whole_index(session, "run")) == EACH
        assert session.memory_read("run", "p0").content == f"text {number}-0"


@needs_durable
def test_processes_that_count_in_one_note_lose_no_step(deployment: Subject) -> None:
    """One session held open by several processes; conflicts are told, steps are not lost."""
    with processes(deployment, COUNT) as several:
        opened = [(there, there.agent()) for there in several]
        request = {"count": "memory_write", "args": ["run", "counter"], "times": EACH}
        answers = at_once([(there, request | {"on": r.name}) for there, r in opened])
        for answer in answers:
            result(answer)
    note = agent(deployment).memory_read("run", "counter")
    assert (note.content, note.version) == (str(COUNT * EACH), COUNT * EACH)


@needs_durable
def test_of_processes_that_create_one_note_one_wins(deployment: Subject) -> None:
    """For each note exactly one process is told that it stored it."""
    with processes(deployment, COUNT) as several:
        opened = [(there, there.agent()) for there in several]
        calls = [("memory_write", "run", f"p{n}", "text", "d") for n in range(EACH)]
        answers = _all(_batches(opened, *calls))
    stored = [a["path"] for a in answers if not isinstance(a, SamsError)]
    assert sorted(stored) == [f"p{n}" for n in range(EACH)]
    conflicts = [a for a in answers if isinstance(a, SamsError)]
    assert all(isinstance(c, VersionConflict) for c in conflicts)
    assert {(vars(c)["expected"] or 0, vars(c)["found"]) for c in conflicts} == {(0, 1)}


@needs_durable
def test_of_owners_in_processes_one_wins_each_change_of_a_base(deployment: Subject) -> None:
    """All owners accept all rival changes; one entry is published and the rivals are kept."""
    publish(deployment, "facts", "version one")
    for n in range(COUNT):
        agent(deployment, f"s-{n}").memory_write("assigned", "facts", f"text {n}", "d", 1)
    changes = owner(deployment).changes(ACME)
    with processes(deployment, COUNT) as several:
        requests = []
        for turn, there in enumerate(several):
            boss = there.owner(name=f"owner-{turn}")
            mine = changes[turn:] + changes[:turn]
            calls = [boss.request("accept", ACME, c.id, c.digest) for c in mine]
            requests.append((there, {"batch": calls}))
        answers = _all(requests)
    won = [a for a in answers if not isinstance(a, SamsError)]
    assert {a["version"] for a in won} == {2}, "one change won, for everybody who accepted it"
    assert len({a["digest"] for a in won}) == 1
    assert all(isinstance(a, VersionConflict) for a in answers if isinstance(a, SamsError))
    history = owner(deployment).history(ACME, "facts")
    assert [entry.version for entry in history] == [1, 2]
    assert len(owner(deployment).changes(ACME)) == COUNT - 1


@needs_durable
def test_owners_writing_at_once_publish_every_version_once(deployment: Subject) -> None:
    """Versions are numbered without gap or twin, whichever process wrote them."""
    with processes(deployment, COUNT) as several:
        opened = [(there, there.owner(name=f"o{n}")) for n, there in enumerate(several)]
        requests = [
            (
                there,
                {
                    "batch": [
                        boss.request("write", ACME, f"p{n}", f"by {boss.process!r:.9}", "d")
                        for n in range(EACH)
                    ]
                },
            )
            for there, boss in opened
        ]
        answers = _all(requests)
    won = sorted(a["path"] for a in answers if not isinstance(a, SamsError))
    assert won == [f"p{n}" for n in range(EACH)]
    assert all(isinstance(a, VersionConflict) for a in answers if isinstance(a, SamsError))
    for n in range(EACH):
        assert [e.version for e in owner(deployment).history(ACME, f"p{n}")] == [1]


@needs_durable
def test_a_replay_in_another_process_stores_nothing(deployment: Subject) -> None:
    """After a restart, and at once: the call id and its arguments are recognised everywhere."""
    write = {"scope": "assigned", "path": "facts", "content": "text", "description": "d"}
    call = {"call_id": "call-1"}
    with processes(deployment, 2) as several:
        opened = [(there, there.agent()) for there in several]
        requests = [
            (there, remote.request("call_tool", "memory_write", write, **call))
            for there, remote in opened
        ]
        answers = [result(answer) for answer in at_once(requests)]
    answers.append(agent(deployment).call_tool("memory_write", write, call_id="call-1"))
    assert len(set(answers)) == 1
    (change,) = owner(deployment).changes(ACME)
    assert not change.supersedes
    assert queued(deployment, change.id).content == "text"
