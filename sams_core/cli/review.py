"""`sams review` and `sams pending`: the queue, one change as it is, and the decision on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from sams_core.cli.common import (
    check_digest,
    check_known,
    check_why,
    json_option,
    one_of,
    owner,
    say,
    say_json,
    store_options,
)
from sams_core.errors import NotFound

if TYPE_CHECKING:
    from sams_core.records import Change

Kind = Literal["write", "proposal"]


def find(changes: list[Change], given: str, kind: Kind | None) -> Change | None:
    """Return the open change that an id or a unique start of one names."""
    chosen = one_of([change.id for change in changes], given)
    for change in changes:
        if change.id == chosen:
            if kind is not None and change.kind != kind:
                raise NotFound("that change is a proposal: decide it with `sams review`")
            return change
    return None


def _verbs(group: str, kind: Kind | None, text: str) -> click.Group:
    @click.group(group, help=text)
    @store_options
    def verbs() -> None: ...

    @verbs.command("list")
    @click.argument("scope")
    @click.option("--limit", type=click.IntRange(1), default=50, help="At most so many lines.")
    @json_option
    @store_options
    def list_(scope: str, limit: int, as_json: bool) -> None:
        """List what awaits a decision in SCOPE."""
        from sams_core.cli.paste import command
        from sams_core.cli.show import queue_lines, short_ids, summary
        from sams_core.visible import visible_line

        with owner() as me:
            changes = me.changes(scope, kind)
            check_known(me.backend, scope)
        if as_json:
            say_json([summary(change) for change in changes])
            return
        if not changes:
            say(f"nothing awaits a decision in {visible_line(scope)}")
            return
        for number, line in enumerate(queue_lines(changes, limit)):
            say(line, bold=number == 0)
        shown = min(limit, len(changes))
        say(f"\n{shown} of {len(changes)} open. Look at one, for example:")
        first = min(changes, key=lambda change: (change.path, change.date)).id
        say("  " + command(group, "show", scope, short_ids([c.id for c in changes])[first]))

    @verbs.command()
    @click.argument("scope")
    @click.argument("change_id", metavar="ID")
    @json_option
    @store_options
    def show(scope: str, change_id: str, as_json: bool) -> None:
        """Show one change: where it comes from, what is odd about it, what it changes."""
        from sams_core.cli.paste import command
        from sams_core.cli.show import change_lines, replaces_trusted

        with owner() as me:
            change = find(me.changes(scope), change_id, kind)
            if change is None:
                raise NotFound("no open change has that id: `list` prints those there are")
            served = me.get(scope, change.path)
        words: tuple[str, ...] = (group, "accept", scope, change.id, "--digest", change.digest)
        if as_json:
            say_json(change.to_dict() | {"diff": change.diff()})
            return
        stale = change.base_version != (served.version if served else 0)
        for number, line in enumerate(change_lines(change, stale=stale)):
            say(line, bold=number == 0)
        say(f"\nto reject it:\n  {command(group, 'reject', scope, change.id)}")
        if stale:
            return
        if replaces_trusted(change):
            say("to accept exactly this over the trusted entry, write why you vouch for it:")
            words = (*words, "--endorse", "")
        elif change.tainted:
            say("to accept exactly this, labelled (--endorse WHY would serve it as first-party):")
        else:
            say("to accept exactly this:")
        say("  " + command(*words))

    @verbs.command()
    @click.argument("scope")
    @click.argument("change_id", metavar="ID")
    @click.option(
        "--digest", required=True, callback=check_digest, help="The digest `show` prints."
    )
    @click.option(
        "--endorse",
        metavar="WHY",
        callback=check_why,
        help="Vouch for a tainted change: serve it without a label, for this reason.",
    )
    @store_options
    def accept(scope: str, change_id: str, digest: str, endorse: str | None) -> None:
        """Serve exactly what `show` printed; anything else is refused with exit code 3."""
        from sams_core.cli.show import entry_line

        with owner() as me:
            change = find(me.changes(scope), change_id, kind)
            # An id that isn't open goes to the store as it is: a decision repeated answers alike.
            entry = me.accept(scope, change.id if change else change_id, digest, endorse=endorse)
        say(f"accepted: {entry_line(entry)}")

    @verbs.command()
    @click.argument("scope")
    @click.argument("change_ids", metavar="ID...", nargs=-1, required=True)
    @click.option("--note", default="", help="Why, for the record.")
    @store_options
    def reject(scope: str, change_ids: tuple[str, ...], note: str) -> None:
        """Turn changes down; their texts stay in the record of decisions only."""
        from sams_core.visible import visible_line

        with owner() as me:
            changes = me.changes(scope)  # once: reading a queue takes longer than deciding
            for given in change_ids:
                change = find(changes, given, kind)
                me.reject(scope, change.id if change else given, note)
                say(f"rejected: {visible_line(change.path if change else given)}")

    return verbs


review = _verbs("review", None, "Decide on everything that awaits you: writes and proposals.")
pending = _verbs(
    "pending", "write", "Decide on what agents wrote in their sessions, not on jobs' proposals."
)
