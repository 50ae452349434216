"""What `SamsStore` takes and gives: names, values, versions, searches, filters and namespaces."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

from sams_core import AgentSession, MemoryBackend, Owner, SQLiteBackend
from sams_core.errors import (
    InvalidArguments,
    LimitExceeded,
    PermissionDenied,
    SamsError,
    VersionConflict,
)
from sams_core.limits import Limits
from sams_core.redaction import TextPolicy
from sams_langchain import SamsStore

ACME = "tenant:acme"


@pytest.fixture
def owner(backend: SQLiteBackend) -> Owner:
    return Owner(backend, "olga")


# Namespaces are names, and nothing else.


@pytest.fixture
def plain(open_session: Any) -> AgentSession:
    """A session that needs no block, beside which the owner may act."""
    session: AgentSession = open_session("plain", observed="by-hand")
    return session


@pytest.fixture
def store(plain: AgentSession) -> SamsStore:
    return SamsStore(plain)


@pytest.fixture
def notes(plain: AgentSession) -> SamsStore:
    return SamsStore(plain, scope="run")


ODD = ("*", "..", "a/b", "a/../b", "~", "a\nb", "a b", "%2e", "ü", "\ud800", "{user}", "a..2fb")


@pytest.mark.parametrize("label", ODD)
def test_a_label_reaches_nothing_but_itself(label: str, store: SamsStore, owner: Owner) -> None:
    for path in ("a/b/k", "b/k", "a/k"):
        owner.write(ACME, path, "by hand", "An entry")
    assert store.batch([GetOp((label,), "k"), GetOp(("a",), label)]) == [None, None]
    assert store.batch([SearchOp((label,)), SearchOp(("a", label))]) == [[], []]
    store.batch([PutOp((label,), "k", {"x": 1}), PutOp(("a",), label, {"x": 1})])
    one, other = store.batch([GetOp((label,), "k"), GetOp(("a",), label)])
    assert isinstance(one, Item)
    assert isinstance(other, Item)
    assert (one.namespace, one.key, other.namespace, other.key) == ((label,), "k", ("a",), label)
    untouched = store.get(("a",), "k")
    assert untouched is not None
    assert untouched.value == {"content": "by hand"}


def test_a_prefix_is_whole_labels(notes: SamsStore) -> None:
    for namespace in (("a",), ("ab",), ("a", "b"), ("a", "b", "c"), ("b", "a")):
        notes.put(namespace, "k", {"x": 1})
    assert [i.namespace for i in notes.search(("a",))] == [("a", "b", "c"), ("a", "b"), ("a",)]
    assert [i.namespace for i in notes.search(("a", "b"))] == [("a", "b", "c"), ("a", "b")]
    assert notes.search(("a", "b", "k")) == notes.search(("A",)) == []


@pytest.mark.parametrize(
    ("namespace", "key"),
    [
        *((("a",) * 8, "k"), (("a" * 50,), "k" * 46), (("\n" * 25,), "k"), (("a",), "x" * 10**7)),
        *((("langgraph", ""), "k"), (("a",), ""), ((5,), "k"), ("text", "k"), (("a",), 5)),
    ],
)
def test_a_place_that_has_no_path_is_refused(namespace: Any, key: Any, store: SamsStore) -> None:
    for op in (GetOp(namespace, key), PutOp(namespace, key, {"x": 1})):
        with pytest.raises(InvalidArguments) as refused:
            store.batch([op])
        assert refused.value.rule == "path"
        assert "a" * 50 not in str(refused.value)


def test_a_secret_can_not_hide_in_an_escaped_name(backend: SQLiteBackend, plain: Any) -> None:
    backend.policy = TextPolicy(personal={"email": [ACME]})
    for namespace, key in ((("mail",), "olga@acme.com"), (("olga@acme.com",), "k")):
        with pytest.raises(InvalidArguments) as refused:
            SamsStore(plain).batch([PutOp(namespace, key, {"x": 1})])
        assert refused.value.rule == "secret-in-name"


# Reading and writing.


def test_what_a_person_wrote_by_hand_is_an_item(store: SamsStore, owner: Owner) -> None:
    owner.write(ACME, "README", "Read me.", "An entry")
    owner.write(ACME, "a/plan", '{"step": 1}', "An entry")
    owner.write(ACME, "a/odd..name", "An entry that no item's key names", "An entry")
    found = {(i.namespace, i.key): i.value for i in store.search(())}
    assert found == {((), "README"): {"content": "Read me."}, (("a",), "plan"): {"step": 1}}
    root = store.get((), "README")
    assert root is not None
    assert root.created_at == root.updated_at
    assert store.list_namespaces() == [("a",)]


def test_a_value_that_can_not_be_stored_changes_nothing(store: SamsStore, owner: Owner) -> None:
    store.put(("a",), "k", {"x": 1})
    for value in ({"x": float("nan")}, {"x": {1}}, {1: 2}, [1], "text", 7):
        with pytest.raises(InvalidArguments):
            store.put(("a",), "k", value)  # type: ignore[arg-type]
    with pytest.raises(LimitExceeded):
        store.put(("a",), "k", {"x": "y" * 100_000})
    with pytest.raises(InvalidArguments):
        store.batch([PutOp(("a",), "k", {"x": 2}, ttl=1.0)])
    with pytest.raises(PermissionDenied):
        store.delete(("a",), "k")
    (change,) = owner.changes(ACME)
    assert change.supersedes == ()


def test_a_secret_is_stored_nowhere(store: SamsStore, owner: Owner) -> None:
    secret = "AKIAQ3EGZ7PLMSXWT2BN"
    store.put(("a",), "k", {"content": "word " * 29 + secret, "more": f"line\n{secret}"})
    (change,) = owner.changes(ACME)
    assert "AKIA" not in change.content + change.description
    item = store.get(("a",), "k")
    assert item is not None
    assert item.value["more"] == "line\n[REDACTED:aws-access-key]"


def test_a_note_is_stored_at_once_and_found(notes: SamsStore, owner: Owner) -> None:
    notes.put(("a",), "k", {"x": 1})
    notes.put(("a",), "k", {"x": 2})
    (item,) = notes.search(("a",))
    assert item.value == {"x": 2}
    assert "review" not in item.dict()
    assert owner.changes(ACME) == []


def test_a_put_overwrites_whatever_version_is_there(store: SamsStore, owner: Owner) -> None:
    for number in range(3):
        store.put(("a",), "k", {"n": number})
        (change,) = owner.changes(ACME)
        owner.accept(ACME, change.id, change.digest)
    assert [json.loads(e.content)["n"] for e in owner.history(ACME, "a/k")] == [0, 1, 2]


def test_what_was_put_is_served_until_the_owner_replaces_its_base(
    store: SamsStore, owner: Owner
) -> None:
    def served() -> Any:
        item = store.get(("a",), "k")
        assert item is not None
        (same,) = store.search(("a",))
        assert same.value == item.value
        return item.value, "review" in item.dict(), item.created_at == item.updated_at

    owner.write(ACME, "a/k", '{"n": 1}', "An entry")
    store.put(("a",), "k", {"n": 2})
    assert served() == ({"n": 2}, True, False)
    owner.write(ACME, "a/k", '{"n": 3}', "An entry", expected_version=1)
    assert served() == ({"n": 3}, False, True)
    store.put(("a",), "k", {"n": 4})
    assert served() == ({"n": 4}, True, False)
    (change,) = owner.changes(ACME)
    owner.reject(ACME, change.id)
    assert served() == ({"n": 3}, False, True)


def test_racing_puts_all_come_through(notes: SamsStore, plain: AgentSession) -> None:
    start = threading.Barrier(4)
    failed: list[BaseException] = []

    def go(number: int) -> None:
        start.wait()
        try:
            for _ in range(5):
                notes.put(("a",), "k", {"n": number})
        except SamsError as error:
            failed.append(error)

    threads = [threading.Thread(target=go, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert plain.memory_read("run", "a/k").version == 20


def test_a_version_that_always_moves_ends_in_the_cores_refusal(
    plain: AgentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def moved(*args: Any) -> None:
        tries.append(args[-1])
        raise VersionConflict(args[-1] or 0, len(tries))

    monkeypatch.setattr(plain, "memory_write", moved)
    with pytest.raises(VersionConflict):
        SamsStore(plain).put(("a",), "k", {"x": 1})
    assert tries == [None, *range(1, 10)]


def test_a_batch_is_carried_out_in_order_up_to_the_first_refusal(open_session: Any) -> None:
    backend = MemoryBackend(Limits(session_stored=50))
    session = AgentSession(
        backend, session_id="s", agent="b", assigned=ACME, user="insider", observed="by-hand"
    )
    store = SamsStore(session)
    got = store.batch([PutOp(("a",), "k", {"x": 1}), GetOp(("a",), "k"), PutOp(("a",), "l", {})])
    assert [getattr(each, "value", None) for each in got] == [None, {"x": 1}, None]
    with pytest.raises(LimitExceeded):
        store.batch([PutOp(("a",), f"k{n}", {"x": n}) for n in range(10_000)])
    assert len(Owner(backend, "olga").changes(ACME)) == 50
    for odd in ("get", None, SearchOp):
        with pytest.raises(InvalidArguments):
            store.batch([odd])  # type: ignore[list-item]


@pytest.mark.parametrize("scope", ["org", "assigned ", "tenant:acme", "", None, ["run"]])
def test_no_other_scope_is_served(scope: Any) -> None:
    with pytest.raises(InvalidArguments):
        SamsStore(scope=scope)


# Finding.


def counted(session: AgentSession, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count the session's verbs."""
    calls = dict.fromkeys(("memory_read", "memory_index", "memory_search"), 0)

    def count(name: str) -> Any:
        verb = getattr(session, name)

        def wrapper(*args: Any) -> Any:
            calls[name] += 1
            return verb(*args)

        return wrapper

    for name in calls:
        monkeypatch.setattr(session, name, count(name))
    return calls


def test_pages_are_read_lazily_and_no_more_contents_than_are_asked_for(
    notes: SamsStore, plain: AgentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(230):
        notes.put(("a",), f"k{number:03}", {"n": number})
    calls = counted(plain, monkeypatch)
    assert [i.value["n"] for i in notes.search(("a",), limit=3, offset=40)] == [40, 41, 42]
    assert (calls["memory_index"], calls["memory_read"]) == (1, 3)
    assert [i.value["n"] for i in notes.search(("a",), limit=100, offset=225)] == [*range(225, 230)]
    assert (calls["memory_index"], calls["memory_read"]) == (4, 8)
    assert notes.search(("a",), limit=0) == []
    found = notes.search(("a",), filter={"n": {"$gte": 100}}, limit=2, offset=1)
    assert [i.value["n"] for i in found] == [101, 102]
    assert calls["memory_read"] == 8 + 103


@pytest.mark.parametrize("way", ["limit", "offset"])
@pytest.mark.parametrize("value", [-1, None, "3", 2.0, True])
def test_other_limits_are_refused(way: str, value: Any, store: SamsStore) -> None:
    for ask in (store.search, lambda _, **more: store.list_namespaces(**more)):
        with pytest.raises(InvalidArguments):
            ask((), **{way: value})


def test_a_query_finds_what_lies_in_a_small_namespace(notes: SamsStore) -> None:
    for user in range(60):
        notes.put(("memories", f"u{user}"), "drink", {"content": f"likes green tea, {user}"})
    (item,) = notes.search(("memories", "u7"), query="Who likes green tea?")
    assert item.value == {"content": "likes green tea, 7"}
    wider = [i.namespace for i in notes.search(("memories",), query="green tea", limit=50)]
    assert len(wider) == len(set(wider)) >= 20
    assert notes.search(("memories", "u7"), query="tea " * 249) == []  # no room for the place
    with pytest.raises(LimitExceeded):
        notes.search(("memories",), query="tea " * 300)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"n": 1}, [1]),
        ({"n": {"$eq": 2}}, [2]),
        ({"n": {"$ne": 2}}, [1, 3]),
        ({"n": {"$gt": 1, "$lt": 3}}, [2]),
        ({"n": {"$gte": 2}}, [2, 3]),
        ({"n": {"$lte": 2}}, [1, 2]),
        ({"day": {"$gt": "2026-01-01"}}, [2, 3]),
        ({"deep": {"a": {"$eq": [1, {"b": 3}]}}}, [3]),
        ({"deep": {"a": [1, {"b": {"$lt": 3}}]}}, [1, 2]),
        ({"deep": {"a": (1, {"b": 1})}}, [1]),
        ({"n": {"$gt": "1"}}, []),
        ({"n": {"$gt": None}}, []),
        ({"none": {"$lt": 5}}, []),
        ({"none": None}, [1, 2, 3]),
        ({"n": {"a": 1}}, []),
        ({"deep": []}, []),
        ({"n": {1}}, []),
        ({"$gt": 1}, []),
        ({}, [1, 2, 3]),
    ],
)
def test_filters_are_langgraphs(wanted: Any, found: list[int], notes: SamsStore) -> None:
    for n in (1, 2, 3):
        deep = {"a": [1, {"b": n}]}
        notes.put(("a",), str(n), {"n": n, "day": f"2026-0{n}-01", "deep": deep})
    assert [i.value["n"] for i in notes.search(("a",), filter=wanted)] == found


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize(
    "wanted",
    [
        *({"n": {"$or": [1]}}, {"n": {"$gt": 1, "x": 1}}, {"n": [{"$in": [1]}]}),
        *("n", [("n", 1)], {"n": nested(100_000)}, {"n": {"$eq": nested(100_000)}}),
    ],
    ids=lambda value: str(type(value)),
)
def test_other_filters_are_refused(wanted: Any, notes: SamsStore) -> None:
    with pytest.raises((InvalidArguments, LimitExceeded)):
        notes.search(("a",), filter=wanted)


def test_namespaces_are_listed_as_langgraph_does(notes: SamsStore) -> None:
    for namespace in (("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "c", "f")):
        notes.put(namespace, "k", {"x": 1})
    notes.batch([PutOp(("b", "*"), "k", {"x": 1})])
    three = notes.list_namespaces(prefix=("a", "b"), max_depth=3)
    assert three == [("a", "b", "c"), ("a", "b", "d")]
    assert notes.list_namespaces(prefix=("a", "*", "f")) == [("a", "c", "f")]
    assert notes.list_namespaces(suffix=("*", "i")) == [("a", "b", "d", "i")]
    assert notes.list_namespaces(suffix=("d",)) == notes.list_namespaces(prefix=("b", "b")) == []
    assert notes.list_namespaces(limit=1, offset=1) == [("a", "b", "d", "e")]
    assert notes.list_namespaces(max_depth=1) == [("a",), ("b",)]
    assert len(notes.list_namespaces(prefix=(), suffix=())) == 5
    for condition in (("prefix", ("a",)), MatchCondition("infix", ("a",))):  # type: ignore[arg-type]
        with pytest.raises(InvalidArguments):
            notes.batch([ListNamespacesOp((condition,))])  # type: ignore[arg-type]


def test_an_entry_that_is_retired_meanwhile_is_left_out(
    store: SamsStore, plain: AgentSession, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a/k", "a/l"):
        owner.write(ACME, path, "text", "An entry")
    listed = plain.memory_index("assigned")
    owner.retire(ACME, "a/k")
    monkeypatch.setattr(plain, "memory_index", lambda *args: listed)
    assert [i.key for i in store.search(("a",))] == ["l"]


def test_it_is_a_store_that_keeps_no_time(store: SamsStore) -> None:
    assert isinstance(store, BaseStore)
    with pytest.raises(NotImplementedError):
        store.put(("a",), "k", {"x": 1}, ttl=5)
