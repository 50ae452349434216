"""`sams conformance`: run the kit against our own SQLite store or a stranger's."""

from __future__ import annotations

import importlib.util
import os
import sys

import click

from sams_core.cli.common import REFUSED, json_option, say, say_json

OURS = ("memory", "sqlite", "postgres")


@click.command()
@click.option(
    "--backend",
    metavar="NAME",
    help="memory, sqlite (the default), postgres, or MODULE:FACTORY for stores of your own.",
)
@click.option(
    "--adapter",
    metavar="NAME",
    help="Prove A1 to A25 on an installed adapter of that name instead, "
    "or on MODULE:FACTORY, a driver of your own.",
)
@click.option(
    "--id", "ids", multiple=True, metavar="ID", help="Only this id, such as C7; repeatable."
)
@json_option
@click.pass_context
def conformance(
    context: click.Context,
    backend: str | None,
    adapter: str | None,
    ids: tuple[str, ...],
    as_json: bool,
) -> None:
    """Prove the rules C1 to C12 on a storage backend, or A1 to A25 on an adapter.

    Exit code 0 only if every id that was asked for had a test that ran and passed; ids of which nothing
    applies to a framework, or to what is installed, are printed as `none` and left out.
    """
    from sams_core.ambient import refuse_beside_agent

    if backend and adapter:
        raise click.UsageError("--backend or --adapter, one of them")
    try:
        import sams_conformance
    except ModuleNotFoundError as error:
        if error.name != "sams_conformance":
            raise
        raise click.UsageError(
            "the kit isn't installed: pip install 'sams-adapters[conformance]'"
        ) from None
    if backend == "postgres" and importlib.util.find_spec("psycopg") is None:
        raise click.UsageError(
            "the driver isn't installed: pip install 'sams-adapters[postgres,postgres-test]'"
        )
    refuse_beside_agent()  # the kit acts as owners too: better said than failed in each test
    if os.getcwd() not in sys.path:  # a factory in the working folder; last, so it shadows nothing
        sys.path.append(os.getcwd())
    if sys.stderr.isatty():
        say("running; this takes about half a minute", err=True)
    backend = backend or "sqlite"
    if backend in OURS:
        backend = f"sams_conformance.factories:{backend}"
    try:
        if adapter:
            report = sams_conformance.run_adapter(adapter, ids or None)
        else:
            report = sams_conformance.run(backend, ids or None)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        say_json(report.to_dict())
    else:
        say(report.to_text())
    if not report.passed:
        context.exit(REFUSED)
