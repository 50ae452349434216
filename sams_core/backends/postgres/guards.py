"""The guards of an installed schema, as the catalogs tell of them, and what they must be.

`guards.json` holds a hash of each policy, trigger, function, constraint and index that the migrations
make. Whoever changes a migration writes it anew from a fresh installation:
`SAMS_WRITE_GUARDS=1 pytest tests/postgres/test_doctor_guards.py`
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from sams_core.backends.finding import Level, some
from sams_core.backends.postgres.connect import Connection

# Names and definitions. Postgres 15 to 18 spell these alike, and a restored dump does but for the
# aliases of columns that it adds.
_FACTS = r"""
WITH tables AS (SELECT c.* FROM pg_class c WHERE c.relnamespace = to_regnamespace('sams')
    AND c.relkind IN ('r', 'p', 'v', 'm', 'f'))
SELECT 'table ' || relname, relkind::text FROM tables
UNION ALL SELECT 'policy ' || t.relname || '.' || p.polname, concat_ws('|', p.polpermissive, p.polcmd,
        CASE WHEN p.polroles = '{0}' THEN 'all' WHEN p.polroles = ARRAY[t.relowner] THEN 'owner' END,
        regexp_replace(pg_get_expr(p.polqual, p.polrelid), ' AS \w+', '', 'g'), '|',
        regexp_replace(pg_get_expr(p.polwithcheck, p.polrelid), ' AS \w+', '', 'g'))
    FROM pg_policy p JOIN tables t ON t.oid = p.polrelid
UNION ALL SELECT 'trigger ' || t.relname || '.' || g.tgname, pg_get_triggerdef(g.oid)
    FROM pg_trigger g JOIN tables t ON t.oid = g.tgrelid WHERE NOT g.tgisinternal
UNION ALL SELECT 'rule ' || t.relname || '.' || r.rulename, pg_get_ruledef(r.oid)
    FROM pg_rewrite r JOIN tables t ON t.oid = r.ev_class WHERE t.relkind = 'r'
UNION ALL SELECT 'function ' || p.proname || '(' || oidvectortypes(p.proargtypes) || ')',
        concat_ws('|', p.prosecdef, p.provolatile, array_to_string(p.proconfig, ';'), l.lanname,
            p.prosrc)
    FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
    WHERE p.pronamespace = to_regnamespace('sams')
UNION ALL SELECT 'constraint ' || t.relname || '.' || k.conname, pg_get_constraintdef(k.oid)
    FROM pg_constraint k JOIN tables t ON t.oid = k.conrelid WHERE k.contype <> 'n'
UNION ALL SELECT CASE WHEN i.indisunique THEN 'unique index ' ELSE 'index ' END || c.relname,
        pg_get_indexdef(i.indexrelid)
    FROM pg_index i JOIN tables t ON t.oid = i.indrelid JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indisvalid
"""
_OWNERS = """
SELECT count(DISTINCT o), min(o::text), bool_or(r.rolsuper), bool_or(r.rolbypassrls) FROM (
    SELECT nspowner FROM pg_namespace WHERE nspname = 'sams'
    UNION ALL SELECT relowner FROM pg_class WHERE relnamespace = to_regnamespace('sams')
    UNION ALL SELECT proowner FROM pg_proc WHERE pronamespace = to_regnamespace('sams')
) x(id), pg_get_userbyid(x.id) o, pg_roles r WHERE r.oid = x.id
"""
_UNPINNED = """
SELECT proname || '(' || oidvectortypes(proargtypes) || ')' FROM pg_proc
WHERE pronamespace = to_regnamespace('sams') AND prosecdef AND NOT EXISTS (
    SELECT FROM unnest(proconfig) c WHERE c = 'search_path=pg_catalog, pg_temp') ORDER BY 1
"""
_OPEN = """
SELECT relname, relrowsecurity FROM pg_class WHERE relnamespace = to_regnamespace('sams')
AND relkind IN ('r', 'p') AND NOT (relrowsecurity AND relforcerowsecurity) ORDER BY 1
"""
_DISABLED = """
SELECT c.relname || '.' || g.tgname FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
WHERE c.relnamespace = to_regnamespace('sams') AND g.tgenabled NOT IN ('O', 'A') ORDER BY 1
"""
_WORDS: dict[str, tuple[Level, str]] = {
    "table": ("bad", "policies"),
    "policy": ("bad", "policies"),
    "trigger": ("bad", "triggers"),
    "rule": ("bad", "triggers"),
    "function": ("bad", "functions"),
    "constraint": ("bad", "constraints"),
    "unique index": ("bad", "constraints"),
    "index": ("warn", "indexes"),  # without it a call is slow, and no less right
}


def snapshot(db: Connection) -> dict[str, str]:
    """Return a hash of each guard that the database has; the search path must hold no schema of ours."""
    return {
        name: hashlib.sha256(str(definition).encode()).hexdigest()[:16]
        for name, definition in db.execute(_FACTS)
    }


def expected() -> dict[str, str]:
    """Return the hashes of a fresh installation."""
    text = Path(__file__).with_name("guards.json").read_text("utf-8")
    found: dict[str, str] = json.loads(text)
    return found


def guards(db: Connection) -> list[tuple[Level, str, str]]:
    """Return what of the guards is missing, changed or added: level, fixed word, sentence."""
    found = [*_switched_off(db), *_changed(db)]
    if not found:
        tables, policies = (
            sum(name.startswith(kind) for name in expected()) for kind in ("table ", "policy ")
        )
        detail = f"as installed: row-level security forced on {tables} tables, {policies} policies"
        found.append(("ok", "policies", detail))
    return [*found, *_owners(db)]


def _switched_off(db: Connection) -> Iterator[tuple[Level, str, str]]:
    open_ = db.execute(_OPEN).fetchall()
    for name, enabled in open_:
        why = "isn't forced: its owner reads everything" if enabled else "is off"
        yield "bad", "policies", f"row-level security {why}: table {name}"
    disabled = [row[0] for row in db.execute(_DISABLED)]
    if disabled:
        yield "bad", "triggers", f"disabled: {some(disabled)}"
    unpinned = [row[0] for row in db.execute(_UNPINNED)]
    if unpinned:
        detail = f"SECURITY DEFINER without a pinned search_path: {some(unpinned)}"
        yield "bad", "functions", detail


def _changed(db: Connection) -> Iterator[tuple[Level, str, str]]:
    here, wanted = snapshot(db), expected()
    for state, names in (
        ("missing", wanted.keys() - here.keys()),
        ("changed", {name for name in wanted.keys() & here.keys() if wanted[name] != here[name]}),
        ("not of this package", here.keys() - wanted.keys()),
    ):
        for kind, (level, word) in _WORDS.items():
            found = sorted(n.removeprefix(f"{kind} ") for n in names if n.startswith(f"{kind} "))
            if found:
                yield level, word, f"{kind} {state}: {some(found)}"


def _owners(db: Connection) -> Iterator[tuple[Level, str, str]]:
    row = db.execute(_OWNERS).fetchone()
    count, name, superuser, bypass = row or (0, None, None, None)
    if count != 1:
        yield "bad", "owner", f"schema, tables and functions belong to {count} different logins"
    elif superuser or bypass:
        power = "a superuser" if superuser else "a login with BYPASSRLS"
        detail = f"{name} owns the tables and is {power}: the functions run with its rights"
        yield "warn", "owner", detail
    else:
        yield "ok", "owner", f"{name} owns the tables, without a superuser's rights"
