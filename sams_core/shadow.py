"""Copies of a text in which disguises are undone, with a map back to the original positions.

Undone are: compatibility forms and normal forms (NFKC), code points that print nothing, marks that
strike letters through or stand over them, and letters of other scripts that imitate Latin ones;
`decoding` undoes encodings. Sources: UAX #15, DerivedCoreProperties.txt, Blocks.txt, and UTS #39 for
the kind of letter pairs.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

# Default-ignorable code points: soft hyphen, joiners, marks of direction, variation selectors, tags.
# And NUL, which stands behind each letter where UTF-16 was read as bytes.
IGNORABLE = (
    "\x00\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_IGNORABLE = re.compile(f"[{IGNORABLE}]+")
# Marks of no script of their own; what of them doesn't compose with its letter is no spelling.
_OVERLAID = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
# Tag characters spell ASCII invisibly; they are read, not dropped.
_TAGS = re.compile("[\U000e0020-\U000e007e]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Lines before and behind a disguised one that are looked at with it: what is found may go on there.
_LINES = 3
_LATIN_WORD = re.compile(r"[A-Za-z]")
# What normalisation may change: everything beyond ASCII, and the letter that a mark stands on.
_FOREIGN = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")

# Letters that imitate a Latin one, and dashes and quotes, each group under what it looks like.
_LOOKS = {
    "a": "\u0430\u0251\u03b1",
    "b": "\u042c\u0184",
    "c": "\u0441\u03f2",
    "d": "\u0501",
    "e": "\u0435\u04bd",
    "g": "\u0261\u0581",
    "h": "\u04bb\u0570",
    "i": "\u0456\u0131\u03b9",
    "j": "\u0458\u03f3",
    "k": "\u043a\u03ba",
    "l": "\u04cf",
    "n": "\u0578",
    "o": "\u043e\u03bf\u0585",
    "p": "\u0440\u03c1",
    "q": "\u051b",
    "r": "\u0433",
    "s": "\u0455",
    "t": "\u0442\u03c4",
    "u": "\u057d\u03c5",
    "v": "\u0475\u03bd",
    "w": "\u051d\u0461",
    "x": "\u0445\u03c7",
    "y": "\u0443\u03b3\u04af",
    "z": "\u1d22",
    "A": "\u0410\u0391",
    "B": "\u0412\u0392",
    "C": "\u0421\u03f9",
    "E": "\u0415\u0395",
    "H": "\u041d\u0397",
    "I": "\u0406\u0399\u04c0",
    "J": "\u0408",
    "K": "\u041a\u039a",
    "M": "\u041c\u039c",
    "N": "\u039d",
    "O": "\u041e\u039f",
    "P": "\u0420\u03a1",
    "S": "\u0405",
    "T": "\u0422\u03a4",
    "X": "\u0425\u03a7",
    "Y": "\u04ae\u03a5",
    "Z": "\u0396",
    "-": "\u2010\u2011\u2012\u2013\u2212",
    "'": "\u2018\u2019",
    '"': "\u201c\u201d\u201e",
}
_LATIN = {ord(twin): latin for latin, twins in _LOOKS.items() for twin in twins}
_IMITATION = re.compile(
    "[" + "".join(twins for latin, twins in _LOOKS.items() if latin.isalpha()) + "]"
)


@dataclass(frozen=True)
class Shadow:
    """A rewritten text and, for each stretch of it, where it came from in `source` positions."""

    text: str
    starts: list[int]
    origins: list[tuple[int, int, bool]]  # from, to, one to one

    def source(self, start: int, end: int) -> tuple[int, int]:
        """Map a non-empty span of `text` to the span of the source that produced it."""
        first = bisect_right(self.starts, start) - 1
        last = bisect_right(self.starts, end - 1) - 1
        low, _, linear = self.origins[first]
        begin = low + start - self.starts[first] if linear else low
        low, high, linear = self.origins[last]
        return begin, low + end - self.starts[last] if linear else high


class Builder:
    """Collects the stretches of a shadow in order."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._starts: list[int] = []
        self._origins: list[tuple[int, int, bool]] = []

    def add(self, text: str, start: int, end: int) -> None:
        """Append `text`, which stands for the source's span from `start` to `end`."""
        if text:
            self._starts.append(self._length)
            self._origins.append((start, end, len(text) == end - start))
            self._parts.append(text)
            self._length += len(text)

    def gap(self, at: int) -> None:
        """Leave out what lies before `at`: nothing that is found reaches over it."""
        if self._length:
            self.add("\n\0\n", at, at)

    def build(self) -> Shadow:
        """Return the shadow collected so far."""
        return Shadow("".join(self._parts), self._starts, self._origins)


def encodable(text: str) -> str:
    """Replace lone surrogates by U+FFFD, one for one, so that positions stay."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _tag_text(match: re.Match[str]) -> str:
    return "".join(chr(ord(char) - 0xE0000) for char in match[0])


def _plain(text: str) -> str:
    """Undo disguises without keeping positions."""
    shown = normal("NFKC", _IGNORABLE.sub("", _TAGS.sub(_tag_text, text)))
    return shown if shown.isascii() else _OVERLAID.sub("", shown)


def _clusters(text: str) -> Iterator[str]:
    """Cut into pieces that can be normalised one by one (marks and Hangul jamo stay together)."""
    start = 0
    for at, char in enumerate(text):
        joined = (
            unicodedata.combining(char) or "\u1160" <= char <= "\u11ff" or char in "\u3099\u309a"
        )
        if at and not joined:
            yield text[start:at]
            start = at
    if text:
        yield text[start:]


def normal(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Return `text` in a normal form, in a time that grows with its length alone.

    Normalising sorts the marks on a letter by insertion, whose time grows by the square of how many
    there are; long runs are sorted beforehand.
    """
    return unicodedata.normalize(form, text if text.isascii() else _runs().sub(_in_order, text))


def _in_order(marks: re.Match[str]) -> str:
    return "".join(sorted(marks[0], key=unicodedata.combining))


# Unified ideographs and Hangul syllables are stable, and most of what there is.
_AREAS = (range(1), range(0x80, 0x3400), range(0xA000, 0xAC00), range(0xD7A4, 0xD800),
          range(0xE000, 0x20000), range(0x2F800, 0x2FA20), range(0xE0000, 0xE1000))  # fmt: skip


def _all_that(test: Callable[[str], object]) -> str:
    """Return a class of characters for a pattern."""
    ranges: list[list[int]] = []
    for point in itertools.chain(*_AREAS):
        if test(chr(point)):
            if ranges and ranges[-1][1] == point - 1:
                ranges[-1][1] = point
            else:
                ranges.append([point, point])
    return "[" + "".join(f"{chr(low)}-{chr(high)}" for low, high in ranges) + "]"


@functools.cache
def _runs() -> re.Pattern[str]:
    """Match runs of marks that are longer than any language writes."""
    return re.compile(_all_that(unicodedata.combining) + "{32,}")


@functools.cache
def _unstable() -> re.Pattern[str]:
    """Match runs that normalisation may change: alone, or joined to what stands before them."""

    def unstable(char: str) -> object:
        return (
            unicodedata.combining(char)
            or "\u1160" <= char <= "\u11ff"
            or not unicodedata.is_normalized("NFKC", char)
            or _IGNORABLE.match(char)
            or _OVERLAID.match(char)
        )

    return re.compile(_all_that(unstable) + "+")


def _around(text: str, places: re.Pattern[str], whole: bool) -> Iterator[tuple[int, int]]:
    """Yield the spans of the lines that `places` is found in, with the lines next to them.

    One look a line: a text that is disguised all over costs no more than its lines.
    """
    if whole:
        yield 0, len(text)
        return
    low, high, line_end = 0, -1, -1
    while match := places.search(text, line_end + 1):
        start = match.start()
        for _ in range(_LINES + 1):
            start = max(text.rfind("\n", max(high, 0), start), 0)
        if high < 0 or start > high:
            if high >= 0:
                yield low, high
            low = start
        line_end = high = _line_end(text, match.end())
        for _ in range(_LINES):
            high = _line_end(text, high + 1)
        if line_end == len(text):
            break
    if high >= 0:
        yield low, high


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def normalised(text: str, whole: bool = True) -> Shadow | None:
    """Return the NFKC copy of `text` without ignorables and overlaid marks, or nothing if it is `text`.

    Not `whole`: only the lines that differ, and those around them.
    """
    if "\0" not in text:
        if text.isascii():
            return None
        foreign = "".join(_FOREIGN.findall(text))
        dropped = _IGNORABLE.search(foreign) or _OVERLAID.search(foreign)
        if not dropped and unicodedata.is_normalized("NFKC", foreign):
            return None
    builder = Builder()
    for low, high in _around(text, _unstable(), whole):
        builder.gap(low)
        done = low
        for match in _unstable().finditer(text, low, high):
            start, end = match.span()
            # A mark or a jamo at the start belongs to the character before it.
            if start > done and (
                unicodedata.combining(text[start]) or "\u1160" <= text[start] <= "\u11ff"
            ):
                start -= 1
            builder.add(text[done:start], done, start)
            position = start
            for cluster in _clusters(text[start:end]):
                builder.add(_plain(cluster), position, position + len(cluster))
                position += len(cluster)
            done = end
        builder.add(text[done:high], done, high)
    return builder.build()


def latinised(text: str, whole: bool = True) -> Shadow | None:
    """Return `text` with look-alike letters as Latin ones, if it mixes them with Latin letters.

    Not `whole`: only the lines that have some, and those around them.
    """
    if text.isascii() or not _IMITATION.search(text) or not _LATIN_WORD.search(text):
        return None
    builder = Builder()
    for low, high in _around(text, _IMITATION, whole):
        builder.gap(low)
        builder.add(text[low:high].translate(_LATIN), low, high)
    return builder.build()


def skeleton(text: str) -> str:
    """Reduce `text` to what a reader sees: two texts with one skeleton look alike."""
    return _plain(_plain(text).translate(_LATIN)).translate(_LATIN)
