"""Lines for a terminal: what was stored is visible text, and none of it can begin a line."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sams_core.visible import visible, visible_line

_MORE = "  \u21b3 "
_indent: ContextVar[int] = ContextVar("indent", default=0)


@contextmanager
def indented(by: int) -> Iterator[None]:
    """Leave room at the left edge, for a caller that moves the lines to the right."""
    token = _indent.set(by)
    try:
        yield
    finally:
        _indent.reset(token)


def width() -> int:
    """Return the columns there are for a line: COLUMNS, or the terminal's, or 100."""
    return max(40, _columns() - _indent.get())


def _columns() -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and len(given) < 7 and int(given) > 0:
        return int(given)
    for stream in (1, 2, 0):  # behind `| less` the terminal is still on the others
        try:
            return os.get_terminal_size(stream).columns or 100
        except OSError:
            continue
    return 100


def _cells(char: str) -> int:
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def wrapped(line: str, columns: int) -> list[str]:
    """Break visible text at the terminal's edge ourselves, and mark where a line goes on.

    Left to the terminal, a long line of somebody's text could be made to continue at the left edge
    as a line that looks like one of ours. A break is after a blank if one is near.
    """
    out, start, used, blank, room = [], 0, 0, 0, columns
    for at, char in enumerate(line):
        cells = _cells(char)
        if used + cells > room:
            end = blank if blank > start + (at - start) // 2 else at
            out.append(line[start:end])
            used = sum(map(_cells, line[end:at]))
            start, room = end, columns - len(_MORE)
        used += cells
        if char == " ":
            blank = at + 1
    out.append(line[start:])
    return [out[0], *(_MORE + rest for rest in out[1:])]


def block(text: str, indent: str = "  | ") -> list[str]:
    """Render a stored text of several lines, each behind a bar."""
    lines = visible(text).split("\n")
    return [part for line in lines for part in wrapped(indent + line, width())]


def shown_diff(diff: str) -> list[str]:
    """Wrap a diff, which is visible text already."""
    lines = diff.rstrip("\n").split("\n")
    return [part for line in lines for part in wrapped(line, width())]


def cut(line: str, room: int) -> str:
    """Cut visible text to `room` characters; a cut shows as `...`."""
    return line if len(line) <= room else line[: room - 3] + "..."


def short(text: str, room: int) -> str:
    """Render a stored text on one line of at most `room` characters."""
    return cut(visible_line(text), room)


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Align the columns of rows that are visible text; the last one is left as it is."""
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
