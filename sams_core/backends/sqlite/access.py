"""Who can write which folder of a store, by owners, groups and modes: facts for `checkup`."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sams_core.backends.sqlite.folders import AGENT_STORES, CURATED, POLICY_FILE, open_folder

_LOOKED_AT = 250_000  # names in a folder


@dataclass(frozen=True)
class Agents:
    """Who owns files in the agents' folders of a store, and whom those folders are shared with."""

    users: frozenset[int]
    groups: frozenset[int]
    unseen: int  # folders that could not be listed


def agents(base: Path) -> Agents:
    """Return whoever has left files in any agents' folder below the base."""
    users: set[int] = set()
    groups: set[int] = set()
    unseen = 0
    for container in os.scandir(base):
        for store in AGENT_STORES:
            folder = Path(container.path) / store
            try:
                here = os.lstat(folder)
                for entry in files(folder):
                    users.add(entry.stat(follow_symlinks=False).st_uid)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                unseen += 1
                continue
            if here.st_mode & stat.S_IWGRP:
                groups.add(here.st_gid)
    return Agents(frozenset(users), frozenset(groups), unseen)


def there(place: Path) -> bool:
    """Tell whether something is there, be it a broken link; raises OSError if that can't be told."""
    try:
        os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield what lies in a folder that somebody else may have replaced by a link; raises OSError."""
    opened = open_folder(folder)
    try:
        with os.scandir(opened) as entries:
            yield from islice(entries, _LOOKED_AT)
    finally:
        os.close(opened)


def user(uid: int) -> str:
    """Name a user."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def group(gid: int) -> str:
    """Name a group."""
    try:
        return f"{grp.getgrgid(gid).gr_name} (gid {gid})"
    except KeyError:
        return f"gid {gid}"


def shape(folder: Path) -> str:
    """Describe a folder: name, mode, user, group."""
    here = os.lstat(folder)
    owner = f"{user(here.st_uid)}, {group(here.st_gid)}"
    return f"{folder.name}/ {stat.S_IMODE(here.st_mode):04o} {owner}"


def _others(here: os.stat_result) -> str:
    """Name who but its owner can write a file or folder; an access list counts as its group."""
    who = [f"group {group(here.st_gid)}"] if here.st_mode & stat.S_IWGRP else []
    who += ["everybody"] if here.st_mode & stat.S_IWOTH else []
    return " and ".join(who)


def above(base: Path, agents: Agents) -> Iterator[tuple[bool, str]]:
    """Yield folders above the base that others can write, and whether agents are among those.

    Whoever can rename a folder on the way can put another store in its place.
    """
    owner = os.stat(base).st_uid
    for folder in base.parents:
        here = os.stat(folder)
        foreign = here.st_uid not in (0, owner)
        others = "" if here.st_mode & stat.S_ISVTX else _others(here)
        if not others and not foreign:
            continue
        by_agents = (foreign and here.st_uid in agents.users) or (
            bool(others) and (bool(here.st_mode & stat.S_IWOTH) or here.st_gid in agents.groups)
        )
        who = " and ".join(filter(None, [user(here.st_uid) if foreign else "", others]))
        yield by_agents, f"{who} can put another folder in the place of the store, from {folder}"


def around(container: Path, agents: Agents) -> tuple[int, list[str]]:
    """Return the owner of a container's `curated/`, and why it isn't the owner's alone."""
    places = {"the base": container.parent, "the container's folder": container}
    home = container / CURATED
    if there(home):
        places["curated/"] = home
    if there(container.parent / POLICY_FILE):
        places = {POLICY_FILE: container.parent / POLICY_FILE, **places}
    looked = {name: os.lstat(place) for name, place in places.items()}
    owner = list(looked.values())[-1].st_uid
    reasons = []
    for name, here in looked.items():
        if _others(here):
            reasons.append(f"{name} is writable for {_others(here)}")
        if here.st_uid not in (owner, 0):
            reasons.append(f"{name} belongs to {user(here.st_uid)}")
    inside = [entry.stat(follow_symlinks=False) for entry in files(home)] if there(home) else []
    loose = sum(bool(_others(here)) or here.st_uid not in (owner, 0) for here in inside)
    if loose:
        reasons.append(f"files in curated/ that others can write: {loose}")
    if owner in agents.users:
        reasons.append(f"one user, {user(owner)}, writes curated/ and the agents' files")
    elif 0 in agents.users:
        reasons.append("an agent's process runs as root")
    elif not agents.users and not _open_to_others(container):
        reasons.append(f"the agents' folders are open to one user, {user(owner)}, the owner")
    return owner, reasons


def _open_to_others(container: Path) -> bool:
    owner = os.lstat(container).st_uid
    stores = [container / store for store in AGENT_STORES]
    found = [os.lstat(folder) for folder in stores if there(folder)]
    return any(here.st_mode & 0o022 or here.st_uid != owner for here in found)


def shared_and_readable(container: Path) -> bool:
    """Tell whether agents have users of their own here and `curated/` can be read by still others."""
    way = (container, container / CURATED)
    closed = any(not there(place) or not os.lstat(place).st_mode & 0o001 for place in way)
    return _open_to_others(container) and not closed
