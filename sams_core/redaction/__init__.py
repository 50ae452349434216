"""Cuts secrets out of text before it is stored, and leaves every other text byte for byte.

`redact` looks at the text as it is, at a copy with disguises undone (compatibility forms, invisible
code points, look-alike letters) and at what base64, hex, percent, HTML and backslash encodings in it
say, a terminal's colours left out; what is found there is cut from the original. Work is linear in the
length of the text. The rules are data: see the TOML files in `rules/`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from sams_core.locks import gate
from sams_core.redaction.model import Redacted, Rule, RuleError
from sams_core.redaction.policy import BUILT_IN, Cuts, TextPolicy, load_policy, policy_of
from sams_core.redaction.replace import PERSONAL, redacted

__all__ = [
    "BUILT_IN",
    "PERSONAL",
    "Cuts",
    "Redacted",
    "Rule",
    "RuleError",
    "TextPolicy",
    "check_rules",
    "load_policy",
    "load_rules",
    "policy_of",
    "redact",
]


@partial(gate.through, holds=False)  # RE2 has locks
def redact(text: str, *, personal: Collection[str] = (), rules: tuple[Rule, ...] = ()) -> Redacted:
    """Replace the secrets in `text` by ``[REDACTED:<kind>]``.

    `personal` names kinds of personal data to cut as well, of `PERSONAL`: e-mail addresses (the
    domain stays readable), payment cards (Luhn), IBANs (mod 97), phone numbers. `rules` are a
    user's own, from `load_rules`. Any string is accepted, lone surrogates included. Idempotent with
    the same arguments: a second call changes and finds nothing. Raises `ValueError` for a kind that
    isn't in `PERSONAL`.
    """
    return redacted(text, frozenset(personal), rules)


def load_rules(path: str) -> tuple[Rule, ...]:
    """Read a user's own rules from the tables ``[[redaction.rules]]`` of a TOML file.

    See `rules.load_rules` for the keys. Raises `RuleError` for a malformed rule,
    `tomllib.TOMLDecodeError` and `OSError` for the file.
    """
    from sams_core.redaction.rules import load_rules

    return load_rules(path)


def check_rules(rules: tuple[Rule, ...] | None = None) -> list[str]:
    """Run the examples of `rules` (default: the shipped ones) and return what went wrong.

    Each `catch` example must be cut by its rule, each `keep` example must stay byte for byte. An
    empty list means that all hold. A failure names the rule and the example's number.
    """
    from sams_core.redaction.examples import failures

    return failures(rules)
