"""A restart: open a session that another process marked, and say what is known of it at once.

Run as `python -m sams_core.demo.second_process BASE CONTAINER SESSION AGENT`; prints ASCII JSON.
"""

from __future__ import annotations

import json
import sys

from sams_core import AgentSession, Owner, SQLiteBackend
from sams_core.errors import SamsError


def main(base: str, container: str, session_id: str, agent: str) -> None:
    """Open the session declared as clean as can be, and try to act as the owner beside it."""
    backend = SQLiteBackend(base)
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
    main(*sys.argv[1:5])
