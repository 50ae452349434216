"""The copies of a text in which a finding may show: as it is, undisguised, decoded."""

from __future__ import annotations

from collections.abc import Iterator

from sams_core import shadow
from sams_core.redaction import decoding
from sams_core.redaction.engine import View

Way = tuple[shadow.Shadow, ...]


def copies(text: str, *, whole: bool = False) -> Iterator[tuple[View, Way]]:
    """Yield the copies, the text itself first, each with the maps that lead back to `text`.

    Of a text that is disguised in places a copy holds the lines around those, unless `whole` asks
    for all or a key begins there, whose lines go on.
    """
    view = View(shadow.encodable(text))
    found: list[tuple[View, Way]] = [(view, ())]
    for disguise in (shadow.normalised, shadow.latinised):
        for below, way in tuple(found):
            copy = disguise(below.text, whole)
            if copy is not None and not whole and "PRIVATE" in copy.text:
                copy = disguise(below.text)
            if copy is not None:
                found.append((View(copy.text), (copy, *way)))
    yield from found
    for below, way in found:
        for coded in (
            decoding.unescaped(below.text),
            decoding.unescaped(below.text, quoted=True),  # `=AB` may be no escape, `=3D` or not
            decoding.unpacked(below),
        ):
            if coded is not None:
                yield View(coded.text), (coded, *way)


def located(start: int, end: int, way: Way) -> tuple[int, int]:
    """Map a span of a copy to the text that it was made from."""
    for copy in way:
        start, end = copy.source(start, end)
    return start, end
