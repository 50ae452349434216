"""Turn text into the terms that the index holds and a query asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from .folding import SEAM, fold, word_pattern
from .stems import irregular, roots
from .stopwords import STOP_WORDS

_PIECE = re.compile(r"\S{1,256}")  # long runs are cut, so every step below is linear
_CACHED = 40
_LONGEST = 48

# Scripts written without blanks (and Korean, whose particles stick to words).
_THAI = "\u0e01-\u0e2e\u0e81-\u0eae\u1000-\u102a\u103f\u1050-\u1055\u1780-\u17b3"
_SIGNS = (
    "\u0e30-\u0e3a\u0e45-\u0e4e\u0eb0-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u1056-\u1059\u17b4-\u17d1"
    "\u17d3"
)
_STACKED = "[\u1039\u17d2]"  # the next consonant is written below this one
_LETTER = "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30ff\u3105-\u312f\u31f0-\u31ff"
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HANGUL = "\u1100-\u11ff\uac00-\ud7a3"
_LEADING = "เแโใไເແໂໃໄ"  # vowels that are written before their consonant


@cache
def _unspaced() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What finds a run of these scripts, and in it the units: characters or clusters."""
    run = rf"[{_LETTER}{_HAN}{_HANGUL}{_THAI}{_SIGNS}{_LEADING}\u1039\u17d2\u3099\u309a]+"
    unit = (
        rf"[{_LETTER}{_HAN}{_HANGUL}][\u3099\u309a]?"
        rf"|[{_LEADING}]?[{_THAI}](?:[{_SIGNS}]|{_STACKED}[{_THAI}])*"
        rf"|[{_SIGNS}{_LEADING}]"
    )
    return re.compile(run), re.compile(unit)


_NUMBERED = re.compile(r"[^\W\d]+|\d+")
# The lookbehinds keep a search from starting again inside a word it already walked through.
_COMPOUND = re.compile(rf"(?<![a-z0-9])[a-z0-9]+(?:[-./:@{SEAM}]+[a-z0-9]+)+")
_SEGMENT = re.compile(rf"(?<![a-z0-9])[a-z0-9]+(?:[-{SEAM}]+[a-z0-9]+)+")
_VERSION = re.compile(r"(?<!\d)\d+(?:\.\d+)+")
_ALNUM = re.compile(r"[a-z0-9]+")


class Term(NamedTuple):
    """One thing to look for: a word with its forms, or a run of units of an unspaced script."""

    forms: tuple[str, ...]
    units: tuple[str, ...] = ()

    @property
    def stop(self) -> bool:
        """Whether it says nothing about what is asked."""
        return not self.units and self.forms[0] in STOP_WORDS


def pieces(text: str) -> list[str]:
    """Return the stretches of a text between blanks, overlong ones cut."""
    return _PIECE.findall(text)


def terms(text: str) -> str:
    """Return what is put into the index in the place of `text`: words, roots and units."""
    return " ".join([_cached(p) if len(p) <= _CACHED else _indexed(p) for p in pieces(text)])


def unspaced_pair(one: str, two: str) -> bool:
    """Tell whether two neighbouring terms of `terms` are units of a script without blanks."""
    if one.isascii() or two.isascii():
        return False
    unit = _unspaced()[1]
    return unit.fullmatch(one) is not None and unit.fullmatch(two) is not None


def piece_terms(piece: str) -> list[Term]:
    """Return the terms of one blank-free piece, in order, compounds after their parts."""
    folded = fold(piece)
    if folded.isalpha() and folded.isascii():
        return [_word(folded)]
    found: list[Term] = []
    if folded.isascii():
        for part in _ALNUM.findall(_sharp(folded)):
            found.extend(_spaced(part))
    else:
        for part in word_pattern().findall(_sharp(folded)):
            found.extend(_mixed(part))
    found.extend(_compounds(folded))
    return found


def _mixed(part: str) -> Iterator[Term]:
    """A stretch of letters in which scripts with and without blanks may meet."""
    runs, units = _unspaced()
    end = 0
    for run in runs.finditer(part):
        if part[end : run.start()]:
            yield from _spaced(part[end : run.start()])
        if found := tuple(units.findall(run[0])):
            yield Term((), found)
        end = run.end()
    if part[end:]:
        yield from _spaced(part[end:])


def _indexed(piece: str) -> str:
    return " ".join([" ".join(term.forms or term.units) for term in piece_terms(piece)])


_cached = lru_cache(maxsize=16_384)(_indexed)


@lru_cache(maxsize=8_192)
def _word(word: str) -> Term:
    word = word[:_LONGEST]
    if word in STOP_WORDS or word.isdecimal() or (len(word) < 3 and not irregular(word)):
        return Term((word,))
    # The underscore keeps roots apart from words: "intern" finds "international" after "intern".
    return Term((word, *["_" + root for root in roots(word)]))


def _spaced(part: str) -> list[Term]:
    """A word, or one with digits in it: `sha256` also as `sha` and `256`."""
    bits = _NUMBERED.findall(part) if not part.isalpha() else [part]
    if 1 < len(bits) <= 3 and part.isalnum() and not irregular(part):
        return [Term((part[:_LONGEST],)), *(_word(bit) for bit in bits)]
    return [_word(part)]


def _compounds(folded: str) -> list[Term]:
    """Identifiers, paths, versions and dates as wholes, however they were joined."""
    wholes: dict[str, None] = {}
    for compound in _COMPOUND.findall(folded):
        for version in _VERSION.findall(compound):
            numbers = version.split(".")[:4]
            for count in range(2, len(numbers) + 1):
                wholes["_".join(numbers[:count])] = None
        for segment in (*_SEGMENT.findall(compound), compound):
            wholes[_joined(_ALNUM.findall(segment))] = None
    return [Term((whole,)) for whole in wholes]


def _joined(parts: list[str]) -> str:
    whole = parts[0]
    for part in parts[1:]:
        whole += "_" + part if whole[-1].isdigit() and part[0].isdigit() else part
        if len(whole) > _LONGEST:
            break
    return whole[:_LONGEST]


def _sharp(folded: str) -> str:
    """Languages whose name is mostly punctuation."""
    if "c++" in folded or "c#" in folded or "f#" in folded:
        return folded.replace("c++", "cpp").replace("c#", "csharp").replace("f#", "fsharp")
    return folded
