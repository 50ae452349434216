"""Find entries by the questions people and models ask, in any script, through SQLite FTS5."""

from __future__ import annotations

from .query import match
from .snippets import snippet
from .sql import COLUMNS, MAX_RANKED, TOKENIZE, WEIGHTS, create_sql, parameters, search_sql
from .terms import terms

__all__ = [
    "COLUMNS",
    "MAX_RANKED",
    "TOKENIZE",
    "WEIGHTS",
    "create_sql",
    "match",
    "parameters",
    "search_sql",
    "snippet",
    "terms",
]
