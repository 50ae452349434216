"""Fold spellings of one word to one form, whatever the script."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

# `\w` knows letters and digits but not the vowel signs and tone marks that are part of a word in
# Hindi, Thai, Khmer and their neighbours. Dandas and other punctuation of those blocks stay out.
MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
    "\u0900-\u0963\u0966-\u096f\u0971-\u0df3\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u0f71-\u0f84\u102b-\u103e\u1056-\u1059\u17b4-\u17d3\u3099\u309a"
)


@cache
def word_pattern() -> re.Pattern[str]:
    """Return what finds words; compiling takes a millisecond that ASCII texts needn't wait for."""
    return re.compile(rf"[\w{MARKS}]+")


# Boundary inside an identifier (`snake_case`, `camelCase`); not a word character, unlike `_`.
SEAM = "\x1f"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_SAME = str.maketrans(
    {
        "_": SEAM,
        # Letters that Unicode doesn't decompose.
        "ı": "i", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe",
        "ħ": "h", "ŧ": "t", "ё": "е", "ґ": "г", "ς": "σ",
        # Arabic and Persian spellings of one letter; tatweel only stretches a word.
        "أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ی": "ي", "ئ": "ي", "ؤ": "و",
        "ة": "ه", "ک": "ك", "ـ": None,
        # Hindi: nukta and the two nasal signs are written or left out at will.
        "\u093c": None, "\u0901": "\u0902",
        # Japanese: サーバ and サーバー are one word.
        "ー": None,
        # Invisible inside words: soft hyphen, joiners, direction and variation marks.
        "\u00ad": None, "\u200b": None, "\u200c": None, "\u200d": None, "\u200e": None,
        "\u200f": None, "\u2060": None, "\ufeff": None, "\ufe0f": None,
    }
)  # fmt: skip
_REMEMBERED = 20_000


@cache
def _accents() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Marks that are written or left out, and the letters that may carry them inside."""
    marks = (
        "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
        "\u0610-\u061a\u064b-\u065f\u0670]"
    )
    return re.compile(marks), re.compile("[\u00c0-\u024f\u0370-\u03ff\u1e00-\u1fff]")


class _Folds(dict[int, "str | int | None"]):
    """A translation table that works out a character when it is first seen."""

    def __missing__(self, code: int) -> str | int | None:
        char = chr(code)
        dropped, accented = _accents()
        folded: str | int | None = code
        if char.isdecimal():
            folded = str(unicodedata.decimal(char))
        elif dropped.match(char):
            folded = None
        elif accented.match(char):
            folded = dropped.sub("", unicodedata.normalize("NFKD", char))
        if len(self) < _REMEMBERED:  # text can hold every code point there is
            self[code] = folded
        return folded


_FOLDS = _Folds(_SAME)


def fold(piece: str) -> str:
    """Return a blank-free piece of text folded: case, width, accents, digits, seams marked."""
    if not piece.isascii():
        # Pieces are short, since normalising is quadratic in a run of combining marks; and one
        # character can become eighteen.
        piece = unicodedata.normalize("NFKC", piece)[: 2 * len(piece) + 32]
        return _CAMEL.sub(SEAM, piece).casefold().translate(_FOLDS)
    if piece.islower() and "_" not in piece:
        return piece
    return _CAMEL.sub(SEAM, piece).lower().replace("_", SEAM)


class _SameLength(dict[int, "str | int"]):
    """The same table for one character each, so that positions in a text stay."""

    def __missing__(self, code: int) -> str | int:
        folded = chr(code).casefold().translate(_FOLDS)[:1] or code
        if len(self) < _REMEMBERED:
            self[code] = folded
        return folded


_SAME_LENGTH = _SameLength()


def fold_same_length(text: str) -> str:
    """Return a text folded character by character: as long as the text, not normalised."""
    return text.lower() if text.isascii() else text.translate(_SAME_LENGTH)
