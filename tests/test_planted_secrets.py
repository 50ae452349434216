"""What redaction cuts, planted everywhere: no byte of the store, no output holds it.

A secret of every shipped rule; and what a store's own policy cuts, added rules and personal data.
"""

from __future__ import annotations

import base64
import logging
import random
import re
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import re2
from click.testing import CliRunner

from sams_core import (
    AgentSession,
    Backend,
    DreamerSession,
    MemoryBackend,
    Owner,
    SQLiteBackend,
    load_policy,
)
from sams_core.cli import main
from sams_core.errors import InvalidArguments, LimitExceeded, SamsError
from sams_core.redaction import personal, policy_of
from sams_core.redaction.examples import expand
from sams_core.redaction.rules import shipped
from sams_core.screen import cut
from sams_core.taint import make_source

ACME = "tenant:acme"
# What an example's template fills in; the longest of it, or else the longest word, is the secret.
FILLED = re.compile(r"<[AaULhdbw][0-9]{1,4}>")
# What no rule of a file finds: blocks, assignments, sentences.
OTHERS = {
    "key block": (
        "-----BEGIN OPENSSH PRIVATE KEY-----\n<b64>\n<b64>\n-----END OPENSSH PRIVATE KEY-----"
    ),
    "assignment": "db_password: <A18>",
    "spoken": "the password is <A16>",
    "gesprochen": "Das Passwort lautet <A16>",
}


@dataclass(frozen=True)
class Planted:
    """An example's text, and the parts of it that may be nowhere."""

    rule: str
    text: str
    secrets: tuple[str, ...]
    line: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "line", self.text.replace("\n", " "))


def planted(rule: str, template: str, seed: str) -> Planted:
    text = expand(template, seed)
    if not FILLED.search(template):
        return Planted(rule, text, (max(re.findall("[A-Za-z0-9]+", text), key=len),))
    # What stands between the fixed parts of the template is what was filled in.
    fixed = "(.*?)".join(re.escape(part) for part in FILLED.split(template))
    found = re.fullmatch(fixed, text, re.DOTALL)
    assert found
    parts = sorted(found.groups(), key=len)
    return Planted(rule, text, tuple(p for p in parts if len(p) == len(parts[-1])))


PLANTED = [planted(rule.id, rule.catch[0], f"{rule.id}/1") for rule in shipped()]
PLANTED += [planted(name, template, f"sweep/{name}") for name, template in OTHERS.items()]


def spellings(secret: str) -> Iterator[bytes]:
    """Every form in which a file could hold it: encodings, and base64 at each of three offsets."""
    # A part is enough, and half a secret is too much; so is a secret in other letters.
    whole = secret if len(secret) < 20 else secret[2:-2]
    for piece in {whole, whole.lower()}:
        raw = piece.encode()
        yield from (raw, piece.encode("utf-16-le"), piece.encode("utf-16-be"), raw.hex().encode())
        for offset in range(3):
            coded = base64.b64encode(b"\0" * offset + raw)
            yield coded[4 : len(coded) - len(coded) % 4 - 4]
    half = len(whole) // 2
    if half >= 12:
        yield from (whole[:half].encode(), whole[half:].encode())


class Needles:
    """The forms of some secrets, to be looked for."""

    def __init__(self, planted: list[Planted]) -> None:
        forms = [(p.rule, form) for p in planted for part in p.secrets for form in spellings(part)]
        self.forms = [(rule, form) for rule, form in forms if len(form) >= 6]
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = 256 << 20
        # One automaton for all of them: a scan for each takes forty times as long.
        self.any = re2.compile(b"|".join(re2.escape(form) for _, form in self.forms), options)

    def found_in(self, held: bytes) -> set[str]:
        """Return the rules of whose secrets a form is in there."""
        if self.any.search(held) is None:
            return set()
        return {rule for rule, form in self.forms if form in held}


@cache
def of_shipped_rules() -> Needles:
    return Needles(PLANTED)


# What only a store's own policy cuts. The e-mail's domain stays.
POLICY = """
[personal]
email = ["org", "project:*", "tenant:*", "run"]
card = ["org", "project:*", "tenant:acme", "run"]
iban = ["org", "tenant:acme", "run"]
phone = ["org", "tenant:*", "run"]

[[redaction.rules]]
id = "badge"
pattern = "BDG-([0-9]{8})"
catch = ["BDG-12345678"]

[[redaction.rules]]
id = "case-number"
pattern = "(?i)case [0-9]{5} [0-9]{5} [0-9]{5}"
keywords = ["case"]
catch = ["case 12345 12345 12345"]
"""


def planted_policy() -> Iterator[Planted]:
    """Ten of each kind, so that every way in meets every kind."""
    draw = random.Random(17)

    def digits(count: int) -> str:
        return "".join(draw.choices("23456789", k=count))

    for _ in range(10):
        number = digits(8)
        yield Planted("badge", f"BDG-{number}", (number,))
        number = " ".join(digits(5) for _ in range(3))
        yield Planted("case-number", f"Case {number}", (number,))
        name = "".join(draw.choices("bcdfghkmnpqrstvz", k=12))
        yield Planted("email", f"{name}@shop.example", (name,))
        number = next(n for n in iter(lambda: "4" + digits(15), "") if personal.luhn(n))
        yield Planted("card", number, (number,))
        account = digits(18)
        check = next(f"{n:02}" for n in range(2, 99) if personal.mod97(f"DE{n:02}{account}"))
        yield Planted("iban", f"DE{check}{account}", (account,))
        number = f"{digits(3)}-{digits(3)}-{digits(4)}"
        yield Planted("phone", number, (number,))


class Sweep:
    """A store in which every secret was planted, and all that was said meanwhile."""

    def __init__(self, backend: Backend, planted: list[Planted]) -> None:
        self.backend = backend
        self.planted = planted
        self.short = [one for one in planted if len(one.text) <= 150 and "\n" not in one.text]
        self.owner = Owner(self.backend, "olga")
        self.said: list[str] = []
        self.refused = 0
        self.count = 0

    def session(self, name: str) -> AgentSession:
        self.count += 1
        return AgentSession(
            self.backend,
            session_id=f"{name}-{self.count}",
            agent="bot",
            assigned=ACME,
            user="insider",
            observed="by-hand",
        )

    def say(self, *what: Any) -> None:
        for one in what:
            self.said.append(str(one.to_dict() if hasattr(one, "to_dict") else one))
            if hasattr(one, "diff"):
                self.said.append(one.diff())

    def expect(self, *kinds: type[SamsError]) -> Refusal:
        return Refusal(self, kinds or (SamsError,))


class Refusal:
    """A block that must be refused; everything that the exception says is kept."""

    def __init__(self, sweep: Sweep, kinds: tuple[type[SamsError], ...]) -> None:
        self.sweep, self.kinds = sweep, kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, tb: Any) -> bool:
        assert error is not None, "not refused"
        if not isinstance(error, self.kinds):
            return False
        frames = traceback.TracebackException(kind, error, tb, lookup_lines=False)
        self.sweep.refused += 1
        self.sweep.say(error, repr(error), vars(error), *frames.format_exception_only())
        for behind in (error.__cause__, None if error.__suppress_context__ else error.__context__):
            self.sweep.say(repr(behind))
        return True


def plant_as_agent(sweep: Sweep) -> None:
    session = sweep.session("writes")
    for number, one in enumerate(sweep.planted):
        if number % 50 == 0:
            session = sweep.session("writes")
        path = f"p{number}"
        title = one.line if one in sweep.short else "d"
        sweep.say(session.memory_write("run", path, f"a\n{one.text}\nb", title))
        if number % 2:
            sweep.say(session.memory_write("assigned", path, f"a\n{one.text}\nb", title))
        else:
            given = {"scope": "assigned", "path": path, "content": one.text, "description": title}
            answer = session.call_tool("memory_write", given, call_id=one.line)
            assert "queued" in answer, answer
            sweep.say(answer)
        sweep.say(session.call_tool("memory_read", {"scope": "assigned", "path": path}))
    sweep.say(session.memory_index("run"), session.memory_search("run", "key token password a"))


def plant_in_marks(sweep: Sweep) -> None:
    session = sweep.session("marks")
    for number, one in enumerate(sweep.planted):
        if number % 40 == 0:
            session = sweep.session("marks")
        if number % 3 == 0:
            session.mark_tainted(one.text)
        elif number % 3 == 1:
            session.mark_tainted("a page", origin=one.text)
            session.tainting(lambda: None, reason=one.text)()
        else:
            session.tainting(partial(str), reason=one.text)()
        if number % 40 == 39:
            sweep.say(*session.sources, session.memory_write("assigned", "marked", "x", "d"))


def plant_as_job(sweep: Sweep) -> None:
    job = DreamerSession(sweep.backend, job_id="nightly", scope=ACME)
    sweep.say(job.snapshot("all"))
    for number, one in enumerate(sweep.planted):
        if number % 50 == 0:
            job = DreamerSession(sweep.backend, job_id=f"nightly-{number}", scope=ACME)
            job.snapshot("clean")
        evidence = (one.line,) if one in sweep.short else ("e",)
        title = one.line if one in sweep.short else "d"
        sweep.say(job.propose(f"d{number}", one.text, title, rationale=one.text, evidence=evidence))


def plant_as_owner(sweep: Sweep) -> None:
    boss = sweep.owner
    for number, one in enumerate(sweep.planted):
        title = one.line if one in sweep.short else "d"
        if number % 8 == 0:
            sweep.say(boss.write("org", f"o{number}", f"a\n{one.text}\nb", title))
    changes = boss.changes(ACME)
    sweep.say(*changes)
    by_path = {change.path: change for change in changes}
    for number, one in enumerate(sweep.planted):
        change = by_path[f"p{number}"]
        if number % 4 == 0:
            boss.reject(ACME, change.id, f"no:\n{one.text}")
        elif number % 4 == 1:
            why = one.line
            sweep.say(boss.accept(ACME, change.id, change.digest, endorse=why))
        elif number % 4 == 2:
            sweep.say(boss.write(ACME, change.path, one.text, "mine", based_on=change.id))
    marked = boss.accept(ACME, by_path["marked"].id, by_path["marked"].digest)
    digest = marked.digest
    for one in sweep.short[::8]:
        sweep.say(boss.endorse(ACME, "marked", digest, one.line))
        sweep.say(boss.restore(ACME, "marked", marked.digest))
        digest = sweep.owner.get(ACME, "marked").digest  # type: ignore[union-attr]
    sweep.say(*boss.history(ACME, "marked"))


def plant_in_names(sweep: Sweep) -> None:
    """Names are refused: in every role, and whatever other form they violate."""
    session = sweep.session("names")
    job = DreamerSession(sweep.backend, job_id="names", scope=ACME)
    job.snapshot("clean")

    def opened(**more: Any) -> AgentSession:
        given = {"session_id": "s", "agent": "a", "assigned": ACME} | more
        return AgentSession(sweep.backend, **given)

    def routes(name: str) -> Iterator[Callable[[], Any]]:
        yield partial(opened, session_id=name)
        yield partial(opened, agent=name)
        yield partial(session.child, name)
        yield partial(DreamerSession, sweep.backend, job_id=name, scope=ACME)
        yield lambda: Owner(sweep.backend, name).changes(ACME)  # e-mails are refused by scope
        yield partial(session.memory_write, "run", name, "x", "d")
        yield partial(session.memory_write, "assigned", name, "x", "d")
        yield partial(job.propose, name, "x", "d")
        yield partial(sweep.owner.write, ACME, name, "x", "d")
        scope = f"tenant:{name}"
        if cut(scope, policy_of(sweep.backend).at(scope)) != scope:
            # Some rules look at the start of a line only.
            yield partial(opened, assigned=scope)
            yield partial(DreamerSession, sweep.backend, job_id="j", scope=scope)

    for one in sweep.planted:
        for route in routes(one.text):
            with sweep.expect():
                route()
        given = {"scope": "run", "path": one.text, "content": "x", "description": "d"}
        answer = session.call_tool("memory_write", given)
        assert '"error"' in answer, one.rule
        sweep.say(answer)


def plant_in_errors(sweep: Sweep) -> None:
    """Refused for another reason: the refusal doesn't say what was in it."""
    session = sweep.session("errors")
    job = DreamerSession(sweep.backend, job_id="errors", scope=ACME)
    job.snapshot("clean")
    for one in sweep.planted:
        with sweep.expect(InvalidArguments):
            session.memory_write("run", "p", one.text, f"{one.line[:150]}\n")
        with sweep.expect(LimitExceeded):
            session.memory_write("run", "p", one.text, f"{one.line}{'.' * 200}")
        with sweep.expect():
            session.memory_write("run", "p", one.text, "d", 9)
        with sweep.expect(LimitExceeded):
            job.propose("p", one.text, "d", evidence=(one.line * 10 + "." * 200,))
        with sweep.expect():
            session.memory_search(one.text, one.text)
        with sweep.expect():
            sweep.owner.reject(ACME, one.text)
        sweep.say(session.call_tool("memory_write", {"scope": "run", one.text: one.text}))
        sweep.say(session.call_tool("memory_write", f'{{"content": "{one.text}"'))
        sweep.say(session.call_tool(one.text, {}))
        sweep.say(session.call_tool("memory_index", {"scope": one.text, "cursor": one.text}))


def read_by_command(sweep: Sweep, base: Path) -> None:
    """Every verb of the command line that reads the store, as text and as JSON."""

    def sams(*words: str) -> None:
        for more in ((), ("--json",)):
            result = CliRunner().invoke(main, ["--base", str(base), *words, *more])
            assert result.exit_code == 0, result.output
            sweep.said.append(result.output)

    changes = sweep.owner.changes(ACME)
    for group in ("review", "pending"):
        sams(group, "list", ACME, "--limit", "1000")
    for change in changes[:: max(1, len(changes) // 12)]:
        sams("review", "show", ACME, change.id)
    sams("history", ACME, "marked", "--text")
    for number in range(1, len(sweep.planted), 32):
        sams("history", ACME, f"p{number}", "--text")
    for words in (["doctor"], ["review", "show", ACME, "0" * 32], ["history", ACME, "nothing"]):
        if words[0] in main.commands:
            result = CliRunner().invoke(main, ["--base", str(base), *words])
            sweep.said.append(result.output)


def read_by_agent(sweep: Sweep) -> None:
    for name, reader in (("reads", sweep.session("reads")), ("dirty", sweep.session("dirty"))):
        if name == "dirty":
            reader.mark_tainted("a page")
        for scope in ("org", "assigned"):
            page = reader.memory_index(scope)
            sweep.say(page, reader.memory_search(scope, "key token password secret seen"))
            sweep.say(*(reader.memory_read(scope, item.path) for item in page.items))
        sweep.say(reader.context_block(1_000_000), *reader.sources, repr(reader))
    sweep.say(*sweep.backend.sessions(ACME))


def test_the_examples_say_what_is_secret_in_them() -> None:
    assert len(PLANTED) == len(shipped()) + len(OTHERS)
    for one in PLANTED:
        assert one.secrets and all(len(part) >= 8 for part in one.secrets), one.rule
        assert of_shipped_rules().found_in(one.text.encode()) >= {one.rule}
        assert of_shipped_rules().found_in(b"..\n" + base64.b64encode(one.text.encode())), one.rule
        assert of_shipped_rules().found_in(one.text.encode("utf-16-le")), one.rule


def plant(sweep: Sweep) -> None:
    plant_as_agent(sweep)
    plant_in_marks(sweep)
    plant_as_job(sweep)
    plant_in_names(sweep)
    plant_in_errors(sweep)
    plant_as_owner(sweep)
    read_by_agent(sweep)
    assert sweep.refused > 15 * len(sweep.planted)


@pytest.mark.parametrize("what", ["of every rule", "of the store's policy"])
def test_a_secret_planted_everywhere_is_nowhere(
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    base = tmp_path / "store"
    planted = PLANTED
    if what == "of the store's policy":
        planted = list(planted_policy())
        base.mkdir()
        (base / "sams.toml").write_text(POLICY)
    needles = Needles(planted)
    sweep = Sweep(SQLiteBackend(base), planted)
    plant(sweep)
    read_by_command(sweep, base)

    assert not needles.found_in("\n".join(sweep.said).encode("utf-8", "backslashreplace"))
    assert not needles.found_in(caplog.text.encode())
    shown = capfd.readouterr()
    assert not needles.found_in((shown.out + shown.err).encode())
    open_files = files(tmp_path)
    assert any(name.endswith("-wal") for name in open_files), "no log was open"
    for part in ("curated", "queue", "ledger", "runs"):
        assert any(f"/{part}/" in name for name in open_files), part
    sweep.backend.close()
    for held in (open_files, files(tmp_path)):
        assert {
            name: kinds for name, data in held.items() if (kinds := needles.found_in(data))
        } == {}
    assert b"REDACTED" in b"".join(open_files.values())


def test_what_a_policy_cuts_is_in_no_store_that_was_given_one(
    backend: Backend, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    backend.policy = load_policy(tmp_path / "policy.toml")  # type: ignore[attr-defined]
    planted = list(planted_policy())
    needles = Needles(planted)
    sweep = Sweep(backend, planted)
    plant(sweep)
    assert not needles.found_in("\n".join(sweep.said).encode("utf-8", "backslashreplace"))
    held = kept_by(backend, request, tmp_path)
    assert needles.found_in(held) == set()
    assert held.count(b"REDACTED:case-number") > 10


def kept_by(backend: Backend, request: pytest.FixtureRequest, folder: Path) -> bytes:
    """All that a store holds, in whatever form."""
    if isinstance(backend, MemoryBackend):
        return repr((vars(backend), list(backend._db.iterdump()))).encode()
    if isinstance(backend, SQLiteBackend):
        return b"".join(files(folder).values())
    import psycopg

    with psycopg.connect(request.getfixturevalue("database").admin) as db:
        tables = db.execute(
            "SELECT quote_ident(table_name) FROM information_schema.tables"
            " WHERE table_schema = 'sams' AND table_type = 'BASE TABLE'"
        ).fetchall()
        assert tables
        rows = [db.execute(f"SELECT t::text FROM sams.{t} t").fetchall() for (t,) in tables]  # type: ignore[arg-type]
    return repr(rows).encode()


def files(folder: Path) -> dict[str, bytes]:
    """Every file below, under its name; the name is searched too."""
    return {
        str(file): f"{file.relative_to(folder)}\n".encode() + file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_half_a_secret_isnt_kept_where_a_marks_text_is_cut_off() -> None:
    token = expand("ghp_<A36>", "half")
    assert token[:16] not in make_source("reason", "x" + " " * 775 + token).name


def test_an_owner_refuses_a_scope_that_holds_a_secret(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path / "store")
    with pytest.raises(SamsError):
        Owner(backend, "olga").write(f"tenant:{expand('ghp_<A36>', 'scope')}", "p", "x", "d")
