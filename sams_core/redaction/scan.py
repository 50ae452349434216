"""One pass over one text: which rules apply, and where they find something."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator

from sams_core.redaction import assign, keys, prose, rules, values
from sams_core.redaction.engine import Pattern, Prefilter
from sams_core.redaction.model import Rule, Span

Finder = Callable[[bytes], Iterable[Span]]


def _by_pattern(rule: Rule) -> Finder:
    pattern = Pattern(rule.pattern)
    test = values.TESTS[rule.value]
    left, right = rule.pattern.startswith(rules.EDGE), rule.pattern.endswith(rules.EDGE)

    def find(data: bytes) -> Iterator[Span]:
        for match in pattern.finditer(data):
            start, end = match.span(match.lastindex or 0)
            if not match.lastindex:  # an underscore at the edge isn't the key's
                start += left and data[start : start + 1] == b"_"
                end -= right and data[end - 1 : end] == b"_"
            value = data[start:end].decode("utf-8", "ignore")
            if value and values.entropy(value) >= rule.entropy and test(value):
                yield Span(start, end, rule.id)

    return find


class Scanner:
    """A fixed set of rules, ready to be run on any number of texts."""

    def __init__(self, extra: tuple[Rule, ...] = ()) -> None:
        own = rules.shipped() + extra
        self.whole = bool(extra)  # ours need only the lines around a finding, a user's may not
        finders: list[tuple[bool, tuple[str, ...], Finder]] = [
            (rule.pattern.startswith("(?i"), rule.keywords, _by_pattern(rule)) for rule in own
        ]
        finders += [
            (False, keys.KEYWORDS, keys.private_keys),
            (True, assign.TRIGGERS, assign.assigned),
            (True, prose.TRIGGERS, prose.spoken),
        ]
        self._finders = [find for _, _, find in finders]
        self._prefilter = Prefilter([(nocase, words) for nocase, words, _ in finders])

    def keywords(self, data: bytes) -> list[int]:
        """Tell which finders have a keyword in `data`."""
        return self._prefilter.hits(data)

    def spans(self, data: bytes, finders: Iterable[int]) -> list[Span]:
        """Find the secrets in `data`, as byte spans in no order, overlaps included."""
        found: list[Span] = []
        for index in finders:
            found += self._finders[index](data)
        return found


def alone(rule: Rule, data: bytes) -> list[Span]:
    """Find what one rule finds by itself, its keywords included."""
    prefilter = Prefilter([(rule.pattern.startswith("(?i"), rule.keywords)])
    return list(_by_pattern(rule)(data)) if prefilter.hits(data) else []


@functools.lru_cache(maxsize=16)
def scanner(extra: tuple[Rule, ...] = ()) -> Scanner:
    """Return the scanner for the shipped rules and `extra` ones."""
    return Scanner(extra)
