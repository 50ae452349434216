"""C1: a session writes its own run scratchpad freely, and org memory never."""

from __future__ import annotations

import json

from sams_conformance.driver import Subject, needs_durable
from sams_conformance.process import process
from sams_conformance.support import (
    ACME,
    OTHER,
    agent,
    marked,
    owner,
    paths,
    publish,
    refused,
    whole_index,
)
from sams_core.errors import (
    InvalidArguments,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    ScopeError,
    VersionConflict,
)


def test_a_run_write_is_stored_at_once_and_read_back_exactly(deployment: Subject) -> None:
    """A note in the run scope needs nobody's review; its bytes come back as they were written."""
    session = agent(deployment)
    text = "line one\n\tline two \u2028 é 部署 \U0001f600\n"
    receipt = session.memory_write("run", "notes/today", text, "what happened today")
    assert receipt.status == "stored"
    assert receipt.version == 1
    assert receipt.change_id is None
    note = session.memory_read("run", "notes/today")
    assert note.content == text
    assert note.description == "what happened today"
    assert note.scope == session.run_scope == "run:s-1"
    assert note.author == "writer"
    assert note.source_session == "s-1"
    assert not note.tainted
    assert not owner(deployment).changes(ACME), "a note is no change"


def test_notes_are_listed_and_found_in_their_own_run(deployment: Subject) -> None:
    """Index and search of the run scope serve the session's notes."""
    session = agent(deployment)
    session.memory_write("run", "b", "the kettle is blue", "second")
    session.memory_write("run", "a", "the lamp is green", "first")
    assert paths(whole_index(session, "run")) == ["a", "b"]
    assert paths(session.memory_search("run", "kettle").items) == ["b"]
    assert not whole_index(session, "assigned")


def test_a_note_is_replaced_only_at_its_version(deployment: Subject) -> None:
    """Notes have versions; a write that names another is refused with both numbers."""
    session = agent(deployment)
    session.memory_write("run", "n", "one", "d")
    assert session.memory_write("run", "n", "two", "d", 1).version == 2
    for stale, found in ((None, 2), (1, 2), (3, 2)):
        with refused(VersionConflict) as refusal:
            session.memory_write("run", "n", "lost", "d", stale)
        assert (refusal.error.expected or 0, refusal.error.found) == (stale or 0, found)
    with refused(VersionConflict) as refusal:
        session.memory_write("run", "absent", "x", "d", 1)
    assert (refusal.error.expected, refusal.error.found or 0) == (1, 0)
    assert session.memory_read("run", "n").content == "two"


def test_a_marked_session_still_writes_its_notes(deployment: Subject) -> None:
    """A mark doesn't stop the scratchpad; it labels what is written there."""
    session = marked(deployment)
    session.memory_write("run", "n", "from the page", "d")
    note = session.memory_read("run", "n")
    assert note.tainted
    assert any(s.origin for s in note.sources)


def test_org_is_readable_and_never_writable(deployment: Subject) -> None:
    """Everybody reads org; nobody's session writes it, under any version or spelling."""
    publish(deployment, "house-rules", "wipe your feet", "rules", scope="org")
    session = agent(deployment)
    assert session.memory_read("org", "house-rules").content == "wipe your feet"
    assert paths(whole_index(session, "org")) == ["house-rules"]
    assert paths(session.memory_search("org", "feet").items) == ["house-rules"]
    for writer in (session, session.child("helper"), marked(deployment)):
        for path, version in (("house-rules", 1), ("house-rules", None), ("new", None)):
            with refused(PermissionDenied):
                writer.memory_write("org", path, "own the house", "d", version)
        for spelling in ("ORG", "Org", " org", "org ", "org:", "org/x"):
            with refused(ScopeError, InvalidArguments):
                writer.memory_write(spelling, "new", "own the house", "d")
    answer = session.call_tool(
        "memory_write",
        {"scope": "org", "path": "new", "content": "x", "description": "d"},
    )
    assert set(json.loads(answer)) == {"error"}
    assert not owner(deployment, "org").changes("org")
    assert len(owner(deployment, "org").history("org", "house-rules")) == 1
    with refused(NotFound):
        session.memory_read("org", "new")


def test_a_run_belongs_to_one_session(deployment: Subject) -> None:
    """Another session's notes can't be read, listed, searched or written."""
    first, second = agent(deployment, "s-1"), agent(deployment, "s-2")
    first.memory_write("run", "n", "mine", "d")
    for scope in ("run:s-1", "run:S-1", "run:s-1/", "run:", "run:*", "run:s-%", "run:../s-1"):
        for verb, *arguments in (
            (second.memory_read, "n"),
            (second.memory_index,),
            (second.memory_search, "mine"),
            (second.memory_write, "n", "yours", "d", 1),
        ):
            with refused(ScopeError, InvalidArguments, note=scope):
                verb(scope, *arguments)
    with refused(NotFound):
        second.memory_read("run", "n")
    assert not whole_index(second, "run")
    assert first.memory_read("run", "n").content == "mine"


def test_runs_whose_ids_look_alike_are_apart(deployment: Subject) -> None:
    """Session ids are literal: no wildcard, prefix, case fold or trimming."""
    ids = ["s_1", "s-1", "s%1", "S-1", "s-1 ", "s-1.", "s-11", "*", "_", "%", "..", "~", "s-1~2"]
    for number, session_id in enumerate(ids):
        session = agent(deployment, session_id)
        assert not whole_index(session, "run"), f"{session_id!r} is not new"
        with refused(NotFound, note=repr(session_id)):
            session.memory_read("run", "n")
        session.memory_write("run", "n", f"note of number {number}", "d")
    for number, session_id in enumerate(ids):
        session = agent(deployment, session_id)
        assert session.memory_read("run", "n").content == f"note of number {number}"
        assert len(whole_index(session, "run")) == 1


def test_parents_and_children_read_each_other_and_write_only_their_own(deployment: Subject) -> None:
    """A child reads its ancestors' runs, an ancestor its descendants'; siblings see nothing."""
    parent = agent(deployment, "root")
    one, two = parent.child("one"), parent.child("two")
    grandchild = one.child("leaf")
    for session in (parent, one, two, grandchild):
        session.memory_write("run", "n", f"note of {session.session_id}", "d")
    for reader, other in ((one, parent), (grandchild, parent), (grandchild, one), (parent, one)):
        assert other.session_id in reader.memory_read(other.run_scope, "n").content
        with refused(PermissionDenied):
            reader.memory_write(other.run_scope, "n", "not mine", "d", 1)
    for reader, other in ((one, two), (two, one), (grandchild, two), (two, grandchild)):
        with refused(ScopeError):
            reader.memory_read(other.run_scope, "n")
        with refused(ScopeError):
            reader.memory_write(other.run_scope, "n", "not mine", "d", 1)


def test_the_same_session_id_in_another_container_has_other_notes(deployment: Subject) -> None:
    """(container, id) is the key: equal ids in two containers are unrelated."""
    here, there = agent(deployment, "s-1"), agent(deployment, "s-1", assigned=OTHER)
    here.memory_write("run", "n", "here", "d")
    with refused(NotFound):
        there.memory_read("run", "n")
    there.memory_write("run", "n", "there", "d")
    assert here.memory_read("run", "n").content == "here"


def test_paths_of_another_form_are_refused(deployment: Subject) -> None:
    """A path is ASCII segments; nothing climbs, escapes, hides or imitates a handle."""
    session = agent(deployment)
    segments = "/".join("abcdefgh")
    bad = ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\\b", "a b", "a\0", "a\n"]
    bad += ["é", "\uff41", "untrusted/0123abcd", "untrusted", "Untrusted/x", f"{segments}/i"]
    bad += ["x" * 97, "a:b", "a%2fb", "*", "~root", "a?b", "a#b"]
    for path in bad:
        for scope in ("run", "assigned"):
            with refused(InvalidArguments, LimitExceeded, note=repr(path)):
                session.memory_write(scope, path, "x", "d")
    for path in (segments, "x" * 96, "A.b_c-d/0", "..a", "a..", "..."):
        assert session.memory_write("run", path, "x", "d").status == "stored"
    assert len(whole_index(session, "run")) == 6


def test_sizes_above_the_limits_are_refused_and_store_nothing(deployment: Subject) -> None:
    """Content is at most 100,000 bytes, a description one line of at most 200 characters."""
    session = agent(deployment)
    for scope in ("run", "assigned"):
        for content in ("x" * 100_001, "é" * 50_001, "x" * 50_000_000):
            with refused(LimitExceeded):
                session.memory_write(scope, "n", content, "d")
        for description in ("d" * 201, "two\nlines", "two\u2028lines", "two\x85lines"):
            with refused(LimitExceeded, InvalidArguments, note=repr(description)):
                session.memory_write(scope, "n", "x", description)
        with refused(InvalidArguments):
            session.memory_write(scope, "n", "lone \ud800", "d")
    assert not whole_index(session, "run")
    assert not owner(deployment).changes(ACME)
    assert session.memory_write("run", "n", "x" * 100_000, "d" * 200).status == "stored"


def test_cleared_runs_are_not_served_again(deployment: Subject) -> None:
    """The owner clears a container's notes; they are gone for their sessions, other containers stay."""
    session = agent(deployment)
    other = agent(deployment, assigned=OTHER)
    for writer in (session, other):
        writer.memory_write("run", "a", "about kettles", "d")
        writer.memory_write("run", "b", "about lamps", "d")
    assert owner(deployment).clear_runs(ACME) == 2
    for reader in (session, agent(deployment)):
        with refused(NotFound):
            reader.memory_read("run", "a")
        assert not whole_index(reader, "run")
        assert not reader.memory_search("run", "kettles").items
    assert len(whole_index(other, "run")) == 2
    assert session.memory_write("run", "a", "anew", "d").status == "stored"
    assert owner(deployment).clear_runs(ACME) == 1


@needs_durable
def test_a_note_is_there_for_the_same_session_in_a_new_process(deployment: Subject) -> None:
    """A session outlives its process, and so do its notes."""
    with process(deployment) as there:
        there.agent().call("memory_write", "run", "n", "from there", "d")
    session = agent(deployment)
    assert session.memory_read("run", "n").content == "from there"
    session.memory_write("run", "n", "from here", "d", 1)
    with process(deployment) as there:
        assert there.agent().call("memory_read", "run", "n")["content"] == "from here"
        with refused(PermissionDenied):
            there.agent().call("memory_write", "org", "n", "x", "d")
