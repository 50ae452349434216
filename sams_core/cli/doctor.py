"""`sams doctor`: say how a store is, and who could write what; it changes nothing."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import click

from sams_core.cli.common import (
    REFUSED,
    check_known,
    json_option,
    location,
    say,
    say_json,
    store,
    store_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sams_core import SQLiteBackend
    from sams_core.backends.sqlite.checkup import Finding

_COLOURS = {"ok": "green", "note": "cyan", "warn": "yellow", "bad": "red"}


@click.command()
@click.argument("scopes", metavar="[SCOPE]...", nargs=-1)
@click.option(
    "--accept-ledger-loss",
    "lost",
    metavar="SCOPE",
    help="Let new sessions of SCOPE start unmarked although an earlier ledger is gone.",
)
@json_option
@store_options
@click.pass_context
def doctor(
    context: click.Context, scopes: tuple[str, ...], lost: str | None, as_json: bool
) -> None:
    """Examine a store, or only SCOPE: org, project:<id>, tenant:<id>.

    It looks from outside and changes nothing. What agents' processes stored is repeated, not
    vouched for. Exit code 1 if anything is bad.
    """
    from sams_core import SQLiteBackend
    from sams_core.ambient import refuse_beside_agent

    refuse_beside_agent()  # it reads all containers' marks, which are for the owner
    if lost is not None and scopes:
        raise click.UsageError("--accept-ledger-loss names its scope itself: give no other")
    with store() as backend:
        if not isinstance(backend, SQLiteBackend):
            raise click.UsageError("doctor examines SQLite stores: give --base DIR")
        if lost is not None:
            _accept(backend, lost, as_json)
            return
        findings = _examine(backend, scopes)
    counts = Counter(finding.level for finding in findings)
    levels = {level: counts[level] for level in ("bad", "warn", "note", "ok")}
    if as_json:
        found = [finding.to_dict() for finding in findings]
        say_json({"base": location()[1], "counts": levels, "findings": found})
    else:
        _print(findings)
        say("\n" + ", ".join(f"{count} {level}" for level, count in levels.items()))
    if counts["bad"]:
        context.exit(REFUSED)


def _examine(backend: SQLiteBackend, scopes: Sequence[str]) -> list[Finding]:
    from sams_core.backends.sqlite.checkup import examine
    from sams_core.scopes import check_container

    for scope in scopes:
        check_known(backend, check_container(scope))
    return examine(backend.folders, backend.limits, scopes)


def _accept(backend: SQLiteBackend, scope: str, as_json: bool) -> None:
    from sams_core.scopes import check_container
    from sams_core.visible import visible_line

    check_known(backend, check_container(scope))
    backend.accept_ledger_loss(scope)
    if as_json:
        say_json({"base": location()[1], "accepted_ledger_loss": scope})
        return
    say(f"accepted for {visible_line(scope)}: the present ledger counts as whole from now on")
    say("Sessions that are new to it start unmarked again, unless memory of theirs exists already.")
    say("Sessions that it has marked stay marked. If it is lost too, this has to be said again.")


def _print(findings: Sequence[Finding]) -> None:
    """Print findings by scope, the gravest first."""
    from sams_core.cli.layout import width, wrapped
    from sams_core.visible import visible_line

    order = list(reversed(_COLOURS))
    scope: str | None = None
    by_scope = {finding.scope for finding in findings}
    for scope in sorted(by_scope, key=lambda name: name or ""):
        say(visible_line(scope) if scope else "the store", bold=True)
        mine = [finding for finding in findings if finding.scope == scope]
        for finding in sorted(mine, key=lambda found: order.index(found.level)):
            head = f"{finding.level:<5} {visible_line(finding.what):<11} "
            first, *more = wrapped(f"  {head}{visible_line(finding.detail)}", width())
            say("  " + _coloured(finding.level) + first[2 + len(finding.level) :])
            for line in more:
                say(line)


def _coloured(level: str) -> str:
    """Colour a level; click leaves colours out where the output is no terminal."""
    if "NO_COLOR" in os.environ:
        return level
    return click.style(level, fg=_COLOURS[level], bold=level == "bad")
