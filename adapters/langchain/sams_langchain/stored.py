"""How namespaces, keys and values of a LangGraph store are written as paths and texts of memory."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sams_core.errors import InvalidArguments, LimitExceeded
from sams_core.limits import Limits, check_text
from sams_core.redaction import Cuts
from sams_core.screen import cut

_LONGEST = 96  # characters of a path: what is longer isn't worth spelling
_LEVELS, _PARTS = 64, 50_000  # of a value, which may hold one object many times
_PLAIN = re.compile(r"[A-Za-z0-9_-]", re.ASCII)
_ESCAPED = re.compile(r"\.\.([0-9a-f]{2})", re.ASCII)
_SPACE = " \t\r\n"  # what JSON allows before an object


def path_of(namespace: Iterable[object], key: object) -> str:
    """Return the path of an item: each label and the key is one segment, whatever is in it."""
    return "/".join([*map(spell, _labels(namespace)), spell(key)])


def place_of(path: str) -> tuple[tuple[str, ...], str] | None:
    """Return namespace and key of a path; None if no item has that path."""
    told = [label for segment in path.split("/") if (label := _unspell(segment)) is not None]
    return (tuple(told[:-1]), told[-1]) if len(told) == path.count("/") + 1 else None


def prefix_of(namespace: Iterable[object]) -> list[str]:
    """Return the segments with which the paths of all items at or below a namespace begin."""
    return [*map(spell, _labels(namespace))]


def _labels(namespace: Iterable[object]) -> Iterable[object]:
    if not isinstance(namespace, tuple | list):
        raise InvalidArguments("namespace: a tuple of labels", rule="path")
    return namespace


def spell(label: object) -> str:
    """Return a label or a key as one segment of a path, from which it can be told again.

    ASCII letters, digits, `_` and `-` stand for themselves, any other character for its bytes in
    UTF-8 as `..2f`. A dot stands for itself unless an escape or another dot follows.
    """
    if not isinstance(label, str) or not label:
        raise InvalidArguments("namespace and key: texts that aren't empty", rule="path")
    if len(label) > _LONGEST:
        raise InvalidArguments(f"path: 1 to {_LONGEST} characters", rule="path")
    made = ""
    for place, char in enumerate(label):
        following = label[place + 1 : place + 2]
        dot = char == "." and label != "." and (not following or _PLAIN.match(following))
        if dot or _PLAIN.match(char):
            made += char
        else:
            made += "".join(f"..{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
    return made


def _unspell(segment: str) -> str | None:
    parts = _ESCAPED.split(segment)  # literal, escaped byte, literal, ...
    told = b"".join(
        bytes.fromhex(part) if number % 2 else part.encode() for number, part in enumerate(parts)
    )
    try:
        label = told.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return label if label and spell(label) == segment else None  # an owner's path may be other


def to_text(value: object, limits: Limits, cuts: Cuts) -> tuple[str, str]:
    """Return a value as content, and a description of it that holds no secret, nor half of one.

    `{"content": text}` is that text, so that a reviewer reads what a person would have written;
    any other mapping is JSON. Raises `InvalidArguments` for what isn't JSON and `LimitExceeded`.
    """
    kept = _plain(value, 0, iter(range(_PARTS)))
    if not isinstance(kept, dict):
        raise InvalidArguments("value: a mapping with texts as keys", rule="value")
    said = kept.get("content")
    if len(kept) == 1 and isinstance(said, str) and not _like_json(said):
        return said, described(_sized(said, limits), cuts)
    text = _sized(_json(kept), limits)
    return text, described(said if isinstance(said, str) else text, cuts)


def from_text(text: str) -> dict[str, Any]:
    """Return the value that a content stands for: its JSON object, or else the text itself."""
    if _like_json(text):
        try:
            found = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
    return {"content": text}


def _like_json(text: str) -> bool:
    # Whether it parses isn't asked: how deep a parser gets depends on who calls it.
    return text.lstrip(_SPACE).startswith("{")


def _no_number(word: str) -> float:
    raise ValueError(word)


def _json(value: dict[str, Any]) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1)
    except ValueError:  # a number of thousands of digits
        raise InvalidArguments("value: numbers of a usual size", rule="value") from None


def _sized(text: str, limits: Limits) -> str:
    return check_text(text, "content", limit=limits.content_bytes, unit="bytes")


def _plain(value: object, level: int, room: Iterator[int]) -> Any:
    """Return plain JSON data, or refuse: what comes back must be what was put."""
    if level > _LEVELS:
        raise LimitExceeded("value, levels", _LEVELS)
    if next(room, None) is None:
        raise LimitExceeded("value, parts", _PARTS)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        return [_plain(each, level + 1, room) for each in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(each, level + 1, room) for key, each in value.items()}
    raise InvalidArguments("value: JSON data, with texts as keys", rule="value")


def described(text: str, cuts: Cuts) -> str:
    """Return one line of at most 160 characters; nothing is cut short before secrets are cut out."""
    line = " ".join(cut(text, cuts).split())
    line = line if len(line) <= 160 else line[:159].rstrip() + "…"
    line = cut(line, cuts)  # joining and shortening can make what looks like a secret
    return line if 0 < len(line) <= 200 else "A value"
