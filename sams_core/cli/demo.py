"""`sams demo`: watch a poisoned page fail to become trusted memory; no key, no network."""

from __future__ import annotations

import os
import sys
import tempfile

import click


@click.command()
@click.option("--base", metavar="DIR", help="Keep the store in this folder, which must be empty.")
@click.option("--plain", is_flag=True, help="No colours.")
@click.pass_context
def demo(context: click.Context, base: str | None, plain: bool) -> None:
    """Tell the story of a poisoned page, with real calls; a few seconds.

    Exit code 1 if any poison reached a second session.
    """
    from sams_core.demo.story import run

    colour = not plain and "NO_COLOR" not in os.environ and sys.stdout.isatty()
    base = base or context.meta.get("sams.base")  # given before the verb; SAMS_BASE is no demo's
    if base is not None:
        if os.path.isdir(base) and os.listdir(base):
            raise click.UsageError("the demo needs an empty folder, or one that doesn't exist yet")
        context.exit(run(click.echo, base, colour=colour))
    with tempfile.TemporaryDirectory(prefix="sams-demo-") as folder:
        context.exit(run(click.echo, folder, colour=colour))
