"""C3, across processes: a restart, a resume or a second worker never loses a mark."""

from __future__ import annotations

from sams_conformance.driver import Subject, needs_durable
from sams_conformance.process import at_once, process, processes, result
from sams_conformance.support import (
    ACME,
    ORIGIN,
    agent,
    marked,
    owner,
    publish_labelled,
    queued,
    refused,
)
from sams_core.errors import PermissionDenied


@needs_durable
def test_a_new_process_opens_a_marked_session_marked(deployment: Subject) -> None:
    """From its first call on, in both directions, whatever the new process declares."""
    marked(deployment, "s-1")
    with process(deployment) as there:
        session = there.agent("s-1")
        receipt = session.call("memory_write", "assigned", "p", "x", "d")
        assert session.get("tainted")
        assert session.get("sources")[0]["origin"] == ORIGIN
        other = there.agent("s-2")
        other.call("mark_tainted", "mail")
    assert queued(deployment, receipt["change_id"]).tainted
    assert agent(deployment, "s-2").tainted


@needs_durable
def test_a_mark_reaches_another_process_that_holds_the_session_open(deployment: Subject) -> None:
    """The other process held it open and clean; its next write is stamped, its next look sees it."""
    with process(deployment) as there:
        held = there.agent("s-1")
        assert held.get("tainted") is False
        early = held.call("memory_write", "assigned", "early", "x", "d")
        agent(deployment, "s-1").mark_tainted("web", origin=ORIGIN)
        late = held.call("memory_write", "assigned", "late", "x", "d")
        held.call("memory_write", "run", "n", "x", "d")
        assert held.call("memory_read", "run", "n")["tainted"]
        assert held.get("tainted") is True
    assert not queued(deployment, early["change_id"]).tainted
    assert queued(deployment, late["change_id"]).tainted


@needs_durable
def test_a_childs_mark_in_one_process_reaches_its_parent_in_another(deployment: Subject) -> None:
    """The family is one ledger key for all processes, and a child reopens under its name."""
    parent = agent(deployment, "root")
    sibling = parent.child("sibling")
    with process(deployment) as there:
        child = there.agent("root").child("helper")
        assert child.get("session_id") == "root/helper"
        child.call("memory_write", "run", "n", "mine", "d")
        child.call("mark_tainted", "web")
    assert parent.tainted
    assert sibling.tainted
    with process(deployment) as there:
        child = there.agent("root").child("helper")
        assert child.get("tainted") is True
        assert child.call("memory_read", "run", "n")["content"] == "mine"


@needs_durable
def test_another_processs_agent_under_the_same_key_is_refused(deployment: Subject) -> None:
    """The key belongs to the agent that opened it, whichever process asks."""
    agent(deployment, "s-1").memory_write("run", "n", "x", "d")
    with process(deployment) as there:
        with refused(PermissionDenied):
            there.agent("s-1", agent="intruder").call("memory_index", "run")
        there.agent("s-1").call("memory_read", "run", "n")


@needs_durable
def test_a_read_in_one_process_marks_the_session_in_all(deployment: Subject) -> None:
    """Reading a labelled entry there is having read it here."""
    publish_labelled(deployment, "outside", "the poison")
    session = agent(deployment, "s-1")
    with process(deployment) as there:
        assert there.agent("s-1").call("memory_read", "assigned", "outside")["tainted"]
    assert session.tainted
    assert agent(deployment, "s-1").tainted


@needs_durable
def test_nothing_unmarks_across_a_restart(deployment: Subject) -> None:
    """Owner's acts in another process leave the marks where they are."""
    session = marked(deployment, "s-1")
    session.memory_write("assigned", "p", "x", "d")
    session.memory_write("run", "n", "x", "d")
    with process(deployment) as there:
        boss = there.owner()
        (change,) = boss.call("changes", ACME)
        boss.call("accept", ACME, change["id"], change["digest"], endorse="checked it")
        assert boss.call("clear_runs", ACME) == 1
    with process(deployment) as there:
        assert there.agent("s-1").get("tainted") is True


@needs_durable
def test_processes_that_mark_at_once_lose_no_mark(deployment: Subject) -> None:
    """Several processes mark one family and open new ones at the same time, on a fresh store."""
    with processes(deployment, 4) as several:
        opened = [(there, there.agent("s-shared")) for there in several]
        requests = []
        for number, (there, session) in enumerate(opened):
            marks = [session.request("mark_tainted", f"page {number}-{n}") for n in range(5)]
            requests.append((there, {"batch": marks}))
        for answers in map(result, at_once(requests)):
            for answer in answers:
                result(answer)
    names = {source.name for source in agent(deployment, "s-shared").sources}
    assert names == {f"page {number}-{n}" for number in range(4) for n in range(5)}
    assert owner(deployment).changes(ACME) == []
