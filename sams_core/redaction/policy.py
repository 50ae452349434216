"""What one deployment cuts beyond the shipped rules: its own rules, and personal data by scope.

A policy only adds. It belongs to a store, so that agents, owners and dreaming jobs cut alike.
"""

from __future__ import annotations

import functools
import os
import stat
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sams_core.errors import InvalidArguments, ScopeError
from sams_core.redaction import personal
from sams_core.redaction.model import Rule, RuleError
from sams_core.redaction.rules import parse
from sams_core.scopes import check_container

if TYPE_CHECKING:
    from sams_core.backend import Backend

_RULE = "text-policy"
_RUN = "run"
_LARGEST = 1_000_000  # bytes of a file
_SECTIONS = {"redaction": {"rules"}, "personal": set(personal.KINDS)}


@dataclass(frozen=True)
class Cuts:
    """What is cut in some scopes beyond the shipped rules: arguments for `redact`."""

    rules: tuple[Rule, ...] = ()
    personal: frozenset[str] = frozenset()

    def __or__(self, other: Cuts) -> Cuts:
        return Cuts(_joined(self.rules, other.rules), self.personal | other.personal)

    def __bool__(self) -> bool:
        return bool(self.rules or self.personal)


@dataclass(frozen=True)
class TextPolicy:
    """What a deployment cuts beyond the shipped rules; nothing in it can switch one of those off.

    `rules` are from `load_rules` and count in every scope. `personal` names kinds of personal data
    (`email`, `card`, `iban`, `phone`) and for each the scopes in which it is cut: `org`,
    `project:<id>`, `tenant:<id>`, `project:*`, `tenant:*`, and `run` for all sessions' own notes.
    Raises `InvalidArguments` (rule `text-policy`) for another kind or scope.
    """

    rules: tuple[Rule, ...] = ()
    personal: Mapping[str, Collection[str]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for kind, scopes in self.personal.items():
            if kind not in personal.KINDS:
                raise _bad(f"kinds of personal data are {', '.join(personal.KINDS)}")
            if isinstance(scopes, str) or not all(map(_is_scope, scopes)):
                raise _bad(
                    f"personal data {kind!r}: a list of org, project:<id>, tenant:<id>, project:*, "
                    "tenant:*, run"
                )
        object.__setattr__(self, "rules", tuple(self.rules))
        kept = {kind: frozenset(scopes) for kind, scopes in self.personal.items()}
        object.__setattr__(self, "personal", kept)  # a copy: nobody changes it later

    def at(self, *scopes: str) -> Cuts:
        """Return what is cut from a text that is stored in all of `scopes`."""
        kinds = (
            kind
            for kind, where in self.personal.items()
            if any(not where.isdisjoint(_names(scope)) for scope in scopes)  # type: ignore[attr-defined]
        )
        return Cuts(self.rules, frozenset(kinds))

    def __or__(self, other: TextPolicy) -> TextPolicy:
        kinds = {*self.personal, *other.personal}
        return TextPolicy(
            _joined(self.rules, other.rules),
            {k: {*self.personal.get(k, ()), *other.personal.get(k, ())} for k in kinds},
        )


def _joined(one: tuple[Rule, ...], other: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(dict.fromkeys((*one, *other))) if one and other else one or other


def _names(scope: str) -> Iterator[str]:
    """Yield the words of a policy that mean `scope`."""
    kind, colon, _ = scope.partition(":")
    if kind == _RUN:
        yield _RUN
    else:
        yield scope
        if colon:
            yield f"{kind}:*"


def check_scope(scope: object) -> str:
    """Return `scope` if it is `run` or names a container; raises `ScopeError`."""
    return _RUN if scope == _RUN else check_container(scope)


def _is_scope(scope: object) -> bool:
    try:
        return bool(check_scope(scope))
    except ScopeError:
        return False


def _bad(why: str) -> InvalidArguments:
    return InvalidArguments(why, rule=_RULE)


def load_policy(path: str | os.PathLike[str]) -> TextPolicy:
    """Read a policy from a TOML file of at most 1 MB: ``[[redaction.rules]]`` and ``[personal]``.

    The keys of a rule are those of `load_rules`; ``[personal]`` has a list of scopes for each kind.
    Any other table or key is refused: a misspelt one would cut nothing. Raises `InvalidArguments`
    (rule `text-policy`) for a file that can't be read, isn't TOML or says something else.
    """
    here = _state(Path(path))
    if here is None:
        raise _bad(f"{Path(path).name}: no such file")
    return _loaded(Path(path), here)


def _state(path: Path) -> tuple[int, ...] | None:
    """Tell one state of a file from another; None if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError:
        raise _bad(f"{path.name}: can't be read") from None
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
        raise _bad(f"{path.name}: not a file of at most {_LARGEST} bytes")
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@functools.lru_cache(maxsize=32)
def _loaded(path: Path, state: tuple[int, ...]) -> TextPolicy:
    try:
        with open(path, "rb") as file:
            document = tomllib.loads(file.read(_LARGEST).decode("utf-8"))
        _check_keys(document)
        return TextPolicy(parse(document), document.get("personal", {}))
    except OSError:
        raise _bad(f"{path.name}: can't be read") from None
    except (RuleError, InvalidArguments) as error:
        raise _bad(f"{path.name}: {error}") from None
    except (ValueError, RecursionError):  # its own error, no UTF-8, a number of too many digits
        raise _bad(f"{path.name}: not valid TOML") from None


def _check_keys(document: dict[str, Any]) -> None:
    for name, table in document.items():
        if name not in _SECTIONS:
            raise _bad(f"unknown table {name!r}: there are [[redaction.rules]] and [personal]")
        if not isinstance(table, dict) or not table.keys() <= _SECTIONS[name]:
            raise _bad(f"[{name}] takes {', '.join(sorted(_SECTIONS[name]))}")
    for kind, scopes in document.get("personal", {}).items():
        if not isinstance(scopes, list):
            raise _bad(f"personal data {kind!r}: a list of scopes")


BUILT_IN = TextPolicy()


def policy_of(backend: Backend) -> TextPolicy:
    """Return a store's policy: what its object was given, and what lies in its folder.

    Looked up when a session, owner or job is opened, and parsed again only if the file has changed.
    Raises as `load_policy`: a policy that can't be read refuses all work, it isn't taken for none.
    """
    given: TextPolicy = getattr(backend, "policy", None) or BUILT_IN
    file: Path | None = getattr(backend, "policy_file", None)
    here = None if file is None else _state(file)
    if file is None or here is None:
        return given
    stored = _loaded(file, here)
    return given | stored if given is not BUILT_IN else stored
