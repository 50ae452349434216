"""A restart: open a session that another process marked, and say what is known of it at once.

Run as `python -m sams_core.demo.second_process CONTAINER SESSION AGENT`, with the store's address in
SAMS_URL, which other users of the machine can't see; prints ASCII JSON.
"""

from __future__ import annotations

import json
import os
import sys

from sams_core import AgentSession, Owner, open_backend
from sams_core.errors import SamsError


def main(url: str, container: str, session_id: str, agent: str) -> None:
    """Open the session declared as clean as can be, and try to act as the owner beside it."""
    backend = open_backend(url)
    session = AgentSession(
        backend,
        session_id=session_id,
        agent=agent,
        assigned=container,
        user="insider",
        observed="by-hand",
    )
    found: dict[str, object] = {
        "tainted": session.tainted,
        "sources": [source.name for source in session.sources],
    }
    try:
        with session.active():
            Owner(backend, "somebody").changes(container)
        found["owner"] = "not refused"
    except SamsError as error:
        found["owner"] = error.rule
    backend.close()
    sys.stdout.write(json.dumps(found, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main(os.environ["SAMS_URL"], *sys.argv[1:4])
