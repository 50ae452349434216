"""What can be told about a database with one login: every transaction is read only.

What this login can't see is said as such and never counts as fine; what can't be checked for another
reason is bad. Details may end in stored text or in names of logins; show them as `visible_line`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Sequence

import psycopg

from sams_core.backends.finding import TOP, UNSEEN, Finding, Level, used
from sams_core.backends.postgres import logins
from sams_core.backends.postgres.admin import migrations
from sams_core.backends.postgres.connect import Connection, Secret, connect, translated
from sams_core.backends.postgres.guards import guards
from sams_core.backends.postgres.restored import cluster, contents
from sams_core.backends.postgres.rows import unpack
from sams_core.errors import NotFound, SamsError
from sams_core.limits import Limits

OLDEST, NEWEST = 15, 18
_READING = (
    b"SET TRANSACTION READ ONLY; SET LOCAL search_path = pg_catalog; "
    b"SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = '5s'"
)
_UNSEEN = ("42501",)  # insufficient privilege
_SOURCES = """
SELECT f.kind, f.name, count(*) FROM sams.sources f JOIN sams.sessions s
ON s.container = f.container AND s.family = f.family
WHERE f.container = %s GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2
"""
_ROOM = """
WITH q AS (SELECT writer, agent, state, size FROM sams.changes
        WHERE container = %(c)s AND closed_by IS NULL),
    b AS (SELECT sum(size) n FROM (SELECT writer, size FROM q
        UNION ALL SELECT family, size FROM sams.notes WHERE container = %(c)s) x GROUP BY writer)
SELECT (SELECT count(*) FROM q WHERE state = 'open'),
    (SELECT max(n) FROM (SELECT count(*) n FROM q WHERE state = 'open' GROUP BY agent) x),
    (SELECT max(n) FROM (SELECT count(*) n FROM q WHERE state = 'open' GROUP BY writer) x),
    (SELECT max(n) FROM (SELECT count(*) n FROM q GROUP BY writer) x), (SELECT max(n) FROM b)
"""
_INDEXED = """
WITH served AS (
    SELECT container scope, path, labelled FROM sams.versions
        WHERE container = %(c)s AND status = 'active'
    UNION ALL SELECT scope, path, labelled FROM sams.notes WHERE container = %(c)s)
SELECT count(*) FROM served s FULL JOIN (SELECT * FROM sams.lookup WHERE container = %(c)s) l
    USING (scope, path, labelled) WHERE l.container IS NULL OR s IS NULL
UNION ALL SELECT count(*) FROM (
        SELECT scope, labelled, count(*) texts, sum(length)::bigint terms FROM sams.lookup
        WHERE container = %(c)s GROUP BY 1, 2) l
    FULL JOIN (SELECT * FROM sams.partitions WHERE container = %(c)s AND (texts, terms) <> (0, 0)) p
    USING (scope, labelled, texts, terms) WHERE l IS NULL OR p.container IS NULL
"""


def examine(
    url: str, limits: Limits, scopes: Sequence[str] = (), *, after_restore: bool = False
) -> list[Finding]:
    """Return what was found about a database and the containers that its login sees.

    `scopes` are the only containers looked at, `after_restore` adds what a backup could have lost. Raises
    what connecting raises, and `NotFound` for a scope that the login doesn't see.
    """
    secret = Secret(url)
    try:
        with connect(secret, prepare=False) as db:
            checkup = _Checkup(db, secret, limits)
            checkup.examine(scopes, after_restore)
    except psycopg.Error as error:
        raise translated(error) from None
    return [f for f in checkup.found if not scopes or f.scope in (None, *scopes)]


class _Checkup:
    def __init__(self, db: Connection, secret: Secret, limits: Limits) -> None:
        self.db, self.secret, self.limits = db, secret, limits
        self.found: list[Finding] = []
        self.version: int | None = None  # not read, or not visible

    def say(self, level: Level, what: str, scope: str | None, detail: str) -> None:
        self.found.append(Finding(level, what, scope, detail))

    def guard(
        self, what: str, scope: str | None, check: Callable[[], Iterable[logins.Fact]]
    ) -> None:
        """Run a check in a transaction of its own; one that fails stops no other."""
        try:
            with self.db.transaction():
                self.db.execute(_READING)
                for fact in check():
                    self.say(*fact)
        except psycopg.Error as error:
            if error.sqlstate in _UNSEEN:
                self.say("warn", what, scope, UNSEEN)
            elif self.db.closed:
                raise
            else:
                name = error.sqlstate or type(error).__name__
                self.say("bad", what, scope, f"could not be checked: {name}")

    def examine(self, scopes: Sequence[str], restored: bool) -> None:
        db = self.db
        self.guard("server", None, self.server)
        self.guard("connection", None, self.connection)
        self.pooler()
        self.guard("durability", None, self.durability)
        self.guard("standbys", None, self.standbys)
        if not self.installed():
            self.say("bad", "schema", None, "no schema here: run `sams admin install`")
            return
        self.guard("schema", None, self.schema)
        with db.transaction():
            db.execute(_READING)
            seen = logins.view(db)
            known = logins.containers(db, seen)
        if not set(scopes) <= set(known):
            raise NotFound("nobody has used that scope here, or this login may not see it")
        self.guard("login", None, lambda: logins.login(db, seen))
        self.guard("grants", None, lambda: logins.grants(db, seen))
        self.guard("privileges", None, lambda: logins.privileges(db, seen))
        self.guard("policies", None, self.guards)
        if restored:
            self.guard("restored", None, lambda: cluster(db, seen.everything))
        for scope in scopes or known:
            self.container(scope, seen, restored)
        if not known and seen.everything:
            self.say("note", "containers", None, "no container yet")
        elif not known:
            self.say("warn", "containers", None, f"sessions, marks and changes: {UNSEEN}")

    def container(self, scope: str, seen: logins.View, restored: bool) -> None:
        self.say(*logins.gate(seen, scope))
        self.guard("sessions", scope, lambda: self.sessions(scope))
        self.guard("limits", scope, lambda: self.room(scope))
        self.guard("queue", scope, lambda: self.queue(scope))
        self.guard("search", scope, lambda: self.search(scope))
        if restored:
            self.guard("restored", scope, lambda: contents(self.db, scope))

    # The server.

    def server(self) -> Iterable[logins.Fact]:
        (text, number, standby), *_ = self.db.execute(
            "SELECT current_setting('server_version'), "
            "current_setting('server_version_num')::int, pg_is_in_recovery()"
        )
        major = number // 10_000
        level: Level = "ok" if OLDEST <= major <= NEWEST else "bad" if major < OLDEST else "warn"
        yield level, "server", None, f"Postgres {text.split()[0]}, supported {OLDEST} to {NEWEST}"
        if standby:
            yield "bad", "server", None, "a standby, or recovering: nothing can be written"

    def connection(self) -> Iterable[logins.Fact]:
        connection = self.db.pgconn
        options = {option.keyword: option.val for option in connection.info}
        mode = (options.get(b"sslmode") or b"").decode("ascii", "replace")
        near = _nearby(self.db.info.host, self.db.info.hostaddr)
        level, detail = transport(bool(connection.ssl_in_use), mode, near)
        yield level, "connection", None, detail

    def pooler(self) -> None:
        """A pooler makes up the process id of the greeting; in transaction mode it shares servers."""
        sql = b"SELECT pg_catalog.pg_backend_pid()"
        try:
            (mine,), *_ = self.db.execute(sql)
            if mine == self.db.info.backend_pid:
                self.say("ok", "pooler", None, "none between this process and the server")
                return
            with connect(self.secret, prepare=False) as other:
                (its,), *_ = other.execute(sql)
        except (psycopg.Error, SamsError) as error:
            self.say("bad", "pooler", None, f"could not be checked: {type(error).__name__}")
            return
        if its == mine:
            detail = "one in transaction mode: it must keep prepared statements (PgBouncer 1.21), "
            detail += "or use PostgresBackend(url, prepare=False)"
            self.say("warn", "pooler", None, detail)
        else:
            self.say("note", "pooler", None, "one that kept a server's connection for each client")

    def durability(self) -> Iterable[logins.Fact]:
        names = ("fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names")
        sql = "SELECT name, setting FROM pg_settings WHERE name = ANY (%s)"
        setting: dict[str, str] = dict(self.db.execute(sql, (list(names),)).fetchall())
        for name in names[:2]:
            if setting.get(name) != "on":
                detail = f"{name} is {setting.get(name)}: a power cut can cost marks and decisions"
                yield "bad", "durability", None, detail
        commit = setting.get("synchronous_commit")
        if commit == "off":
            detail = (
                "synchronous_commit is off: a crash may cost the last notes; marks, changes and "
            )
            yield "note", "durability", None, detail + "decisions turn it on for themselves"
        else:
            yield "ok", "durability", None, f"synchronous_commit is {commit}"

    def standbys(self) -> Iterable[logins.Fact]:
        (count, behind, unseen), *_ = self.db.execute(
            "SELECT count(*), count(*) FILTER (WHERE sync_state IN ('async', 'potential')), "
            "count(*) FILTER (WHERE sync_state IS NULL) FROM pg_stat_replication"
        )
        if unseen:
            yield "warn", "standbys", None, f"{count} connected; whether in step: {UNSEEN}"
        elif behind:
            detail = f"{behind} of {count} are asynchronous: promoting one can lose the last marks "
            yield "warn", "standbys", None, detail + "and decisions; sams doctor --restored then"
        else:
            yield "ok", "standbys", None, f"{count} connected, none asynchronous"

    # The schema.

    def installed(self) -> bool:
        sql = (  # by the catalog: to_regclass needs a right on the schema
            "SELECT count(*) FROM pg_catalog.pg_class WHERE relname = 'store' "
            "AND relnamespace = pg_catalog.to_regnamespace('sams')"
        )
        (found,), *_ = self.db.execute(sql)
        return bool(found)

    def schema(self) -> Iterable[logins.Fact]:
        (version,), *_ = self.db.execute("SELECT version FROM sams.store")
        self.version, mine = version, len(migrations())
        if version == mine:
            yield "ok", "schema", None, f"version {version}, complete"
        else:
            detail = f"version {version}, this package's is {mine}"
            hint = ": run `sams admin install`" if version < mine else ": use a newer package"
            yield "bad", "schema", None, detail + hint

    def guards(self) -> Iterable[logins.Fact]:
        if self.version not in (None, len(migrations())):
            yield "warn", "policies", None, "not compared: the schema is another version's"
            return
        for level, what, detail in guards(self.db):
            yield level, what, None, detail

    # One container.

    def sessions(self, scope: str) -> Iterable[logins.Fact]:
        (count, marked, lost), *_ = self.db.execute(
            "SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT FROM sams.sources f WHERE "
            "f.container = s.container AND f.family = s.family)), count(*) FILTER (WHERE EXISTS ("
            "SELECT FROM sams.sources f WHERE f.container = s.container AND f.family = s.family "
            "AND f.kind = 'ledger-lost')) FROM sams.sessions s WHERE container = %s",
            (scope,),
        )
        yield "ok", "sessions", scope, f"{count}, of them marked {marked}"
        if lost:
            detail = (
                f"{lost} sessions began marked: the ledger didn't know them, their memory exists"
            )
            yield "warn", "ledger", scope, detail
        rows = self.db.execute(_SOURCES, (scope,)).fetchall()
        for kind, name, times in rows[:TOP]:
            yield "note", "source", scope, f"marked {times} sessions: {kind}: {unpack(name)}"
        if len(rows) > TOP:
            yield "note", "source", scope, f"{len(rows) - TOP} more sources marked sessions"

    def room(self, scope: str) -> Iterable[logins.Fact]:
        counts, *_ = self.db.execute(_ROOM, {"c": scope})
        limits = self.limits
        most = (
            ("open changes", limits.container_open),
            ("of one agent", int(limits.container_open * limits.agent_share)),
            ("open of one session", limits.session_open),
            ("stored of one session", limits.session_stored),
            ("bytes of one session", limits.session_bytes),
        )
        rows = [(what, int(n or 0), m) for (what, m), n in zip(most, counts, strict=True)]
        level, detail = used(rows)
        yield level, "limits", scope, detail

    def queue(self, scope: str) -> Iterable[logins.Fact]:
        (writes, proposals, oldest), *_ = self.db.execute(
            "SELECT count(*) FILTER (WHERE kind = 'write'), count(*) FILTER (WHERE kind <> 'write'), "
            "min(date) FROM sams.changes WHERE container = %s AND state = 'open'",
            (scope,),
        )
        if oldest is not None:
            detail = f"{writes} writes and {proposals} proposals await the owner, the oldest since "
            yield "note", "queue", scope, detail + oldest[:10]

    def search(self, scope: str) -> Iterable[logins.Fact]:
        (differ,), (miscounted,) = self.db.execute(_INDEXED, {"c": scope})
        if miscounted:
            yield "bad", "search", scope, f"{miscounted} partitions are counted wrongly"
        if differ:
            yield "bad", "search", scope, f"{differ} rows are indexed wrongly"
        elif not miscounted:
            yield "ok", "search", scope, "the index agrees with its rows"


def transport(encrypted: bool, mode: str, near: bool) -> tuple[Level, str]:
    """Return what to think of the way to the server; `near` is within this machine."""
    if encrypted and mode == "verify-full":
        return "ok", "TLS, and the server's name was verified"
    if encrypted:
        return "warn", f"TLS, but sslmode={mode} verifies no name: use verify-full"
    if near:
        return "note", "no TLS, within this machine"
    return "bad", "no TLS: whoever is on the way can read and change it"


def _nearby(host: str, address: str) -> bool:
    if host.startswith(("/", "@")):
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
