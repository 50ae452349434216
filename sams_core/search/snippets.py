"""Show the part of a text that answers a query, on one line."""

from __future__ import annotations

from functools import lru_cache

from .folding import fold_same_length
from .query import MAX_READ, groups

MAX_SEARCHED = 65_536  # characters of a text; a hit behind them shows the beginning
_PLACES = 8  # of one term
_TRIES = 64
_CUT = "…"


def snippet(text: str, query: str, width: int = 160) -> str:
    """Return at most `width` characters of the original text around the best hit, on one line.

    The best place holds the most different terms of the query; the beginning if none is found.
    Blanks, line ends among them, become single spaces; cut ends show as an ellipsis. The time is
    linear in the text, of which MAX_SEARCHED characters are looked at.
    """
    if width < 2 * len(_CUT) + 1:
        return ""
    start = _best(text[:MAX_SEARCHED], query[:MAX_READ], width)
    start = _word_start(text, max(0, start - width // 4), start) if start > width // 2 else 0
    line = " ".join(text[start : start + 2 * width].split())
    head = _CUT if start else ""
    more = len(text) > start + 2 * width and bool(text[start + 2 * width :][:1])
    if len(head) + len(line) <= width and not more:
        return head + line
    room = width - len(head) - len(_CUT)
    if len(line) > room:
        space = line.rfind(" ", room // 2, room + 1)
        line = line[: space if space > 0 else room]
    return head + line + _CUT


def _best(text: str, query: str, width: int) -> int:
    folded = fold_same_length(text)
    hits = sorted(
        (at, group)
        for group, needles in enumerate(_needles(query))
        for at in _places(folded, needles)
    )
    best, most, left = 0, 0, 0
    inside: dict[int, int] = {}
    for at, group in hits:
        inside[group] = inside.get(group, 0) + 1
        while hits[left][0] < at - width // 2:
            gone = hits[left][1]
            inside[gone] -= 1
            if not inside[gone]:
                del inside[gone]
            left += 1
        if len(inside) > most:
            best, most = hits[left][0], len(inside)
    return best


@lru_cache(maxsize=64)
def _needles(query: str) -> tuple[tuple[str, ...], ...]:
    """For each term what to look for in folded text: the word, else its beginning."""
    found = []
    for forms in groups(query):
        word = forms[0].replace(" ", "")
        found.append((word, *(form[1:] for form in forms[1:] if len(form) > 3)))
    return tuple(found)


def _places(folded: str, needles: tuple[str, ...]) -> list[int]:
    inner: list[int] = []
    for needle in needles:
        found: list[int] = []
        at = folded.find(needle)
        for _ in range(_TRIES):
            if at < 0 or len(found) == _PLACES:
                break
            # "run" isn't in "prune"; where a script has no blanks every place is as good.
            starts = at == 0 or not folded[at - 1].isalnum() or not needle.isascii()
            (found if starts else inner).append(at)
            at = folded.find(needle, at + len(needle))
        if found:
            return found
    return inner[:1]


def _word_start(text: str, earliest: int, hit: int) -> int:
    for at in range(earliest, hit):
        if at == 0 or text[at - 1].isspace():
            return at
    return earliest
