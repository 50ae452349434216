"""From findings in several copies of a text to one redacted text that stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sams_core.redaction import personal
from sams_core.redaction.copies import copies, located
from sams_core.redaction.model import Redacted, Rule, Span
from sams_core.redaction.scan import Scanner, scanner

PERSONAL = personal.KINDS
# What `_label` writes. Text of this form is never touched again, whatever its kind.
_DONE = re.compile(r"\[REDACTED:[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?:@[a-z0-9.\-]{1,253})?\]")
_ROUNDS = 5
_UNSTABLE = "[REDACTED:unsettled]"


def _label(text: str, span: Span) -> str:
    domain = personal.domain(text[span.start : span.end]) if span.kind == "email" else ""
    return f"[REDACTED:{span.kind}{'@' + domain if domain else ''}]"


def _spans(text: str, scan: Scanner, kinds: frozenset[str]) -> Iterator[Span]:
    keywords: set[int] = set()  # one that stands elsewhere in the text counts in a copy of a part
    for view, way in copies(text, whole=scan.whole):
        keywords.update(scan.keywords(view.data))
        found = scan.spans(view.data, sorted(keywords))
        if kinds:
            found += personal.spans(view.data, kinds)
        for span, (start, end) in zip(found, view.chars([s[:2] for s in found]), strict=True):
            yield Span(*located(start, end, way), span.kind)


def _merged(text: str, spans: list[Span]) -> list[Span]:
    """Join overlapping findings and cut out what was redacted before."""
    spans.sort(key=lambda span: (span.start, -span.end))
    joined: list[Span] = []
    for span in spans:
        if joined and span.start < joined[-1].end:
            last = joined[-1]
            joined[-1] = Span(last.start, max(last.end, span.end), last.kind)
        else:
            joined.append(span)
    if "[REDACTED:" not in text:
        return joined
    done = [match.span() for match in _DONE.finditer(text)]
    out: list[Span] = []
    index = 0
    for start, end, kind in joined:
        while index < len(done) and done[index][1] <= start:
            index += 1
        at = index
        while at < len(done) and done[at][0] < end:
            if start < done[at][0]:
                out.append(Span(start, done[at][0], kind))
            start = done[at][1]
            at += 1
        if start < end:
            out.append(Span(start, end, kind))
    return out


def _cut(text: str, spans: list[Span]) -> str:
    parts: list[str] = []
    at = 0
    for span in spans:
        parts += (text[at : span.start], _label(text, span))
        at = span.end
    return "".join((*parts, text[at:]))


def _whole_lines(text: str, spans: list[Span]) -> list[Span]:
    out: list[Span] = []
    for start, end, kind in spans:
        low = text.rfind("\n", 0, start) + 1
        high = text.find("\n", end)
        out.append(Span(low, len(text) if high < 0 else high, kind))
    return out


def redacted(text: str, kinds: frozenset[str], rules: tuple[Rule, ...]) -> Redacted:
    """Redact until nothing more is found, so that a second call has nothing to do.

    A cut can complete a finding next to it, so the result is scanned again. A text that doesn't
    settle in a few rounds was made not to; its last findings go with their lines, then altogether.
    """
    unknown = kinds.difference(PERSONAL)
    if unknown:
        raise ValueError(f"unknown kind of personal data: {sorted(unknown)[0]!r}")
    scan = scanner(rules)
    fired: set[str] = set()
    for round_ in range(_ROUNDS + 2):
        spans = _merged(text, list(_spans(text, scan, kinds)))
        if not spans:
            return Redacted(text, tuple(sorted(fired)))
        fired.update(span.kind for span in spans)
        if round_ >= _ROUNDS:
            spans = _merged("", _whole_lines(text, spans))
        text = _cut(text, spans)
    return Redacted(_UNSTABLE, tuple(sorted(fired)))
