"""What a person sees is what there is."""

from __future__ import annotations

import unicodedata
from difflib import SequenceMatcher
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sams_core.visible import diff, visible, visible_line

HIDDEN = frozenset(("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"))
TRICKY = st.text(
    alphabet=st.one_of(
        st.characters(), st.sampled_from("\\xu0U12etnr \n\t\u202e\u2028\ufe0f\U000e0041\u0430é")
    ),
    max_size=30,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ümläut, 部署, ok", "plain text, ümläut, 部署, ok"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\u202eb", "a\\u202eb"),
        ("a\U000e0041b", "a\\U000e0041b"),
        ("tab\there", "tab\\there"),
        ("a\u2028b\u00a0c", "a\\u2028b\\xa0c"),
        ("\ufe0f\u200b\u3164", "\\ufe0f\\u200b\\u3164"),
        ("\ud800\ue000", "\\ud800\\ue000"),
        ("C:\\dir and \\d+", "C:\\dir and \\d+"),
        ("a literal \\u202e", "a literal \\\\u202e"),
        ("C:\\temp", "C:\\\\temp"),
        ("two\nlines", "two\nlines"),
        ("e\u0301 and हिन्दी में, ภาษาไทย ที่นี่", "e\u0301 and हिन्दी में, ภาษาไทย ที่นี่"),
        ("s\u0336t\u20e0", "s\\u0336t\\u20e0"),
        ("\u0329\u030d - \u030d\n\u030d\t\u0301", "\\u0329\u030d - \\u030d\n\\u030d\\t\\u0301"),
        ("a" + "\u0301" * 6, "a" + "\u0301" * 4 + "\\u0301" * 2),
    ],
)
def test_hidden_code_points_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_one_line_output_has_no_newline() -> None:
    assert visible_line("a\nb\\\nc") == "a\\nb\\\\\\nc"


@settings(max_examples=500, deadline=None)
@given(TRICKY)
def test_output_holds_nothing_hidden_and_can_be_encoded(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert not any(unicodedata.category(char) in HIDDEN for char in shown.replace("\n", ""))
    assert not any(char.isspace() for char in shown.replace("\n", "").replace(" ", ""))


@settings(max_examples=500, deadline=None)
@given(TRICKY, TRICKY)
def test_two_texts_never_look_the_same(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)
    assert (visible_line(one) == visible_line(other)) == (one == other)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a\nb\n", "a\u2028b\n", ["-a", "-b", "+a\\u2028b"]),
        ("café\n", "cafe\u0301\n", ["-caf\\xe9", "+cafe\\u0301"]),
        ("pay\n", "p\u0430y\n", ["-pay", "+p\\u0430y"]),
        ("end\n", "end \n", ["-end", "+end\\x20"]),
        ("end\n", "end", ["-end", "+end", "\\ No newline at end of file"]),
        ("a\r\n", "a\n", ["-a\\r", "+a"]),
        ("x\n", "x\u200b\n", ["-x", "+x\\u200b"]),
        ("Ⅷ\n", "VIII\n", ["-\\u2167", "+VIII"]),
    ],
)
def test_a_change_that_looks_like_none_shows(old: str, new: str, expected: list[str]) -> None:
    lines = diff(old, new).splitlines()[3:]
    assert lines == expected


def test_equal_texts_have_no_diff() -> None:
    assert diff("a\nb", "a\nb") == ""


def test_a_diff_has_names_hunks_and_context() -> None:
    old = "".join(f"line {n}\n" for n in range(20))
    new = old.replace("line 10\n", "line ten\n")
    assert diff(old, new, old_name="v1\n", new_name="v2").splitlines() == [
        "--- v1\\n",
        "+++ v2",
        "@@ -8,7 +8,7 @@",
        " line 7",
        " line 8",
        " line 9",
        "-line 10",
        "+line ten",
        " line 11",
        " line 12",
        " line 13",
    ]


@settings(max_examples=500, deadline=None)
@given(TRICKY, TRICKY)
def test_every_change_makes_removed_and_added_lines_differ(old: str, new: str) -> None:
    lines = diff(old, new).splitlines()
    removed = [line[1:] for line in lines[2:] if line.startswith("-")]
    added = [line[1:] for line in lines[2:] if line.startswith("+")]
    if old != new:
        assert removed != added or "\\ No newline at end of file" in lines


def test_a_text_of_repeated_lines_costs_no_more_than_its_length() -> None:
    old = "".join(f"{n % 40}\n" for n in range(20_000))
    new = "".join(f"{n % 41}\n" for n in range(20_000))
    assert len(diff(old, new).splitlines()) > 40_000 - 100


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Every second line is the same: each one is a block by itself, found by a walk to the end.
        (
            "".join(f"{n:x}\nu{n:x}\n" for n in range(10_000)),
            "".join(f"{n:x}\nv{n:x}\n" for n in range(10_000)),
        ),
        # The same, and each line occurs in many places.
        (
            "".join(f"{n * n % 907}\nu{n}\n" for n in range(6_000)),
            "".join(f"{n * n % 907}\nv{n}\n" for n in range(6_000)),
        ),
    ],
)
def test_comparing_lines_takes_bounded_steps_whoever_chose_them(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks: list[int] = []
    find = SequenceMatcher.find_longest_match

    def counted(self: Any, alo: int = 0, ahi: int = 0, *rest: int) -> Any:
        walks.append(ahi - alo)
        return find(self, alo, ahi, *rest)

    monkeypatch.setattr(SequenceMatcher, "find_longest_match", counted)
    assert diff(old, new)
    assert sum(walks) < 30_000_000
    walks.clear()
    small = old[:6_000]
    assert " 1\n" in diff(small, new[:6_000])  # what is within bounds is still compared in full
    assert walks
