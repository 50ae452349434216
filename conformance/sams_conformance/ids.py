"""The ids and the sentence that each stands for, in the order of the report."""

from __future__ import annotations

TITLES = {
    "C1": "run writes succeed and org writes are refused",
    "C2": "writes above run land pending",
    "C3": "taint is recorded, and an agent can't clear it",
    "C4": "agents can't set author, status or taint",
    "C5": "of concurrent writes one wins, one conflicts, nothing is lost",
    "C6": "full history with provenance, and one-step restore",
    "C7": "one tenant can't read or write another's",
    "C8": "the dreaming role can propose but not write",
    "C9": "planted secrets reach no stored text",
    "C10": "instruction-like and sensitive proposals are flagged",
    "C11": "pending is never served as curated, and memory text can't escape its wrapper",
    "C12": "the owner promotes exactly what they reviewed",
}

MANDATORY = tuple(TITLES)
