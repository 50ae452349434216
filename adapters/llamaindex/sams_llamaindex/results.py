"""What of this process belongs to a family: its observed tools' results, and objects that remember.

A tool message in a request whose text none of them returned comes from elsewhere: another session's
conversation, an import, a server. Only hashes are kept, the newest 100,000.
"""

from __future__ import annotations

import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from sams_core.locks import ForkSafeLock
from sams_core.taint import Family
from sams_llamaindex.govern import here

_MOST = 100_000
_known: OrderedDict[bytes, None] = OrderedDict()
_owners: dict[int, tuple[weakref.ref[Any], str]] = {}  # by identity: who used it last
_lock = ForkSafeLock()


def text_of(blocks: Iterable[Any]) -> str:
    """Return content blocks as a text, the same for a tool's output and for its message."""
    return "\n".join(
        str(block.text) if block.block_type == "text" else repr(block.model_dump())
        for block in blocks
    )


def know(blocks: Iterable[Any]) -> None:
    """Remember a tool's output for the families at work here."""
    know_text(text_of(blocks))


def know_text(*texts: str) -> None:
    """Remember texts for the families at work here."""
    families = [block.session.family for block in here()]
    with _lock:
        for text in texts:
            for family in families:
                _known[_digest(family, text)] = None
        while len(_known) > _MOST:
            _known.popitem(last=False)


def foreign(family: Family, text: str) -> bool:
    """Tell whether none of a family's tools returned this text in this process."""
    return _digest(family, text) not in _known


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


def _digest(family: Family, text: str) -> bytes:
    whole = place(family) + text
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).digest()
