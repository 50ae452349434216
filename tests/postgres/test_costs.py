"""What a call on Postgres costs, counted: rows and index entries that the server visits. Never times.

The planner isn't told what the columns hold: left to itself it reads a whole container for a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .conftest import ACME, Store

SMALL, LARGE = 1_000, 3_000
_VISITED = (
    "SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables) "
    "+ (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)"
)
# As many other paths, and as many versions of one, without a call for each.
_MULTIPLY = """
INSERT INTO sams.{table} SELECT (jsonb_populate_record(old, jsonb_build_object({more}
    'path', CASE path WHEN 'one' THEN 'other/' || i ELSE path END,
    'version', CASE path WHEN 'one' THEN 1 ELSE i END))).*
FROM sams.{table} old, generate_series({first}, {last}) i WHERE path IN ('one', 'busy') AND version = 1
"""
_VERSIONS = (
    "'digest', md5(path || i), 'status', CASE path WHEN 'one' THEN status ELSE 'superseded' END, "
)


def test_a_call_visits_what_it_returns_however_much_is_stored(store: Store) -> None:
    admin, session, owner = store.admin(), store.session(), store.owner()
    pools = [user.backend._pool for user in (session, owner)]
    owner.write(ACME, "one", "t", "d")
    owner.write(ACME, "busy", "t", "d")

    def fill(first: int, last: int) -> None:
        for table, more in (("versions", _VERSIONS), ("texts", "")):
            admin.execute(f"ALTER TABLE sams.{table} DISABLE TRIGGER USER")
            admin.execute(_MULTIPLY.format(table=table, more=more, first=first, last=last))
            admin.execute(f"ALTER TABLE sams.{table} ENABLE TRIGGER USER")
        admin.execute("ANALYZE")  # as the server does by itself

    def calls() -> Iterator[tuple[str, Callable[[], object]]]:
        active = owner.get(ACME, "busy")
        version = active.version if active is not None else None
        yield "read", lambda: session.memory_read("assigned", "busy")
        yield "list", lambda: session.memory_index("assigned")
        for turn in ("write", "write again"):
            yield turn, lambda: session.memory_write("assigned", "busy", "t", "d", version)
        (change,) = owner.changes(ACME)
        yield "changes", lambda: owner.changes(ACME)
        yield "reject", lambda: owner.reject(ACME, change.id)
        yield "history", lambda: owner.history(ACME, "busy")

    def visited() -> int:
        for pool in pools:
            pool.rows("SELECT pg_stat_force_next_flush()")
        return int(admin.execute(_VISITED).fetchone()[0])

    def costs() -> dict[str, int]:
        found = {}
        for name, call in calls():
            before = visited()
            call()
            found[name] = visited() - before
        return found

    fill(2, SMALL)
    small = costs()
    fill(SMALL + 1, LARGE)
    large = costs()
    assert large.pop("history") < 2 * small.pop("history") * LARGE / SMALL  # it returns so many
    assert all(large[name] < 2 * small[name] for name in small), (small, large)


def test_of_what_a_writer_replaced_only_what_one_decision_is_about_is_read(store: Store) -> None:
    session, owner, login = store.session(), store.owner(), store.raw("owner")
    sql = "SELECT id FROM sams.superseded('owner', %s, 's1', 'hot', %s)"
    rounds = []
    for _ in range(3):
        rounds.append([session.memory_write("assigned", "hot", x, "d").change_id for x in "abc"])
        first, second, last = rounds[-1]
        assert login.execute(sql, (ACME, None)).fetchall() == [(first,), (second,)]
        owner.reject(ACME, last or "")
    for first, second, last in rounds:
        assert login.execute(sql, (ACME, last)).fetchall() == [(first,), (second,)]
