"""C3: a session that read outsiders' content is marked, durably, for its family and for good."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from sams_conformance.driver import Subject
from sams_conformance.support import (
    ACME,
    ORIGIN,
    OTHER,
    SECRET,
    accept,
    agent,
    elsewhere,
    marked,
    owner,
    publish,
    publish_labelled,
    queued,
    refused,
    tampered,
)
from sams_core.errors import InvalidArguments, PermissionDenied, SessionClosed, StoreFailed


def _stamped(deployment: Subject, session: Any, path: str = "stamp") -> bool:
    receipt = session.memory_write("assigned", path, "text", "d")
    return bool(queued(deployment, receipt.change_id).tainted)


def test_declared_sessions_that_read_nothing_outside_are_clean(deployment: Subject) -> None:
    """Both declarations, unlabelled memory and own notes leave a session unmarked."""
    publish(deployment, "ours")
    session = agent(deployment)
    session.memory_write("run", "n", "x", "d")
    session.memory_read("run", "n")
    session.memory_read("assigned", "ours")
    session.memory_search("org", "anything")
    session.context_block()
    assert not session.tainted
    assert session.sources == ()
    assert not _stamped(deployment, session)


def test_what_nobody_declared_marks_and_says_so(deployment: Subject) -> None:
    """No declared user, no observer: each marks on its own and is a reason on every write."""
    cases: tuple[tuple[dict[str, Any], set[str]], ...] = (
        ({"user": None}, {"user"}),
        ({"user": "outsider"}, {"user"}),
        ({"observed": None}, {"unobserved"}),
        ({"user": None, "observed": None}, {"user", "unobserved"}),
    )
    for number, (declared, kinds) in enumerate(cases):
        session = agent(deployment, f"s-{number}", **declared)
        receipt = session.memory_write("assigned", "p", "x", "d")
        assert session.tainted, declared
        change = queued(deployment, receipt.change_id)
        assert change.tainted, declared
        assert {source.kind for source in change.sources} == kinds, declared


def test_a_mark_records_reason_and_origin_and_labels_later_writes(deployment: Subject) -> None:
    """The mark says what was read and where it came from; writes after it carry both."""
    session = agent(deployment)
    before = session.memory_write("assigned", "before", "x", "d")
    session.mark_tainted("read a ticket", origin=ORIGIN)
    assert session.tainted
    (source,) = session.sources
    assert (source.name, source.origin) == ("read a ticket", ORIGIN)
    assert source.first_seen
    after = session.memory_write("assigned", "after", "x", "d")
    assert queued(deployment, after.change_id).sources == session.sources
    assert not queued(deployment, before.change_id).tainted, "it was written before the mark"


def test_marks_only_grow(deployment: Subject) -> None:
    """A repeated reason keeps its first record; other reasons are added."""
    session = agent(deployment)
    session.mark_tainted("mail", origin="first")
    first = session.sources
    session.mark_tainted("mail", origin="second")
    assert session.sources == first
    other = agent(deployment, backend=elsewhere(deployment, "agent", ACME))
    other.mark_tainted("mail", origin="third")
    assert session.sources == other.sources == first
    session.mark_tainted("web")
    assert session.sources[:1] == first
    assert {source.name for source in session.sources} == {"mail", "web"}


def test_opening_undeclared_marks_who_had_declared(deployment: Subject) -> None:
    """The session is one, whoever holds it: one undeclared user or observer is enough."""
    cases: tuple[dict[str, Any], ...] = ({"user": None}, {"user": "outsider"}, {"observed": None})
    for number, declared in enumerate(cases):
        holder = agent(deployment, f"s-{number}")
        assert not holder.tainted
        agent(deployment, f"s-{number}", **declared).memory_index("run")
        assert holder.tainted, declared


def test_a_mark_is_never_refused_for_what_it_says(deployment: Subject) -> None:
    """However long, broken or many its texts are; they are kept short and without secrets."""
    for number, reason in enumerate(
        ("x" * 100_000, "\ud800", "a\nb\0\x1b", "", SECRET, "\u202e" * 9)
    ):
        session = agent(deployment, f"s-{number}")
        session.mark_tainted(reason, origin=f"{reason} {SECRET}")
        assert agent(deployment, f"s-{number}").tainted
        (source,) = session.sources
        assert len(source.name) <= 200
        assert len(source.origin) <= 200
        assert "\n" not in source.name
        assert SECRET not in str(source.to_dict())
    session = agent(deployment, "s-many")
    for number in range(150):
        session.mark_tainted(f"page {number}")
    assert session.tainted
    assert 100 <= len(session.sources) <= 102, "a family's list is bounded"
    assert _stamped(deployment, session)


def test_what_cant_be_wrapped_is_refused(deployment: Subject) -> None:
    """An object with other ways in than calling it would read past its wrapper."""

    class Reader:
        def __call__(self) -> str:
            return "text"

        def invoke(self) -> str:
            return "text"

    session = agent(deployment)
    for thing in (Reader(), Reader, object(), "fetch", ["fetch"], None, {"a": 1}):
        try:
            session.tainting(thing)
        except TypeError:
            continue
        raise AssertionError(f"wrapped {thing!r}")


def test_nothing_that_a_session_offers_clears_a_mark(deployment: Subject) -> None:
    """The mark is read-only, and no public name of a session promises to undo it."""
    session = marked(deployment)
    for name, value in (("tainted", False), ("sources", ())):
        try:
            setattr(session, name, value)
        except (AttributeError, TypeError):
            continue
        raise AssertionError(f"{name} can be assigned to")
    public = [name for name in dir(session) if not name.startswith("_")]
    words = ("clear", "unmark", "untaint", "reset", "clean", "forget", "untrust", "wash")
    assert not [name for name in public if any(word in name for word in words)]
    for method in ("memory_index", "memory_read", "memory_search", "memory_write", "child"):
        parameters = inspect.signature(getattr(session, method)).parameters
        assert not {"taint", "tainted", "sources", "clean"} & set(parameters)
    assert session.tainted


def test_no_owners_act_unmarks_a_session(deployment: Subject) -> None:
    """Accepting, endorsing, rejecting and clearing runs leave the session as it is."""
    session = marked(deployment)
    for path in ("a", "b", "c"):
        session.memory_write("assigned", path, "x", "d")
    session.memory_write("run", "n", "x", "d")
    a, b, c = owner(deployment).changes(ACME)
    owner(deployment).accept(ACME, a.id, a.digest)
    owner(deployment).accept(ACME, b.id, b.digest, endorse="checked it")
    owner(deployment).reject(ACME, c.id)
    owner(deployment).clear_runs(ACME)
    for again in (session, agent(deployment, "s-marked")):
        assert again.tainted
        assert _stamped(deployment, again, "after")


def test_a_mark_is_there_when_the_session_is_opened_again(deployment: Subject) -> None:
    """Reopening with every declaration doesn't wash the session, nor does its first write."""
    sources = marked(deployment, "s-1").sources
    session = agent(deployment, "s-1")
    assert session.tainted
    assert session.sources == sources
    assert _stamped(deployment, session)


def test_a_mark_reaches_a_session_that_is_open_already(deployment: Subject) -> None:
    """Clean is never cached: another holder of the session sees the mark, and so do its writes."""
    holder, other = agent(deployment, "s-1"), agent(deployment, "s-1")
    assert not holder.tainted
    assert not _stamped(deployment, holder, "early")
    other.mark_tainted("web", origin=ORIGIN)
    assert _stamped(deployment, holder, "late")
    assert holder.tainted
    holder = agent(deployment, "s-2", backend=elsewhere(deployment, "agent", ACME))
    assert not holder.tainted
    agent(deployment, "s-2").child("helper").mark_tainted("web", origin=ORIGIN)
    assert _stamped(deployment, holder, "from-elsewhere")
    assert holder.tainted


def test_another_agent_under_the_same_key_is_refused(deployment: Subject) -> None:
    """(container, session id) belongs to the agent that opened it first."""
    marked(deployment, "s-1").memory_write("run", "n", "x", "d")
    for name in ("intruder", "Writer", "writer ", "WRITER"):
        with refused(PermissionDenied, note=name):
            agent(deployment, "s-1", agent=name).memory_index("run")
    assert agent(deployment, "s-1").tainted


def test_the_same_id_in_another_container_is_unmarked_and_unrelated(deployment: Subject) -> None:
    """A mark here says nothing about an equal id there, whichever agent has it."""
    marked(deployment, "s-1")
    other = agent(deployment, "s-1", assigned=OTHER, agent="somebody-else")
    assert not other.tainted
    other.mark_tainted("mail")
    assert {source.name for source in agent(deployment, "s-1").sources} == {"read a web page"}


def test_ids_that_look_alike_share_no_marks(deployment: Subject) -> None:
    """Session ids are compared literally."""
    marked(deployment, "john_doe")
    marked(deployment, "%")
    for other in ("john-doe", "John_doe", "john_do", "john_doe2", "_", "*", "john_doe "):
        assert not agent(deployment, other).tainted, other


def test_a_mark_on_any_member_marks_the_family(deployment: Subject) -> None:
    """Parent, children and grandchildren share one ledger: running or opened later."""
    for marker in range(4):
        parent = agent(deployment, f"family-{marker}")
        one, two = parent.child("one"), parent.child("two")
        family = [parent, one, two, one.child("leaf")]
        assert not any(member.tainted for member in family)
        family[marker].mark_tainted("mail", origin=ORIGIN)
        for number, member in enumerate([*family, parent.child("late")]):
            assert member.tainted
            assert _stamped(deployment, member, f"p{marker}-{number}")
    assert not agent(deployment, "family").tainted


def test_a_child_inherits_identity_and_scope_and_no_more(deployment: Subject) -> None:
    """A child's id comes from its parent, its container is the same, its name is its agent's."""
    parent = agent(deployment, "root")
    child, twin = parent.child("helper"), parent.child("helper")
    assert child.session_id == "root/helper"
    assert twin.session_id == "root/helper~2"
    for session in (child, twin):
        assert (session.agent, session.assigned) == ("helper", ACME)
        assert session.run_scope == f"run:{session.session_id}"
    with refused(InvalidArguments):
        agent(deployment, "root/helper", agent="helper")
    for name in ("", "a/b", "../root", "a\nb"):
        with refused(InvalidArguments, note=repr(name)):
            parent.child(name)


def test_a_wrapped_call_marks_before_it_starts(deployment: Subject) -> None:
    """The function sees itself marked; so does whoever catches its exception."""
    session = agent(deployment, "s-ok")

    def fetch() -> bool:
        return bool(session.tainted)

    assert session.tainting(fetch, "the web")() is True
    assert [source.name for source in session.sources] == ["the web"]
    failing = agent(deployment, "s-fail")

    def fail() -> None:
        raise ValueError("poison in the error text")

    try:
        failing.tainting(fail)()
    except ValueError:
        assert failing.tainted
    else:
        raise AssertionError("the wrapper swallowed the exception")
    idle = agent(deployment, "s-idle")
    idle.tainting(fetch)
    assert not idle.tainted, "wrapping alone reads nothing"


def test_half_consumed_and_cancelled_sources_have_marked(deployment: Subject) -> None:
    """Generators and coroutines mark when they start, not when they finish."""

    def pages() -> Iterator[str]:
        yield "one"
        yield "two"

    async def page(started: asyncio.Event) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    async def stream() -> AsyncIterator[str]:
        yield "one"
        yield "two"

    generator = agent(deployment, "s-generator")
    half = generator.tainting(pages)()
    assert next(half) == "one"
    assert generator.tainted
    half.close()

    cancelled, streamed = agent(deployment, "s-cancelled"), agent(deployment, "s-streamed")

    async def play() -> None:
        started = asyncio.Event()
        task = asyncio.ensure_future(cancelled.tainting(page)(started))
        await started.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        some = streamed.tainting(stream)()
        assert await anext(some) == "one"
        await some.aclose()

    asyncio.run(play())
    assert cancelled.tainted
    assert streamed.tainted


def test_reading_a_labelled_entry_marks_the_reader_and_its_writes(deployment: Subject) -> None:
    """Taint travels through memory: a copy of a copy is still labelled."""
    publish_labelled(deployment, "hop-0", "the poison")
    for hop in range(1, 4):
        reader = agent(deployment, f"s-hop-{hop}")
        text = reader.memory_read("assigned", f"hop-{hop - 1}").content
        assert reader.tainted
        assert {source.kind for source in reader.sources} == {"memory"}
        receipt = reader.memory_write("assigned", f"hop-{hop}", text, "a copy")
        assert accept(deployment, receipt.change_id).tainted


def test_a_mark_that_cant_be_recorded_closes_the_session(deployment: Subject) -> None:
    """Until the ledger takes the mark, every memory call of the family is refused."""
    broken = True

    def add_sources(real: Any, *args: Any) -> None:
        if broken:
            raise StoreFailed("no space left")
        real.add_sources(*args)

    backend = tampered(deployment, "agent", ACME, add_sources=add_sources)
    session = agent(deployment, backend=backend)
    child = session.child("helper")
    with refused(SessionClosed):
        session.mark_tainted("web", origin=ORIGIN)
    calls: tuple[Callable[[Any], Any], ...] = (
        lambda s: s.memory_index("org"),
        lambda s: s.memory_read("run", "n"),
        lambda s: s.memory_search("org", "x"),
        lambda s: s.memory_write("run", "n", "x", "d"),
        lambda s: s.memory_write("assigned", "n", "x", "d"),
        lambda s: s.context_block(),
        lambda s: s.child("another"),
    )
    for member in (session, child):
        for call in calls:
            with refused(SessionClosed):
                call(member)
    broken = False
    assert _stamped(deployment, session)
    assert session.tainted


def test_no_labelled_text_is_returned_before_the_mark_is_recorded(deployment: Subject) -> None:
    """Where reading can't mark, reading is refused, by path and by handle."""
    publish_labelled(deployment, "outside", "the poison")
    (listing,) = agent(deployment, "s-look").memory_index("assigned").items

    def add_sources(real: Any, *args: Any) -> None:
        raise StoreFailed("no space left")

    for number, path in enumerate(("outside", listing.path)):
        backend = tampered(deployment, "agent", ACME, add_sources=add_sources)
        session = agent(deployment, f"s-{number}", backend=backend)
        with refused(SessionClosed):
            session.memory_read("assigned", path)


def test_a_session_used_inside_anothers_run_marks_both_and_is_refused(deployment: Subject) -> None:
    """One family's tool in another family's run: nobody can say who has read what."""
    outer, inner = agent(deployment, "s-outer"), agent(deployment, "s-inner")
    with outer.active(), refused(PermissionDenied):
        inner.memory_index("org")
    assert outer.tainted
    assert inner.tainted
    parent = agent(deployment, "s-parent")
    with parent.active():
        parent.child("helper").memory_index("org")
    assert not parent.tainted, "a child is of the family"
