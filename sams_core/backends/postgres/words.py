"""What the search index holds for a text, and what a question asks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from sams_core.backends import fts
from sams_core.backends.postgres.connect import Connection
from sams_core.search import WEIGHTS, Question, question, terms, unspaced_pair

_TOKEN = 14  # characters; a longer one would only make the index larger


def _prefix(container: str, scope: str, labelled: bool) -> str:
    """Return what keeps a partition's terms together, and apart from those of others."""
    return fts.partition(container, scope, str(labelled))[3 : 3 + _TOKEN] + " "


@dataclass(frozen=True)
class Indexed:
    """A text's terms with their weighted counts, and its length in terms."""

    counts: dict[str, float]
    length: int


def indexed(
    container: str, scope: str, labelled: bool, path: str, description: str, content: str
) -> Indexed:
    """Return the terms of an entry's or a note's three texts.

    Neighbouring characters of a script without blanks are a term of their own, because a question
    asks for such pairs.
    """
    prefix = _prefix(container, scope, labelled)
    counts: dict[str, float] = {}
    length = 0
    for text, weight in zip((path, description, content), WEIGHTS, strict=True):
        last = ""
        for term in terms(text).split():
            counts[prefix + term] = counts.get(prefix + term, 0) + weight
            if unspaced_pair(last, term):
                pair = f"{prefix}{last} {term}"
                counts[pair] = counts.get(pair, 0) + weight
            last = term
            length += 1
    return Indexed(counts, max(1, length))


def asked(container: str, scope: str, labelled: bool, query: str) -> dict[str, Any] | None:
    """Return the parameters of the database's search for a question, None if it has no terms."""
    prefix = _prefix(container, scope, labelled)
    found: Question = question(query)
    if not found.any:
        return None
    return {
        "terms": list(dict.fromkeys(prefix + form for forms in found.any for form in forms)),
        "telling": Jsonb([[prefix + form for form in forms] for forms in found.telling]),
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
    found = indexed(container, scope, labelled, path, description, content)
    db.execute(
        "INSERT INTO sams.lookup (container, scope, path, labelled, length, counts) "
        "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (container, scope, path) DO UPDATE SET "
        "labelled = excluded.labelled, length = excluded.length, counts = excluded.counts, "
        "seq = DEFAULT",
        (container, scope, path, labelled, found.length, Jsonb(found.counts)),
    )
