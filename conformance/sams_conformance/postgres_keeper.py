"""Keep a test server and its folder, and remove both once whoever asked for them is gone.

Run as a script with the folder and, as JSON, the user as whom its programs run.
One order a line on standard input, one answer a line, both JSON:

* `{"run": argv}` runs a program to its end; answers `{"code": ..., "errors": its standard error}`
* `{"start": argv}` starts the server, which writes to the file `log` of the folder
* `{"kill": true}` kills the server outright, as a crash would
* `{"look": true}` changes nothing

The last three answer `{"pid": ...}`, null where no server runs. The end of standard input, which also
comes when the process at its other end was killed, is the order to stop.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_PATIENCE = 5.0  # seconds


class Keeper:
    """One folder, and the one server that lives in it."""

    def __init__(self, folder: str, user: dict[str, Any]) -> None:
        self._folder = folder
        self._start: dict[str, Any] = {"cwd": "/", "stdin": subprocess.DEVNULL} | user
        self._server: subprocess.Popen[bytes] | None = None

    def do(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out one order and return its answer."""
        if "run" in order:
            done = subprocess.run(order["run"], capture_output=True, text=True, **self._start)
            return {"code": done.returncode, "errors": done.stderr[-1_000:]}
        if "start" in order:
            with open(Path(self._folder, "log"), "ab") as log:
                self._server = subprocess.Popen(
                    order["start"], stdout=log, stderr=log, **self._start
                )
        if "kill" in order and self._server is not None:
            children = _children(self._server.pid)
            self._server.kill()
            self._server.wait()
            _see_off(children)
        running = self._server is not None and self._server.poll() is None
        return {"pid": self._server.pid if running and self._server is not None else None}

    def stop(self) -> None:
        """Stop the server without ceremony and remove the folder."""
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGQUIT)
            try:
                self._server.wait(20)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _children(pid: int) -> list[int]:
    """Return the processes that one has started, as far as the system tells."""
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _runs(pid: int) -> bool:
    """Tell whether it is a server's process that could end by itself: neither gone nor stopped."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return False
    return name.endswith("(postgres") and rest.split()[0] not in ("Z", "T")


def _see_off(processes: list[int]) -> None:
    """Wait until the processes of a killed server have noticed and ended, and end those that can't.

    One that waits for a light lock of another one which has ended waits for ever, and no server starts.
    """
    deadline = time.monotonic() + _PATIENCE
    while any(map(_runs, processes)) and time.monotonic() < deadline:
        time.sleep(0.01)
    for pid in filter(_runs, processes):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def main(folder: str, user: str) -> None:
    """Obey until standard input ends."""
    keeper = Keeper(folder, json.loads(user))
    try:
        for line in sys.stdin:
            print(json.dumps(keeper.do(json.loads(line))), flush=True)
    finally:
        keeper.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
