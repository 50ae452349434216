"""Every size and count that is refused above its limit, in one place."""

from __future__ import annotations

from dataclasses import dataclass


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
    page: int = 100
    hits: int = 20
    handles: int = 5
    copy_bytes: int = 512_000_000
