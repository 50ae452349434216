"""Private keys: armoured blocks (RFC 7468, RFC 4880, OpenSSH), PuTTY files, bodies without armour."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sams_core.redaction.engine import Pattern
from sams_core.redaction.model import Span

KIND = "private-key"
KEYWORDS = (
    "PRIVATE KEY",
    "Private-Lines:",
    "MII",
    "MHcCAQEE",
    "MIG",
    "MC4CAQAw",
    "b3BlbnNzaC1rZXk",
)

_MARK = Pattern(r"-{4,5}[ ]?(BEGIN|END)[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?[ ]?-{4,5}")
_BODY_LINE = re.compile(rb"[A-Za-z0-9+/]{8,}={0,2}|=[A-Za-z0-9+/]{4}")
_HEADER_LINE = re.compile(rb"[A-Za-z][A-Za-z-]{2,20}: .{0,200}")
# Where one line of a key ends in source code, JSON, YAML and quoted mail.
_LINE_END = re.compile(rb"(?:\\r|\\n|\r|\n|\\\n)+")
_DRESSING = b" \t\"'+>|#*,;:()\\`"
# The base64 of the DER and OpenSSH beginnings of an unencrypted private key.
_BARE = Pattern(
    r"\b((?:MII[A-Za-z0-9+/]{2}[A-Za-z0-9+/](?:IBAAK|wIBAAK|AIBAAK|QIBADANBgkqhkiG9w0BAQ|gIBADANBgkqhkiG9w0BAQ)"
    r"|MII[BCEJ][A-Za-z0-9+/]{2}IBA[A-Za-z0-9+/]"
    r"|MHcCAQEE|MIGHAgEAMBMGByqGSM49|MIG2AgEAMBAGByqGSM49|MIGkAgEBBD|MC4CAQAwBQYDK2V|b3BlbnNzaC1rZXktdjE)"
    r"[A-Za-z0-9+/]{20,}(?:(?:\r?\n|\\n)[ \t]{0,20}[A-Za-z0-9+/]{16,})*"
    r"(?:(?:\r?\n|\\n)[A-Za-z0-9+/]{1,80})?={0,2})"
)
_PUTTY = Pattern(
    r"Private-Lines: [0-9]{1,4}((?:\r?\n|\\n)(?:[A-Za-z0-9+/]{16,80}={0,2}(?:\r?\n|\\n)?)+)"
)


def _body_end(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """Follow lines of base64 from `start`; return where they end and how many characters they are."""
    end, size, at = start, 0, start
    while at < stop:
        cut = _LINE_END.search(data, at, min(stop, at + 4096))
        line_end = cut.start() if cut else min(stop, at + 4096)
        line = data[at:line_end].strip(_DRESSING)
        if line and not _HEADER_LINE.fullmatch(line):
            if not _BODY_LINE.fullmatch(line):
                break
            size += len(line)
            end = line_end
        elif line and size:
            break
        if not cut:
            break
        at = cut.end()
    return end, size


def private_keys(data: bytes) -> Iterator[Span]:
    """Yield private keys. A header that is only mentioned, with no key behind it, is left alone."""
    marks = [(m.start(), m.end(), m.group(1)) for m in _MARK.finditer(data)]
    for index, (start, end, what) in enumerate(marks):
        if what != b"BEGIN":
            continue
        following = marks[index + 1] if index + 1 < len(marks) else None
        stop = following[0] if following else len(data)
        if following and following[2] == b"END":
            inside = data[end:stop]
            if len(inside) < 40:
                continue
            body = sum(map(len, re.findall(rb"[A-Za-z0-9+/=]{16,}", inside)))
            if body >= 24 and 2 * body > len(inside.replace(b"\\n", b"").strip()):
                yield Span(start, following[1], KIND)
                continue
        last, size = _body_end(data, end, stop)
        if size >= 24:
            yield Span(start, last, KIND)
    for pattern in (_BARE, _PUTTY):
        for match in pattern.finditer(data):
            yield Span(match.start(1), match.end(1), KIND)
