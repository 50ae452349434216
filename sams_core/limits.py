"""Every size and count that is refused above its limit, and the check of a text against one."""

from __future__ import annotations

from dataclasses import dataclass

from sams_core.errors import InvalidArguments, LimitExceeded


@dataclass(frozen=True)
class Limits:
    """Bound what is stored; above a limit a call is refused with `LimitExceeded`.

    Sizes of texts are bytes of UTF-8 where the name says bytes, else characters. Counts cover what
    lies undecided in the queue and the notes of the current run generation. On SQLite the counts
    come from file names, and may overshoot by one for each process that races.
    """

    content_bytes: int = 100_000
    description_chars: int = 200
    rationale_chars: int = 2_000
    reason_chars: int = 500
    evidence_items: int = 20
    evidence_chars: int = 200
    query_chars: int = 1_000
    session_open: int = 100
    session_stored: int = 1_000
    session_bytes: int = 20_000_000
    container_open: int = 10_000
    agent_share: float = 0.2
    family_sources: int = 100
    flags: int = 2_000
    page: int = 100
    hits: int = 20
    handles: int = 5
    copy_bytes: int = 512_000_000


# What str.splitlines takes for a line break; a one-line field must be one line to every reader.
_BREAKS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")


def check_text(value: object, what: str, *, limit: int, unit: str, one_line: bool = False) -> str:
    """Return `value` if it is text within `limit` (`bytes` of UTF-8 or `characters`).

    The number of code points is compared first, so that an oversized text is refused before it is
    scanned or copied. Raises `LimitExceeded`, or `InvalidArguments` for a non-string, a lone
    surrogate or, with `one_line`, a line break.
    """
    if not isinstance(value, str):
        raise InvalidArguments(f"{what}: text is needed", rule="text")
    if len(value) > limit:
        raise LimitExceeded(f"{what}, {unit}", limit, len(value))
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidArguments(
            f"{what}: not valid Unicode (a lone surrogate)", rule="text"
        ) from None
    if unit == "bytes" and size > limit:
        raise LimitExceeded(f"{what}, {unit}", limit, size)
    if one_line and not _BREAKS.isdisjoint(value):
        raise InvalidArguments(f"{what}: one line, without line breaks", rule="text")
    return value
