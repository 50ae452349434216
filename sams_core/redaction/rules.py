"""Reads rules: ours from the TOML files beside this module, a user's from their `sams.toml`."""

from __future__ import annotations

import functools
import os
import re
import tomllib
from pathlib import Path
from typing import Any

from sams_core.redaction import values
from sams_core.redaction.engine import compiles
from sams_core.redaction.model import Rule, RuleError

_ID = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_KEYS = frozenset(("id", "pattern", "keywords", "catch", "keep", "source", "entropy", "value"))
_MAX_RULES = 1000
# To a pattern's \b an underscore is a letter, but keys stand in `_..._` and `prod_..._old` too.
EDGE = r"(?:\b|_)"


def _texts(entry: dict[str, Any], key: str, name: str) -> tuple[str, ...]:
    value = entry.get(key, [])
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise RuleError(f"rule {name}: {key!r} must be a string or a list of strings")
    return tuple(value)


def _rule(entry: object, number: int, *, shipped: bool) -> Rule:
    if not isinstance(entry, dict):
        raise RuleError(f"rule {number}: not a table")
    name = entry.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name) or len(name) > 40:
        raise RuleError(f"rule {number}: 'id' must be lower-case words joined by hyphens, up to 40")
    unknown = sorted(set(entry) - _KEYS)
    if unknown:
        raise RuleError(f"rule {name}: unknown key {unknown[0]!r}")
    pattern = entry.get("pattern")
    # Ours are compiled on first use and tried by `check_rules`.
    if not isinstance(pattern, str) or not (shipped or compiles(pattern)):
        raise RuleError(f"rule {name}: 'pattern' is not a valid RE2 pattern that matches some text")
    keywords = _texts(entry, "keywords", name)
    if not keywords and shipped:
        raise RuleError(f"rule {name}: 'keywords' is missing")
    entropy = entry.get("entropy", 2.0 if shipped else 0.0)
    if isinstance(entropy, bool) or not isinstance(entropy, int | float) or not 0 <= entropy <= 20:
        # No text has more, and nothing compares with `nan`: such a rule would cut nothing.
        raise RuleError(f"rule {name}: 'entropy' must be a number from 0 to 20")
    value = entry.get("value", "any")
    if value not in values.TESTS:
        raise RuleError(f"rule {name}: 'value' must be one of {', '.join(sorted(values.TESTS))}")
    catch = _texts(entry, "catch", name)
    if not catch:
        raise RuleError(f"rule {name}: 'catch' is missing: give one example that must be caught")
    if shipped and not pattern.startswith(("(?i)", "(?m)")):  # those are of words, not of keys
        pattern = pattern.replace(r"\b", EDGE)
    return Rule(
        id=name,
        pattern=pattern,
        keywords=keywords,
        catch=catch,
        keep=_texts(entry, "keep", name),
        source=str(entry.get("source", "")),
        entropy=float(entropy),
        value=value,
    )


def parse(document: dict[str, Any], *, shipped: bool = False) -> tuple[Rule, ...]:
    """Read the rules of a parsed TOML document, from its list ``[[redaction.rules]]``."""
    section = document.get("redaction", {})
    entries = section.get("rules", []) if isinstance(section, dict) else None
    if not isinstance(entries, list) or len(entries) > _MAX_RULES:
        raise RuleError(f"'redaction.rules' must be a list of at most {_MAX_RULES} tables")
    found = tuple(_rule(entry, n, shipped=shipped) for n, entry in enumerate(entries, 1))
    ids = [rule.id for rule in found]
    if len(set(ids)) != len(ids):
        raise RuleError("two rules have the same id")
    return found


def load_rules(path: str | os.PathLike[str]) -> tuple[Rule, ...]:
    """Read a user's own rules from the tables ``[[redaction.rules]]`` of a TOML file.

    Keys: `id`, `pattern` (RE2; the last group that matched, if any, is cut), `keywords` (literals one
    of which a text must contain; none: every text is tried), `catch` and `keep` (examples), `source`,
    `entropy` (bits a character, 0 to 20, default 0), `value` (a test, default `any`). Raises
    `RuleError` for a malformed rule, `tomllib.TOMLDecodeError` and `OSError` for the file.
    """
    return parse(tomllib.loads(Path(path).read_text(encoding="utf-8")))


@functools.cache
def shipped() -> tuple[Rule, ...]:
    """Read the rules this package brings, in the order of their files' names."""
    folder = Path(__file__).parent / "rules"
    rules: list[Rule] = []
    for file in sorted(folder.glob("*.toml")):
        rules += parse(tomllib.loads(file.read_text(encoding="utf-8")), shipped=True)
    return tuple(rules)
