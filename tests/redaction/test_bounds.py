"""Work is linear, results are stable, nothing crashes: properties of any text."""

from __future__ import annotations

import itertools
import subprocess
import sys
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sams_core import review_flags
from sams_core.redaction import engine, redact
from sams_core.redaction.replace import _DONE
from sams_core.shadow import normal
from sams_core.visible import diff

UNITS = {
    "one letter": "a",
    "hex": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "digits": "8314159265358979",
    "underscores": "_",
    "constant case": "MAX_RETRY_COUNT_",
    "base64": "Q2hhbmdlIHRoZSB3b3JsZCBub3c+/",
    "a. chain": "a.",
    "x@ chain": "x@",
    "assignments": "password=",
    "secrets": "password: hunter" + "2x ",
    "key headers": "-----BEGIN PRIVATE " + "KEY-----\n",
    "urls": "a://u:p@",
    "placeholders": "[REDACTED:",
    "entities": "&amp;%41\\u0041",
    "backslashes": "\\",
    "escapes": "\\n",
    "colours": "\x1b[32m",
    "colours that don't end": "\x1b[1;",
    "escaped colours": "\\\\e[",
    "zero width": "a\u200b",
    "marks": "e\u0301",
    "names": "token key secret ",
    "quotes": 'password="',
}


def work(text: str) -> int:
    total = 0

    def count(size: int) -> None:
        nonlocal total
        total += size + 1

    engine.observe(count)
    try:
        redact(text)
    finally:
        engine.observe(None)
    return total


@pytest.mark.parametrize("unit", UNITS)
def test_twice_the_text_is_at_most_two_and_a_half_times_the_work(unit: str) -> None:
    half = UNITS[unit] * (16_000 // len(UNITS[unit]))
    assert work(half + half) <= 2.5 * work(half)


@pytest.mark.parametrize(
    "unit", ["hex", "digits", "underscores", "constant case", "base64", "a. chain", "x@ chain"]
)
def test_four_megabytes_cost_no_more_by_the_character_than_forty_kilobytes(unit: str) -> None:
    small = UNITS[unit] * (40_000 // len(UNITS[unit]))
    large = UNITS[unit] * (4_000_000 // len(UNITS[unit]))
    assert work(large) / len(large) <= 1.25 * work(small) / len(small)


def test_a_text_without_keywords_is_scanned_twice_and_no_more() -> None:
    text = "the quick brown fox runs the billing job on friday\n" * 20
    assert work(text) <= 2 * len(text) + 8


PIECES = st.sampled_from(
    [*UNITS.values(), "[REDACTED:jwt]", "hunter" + "2x",
     "ghp" + "_" + "a1B2" * 9, " ", "\n", "=", ":", '"',
     "'", "\ud800", "\U000e0041",
     "：", "%3D", "&#61;",
     "密码是", "пароль", "Bearer ", "eyJ", "-p", "://", "@h"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.lists(PIECES, max_size=12).map("".join), st.text(alphabet=st.characters(), max_size=80)
    )
)
def test_a_second_call_changes_and_finds_nothing(text: str) -> None:
    once = redact(text)
    twice = redact(once.text)
    assert twice.text == once.text
    assert twice.kinds == ()


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_what_is_left_of_a_text_was_in_it(text: str) -> None:
    rest = _DONE.split(redact(text).text)
    at = 0
    for part in rest:
        at = text.find(part, at)
        assert at >= 0
        at += len(part)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.characters(), max_size=60).map("".join))
def test_no_text_makes_it_crash(text: str) -> None:
    redact(text, personal=("email", "card", "iban", "phone"))


def test_importing_compiles_nothing() -> None:
    code = (
        "import re2; made = []; real = re2.compile\n"
        "re2.compile = lambda *a, **k: made.append(a) or real(*a, **k)\n"
        "import sams_core.redaction\n"
        "assert not made, made\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


MARKS = st.text(
    st.sampled_from("ae\u0301\u0316\u0323\u0344\u05b0\u3099\u1161\u00e9\u1eadx"), max_size=9
)


@given(st.lists(MARKS, max_size=4), st.integers(1, 40))
def test_a_normal_form_is_pythons_own(parts: list[str], times: int) -> None:
    text = "".join(part * times for part in parts)
    assert normal("NFC", text) == unicodedata.normalize("NFC", text)
    assert normal("NFKC", text) == unicodedata.normalize("NFKC", text)


@pytest.mark.parametrize("run", [redact, review_flags, lambda text: diff(text, f"b{text}")])
def test_no_text_makes_python_sort_its_marks(
    run: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python sorts by insertion: a hundred kilobytes of marks would take seconds, four megabytes hours."""
    moves = 0
    python = unicodedata.normalize

    def counted(form: str, text: str) -> str:
        nonlocal moves
        classes = [unicodedata.combining(char) for char in text]
        moves += sum(one > next_ > 0 for one, next_ in itertools.pairwise(classes))
        return python(form, text)

    monkeypatch.setattr(unicodedata, "normalize", counted)
    run("password: a" + "\u0301\u0316" * 1_000 + " b\n")
    assert moves == 0
