"""What of this process belongs to a family: its observed tools' results, and objects that remember.

A tool message in a request whose text none of them returned comes from elsewhere: another session's
conversation, an import, a server. So does any message whose text a marked session of this process
said or was told, and neither this one nor one of its tenant without marks. Only hashes are kept, the newest
100,000 of each.
"""

from __future__ import annotations

import hashlib
import json
import re
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from sams_core.locks import ForkSafeLock
from sams_core.scopes import is_handle
from sams_core.taint import Family
from sams_llamaindex.govern import Block, here

_MOST = 100_000
_known: OrderedDict[bytes, None] = OrderedDict()
_stained: OrderedDict[bytes, None] = OrderedDict()  # what marked sessions said, whoever they are
_plain: OrderedDict[bytes, None] = OrderedDict()  # what unmarked ones said
# How a ReAct agent writes down in one message what its model said and its tools returned.
_REACT = re.compile(r"^(Thought|Action|Action Input|Observation|Answer): ?", re.MULTILINE)
LONG = 40  # characters; what is shorter anybody may have said
_owners: dict[int, tuple[weakref.ref[Any], str]] = {}  # by identity: who used it last
_lock = ForkSafeLock()


def text_of(blocks: Iterable[Any]) -> str:
    """Return content blocks as a text, the same for a tool's output and for its message."""
    return "\n".join(
        str(block.text) if block.block_type == "text" else repr(block.model_dump())
        for block in blocks
    )


def know_text(*texts: str, clean: bool = False) -> None:
    """Remember texts for the families at work here; `clean` ones are nobody's alone."""
    blocks = here()
    marked = any(block.marked() for block in blocks if isinstance(block, Block))
    pieces = [piece for text in texts for piece in _pieces(text)] if blocks else []
    with _lock:
        for piece in pieces:
            for block in blocks:
                _known[_digest(block.session.family, piece)] = None
            if not marked:
                for block in blocks:
                    _plain[_hash(_tenant(block.session.family) + piece)] = None
            elif not clean:
                _stained[_hash(piece)] = None
        for kept in (_known, _stained, _plain):
            while len(kept) > _MOST:
                kept.popitem(last=False)


def _pieces(text: str) -> Iterator[str]:
    yield text.strip()
    _, *parts = _REACT.split(text)
    for label, piece in zip(parts[::2], parts[1::2], strict=True):
        if label in ("Observation", "Answer"):
            yield piece.strip()


def foreign(family: Family, text: str) -> bool:
    """Tell whether none of a family's tools returned this text in this process."""
    return all(
        _digest(family, each.strip()) not in _known
        for each in (text, text.removeprefix("Observation: "))
    )


def anothers(family: Family, text: str) -> bool:
    """Tell whether a marked session of this process said this or was told it, and this family not.

    What many may say in the same words, such as a greeting, is no evidence: what is short, and what
    a session without marks of the same tenant has said, too; an outsider may be another's insider.
    """
    return bool(_stained) and any(
        _hash(piece) in _stained
        and _hash(_tenant(family) + piece) not in _plain
        and _digest(family, piece) not in _known
        for piece in _pieces(text)
        if len(piece) >= LONG
    )


def not_found(name: str, text: str) -> bool:
    """Tell whether a text is an agent's own answer to a call of a tool that doesn't exist."""
    return len(text) < len(name) + 100 and text.startswith(f"Tool {name} not found")


def unlabelled(text: str) -> bool:
    """Tell whether a memory tool's result shows no labelled text, as far as it is one at all."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    waiting = [found]
    while waiting:
        each = waiting.pop()
        waiting += (
            each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        )
        if isinstance(each, dict) and each.get("labelled") and not is_handle(str(each.get("path"))):
            return False
    return isinstance(found, dict)


def owner(obj: Any, ours: str) -> str | None:
    """Return whose family used an object last, None if none did; from now on it is `ours`."""
    key = id(obj)
    with _lock:
        known = _owners.get(key)
        _owners[key] = (weakref.ref(obj, lambda _: _owners.pop(key, None)), ours)
    return known[1] if known is not None and known[0]() is obj else None


def place(family: Family) -> str:
    """Return what identifies a family in every process, without telling who it is."""
    parts = (str(family.backend.location), family.container, family.name)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _tenant(family: Family) -> str:
    return f"{family.backend.location}\0{family.container}\0"


def _digest(family: Family, text: str) -> bytes:
    return _hash(place(family) + text)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
