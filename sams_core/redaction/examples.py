"""Runs the examples that every rule carries, written as templates so that no file holds a secret.

``<A36>`` stands for 36 letters and digits, ``<a20>`` for lower case and digits, ``<U16>`` for upper
case and digits, ``<L8>`` for letters, ``<h32>`` for lower-case hex, ``<d12>`` for digits, ``<b40>``
for base64 and ``<w24>`` for base64url characters. They are derived from the rule's id: the same in every run.
"""

from __future__ import annotations

import hashlib
import re
import string

from sams_core.redaction.model import Rule

_TEMPLATE = re.compile(r"<([AaULhdbw])([0-9]{1,4})>")
_ALPHABETS = {
    "A": string.ascii_letters + string.digits,
    "a": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "L": string.ascii_letters,
    "h": "0123456789abcdef",
    "d": string.digits,
    "b": string.ascii_letters + string.digits + "+/",
    "w": string.ascii_letters + string.digits + "-_",
}


def expand(template: str, seed: str) -> str:
    """Fill the templates in an example with characters that depend on `seed` only."""
    count = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        alphabet = _ALPHABETS[match[1]]
        stream = hashlib.shake_256(f"{seed}/{count}".encode()).digest(2 * int(match[2]))
        pairs = zip(stream[::2], stream[1::2], strict=True)
        return "".join(alphabet[(high << 8 | low) % len(alphabet)] for high, low in pairs)

    return _TEMPLATE.sub(fill, template)


def failures(rules: tuple[Rule, ...] | None) -> list[str]:
    """Return one line for each example that isn't treated as it says."""
    from sams_core.redaction.replace import redacted
    from sams_core.redaction.rules import shipped
    from sams_core.redaction.scan import alone

    extra = rules or ()
    out: list[str] = []
    for rule in shipped() if rules is None else rules:
        for number, example in enumerate(rule.catch, 1):
            text = expand(example, f"{rule.id}/{number}")
            if not alone(rule, text.encode("utf-8", "replace")):
                out.append(f"{rule.id}: catch example {number} is not found by its rule")
            elif not redacted(text, frozenset(), extra).kinds:
                out.append(f"{rule.id}: catch example {number} is not cut")
        for number, example in enumerate(rule.keep, 1):
            text = expand(example, f"{rule.id}/{number}")
            found = redacted(text, frozenset(), extra)
            if found.text != text:
                out.append(f"{rule.id}: keep example {number} is cut as {', '.join(found.kinds)}")
    return out
