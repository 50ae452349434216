"""What a search touches in a container of 100,000 entries, counted by the server while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from sams_conformance.postgres_server import Database
from sams_core.backends.postgres.words import asked

from .conftest import ACME, OTHER, Store

ROWS, OTHERS = 100_000, 5_000
NEWEST, ERA = 2_000, 4_096  # what is ranked at most; how many texts share a number of a term
# Of how many entries each holds the word; `old` is in the first 3,000 alone.
WORDS = {
    "rarest": ("n %% 20000 = 0", 5),
    "seldom": ("n %% 1000 = 0", 100),
    "usual": ("n %% 5 < 3", 60_000),
    "always": ("true", 100_000),
    "old": ("n <= 3000", 3_000),
}
_FILL = """
INSERT INTO sams.lookup (container, scope, path, labelled, length, counts, seq)
SELECT %(c)s, %(c)s, 'p' || n, false, 11, jsonb_object_agg(w, 1), n FROM generate_series(1, %(n)s) n,
    LATERAL (SELECT 'w' || i || 'x' || n * (i + 7) %% 5000 FROM generate_series(1, 8) i
        UNION ALL {words}) x(w) GROUP BY n
"""


@dataclass(frozen=True)
class Touched:
    """Rows of the index table that were read by walking it, fetched by an index, and seen in the
    index of partitions, where they are ranked or only counted."""

    walked: int
    fetched: int
    counted: int


def _fill(db: Any, container: str, rows: int) -> None:
    words = " UNION ALL ".join(
        f"SELECT '{word}' WHERE {where}" for word, (where, _) in WORDS.items()
    )
    db.execute(_FILL.format(words=words), {"c": container, "n": rows})
    db.execute(
        "INSERT INTO sams.partitions VALUES (%s, %s, false, %s, %s, %s)",
        (container, container, rows, rows * 11, rows),
    )


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    database = Database(str(tmp_path_factory.mktemp("large")))
    database.create()
    with ExitStack() as stack:
        store = Store(database, stack)
        with psycopg.connect(database.admin, autocommit=True) as db:
            db.execute("ALTER TABLE sams.lookup SET (autovacuum_enabled = false)")
            _fill(db, ACME, ROWS)
            _fill(db, OTHER, OTHERS)
            db.execute("VACUUM sams.lookup")
        yield store
    database.drop()


def _touched(db: Any, query: str, *before: str, container: str = ACME) -> Touched:
    """Search as the connection's login does, after other statements, and take those back."""
    asking = asked(query)
    assert asking is not None
    with db.transaction(force_rollback=True):
        for statement in before:
            db.execute(statement)
        start = _counters(db)
        db.execute(
            "SELECT * FROM sams.search(%s, %s, false, %s, %s, %s, 20)",
            (container, container, asking["terms"], asking["telling"], asking["enough"]),
        )
        return Touched(*(now - then for now, then in zip(_counters(db), start, strict=True)))


def _counters(db: Any) -> tuple[int, ...]:
    row: tuple[int, ...] = db.execute(
        "SELECT pg_stat_get_xact_tuples_returned(t.oid), pg_stat_get_xact_tuples_fetched(t.oid) "
        "+ sum(pg_stat_get_xact_tuples_fetched(i.indexrelid))::int, sum("
        "pg_stat_get_xact_tuples_returned(i.indexrelid)) FILTER (WHERE i.indexrelid::regclass::text "
        "= 'sams.lookup_partition')::int FROM pg_class t JOIN pg_index i ON i.indrelid = t.oid "
        "WHERE t.oid = 'sams.lookup'::regclass GROUP BY t.oid"
    ).fetchone()
    return row


@pytest.mark.parametrize("word", ["rarest", "seldom"])
def test_a_rare_words_hits_are_fetched_to_be_found_and_to_be_ranked_and_no_other_row(
    large: Store, word: str
) -> None:
    """Whatever the planner knows of the table, and whoever else has that word."""
    agent, (_, hits) = large.raw("agent"), WORDS[word]
    assert _touched(agent, word) == Touched(0, 2 * hits, hits)
    large.admin().execute("ANALYZE sams.lookup")
    assert _touched(agent, word) == Touched(0, 2 * hits, hits)
    assert _touched(large.raw("agent"), word) == Touched(0, 2 * hits, hits)


# To find the newest hits, of two eras at most; to count a word's hits; to rank; to see among how many
# rows those hits are.
_BOUND = 2 * ERA + NEWEST + NEWEST + 10 * NEWEST


@pytest.mark.parametrize("word", ["usual", "always", "old"])
def test_a_common_words_cost_doesnt_grow_with_its_hits(large: Store, word: str) -> None:
    touched = _touched(large.raw("agent"), word)
    assert touched.walked == 0
    assert NEWEST <= touched.fetched <= _BOUND
    if word != "old":
        assert WORDS[word][1] > 1.8 * _BOUND


def test_several_common_words_cost_what_each_does_and_the_older_ones_with_both(
    large: Store,
) -> None:
    terms = asked("usual always")["terms"]  # type: ignore[index]
    touched = _touched(large.raw("agent"), "usual always")
    assert touched.walked == 0
    assert touched.fetched <= 4 * ERA + NEWEST * len(terms) + 14 * NEWEST


def _without(function: str, text: str) -> str:
    return (
        "DO $$ BEGIN EXECUTE replace(pg_get_functiondef("
        f"'sams.{function}'::regproc), '{text}', ''); END $$"
    )


@pytest.mark.parametrize(
    ("container", "word", "change", "at_least"),
    [
        (ACME, "usual", _without("hits", "LIMIT 2000 - cardinality(found)"), 60_000),
        (ACME, "usual", _without("hit_by", "LIMIT 2000 - n"), 60_000),
        (OTHER, "rarest", "DROP INDEX sams.lookup_terms", OTHERS),
    ],
)
def test_a_search_that_reads_more_is_told_from_ours(
    large: Store, container: str, word: str, change: str, at_least: int
) -> None:
    granting = (
        "INSERT INTO sams.grants (login, role, container) "
        f"VALUES (session_user, 'agent', '{container}')"
    )
    ours = _touched(large.admin(), word, granting, container=container)
    assert (ours.walked, ours.fetched <= _BOUND) == (0, True)
    theirs = _touched(large.admin(), word, granting, change, container=container)
    assert theirs.walked + theirs.fetched >= at_least > ours.fetched
