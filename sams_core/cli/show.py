"""What a reviewer sees: the queue as lines, and one change with everything its digest covers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sams_core.cli.layout import block, cut, short, shown_diff, table, width, wrapped
from sams_core.visible import visible_line

if TYPE_CHECKING:
    from sams_core.records import Change, Entry, Flag, Source

SPAN = LINE = 160  # characters of a flagged span, and of a line of the queue
_CLAIM = " (claimed: before redaction, or in a superseded text)"


def flag_counts(flags: tuple[Flag, ...]) -> str:
    """Return the rules of some flags with how often each was raised."""
    counts = Counter(visible_line(flag.rule) for flag in flags)
    return ", ".join(rule if n == 1 else f"{rule} {n}" for rule, n in counts.items())


def short_ids(ids: list[str]) -> dict[str, str]:
    """Return for each id its shortest start of at least 8 characters that no other id shares."""
    size = 8
    while size < 64 and len({one[:size] for one in ids}) < len(set(ids)):
        size += 1
    return {one: one[:size] for one in ids}


def _by_path(change: Change) -> tuple[str, str]:
    return change.path, change.date


def queue_lines(changes: list[Change], limit: int) -> list[str]:
    """Render open changes, one line each; those for one path stand together, oldest first."""
    ids = short_ids([change.id for change in changes])
    head = ("id", "kind", "label", "date", "path", "author", "flags")
    rows = [
        (
            visible_line(ids[change.id]),
            change.kind,
            "tainted" if change.tainted else "clean",
            short(change.date[:10], 10),
            short(change.path, 40),
            short(change.author, 20),
            flag_counts(change.flags) or "-",
        )
        for change in sorted(changes, key=_by_path)[:limit]
    ]
    lines = (cut(line, LINE) for line in table([head, *rows]))  # `show` has all the flags
    return [part for line in lines for part in wrapped(line, width())]


def summary(change: Change) -> dict[str, Any]:
    """Return a change's line of the queue as data, without its texts."""
    whole = change.to_dict()
    kept = (
        "id scope path kind date author login source_session tainted base_version digest occurrences "
        "flags sources supersedes"
    )
    return {name: whole[name] for name in kept.split()}


def _fact(name: str, value: str) -> list[str]:
    return wrapped(f"  {name:<12} {value}", width())


def _source_lines(sources: tuple[Source, ...]) -> list[str]:
    rows: list[tuple[str, ...]] = [
        (
            f"  {visible_line(s.kind)}",
            visible_line(s.name),
            f"first {visible_line(s.first_seen[:19])}"
            + (f" from {visible_line(s.origin)}" if s.origin else ""),
        )
        for s in sources
    ]
    return [part for line in table(rows) for part in wrapped(line, width())]


def own_flags(change: Change) -> frozenset[Flag]:
    """Return the flags that the stored texts raise now, computed here and claimed by nobody."""
    from sams_core.flags import review_flags

    return frozenset(
        (*review_flags(change.description, "description"), *review_flags(change.content, "content"))
    )


def _flag_lines(change: Change) -> list[str]:
    """Render each flag; only one that the stored text itself raises has a span to show here.

    The others are the writer's claims about texts before redaction or texts since superseded.
    """
    own = own_flags(change)
    lines: list[str] = []
    for flag in sorted(change.flags, key=lambda f: f not in own):
        at = f"{visible_line(flag.field)} {flag.start}-{flag.end}"
        claim = "" if flag in own or flag.field == "removed" else _CLAIM
        lines += wrapped(
            f"  {visible_line(flag.rule)}: {visible_line(flag.why)} [{at}]{claim}", width()
        )
        text = {"description": change.description, "content": change.content}.get(flag.field)
        if flag in own and text is not None and flag.start < flag.end:
            lines += wrapped(f"    > {short(text[flag.start : flag.end], SPAN)}", width())
    return lines


def change_lines(change: Change, *, stale: bool = False) -> list[str]:
    """Render everything that the digest of a change covers, the digest and the diff.

    `stale` says that another version is served by now than the one that the change was made from.
    """
    base = change.base
    job = change.kind == "proposal"
    lines = [f"change {visible_line(change.id)}"]
    lines += _fact("scope", visible_line(change.scope))
    lines += _fact("path", visible_line(change.path))
    lines += _fact("kind", "proposal of a dreaming job" if job else "write of an agent")
    lines += _fact("author", visible_line(change.author))
    if change.login is not None:
        lines += _fact("login", f"{visible_line(change.login)} (recorded by the database)")
    lines += _fact("session", visible_line(change.source_session or "-"))
    lines += _fact("date", visible_line(change.date))
    lines += _fact("label", "TAINTED: outsiders influenced it" if change.tainted else "clean")
    if base is None:
        lines += _fact("base", "none" if change.base_version == 0 else str(change.base_version))
    else:
        label = "labelled" if base.tainted else "trusted"
        lines += _fact("base", f"version {base.version}, {label}")
        lines += _fact("base digest", visible_line(base.digest))
    if stale:
        lines += _fact("STALE", "another version is served by now; accepting is refused")
    if job:
        lines += _fact("occurrences", f"{change.occurrences} (claimed)")
    lines += ["", f"flags ({len(change.flags)}), hints and no verdict", *_flag_lines(change)]
    lines += ["", f"sources ({len(change.sources)})", *_source_lines(change.sources)]
    if change.supersedes:
        lines += ["", f"supersedes ({len(change.supersedes)}), whose flags and sources are above"]
        lines += [part for one in change.supersedes for part in _fact("", visible_line(one))]
    if change.rationale:
        lines += ["", "rationale, as the job claims", *block(change.rationale)]
    if change.evidence:
        lines += ["", "evidence, as the job claims; nobody opened it"]
        lines += [part for item in change.evidence for part in block(item)]
    diff = change.diff()
    lines += ["", f"digest {visible_line(change.digest)}", ""]
    lines += shown_diff(diff) if diff else ["(no difference from what is served)"]
    return lines


def replaces_trusted(change: Change) -> bool:
    """Tell whether accepting needs `--endorse`: tainted text over an entry without a label."""
    return change.tainted and change.base is not None and not change.base.tainted


def entry_line(entry: Entry) -> str:
    """Say in one line what is served now."""
    label = "labelled: outsiders influenced it" if entry.tainted else "trusted"
    return f"{visible_line(entry.path)} version {entry.version}, {label}"


def entry_lines(entry: Entry, *, text: bool) -> list[str]:
    """Render one version of an entry's history."""
    label = "labelled" if entry.tainted else "trusted"
    lines = [f"version {entry.version}  {entry.status}  {label}  {visible_line(entry.date[:19])}"]
    by = f", decided by {visible_line(entry.decided_by)}" if entry.decided_by else ""
    session = f" in session {visible_line(entry.source_session)}" if entry.source_session else ""
    lines += _fact("act", f"{visible_line(entry.act)}{by}")
    if entry.decided_login is not None:
        lines += _fact(
            "owner login", f"{visible_line(entry.decided_login)} (recorded by the database)"
        )
    lines += _fact("author", f"{visible_line(entry.author)}{session}")
    if entry.login is not None:
        lines += _fact("author login", visible_line(entry.login))
    if entry.why:
        lines += _fact("why", visible_line(entry.why))
    lines += _fact("digest", visible_line(entry.digest))
    lines += _fact("description", visible_line(entry.description))
    if entry.sources:
        lines += _fact("sources", "") + _source_lines(entry.sources)
    if text:
        lines += block(entry.content)
    return lines
