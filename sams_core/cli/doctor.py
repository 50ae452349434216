"""`sams doctor`: say how a store is, and who could write or see what; it changes nothing."""

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
    owner_name,
    say,
    say_json,
    store,
    store_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sams_core import SQLiteBackend
    from sams_core.backend import Backend
    from sams_core.backends.finding import Finding

_COLOURS = {"ok": "green", "note": "cyan", "warn": "yellow", "bad": "red"}


@click.command()
@click.argument("scopes", metavar="[SCOPE]...", nargs=-1)
@click.option(
    "--accept-ledger-loss",
    "lost",
    metavar="SCOPE",
    help="Let new sessions of SCOPE start unmarked although an earlier ledger is gone; your name "
    "(--name) and the date are kept.",
)
@click.option(
    "--restored", is_flag=True, help="After restoring a backup: look for what it could have lost."
)
@json_option
@store_options
@click.pass_context
def doctor(
    context: click.Context,
    scopes: tuple[str, ...],
    lost: str | None,
    restored: bool,
    as_json: bool,
) -> None:
    """Examine a store, or only SCOPE: org, project:<id>, tenant:<id>.

    It looks from outside and changes nothing. What agents' processes stored is repeated, not
    vouched for. Of a database (--url) the administrator's login sees most, and what a login can't
    see is said. Exit code 1 if anything is bad.
    """
    from sams_core import SQLiteBackend
    from sams_core.ambient import refuse_beside_agent

    refuse_beside_agent()  # it reads all containers' marks, which are for the owner
    if lost is not None and scopes:
        raise click.UsageError("--accept-ledger-loss names its scope itself: give no other")
    with store() as backend:
        if lost is not None:
            if not isinstance(backend, SQLiteBackend):
                raise click.UsageError("--accept-ledger-loss is for SQLite stores: give --base DIR")
            _accept(backend, lost, as_json)
            return
        findings = _examine(backend, scopes, restored)
        where = {"base": location()[1]} if isinstance(backend, SQLiteBackend) else _address()
    counts = Counter(finding.level for finding in findings)
    levels = {level: counts[level] for level in ("bad", "warn", "note", "ok")}
    if as_json:
        found = [finding.to_dict() for finding in findings]
        say_json({**where, "counts": levels, "findings": found})
    else:
        _print(findings)
        say("\n" + ", ".join(f"{count} {level}" for level, count in levels.items()))
    if counts["bad"]:
        context.exit(REFUSED)


def _examine(backend: Backend, scopes: Sequence[str], restored: bool) -> list[Finding]:
    from sams_core import SQLiteBackend
    from sams_core.scopes import check_container

    for scope in scopes:
        check_known(backend, check_container(scope))
    if isinstance(backend, SQLiteBackend):
        from sams_core.backends.sqlite.checkup import examine

        return examine(backend.folders, backend.limits, scopes, after_restore=restored)
    if not _is_postgres():
        raise click.UsageError("doctor examines SQLite and Postgres stores")
    from sams_core.backends.postgres import checkup

    return checkup.examine(location()[1], backend.limits, scopes, after_restore=restored)


def _is_postgres() -> bool:
    return location()[1].partition(":")[0] in ("postgresql", "postgres")


def _address() -> dict[str, str]:
    """Return host, port and database alone: an address may hold a password."""
    from sams_core.backends.postgres.connect import Secret

    return {"url": Secret(location()[1]).public()}


def _accept(backend: SQLiteBackend, scope: str, as_json: bool) -> None:
    from sams_core import Owner
    from sams_core.scopes import check_container
    from sams_core.visible import visible_line

    check_known(backend, check_container(scope))
    name = Owner(backend, owner_name()).name  # checked as an owner's name is
    backend.accept_ledger_loss(scope, name)
    if as_json:
        say_json({"base": location()[1], "accepted_ledger_loss": scope, "by": name})
        return
    say(f"accepted for {visible_line(scope)}: the present ledger counts as whole from now on")
    say(f"Your name, {visible_line(name)}, and the date are kept; doctor shows them.")
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
