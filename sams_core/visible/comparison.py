"""The line comparison behind `sams_core.visible.diff`."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Iterator

from sams_core.shadow import normal, skeleton

_CONTEXT = 3
# Steps that the matcher may take, about two seconds' worth; above it a block diff is shown.
_MOST_STEPS = 30_000_000
_NO_NEWLINE = "\\ No newline at end of file"
_Render = Callable[[str], str]
_Opcode = tuple[str, int, int, int, int]


def _lines(text: str) -> list[str]:
    """Split at newlines only and keep them, so that a missing last one is a difference."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _opcodes(old: list[str], new: list[str]) -> list[_Opcode]:
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    codes: list[_Opcode] = [("equal", 0, head, 0, head)] if head else []
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=True)
    if _steps(matcher, a) > _MOST_STEPS:
        codes.append(("replace", head, len(old) - tail, head, len(new) - tail))
    else:
        codes += [
            (tag, i1 + head, i2 + head, j1 + head, j2 + head)
            for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        ]
    if tail:
        codes.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return codes


def _steps(matcher: difflib.SequenceMatcher[str], a: list[str]) -> int:
    """Return the most steps that a comparison can take.

    Each block of equal lines costs a walk over what is left, and over all places where its lines
    occur on the other side. Whoever chooses the lines can make each block one line long.
    """
    where: dict[str, list[int]] = matcher.b2j  # type: ignore[attr-defined]  # public, not in typeshed
    places = [len(where[line]) for line in a if line in where]
    return len(places) * (len(a) + sum(places))


def _hunks(codes: list[_Opcode]) -> Iterator[list[_Opcode]]:
    """Group the operations with at most three lines of context around each change."""
    group: list[_Opcode] = []
    for index, (tag, i1, i2, j1, j2) in enumerate(codes):
        if tag != "equal":
            group.append((tag, i1, i2, j1, j2))
            continue
        size = i2 - i1
        first, last = index == 0, index == len(codes) - 1
        if not first and not last and size <= 2 * _CONTEXT:
            group.append((tag, i1, i2, j1, j2))
            continue
        keep = min(_CONTEXT, size)
        if not first:
            group.append((tag, i1, i1 + keep, j1, j1 + keep))
            yield group
            group = []
        if not last:
            group.append((tag, i2 - keep, i2, j2 - keep, j2))
    if any(tag != "equal" for tag, *_ in group):
        yield group


def _script(char: str) -> str:
    return unicodedata.name(char, "?").split(" ", 1)[0]


def _imitates(old: str, new: str) -> bool:
    """Tell whether some letters were swapped one for one by letters of another script."""
    a, b = normal("NFC", old), normal("NFC", new)
    if len(a) != len(b) or (a.isascii() and b.isascii()):
        return False
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    if not pairs or 2 * len(pairs) > len(a):
        return False
    return all(x.isalpha() and y.isalpha() and not (x + y).isascii() for x, y in pairs) and any(
        _script(x) != _script(y) or x.isascii() != y.isascii() for x, y in pairs
    )


def _alike(removed: list[str], added: list[str]) -> tuple[set[str], set[str]]:
    """Name the lines on either side that have a twin on the other that looks the same."""
    if all(map(str.isascii, removed)) and all(map(str.isascii, added)):
        return set(), set()
    old: dict[str, list[str]] = {}
    new: dict[str, list[str]] = {}
    for table, lines in ((old, removed), (new, added)):
        for line in lines:
            table.setdefault(skeleton(line).strip(), []).append(line)
    both = old.keys() & new.keys()
    left = {line for key in both for line in old[key]}
    right = {line for key in both for line in new[key]}
    for a, b in zip(removed, added, strict=False):
        if _imitates(a, b):
            left.add(a)
            right.add(b)
    return left, right


def _changed(sign: str, line: str, render: _Render) -> Iterator[str]:
    body = line.removesuffix("\n")
    bare = body.rstrip(" ")
    blanks = len(body) - len(bare)
    # The tab (two characters when shown) makes a final backslash see that an escape follows it.
    shown = render(bare + "\t")[:-2] if blanks else render(bare)
    yield sign + shown + "\\x20" * blanks
    if not line.endswith("\n"):
        yield _NO_NEWLINE


def _range(start: int, stop: int) -> str:
    length = stop - start
    begin = start + 1 if length else start
    return str(begin) if length == 1 else f"{begin},{length}"


def unified(
    old: str, new: str, old_name: str, new_name: str, *, plain: _Render, escaped: _Render
) -> str:
    """Render the difference of two texts; `plain` and `escaped` render one line each."""
    if old == new:
        return ""
    a, b = _lines(old), _lines(new)
    codes = _opcodes(a, b)
    removed = [line for tag, i1, i2, _, _ in codes if tag != "equal" for line in a[i1:i2]]
    added = [line for tag, _, _, j1, j2 in codes if tag != "equal" for line in b[j1:j2]]
    left, right = _alike(removed, added)
    out = [f"--- {old_name}", f"+++ {new_name}"]
    for hunk in _hunks(codes):
        old_range = _range(hunk[0][1], hunk[-1][2])
        out.append(f"@@ -{old_range} +{_range(hunk[0][3], hunk[-1][4])} @@")
        for tag, i1, i2, j1, j2 in hunk:
            if tag == "equal":
                for line in a[i1:i2]:
                    out.append(" " + plain(line.removesuffix("\n")))
                    if not line.endswith("\n"):
                        out.append(_NO_NEWLINE)
                continue
            for line in a[i1:i2]:
                out += _changed("-", line, escaped if line in left else plain)
            for line in b[j1:j2]:
                out += _changed("+", line, escaped if line in right else plain)
    return "\n".join(out) + "\n"
