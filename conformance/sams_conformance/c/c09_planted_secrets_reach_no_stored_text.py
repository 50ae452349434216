"""C9: a secret that is planted anywhere is cut out or refused, and nothing shows it afterwards."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sams_conformance.driver import Subject, needs_durable
from sams_conformance.process import process
from sams_conformance.support import (
    ACME,
    SECRET,
    accept,
    agent,
    dreamer,
    marked,
    owner,
    publish,
    queued,
    refused,
    whole_index,
)
from sams_core.errors import InvalidArguments, SamsError

# Invented, and put together here so that no scanner takes this file for a leak.
_PEM = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7q8Zt"
_JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0" + ".q8ZtR2vLx9KmW4sJ7nB1cY5dH3gF6aE0pTuQwXzVoIk"
_AWS = "wJalrXUtnFEMIq8K7MDENGbPxRfiCYzT" + "2vLx9KmW"
_HOOK = "T0Q8ZTR2V/B0K7MDENG4/q8ZtR2vLx9KmW4sJ7nB1cY5d"
_PASS = "Tr0ub4dor-9xKm-Zq7"

SECRETS = {
    "token": (f"deploy with {SECRET} on Fridays", SECRET),
    "cloud key": (f"aws_secret_access_key = {_AWS}", _AWS),
    "web token": (f"the test user's session was {_JWT}", _JWT),
    "webhook": (f"alerts go to https://hooks.slack.com/services/{_HOOK}", _HOOK),
    "connection": (f"the store is postgres://app:{_PASS}@db.internal/app", _PASS),
    "assignment": (f'DATABASE_PASSWORD="{_PASS}"', _PASS),
    "spoken": (f"The password is {_PASS}, ask Anna for the rest", _PASS),
    "header": (f"Authorization: Bearer {SECRET[4:]}", SECRET[4:]),
}
"""A line that holds a secret of each kind, and the secret in it."""

BLOCKS = {
    "private key": (
        f"-----BEGIN PRIVATE KEY-----\n{_PEM}\n-----END PRIVATE KEY-----\n",
        _PEM,
    ),
}
"""The same for texts that may have several lines."""

DISGUISED = {
    "zero-width characters": "\u200b".join(SECRET),
    "full-width forms": "".join(chr(ord(c) + 0xFEE0) if c != "_" else c for c in SECRET),
    "base64": base64.b64encode(f"key {SECRET}".encode()).decode(),
    "hex": SECRET.encode().hex(),
    "percent": "".join(f"%{byte:02X}" for byte in SECRET.encode()),
}

ORDINARY = (
    "The billing deployment runs every Friday at noon.",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b, build 4711, max_tokens: 4096",
    "id 7b0c3d5e-2f41-4c55-9a7e-0d1c2b3a4f5e at 2025-01-31T12:00:00Z",
    "Clone git@github.com:example/shop.git; passwords are kept in the vault.",
    "secretary: Anna; tokenizer = 'bpe'; author: Bob",
)


def _folded(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _check(shown: str, *secrets: str, where: str = "") -> None:
    """Fail if ten characters in a row of a secret are in a text, however they are spelled."""
    place = _folded(shown)
    for secret in map(_folded, secrets or _every()):
        found = any(secret[i : i + 10] in place for i in range(len(secret) - 9))
        assert not found, f"a secret is shown {where}"


def _every() -> list[str]:
    return [secret for _, secret in (SECRETS | BLOCKS).values()]


def _records(deployment: Subject, scope: str) -> Iterator[Any]:
    """Everything that owner, dreamer and store hand out about one container."""
    boss = owner(deployment, scope)
    backend = deployment.backend("owner", scope)
    for change in boss.changes(scope):
        yield from (change, change.diff(), change.base)
    yield from backend.changes(
        scope
    )  # as they are stored: an owner is shown them redacted once more
    snapshot = dreamer(deployment, scope, "job-looks").snapshot("all")
    yield snapshot
    for path in {found.path for found in (*snapshot.entries, *snapshot.changes)} | {"gone"}:
        yield boss.get(scope, path)
        yield from boss.history(scope, path)
    yield from backend.sessions(scope)


def _read(session: Any, scope: str, names: list[str]) -> Iterator[Any]:
    """Everything that a session is shown of one scope, as records and as a model's results."""
    listings = whole_index(session, scope)
    yield from listings
    yield session.memory_search(scope, "deploy store password key alerts session")
    yield session.call_tool("memory_search", {"scope": scope, "query": SECRET})
    for path in [listing.path for listing in listings] + names:
        yield session.call_tool("memory_read", {"scope": scope, "path": path})
        try:
            yield session.memory_read(scope, path)
        except SamsError as refusal:
            yield str(refusal)


def everything(deployment: Subject, *sessions: Any, names: list[str] | None = None) -> str:
    """Return as one text all that anybody is shown of the store: it must hold no secret."""
    shown: list[Any] = [*_records(deployment, ACME), *_records(deployment, "org")]
    looking = agent(deployment, "s-looks"), marked(deployment, "s-looks-marked")
    for session in (*looking, *sessions):
        for scope in ("org", "assigned", "run"):
            shown += _read(session, scope, names or [])
        shown += [session.context_block(1_000_000), repr(session), *session.sources]
    plain = [item.to_dict() if hasattr(item, "to_dict") else str(item) for item in shown]
    return json.dumps(plain, ensure_ascii=False)


def _told(refusal: BaseException) -> str:
    """Return every text of an exception, with those that it was raised from."""
    lines = traceback.format_exception(refusal)
    # Not the lines of source, which are this file's.
    texts = [line for line in lines if not line.startswith("  File")]
    return "\n".join([*texts, str(refusal), repr(refusal), str(refusal.args)])


def test_secrets_in_writes_are_cut_out(deployment: Subject) -> None:
    """In content and description, by method and by tool call, for the queue and the scratchpad."""
    session = marked(deployment, "s-writes")
    names: list[str] = []

    def write(way: int, scope: str, text: str, title: str) -> None:
        names.append(f"p{len(names)}")
        arguments = {"scope": scope, "path": names[-1], "content": text, "description": title}
        if way == 0:
            session.memory_write(**arguments)
            return
        if way == 1:
            answer = session.call_tool("memory_write", arguments, call_id=names[-1])
        elif way == 2:
            answer = session.call_tool("memory_write", json.dumps(arguments))
        else:
            answer = asyncio.run(session.acall_tool("memory_write", arguments))
        assert "error" not in json.loads(answer), answer
        _check(answer, where="in the answer to a call")

    for number, (text, _) in enumerate((SECRETS | BLOCKS).values()):
        for scope in ("assigned", "run"):
            write(number % 4, scope, f"Before.\n{text}\nAfter.", "a note")
            write((number + 1) % 4, scope, "a note", text.replace("\n", " "))
    _check(everything(deployment, session, names=names), where="after writing")
    changes = owner(deployment).changes(ACME)
    assert len(changes) == len(names) / 2
    for change in changes:
        assert change.content.startswith(("Before.", "a note")), "more than the secret is gone"
        assert change.content.endswith(("After.", "a note")), "more than the secret is gone"


def test_secrets_stay_cut_out_of_what_is_decided(deployment: Subject) -> None:
    """Accepted, rejected, replaced, restored, endorsed: the texts and the reasons of each act."""
    session = marked(deployment, "s-decided")
    boss = owner(deployment)
    ids = []
    for number, (text, _) in enumerate(SECRETS.values()):
        receipt = session.memory_write("assigned", f"p{number}", text, text)
        change = queued(deployment, receipt.change_id)
        ids.append(change.id)
        if number % 4 == 0:
            boss.reject(ACME, change.id, f"no: {text}\n{text}")
        elif number % 4 == 1:
            boss.accept(ACME, change.id, change.digest, endorse=f"seen: {text}")
        elif number % 4 == 2:
            entry = boss.accept(ACME, change.id, change.digest)
            boss.endorse(ACME, entry.path, entry.digest, f"seen: {text}")
        else:
            boss.write(ACME, change.path, f"mine: {text}", text, based_on=change.id)
            first = boss.history(ACME, change.path)[0]
            boss.write(ACME, change.path, f"again: {text}", text, expected_version=1)
            boss.restore(ACME, change.path, first.digest)
    shown = everything(deployment, session, names=[f"p{n}" for n in range(len(SECRETS))])
    _check(shown, where="after the decisions")
    backend = deployment.backend("owner", ACME)
    decisions = [backend.standing(ACME, change_id).decision for change_id in ids]
    assert all(decisions), "a decision isn't on record"
    _check(json.dumps([d.to_dict() for d in decisions], ensure_ascii=False), where="in a decision")


def test_secrets_in_a_jobs_texts_are_cut_out(deployment: Subject) -> None:
    """Content, description, rationale and evidence of a proposal, open and accepted."""
    job = dreamer(deployment)
    job.snapshot("all")
    for number, (text, _) in enumerate(SECRETS.values()):
        proposed = job.propose(
            f"p{number}", text, text, rationale=f"as noted:\n{text}", evidence=("fine", text)
        )
        _check(json.dumps(proposed.to_dict(), ensure_ascii=False), where="in what propose returns")
    _check(everything(deployment), where="in the queue")
    for change in owner(deployment).changes(ACME, "proposal"):
        assert change.evidence[0] == "fine"
        accept(deployment, change.id)
    _check(everything(deployment), where="after accepting")


def test_secrets_in_an_owners_texts_are_cut_out(deployment: Subject) -> None:
    """An owner pastes them too, into org's memory as well."""
    for number, (text, _) in enumerate((SECRETS | BLOCKS).values()):
        title = text.replace("\n", " ")
        for scope in (ACME, "org"):
            entry = publish(deployment, f"p{number}", f"Before {text}", title, scope=scope)
            assert entry.content.startswith("Before ")
            _check(json.dumps(entry.to_dict(), ensure_ascii=False), where="in what write returns")
    _check(everything(deployment))


def test_secrets_in_marks_are_cut_out(deployment: Subject) -> None:
    """Reason, origin and the name of a source; a mark is never refused for what it says."""
    session = agent(deployment, "s-marks")
    for text, _ in (SECRETS | BLOCKS).values():
        session.mark_tainted(text, origin=f"https://x.example/?q={text}")
        session.tainting(lambda: None, reason=f"reader of {text}")()

    def named() -> None:
        """Do nothing."""

    named.__name__ = SECRET
    session.tainting(named)()
    assert len(session.sources) > len(SECRETS)
    receipt = session.memory_write("assigned", "p", "x", "d")
    _check(everything(deployment, session))
    entry = accept(deployment, receipt.change_id)
    _check(json.dumps(entry.to_dict(), ensure_ascii=False), where="in an entry's sources")


def test_a_name_that_holds_a_secret_is_refused(deployment: Subject) -> None:
    """Paths and ids can't be rewritten, so they are refused, in words that don't repeat them."""
    session, boss, job = agent(deployment), owner(deployment), dreamer(deployment)
    job.snapshot()
    change = queued(deployment, session.memory_write("assigned", "open", "x", "d").change_id)
    backend = deployment.backend("agent", ACME)
    for name in (SECRET, f"old-{SECRET}"):
        attempts: dict[str, Callable[[], Any]] = {
            "path of a note": partial(session.memory_write, "run", name, "x", "d"),
            "path of a write": partial(session.memory_write, "assigned", f"keys/{name}", "x", "d"),
            "path of a proposal": partial(job.propose, name, "x", "d"),
            "path of an owner": partial(boss.write, ACME, name, "x", "d"),
            "path of an edit": partial(boss.write, ACME, name, "x", "d", based_on=change.id),
            "session id": partial(agent, deployment, name),
            "agent": partial(agent, deployment, "s-2", agent=name),
            "child": partial(session.child, name),
            "container": partial(agent, deployment, assigned=f"tenant:{name}", backend=backend),
            "job id": partial(dreamer, deployment, ACME, name),
            "owner's name": partial(owner, deployment, ACME, name),
        }
        for what, attempt in attempts.items():
            with refused(InvalidArguments, note=f"({what})") as refusal:
                attempt()
            _check(_told(refusal.error), SECRET, where=f"in a refusal ({what})")
        for scope in ("run", "assigned"):
            arguments = {"scope": scope, "path": name, "content": "x", "description": "d"}
            answer = session.call_tool("memory_write", arguments)
            assert "error" in json.loads(answer)
            _check(answer, SECRET, where="in a refusal for the model")
    _check(everything(deployment, session), SECRET)
    assert [c.id for c in boss.changes(ACME)] == [change.id]
    assert not whole_index(session, "run")


def test_no_refusal_repeats_a_secret(deployment: Subject) -> None:
    """Whatever a call is refused for: its error says nothing of what was submitted."""
    publish(deployment, "held")
    session, boss, job = agent(deployment), owner(deployment), dreamer(deployment)
    job.snapshot()
    text = f"key {SECRET}"
    write = {"scope": "assigned", "path": "p", "content": text, "description": text}
    attempts: list[Callable[[], Any]] = [
        partial(session.memory_write, "assigned", "held", text, text),
        partial(session.memory_write, "assigned", "p", text, text, 7),
        partial(session.memory_write, "assigned", "p", text, text + " " * 200),
        partial(session.memory_write, "assigned", "p", text, text + "\n"),
        partial(session.memory_write, "assigned", "p", text + "\ud800", text),
        partial(session.memory_write, "assigned", "p", text * 3_000, text),
        partial(session.memory_write, text, "p", text, text),
        partial(session.memory_read, "run", SECRET),
        partial(session.memory_read, f"run:{SECRET}", "p"),
        partial(session.memory_index, "run", text),
        partial(session.memory_search, "run", text * 100),
        partial(job.propose, "p", text, text, evidence=(text * 10,)),
        partial(job.propose, "p", text, text, evidence=(text,) * 50),
        partial(job.propose, "p", text, text, rationale=text * 200),
        partial(boss.write, ACME, "held", text, text),
        partial(boss.write, ACME, "p", text, text, based_on=SECRET),
        partial(boss.accept, ACME, SECRET, SECRET),
        partial(boss.reject, ACME, SECRET, text),
        partial(boss.endorse, ACME, "held", SECRET, text),
        partial(boss.restore, ACME, "held", SECRET),
    ]
    for number, attempt in enumerate(attempts):
        with refused(SamsError, note=f"(attempt {number})") as refusal:
            attempt()
        _check(_told(refusal.error), SECRET, where=f"in a refusal (attempt {number})")
    calls: list[tuple[str, Any]] = [
        ("memory_write", write | {"path": "held"}),
        ("memory_write", write | {SECRET: SECRET}),
        ("memory_write", write | {"expected_version": SECRET}),
        ("memory_write", write | {"scope": SECRET}),
        ("memory_write", json.dumps(write)[:-1]),
        ("memory_read", {"scope": "run", "path": SECRET}),
        ("memory_index", {"scope": "run", "cursor": SECRET}),
        (SECRET, write),
    ]
    for name, arguments in calls:
        answer = session.call_tool(name, arguments)
        assert "error" in json.loads(answer)
        _check(answer, SECRET, where="in a refusal for the model")
    _check(everything(deployment, session))
    assert not boss.changes(ACME)


def test_a_disguised_secret_is_cut_out_too(deployment: Subject) -> None:
    """Invisible characters, compatibility forms and one encoding don't carry it past the store."""
    session = agent(deployment)
    for number, (way, spelled) in enumerate(DISGUISED.items()):
        text = f"keep {spelled} for later"
        receipt = session.memory_write("assigned", f"p{number}", text, "a note")
        stored = queued(deployment, receipt.change_id).content
        assert spelled not in stored, way
        _check(stored, SECRET, spelled, where=f"in {way}")
        assert stored.startswith("keep "), way
        assert stored.endswith(" for later"), way
    _check(everything(deployment, session), SECRET)


def test_a_secret_isnt_found_by_looking_for_it(deployment: Subject) -> None:
    """The index that search uses is made of what is stored, too."""
    session = agent(deployment)
    publish(deployment, "curated", f"deploy {SECRET} now")
    session.memory_write("run", "noted", f"deploy {SECRET} now", "d")
    for scope in ("assigned", "run"):
        assert len(session.memory_search(scope, "deploy").items) == 1
        for query in (SECRET, SECRET[:20], SECRET[4:], SECRET.lower()):
            assert not session.memory_search(scope, query).items


def test_ordinary_text_stays_as_it_was_written(deployment: Subject) -> None:
    """Ids, hashes, numbers, addresses of code and talk about secrets are no secrets."""
    session = agent(deployment)
    for number, text in enumerate(ORDINARY):
        receipt = session.memory_write("assigned", f"p{number}", text, text)
        change = queued(deployment, receipt.change_id)
        assert (change.content, change.description) == (text, text)
        session.memory_write("run", f"p{number}", text, text)
        assert session.memory_read("run", f"p{number}").content == text


@needs_durable
def test_no_file_of_the_store_holds_a_secret(deployment: Subject) -> None:
    """Neither another process nor, where the location is a folder, any byte below it."""
    with process(deployment) as there:
        session, job = there.agent("s-there"), there.dreamer()
        session.call("mark_tainted", f"page with {SECRET}", origin=f"https://x.example/{SECRET}")
        job.call("snapshot")
        for number, (text, _) in enumerate(SECRETS.values()):
            session.call("memory_write", "run", f"n{number}", text, text)
            session.call("memory_write", "assigned", f"p{number}", text, text)
            job.call("propose", f"d{number}", text, text, rationale=text, evidence=[text])
        boss = there.owner()
        for number, change in enumerate(boss.call("changes", ACME)):
            if number % 3:
                boss.call("reject", ACME, change["id"], f"no {SECRET}")
            else:
                boss.call("accept", ACME, change["id"], change["digest"])
        _files(deployment.location)
    _check(everything(deployment, agent(deployment, "s-there")))
    _files(deployment.location)


def _files(location: str) -> None:
    for file in Path(location).rglob("*"):
        if file.is_file():
            held = file.read_bytes()
            _check(held.decode("latin-1"), where=f"in a {file.suffix or 'plain'} file")
