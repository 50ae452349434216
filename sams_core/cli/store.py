"""`sams init`: make a container's folders, so that owner and agents each write only their own."""

from __future__ import annotations

import click

from sams_core.cli.common import location, say, store, store_options


@click.command()
@click.argument("scope")
@click.option(
    "--agents-group", metavar="G", help="The Unix group of the agents' processes; it must exist."
)
@store_options
def init(scope: str, agents_group: str | None) -> None:
    """Create the store of SCOPE: org, project:<id> or tenant:<id>."""
    from sams_core import SQLiteBackend
    from sams_core.ambient import refuse_beside_agent
    from sams_core.visible import visible_line

    refuse_beside_agent()
    with store(create=True) as backend:
        if not isinstance(backend, SQLiteBackend):
            raise click.UsageError(
                "init makes SQLite stores (--base DIR); a database is set up by `sams admin`"
            )
        backend.init_scope(scope, agents_group)
    _, value, _ = location()
    say(f"ready: {visible_line(scope)} in {visible_line(value)}")
    if agents_group is None:
        say(
            "Agents that run as you can write your store: the review is then a convention. "
            "--agents-group separates them."
        )
