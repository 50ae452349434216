"""Redaction of JSON Lines: every string and name is looked at, the structure stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sams_core.errors import InvalidArguments

Cut = Callable[[str], str]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):  # a reader that takes the first would find what we didn't look at
        raise ValueError("a name occurs twice in one object")
    return found


def _named(name: str, value: Any, cut: Cut) -> Any:
    """Cut a value for what its name says: `{"password": "..."}`."""
    probe = json.dumps({name: value}, ensure_ascii=False)
    shown = cut(probe)
    if shown == probe:
        return value
    try:
        (value,) = json.loads(shown).values()
    except (ValueError, AttributeError):
        value = "[REDACTED]"
    return value


def _clean(value: Any, cut: Cut) -> Any:
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, list):
        return [_clean(item, cut) for item in value]
    if not isinstance(value, dict):
        return value
    pairs = []
    for name, item in value.items():
        item = _clean(item, cut)
        if isinstance(item, str | int) and not isinstance(item, bool):
            item = _named(name, item, cut)
        pairs.append((cut(name), item))
    return _unique(pairs)


def redact_lines(text: str, cut: Cut) -> str:
    """Return JSON Lines with their strings cut; a line in which nothing is cut stays as it was.

    Raises `InvalidArguments` (rule `jsonl`) with the number of a line that isn't JSON, or in which
    an object has a name twice.
    """
    out = []
    for number, line in enumerate(text.split("\n"), 1):
        body = line.removesuffix("\r")
        if not body.strip():
            out.append(line)
            continue
        try:
            value = json.loads(body, object_pairs_hook=_unique)
            clean = _clean(value, cut)
        except (ValueError, RecursionError):
            raise InvalidArguments(
                f"line {number} is not one JSON value with unique names", rule="jsonl"
            ) from None
        if clean == value:
            out.append(line)
        else:
            out.append(json.dumps(clean, ensure_ascii=False) + line[len(body) :])
    return "\n".join(out)
