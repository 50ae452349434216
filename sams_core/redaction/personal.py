"""Personal data, cut only where asked for: e-mail, payment cards, IBANs, phone numbers.

Sources: RFC 5321 (addresses), ISO/IEC 7812 (cards, Luhn), ISO 13616 (IBAN, mod 97), E.164 (phones).
"""

from __future__ import annotations

from sams_core.redaction.engine import Pattern
from sams_core.redaction.model import Span

KINDS = ("email", "card", "iban", "phone")
_EMAIL = Pattern(
    r"[\p{L}\p{N}._%+\-]{1,64}@((?:[\p{L}\p{N}](?:[\p{L}\p{N}\-]{0,62})\.){1,8}\p{L}{2,24})"
)
_CARD = Pattern(
    r"\b([3-6][0-9]{3}(?:[ \-]?[0-9]{4}){2}[ \-]?[0-9]{1,7}|3[47][0-9]{2}[ \-]?[0-9]{6}[ \-]?[0-9]{5})\b"
)
_IBAN = Pattern(r"(?i)\b([a-z]{2}[0-9]{2}(?:[ \-]?[a-z0-9]{4}){2,7}(?:[ \-]?[a-z0-9]{1,4})?)\b")
_PHONE = Pattern(
    r"(?:^|[^\w+.\-/])((?:\+|00)[1-9](?:[ .\-/]?\(?[0-9]\)?){6,13}"
    r"|\([0-9]{2,5}\)[ \-]?[0-9](?:[ .\-/]?[0-9]){5,9}"
    r"|[2-9][0-9]{2}[.\-][2-9][0-9]{2}[.\-][0-9]{4})\b"
)


def domain(address: str) -> str:
    """Return the domain of an e-mail address in ASCII, or nothing if it has none."""
    name = address.rpartition("@")[2].lower()
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return ""


def luhn(digits: str) -> bool:
    """Tell whether the check digit of a card number is right (ISO/IEC 7812-1)."""
    total = 0
    for index, char in enumerate(reversed(digits)):
        value = int(char) * (1 + index % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def mod97(iban: str) -> bool:
    """Tell whether the check digits of an IBAN are right (ISO 13616, ISO 7064)."""
    moved = iban[4:] + iban[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def _digits(found: str) -> str:
    return "".join(char for char in found if char.isdigit())


def _card(found: str) -> bool:
    digits = _digits(found)
    return 13 <= len(digits) <= 19 and len(set(digits)) > 1 and luhn(digits)


def _iban(found: str) -> bool:
    compact = found.replace(" ", "").replace("-", "").upper()
    return 15 <= len(compact) <= 34 and mod97(compact)


def _phone(found: str) -> bool:
    return 8 <= len(_digits(found)) <= 15


def _always(found: str) -> bool:
    return True


_FINDERS = {
    "email": (_EMAIL, 0, _always),
    "card": (_CARD, 1, _card),
    "iban": (_IBAN, 1, _iban),
    "phone": (_PHONE, 1, _phone),
}


def spans(data: bytes, kinds: frozenset[str]) -> list[Span]:
    """Find the personal data of `kinds`, as byte spans."""
    found: list[Span] = []
    for kind in KINDS:
        if kind not in kinds:
            continue
        pattern, group, holds = _FINDERS[kind]
        for match in pattern.finditer(data):
            if holds(match.group(group).decode("utf-8", "ignore")):
                start, end = match.span(group)
                found.append(Span(start, end, kind))
    return found
