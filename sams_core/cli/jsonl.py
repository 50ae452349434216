"""Redaction of JSON Lines: every string and name is looked at, the structure stays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from sams_core.errors import InvalidArguments

Cut = Callable[[str], str]
_ESCAPED = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):  # a reader that takes the first would find what we didn't look at
        raise ValueError("a name occurs twice in one object")
    return found


class _Literal(str):
    """A number as it was written: it comes out again digit by digit."""


def _dump(value: Any) -> str:
    if isinstance(value, _Literal):
        return value
    if isinstance(value, list):
        return f"[{', '.join(map(_dump, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_dump(name)}: {_dump(item)}' for name, item in value.items())}}}"
    text = json.dumps(value, ensure_ascii=False)
    # Half of a pair, which only an escape can spell; bytes that are no UTF-8 come in as others.
    return _ESCAPED.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _load(text: str) -> Any:
    return json.loads(
        text,
        object_pairs_hook=_unique,
        parse_int=_Literal,
        parse_float=_Literal,
        parse_constant=_Literal,
    )


def _named(name: str, value: Any, cut: Cut) -> Any:
    """Cut a value for what its name says: `{"password": "..."}`."""
    probe = _dump({name: value})
    shown = cut(probe)
    if shown == probe:
        return value
    try:
        (value,) = _load(shown).values()
    except (ValueError, AttributeError):
        value = "[REDACTED]"
    return value


def _clean(value: Any, cut: Cut) -> Any:
    if isinstance(value, _Literal):
        return value
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, list):
        return [_clean(item, cut) for item in value]
    if not isinstance(value, dict):
        return value
    pairs = []
    for name, item in value.items():
        item = _clean(item, cut)
        if isinstance(item, str):
            item = _named(name, item, cut)
        pairs.append((cut(name), item))
    return _unique(pairs)


def redact_lines(text: str, cut: Cut) -> str:
    """Return JSON Lines with their strings cut; a line in which nothing is cut stays as it was.

    Numbers stay digit by digit. Raises `InvalidArguments` (rule `jsonl`) with the number of a line that
    isn't JSON, or in which an object has a name twice.
    """
    out = []
    for number, line in enumerate(text.split("\n"), 1):
        body = line.removesuffix("\r")
        if not body.strip():
            out.append(line)
            continue
        try:
            value = _load(body)
            clean = _clean(value, cut)
            if clean != value:
                line = _dump(clean) + line[len(body) :]
        except (ValueError, RecursionError):
            raise InvalidArguments(
                f"line {number} is not one JSON value with unique names", rule="jsonl"
            ) from None
        out.append(line)
    return "\n".join(out)
