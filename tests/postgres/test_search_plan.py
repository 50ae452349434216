"""In a container of 100,000 entries the index of terms answers, as an agent's login runs the search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from sams_conformance.postgres_server import Database

from sams_core.backends.postgres.words import asked

from .conftest import ACME, Store

ROWS = 100_000
# One entry in 20,000, in 1,000, in 100; each has eight terms more.
WORDS = {"rarest": 20_000, "seldom": 1_000, "sometimes": 100}
# The function's own statements that look for terms.
STATEMENTS = {
    "newest": re.compile(r"SELECT l\.seq FROM sams\.lookup l WHERE [^']*? LIMIT 2000"),
    "hits": re.compile(r"SELECT count\(\*\) INTO hits FROM sams\.lookup l WHERE [^';]*"),
}


def _terms(query: str) -> dict[str, Any]:
    found = asked(ACME, ACME, False, query)
    assert found is not None
    return found


def _fill(db: Any) -> None:
    for word in WORDS:
        assert any(term.endswith(f" {word}") for term in _terms(word)["terms"])
    (prefix,) = {term.split()[0] + " " for word in WORDS for term in _terms(word)["terms"]}
    words = ", ".join(
        f"%(p)s || CASE WHEN n %% {every} = 0 THEN '{word}' ELSE 'no{word}' || n END, 1"
        for word, every in WORDS.items()
    )
    more = ", ".join(f"%(p)s || 'w{i}x' || n * {i + 7} %% 5000, 1" for i in range(8))
    db.execute(
        "INSERT INTO sams.lookup (container, scope, path, labelled, length, counts) "
        f"SELECT %(c)s, %(c)s, 'p' || n, false, 11, jsonb_build_object({words}, {more}) "
        "FROM generate_series(1, %(n)s) n",
        {"c": ACME, "p": prefix, "n": ROWS},
    )
    db.execute("VACUUM ANALYZE sams.lookup")


def _explaining(db: Any) -> None:
    """Have functions explain the search's own statements: same owner, same settings, same values."""
    source, definer, settings = db.execute(
        "SELECT prosrc, prosecdef, proconfig FROM pg_proc WHERE oid = 'sams.search'::regproc"
    ).fetchone()
    assert definer
    assert "plan_cache_mode=force_custom_plan" in settings
    given = " ".join("SET {} = {}".format(*setting.split("=", 1)) for setting in settings)
    for name, pattern in STATEMENTS.items():
        (statement,) = pattern.findall(source)
        db.execute(
            f"CREATE FUNCTION public.plan_of_{name}(c text, s text, want boolean, terms text[], "
            f"term text) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER {given} AS $$\n"
            "#variable_conflict use_column\nDECLARE line text;\nBEGIN\n"
            f"FOR line IN EXPLAIN {statement.replace('INTO hits', '')} LOOP RETURN NEXT line; "
            "END LOOP;\nEND $$"
        )
        db.execute(f"GRANT EXECUTE ON FUNCTION public.plan_of_{name} TO PUBLIC")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    database = Database(str(tmp_path_factory.mktemp("large")))
    database.create()
    with ExitStack() as stack:
        store = Store(database, stack)
        with psycopg.connect(database.admin, autocommit=True) as db:
            _fill(db)
            _explaining(db)
        yield store
    database.drop()


def _plan(db: Any, statement: str, word: str) -> str:
    terms = _terms(word)["terms"]
    rows = db.execute(
        f"SELECT public.plan_of_{statement}(%s, %s, false, %s, %s)",
        (ACME, ACME, terms, next(term for term in terms if term.endswith(f" {word}"))),
    ).fetchall()
    return "\n".join(row[0] for row in rows)


def _answered_by_terms(plan: str) -> bool:
    scans = re.findall(
        r"(?:Seq Scan|Index Scan|Index Only Scan|Bitmap Index Scan).* on (\w+)", plan
    )
    return scans == ["lookup_terms"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_plan_looks_for_terms_in_their_index_alone(
    large: Store, statement: str, word: str
) -> None:
    agent = large.raw("agent")
    plan = _plan(agent, statement, word)
    assert _answered_by_terms(plan), plan


def test_a_plan_without_that_index_is_told_from_one_with_it(large: Store) -> None:
    admin = large.admin()
    with admin.transaction(force_rollback=True):
        admin.execute("DROP INDEX sams.lookup_terms")
        for statement in STATEMENTS:
            for word in WORDS:
                plan = _plan(admin, statement, word)
                assert not _answered_by_terms(plan), plan
    assert _answered_by_terms(_plan(admin, "newest", "rarest"))


def _scans(admin: Any) -> int:
    (count,) = admin.execute(
        "SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_user_indexes "
        "WHERE indexrelname = 'lookup_terms'"
    ).fetchone()
    return int(count)


def test_an_agents_search_scans_the_index_for_the_hits_and_for_each_term(large: Store) -> None:
    """Counted by the server while the function runs, not planned."""
    admin, agent = large.admin(), large.raw("agent")
    asking = _terms("rarest seldom")
    before = _scans(admin)
    agent.execute(
        "SELECT * FROM sams.search(%s, %s, false, %s, %s, %s, 20)",
        (ACME, ACME, asking["terms"], asking["telling"], asking["enough"]),
    )
    agent.execute("SELECT pg_stat_force_next_flush()")
    assert _scans(admin) - before == 1 + len(asking["terms"])
