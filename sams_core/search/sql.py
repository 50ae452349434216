"""The SQL that every backend uses, so that all of them find the same in the same order."""

from __future__ import annotations

from .query import match, match_several

# Text is folded and cut in Python: the engine only has to split at blanks, which keeps the result
# the same under every SQLite and Unicode version. Underscores mark roots and join numbers.
TOKENIZE = "ascii tokenchars '_'"
COLUMNS = ("path", "description", "content")
WEIGHTS: tuple[float, float, float] = (2.0, 3.0, 1.0)
MAX_RANKED = 2000


def create_sql(table: str) -> str:
    """Return the statement that creates an index table, contentless.

    Insert `(rowid, terms(path), terms(description), terms(content))`. To remove a row, insert the
    same values with `'delete'` in the column named like the table.
    """
    return (
        f"CREATE VIRTUAL TABLE {table} USING fts5({', '.join(COLUMNS)}, content='', "
        f'tokenize="{TOKENIZE}")'
    )


def search_sql(table: str) -> str:
    """Return the query for `(rowid, score)`, best first; its parameters come from `parameters`.

    Rowids must grow with time. When more than MAX_RANKED rows have any of the terms, the newest
    of them are ranked, and of the older ones the newest MAX_RANKED that have at least two of the
    most telling terms: a flood of rows with one common word can't hide an old answer. Equal
    scores: newest first. Search one partition a table; a condition on another table would be
    checked for every hit.
    """
    weights = ", ".join(map(str, WEIGHTS))
    # The only name in it is the caller's own table name.
    return f"""
WITH newest(floor) AS MATERIALIZED (
  SELECT min(rowid) FROM (
    SELECT rowid FROM {table} WHERE {table} MATCH :any ORDER BY rowid DESC LIMIT {MAX_RANKED})
), older(floor) AS MATERIALIZED (
  SELECT min(rowid) FROM (
    SELECT rowid FROM {table} WHERE {table} MATCH :several
      AND rowid < (SELECT floor FROM newest) ORDER BY rowid DESC LIMIT {MAX_RANKED})
)
SELECT rowid, bm25({table}, {weights}) AS score FROM {table}
  WHERE {table} MATCH :any AND rowid >= (SELECT floor FROM newest)
UNION ALL
SELECT rowid, bm25({table}, {weights}) AS score FROM {table}
  WHERE {table} MATCH :several
    AND rowid >= (SELECT floor FROM older) AND rowid < (SELECT floor FROM newest)
ORDER BY score, rowid DESC LIMIT :limit"""  # noqa: S608


def parameters(query: str, limit: int) -> dict[str, str | int] | None:
    """Return the parameters of `search_sql` for a question, or None if nothing can be searched."""
    found = match(query)
    if found is None:
        return None
    return {"any": found, "several": match_several(query), "limit": limit}
