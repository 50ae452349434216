"""What the search index holds for a text, and what a question asks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from sams_core.backends.postgres.connect import Connection
from sams_core.search import WEIGHTS, Question, question, terms, unspaced_pair


@dataclass(frozen=True)
class Indexed:
    """A text's terms with their weighted counts, and its length in terms."""

    counts: dict[str, float]
    length: int


def indexed(path: str, description: str, content: str) -> Indexed:
    """Return the terms of an entry's or a note's three texts.

    Neighbouring characters of a script without blanks are a term of their own, because a question
    asks for such pairs.
    """
    counts: dict[str, float] = {}
    length = 0
    for text, weight in zip((path, description, content), WEIGHTS, strict=True):
        last = ""
        for term in terms(text).split():
            counts[term] = counts.get(term, 0) + weight
            if unspaced_pair(last, term):
                pair = f"{last} {term}"
                counts[pair] = counts.get(pair, 0) + weight
            last = term
            length += 1
    return Indexed(counts, max(1, length))


def asked(query: str) -> dict[str, Any] | None:
    """Return the parameters of the database's search for a question, None if it has no terms."""
    found: Question = question(query)
    if not found.any:
        return None
    return {
        "terms": list(dict.fromkeys(form for forms in found.any for form in forms)),
        "telling": Jsonb(found.telling),
        "enough": found.enough,
    }


def put(
    db: Connection,
    container: str,
    scope: str,
    labelled: bool,
    path: str,
    description: str,
    content: str,
) -> None:
    """Index a text in the place of what was there under its path; the newest counts as newest."""
    found = indexed(path, description, content)
    db.execute(
        "SELECT sams.put(%s, %s, %s, %s, %s, %s)",
        (container, scope, path, labelled, found.length, Jsonb(found.counts)),
    )
