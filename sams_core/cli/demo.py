"""`sams demo`: watch a poisoned page fail to become trusted memory; no key, no network."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sams_core.demo.agent import AgentFactory


@click.command()
@click.option("--base", metavar="DIR", help="Keep the store in this folder, which must be empty.")
@click.option(
    "--url",
    metavar="URL",
    help="Play on Postgres: an address whose login may create a schema there, and roles. Schema and "
    "logins are removed again.",
)
@click.option(
    "--framework",
    metavar="NAME",
    help="Let an installed adapter's agents play, through their framework's real agent loop.",
)
@click.option("--plain", is_flag=True, help="No colours.")
@click.pass_context
def demo(
    context: click.Context, base: str | None, url: str | None, framework: str | None, plain: bool
) -> None:
    """Tell the story of a poisoned page, with real calls; a few seconds.

    Exit code 1 if any poison reached a second session.
    """
    from sams_core.demo.agent import ScriptedAgent
    from sams_core.demo.story import run, run_in_database

    agent: AgentFactory = ScriptedAgent if framework is None else _agent_of(framework)

    colour = not plain and "NO_COLOR" not in os.environ and sys.stdout.isatty()
    # Given before the verb too; SAMS_BASE and SAMS_URL name no place for a demo.
    base, url = base or context.meta.get("sams.base"), url or context.meta.get("sams.url")
    if url is not None:
        if base is not None or url.partition(":")[0] not in ("postgresql", "postgres"):
            raise click.UsageError("the demo plays in --base DIR or at --url postgresql://...")
        context.exit(run_in_database(click.echo, url, colour=colour, agent=agent))
    if base is not None:
        if os.path.isdir(base) and os.listdir(base):
            raise click.UsageError("the demo needs an empty folder, or one that doesn't exist yet")
        context.exit(run(click.echo, base, colour=colour, agent=agent))
    with tempfile.TemporaryDirectory(prefix="sams-demo-") as folder:
        context.exit(run(click.echo, folder, colour=colour, agent=agent))


def _agent_of(word: str) -> AgentFactory:
    """Return the demo's agent of the adapter with this word; found by entry point."""
    found = {each.name: each.value for each in entry_points(group="sams.adapters")}
    if word not in found:
        raise click.UsageError(f"--framework: one of {', '.join(sorted(found)) or 'none'}")
    try:
        module = importlib.import_module(f"{found[word]}.demo")
    except ModuleNotFoundError as error:
        raise click.UsageError(
            f"{error.name} isn't installed: pip install 'sams-adapters[{word}]'"
        ) from None
    agent: AgentFactory = module.agent
    return agent
