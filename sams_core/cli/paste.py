"""Commands to paste: this program with this store, quoted for a shell, from any folder."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from urllib.parse import urlsplit

import click

from sams_core.cli.common import location


def quoted(word: str) -> str:
    """Quote one word for a shell; what a terminal would act upon is written as `$'\\x1b'`."""
    if word.isprintable():
        return shlex.quote(word)
    body = ""
    for char in word:
        if char in "\\'":
            body += "\\" + char
        elif char.isprintable():
            body += char
        else:
            body += "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
    return f"$'{body}'"


def program() -> list[str]:
    """Return the words that start this program again."""
    started = sys.argv[0]
    if os.path.basename(started) == "sams" and os.path.isfile(started):
        on_path = shutil.which("sams")
        if on_path and os.path.samefile(on_path, started):
            return ["sams"]
        return [os.path.abspath(started)]
    return [sys.executable, "-m", "sams_core.cli"]


def command(*words: str) -> str:
    """Return the shell command that runs `sams words...` on the store at hand.

    A folder or file is named absolutely. An address that holds a password is not repeated: the command then
    reads it from SAMS_URL.
    """
    kind, value, from_option = location()
    where: list[str] = []
    if kind == "base":
        where = ["--base", quoted(os.path.abspath(value))]
    elif from_option:
        secret = urlsplit(value).password is not None or "password" in value.lower()
        where = ["--url", '"$SAMS_URL"' if secret else quoted(value)]
    config = click.get_current_context().meta.get("sams.config")
    if config:
        where += ["--config", quoted(os.path.abspath(config))]
    name = click.get_current_context().meta.get("sams.name")
    who = ["--name", quoted(name)] if name else []
    return " ".join([*map(quoted, program()), *where, *who, *map(quoted, words)])
