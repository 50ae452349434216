"""Connections: a pool a process and login, none carried over a fork, errors without stored text."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from sams_core.errors import (
    InvalidArguments,
    NotFound,
    PermissionDenied,
    SamsError,
    StoreFailed,
    VersionConflict,
)

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
_PATIENCE = 30.0  # seconds for a free connection; then the pool counts as exhausted
_MOST_IDLE = 4
# The system's own would let a verb wait for hours on a server that vanished without a word.
_TCP = {
    "keepalives_idle": 30,  # seconds, as the next
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds
}
_RETRIED = {"40001", "40P01"}  # a serialization failure or a deadlock: nothing was stored
_REFUSALS: dict[str, Callable[[], SamsError]] = {
    "SM001": lambda: PermissionDenied("this login has no grant for that", rule="no-grant"),
    "SM002": lambda: StoreFailed("transactions must be READ COMMITTED", rule="isolation"),
    "SM003": lambda: PermissionDenied("take a snapshot before proposing", rule="snapshot-first"),
    "SM004": lambda: PermissionDenied("not the agent of that session", rule="other-agent"),
    "SM008": lambda: PermissionDenied(
        "the schema sams is another login's, or not empty", rule="schema-owner"
    ),
    "SM006": lambda: PermissionDenied("what is stored there stays as it is", rule="immutable"),
    "42501": lambda: PermissionDenied(
        "the database allows this login no such thing", rule="no-grant"
    ),
    "55P03": lambda: StoreFailed("waited too long for somebody's lock", rule="store-busy"),
    "53300": lambda: StoreFailed("the server has no connection free", rule="store-busy"),
    "57014": lambda: StoreFailed("the server gave up on a statement", rule="store-busy"),
    "25006": lambda: StoreFailed("the server takes no writes now", rule="store-read-only"),
    "3F000": lambda: StoreFailed("no schema here: run `sams admin install`", rule="no-schema"),
    "42P01": lambda: StoreFailed("no schema here: run `sams admin install`", rule="no-schema"),
    "42883": lambda: StoreFailed("an older schema: run `sams admin install`", rule="no-schema"),
}
# The server ends a connection, or takes none while it starts or stops.
_HUNG_UP = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"}


class Superseded(NotFound):
    """A decision came too late; `state` is what has become of the change."""

    rule = "not-open"


def translated(error: psycopg.Error) -> SamsError:
    """Return the refusal for a driver's error: its code, never its text, which may quote anything."""
    code = error.sqlstate
    detail = error.diag.message_detail or ""
    if code == "SM005":
        expected, _, found = detail.partition("/")
        return VersionConflict(int(expected), int(found))
    if code == "SM007":
        return Superseded(f"that change is not open any more: {detail}")
    if code in _REFUSALS:
        return _REFUSALS[code]()
    if code in ("28P01", "28000", "3D000"):
        return StoreFailed(f"the database refused the login ({code})", rule="login-refused")
    silent = code is None and isinstance(error, psycopg.OperationalError)
    if silent or code in _HUNG_UP or (code or "").startswith("08"):
        return StoreFailed(
            # The driver gives no code while it connects: a refused login and a full server are here.
            "the database can't be reached, lets nobody in or hung up: check address and login, or "
            "repeat the call",
            rule="store-unreachable",
        )
    return StoreFailed(f"the database refused: {code or type(error).__name__}")


class Secret:
    """Connection parameters that no repr, log or pickle shows."""

    __slots__ = ("_value",)

    def __init__(self, url: str) -> None:
        try:
            if "\0" in url:  # libpq would stop reading there
                raise ValueError
            self._value = make_conninfo(url, **_defaults(url))
        except (psycopg.Error, ValueError):  # the latter holds the whole text
            raise InvalidArguments("postgres url: postgresql://...", rule="url") from None

    def __repr__(self) -> str:
        return "<connection parameters>"

    def __reduce__(self) -> Any:
        raise TypeError("connection parameters aren't pickled")

    def reveal(self) -> str:
        """Return what libpq takes; for connecting only."""
        return self._value

    def public(self) -> str:
        """Return host, port and database, for a person."""
        found = conninfo_to_dict(self._value)
        host = found.get("host") or found.get("hostaddr") or "local socket"
        return f"{host}:{found.get('port') or 5432}/{found.get('dbname') or ''}"


def _defaults(url: str) -> dict[str, Any]:
    given = conninfo_to_dict(url)
    mine: dict[str, Any] = {"application_name": "sams", "client_encoding": "utf8"}
    if not (given.get("service") or os.environ.get("PGSERVICE")):  # whose file may say otherwise
        mine |= {"connect_timeout": 10} | _TCP
    return {name: value for name, value in mine.items() if name not in given}


def connect(secret: Secret, *, prepare: bool = True) -> Connection:
    """Open one connection in autocommit mode."""
    try:
        connection = psycopg.connect(
            secret.reveal(), autocommit=True, prepare_threshold=5 if prepare else None
        )
    except psycopg.Error as error:
        raise translated(error) from None
    # A role's or a database's setting may say otherwise; here a lock must bring what it waited for.
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    return connection


_inherited: list[Any] = []  # a forked child must neither use nor close its parent's sockets


class Pool:
    """Connections of one login, shared by all threads of one process.

    Nothing is ever SET on a connection beyond its transaction, so giving one back takes a rollback
    at most, and prepared statements stay.
    """

    def __init__(self, secret: Secret, size: int, *, prepare: bool) -> None:
        self._secret, self._size, self._prepare = secret, size, prepare
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._free = threading.Condition()
        self._idle: list[Connection] = []
        self._open = 0
        self._closed = False

    def _own(self) -> None:
        if self._pid != os.getpid():
            _inherited.append((self._idle, self._free))
            self._renew()

    def _take(self) -> Connection:
        self._own()
        deadline = time.monotonic() + _PATIENCE
        with self._free:
            while True:
                while self._idle:
                    connection = self._idle.pop()
                    if _alive(connection):
                        return connection
                    self._open -= 1
                    _close(connection)
                if self._open < self._size:
                    self._open += 1
                    break
                if not self._free.wait(deadline - time.monotonic()):
                    raise StoreFailed("all connections are in use", rule="store-busy")
        try:
            return connect(self._secret, prepare=self._prepare)
        except BaseException:
            with self._free:
                self._open -= 1
                self._free.notify()
            raise

    def _give(self, connection: Connection, pid: int) -> None:
        if pid != os.getpid():
            _inherited.append(connection)
            return
        if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                connection.rollback()
        with self._free:
            usable = (
                not connection.closed
                and connection.info.transaction_status == TransactionStatus.IDLE
                and len(self._idle) < _MOST_IDLE
                and not self._closed
            )
            if usable:
                self._idle.append(connection)
            else:
                self._open -= 1
                _close(connection)
            self._free.notify()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend a connection; what the driver raises becomes a refusal."""
        connection, pid = self._take(), os.getpid()
        try:
            yield connection
        except psycopg.Error as error:
            raise translated(error) from None
        except UnicodeEncodeError:  # whose repr is the whole text
            raise InvalidArguments("not valid Unicode (a lone surrogate)", rule="text") from None
        finally:
            self._give(connection, pid)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement that returns rows, a transaction of its own."""

        def work(db: Connection) -> list[tuple[Any, ...]]:
            return db.execute(sql.encode(), values).fetchall()

        with self.connection() as connection:
            try:
                return work(connection)
            except psycopg.Error as error:
                if error.sqlstate not in (*_RETRIED, "SM002"):  # the default isolation isn't ours
                    raise
        return self.transaction(work)

    def transaction(self, work: Callable[[Connection], T], *, frozen: bool = False) -> T:
        """Run `work` as one transaction, again if the database asks for that; all or nothing.

        READ COMMITTED, or with `frozen` one view of the data for all its statements.
        """
        for attempt in range(10):
            with self.connection() as connection:
                try:
                    with connection.transaction():
                        if frozen:
                            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                        return work(connection)
                except psycopg.Error as error:
                    if error.sqlstate not in _RETRIED or attempt == 9:
                        raise translated(error) from None
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        self._own()
        with self._free:
            self._closed = True
            idle, self._idle = self._idle, []
            self._open -= len(idle)
            self._free.notify_all()
        for connection in idle:
            _close(connection)


def _alive(connection: Connection) -> bool:
    """Tell, without a round trip, whether the server has hung up: then there is something to read."""
    if connection.closed:
        return False
    try:
        poll = select.poll()
        poll.register(connection.pgconn.socket, select.POLLIN)
        return not poll.poll(0)
    except (OSError, ValueError, psycopg.Error):
        return False


def _close(connection: Connection) -> None:
    with suppress(psycopg.Error, OSError):
        connection.close()


_pools: dict[tuple[int, str, int, bool], tuple[Pool, set[int]]] = {}
_pools_lock = threading.RLock()  # a backend may be collected while it is held


def acquire(secret: Secret, size: int, prepare: bool, user: int) -> Pool:
    """Return this process's pool for a login, held for the backend object `user`."""
    key = (os.getpid(), secret.reveal(), size, prepare)
    with _pools_lock:
        pool, users = _pools.setdefault(key, (Pool(secret, size, prepare=prepare), set()))
        users.add(user)
        return pool


def release(secret: Secret, size: int, prepare: bool, user: int) -> None:
    """Let go of a pool; the last to do so closes it."""
    key = (os.getpid(), secret.reveal(), size, prepare)
    with _pools_lock:
        found = _pools.get(key)
        if found is None or user not in found[1]:
            return
        found[1].discard(user)
        if found[1]:
            return
        del _pools[key]
    found[0].close()


def _after_fork() -> None:
    global _pools_lock
    _pools_lock = threading.RLock()  # a backend may be collected while it is held
    _inherited.extend(_pools.values())
    _pools.clear()


os.register_at_fork(after_in_child=_after_fork)
