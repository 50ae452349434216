"""`sams admin`: install the schema in a Postgres database, and say which login may be what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sams_core.cli.common import REFUSED, json_option, location, say, say_json, store_options

if TYPE_CHECKING:
    from sams_core.backends.postgres.admin import Grant

_ROLE = click.Choice(["agent", "dreamer", "owner"])


@click.group()
def admin() -> None:
    """Set up a Postgres database: --url or SAMS_URL names it, with the administrator's login.

    An address in the environment isn't seen by the machine's other users, one in an option is.
    """


def _postgres() -> tuple[Any, str]:
    """Return the module of the backend and the chosen address."""
    from sams_core.ambient import refuse_beside_agent

    refuse_beside_agent()
    kind, value, _ = location()
    if kind != "url" or value.partition(":")[0] not in ("postgresql", "postgres"):
        raise click.UsageError("give --url postgresql://... (SAMS_URL)")
    from sams_core.backends import postgres

    return postgres, value


@admin.command()
@click.option("--print", "as_text", is_flag=True, help="Print the schema as SQL; change nothing.")
@store_options
def install(as_text: bool) -> None:
    """Create or upgrade the schema; safe to repeat, and from many hosts at once.

    The login becomes the owner of the tables. It needs no superuser's rights and must be no agent's.
    """
    if as_text:
        from sams_core.backends.postgres import schema_sql

        say(schema_sql())
        return
    postgres, url = _postgres()
    say(f"ready: schema version {postgres.install_schema(url)}")


@admin.command()
@click.argument("login")
@click.argument("role", type=_ROLE)
@click.argument("scope")
@click.option(
    "--clean-sessions",
    is_flag=True,
    help="Vouch for the host that uses the login: its sessions begin unmarked.",
)
@store_options
def grant(login: str, role: Any, scope: str, clean_sessions: bool) -> None:
    """Let LOGIN be agent, dreamer or owner of SCOPE; the login must exist."""
    from sams_core.visible import visible_line

    postgres, url = _postgres()
    postgres.grant(url, login, role, scope, clean_sessions)
    say(f"granted: {visible_line(login)} is {role} of {visible_line(scope)}")
    if role != "owner" and not clean_sessions:
        say("What it writes is tainted from the start; --clean-sessions vouches for its host.")


@admin.command()
@click.argument("login")
@click.argument("role", type=_ROLE)
@click.argument("scope")
@store_options
@click.pass_context
def revoke(context: click.Context, login: str, role: Any, scope: str) -> None:
    """Take a grant back; marks stay.

    Open connections lose it at once, but a transaction that is open could still commit what it wrote: end
    them, too.
    """
    from sams_core.visible import visible_line

    postgres, url = _postgres()
    if postgres.revoke(url, login, role, scope):
        say(f"revoked: {visible_line(login)} is no {role} of {visible_line(scope)} any more")
    else:
        say("refused (not-found): there is no such grant", err=True)
        context.exit(REFUSED)


@admin.command("grants")
@json_option
@store_options
def list_grants(as_json: bool) -> None:
    """List who may be what, and where."""
    from sams_core.cli.layout import table
    from sams_core.visible import visible_line

    postgres, url = _postgres()
    found: list[Grant] = postgres.grants(url)
    if as_json:
        say_json([vars(one) for one in found])
        return
    rows: list[tuple[str, ...]] = [
        (
            visible_line(one.login),
            one.role,
            visible_line(one.container),
            "clean sessions" if one.clean_sessions else "",
        )
        for one in found
    ]
    for line in table(rows):
        say(line)
    if not found:
        say("nobody has been granted anything", err=True)
