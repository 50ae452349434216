"""An owner may keep the curated database elsewhere, behind a link: nothing is remembered by the link."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from sams_core import AgentSession, Owner, SQLiteBackend

ACME = "tenant:acme"


def test_what_is_retired_behind_a_link_leaves_the_block(
    tmp_path: Path, open_clean: Callable[..., AgentSession]
) -> None:
    first = SQLiteBackend(tmp_path / "store")
    Owner(first, "olga").write(ACME, "a", "a text of old", "d")
    first.close()
    (file,) = (tmp_path / "store").glob("*/curated/curated.db")
    elsewhere = file.rename(tmp_path / "elsewhere.db")
    file.symlink_to(elsewhere)
    for path in (file, elsewhere):  # long ago, so that a time stamp counts
        os.utime(path, (1e9, 1e9), follow_symlinks=False)
    agents, owners = SQLiteBackend(tmp_path / "store"), SQLiteBackend(tmp_path / "store")
    session = open_clean(agents, "s1")
    assert "a text of old" in session.context_block()
    Owner(owners, "olga").retire(ACME, "a")
    assert "a text of old" not in session.context_block()
    agents.close()
    owners.close()
