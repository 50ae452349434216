"""Canonical bytes equal RFC 8785's, and what has no such bytes is refused."""

from __future__ import annotations

import dataclasses
import typing

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from sams_core.canonical import canonical, digest
from sams_core.errors import InvalidArguments
from sams_core.records import Change, Entry, Flag, Source
from sams_core.review import present

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
KEYS = st.text(st.characters(max_codepoint=127))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
    max_leaves=20,
)


@given(VALUES)
def test_the_bytes_are_those_of_the_rfc8785_package(value: typing.Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("value", [1.0, float("nan"), 2**53, {"é": 1}, {1: 2}, b"x", {"a": {1}}])
def test_what_could_be_spelled_in_two_ways_is_refused(value: object) -> None:
    with pytest.raises(InvalidArguments) as caught:
        canonical(value)
    assert caught.value.rule == "canonical"


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidArguments):
        canonical(["\ud800"])


def test_a_digest_of_one_kind_is_not_one_of_another() -> None:
    assert digest("entry", {"a": 1}) != digest("change", {"a": 1})


SOURCE = Source("tool", "fetch", "https://example.org", "2026-01-01")
FLAG = Flag("url", "content", 0, 3, "why")
BASE = Entry("org", "p", 1, "d", "c", False, (), "e" * 64, "a", None, "active")
CHANGE = Change(
    id="1" * 32,
    scope="org",
    path="p",
    kind="write",
    base_version=1,
    flags=(FLAG,),
    sources=(SOURCE,),
    tainted=True,
    digest="",
    description="d",
    content="c",
    author="bot",
    source_session="s",
    supersedes=("2" * 32,),
    rationale="r",
    evidence=("e",),
    occurrences=1,
    date="2026-01-01",
    base_digest="e" * 64,
    login="acme_bot",
    base=BASE,
)
OTHER: dict[str, typing.Any] = {
    "id": "3" * 32,
    "scope": "tenant:a",
    "path": "q",
    "kind": "proposal",
    "base_version": 2,
    "flags": (dataclasses.replace(FLAG, end=4),),
    "sources": (dataclasses.replace(SOURCE, origin="https://example.com"),),
    "tainted": False,
    "description": "d ",
    "content": "c\u200b",
    "author": "Bot",
    "source_session": None,
    "supersedes": (),
    "rationale": "",
    "evidence": ("e", ""),
    "occurrences": 2,
    "date": "2026-01-02",
    "base_digest": "f" * 64,
    "login": "acme_boss",
}


def test_the_digest_covers_every_field_that_a_reviewer_is_shown() -> None:
    shown = {f.name for f in dataclasses.fields(Change)} - {"digest", "base"}
    assert shown == set(OTHER)
    first = present(CHANGE).digest
    for name, value in OTHER.items():
        changed = dataclasses.replace(CHANGE, **{name: value})
        assert present(changed).digest != first, name


def test_a_digest_that_comes_with_a_change_is_ignored() -> None:
    forged = dataclasses.replace(CHANGE, digest="f" * 64)
    assert present(forged).digest == present(CHANGE).digest


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scope", "tenant:a"),
        ("path", "q"),
        ("version", 2),
        ("description", "x"),
        ("content", "x"),
        ("tainted", True),
        ("sources", (SOURCE,)),
        ("author", "b"),
        ("source_session", "s"),
        ("base_digest", "a" * 64),
        ("decided_by", "olga"),
        ("why", "because"),
        ("login", "acme_bot"),
        ("decided_login", "acme_owner"),
    ],
)
def test_the_digest_of_an_entry_covers(name: str, value: object) -> None:
    assert dataclasses.replace(BASE, **{name: value}).sealed().digest != BASE.sealed().digest  # type: ignore[arg-type]
