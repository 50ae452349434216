"""Text that would act on a terminal, hide from a reader or imitate our own lines."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    from tests.cli.conftest import Shop

SHOP = "project:shop"
HOSTILE = {
    "clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "colours": "\x1b[8mhidden\x1b[0m",
    "c1": "\x9b2J\x85",
    "bidi": "\u202egnp.exe\u2066",
    "zero-width": "a\u200bb\u2060c\ufeff",
    "line separators": "one\u2028two\u2029three",
    "tags": "".join(chr(0xE0000 + ord(char)) for char in "grant me access"),
    "carriage return": "accepted\rrejected",
    "backspace": "bad\b\b\bgood",
    "variation": "a\ufe0f\U000e0100",
    "private": "\ue000\U0010fffd",
    "soft hyphen": "pass\u00adword",
}
ALLOWED = frozenset("\n")


def raw(text: str, output: str) -> list[str]:
    """Return the characters of `text` that a reader must not get raw, but did."""
    return [c for c in text if c in output and acts(c)]


def acts(char: str) -> bool:
    """Tell which characters of the samples below do more than stand for themselves."""
    return char not in ALLOWED and not (char.isascii() and char.isprintable())


@pytest.mark.parametrize("name", HOSTILE)
def test_stored_text_never_reaches_the_terminal_raw(shop: Shop, name: str) -> None:
    text = HOSTILE[name]
    # A line break is refused in a description by the core; everything else gets through to us.
    title = "".join(c for c in text if len(f"a{c}b".splitlines()) == 1)
    session = shop.session(marked=True)
    session.mark_tainted(f"page {text}", origin=f"http://x.example/{text}")
    change = shop.write("a/one", f"before {text} after", f"a {title} note", session=session)
    digest = shop.digest(change)
    outputs = [
        shop.sams("review", "list", SHOP),
        shop.sams("review", "show", SHOP, change),
        shop.sams("review", "accept", SHOP, change, "--digest", digest),
        shop.sams("history", SHOP, "a/one", "--text"),
    ]
    for result in outputs:
        assert result.exit_code == 0, result.output
        assert raw(text, result.output) == []
    shown = outputs[1].stdout
    first = next(filter(acts, text))
    assert f"{ord(first):x}" in shown or repr(first)[1:-1] in shown


@pytest.mark.parametrize("name", HOSTILE)
def test_json_is_ascii_and_exact(shop: Shop, name: str) -> None:
    change = shop.write("a/one", HOSTILE[name], marked=True)
    shown = shop.json("review", "show", SHOP, change)  # asserts that the output is ASCII
    assert shown["content"] == HOSTILE[name]
    assert raw(HOSTILE[name], shown["diff"]) == []


EVIL = "\x1b]52;c;x\x07\u202e\u2028\U000e0041\nsams review accept evil"
ONE_LINE = "\x1b]52;c;x\x07\u202e\U000e0041 sams review accept evil"
FORGED = {
    "description": ONE_LINE,
    "content": EVIL,
    "date": EVIL[:30],
    "rationale": EVIL,
    "evidence": [ONE_LINE, ONE_LINE],
    "supersedes": [EVIL],
    "flags": [{"rule": EVIL, "field": EVIL, "start": 0, "end": 3, "why": EVIL}],
    "sources": [{"kind": EVIL[:30], "name": EVIL, "origin": EVIL, "first_seen": "2026"}],
}
LISTED = set(FORGED) - {"date", "supersedes"}  # the form of these two lets no text in


@pytest.mark.parametrize("field", FORGED)
def test_a_change_that_an_agents_process_forged_is_shown_inert(shop: Shop, field: str) -> None:
    """On SQLite such a process writes the queue's files itself, past all checks of ours."""
    old = shop.write("a/one", "text")
    (file,) = (shop.base / "project-shop" / "queue").glob("*.json")
    forged = json.loads(file.read_text()) | {"id": "f" * 32, field: FORGED[field]}
    data = json.dumps(forged, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    file.with_name(file.name.replace(old, "f" * 32)).write_text(data, encoding="utf-8")
    known = {change.id for change in shop.owner.changes(SHOP)}
    assert ("f" * 32 in known) == (field in LISTED)
    for words in (("list", SHOP), ("show", SHOP, "f" * 32), ("show", SHOP, "f" * 32, "--json")):
        result = shop.sams("review", *words)
        assert result.exit_code == (0 if words[0] == "list" or field in LISTED else 1), (
            result.output
        )
        assert raw(EVIL, result.output) == []
        assert "\nsams review accept evil" not in result.output


def test_a_change_of_one_invisible_character_shows(shop: Shop) -> None:
    shop.owner.write(SHOP, "a/one", "one\ntwo", "a note")
    change = shop.write("a/one", "one\u2028two", version=1)
    shown = shop.sams("review", "show", SHOP, change).stdout
    assert "+one\\u2028two" in shown
    assert "-one" in shown


def test_no_line_of_a_text_can_pass_for_one_of_ours(shop: Shop) -> None:
    fake = "sams review accept project:shop evil --digest 0"
    long = "x" * 99 + fake + "y" * 300  # a terminal would break it before the fake command
    shop.write("a/one", f"{fake}\ndigest 00\n{long}")
    change = shop.write("a/two", f"{fake}\ndigest 00\n{long}", "digest 00")
    for words in (("review", "show", SHOP, change), ("history", SHOP, "a/two", "--text")):
        lines = shop.sams(*words).stdout.splitlines()
        for line in lines:
            if sys.executable in line:  # a command of ours to paste is one long line
                continue
            assert len(line) <= 100, line
            assert not line.startswith(("sams", "digest 00")), line
        shop.owner.accept(SHOP, change, shop.digest(change)) if words[0] == "review" else None


def test_a_line_break_in_a_description_is_refused_by_the_core(shop: Shop) -> None:
    from sams_core import InvalidArguments

    for separator in ("\n", "\r", "\u2028"):
        with pytest.raises(InvalidArguments):
            shop.write("a/one", "text", f"one{separator}two")


@pytest.mark.parametrize("word", ["\x1b]52;c;x\x07", "\u202eabc", "a\nb"])
def test_errors_do_not_repeat_what_was_given_raw(shop: Shop, word: str) -> None:
    change = shop.write("a/one", "text")
    for words in (
        ("review", "list", f"project:{word}"),
        ("review", "list", word),
        ("review", "show", SHOP, change[:2] + word),
        ("history", SHOP, word),
        ("review", "accept", SHOP, change, "--digest", word),
        ("no-such-verb" + word,),
        ("review", "list", SHOP, word),
        ("review", "list", SHOP, "--" + word),
        ("review", "list", SHOP, "--limit", word),
    ):
        result = shop.sams(*words)
        assert result.exit_code in (1, 2), words
        assert raw(word, result.output) == [], words
        assert "Traceback" not in result.output


def test_a_terminal_that_cannot_encode_gets_escapes(
    shop: Shop, process: Callable[..., CompletedProcess[str]]
) -> None:
    change = shop.write("a/one", "\u6708\u706b\u6c34", "\u00fcber")
    words = ("--base", str(shop.base), "review", "show", SHOP, change)
    done = process(*words, env={"PYTHONIOENCODING": "latin-1"}, encoding="latin-1")
    assert done.returncode == 0, done.stderr
    assert "+\u00fcber" in done.stdout
    assert "+\\u6708\\u706b\\u6c34" in done.stdout
