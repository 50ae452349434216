"""What redaction is made of: a rule, a finding, and the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Redacted:
    """A text without its secrets, and which kinds were cut: rule ids, sorted, each once."""

    text: str
    kinds: tuple[str, ...]


class RuleError(ValueError):
    """A rule is malformed; the message names the rule and the key, never its value."""


@dataclass(frozen=True)
class Rule:
    """One kind of secret that its shape gives away.

    `pattern` is RE2 syntax on UTF-8; the last group that matched, if any, is cut. It is tried
    only on texts that contain one of `keywords` (which ignore case where the pattern starts with
    ``(?i)``). `entropy` is the least Shannon entropy of the cut text in bits a character, `value` a
    name in `values.TESTS` that it must pass as well.
    `catch` and `keep` are examples; see `examples.expand` for their templates.
    """

    id: str
    pattern: str
    keywords: tuple[str, ...]
    catch: tuple[str, ...]
    keep: tuple[str, ...]
    source: str
    entropy: float = 2.0
    value: str = "any"


class Span(NamedTuple):
    """A finding: from, to, kind."""

    start: int
    end: int
    kind: str
