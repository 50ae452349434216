"""The command `sams`: the owner's terminal. Texts from the store reach it as visible text only."""

from __future__ import annotations

import click

from sams_core.cli.admin import admin
from sams_core.cli.common import Guarded, store_options
from sams_core.cli.conformance import conformance
from sams_core.cli.demo import demo
from sams_core.cli.doctor import doctor
from sams_core.cli.memory import endorse, history, restore, retire
from sams_core.cli.review import pending, review
from sams_core.cli.store import init
from sams_core.cli.text import redact, rules

__all__ = ["main"]


@click.group(cls=Guarded, context_settings={"help_option_names": ["-h", "--help"]})
@store_options
@click.version_option(package_name="sams-adapters", prog_name="sams")
def main() -> None:
    """Decide what becomes an agent's trusted memory.

    Exit codes: 0 done, 1 refused, 2 usage, 3 changed since review.
    """


for _command in (
    init,
    review,
    pending,
    history,
    restore,
    endorse,
    retire,
    admin,
    demo,
    doctor,
    conformance,
    redact,
    rules,
):
    main.add_command(_command)
