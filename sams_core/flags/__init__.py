"""Hints for the reviewer of a change: what to look at twice, and why.

Flags are hints. They decide nothing: the gate is the person who accepts. A text without flags isn't
safe, a text with flags isn't hostile. They are computed before redaction, so that a destination can
still be seen, and carry positions and fixed sentences, never the text they point at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial

from sams_core import shadow
from sams_core.flags.rules import TEXT_RULES
from sams_core.locks import gate
from sams_core.records import Flag
from sams_core.redaction import decoding
from sams_core.redaction.copies import copies, located
from sams_core.redaction.engine import Pattern, View
from sams_core.redaction.model import Rule
from sams_core.redaction.scan import scanner

__all__ = ["RULES", "review_flags"]

MAX_PER_RULE = 20
# A note, as opposed to a document: longer texts are worth a look for what they bury.
LONG_TEXT = 20_000
LONG_LINE = 4_000

_SECRET = "holds a password, key or token, which is cut before it is stored"  # noqa: S105
_HIDDEN = "holds characters that are not shown or that change the direction of text"
_MIXED = "mixes letters of different alphabets in one word"
_ENCODED = "holds text in an encoding that a person can't read"
_SIZE = "is longer than a person reads closely"

RULES: dict[str, str] = {rule: why for rule, why, _ in TEXT_RULES} | {
    "hidden-characters": _HIDDEN,
    "mixed-scripts": _MIXED,
    "encoded": _ENCODED,
    "size": _SIZE,
}

_Found = tuple[str, int, int, str]

_INVISIBLE = re.compile(f"[{shadow.IGNORABLE}\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029"
                        "\ud800-\udfff\ue000-\uf8ff\U000f0000-\U0010ffff]+")  # fmt: skip
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f\u200e\u200f")
# Scripts in which joiners and marks of direction are spelling: Hebrew to Thai, Mongolian, Khmer.
_NEEDS_JOINERS = re.compile("[\u0590-\u0eff\u1780-\u18af\ufb1d-\ufdff\ufe70-\ufefc]")
_EMOJI = re.compile("[\u00a9\u00ae#*0-9\u203c-\u3299\U0001f000-\U0001faff]")
_WORD = re.compile(r"[^\W\d_]+")
_ALPHABETS = (
    ("latin", re.compile("[A-Za-z\u00c0-\u024f]")),
    ("cyrillic", re.compile("[\u0400-\u052f]")),
    ("greek", re.compile("[\u0370-\u03ff\u1f00-\u1fff]")),
    ("armenian", re.compile("[\u0530-\u058f]")),
    ("cherokee", re.compile("[\u13a0-\u13ff]")),
)
_FOREIGN_LETTER = re.compile("[\u0370-\u058f\u13a0-\u13ff\u1f00-\u1fff]")


# Octets in binary, base32, Morse, and letters spaced out; base64 and hex count if they say something.
_CODED = Pattern(
    r"(?:\b[01]{8}\b[ ,]?){6,}|\b[A-Z2-7]{40,}={0,6}|(?:[.\-]{1,6}[ /]+){10,}|\b(?:[A-Za-z] ){5,}[A-Za-z]\b"
)


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[str, str, Pattern], ...]:
    return tuple((rule, why, Pattern(pattern)) for rule, why, pattern in TEXT_RULES)


# A line end inside a sentence: no full stop before it, and no bullet or blank line after it.
_WRAPPED = re.compile(r"(?<=[^\s.!?:;\u3002\uff01\uff1f])[ \t]{0,8}\r?\n[ \t>]{0,8}(?=[^\W\d_])")
# The rules of sentences. Commands and addresses end with their line: an address on the next one says little.
_SENTENCES = ("instruction-like", "authority-claim", "permission-change")


def _unwrapped(text: str) -> str:
    """Return `text` with blanks for the line ends inside its sentences, as long as it was."""
    return _WRAPPED.sub(lambda end: " " * len(end[0]), text) if "\n" in text else text


def _worded(view: View, rules: tuple[Rule, ...]) -> Iterator[_Found]:
    yield from _matches(view, _patterns())
    scan = scanner(rules)
    secrets = scan.spans(view.data, scan.keywords(view.data))[:MAX_PER_RULE]
    for start, end in view.chars([span[:2] for span in secrets]):
        yield "credential", start, end, _SECRET
    plain = _unwrapped(view.text)
    if plain != view.text:
        yield from _matches(View(plain), [rule for rule in _patterns() if rule[0] in _SENTENCES])


def _matches(view: View, rules: Iterable[tuple[str, str, Pattern]]) -> Iterator[_Found]:
    found: list[tuple[str, str]] = []
    spans: list[tuple[int, int]] = []
    for rule, why, pattern in rules:
        for count, match in enumerate(pattern.finditer(view.data)):
            if count == MAX_PER_RULE:
                break
            found.append((rule, why))
            spans.append(match.span())
    for (rule, why), (start, end) in zip(found, view.chars(spans), strict=True):
        yield rule, start, end, why


def _hidden(text: str) -> Iterator[_Found]:
    for match in _INVISIBLE.finditer(text):
        start, end = match.span()
        if set(match[0]) <= _JOINERS:
            before, after = text[max(0, start - 1) : start], text[end : end + 1]
            if _NEEDS_JOINERS.match(before) or _NEEDS_JOINERS.match(after):
                continue
            if _EMOJI.match(before) and end - start <= 2:
                continue
        if match[0] == "\ufeff" and start == 0:
            continue
        yield "hidden-characters", start, end, _HIDDEN


def _mixed(text: str) -> Iterator[_Found]:
    if not _FOREIGN_LETTER.search(text):
        return
    for match in _WORD.finditer(text):
        if len(match[0]) > 1 and sum(bool(p.search(match[0])) for _, p in _ALPHABETS) > 1:
            yield "mixed-scripts", *match.span(), _MIXED


def _size(text: str) -> Iterator[_Found]:
    if len(text) > LONG_TEXT:
        yield "size", 0, len(text), _SIZE
        return
    start = 0
    for line in text.split("\n"):
        if len(line) > LONG_LINE:
            yield "size", start, start + len(line), _SIZE
        start += len(line) + 1


def _found(text: str, rules: tuple[Rule, ...]) -> Iterator[_Found]:
    for view, way in copies(text, whole=bool(rules)):
        for rule, start, end, why in _worded(view, rules):
            yield rule, *located(start, end, way), why
    if not text.isascii() or not text.isprintable():
        yield from _hidden(text)
        yield from _mixed(text)
    yield from _encoded(text)
    yield from _size(text)


def _encoded(text: str) -> Iterator[_Found]:
    view = View(shadow.encodable(text))
    for start, end in view.chars([match.span() for match in _CODED.finditer(view.data)]):
        yield "encoded", start, end, _ENCODED
    said = decoding.unpacked(view)
    for start, end, _ in said.origins if said else ():
        if end - start > 1:
            yield "encoded", start, end, _ENCODED


def _distinct(found: Iterable[_Found]) -> Iterator[_Found]:
    """Drop what lies inside another finding of its rule, and what is more than anyone reads."""
    counts: dict[str, int] = {}
    reach: dict[str, int] = {}
    for rule, start, end, why in sorted(found, key=lambda f: (f[0], f[1], -f[2], f[3])):
        if end <= reach.get(rule, 0) or counts.get(rule, 0) == MAX_PER_RULE:
            continue
        reach[rule] = end
        counts[rule] = counts.get(rule, 0) + 1
        yield rule, start, end, why


@partial(gate.through, holds=False)  # RE2 has locks
def review_flags(
    text: str, field: str = "content", rules: tuple[Rule, ...] = ()
) -> tuple[Flag, ...]:
    """Point out what a reviewer should look at in `text`, the part of a change called `field`.

    Positions are code points of `text`; what was found in a normalised or decoded copy points at the
    text it came from. At most 20 flags a rule, sorted by position. The sentences in `why` are those
    of `RULES` and one for secrets, which a user's own `rules` find as well. Any string is accepted;
    the work is linear in its length.
    """
    found = sorted(_distinct(_found(text, rules)), key=lambda f: (f[1], f[2], f[0]))
    return tuple(Flag(rule, field, start, end, why) for rule, start, end, why in found)
