"""Who can do what in an installed database: logins, their grants, and the rights that go with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sams_core.backends.finding import UNSEEN, Level, some
from sams_core.backends.postgres.admin import _COLUMNS, _COMMON, _FUNCTIONS, _TABLES
from sams_core.backends.postgres.connect import Connection
from sams_core.backends.postgres.refusal import bypass_of
from sams_core.scopes import ORG

Fact = tuple[Level, str, "str | None", str]  # how grave, about what, where, the sentence
_GATE = "the review gate is a convention here"

_MEMBER = "pg_has_role(r.oid, to_regrole('{}'), 'MEMBER')"
_HAZARDS = {
    "rolreplication": "may replicate, and so copy the whole server",
    "rolcreaterole AND current_setting('server_version_num')::int < 160000": (
        "has CREATEROLE, with which it can become the tables' owner before Postgres 16"
    ),
    _MEMBER.format("pg_execute_server_program"): "may run programs on the server",
    _MEMBER.format("pg_write_server_files"): "may write the server's files",
    _MEMBER.format("pg_read_server_files"): "may read the server's files",
    "has_parameter_privilege(r.oid, 'session_replication_role', 'SET')": "can switch triggers off",
}
_ACL = """
WITH acl(kind, name, owner, acl) AS (
    SELECT 'schema', nspname::text, nspowner, coalesce(nspacl, acldefault('n', nspowner))
        FROM pg_namespace WHERE nspname = 'sams'
    UNION ALL SELECT CASE relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, relname::text, relowner,
        coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner))
        FROM pg_class WHERE relnamespace = to_regnamespace('sams')
            AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    UNION ALL SELECT 'column', c.relname || '.' || a.attname, c.relowner, a.attacl
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = to_regnamespace('sams') AND a.attacl IS NOT NULL
    UNION ALL SELECT 'function', proname || '(' || oidvectortypes(proargtypes) || ')', proowner,
        coalesce(proacl, acldefault('f', proowner))
        FROM pg_proc WHERE pronamespace = to_regnamespace('sams')
    UNION ALL SELECT 'later ' || CASE defaclobjtype WHEN 'r' THEN 'tables' WHEN 'f' THEN 'functions'
            WHEN 'S' THEN 'sequences' ELSE 'objects' END, '', defaclrole, defaclacl
        FROM pg_default_acl WHERE defaclnamespace = to_regnamespace('sams')
)
SELECT CASE x.grantee WHEN 0 THEN NULL ELSE pg_get_userbyid(x.grantee) END,
    concat_ws(' ', x.privilege_type, kind, name) || CASE WHEN x.is_grantable THEN ' (and may grant it)'
    ELSE '' END FROM acl, aclexplode(acl) x WHERE x.grantee <> owner ORDER BY 1, 2
"""
_GRANTS = (
    "SELECT login::text, role, container, clean_sessions, granted_by::text, "
    "to_char(granted AT TIME ZONE 'UTC', 'YYYY-MM-DD'), r.oid IS NOT NULL, "
    "coalesce(r.rolcanlogin AND r.oid = g.who, false) "
    "FROM sams.grants g LEFT JOIN pg_roles r ON r.rolname = g.login ORDER BY 1, 2, 3"
)


@dataclass(frozen=True)
class Held:
    """A grant as it is stored, with who vouched for it."""

    login: str
    role: str
    container: str
    clean: bool
    by: str
    date: str
    known: bool  # the server has a login of that name
    counts: bool  # and it is the one that was granted


@dataclass(frozen=True)
class View:
    """What the examining login is, and what it sees of the grants: all of them, or its own.

    `void` are grants of logins that are gone, or another one by now.
    """

    login: str
    everything: bool
    grants: tuple[Held, ...]
    void: tuple[Held, ...]


def view(db: Connection) -> View:
    """Return what the connection's login sees; without rights on the schema that is nothing."""
    row = db.execute(
        "SELECT session_user::text, r.rolsuper OR r.rolbypassrls OR pg_has_role(r.oid, c.relowner, "
        "'USAGE'), has_schema_privilege('sams', 'USAGE') AND has_table_privilege(c.oid, 'SELECT') "
        "FROM pg_roles r, pg_class c WHERE r.rolname = session_user AND c.relname = 'grants' "
        "AND c.relnamespace = to_regnamespace('sams')"
    ).fetchone()
    login, everything, allowed = row or ("", False, False)
    found = [Held(*values) for values in db.execute(_GRANTS)] if allowed else []
    grants, void = (tuple(g for g in found if g.counts is counts) for counts in (True, False))
    return View(login, bool(everything and allowed), grants, void)


def login(db: Connection, seen: View) -> Iterator[Fact]:
    """Yield what the examining login is itself."""
    mine = [f"{g.role} of {g.container}" for g in seen.grants if g.login == seen.login]
    reason = bypass_of(db)
    power = reason in ("is a superuser", "bypasses row-level security", "can become a superuser")
    if reason is not None and (mine or power):
        detail = f"{seen.login} {reason}: row-level security doesn't bind it"
        yield "bad", "login", None, f"{detail}; agents and jobs are refused under it"
    elif reason is not None:
        yield "note", "login", None, f"{seen.login} is the administrator's: it {reason}"
    elif mine:
        yield "ok", "login", None, f"{seen.login} is {some(mine)}"
    else:
        yield "warn", "login", None, f"{seen.login} has no grant here"


def grants(db: Connection, seen: View) -> Iterator[Fact]:
    """Yield what each granted login could do beyond its grants, and who vouched for whose host."""
    for grant in seen.void:
        why = "is another login by now" if grant.known else "is no login of this server"
        detail = f"void, so revoke or grant again: {grant.login}, {grant.role}, {why}"
        yield "warn", "grants", grant.container, detail
    for name in sorted({grant.login for grant in seen.grants}):
        reason = bypass_of(db, name)
        found = [reason] if reason is not None else []
        columns = ", ".join(f"coalesce({hazard}, false)" for hazard in _HAZARDS)
        sql = f"SELECT {columns} FROM pg_roles r WHERE rolname = %s"  # noqa: S608 - ours
        row = db.execute(sql.encode(), (name,)).fetchone() or ()
        found += [text for has, text in zip(row, _HAZARDS.values(), strict=True) if has]
        if found and name != seen.login:
            yield "bad", "login", None, f"{name}, which was granted roles here, {'; '.join(found)}"
        elif found and found != [reason]:
            yield "bad", "login", None, f"{name} {'; '.join(f for f in found if f != reason)}"
    for grant in seen.grants:
        if grant.clean and grant.role != "owner":
            detail = f"sessions of {grant.role} {grant.login} begin unmarked"
            detail += f": {grant.by} vouched for its hosts on {grant.date}"
            yield "note", "vouched", grant.container, detail
    if not seen.everything:
        yield "warn", "grants", None, f"other logins' grants: {UNSEEN}"


def gate(seen: View, container: str) -> Fact:
    """Return whether anybody but owners decides in a container."""
    roles: dict[str, set[str]] = defaultdict(set)
    for grant in seen.grants:
        if grant.container == container:
            roles[grant.role].add(grant.login)
        elif container == ORG and grant.role == "agent":
            roles["agent elsewhere"].add(grant.login)
    both = [
        f"{name} is {role} and owner"
        for role in ("agent", "dreamer", "agent elsewhere")
        for name in sorted(roles[role] & roles["owner"])
    ]
    if both:
        return "bad", "gate", container, f"{_GATE}: {'; '.join(both)}"
    if not seen.everything:
        return "warn", "gate", container, f"who else is owner or agent here: {UNSEEN}"
    if not roles["owner"]:
        return "warn", "gate", container, "nobody is its owner: nothing can be decided"
    parts = [
        f"{role}s {some(sorted(roles[role])) or 'none'}" for role in ("owner", "agent", "dreamer")
    ]
    return "ok", "gate", container, f"decided by owners alone: {'; '.join(parts)}"


def privileges(db: Connection, seen: View) -> Iterator[Fact]:
    """Yield rights that nobody should have, and rights that a granted login lacks."""
    here: dict[str | None, set[str]] = defaultdict(set)
    for grantee, right in db.execute(_ACL):
        here[grantee].add(right)
    wrong = False
    roles: dict[str, set[str]] = defaultdict(set)
    for grant in seen.grants:
        roles[grant.login].add(grant.role)
    for grantee in sorted(here.keys() | roles.keys(), key=lambda name: name or ""):
        if grantee not in (None, seen.login) and not seen.everything:
            continue
        wanted = _wanted(roles[grantee]) if grantee is not None else set()
        extra, lacking = sorted(here[grantee] - wanted), sorted(wanted - here[grantee])
        who = "PUBLIC" if grantee is None else grantee
        if extra:
            wrong = True
            yield "bad", "privileges", None, f"{who} has beyond its grants: {some(extra)}"
        if lacking:
            wrong = True
            detail = f"{who} lacks what its grants need: {some(lacking)}; grant again"
            yield "warn", "privileges", None, detail
    if not seen.everything:
        yield "warn", "privileges", None, f"whether other logins' are as granted: {UNSEEN}"
    elif not wrong:
        yield "ok", "privileges", None, "as granted, to nobody else and not to PUBLIC"


def _wanted(roles: set[str]) -> set[str]:
    rights = {"USAGE schema sams"} if roles else set()
    for role in roles:
        rights |= {f"EXECUTE function {name}" for name in (_COMMON, *_FUNCTIONS[role])}
        for privilege, tables in _TABLES[role].items():
            for table in tables.split():
                if privilege == "UPDATE" and table in _COLUMNS:
                    columns = _COLUMNS[table].split(", ")
                    rights |= {f"UPDATE column {table}.{column}" for column in columns}
                else:
                    rights.add(f"{privilege} table {table}")
    return rights


def containers(db: Connection, seen: View) -> list[str]:
    """Return the containers of which this login sees everything, in order."""
    if not seen.everything:
        return sorted(
            {g.container for g in seen.grants if (g.login, g.role) == (seen.login, "owner")}
        )
    tables = ("grants", "sessions", "changes", "versions", "notes")
    parts = " UNION ".join(f"SELECT container FROM sams.{table}" for table in tables)  # noqa: S608
    return [row[0] for row in db.execute(f"{parts} ORDER BY 1".encode())]
