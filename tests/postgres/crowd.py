"""Several client processes at once, and what they said was acknowledged."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PATIENCE = 300.0  # seconds without a word after which a client hangs


class Crowd:
    """Starts clients, hears them, ends them."""

    def __init__(self) -> None:
        self.acknowledged: defaultdict[str, list[list[Any]]] = defaultdict(list)
        self._said: queue.Queue[list[Any] | None] = queue.Queue()
        self._processes: list[subprocess.Popen[str]] = []
        self._listeners: list[threading.Thread] = []
        self._silent = 0

    def start(self, job: str, url: str, name: str, times: int = 1_000_000) -> None:
        """Start a client; see `clients.py`."""
        script = str(Path(__file__).with_name("clients.py"))
        environment = {k: v for k, v in os.environ.items() if k != "SAMS_SESSION"}
        client = subprocess.Popen(
            [sys.executable, script, job, url, name, str(times)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._processes.append(client)
        listener = threading.Thread(target=self._listen, args=(client,))
        listener.start()
        self._listeners.append(listener)

    def _listen(self, client: subprocess.Popen[str]) -> None:
        for line in client.stdout or ():
            self._said.put(json.loads(line))
        self._said.put(None)

    def hear(self, count: int, *words: str) -> None:
        """Wait until so many more of these words were said."""
        while count:
            said = self._said.get(timeout=PATIENCE)
            assert said is not None, "a client ended; its standard error says why"
            self.acknowledged[said[0]].append(said[1:])
            count -= said[0] in words

    def finish(self) -> None:
        """Have every client end after its turn, hear the rest, and check that none failed."""
        for client in self._processes:
            assert client.stdin is not None
            client.stdin.close()
        self.await_end()

    def await_end(self) -> None:
        """Hear the clients until all have ended by themselves."""
        ended = 0
        while ended < len(self._processes):
            said = self._said.get(timeout=PATIENCE)
            if said is None:
                ended += 1
            else:
                self.acknowledged[said[0]].append(said[1:])
        assert [client.wait() for client in self._processes] == [0] * ended

    def close(self) -> None:
        """End what is left."""
        for client in self._processes:
            client.kill()
            client.wait()
        for listener in self._listeners:
            listener.join()
        for client in self._processes:
            for pipe in (client.stdin, client.stdout):
                if pipe is not None:
                    pipe.close()

    def heard(self, word: str) -> list[tuple[Any, ...]]:
        """Return what was said with that word."""
        return [tuple(rest) for rest in self.acknowledged[word]]


def doubled(items: Iterable[Any]) -> list[Any]:
    """Return what occurs more than once."""
    seen: set[Any] = set()
    return [item for item in items if item in seen or seen.add(item)]
