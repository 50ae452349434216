"""Text for a person's eyes: every code point that could hide, move or imitate text is written out.

The escapes are Python's: ``\\t``, ``\\r``, ``\\xNN``, ``\\uNNNN``, ``\\UNNNNNNNN`` (and ``\\n`` in
`visible_line`). A backslash of the text itself is doubled only where it would otherwise read as the
start of such an escape or of a doubled backslash; ``C:\\dir`` and ``\\d+`` stay as they are. The
rendering is injective: two different texts never look the same.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from sams_core.visible.comparison import unified

__all__ = ["diff", "visible", "visible_line"]

# Escape letters that `_escape` can emit, and the backslash itself.
_AFTER_BACKSLASH = frozenset("xuUntr\\")
_INSPECT = re.compile(r"\\+|[^\n -\[\]-~]")
_INSPECT_LINE = re.compile(r"\\+|[^ -\[\]-~]")
_PILE = 4
_HIDDEN_CATEGORIES = frozenset(("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp", "Zs"))
# Default_Ignorable_Code_Point (Unicode DerivedCoreProperties.txt) outside the categories above, the
# Braille blank, which is a printed character that prints nothing, and marks that cover their letter.
_BLANK = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)
    + tuple(range(0x180B, 0x1810))
    + tuple(range(0xFE00, 0xFE10))
    + tuple(range(0xE0100, 0xE01F0))
    + (0x0488, 0x0489, 0x20D2, 0x20D3, *range(0x0334, 0x0339), *range(0x20D8, 0x20DB))
    + (*range(0x20DD, 0x20E1), *range(0x20E2, 0x20E7), 0x20EA, 0x20EB)
)


def _escape(char: str) -> str:
    if char in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char]
    point = ord(char)
    if point <= 0xFF:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


@lru_cache(maxsize=4096)
def _shown(char: str) -> str:
    if ord(char) in _BLANK or unicodedata.category(char) in _HIDDEN_CATEGORIES:
        return _escape(char)
    return char


def _is_mark(char: str) -> bool:
    return not char.isascii() and unicodedata.category(char)[0] == "M"


def _loose(text: str, at: int) -> bool:
    """Tell whether the mark at a position would change something else than the letter before it.

    With no letter there it would fall on what we print: a sign, a bar, an escape. Piles of marks,
    higher than any language's, would cover other lines.
    """
    before = text[max(0, at - _PILE) : at]
    if before[-1:] in ("", " ") or not before[-1].isprintable():
        return True
    return len(before) == _PILE and all(map(_is_mark, before))


def _render(text: str, inspect: re.Pattern[str], *, ascii_only: bool = False) -> str:
    def one(char: str, at: int) -> str:
        if char == " " or (char == "\n" and inspect is _INSPECT):
            return char
        if ascii_only and not char.isascii():
            return _escape(char)
        return _escape(char) if _is_mark(char) and _loose(text, at) else _shown(char)

    def replace(match: re.Match[str]) -> str:
        found = match[0]
        if found[0] != "\\":
            return one(found, match.start())
        following = text[match.end() : match.end() + 1]
        # All but the last backslash stand before a backslash; the last one counts if what is
        # printed after it starts with an escape letter or with a backslash of ours.
        ambiguous = bool(following) and one(following, match.end())[0] in _AFTER_BACKSLASH
        return "\\\\" * (len(found) - 1) + ("\\\\" if ambiguous else "\\")

    return inspect.sub(replace, text)


def visible(text: str) -> str:
    """Write out everything in `text` that a terminal or a browser would hide or act upon.

    Newlines, ordinary spaces and printable characters of every script stay. Any code point is
    accepted, lone surrogates included; the result contains none and can be encoded.
    """
    return _render(text, _INSPECT)


def visible_line(text: str) -> str:
    """Write out `text` like `visible`, newlines included: the result is one line."""
    return _render(text, _INSPECT_LINE)


def _visible_ascii(text: str) -> str:
    return _render(text, _INSPECT_LINE, ascii_only=True)


def diff(old: str, new: str, *, old_name: str = "before", new_name: str = "after") -> str:
    """Compare two texts as a unified diff in which every change of a code point can be seen.

    Lines end at a newline and nowhere else. Changed lines show trailing blanks, and are written in
    ASCII where they look alike (normal forms, homoglyphs). Equal texts give an empty string.
    Where lines are so many or so alike that comparing them could take more than a few seconds, they
    are shown as one replaced block instead of a minimal diff.
    """
    return unified(
        old,
        new,
        visible_line(old_name),
        visible_line(new_name),
        plain=visible_line,
        escaped=_visible_ascii,
    )
