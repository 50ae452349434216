"""What an agent's session may do, and what marks it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sams_core import (
    AgentSession,
    Backend,
    InvalidArguments,
    LimitExceeded,
    Limits,
    NotFound,
    Owner,
    PermissionDenied,
    ScopeError,
    VersionConflict,
)

Open = Callable[..., AgentSession]
Make = Callable[..., Backend]
ACME = "tenant:acme"


def test_what_nobody_declared_marks_and_says_which_argument_declares_it(
    backend: Backend, owner: Owner
) -> None:
    session = AgentSession(backend, session_id="s1", agent="bot", assigned=ACME)
    assert session.tainted
    session.memory_write("assigned", "p", "c", "d")
    (change,) = owner.changes(ACME)
    reasons = " | ".join(source.name for source in change.sources)
    assert {source.kind for source in change.sources} == {"user", "unobserved"}
    assert "user not declared" in reasons
    assert 'user="insider"' in reasons
    assert "unobserved" in reasons
    assert 'observed="by-hand"' in reasons


def test_a_declared_session_stays_clean_while_nothing_taints_it(
    backend: Backend, session: AgentSession, owner: Owner
) -> None:
    session.memory_write("run", "n", "c", "d")
    session.memory_write("assigned", "p", "c", "d")
    session.memory_index("org"), session.memory_search("assigned", "c"), session.context_block()
    session.child("helper").memory_read("run:s1", "n")
    assert not session.tainted
    assert not owner.changes(ACME)[0].tainted


def test_an_outsider_as_user_marks(backend: Backend, open_clean: Open) -> None:
    assert open_clean(backend, user="outsider").tainted


def test_an_observer_ends_unobserved(backend: Backend, open_clean: Open) -> None:
    from sams_core.ambient import Activation

    session = open_clean(backend, observed=None)
    with Activation(session, "an adapter"):
        session.memory_write("run", "n", "c", "d")
    assert not session.tainted
    with session.active():
        session.memory_read("run", "n")
    assert [s.kind for s in session.sources] == ["unobserved"]


@pytest.mark.parametrize("bad", [{"user": "admin"}, {"observed": "yes"}, {"agent": "a/b"}])
def test_other_declarations_are_refused(
    bad: dict[str, str], backend: Backend, open_clean: Open
) -> None:
    with pytest.raises(InvalidArguments):
        open_clean(backend, **bad)


def test_marks_are_seen_by_every_holder_of_the_session(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    second = open_clean(backend)
    assert not second.tainted
    session.mark_tainted("a page")
    assert second.tainted
    assert open_clean(backend).tainted


def test_another_agent_under_the_same_key_is_refused(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    with pytest.raises(PermissionDenied) as caught:
        open_clean(backend, agent="other")
    assert caught.value.rule == "other-agent"


def test_the_same_id_in_another_container_is_unrelated(
    backend: Backend, session: AgentSession, open_clean: Open
) -> None:
    session.mark_tainted("a page")
    session.memory_write("run", "n", "c", "d")
    other = open_clean(backend, agent="somebody else", assigned="tenant:acme-corp")
    assert not other.tainted
    with pytest.raises(NotFound):
        other.memory_read("run", "n")


def test_a_family_shares_its_marks(session: AgentSession) -> None:
    one, two = session.child("one"), session.child("two")
    grandchild = one.child("deep")
    grandchild.mark_tainted("a page")
    assert session.tainted and one.tainted and two.tainted
    assert session.child("three").tainted


def test_a_child_has_its_own_notes_and_never_more_scope(session: AgentSession) -> None:
    one, two = session.child("one"), session.child("two")
    session.memory_write("run", "n", "parent", "d")
    one.memory_write("run", "n", "child", "d")
    assert one.run_scope == "run:s1/one"
    assert one.memory_read("run:s1", "n").content == "parent"
    assert session.memory_read("run:s1/one", "n").content == "child"
    for scope in ("run:s1/one", "run:s2", "run:", "tenant:other", "project:acme"):
        with pytest.raises(ScopeError):
            two.memory_read(scope, "n")
    with pytest.raises(PermissionDenied):
        one.memory_write("run:s1", "n", "c", "d")
    with pytest.raises(PermissionDenied):
        session.memory_write("run:s1/one", "n", "c", "d")
    assert one.assigned == session.assigned


def test_children_of_one_name_are_numbered_while_they_are_open(session: AgentSession) -> None:
    first, second = session.child("helper"), session.child("helper")
    assert [first.session_id, second.session_id] == ["s1/helper", "s1/helper~2"]
    del second
    assert session.child("helper").session_id == "s1/helper~2"


def test_only_child_makes_an_id_with_a_slash(backend: Backend, open_clean: Open) -> None:
    with pytest.raises(InvalidArguments):
        open_clean(backend, "s1/helper")


def test_org_is_read_only_and_other_scopes_are_refused(session: AgentSession) -> None:
    with pytest.raises(PermissionDenied) as caught:
        session.memory_write("org", "p", "c", "d")
    assert caught.value.rule == "org-read-only"
    for scope in ("tenant:other", "tenant:ACME", "tenant:*", "tenant:", "", "run:s", 7, None):
        for call in (
            lambda s: session.memory_write(s, "p", "c", "d"),
            lambda s: session.memory_read(s, "p"),
            lambda s: session.memory_index(s),
            lambda s: session.memory_search(s, "c"),
        ):
            with pytest.raises(ScopeError):
                call(scope)


def test_a_labelled_entry_is_a_handle_to_an_unmarked_session_until_it_is_read(
    backend: Backend, owner: Owner, open_clean: Open, publish: Any
) -> None:
    dirty = open_clean(backend, "dirty")
    dirty.mark_tainted("a page")
    publish(owner, dirty, "POISONPATH", "POISONTEXT about billing", "POISONABOUT")
    reader = open_clean(backend, "reader")
    shown = [reader.memory_index("assigned"), reader.memory_search("assigned", "billing")]
    assert "POISON" not in repr(shown) + reader.context_block()
    (line,) = shown[0].items
    assert line.labelled and line.path.startswith("untrusted/") and line.description == ""
    assert not reader.tainted
    entry = reader.memory_read("assigned", line.path)
    assert entry.content.startswith("POISONTEXT") and entry.tainted
    assert [s.kind for s in reader.sources] == ["memory"]
    assert "POISONABOUT" in repr(reader.memory_index("assigned"))
    assert "POISONTEXT" in repr(reader.memory_search("assigned", "billing"))
    assert reader.memory_index("assigned").items[0].labelled
    copied = reader.memory_write("assigned", "copy", entry.content, "d")
    assert next(c for c in owner.changes(ACME) if c.id == copied.change_id).tainted


def test_reading_a_labelled_entry_returns_no_text_if_the_mark_fails(
    backend: Backend, owner: Owner, open_clean: Open, publish: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirty = open_clean(backend, "dirty")
    dirty.mark_tainted("a page")
    publish(owner, dirty, "p", "POISON", "d")
    reader = open_clean(backend, "reader")

    def full(*_: object) -> None:
        from sams_core import StoreFailed

        raise StoreFailed("disk full")

    monkeypatch.setattr(backend, "add_sources", full)
    answer = reader.call_tool("memory_read", {"scope": "assigned", "path": "p"})
    assert json.loads(answer)["error"]["rule"] == "session-closed"
    assert "POISON" not in answer


def test_search_lists_trusted_first_and_at_most_five_handles(
    backend: Backend, owner: Owner, open_clean: Open, publish: Any
) -> None:
    clean, dirty = open_clean(backend, "clean"), open_clean(backend, "dirty")
    dirty.mark_tainted("a page")
    for number in range(12):
        publish(owner, dirty, f"bad{number}", "billing billing billing", "billing")
    publish(owner, clean, "good", "about billing", "d")
    reader = open_clean(backend, "reader")
    items = reader.memory_search("assigned", "billing").items
    assert [item.labelled for item in items] == [False] + [True] * 5
    assert next(item.path for item in items) == "good"


def test_an_index_is_paged_trusted_first_and_cursors_carry_no_labelled_text(
    make_backend: Make, open_clean: Open, publish: Any
) -> None:
    backend = make_backend(Limits(page=3))
    owner = Owner(backend, "olga")
    clean, dirty = open_clean(backend, "clean"), open_clean(backend, "dirty")
    dirty.mark_tainted("a page")
    for number in range(4):
        publish(owner, clean, f"good{number}", "c")
        publish(owner, dirty, f"aaa-nasty{number}", "c")
    reader = open_clean(backend, "reader")
    pages, cursor = [], None
    while True:
        page = reader.memory_index("assigned", cursor)
        pages.append(page)
        cursor = page.cursor
        assert "nasty" not in repr(page)
        if cursor is None:
            break
    lines = [line for page in pages for line in page.items]
    assert [len(page.items) for page in pages] == [3, 3, 2]
    assert [line.path for line in lines[:4]] == [f"good{n}" for n in range(4)]
    assert all(line.labelled for line in lines[4:]) and len({line.path for line in lines}) == 8
    for bad in ("x", "q:a", "t:" + "a" * 500, 7):
        with pytest.raises(InvalidArguments):
            reader.memory_index("assigned", bad)


def test_a_pending_change_is_served_to_its_own_family_only(
    backend: Backend, owner: Owner, open_clean: Open, publish: Any
) -> None:
    session, other = open_clean(backend, "s1"), open_clean(backend, "s2")
    session.memory_write("assigned", "p", "first", "d")
    own = session.child("helper").memory_read("assigned", "p")
    assert (own.status, own.version, own.content) == ("pending", 0, "first")
    with pytest.raises(NotFound):
        other.memory_read("assigned", "p")
    (change,) = owner.changes(ACME)
    owner.accept(ACME, change.id, change.digest)
    session.memory_write("assigned", "p", "second", "d", 1)
    mine = session.memory_read("assigned", "p")
    assert mine.content == "first" and mine.pending is not None
    assert (mine.pending.content, mine.pending.status) == ("second", "pending")
    assert other.memory_read("assigned", "p").pending is None
    assert "second" not in repr(other.memory_search("assigned", "second"))
    assert "second" not in other.context_block() + session.context_block()


def test_a_moved_version_is_a_conflict_with_numbers(
    backend: Backend, owner: Owner, open_clean: Open, publish: Any
) -> None:
    session = open_clean(backend)
    publish(owner, session, "p", "one")
    with pytest.raises(VersionConflict) as caught:
        session.memory_write("assigned", "p", "c", "d")
    assert (caught.value.expected, caught.value.found) == (0, 1)
    with pytest.raises(VersionConflict) as caught:
        session.memory_write("assigned", "p", "c", "d", 7)
    assert (caught.value.expected, caught.value.found) == (7, 1)
    session.memory_write("run", "n", "one", "d")
    with pytest.raises(VersionConflict):
        session.memory_write("run", "n", "two", "d")
    assert session.memory_write("run", "n", "two", "d", 1).version == 2


class Untouchable(str):
    """Text of which only the length may be asked."""

    def encode(self, *_: object, **__: object) -> bytes:
        raise AssertionError("an oversized text was copied")

    def __iter__(self) -> Any:
        raise AssertionError("an oversized text was scanned")


def test_50_megabytes_are_refused_before_they_are_scanned_or_copied(
    session: AgentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = Untouchable("a" * 50_000_000)
    for scope in ("run", "assigned"):
        with pytest.raises(LimitExceeded) as caught:
            session.memory_write(scope, "p", huge, "d")
        assert caught.value.limit == 100_000
    answer = session.call_tool(
        "memory_write", {"scope": "run", "path": "p", "content": huge, "description": "d"}
    )
    assert json.loads(answer)["error"]["rule"] == "limit"
    monkeypatch.setattr(json, "loads", lambda *_: pytest.fail("an oversized call was parsed"))
    assert '"rule": "limit"' in session.call_tool("memory_write", huge)


@pytest.mark.parametrize(
    ("content", "description", "error"),
    [
        ("é" * 50_001, "d", LimitExceeded),
        ("c", "x" * 201, LimitExceeded),
        ("c", "two\nlines", InvalidArguments),
        ("c", "two\u2028lines", InvalidArguments),
        ("\ud800", "d", InvalidArguments),
        (7, "d", InvalidArguments),
    ],
)
def test_texts_of_another_form_are_refused(
    content: Any, description: Any, error: type[Exception], session: AgentSession
) -> None:
    with pytest.raises(error):
        session.memory_write("run", "p", content, description)
    assert session.memory_write("run", "p", "é" * 50_000, "x" * 200).status == "stored"


@pytest.mark.parametrize("version", [-1, "1", 1.0, True, 2**60])
def test_a_version_is_a_whole_number(version: Any, session: AgentSession) -> None:
    with pytest.raises(InvalidArguments):
        session.memory_write("run", "p", "c", "d", version)


def test_a_session_has_a_limit_of_open_and_of_stored_changes(
    make_backend: Make, open_clean: Open
) -> None:
    backend = make_backend(Limits(session_open=3, session_stored=5))
    session, other = open_clean(backend, "s1"), open_clean(backend, "s2")
    for number in range(3):
        session.memory_write("assigned", f"p{number}", "c", "d")
    with pytest.raises(LimitExceeded):
        session.memory_write("assigned", "p3", "c", "d")
    for _ in range(2):
        session.memory_write("assigned", "p0", "rewritten", "d")
    with pytest.raises(LimitExceeded):
        session.child("helper").memory_write("assigned", "p0", "again", "d")
    assert other.memory_write("assigned", "p3", "c", "d").status == "queued"


def test_a_session_has_a_limit_of_bytes_over_changes_and_notes(
    make_backend: Make, open_clean: Open
) -> None:
    session = open_clean(make_backend(Limits(session_bytes=1_000)))
    session.memory_write("assigned", "p", "x" * 300, "d")
    session.memory_write("run", "n", "x" * 300, "d")
    for scope, path in (("run", "n2"), ("assigned", "p")):
        with pytest.raises(LimitExceeded):
            session.memory_write(scope, path, "x" * 300, "d")
    with pytest.raises(LimitExceeded):
        for number in range(20):
            session.memory_write("run", f"empty{number}", "", "")


def test_one_agent_gets_a_share_of_a_containers_queue(make_backend: Make, open_clean: Open) -> None:
    backend = make_backend(Limits(container_open=10))
    for number in range(2):
        open_clean(backend, f"s{number}").memory_write("assigned", f"p{number}", "c", "d")
    with pytest.raises(LimitExceeded):
        open_clean(backend, "s2").memory_write("assigned", "p", "c", "d")
    for number in range(8):
        open_clean(backend, f"t{number}", agent=f"a{number}").memory_write(
            "assigned", "p", "c", "d"
        )
    with pytest.raises(LimitExceeded):
        open_clean(backend, "t8", agent="a8").memory_write("assigned", "p", "c", "d")


@pytest.mark.parametrize("where", ["session_id", "agent", "assigned"])
def test_a_name_that_looks_like_a_secret_is_refused(
    where: str, backend: Backend, open_clean: Open
) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    more: dict[str, Any] = {where: f"tenant:{secret}" if where == "assigned" else secret}
    with pytest.raises(InvalidArguments) as caught:
        if where == "session_id":
            open_clean(backend, secret)
        else:
            open_clean(backend, **more)
    assert secret not in str(caught.value)


def test_a_path_that_looks_like_a_secret_is_refused_and_texts_are_redacted(
    session: AgentSession,
) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with pytest.raises(InvalidArguments) as caught:
        session.memory_write("run", f"keys/{secret}", "c", "d")
    assert secret not in str(caught.value)
    session.memory_write("run", "n", f"the key is {secret}", f"key {secret}")
    assert secret not in repr(session.memory_read("run", "n"))


def test_ids_are_literal(backend: Backend, open_clean: Open) -> None:
    names = ["john_doe", "john-doe", "johnXdoe", "john%doe", "john*", "JOHN_DOE", "john_doe "]
    sessions = {name: open_clean(backend, name) for name in names}
    for name, session in sessions.items():
        session.memory_write("run", "n", f"of {name}", "d")
    for name, session in sessions.items():
        assert session.memory_read("run", "n").content == f"of {name}"
        assert len(session.memory_index("run").items) == 1
        assert len(session.memory_search("run", "of").items) <= 1
    tenants = [
        "tenant:acme",
        "tenant:acme-corp",
        "tenant:Acme",
        "tenant:acme_",
        "tenant:*",
        "tenant:%",
    ]
    tenants += ["project:acme", "tenant:acmé"]
    for tenant in tenants:
        there = open_clean(backend, "t", agent="t", assigned=tenant)
        there.memory_write("assigned", "n", tenant, "d")
    for tenant in tenants:
        (change,) = Owner(backend, "olga").changes(tenant)
        assert change.content == tenant
