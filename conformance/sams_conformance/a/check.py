"""Compare what a run showed, and what then lies in the store, with what a scenario expects."""

from __future__ import annotations

import json
from collections import defaultdict

from sams_conformance.a.play import ASSIGNED, Observed, Stage
from sams_conformance.a.scenario import Expect, Run, Stored
from sams_core import Change, DreamerSession, Entry, Source
from sams_core.tools import TOOL_NAMES, schemas


def problems(stage: Stage, run: Run, seen: Observed) -> list[str]:
    """Return what isn't as expected; an empty list is a pass."""
    expect = run.expect
    return [
        *_ending(run, expect, seen),
        *_ledger(stage, run, expect),
        *_store(stage, expect),
        *_results(expect, seen),
        *_bodies(stage, run, seen),
        *_shown(expect, seen),
        *_context(stage, run, seen),
        *_offered(expect, seen),
    ]


def _ending(run: Run, expect: Expect, seen: Observed) -> list[str]:
    told = f"; {seen.detail}" if seen.detail else ""
    if seen.raised == "hung":
        return [f"the run hung{told}"]
    if expect.any_end:
        return []
    if run.stop or run.pause:
        wanted = ("CancelledError",) if run.stop == "cancel" else (None,)
        return [] if seen.raised in wanted else [f"the run ended with {seen.raised}{told}"]
    if expect.refused is not None:
        answers = [m.text for s in seen.seen for m in s.messages if m.call_id is not None]
        refused = seen.raised == expect.refused or any(_rule(a) == expect.refused for a in answers)
        if not refused:
            return [f"not refused with {expect.refused}: {seen.raised}{told}"]
        if seen.raised is not None:
            return []
    if seen.raised is not None:
        return [f"the run ended with {seen.raised}{told}"]
    found = []
    if expect.final is not None and seen.final != expect.final:
        found.append(f"the run's answer is {seen.final!r}, not {expect.final!r}")
    if seen.unsaid:
        found.append(f"the run ended {seen.unsaid} turns early")
    return found


def _rule(answer: str) -> str | None:
    """Return the rule of a refusal as the model was shown it, however the framework wraps it."""
    start = answer.find('{"error"')
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(answer[start:])
        rule = value["error"]["rule"]
    except (ValueError, KeyError, TypeError):
        return None
    return rule if isinstance(rule, str) else None


def _ledger(stage: Stage, run: Run, expect: Expect) -> list[str]:
    found = []
    for name in {run.session, run.inside} - {""}:
        session = stage.session(name)
        told = [f"{s.kind} {s.name}" for s in session.sources]
        if expect.marked is not None and session.tainted != expect.marked:
            found.append(f"session {name} is {'' if session.tainted else 'not '}marked: {told}")
        if name == run.session:
            found += [f"no mark for {r!r}: {told}" for r in _missing(expect.reasons, told)]
            lies = [r for r in expect.no_reasons if any(r in each for each in told)]
            found += [f"a mark for {r!r}: {told}" for r in lies]
    return found


def _missing(reasons: tuple[str, ...], told: list[str]) -> list[str]:
    return [reason for reason in reasons if not any(reason in each for each in told)]


def stored(stage: Stage) -> dict[str, list[tuple[bool, list[str]]]]:
    """Return all that agents have stored and nobody decided, by path: tainted, reasons."""
    snapshot = DreamerSession(stage.backend, job_id="conformance", scope=ASSIGNED).snapshot("all")
    lying: dict[str, list[tuple[bool, list[str]]]] = defaultdict(list)
    texts: list[Change | Entry] = [*snapshot.changes, *snapshot.notes]
    for each in texts:
        lying[each.path].append((each.tainted, list(map(_told, each.sources))))
    return dict(lying)


def _told(source: Source) -> str:
    return f"{source.kind} {source.name}"


def _store(stage: Stage, expect: Expect) -> list[str]:
    if expect.stored is None:
        return []
    lying, found = stored(stage), []
    for path in sorted(lying.keys() | expect.stored.keys()):
        wanted = expect.stored.get(path, Stored(False, (), 0))
        texts = lying.get(path, [])
        if len(texts) != wanted.times:
            found.append(f"{path} is stored {len(texts)} times, not {wanted.times}")
        for tainted, told in texts:
            if tainted != wanted.tainted:
                found.append(f"{path} is stored {'' if tainted else 'un'}marked: {told}")
            found += [f"{path}: no mark for {r!r}: {told}" for r in _missing(wanted.reasons, told)]
    return found


def _results(expect: Expect, seen: Observed) -> list[str]:
    found = []
    for call_id, part in expect.results.items():
        result = seen.result(call_id)
        if result is None or part not in result.replace('\\"', '"'):
            found.append(f"the result of {call_id} doesn't have {part!r}: {result!r}")
    return found


def _bodies(stage: Stage, run: Run, seen: Observed) -> list[str]:
    ran = sorted(key for key, _ in seen.bodies)
    expect, found = run.expect, []
    if expect.bodies is not None and ran != sorted(expect.bodies):
        found.append(f"bodies that ran: {ran}, not {sorted(expect.bodies)}")
    for key, marked in seen.bodies:
        if run.block == "governed" and not stage.tool(key).trust and not marked:
            found.append(f"{key} ran before its session was marked")
    return found


def _shown(expect: Expect, seen: Observed) -> list[str]:
    found = [f"the model never saw {part!r}" for part in expect.saw if part not in seen.shown]
    found += [f"the model saw {part!r}" for part in expect.never_saw if part in seen.shown]
    if ASSIGNED in seen.shown or ASSIGNED in json.dumps([s.tools for s in seen.seen], default=str):
        found.append("the model saw the tenant's id")
    return found


def _context(stage: Stage, run: Run, seen: Observed) -> list[str]:
    """Look for the block in every governed request: once, its very bytes, and never as instructions.

    A request of an agent without memory may do without.
    """
    if run.block != "governed" or run.inside or not seen.block or run.expect.refused:
        return []
    found = []
    bare = {agent.name for agent in stage.scenario.agents if not agent.memory}
    for number, each in enumerate(seen.seen):
        having = [m for m in each.messages if "<memory note=" in m.text]
        count = sum(m.text.count("<memory note=") for m in having)
        if count == 0 and each.agent in bare:
            continue
        if count != 1:
            found.append(f"request {number} has the context block {count} times")
        elif seen.block not in having[0].text:
            found.append(f"request {number} has other bytes than the context block")
        elif having[0].role == "system":
            found.append(f"request {number} has the context block among its instructions")
    return found


def _offered(expect: Expect, seen: Observed) -> list[str]:
    if expect.offered is None:
        return []
    found = []
    wanted = {s["name"]: s["input_schema"] for s in schemas()}
    for number, each in enumerate(seen.seen):
        names = sorted(str(tool["name"]) for tool in each.tools)
        if names != sorted([*TOOL_NAMES, *expect.offered]):
            found.append(f"request {number} offers {names}")
        for tool in each.tools:
            schema = wanted.get(tool["name"])
            if schema is not None and _bare(tool.get("parameters")) != _bare(schema):
                found.append(f"request {number}: {tool['name']} has another schema")
            if schema is not None and tool.get("strict") is not True:
                found.append(f"request {number}: {tool['name']} isn't strict")
    if not seen.seen:
        found.append("the model was never asked")
    return found


def _bare(schema: object) -> object:
    """Return a schema without titles and spellings of the same that frameworks add."""
    if isinstance(schema, dict):
        left = {k: _bare(v) for k, v in schema.items() if k not in ("title", "default", "$defs")}
        required = left.get("required")
        if isinstance(required, list):
            left["required"] = sorted(map(str, required))
        return left
    return [_bare(each) for each in schema] if isinstance(schema, list) else schema
