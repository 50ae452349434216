"""Find entries by the questions people and models ask, in any script, through SQLite FTS5."""

from __future__ import annotations

from .query import Question, match, question
from .snippets import snippet
from .sql import COLUMNS, MAX_RANKED, TOKENIZE, WEIGHTS, create_sql, parameters, search_sql
from .terms import terms, unspaced_pair

__all__ = [
    "COLUMNS",
    "MAX_RANKED",
    "TOKENIZE",
    "WEIGHTS",
    "Question",
    "create_sql",
    "match",
    "parameters",
    "question",
    "search_sql",
    "snippet",
    "terms",
    "unspaced_pair",
]
