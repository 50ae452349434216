"""Build FTS5 expressions out of a question, made of quoted terms and our own operators only."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

from .terms import Term, piece_terms, pieces
from .unspaced import phrases

MAX_READ = 4_096  # characters of a query that are looked at
MAX_TERMS = 24
_TELLING = 5
NOTHING = '"_"'  # no term is a lone underscore; FTS5 takes no empty expression


def groups(query: str) -> list[tuple[str, ...]]:
    """Return what a query looks for: for each term its forms, a word before its root."""
    words: dict[str, dict[str, None]] = {}  # forms by root: "note" and "notes" count once
    stops: dict[str, None] = {}
    runs: list[tuple[str, ...]] = []
    for piece in pieces(query[:MAX_READ]):
        for term in piece_terms(piece):
            if term.units:
                runs.append(term.units)
            elif _stop(term):
                stops[term.forms[0]] = None
            else:
                words.setdefault(term.forms[-1], {}).update(dict.fromkeys(term.forms))
    found: list[tuple[str, ...]] = [tuple(forms) for forms in words.values()]
    found += phrases(runs, alone=not words)
    if len(found) > MAX_TERMS:
        found = sorted(found, key=_telling)[:MAX_TERMS]
    if not found:
        found = [(word,) for word in list(stops)[:MAX_TERMS]]
    return found


def match(query: str) -> str | None:
    """Return an FTS5 MATCH expression that finds entries with any of the query's terms.

    It holds nothing of the user's but letters, digits and marks inside double quotes. None means
    that nothing in the query can be searched. At most MAX_TERMS terms of the first MAX_READ
    characters are used; stop words only when there is nothing else.
    """
    return _any(found) if (found := groups(query)) else None


def match_several(query: str) -> str:
    """Return an expression for entries with several of the query's most telling terms."""
    asked = question(query)
    if not asked.telling:
        return NOTHING
    return " OR ".join(
        "(" + " AND ".join(f"({_any([term])})" for term in together) + ")"
        for together in combinations(asked.telling, asked.enough)
    )


class Question(NamedTuple):
    """What a query looks for: any term, or `enough` of the most telling ones."""

    any: list[tuple[str, ...]]
    telling: list[tuple[str, ...]]
    enough: int


def question(query: str) -> Question:
    """Return a query's terms for an engine without expressions; a form with a blank is a pair."""
    asked = groups(query)
    found = sorted(asked, key=_telling)
    if len(found) < 2:
        return Question(asked, [], 2)
    found = (
        found[:: len(found) // _TELLING or 1][:_TELLING] if _phrased(found) else found[:_TELLING]
    )
    # Neighbouring pairs of characters come together anyway, so two of them say little.
    return Question(asked, found, 3 if len(found) > 3 and _phrased(found) else 2)


def _any(found: list[tuple[str, ...]]) -> str:
    return " OR ".join(f'"{form}"' for forms in found for form in forms)


def _phrased(found: list[tuple[str, ...]]) -> bool:
    return sum(" " in forms[0] for forms in found) * 2 > len(found)


def _telling(forms: tuple[str, ...]) -> int:
    return -len(forms[0])  # long words are rare words


def _stop(term: Term) -> bool:
    # A lone letter says little ("l'usine", "don't"); a lone digit may be the answer.
    return term.stop or (len(term.forms[0]) == 1 and not term.forms[0].isdigit())
