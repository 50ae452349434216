"""C7: a session of one container can't read, write, find or infer anything of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sams_conformance.driver import Subject, needs_durable
from sams_conformance.process import process
from sams_conformance.support import (
    ACME,
    LOOK_ALIKES,
    OTHER,
    agent,
    dreamer,
    marked,
    owner,
    paths,
    publish,
    publish_labelled,
    queued,
    refused,
    seen_by,
    whole_index,
)
from sams_core.errors import InvalidArguments, NotFound, PermissionDenied, SamsError, ScopeError

NEEDLE = "zanzibar"
_VERBS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("index", lambda s, scope: s.memory_index(scope)),
    ("read", lambda s, scope: s.memory_read(scope, "facts")),
    ("search", lambda s, scope: s.memory_search(scope, NEEDLE)),
    ("write", lambda s, scope: s.memory_write(scope, "new", "x", "d")),
    ("overwrite", lambda s, scope: s.memory_write(scope, "facts", "x", "d", 1)),
)


def _fill(deployment: Subject, scope: str, text: str = NEEDLE) -> None:
    """Put one of everything that holds text into a container."""
    publish(deployment, "facts", f"{text} content", f"{text} description", scope=scope)
    publish_labelled(deployment, "outside", f"{text} content", f"{text} title", scope=scope)
    writer = marked(deployment, "s-writer", assigned=scope)
    writer.memory_write("assigned", f"pending-{text[:9]}", f"{text} pending", f"{text} d")
    writer.memory_write("run", f"note-{text[:9]}", f"{text} note", f"{text} d")


def _sees_nothing(session: Any, what: str) -> None:
    for scope in ("org", "assigned", "run"):
        seen = seen_by(session, scope, NEEDLE, f"{NEEDLE} content", "*", "%", "_", "")
        assert NEEDLE not in seen, f"{what}, {scope}"
        assert "untrusted/" not in seen, f"{what}, {scope}"


def test_another_containers_scope_is_refused_by_every_verb(deployment: Subject) -> None:
    """Named in full, in any spelling, by a clean and a marked session, and by a child."""
    _fill(deployment, OTHER)
    scopes = [
        OTHER,
        "tenant:GLOBEX",
        "tenant: globex",
        "tenant:*",
        "tenant:%",
        "tenant:_",
        "tenant:",
    ]
    scopes += ["project:acme", "project:globex", "tenant:acme/../globex", f"{ACME},{OTHER}", "*"]
    scopes += [f"{ACME}\0{OTHER}", f"{ACME} OR 1=1", "run:s-writer", "globex", "TENANT:globex", ""]
    scopes += ["assigned ", "Assigned", "tenant:acme-corp", "tenant:acm", "tenant:Acme"]
    clean = agent(deployment)
    for session in (clean, clean.child("helper"), marked(deployment)):
        for scope in [*scopes, None, 7, ("org",), {"scope": OTHER}]:
            for name, verb in _VERBS:
                with refused(ScopeError, InvalidArguments, note=f"{name} of {scope!r}"):
                    verb(session, scope)
    assert not clean.tainted or clean.sources[0].kind == "reason"
    assert len(owner(deployment, OTHER).changes(OTHER)) == 1
    assert [e.content for e in owner(deployment, OTHER).history(OTHER, "facts")] == [
        f"{NEEDLE} content"
    ]


def test_a_refusal_doesnt_tell_whether_the_foreign_thing_exists(deployment: Subject) -> None:
    """The answer for a foreign container that exists equals the answer for one that doesn't."""
    _fill(deployment, OTHER)
    session = agent(deployment)
    for _, verb in _VERBS:
        answers = []
        for scope in (OTHER, "tenant:nobody"):
            with refused(SamsError) as refusal:
                verb(session, scope)
            answers.append((type(refusal.error), refusal.error.rule, str(refusal.error)))
        assert answers[0] == answers[1]
        assert "globex" not in answers[0][2]


def test_nothing_of_another_container_is_listed_found_or_rendered(deployment: Subject) -> None:
    """Entries, labelled ones, pendings and notes of another tenant show nowhere."""
    _fill(deployment, OTHER)
    publish(deployment, "ours", "our content")
    _sees_nothing(agent(deployment), "clean")
    _sees_nothing(marked(deployment), "marked")
    _sees_nothing(agent(deployment, "s-writer"), "the same session id")
    _sees_nothing(agent(deployment, "s-outside"), "the same session id")


def test_ids_that_look_alike_are_other_containers(deployment: Subject) -> None:
    """Underscore and hyphen, prefix, case, wildcard, trailing dot, twins of Unicode."""
    for number, (one, two) in enumerate(LOOK_ALIKES):
        kind = ("tenant", "project")[number % 2]
        for scope in (f"{kind}:{one}", f"{kind}:{two}"):
            if owner(deployment, scope).get(scope, "facts") is None:
                _fill(deployment, scope, f"{NEEDLE}{number}")
        for mine, theirs in ((one, two), (two, one)):
            session = agent(deployment, assigned=f"{kind}:{mine}")
            for name, verb in _VERBS:
                with refused(ScopeError, InvalidArguments, note=f"{name}: {mine!r}, {theirs!r}"):
                    verb(session, f"{kind}:{theirs}")


def test_containers_that_look_alike_hold_their_own_text_only(deployment: Subject) -> None:
    """Each look-alike reads its own text at the same path and none of the others'."""
    ids = list(dict.fromkeys(name for pair in LOOK_ALIKES for name in pair))
    scopes = [f"{kind}:{name}" for name in ids for kind in ("tenant", "project")]
    for number, scope in enumerate(scopes):
        publish(deployment, "facts", f"{NEEDLE} q{number}q", "d", scope=scope)
        agent(deployment, assigned=scope).memory_write("run", "n", f"note q{number}q", "d")
    for number, scope in enumerate(scopes):
        session = agent(deployment, assigned=scope)
        assert session.memory_read("assigned", "facts").content == f"{NEEDLE} q{number}q", scope
        assert session.memory_read("run", "n").content == f"note q{number}q", scope
        assert paths(session.memory_search("assigned", NEEDLE).items) == ["facts"], scope
        assert [e.content for e in owner(deployment, scope).history(scope, "facts")] == [
            f"{NEEDLE} q{number}q"
        ]


def test_search_text_is_words_and_never_a_filter(deployment: Subject) -> None:
    """Query syntax, wildcards and scope names in a query reach nothing else."""
    _fill(deployment, OTHER)
    publish(deployment, "ours", "our content", "ours")
    queries = [f'"{NEEDLE}" OR 1=1', f"{NEEDLE}*", "*", "%", "_", f"scope:{OTHER}", OTHER, "globex"]
    queries += [f"content : {NEEDLE}", f"NEAR({NEEDLE})", f"^{NEEDLE}", "' OR ''='", "--", ";", '"']
    queries += [
        f"{NEEDLE} NOT x",
        "(",
        "{",
        "\0",
        f"ours AND {NEEDLE}",
        "NOT",
        "OR",
        "AND",
        "ours OR",
    ]
    for session in (agent(deployment), marked(deployment)):
        for query in queries:
            try:
                found = session.memory_search("assigned", query)
            except InvalidArguments:
                continue
            assert NEEDLE not in str(found.to_dict()), query
            assert set(paths(found.items)) <= {"ours"}, query


def test_another_containers_handle_opens_nothing(deployment: Subject) -> None:
    """A handle is a name within its container: elsewhere it is not found and marks nobody."""
    _fill(deployment, OTHER)
    handles = [x.path for x in whole_index(agent(deployment, assigned=OTHER), OTHER) if x.labelled]
    assert len(handles) == 1
    session = agent(deployment)
    for scope in ("assigned", "org", "run"):
        with refused(NotFound):
            session.memory_read(scope, handles[0])
    assert not session.tainted
    with refused(NotFound):
        owner(deployment).history(ACME, handles[0])
    assert owner(deployment).get(ACME, handles[0]) is None


def test_another_containers_cursor_lists_only_ones_own(deployment: Subject) -> None:
    """A cursor carries a position and no authority, forged ones included."""
    for number in range(101):
        publish(deployment, f"theirs-{NEEDLE}-{number:03}", scope=OTHER)
    cursor = agent(deployment, assigned=OTHER).memory_index("assigned").cursor
    assert cursor is not None
    publish(deployment, "zz-ours")
    session = agent(deployment)
    forged = [
        cursor,
        f"{cursor}x",
        OTHER,
        f"{OTHER}:a",
        "t:",
        "l:",
        "t:%",
        "t:a' OR '1",
        "-1",
        "x" * 500,
    ]
    for value in forged:
        for scope in ("assigned", "org", "run"):
            try:
                items = session.memory_index(scope, value).items
            except InvalidArguments:
                continue
            assert set(paths(items)) <= ({"zz-ours"} if scope == "assigned" else set()), value


def test_another_containers_change_ids_and_digests_decide_nothing(deployment: Subject) -> None:
    """Every owner verb looks in the scope that it was given."""
    _fill(deployment, OTHER)
    publish(deployment, "facts", "ours", "ours")
    publish_labelled(deployment, "outside", "ours", "ours")
    (change,) = owner(deployment, OTHER).changes(OTHER)
    their_labelled = owner(deployment, OTHER).get(OTHER, "outside")
    their_facts = owner(deployment, OTHER).get(OTHER, "facts")
    boss = owner(deployment)
    attempts: list[Callable[[], Any]] = [
        lambda: boss.accept(ACME, change.id, change.digest),
        lambda: boss.accept(ACME, change.id, change.digest, endorse="sure"),
        lambda: boss.reject(ACME, change.id),
        lambda: boss.endorse(ACME, "outside", their_labelled.digest, "sure"),
        lambda: boss.restore(ACME, "facts", their_facts.digest),
        lambda: boss.write(ACME, "new", "x", "d", based_on=change.id),
        lambda: boss.write(ACME, "new", "x", "d", based_on=their_facts.digest),
    ]
    for attempt in attempts:
        with refused(SamsError):
            attempt()
    assert [c.id for c in owner(deployment, OTHER).changes(OTHER)] == [change.id]
    assert owner(deployment, OTHER).get(OTHER, "outside").tainted
    assert boss.changes(ACME) == []
    assert [e.content for e in boss.history(ACME, "facts")] == ["ours"]
    assert boss.get(ACME, "outside").tainted


def test_queues_histories_and_retirements_are_a_containers_own(deployment: Subject) -> None:
    """What the owner does to one container leaves the same path of another alone."""
    for scope in (ACME, OTHER):
        publish(deployment, "facts", f"of {scope}", scope=scope)
        writer = agent(deployment, assigned=scope)
        writer.memory_write("assigned", "facts", f"new of {scope}", "d", 1)
        writer.memory_write("run", "n", f"note of {scope}", "d")
    (mine,), (theirs,) = owner(deployment).changes(ACME), owner(deployment, OTHER).changes(OTHER)
    assert (mine.content, theirs.content) == (f"new of {ACME}", f"new of {OTHER}")
    owner(deployment).accept(ACME, mine.id, mine.digest)
    owner(deployment).retire(ACME, "facts")
    owner(deployment).clear_runs(ACME)
    reader = agent(deployment, assigned=OTHER)
    assert reader.memory_read("assigned", "facts").content == f"of {OTHER}"
    assert reader.memory_read("run", "n").content == f"note of {OTHER}"
    assert queued(deployment, theirs.id, OTHER).digest == theirs.digest
    assert len(owner(deployment, OTHER).history(OTHER, "facts")) == 1


def test_a_dreaming_job_reads_one_container(deployment: Subject) -> None:
    """A snapshot holds nothing of another container, and a proposal lands in its own."""
    _fill(deployment, OTHER)
    _fill(deployment, ACME, "ours")
    job = dreamer(deployment)
    for partition in ("clean", "all"):
        assert NEEDLE not in str(job.snapshot(partition).to_dict())
    job.propose("facts", "tidied", "d")
    assert [c.kind for c in owner(deployment, OTHER).changes(OTHER)] == ["write"]
    for scope in ("run:s-writer", "tenant:", "globex", "", "tenant:a/b", None):
        with refused(SamsError, note=repr(scope)):
            dreamer(deployment, scope).snapshot()  # type: ignore[arg-type]


def test_a_session_is_assigned_to_one_container_for_good(deployment: Subject) -> None:
    """Assignment can't be changed on an open session, nor through what it opens."""
    _fill(deployment, OTHER)
    session = agent(deployment)
    child = session.child("helper")
    assert child.assigned == ACME
    for member in (session, child):
        with refused(PermissionDenied):
            member.memory_read(OTHER, "facts")
    with refused(PermissionDenied):
        session.memory_read("run:s-writer", "note-zanzibar")


def test_projects_and_tenants_of_one_name_are_apart(deployment: Subject) -> None:
    """`project:acme` isn't `tenant:acme`."""
    _fill(deployment, "project:acme")
    _sees_nothing(agent(deployment), "tenant of that name")
    with refused(NotFound):
        agent(deployment).memory_read("assigned", "facts")


@needs_durable
def test_isolation_holds_for_processes_that_come_later(deployment: Subject) -> None:
    """Another process, the same session id, look-alike tenants: still nothing."""
    _fill(deployment, OTHER)
    with process(deployment) as there:
        for scope in (ACME, "tenant:Globex", "tenant:globe_", "tenant:globex-2", "project:globex"):
            session = there.agent("s-writer", assigned=scope)
            assert session.call("memory_index", "assigned")["items"] == []
            assert session.call("memory_index", "run")["items"] == []
            assert session.call("memory_search", "assigned", NEEDLE)["items"] == []
            assert session.get("tainted") is False
            with refused(ScopeError):
                session.call("memory_read", OTHER, "facts")
        own = there.agent("s-own", assigned=OTHER)
        assert NEEDLE in own.call("memory_read", "assigned", "facts")["content"]
