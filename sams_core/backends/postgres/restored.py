"""What a restored or promoted database may have lost, as far as its own rows tell."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from sams_core.backends.finding import AFTER_A_RESTORE, UNSEEN, clock, some
from sams_core.backends.postgres.connect import Connection
from sams_core.backends.postgres.logins import Fact

_SEQUENCES = """
SELECT s.relname, t.relname, a.attname, pg_sequence_last_value(s.oid)
FROM pg_class s JOIN pg_depend d ON d.objid = s.oid AND d.classid = 'pg_class'::regclass
    AND d.deptype IN ('i', 'a') JOIN pg_class t ON t.oid = d.refobjid
    JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
WHERE s.relkind = 'S' AND t.relnamespace = to_regnamespace('sams') ORDER BY 1
"""
# Every text of a family with the marks that were stamped on it; one of them must be in the ledger still.
_WRITTEN = """
WITH written(family, sources, date) AS (
    SELECT family, sources, date FROM sams.notes WHERE container = %(c)s
    UNION ALL SELECT writer, sources, date FROM sams.changes
        WHERE container = %(c)s AND kind = 'write'
    UNION ALL SELECT family, sources, date FROM sams.versions
        WHERE container = %(c)s AND family IS NOT NULL)
"""
_UNKNOWN = """ SELECT DISTINCT family FROM written w WHERE NOT EXISTS (
    SELECT FROM sams.families f WHERE f.container = %(c)s AND f.family = w.family) ORDER BY 1
"""
_UNMARKED = """ SELECT DISTINCT family FROM written w WHERE EXISTS (
        SELECT FROM sams.families f WHERE f.container = %(c)s AND f.family = w.family)
    AND EXISTS (SELECT FROM jsonb_array_elements(w.sources) s WHERE s->>'kind' <> 'more'
        AND NOT EXISTS (SELECT FROM sams.sources k WHERE k.container = %(c)s AND k.family = w.family
            AND (k.kind = 'more' OR (k.kind, k.name) = (s->>'kind', s->>'name'))))
ORDER BY 1
"""
_TORN = {
    "versions without their text": """
        SELECT count(*) FROM sams.versions v WHERE container = %(c)s AND NOT EXISTS (
            SELECT FROM sams.texts t WHERE (t.container, t.path, t.version)
                = (v.container, v.path, v.version))""",
    "versions missing before later ones": """
        SELECT coalesce(sum(most - n), 0) FROM (SELECT max(version) most, count(*) n
            FROM sams.versions WHERE container = %(c)s GROUP BY path) x""",
    "accepted changes without their version": """
        SELECT count(*) FROM sams.changes h WHERE container = %(c)s
            AND state IN ('accepted', 'edited') AND NOT EXISTS (SELECT FROM sams.versions v
                WHERE v.container = h.container AND v.change_id = h.id)""",
    "versions of changes that aren't decided": """
        SELECT count(*) FROM sams.versions v WHERE container = %(c)s AND change_id IS NOT NULL
            AND NOT EXISTS (SELECT FROM sams.decisions d
                WHERE d.container = v.container AND d.change_id = v.change_id)""",
    "decisions of changes that aren't here or are open": """
        SELECT count(*) FROM sams.decisions d WHERE container = %(c)s AND NOT EXISTS (
            SELECT FROM sams.changes h WHERE h.container = d.container AND h.id = d.change_id
                AND h.state = d.outcome)""",
    "open changes on versions that aren't here": """
        SELECT count(*) FROM sams.changes h WHERE container = %(c)s AND state = 'open'
            AND base_version > 0 AND NOT EXISTS (SELECT FROM sams.versions v WHERE
                (v.container, v.path, v.version) = (h.container, h.path, h.base_version))""",
    "revisions below those of served versions": """
        SELECT count(*) FROM sams.versions v WHERE container = %(c)s
            AND greatest(born, ended) > coalesce((SELECT revision FROM sams.meta m
                WHERE m.container = v.container), 0)""",
}
_DATES = """
SELECT (SELECT max(d) FROM (SELECT max(opened) d FROM sams.sessions WHERE container = %(c)s
        UNION ALL SELECT max(first_seen) FROM sams.sources WHERE container = %(c)s) x),
    (SELECT max(d) FROM (SELECT max(date) d FROM sams.changes WHERE container = %(c)s
        UNION ALL SELECT max(date) FROM sams.notes WHERE container = %(c)s) x),
    (SELECT max(d) FROM (SELECT max(date) d FROM sams.versions WHERE container = %(c)s
        UNION ALL SELECT max(date) FROM sams.decisions WHERE container = %(c)s) x),
    to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')
"""


def cluster(db: Connection, everything: bool) -> Iterator[Fact]:
    """Yield what the server as a whole tells of restorations; `everything`: for the administrator."""
    yield "warn", "restored", None, AFTER_A_RESTORE
    try:
        with db.transaction():
            (line,), *_ = db.execute("SELECT timeline_id FROM pg_control_checkpoint()")
        if line > 1:
            detail = (
                f"timeline {line}: a standby was promoted, or a point in time restored; what an "
            )
            yield "warn", "restored", None, detail + "asynchronous standby hadn't received is gone"
        else:
            detail = "timeline 1: never promoted; a dump may have been loaded all the same"
            yield "note", "restored", None, detail
    except psycopg.errors.InsufficientPrivilege:
        yield "warn", "restored", None, f"whether a standby was promoted: {UNSEEN}"
    if not everything:
        yield "warn", "sequences", None, UNSEEN
        return
    behind = []
    for sequence, table, column, last in db.execute(_SEQUENCES).fetchall():
        sql = f'SELECT coalesce(max("{column}"), 0) FROM sams."{table}"'  # noqa: S608 - catalog names
        (most,), *_ = db.execute(sql.encode())
        if most > (last or 0):
            behind.append(sequence)
    if behind:
        yield (
            "bad",
            "sequences",
            None,
            f"behind their tables, so order will be wrong: {some(behind)}",
        )
    else:
        yield "ok", "sequences", None, "none is behind its table"


def contents(db: Connection, scope: str) -> Iterator[Fact]:
    """Yield where a container's own rows show that some of them are older than others."""
    values = {"c": scope}
    unknown = [row[0] for row in db.execute((_WRITTEN + _UNKNOWN).encode(), values)]
    if unknown:
        detail = f"{len(unknown)} sessions of which memory exists are unknown to it and will start "
        yield "warn", "ledger", scope, f"{detail}marked (ledger-lost): {some(unknown)}"
    unmarked = [row[0] for row in db.execute((_WRITTEN + _UNMARKED).encode(), values)]
    if unmarked:
        detail = (
            f"{len(unmarked)} sessions wrote under marks that it has lost, so never open their "
        )
        yield "bad", "ledger", scope, f"{detail}ids again: {some(unmarked)}"
    if not unknown and not unmarked:
        yield "ok", "ledger", scope, "it knows every session and mark that memory names"
    torn = {what: db.execute(sql.encode(), values).fetchone() for what, sql in _TORN.items()}
    parts = [f"{row[0]} {what}" for what, row in torn.items() if row is not None and row[0]]
    if parts:
        yield "bad", "restored", scope, f"parts are of different times: {'; '.join(parts)}"
    else:
        yield "ok", "restored", scope, "versions, changes and decisions agree with each other"
    (*dates, now), *_ = db.execute(_DATES, values)
    newest = {
        w: d or "" for w, d in zip(("ledger", "changes and notes", "decisions"), dates, strict=True)
    }
    level, detail = clock(newest, now)
    yield level, "clock", scope, detail
