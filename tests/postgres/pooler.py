"""A pooler as small as can be, for tests: it greets with a process id that is no server's.

With `share` all clients use the first one's server connection, a statement at a time, as in a
transaction-pooling pooler; without, each has its own.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

_MADE_UP = 999_999_999


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data


def _message(connection: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(connection, 5)
    return head[:1], head + _exactly(connection, struct.unpack("!I", head[1:])[0] - 4)


class _Pooler:
    def __init__(self, host: str, port: int, share: bool) -> None:
        self.target, self.share = (host, port), share
        self.lock = threading.Lock()
        self.shared: socket.socket | None = None
        self.open: list[socket.socket] = []

    def serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            self._serve(client)
        client.close()

    def _serve(self, client: socket.socket) -> None:
        size = _exactly(client, 4)
        startup = size + _exactly(client, struct.unpack("!I", size)[0] - 4)
        if self.share and self.shared is not None:
            server = self.shared
            key = struct.pack("!cIII", b"K", 12, _MADE_UP, 1)
            client.sendall(struct.pack("!cII", b"R", 8, 0) + key + b"Z\0\0\0\5I")
        else:
            server = socket.create_connection(self.target)
            self.open.append(server)
            server.sendall(startup)
            self._greet(client, server)
            self.shared = server
        while True:
            kind, data = _message(client)
            if kind == b"X":
                return
            with self.lock:
                server.sendall(data)
                while kind not in (b"Q", b"S"):
                    kind, data = _message(client)
                    server.sendall(data)
                self._until_ready(client, server)

    def _greet(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            kind, data = _message(server)
            if kind == b"K":
                data = data[:5] + struct.pack("!I", _MADE_UP) + data[9:]
            client.sendall(data)
            if kind == b"Z":
                return
            if kind == b"R" and data[5:9] in (b"\0\0\0\x0a", b"\0\0\0\x0b"):  # SASL asks
                server.sendall(_message(client)[1])

    def _until_ready(self, client: socket.socket, server: socket.socket) -> None:
        kind = b""
        while kind != b"Z":
            kind, data = _message(server)
            client.sendall(data)


@contextmanager
def pooled(url: str, *, share: bool) -> Iterator[str]:
    """Run a pooler before the server of an address, and yield the address through it."""
    parts = urlsplit(url)
    pooler = _Pooler(parts.hostname or "", parts.port or 5432, share)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    pooler.open.append(client)
                    threading.Thread(target=pooler.serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        port = listener.getsockname()[1]
        login = parts.netloc.rpartition("@")[0]
        yield f"postgresql://{login}@127.0.0.1:{port}{parts.path}?sslmode=disable&gssencmode=disable"
        listener.shutdown(socket.SHUT_RDWR)
    for connection in pooler.open:
        connection.close()
