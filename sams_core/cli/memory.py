"""`sams history`, `restore`, `endorse`, `retire`: what is served, what was, and the way back."""

from __future__ import annotations

import click

from sams_core.cli.common import (
    check_digest,
    check_why,
    json_option,
    owner,
    say,
    say_json,
    store_options,
)
from sams_core.errors import NotFound


@click.command()
@click.argument("scope")
@click.argument("path")
@click.option("--text", is_flag=True, help="Print each version's content too.")
@json_option
@store_options
def history(scope: str, path: str, text: bool, as_json: bool) -> None:
    """Print every version of PATH, oldest first, with who decided it and its digest."""
    from sams_core.cli.paste import command
    from sams_core.cli.show import entry_lines

    with owner() as me:
        versions = me.history(scope, path)
    if not versions:
        raise NotFound("no version of that path was ever served")
    if as_json:
        say_json([entry.to_dict() for entry in versions])
        return
    for entry in versions:
        for number, line in enumerate(entry_lines(entry, text=text)):
            say(line, bold=number == 0)
    older = [entry for entry in versions if entry.status != "active"]
    if older:
        say("\nto serve an older version again, for example:")
        dash = ("--",) if path.startswith("-") else ()
        say("  " + command("restore", *dash, scope, path, older[-1].digest))


@click.command()
@click.argument("scope")
@click.argument("path")
@click.argument("digest", callback=check_digest)
@store_options
def restore(scope: str, path: str, digest: str) -> None:
    """Serve an older version of PATH again, with the label it had."""
    from sams_core.cli.show import entry_line

    with owner() as me:
        entry = me.restore(scope, path, digest)
    say(f"restored: {entry_line(entry)}")


@click.command()
@click.argument("scope")
@click.argument("path")
@click.argument("digest", callback=check_digest)
@click.option("--why", required=True, callback=check_why, help="Why you vouch for it.")
@store_options
def endorse(scope: str, path: str, digest: str, why: str) -> None:
    """Vouch for the labelled version of PATH: serve the same text as first-party."""
    from sams_core.cli.show import entry_line

    with owner() as me:
        entry = me.endorse(scope, path, digest, why)
    say(f"endorsed: {entry_line(entry)}")


@click.command()
@click.argument("scope")
@click.argument("path")
@store_options
def retire(scope: str, path: str) -> None:
    """Stop serving PATH; its history stays and `restore` brings it back."""
    from sams_core.visible import visible_line

    with owner() as me:
        me.retire(scope, path)
    say(f"retired: {visible_line(path)}")
