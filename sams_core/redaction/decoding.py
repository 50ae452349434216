"""One layer of text encodings undone: base64, hex, percent, quoted-printable, HTML, backslashes, colours.

Sources: RFC 4648 (base64, base64url, base16), RFC 3986 section 2.1, RFC 2045 section 6.7, the HTML
standard's character references, RFC 8259 section 7 (``\\uXXXX``, ``\\n`` and the like), the escapes of
C, Python and ECMAScript, ECMA-48 section 5.4 (control sequences, which colour a terminal's text and
print nothing).
"""

from __future__ import annotations

import binascii
import html
import re

from sams_core.redaction.engine import Pattern, View
from sams_core.shadow import Builder, Shadow

_ESCAPE = re.compile(
    # As it is, as `cat -v` shows it, or escaped, in text inside of text too.
    r"(?P<control>(?:\x1b|\^\[|(?<!\\)\\+(?:x1[Bb]|u001[Bb]|u\{1[Bb]\}|033|e))"
    r"\[[0-?]{0,40}[ -/]{0,4}[@-~])"
    r"|(?P<percent>(?:%[0-9A-Fa-f]{2})+)"
    r"|(?P<quoted>(?:=[0-9A-F]{2}|=\r?\n)+)"
    # Readers of HTML don't insist on a number's semicolon.
    r"|(?P<html>&(?:(?:\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6});?|[A-Za-z][A-Za-z0-9]{1,24};))"
    r"|(?P<unicode>(?:\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\U[0-9A-Fa-f]{8}"
    r"|\\u\{[0-9A-Fa-f]{1,6}\}|\\[0-3][0-7]{2})+)"
    r"|(?P<simple>(?<!\\)\\+[abefnrtv0\"'/])"  # text inside of text inside of text has more backslashes
)
_QUOTED = "=3D"  # quoted-printable has no equals sign of its own but this
_SOFT_BREAK = re.compile(r"=\r?\n")
# Runs that may be base64; a long line may continue on the next one, as in MIME and PEM.
_RUN = Pattern(r"(?:[A-Za-z0-9+/_\-]{60,}\r?\n[ \t>]{0,8})*[A-Za-z0-9+/_\-]{16,}={0,2}")
_HEX = re.compile(rb"(?:0x)?([0-9A-Fa-f]{16,})\Z")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_UNICODE = re.compile(r"\\(?:[uUx]\{?([0-9A-Fa-f]+)\}?|([0-7]{3}))")
# Among the first bytes of most runs that aren't text; the cheapest test comes first.
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\xc0\xc1\xf5-\xff]")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd]")


def _unescape(match: re.Match[str]) -> str:
    if match["control"]:
        return ""
    if match["html"]:
        return html.unescape(match[0])
    if match["percent"]:
        return bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace")
    if match["quoted"]:
        digits = _SOFT_BREAK.sub("", match[0]).replace("=", "")
        return bytes.fromhex(digits).decode("utf-8", "replace")
    if match["simple"]:
        last = match[0][-1]
        return last if last in "\"'/" else "\n"
    points = [
        int(hexa, 16) if hexa else int(octal, 8) for hexa, octal in _UNICODE.findall(match[0])
    ]
    chars = "".join(chr(point) if point <= 0x10FFFF else "\ufffd" for point in points)
    # Two escapes may spell one code point beyond the first plane; what is left alone is unpaired.
    return chars.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def unescaped(text: str, quoted: bool = False) -> Shadow | None:
    """Return `text` with its escapes read, those of quoted-printable if wanted; nothing if it has none."""
    marks = (_QUOTED,) if quoted else ("%", "&", "\\", "\x1b", "^[")
    if not any(mark in text for mark in marks):
        return None
    builder = Builder()
    done = 0
    for match in _ESCAPE.finditer(text):
        if match["quoted"] and not quoted:
            continue
        plain = _unescape(match)
        if plain == match[0]:
            continue
        builder.add(text[done : match.start()], done, match.start())
        builder.add(plain, match.start(), match.end())
        done = match.end()
    if not done:
        return None
    builder.add(text[done:], done, len(text))
    return builder.build()


def _printable(raw: bytes) -> str | None:
    if _CONTROL.search(raw, 0, 8):
        return None
    try:
        plain = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        # A cut at the end (a truncated run) leaves a readable head.
        if error.start < len(raw) - 4 or error.start < 8:
            return None
        plain = raw[: error.start].decode("utf-8")
    return None if not plain or _UNPRINTABLE.search(plain) else plain


def _decoded(run: bytes) -> str | None:
    if b"\n" in run:
        run = run.translate(None, b" \t\r\n>")
    digits = _HEX.match(run)
    if digits and (plain := _printable(binascii.unhexlify(digits[1][: len(digits[1]) & ~1]))):
        return plain
    if run.islower() or run.isupper():
        return None  # an identifier: base64 of a line of text has capitals and small letters
    run = run.rstrip(b"=").translate(_URL_SAFE)
    # A single character left over carries no byte.
    if len(run) % 4 == 1:
        run = run[:-1]
    try:
        return _printable(binascii.a2b_base64(run + b"=" * (-len(run) % 4)))
    except binascii.Error:
        return None


def unpacked(view: View) -> Shadow | None:
    """Return the readable contents of base64 and hex runs, a line each; each stands for its run."""
    found = [
        (plain, match.span())
        for match in _RUN.finditer(view.data)
        if (plain := _decoded(match.group()))
    ]
    if not found:
        return None
    builder = Builder()
    spans = view.chars([span for _, span in found])
    for (plain, _), (start, end) in zip(found, spans, strict=True):
        builder.add(plain, start, end)
        # The separator belongs to the run as well: no gap, no match across two runs.
        builder.add("\n", end - 1, end)
    return builder.build()
