"""The one way text comes in: checked for size and form, flagged as it is, then redacted."""

from __future__ import annotations

from dataclasses import dataclass

from sams_core.errors import InvalidArguments
from sams_core.flags import review_flags
from sams_core.limits import Limits, check_text
from sams_core.records import Flag
from sams_core.redaction import Cuts, redact


@dataclass(frozen=True)
class Screened:
    """Texts as they may be stored, and the hints computed before anything was cut out of them."""

    description: str
    content: str
    flags: tuple[Flag, ...]


def cut(text: str, cuts: Cuts) -> str:
    """Return `text` as it may be stored where `cuts` holds."""
    return redact(text, personal=cuts.personal, rules=cuts.rules).text


def check_name(value: str, what: str, cuts: Cuts) -> str:
    """Return `value` if redaction leaves it alone: a name can't be rewritten, so it is refused."""
    if cut(value, cuts) != value:
        raise InvalidArguments(
            f"{what}: looks like a secret or personal data", rule="secret-in-name"
        )
    return value


def clean(value: str, what: str, cuts: Cuts, *, limit: int, one_line: bool = True) -> str:
    """Check and redact a short text of a person or a job; raises as `check_text`."""
    checked = check_text(value, what, limit=limit, unit="characters", one_line=one_line)
    return check_text(cut(checked, cuts), what, limit=limit, unit="characters", one_line=one_line)


def screen(description: object, content: object, limits: Limits, cuts: Cuts) -> Screened:
    """Check, flag and redact the two texts of an entry, in this order.

    Flags come first because redaction may cut out what they point at. Raises as `check_text`; a text
    that only the replacement of a secret makes too long is refused too.
    """
    body = check_text(content, "content", limit=limits.content_bytes, unit="bytes")
    title = check_text(
        description,
        "description",
        limit=limits.description_chars,
        unit="characters",
        one_line=True,
    )
    flags = review_flags(title, "description", cuts.rules)
    flags += review_flags(body, "content", cuts.rules)
    title, body = cut(title, cuts), cut(body, cuts)
    check_text(body, "content", limit=limits.content_bytes, unit="bytes")
    check_text(
        title, "description", limit=limits.description_chars, unit="characters", one_line=True
    )
    return Screened(title, body, flags)
