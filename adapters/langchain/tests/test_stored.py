"""How a store's names and values are written: legibly, each in one way, and told again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sams_core.errors import InvalidArguments, LimitExceeded
from sams_core.limits import Limits
from sams_core.redaction import BUILT_IN, TextPolicy, redact
from sams_core.scopes import check_path
from sams_langchain.stored import from_text, path_of, place_of, spell, to_text

CUTS = BUILT_IN.at("tenant:acme")
KEY = "AKIAQ3EGZ7PLMSXWT2BN"
any_text = st.text(st.characters(), min_size=1, max_size=12)  # lone surrogates and NUL included
tricky = st.text(st.sampled_from("./*a2ef_-\0\n%é\ud800"), min_size=1, max_size=12)
plain_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)  # fmt: skip


def text_of(value: object) -> str:
    return to_text(value, Limits(), CUTS)[0]


@given(st.lists(any_text | tricky, min_size=1, max_size=4))
def test_every_place_has_one_path_and_is_told_again(labels: list[str]) -> None:
    path = path_of(labels[:-1], labels[-1])
    assert place_of(path) == (tuple(labels[:-1]), labels[-1])
    assert path.count("/") == len(labels) - 1
    if len(path) <= 96 and not path.lower().startswith("untrusted"):
        assert check_path(path) == path


@given(st.lists(tricky, min_size=1, max_size=3), st.lists(tricky, min_size=1, max_size=3))
def test_two_places_never_share_a_path(one: list[str], other: list[str]) -> None:
    assume(one != other)
    assert path_of(one[:-1], one[-1]) != path_of(other[:-1], other[-1])


@given(st.from_regex(r"[a-z0-9_.-]{1,9}", fullmatch=True))
def test_a_path_that_a_person_wrote_is_told_as_itself_or_not_at_all(path: str) -> None:
    place = place_of(path)
    assert place is None or path_of(*place) == path


def test_what_people_and_tools_write_stays_legible() -> None:
    assert spell("AGENTS.md") == "AGENTS.md"
    assert spell(".env") == ".env"
    assert spell("v1.2.") == "v1.2."
    assert spell("/memories/AGENTS.md") == "..2fmemories..2fAGENTS.md"
    assert spell("olga@acme.com") == "olga..40acme.com"
    assert spell("..") == "..2e."
    assert spell(".") == "..2e"
    assert spell("*") == "..2a"


@pytest.mark.parametrize("label", ["", None, 5, b"x", ("a",), "x" * 97])
def test_a_label_that_is_no_text_or_too_long_is_refused(label: Any) -> None:
    with pytest.raises(InvalidArguments) as refused:
        spell(label)
    assert refused.value.rule == "path"


@given(st.dictionaries(st.text(max_size=6), plain_data, max_size=5))
def test_a_value_comes_back_as_it_was_put(value: dict[str, Any]) -> None:
    text = text_of(value)
    assume(redact(text).text == text)
    assert from_text(text) == value


@given(st.text(st.characters(exclude_categories=["Cs"])) | tricky.map(lambda t: "{" + t))
def test_a_text_comes_back_as_it_was_put(text: str) -> None:
    assume("\ud800" not in text)
    assert from_text(text_of({"content": text})) == {"content": text}


def test_a_text_is_stored_as_a_person_would_have_written_it() -> None:
    assert to_text({"content": "Likes tea.\n\nNo milk."}, Limits(), CUTS) == (
        "Likes tea.\n\nNo milk.",
        "Likes tea. No milk.",
    )


def test_a_text_that_looks_like_an_object_is_told_from_one() -> None:
    look_alike = ' {"a": 1}'
    assert from_text(look_alike) == {"a": 1}
    assert from_text(text_of({"content": look_alike})) == {"content": look_alike}


def test_other_values_are_json_that_a_reviewer_can_read() -> None:
    content, description = to_text({"b": "größer", "a": [1, (2,)]}, Limits(), CUTS)
    assert content == '{\n "a": [\n  1,\n  [\n   2\n  ]\n ],\n "b": "größer"\n}'
    assert description == '{ "a": [ 1, [ 2 ] ], "b": "größer" }'


@pytest.mark.parametrize("text", ["{", '{"a": NaN}', '{"a":' * 100_000, "[1]", "", "\ufeff{}"])
def test_what_is_no_json_object_is_a_text(text: str) -> None:
    assert from_text(text) == {"content": text}


class Opaque:
    pass


cyclic: dict[str, Any] = {}
cyclic["again"] = cyclic


@pytest.mark.parametrize(
    "value",
    [
        *({"a": each} for each in (float("nan"), float("inf"), {1}, Opaque(), b"x", {1: "x"})),
        *({"a": each} for each in (10**5000, "\ud800", {"\ud800": 1})),
        {None: 1},
        ["a"],
        "text",
        7,
        {"content": "\udfff"},
    ],
    ids=lambda value: str(type(value)),
)
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArguments):
        text_of(value)


def nested(levels: int, kind: str) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value] if kind == "list" else {"a": value}
    return value


@pytest.mark.parametrize("value", [nested(100_000, "list"), nested(100_000, "dict"), cyclic])
def test_what_is_too_deep_is_refused_before_it_is_walked(value: Any) -> None:
    with pytest.raises(LimitExceeded, match="levels: at most 64"):
        text_of({"a": value})


def test_a_small_object_that_unfolds_to_a_large_one_is_refused() -> None:
    value: Any = "x"
    for _ in range(40):
        value = [value] * 9
    for large in (value, [0] * 50_000):
        with pytest.raises(LimitExceeded, match="parts: at most 50000"):
            text_of({"a": large})


def test_what_is_too_large_is_refused_by_the_cores_limit() -> None:
    for value in ({"content": "x" * 100_001}, {"content": "x" * 100_000, "b": 1}):
        with pytest.raises(LimitExceeded, match="content, bytes: at most 100000"):
            text_of(value)


# Descriptions.


@pytest.mark.parametrize("before", range(120, 201))
def test_a_description_never_holds_half_of_a_secret(before: int) -> None:
    lead = ("word " * 50)[: before - 1] + " "
    for value in ({"content": f"{lead}{KEY} more"}, {"a": f"{lead}{KEY}", "z": "x" * 300}):
        _, description = to_text(value, Limits(), CUTS)
        assert len(description) <= 200
        assert "AKIA" not in description


def test_a_description_that_only_its_shortening_makes_a_secret_of_is_cut_again() -> None:
    lead = ("word " * 50)[: 159 - len(KEY) - 1] + " "
    text = f"{lead}{KEY}NOKEY"
    assert redact(text).text == text
    description = to_text({"content": text}, Limits(), CUTS)[1]
    assert description.endswith("[REDACTED:aws-access-key]…")
    assert redact(description).text == description


def test_a_description_is_cut_as_the_stores_policy_says() -> None:
    cuts = TextPolicy(personal={"email": ["tenant:acme"]}).at("tenant:acme")
    lead = "word " * 29
    for said in ("ask olga@acme.com", f"{lead}ask olga@acme.com about it"):
        assert "olga" not in to_text({"content": said}, Limits(), cuts)[1]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"content": "a\nb\r\n\x0b\x0c\x1c\x85\u2028 c"}, "a b c"),
        ({"content": ""}, "A value"),
        ({"content": " \n"}, "A value"),
        ({}, "{}"),
        ({"content": "first", "encoding": "utf-8"}, "first"),
        ({"content": {"name": "Olga"}}, '{ "content": { "name": "Olga" } }'),
        ({"content": "long " * 100}, ("long " * 32)[:159] + "…"),
    ],
)
def test_a_description_is_one_line(value: Any, said: str) -> None:
    assert to_text(value, Limits(), CUTS)[1] == said


# Escapes of JSON stand before what they escape, where they could hide the begin of a secret.


@pytest.mark.parametrize("secret", [KEY, "gto_" + "abcdefgh234567" * 3 + "abcdefgh23", f"x {KEY}"])
@pytest.mark.parametrize("where", ["value", "key", "list"])
def test_jsons_escapes_hide_no_secret(secret: str, where: str) -> None:
    said = f"line\n{secret}\nline"
    values: dict[str, Any] = {"value": {"a": said}, "key": {said: 1}, "list": {"a": ["b", said]}}
    content, description = to_text(values[where], Limits(), CUTS)
    stored = redact(content).text
    assert secret.split()[-1] not in stored + description
    assert "REDACTED" in json.dumps(from_text(stored))
