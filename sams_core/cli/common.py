"""What every verb shares: where the store is, who the owner is, output, exit codes."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sams_core.errors import InvalidArguments, NotFound, ReviewMismatch, SamsError, VersionConflict

if TYPE_CHECKING:
    from sams_core import Owner
    from sams_core.backend import Backend

REFUSED, USAGE, CHANGED = 1, 2, 3
DEFAULT_BASE = ".sams"
F = TypeVar("F", bound=Callable[..., Any])


def _keep(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    if not value.strip():
        raise click.BadParameter("must not be empty", context, option)
    context.meta[f"sams.{option.name}"] = value  # shared by all levels; the innermost is read last


def store_options(command: F) -> F:
    """Add `--base`, `--url` and `--name`, which stand before or after a verb alike."""
    for name, metavar, text in (
        ("--name", "NAME", "The owner's name in the history [SAMS_OWNER; your user name]."),
        ("--url", "URL", "The store's address [SAMS_URL]."),
        ("--config", "FILE", "A text policy beside the store's own sams.toml [SAMS_CONFIG]."),
        ("--base", "DIR", f"The store's folder [SAMS_BASE; ./{DEFAULT_BASE}]."),
    ):
        command = click.option(
            name, metavar=metavar, help=text, callback=_keep, expose_value=False
        )(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="Print ASCII-only JSON.")


def location() -> tuple[str, str, bool]:
    """Return (`base` or `url`, its value, whether an option gave it); both is a usage error."""
    meta = click.get_current_context().meta
    for given, from_option in (
        ({k: meta.get(f"sams.{k}") for k in ("base", "url")}, True),
        ({"base": os.environ.get("SAMS_BASE"), "url": os.environ.get("SAMS_URL")}, False),
    ):
        found = [(kind, value) for kind, value in given.items() if value]
        if len(found) == 2:
            raise click.UsageError("a store has --base (SAMS_BASE) or --url (SAMS_URL), not both")
        if found:
            return found[0][0], found[0][1], from_option
    return "base", DEFAULT_BASE, False


def owner_name() -> str:
    """Return the owner's name: option, environment, or the user this process runs as."""
    given = click.get_current_context().meta.get("sams.name") or os.environ.get("SAMS_OWNER")
    if given:
        return str(given)
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name  # not $USER: anybody sets that
    except (ImportError, KeyError):
        import getpass

        try:
            return getpass.getuser()
        except (ImportError, KeyError, OSError):
            return f"uid-{os.getuid()}"


def config_file() -> str | None:
    """Return the file of a text policy that an option or the environment names."""
    given = click.get_current_context().meta.get("sams.config") or os.environ.get("SAMS_CONFIG")
    return str(given) if given else None


@contextmanager
def store(*, create: bool = False) -> Iterator[Backend]:
    """Open the chosen store; a folder that isn't there is a mistyped one, except to `init`."""
    kind, value, _ = location()
    if kind == "base" and not create and not os.path.isdir(value):
        raise NotFound("no store in that folder: check --base, or make one with `sams init`")
    from sams_core import SQLiteBackend, load_policy, open_backend
    from sams_core.redaction import policy_of

    config = config_file()
    policy = load_policy(config) if config else None
    backend: Backend = (
        SQLiteBackend(value, policy=policy) if kind == "base" else open_backend(value, policy)
    )
    policy_of(backend)  # a policy that can't be read refuses every verb, before it has begun
    try:
        yield backend
    finally:
        backend.close()


def check_known(backend: Backend, scope: str) -> None:
    """Refuse a scope that nobody ever used: an empty queue under a mistyped name reassures falsely."""
    from sams_core import SQLiteBackend

    if isinstance(backend, SQLiteBackend) and not backend.folders.container(scope).is_dir():
        raise NotFound("nobody has used that scope in this store: check it, or `sams init` it")


@contextmanager
def owner() -> Iterator[Owner]:
    """Open the chosen store as its owner."""
    from sams_core import Owner

    with store() as backend:
        yield Owner(backend, owner_name())


@contextmanager
def printing() -> Iterator[None]:
    """Tell output that can't be written from work that was refused: it may well have been done."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        # Or what is buffered would fail again at exit, with a traceback and a code of its own.
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        why = error.strerror or "I/O error"
        raise click.ClickException(
            f"the output can't be written ({why}); nothing is undone"
        ) from None


def say(text: str = "", *, err: bool = False, bold: bool = False) -> None:
    """Print text that is already fit for a person."""
    bold = bold and "NO_COLOR" not in os.environ
    with printing():
        click.echo(click.style(text, bold=True) if bold else text, err=err)


def say_json(data: object) -> None:
    """Print JSON in ASCII: nothing in it can act on a terminal."""
    with printing():
        click.echo(json.dumps(data, ensure_ascii=True, indent=2))


def check_digest(context: click.Context, option: click.Parameter, value: str) -> str:
    """Accept 64 hex digits and nothing shorter: a prefix can be sought for, a digest can't."""
    if len(value) != 64 or any(char not in "0123456789abcdef" for char in value):
        raise click.BadParameter("the whole digest, 64 hex digits as printed", context, option)
    return value


def check_why(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty reason: it is what the history will say."""
    if value is not None and not value.strip():
        raise click.BadParameter("say in your own words why you vouch for it", context, option)
    return value


class Guarded(click.Group):
    """The root group: refusals become one line on stderr and an exit code, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        from sams_core.visible import visible, visible_line

        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a terminal that can't encode shows escapes instead
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except SamsError as error:
            say(f"refused ({visible_line(error.rule)}): {visible_line(str(error))}", err=True)
            ctx.exit(CHANGED if isinstance(error, ReviewMismatch | VersionConflict) else REFUSED)
        except click.UsageError as error:
            message = error.format_message()  # it repeats arguments
            if visible(message) == message:
                raise
            raise click.UsageError(visible(message), error.ctx) from None
        except OSError as error:
            if error.errno == errno.EPIPE:
                _leave_quietly(ctx)
            # Without the file's name: names of spool files are chosen by agents' processes.
            say(f"refused (store-failed): {visible_line(error.strerror or 'I/O error')}", err=True)
            ctx.exit(REFUSED)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, ImportError) and error.name is None:  # ours, which names an extra
                raise click.UsageError(visible_line(str(error))) from None
            if os.environ.get("SAMS_DEBUG"):
                import traceback

                say(visible(traceback.format_exc()), err=True)
            name = type(error).__name__
            say(f"failed (internal error {name}): SAMS_DEBUG=1 shows where", err=True)
            ctx.exit(REFUSED)


def _leave_quietly(context: click.Context) -> None:
    """The reader of our output has gone (`| head`): leave as other programs do."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    context.exit(128 + getattr(signal, "SIGPIPE", 13))


def one_of(ids: list[str], given: str) -> str | None:
    """Return the id that `given` names: itself, or a unique start of at least 6 characters.

    None if there is none. Raises `InvalidArguments` (rule `ambiguous-id`) if there are several.
    """
    if given in ids:
        return given
    found = [one for one in ids if len(given) >= 6 and one.startswith(given)]
    if len(found) > 1:
        raise InvalidArguments(
            f"{len(found)} changes have ids that start like this: give more of it",
            rule="ambiguous-id",
        )
    return found[0] if found else None
