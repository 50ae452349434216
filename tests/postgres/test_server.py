"""The test server itself: which one it is, and that a killed test process leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from sams_conformance import postgres_server

from .conftest import Store

_STARTS_ONE = """
import sys, time
from sams_conformance.postgres_server import Server
initialize = Server._initialize
def told(server, settings):
    print(server.folder, flush=True)
    initialize(server, settings)
Server._initialize = told
print(Server()._order(look=True)["pid"], flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("started", [True, False], ids=["started", "half-started"])
def test_a_killed_test_process_leaves_no_server_and_no_folder(started: bool) -> None:
    child = subprocess.Popen([sys.executable, "-c", _STARTS_ONE], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    folder, pid = Path(child.stdout.readline().strip()), None
    assert folder.exists()
    if started:
        pid = int(child.stdout.readline())
        os.kill(pid, 0)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    for _ in range(600):
        if not folder.exists():
            break
        time.sleep(0.1)
    assert not folder.exists()
    if pid is not None:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_tests_run_on_the_server_that_was_named(store: Store) -> None:
    with psycopg.connect(store.database._root, autocommit=True) as root:
        (version,) = root.execute("SHOW server_version").fetchone()
    assert int(version.split(".")[0]) >= 15
    if postgres_server._started:  # else an address was given
        postgres = str(postgres_server.binaries() / "postgres")
        told = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True)
        assert f"(PostgreSQL) {version}" in told.stdout


def test_binaries_that_were_named_and_are_not_there_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(postgres_server.FOLDER, str(tmp_path))
    with pytest.raises(RuntimeError, match=postgres_server.FOLDER):
        postgres_server.binaries()
