"""Canonical bytes and digests: one spelling for a record, so that equal digests mean equal records.

The form is RFC 8785 (JSON Canonicalization Scheme) restricted to ASCII keys, strings, integers below
2**53, booleans, null, lists and objects. In that subset the standard library's output is identical
once non-ASCII text is written raw; floats, which RFC 8785 spells in ECMAScript's way, and lone
surrogates, which have no UTF-8, are refused.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from sams_core.errors import InvalidArguments

_SAFE_INTEGER = 2**53 - 1


def _check(value: Any) -> None:
    if value is None or isinstance(value, bool | str):
        return
    if isinstance(value, int):
        if abs(value) > _SAFE_INTEGER:
            raise InvalidArguments("canonical form: integers up to 2**53 - 1", rule="canonical")
    elif isinstance(value, list | tuple):
        for item in value:
            _check(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not key.isascii():
                raise InvalidArguments("canonical form: keys are ASCII strings", rule="canonical")
            _check(item)
    else:
        raise InvalidArguments("canonical form: no floats or other types", rule="canonical")


def canonical(value: Any) -> bytes:
    """Return the canonical UTF-8 bytes of `value`; raises `InvalidArguments` (rule `canonical`)."""
    _check(value)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArguments("canonical form: no lone surrogates", rule="canonical") from None


def digest(kind: str, value: Any) -> str:
    """Return SHA-256 in hex over the canonical bytes, with `kind` in front.

    The kind keeps the digest of one sort of record from being presented as that of another.
    """
    return hashlib.sha256(kind.encode("ascii") + b"\0" + canonical(value)).hexdigest()
