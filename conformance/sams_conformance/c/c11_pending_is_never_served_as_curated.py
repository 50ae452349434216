"""C11: pending is served to its own family only, labelled text only to those who are marked."""

from __future__ import annotations

import json
from typing import Any

from sams_conformance.driver import Subject
from sams_conformance.support import (
    ACME,
    ORIGIN,
    accept,
    agent,
    dreamer,
    marked,
    owner,
    publish,
    publish_labelled,
    refused,
    seen_by,
    whole_index,
)
from sams_core.errors import NotFound

NEEDLE = "zanzibar"


def _pending(session: Any, path: str = "facts", version: int | None = None) -> Any:
    return session.memory_write(
        "assigned", path, f"{NEEDLE} content", f"{NEEDLE} description", version
    )


def _hidden_from(session: Any, what: str) -> None:
    assert NEEDLE not in seen_by(session, "assigned", NEEDLE, "content", "description"), what
    answers = [
        session.call_tool("memory_index", {"scope": "assigned"}),
        session.call_tool("memory_search", {"scope": "assigned", "query": NEEDLE}),
    ]
    assert not any("content" in answer for answer in answers), what


def test_pending_text_is_in_no_index_search_or_context(deployment: Subject) -> None:
    """Writes and proposals, of clean and marked sessions: nobody is served them, not even their writer."""
    writer = agent(deployment)
    _pending(writer)
    _pending(marked(deployment), "outside")
    job = dreamer(deployment)
    job.snapshot("all")
    job.propose("proposed", f"{NEEDLE} content", f"{NEEDLE} description")
    for name, session in (
        ("another clean session", agent(deployment, "s-2")),
        ("another marked session", marked(deployment, "s-3")),
        ("the writer", writer),
        ("its child", writer.child("helper")),
        ("the marked writer", marked(deployment)),
    ):
        _hidden_from(session, name)


def test_pending_text_is_read_by_nobody_else(deployment: Subject) -> None:
    """Others get the curated entry without a trace of it, or nothing."""
    publish(deployment, "facts", "the old fact")
    _pending(agent(deployment), "facts", 1)
    _pending(agent(deployment), "new")
    for session in (agent(deployment, "s-2"), marked(deployment)):
        entry = session.memory_read("assigned", "facts")
        assert (entry.content, entry.pending) == ("the old fact", None)
        with refused(NotFound):
            session.memory_read("assigned", "new")
        assert NEEDLE not in session.call_tool(
            "memory_read", {"scope": "assigned", "path": "facts"}
        )


def test_the_family_reads_its_own_pending_text_as_pending(deployment: Subject) -> None:
    """Beside the curated entry, or alone with status `pending` and version 0."""
    publish(deployment, "facts", "the old fact")
    parent = agent(deployment)
    child = parent.child("helper")
    _pending(parent, "facts", 1)
    _pending(child, "new")
    for member in (parent, child, parent.child("late"), agent(deployment)):
        entry = member.memory_read("assigned", "facts")
        assert (entry.content, entry.status, entry.version) == ("the old fact", "active", 1)
        assert entry.pending.content == f"{NEEDLE} content"
        assert entry.pending.status == "pending"
        alone = member.memory_read("assigned", "new")
        assert (alone.status, alone.version) == ("pending", 0)
        assert alone.content == f"{NEEDLE} content"
    with refused(NotFound):
        parent.memory_read("assigned", "neither")


def test_own_pending_text_ends_with_its_decision(deployment: Subject) -> None:
    """Accepted it is the entry, rejected it is gone."""
    session = agent(deployment)
    kept, gone = _pending(session, "kept"), _pending(session, "gone")
    accept(deployment, kept.change_id)
    owner(deployment).reject(ACME, gone.change_id)
    entry = session.memory_read("assigned", "kept")
    assert (entry.status, entry.version, entry.pending) == ("active", 1, None)
    with refused(NotFound):
        session.memory_read("assigned", "gone")


def test_an_unmarked_session_sees_of_a_labelled_entry_a_handle_only(deployment: Subject) -> None:
    """Path, description and content are outsiders' text: index, search and context hide them."""
    publish_labelled(deployment, f"{NEEDLE}/path", f"{NEEDLE} content", f"{NEEDLE} description")
    session = agent(deployment, "s-reader")
    _hidden_from(session, "a clean reader")
    (line,) = whole_index(session, "assigned")
    (found,) = session.memory_search("assigned", f"{NEEDLE} description").items
    for listing in (line, found):
        assert listing.labelled
        assert listing.path.startswith("untrusted/")
        assert (listing.description, listing.snippet) == ("", "")
        assert listing.version == 1
        assert listing.date
    assert line.path == found.path
    assert not session.tainted


def test_reading_by_handle_or_path_marks_first_and_returns_labelled_text(
    deployment: Subject,
) -> None:
    """`memory_read` is the only way, and afterwards the session has been there."""
    publish_labelled(deployment, "outside", f"{NEEDLE} content")
    handle = whole_index(agent(deployment, "s-look"), "assigned")[0].path
    for number, path in enumerate(("outside", handle)):
        session = agent(deployment, f"s-{number}")
        entry = session.memory_read("assigned", path)
        assert entry.tainted
        assert entry.path == "outside"
        assert any(ORIGIN in (source.origin or "") for source in entry.sources)
        assert session.tainted
        again = agent(deployment, f"s-{number}")
        assert again.tainted, "the mark is on disk"
    tool = agent(deployment, "s-tool")
    answer = json.loads(tool.call_tool("memory_read", {"scope": "assigned", "path": handle}))
    assert tool.tainted
    assert "label" in answer


def test_reading_what_isnt_labelled_marks_nobody(deployment: Subject) -> None:
    """A failed read of a handle or path neither."""
    publish(deployment, "ours")
    publish_labelled(deployment, "outside")
    session = agent(deployment, "s-reader")
    session.memory_read("assigned", "ours")
    for path in ("absent", "untrusted/00000000", "untrusted/ffffffff"):
        with refused(NotFound):
            session.memory_read("assigned", path)
    assert not session.tainted


def test_a_marked_session_sees_labelled_text_everywhere_and_labelled(deployment: Subject) -> None:
    """It has nothing left to lose; the label still says what is what."""
    publish(deployment, "ours", f"{NEEDLE} of ours", "ours")
    publish_labelled(deployment, "outside", f"{NEEDLE} content", "from a page")
    session = marked(deployment, "s-reader")
    labels = {x.path: x.labelled for x in whole_index(session, "assigned")}
    assert labels == {"ours": False, "outside": True}
    found = session.memory_search("assigned", NEEDLE).items
    assert [(x.path, x.labelled) for x in found] == [("ours", False), ("outside", True)]
    block = session.context_block()
    assert "from a page" in block
    assert not session.memory_read("assigned", "ours").tainted


def test_labelled_entries_cant_push_trusted_ones_out(deployment: Subject) -> None:
    """Search lists unlabelled hits first, and at most five handles to an unmarked session."""
    for number in range(9):
        publish_labelled(
            deployment, f"flood-{number}", f"{NEEDLE} " * 20, NEEDLE, session_id=f"s-{number}"
        )
    for number in range(3):
        publish(deployment, f"ours-{number}", f"once {NEEDLE} and more words around it", "ours")
    for session in (agent(deployment, "s-clean"), marked(deployment)):
        found = session.memory_search("assigned", NEEDLE).items
        labels = [listing.labelled for listing in found]
        assert labels == sorted(labels), "an unlabelled hit stands behind a labelled one"
        assert labels.count(False) == 3
        index = [listing.labelled for listing in whole_index(session, "assigned")]
        assert index == [False] * 3 + [True] * 9
    found = agent(deployment, "s-clean").memory_search("assigned", NEEDLE).items
    assert 1 <= sum(listing.labelled for listing in found) <= 5


def test_the_index_is_complete_over_its_pages(deployment: Subject) -> None:
    """Trusted entries by path, then labelled ones, each exactly once, for everybody."""
    ours = [f"ours-{number:03}" for number in range(130)]
    theirs = [f"outside-{number:03}" for number in range(80)]
    for path in ours:
        publish(deployment, path)
    session = marked(deployment, "s-outside")
    for path in theirs:
        session.memory_write("assigned", path, "outside content", "outside description")
    boss = owner(deployment)
    for change in boss.changes(ACME):
        boss.accept(ACME, change.id, change.digest)
    clean, dirty = agent(deployment), marked(deployment)
    for reader in (clean, dirty):
        lines = whole_index(reader, "assigned")
        assert len(reader.memory_index("assigned").items) <= 100
        assert [line.path for line in lines if not line.labelled] == ours
        labels = [line.labelled for line in lines]
        assert labels == sorted(labels)
        assert len({line.path for line in lines}) == len(lines) == 210
    assert {x.path for x in whole_index(dirty, "assigned")} == {*ours, *theirs}
    assert not clean.tainted


def test_a_pending_text_that_was_stamped_tainted_marks_like_any_labelled_text(
    deployment: Subject,
) -> None:
    """Notes and pendings of a marked family are labelled wherever they are read."""
    session = marked(deployment)
    _pending(session)
    session.memory_write("run", "n", "x", "d")
    for reader in (session, session.child("helper"), agent(deployment, "s-marked")):
        assert reader.memory_read("assigned", "facts").tainted
        assert reader.memory_read("run:s-marked", "n").tainted
        assert reader.tainted


def test_a_handle_ends_when_the_label_does(deployment: Subject) -> None:
    """After an endorsement the entry is served under its path; clean sessions get the text."""
    publish_labelled(deployment, "outside", f"{NEEDLE} content", f"{NEEDLE} description")
    reader = agent(deployment, "s-reader")
    handle = whole_index(reader, "assigned")[0].path
    entry = owner(deployment).get(ACME, "outside")
    owner(deployment).endorse(ACME, "outside", entry.digest, "checked it")
    assert [(x.path, x.labelled) for x in whole_index(reader, "assigned")] == [("outside", False)]
    assert reader.memory_read("assigned", "outside").content == f"{NEEDLE} content"
    with refused(NotFound):
        reader.memory_read("assigned", handle)
    assert not reader.tainted
    assert NEEDLE in agent(deployment, "s-new").context_block()
