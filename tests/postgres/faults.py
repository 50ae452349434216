"""A way to the server that breaks at a chosen message, and every verb that must survive it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from sams_core import AgentSession, DreamerSession, Owner
from sams_core.backends.postgres import PostgresBackend
from sams_core.errors import NotFound, SamsError, SessionClosed, StoreFailed, VersionConflict

from .conftest import ACME, Store

_READY = b"Z\0\0\0\5"  # what ends a server's answer, before one byte that says in what transaction


class Proxy:
    """Forwards to a server; at the chosen message of its clients it calls `fault` and hangs up."""

    def __init__(self, url: str) -> None:
        found = conninfo_to_dict(url)
        self._server = (found["host"], int(found["port"] or 5432))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._left = -1
        self._fault: Callable[[socket.socket, bytes], None] = lambda server, message: None
        self.broke = False
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def through(self, url: str) -> str:
        """Return an address that leads through here."""
        host, port = self._listening.getsockname()
        plain = {"sslmode": "disable", "gssencmode": "disable"}
        return make_conninfo(url, host=host, port=port, **plain)

    def arm(self, number: int, fault: Callable[[socket.socket, bytes], None]) -> None:
        """Break at the `number`-th message from now."""
        with self._lock:
            self._left, self._fault, self.broke = number, fault, False

    def close(self) -> None:
        """Take no more connections; those there are end with their clients."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,)).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                server = socket.create_connection(self._server)
            except OSError:
                return
            with server, suppress(OSError):
                self._forward(client, server)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            ready, _, _ = select.select([client, server], [], [])
            for source in ready:
                data = source.recv(65_536)
                if not data:
                    return
                if source is server:
                    client.sendall(data)
                elif self._breaks_now():
                    with suppress(OSError):
                        self._fault(server, data)
                    for end in (client, server):  # at once, with whatever is on its way lost
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                else:
                    server.sendall(data)

    def _breaks_now(self) -> bool:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self.broke = True
            return self._left == 0


def lose_request(server: socket.socket, message: bytes) -> None:
    """The server never hears of it."""


def hang_up(server: socket.socket, message: bytes) -> None:
    """The server is at work on it when the socket closes."""
    server.sendall(message)


def lose_answer(server: socket.socket, message: bytes) -> None:
    """The server has done it, and nobody hears so."""
    server.sendall(message)
    answer = b""
    while not answer[-6:].startswith(_READY):
        more = server.recv(65_536)
        if not more or more[:1] in b"NSR":  # while a connection begins nothing is "ready" yet
            return
        answer += more


def kill_backend(root: str) -> Callable[[socket.socket, bytes], None]:
    """Kill the server's process for that connection as it gets to work, whereupon all others end."""

    def fault(server: socket.socket, message: bytes) -> None:
        sql = "SELECT pid FROM pg_stat_activity WHERE client_port = %s"
        with psycopg.connect(root, autocommit=True) as db:
            found = db.execute(sql, (server.getsockname()[1],)).fetchone()
            server.sendall(message)
            if found is None:  # its first message: nobody knows yet who serves it
                return
            os.kill(found[0], signal.SIGKILL)
            with suppress(psycopg.OperationalError):
                while True:
                    db.execute("SELECT 1")

    return fault


RETRYABLE = {"store-unreachable", "session-closed"}


def again(call: Callable[[], Any]) -> Any:
    """Repeat a call until the server is back; any other refusal is raised."""
    for _ in range(3_000):
        try:
            return call()
        except psycopg.OperationalError:  # of our own looking
            pass
        except (StoreFailed, SessionClosed) as error:
            assert error.rule in RETRYABLE, error
        time.sleep(0.01)
    raise AssertionError("the server never came back")


@dataclass
class Case:
    """A call, and how often the store shows what it does."""

    call: Callable[[], Any]
    effect: Callable[[], int]


class Cases:
    """Every verb that stores something, each call on a name of its own.

    The calls go through the proxy; the looking and the preparing don't.
    """

    def __init__(self, store: Store, proxy: Proxy) -> None:
        self._store, self._proxy = store, proxy
        urls = {r: store.database.granted(r, ACME) for r in ("agent", "owner", "dreamer")}
        self.backends = {r: PostgresBackend(proxy.through(url)) for r, url in urls.items()}
        self._session = store.session("direct")
        self._broken = self._agent("broken")
        self._owner, self._direct = Owner(self.backends["owner"], "olga"), store.owner()
        self._job = DreamerSession(self.backends["dreamer"], job_id="job", scope=ACME)
        self._job.snapshot("clean")
        self._admin = store.admin

    def _agent(self, session_id: str) -> AgentSession:
        return AgentSession(
            self.backends["agent"],
            session_id=session_id,
            agent="bot",
            assigned=ACME,
            user="insider",
            observed="by-hand",
        )

    def disconnect(self) -> None:
        self._proxy.arm(0, lose_request)  # saying goodbye is a message too
        for backend in self.backends.values():
            backend.close()

    def case(self, verb: str, name: str) -> Case:
        """Return a case whose connection stands, so that the first message is the verb's own."""
        self._proxy.arm(0, lose_request)  # what the last call left of its fault is nobody's
        made = getattr(self, f"_{verb}")(name)
        for backend in self.backends.values():
            again(lambda backend=backend: backend._pool.rows("SELECT 1"))
        return made

    def _tool(self, scope: str, name: str) -> Any:
        arguments = {"scope": scope, "path": name, "content": name, "description": "d"}
        answer = self._broken.call_tool("memory_write", arguments, call_id=name)
        refusal = json.loads(answer).get("error")
        if refusal is not None:
            raise StoreFailed(refusal["message"], rule=refusal["rule"])
        return answer

    def _count(self, sql: str, name: str) -> int:
        """Count as the database's administrator, to whom the policies show everything."""
        with psycopg.connect(self._store.database.admin, autocommit=True) as db:
            row = db.execute(sql.encode(), (name,)).fetchone()
            return int(row[0])

    def _note(self, name: str) -> Case:
        sql = "SELECT coalesce(sum(version), 0) FROM sams.notes WHERE path = %s"
        return Case(lambda: self._tool("run", name), lambda: self._count(sql, name))

    def _queue(self, name: str) -> Case:
        sql = "SELECT count(*) FROM sams.changes WHERE path = %s"

        def effect() -> int:
            found = self._count(sql, name)
            for change in self._direct.changes(ACME):  # or a session's queue would soon be full
                if change.path == name:
                    self._direct.reject(ACME, change.id)
            return found

        return Case(lambda: self._tool("assigned", name), effect)

    def _mark(self, name: str) -> Case:
        sql = "SELECT count(*) FROM sams.sources WHERE family = %s"
        session = self._agent(f"m{name}")
        return Case(lambda: session.mark_tainted("a page"), lambda: self._count(sql, f"m{name}"))

    def _open(self, name: str) -> Case:
        sql = "SELECT count(*) FROM sams.sessions WHERE session_id = %s"
        return Case(lambda: self._agent(name), lambda: self._count(sql, name))

    def _queued(self, name: str) -> Any:
        receipt = self._session.memory_write("assigned", name, name, "d")
        return next(c for c in self._direct.changes(ACME) if c.id == receipt.change_id)

    def _decided(self, outcome: str, name: str, call: Callable[[Any], Any]) -> Case:
        change = self._queued(name)
        sql = (
            "SELECT count(*) FROM sams.decisions d JOIN sams.changes c ON c.id = d.change_id "
            f"WHERE c.path = %s AND c.state = '{outcome}' AND (SELECT count(*) FROM sams.versions v "
            f"WHERE v.path = c.path) = {int(outcome == 'accepted')}"
        )
        return Case(lambda: call(change), lambda: self._count(sql, name))

    def _accept(self, name: str) -> Case:
        return self._decided(
            "accepted", name, lambda c: self._owner.accept(ACME, c.id, c.digest).digest
        )

    def _reject(self, name: str) -> Case:
        return self._decided("rejected", name, lambda c: self._owner.reject(ACME, c.id, "no"))

    def _write(self, name: str) -> Case:
        sql = "SELECT count(*) FROM sams.versions WHERE path = %s"

        def call() -> None:
            try:
                self._owner.write(ACME, name, name, "d")
            except VersionConflict as error:
                assert (error.expected, error.found) == (0, 1)

        return Case(call, lambda: self._count(sql, name))

    def _retire(self, name: str) -> Case:
        self._direct.write(ACME, name, name, "d")
        sql = "SELECT count(*) FROM sams.versions WHERE path = %s AND status = 'retired'"
        return Case(lambda: self._owner.retire(ACME, name), lambda: self._count(sql, name))

    def _restore(self, name: str) -> Case:
        entry = self._direct.write(ACME, name, name, "d")
        self._direct.retire(ACME, name)
        sql = "SELECT max(version) - 1 FROM sams.versions WHERE path = %s"
        return Case(
            lambda: self._owner.restore(ACME, name, entry.digest),
            lambda: self._count(sql, name),
        )

    def _propose(self, name: str) -> Case:
        sql = "SELECT count(*) FROM sams.changes WHERE path = %s AND state = 'open'"

        def call() -> None:
            self._job.propose(name, name, "d")

        return Case(call, lambda: self._count(sql, name))

    def _clear(self, name: str) -> Case:
        self._session.memory_write("run", name, name, "d")
        sql = "SELECT 1 - count(*) FROM sams.notes WHERE path = %s"
        return Case(lambda: self._owner.clear_runs(ACME), lambda: self._count(sql, name))


VERBS = "note queue mark open accept reject write retire restore propose clear".split()


def struck(case: Case) -> None:
    """Make a call that the proxy breaks and repeat it: it takes effect once, and says so clearly."""
    before = case.effect()
    assert before == 0, (case, before)
    refused = None
    try:
        case.call()
    except SamsError as error:
        refused = error
    if refused is None:
        assert case.effect() == 1
        return
    assert refused.rule in RETRYABLE, refused
    assert not isinstance(refused, NotFound)
    assert again(case.effect) in (0, 1)
    again(case.call)
    assert case.effect() == 1
