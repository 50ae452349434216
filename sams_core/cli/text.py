"""`sams redact` and `sams rules test`: the text pipeline by itself, for files and pipes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from sams_core.cli.common import REFUSED, json_option, printing, say, say_json
from sams_core.errors import InvalidArguments

if TYPE_CHECKING:
    from sams_core.redaction import Rule

rules_option = click.option(
    "--rules",
    "rules_file",
    type=click.Path(dir_okay=False, exists=True),
    metavar="FILE",
    help="A TOML file with rules of your own ([[redaction.rules]]).",
)


def _own_rules(path: str | None) -> tuple[Rule, ...]:
    if path is None:
        return ()
    from sams_core.redaction import RuleError, load_rules

    try:
        return load_rules(path)
    except RuleError as error:
        raise InvalidArguments(str(error), rule="rules") from None
    except (ValueError, RecursionError):
        raise InvalidArguments("the rules file is not valid TOML", rule="rules") from None


@click.command()
@click.argument("files", nargs=-1, type=click.Path(dir_okay=False, exists=True, allow_dash=True))
@click.option("--jsonl", is_flag=True, help="JSON Lines: redact strings, keep the structure.")
@click.option(
    "--personal",
    multiple=True,
    metavar="KIND",
    help="Cut this kind of personal data too: email, card, iban or phone; repeatable.",
)
@click.option(
    "--scope",
    metavar="SCOPE",
    help="Cut what the text policy in --rules FILE cuts from texts of SCOPE (or of `run`).",
)
@rules_option
def redact(
    files: tuple[str, ...],
    jsonl: bool,
    personal: tuple[str, ...],
    scope: str | None,
    rules_file: str | None,
) -> None:
    """Cut the secrets out of FILES (or standard input), to standard output.

    What isn't cut stays byte for byte; on a terminal it is shown as visible text. Which kinds
    were cut is said on standard error.
    """
    from sams_core import redaction
    from sams_core.cli.jsonl import redact_lines
    from sams_core.redaction.policy import check_scope

    unknown = sorted(set(personal) - set(redaction.PERSONAL))
    if unknown:
        raise click.BadParameter(f"kinds are {', '.join(sorted(redaction.PERSONAL))}")
    own = _own_rules(rules_file)
    if scope is not None:
        if rules_file is None:
            raise click.UsageError("--scope needs --rules FILE, a text policy")
        chosen = redaction.load_policy(rules_file).at(check_scope(scope))
        personal = (*personal, *chosen.personal)
    kinds: set[str] = set()

    def cut(text: str) -> str:
        found = redaction.redact(text, personal=personal, rules=own)
        kinds.update(found.kinds)
        return found.text

    if sys.stdout is None or (sys.stdin is None and "-" in (files or "-")):
        raise click.UsageError("standard input or output is closed")
    for name in files or ("-",):
        with click.open_file(name, "rb") as stream:
            # Bytes that are no UTF-8 travel as lone surrogates and come out as they were.
            text = stream.read().decode("utf-8", "surrogateescape")
        _emit(redact_lines(text, cut) if jsonl else cut(text))
    say(f"cut: {', '.join(sorted(kinds)) or 'nothing'}", err=True)


def _emit(text: str) -> None:
    if sys.stdout.isatty():
        from sams_core.visible import visible

        with printing():
            click.echo(visible(text), nl=False)
    else:
        with printing():
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
            sys.stdout.buffer.flush()


@click.group()
def rules() -> None:
    """The redaction rules."""


@rules.command("test")
@rules_option
@json_option
@click.pass_context
def rules_test(context: click.Context, rules_file: str | None, as_json: bool) -> None:
    """Run the examples that the rules carry: what must be cut, and what must stay.

    With --rules, those of the file instead of the shipped ones.
    """
    from sams_core.redaction import check_rules
    from sams_core.redaction.rules import shipped
    from sams_core.visible import visible_line

    chosen = _own_rules(rules_file) if rules_file else shipped()
    failures = check_rules(chosen if rules_file else None)
    examples = sum(len(rule.catch) + len(rule.keep) for rule in chosen)
    if as_json:
        say_json({"rules": len(chosen), "examples": examples, "failures": failures})
    else:
        for line in failures:
            say(visible_line(line))
        where = f" in {visible_line(os.path.basename(rules_file))}" if rules_file else ""
        verdict = f"{len(failures)} failed" if failures else "all as they say"
        say(f"{len(chosen)} rules{where}, {examples} examples: {verdict}")
    if failures or not examples:  # nothing tested proves nothing
        context.exit(REFUSED)
