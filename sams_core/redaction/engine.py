"""RE2 on UTF-8 bytes: patterns that compile on first use, and a prefilter that picks rules.

Bytes because RE2's own string interface encodes the text again for every call. Every pattern in
this package is bounded or consumes what it scanned, so a pass over a text is linear in its length.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import re2

Match = Any  # re2 ships no types


_observer: Callable[[int], None] | None = None


def observe(observer: Callable[[int], None] | None) -> None:
    """Tell `observer` the number of bytes of every piece that RE2 scans (for tests)."""
    global _observer
    _observer = observer


@functools.cache
def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    # A rule's automaton may need more than the default 8 MB when it counts repetitions.
    options.max_mem = 64 << 20
    return re2.compile(pattern.encode(), options)


def compiles(pattern: str) -> bool:
    """Tell whether `pattern` is RE2 syntax and doesn't match the empty text."""
    try:
        return _compile(pattern).search(b"") is None
    except re2.error:
        return False


def spans_of(match: Match) -> list[tuple[int, int]]:
    """Return the spans of a match and of its groups, (-1, -1) for one that has none.

    Its own accessors count the pattern's groups on every call; what they read is this.
    """
    try:
        spans: list[tuple[int, int]] = match._spans
    except AttributeError:
        return [match.span(number) for number in range(match.re.groups + 1)]
    return spans


class Pattern:
    """A pattern that is compiled when first used."""

    __slots__ = ("source",)

    def __init__(self, source: str) -> None:
        self.source = source

    def finditer(self, data: bytes, start: int = 0, end: int | None = None) -> Iterator[Match]:
        """Yield the matches in `data[start:end]`; only boundaries see what is outside."""
        if _observer:
            return self._observed(data, start, len(data) if end is None else end)
        found: Iterator[Match] = _compile(self.source).finditer(data, start, end)
        return found

    def _observed(self, data: bytes, start: int, end: int) -> Iterator[Match]:
        assert _observer  # noqa: S101 - for the type checker
        for match in _compile(self.source).finditer(data, start, end):
            _observer(match.end() - start)
            start = match.end()
            yield match
        _observer(end - start)

    def match(self, data: bytes, start: int, end: int) -> Match | None:
        """Match at `start`, looking no further than `end`."""
        if _observer:
            _observer(end - start)
        return _compile(self.source).match(data, start, end)

    def search(self, data: bytes) -> Match | None:
        """Find the first match."""
        if _observer:
            _observer(len(data))
        return _compile(self.source).search(data)


class Shape:
    """A form that a whole value has or hasn't; RE2 too, because an attacker chooses the value."""

    __slots__ = ("source",)

    def __init__(self, source: str) -> None:
        self.source = source

    @classmethod
    def any_of(cls, *shapes: Shape) -> Shape:
        """Return the form that a value has if it has one of `shapes`."""
        return cls("|".join(f"(?:{shape.source})" for shape in shapes))

    def fits(self, value: str) -> bool:
        """Tell whether all of `value` has this form."""
        if _observer:
            _observer(len(value))
        return _compile(self.source).fullmatch(value.encode("utf-8", "replace")) is not None


class Prefilter:
    """Tells in one pass which of many keyword lists occur in a text."""

    def __init__(self, keywords: Sequence[tuple[bool, Sequence[str]]]) -> None:
        """Take, for each list, whether case is ignored, and its literals (none: always a hit)."""
        self._keywords = keywords
        self._always = [index for index, (_, words) in enumerate(keywords) if not words]
        self._set: Any = None

    def _compiled(self) -> Any:
        options = re2.Options()
        options.log_errors = False
        options.max_mem = 64 << 20
        compiled = re2.Set.SearchSet(options)
        for nocase, words in self._keywords:
            literals = "|".join(str(re2.escape(word)) for word in words)
            # An index must stay in step with its list; U+10FFFF is in no text worth a rule.
            literals = literals or "\U0010ffff{2}"
            compiled.Add((f"(?i:{literals})" if nocase else literals).encode())
        compiled.Compile()
        return compiled

    def hits(self, data: bytes) -> list[int]:
        """Return the indices of the lists that occur in `data`, ascending."""
        if self._set is None:
            self._set = self._compiled()
        if _observer:
            _observer(len(data))
        return sorted({*(self._set.Match(data) or ()), *self._always})


_CONTINUATION = bytes(range(0x80, 0xC0))


class View:
    """A text as RE2 sees it, with byte positions turned back into code points."""

    def __init__(self, text: str) -> None:
        """Take a text without lone surrogates."""
        self.text = text
        self.data = text.encode()
        self._ascii = len(self.data) == len(text)

    def chars(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Turn spans of bytes into spans of code points, in one pass."""
        if self._ascii or not spans:
            return spans
        position = count = 0
        where: dict[int, int] = {}
        for offset in sorted({offset for span in spans for offset in span}):
            # Lead bytes, not decoded characters: an offset may fall inside a character.
            count += len(self.data[position:offset].translate(None, _CONTINUATION))
            where[offset] = count
            position = offset
        return [(where[start], where[end]) for start, end in spans]
