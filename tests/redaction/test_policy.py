"""A store's own policy: it only adds, holds for everybody who opens the store, and fails closed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sams_core import (
    AgentSession,
    DreamerSession,
    InvalidArguments,
    MemoryBackend,
    Owner,
    PermissionDenied,
    SQLiteBackend,
    TextPolicy,
    load_policy,
    open_backend,
    redact,
)
from sams_core.backends.postgres import PostgresBackend
from sams_core.cli import main
from sams_core.redaction import Cuts, load_rules, policy_of

ACME = "tenant:acme"
BADGE = """
[[redaction.rules]]
id = "badge"
pattern = "BDG-[0-9]{6}"
catch = ["BDG-123456"]
"""
MAIL = "anna@shop.example"
TEXT = f"badge BDG-654321 of {MAIL}"
GITHUB = "ghp" + "_" + "Q3eGZ7nVX2kLMp4Wb9TcR5yHs8JdF6uA1oEi"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SAMS_BASE", "SAMS_URL", "SAMS_OWNER", "SAMS_SESSION", "SAMS_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "policy.toml"
    file.write_text(BADGE + '[personal]\nemail = ["tenant:acme", "run"]\n')
    return file


@pytest.fixture
def rules(file: Path) -> Any:
    return load_rules(str(file))


def session(backend: Any, name: str = "s1", agent: str = "bot") -> AgentSession:
    return AgentSession(
        backend, session_id=name, agent=agent, assigned=ACME, user="insider", observed="by-hand"
    )


# What a policy says.


def test_a_kind_of_personal_data_is_cut_in_its_scopes_only() -> None:
    policy = TextPolicy(
        personal={
            "email": ["org"],
            "card": ["project:*"],
            "iban": ["tenant:acme"],
            "phone": ["run"],
        }
    )
    for scope, kinds in {
        "org": {"email"},
        "project:shop": {"card"},
        "project:*": {"card"},
        "tenant:acme": {"iban"},
        "tenant:acme2": set(),
        "tenant:*": set(),
        "tenant:org": set(),
        "run:s1": {"phone"},
        "run:s1/child": {"phone"},
    }.items():
        assert policy.at(scope).personal == kinds, scope
    assert policy.at("org", "run:x").personal == {"email", "phone"}
    assert policy.at() == Cuts()


def test_a_policy_adds_to_the_shipped_rules_and_to_another_policy(rules: Any) -> None:
    one = TextPolicy(rules, {"email": ["org"]})
    both = one | TextPolicy(rules, {"email": ["run"], "card": ["org"]})
    assert len(both.rules) == 1
    assert both.at("org").personal == {"email", "card"}
    assert both.at("run:x").personal == {"email"}
    cuts = both.at("org")
    text = redact(f"{TEXT} {GITHUB}", personal=cuts.personal, rules=cuts.rules).text
    assert text == "badge [REDACTED:badge] of [REDACTED:email@shop.example] [REDACTED:github-token]"


def test_an_added_rule_under_a_shipped_ones_id_replaces_nothing(tmp_path: Path) -> None:
    file = tmp_path / "sams.toml"
    file.write_text(BADGE.replace('"badge"', '"github-token"'))
    cuts = load_policy(file).at("org")
    text = redact(f"{GITHUB} BDG-123456", rules=cuts.rules).text
    assert text == "[REDACTED:github-token] [REDACTED:github-token]"


def test_a_list_that_is_changed_later_changes_no_policy() -> None:
    scopes = ["org"]
    policy = TextPolicy(personal={"email": scopes})
    scopes.append("run")
    assert not policy.at("run:x")


@pytest.mark.parametrize(
    ("personal", "why"),
    [
        ({"mail": ["org"]}, "kinds of personal data are"),
        ({"email": ["team:x"]}, "a list of"),
        ({"email": ["project"]}, "a list of"),
        ({"email": ["run:s1"]}, "a list of"),
        ({"email": ["*"]}, "a list of"),
        ({"email": [3]}, "a list of"),
        ({"email": [["org"]]}, "a list of"),
        ({"email": "org"}, "a list of"),
    ],
)
def test_a_kind_or_a_scope_that_does_not_exist_is_refused(personal: Any, why: str) -> None:
    with pytest.raises(InvalidArguments, match=why) as caught:
        TextPolicy(personal=personal)
    assert caught.value.rule == "text-policy"


BROKEN = {
    "no TOML": "= =",
    "no text": b"\xff\xfe",
    "another table": "[persnal]\nemail = []\n",
    "another key": "[[redaction.rule]]\nid = 'x'\n",
    "a key at the top": "email = ['org']\n",
    "redaction is no table": "redaction = 3\n",
    "personal is no table": "personal = ['email']\n",
    "another kind": "[personal]\nmail = ['org']\n",
    "another scope": "[personal]\nemail = ['everywhere']\n",
    "one scope that is no list": "[personal]\nemail = 'org'\n",
    "a table of scopes": "[personal.email]\norg = true\n",
    "no pattern": "[[redaction.rules]]\nid = 'x'\ncatch = ['y']\n",
    "no RE2": "[[redaction.rules]]\nid = 'x'\npattern = '(?=x)y'\ncatch = ['y']\n",
    "a rule to switch off": "[[redaction.rules]]\nid = 'jwt'\nenabled = false\n",
    "too long": "#" * 1_000_001,
    "too deep": "x = " + "[" * 100_000,
    "a number of too many digits": "x = " + "9" * 5_000,
    "a rule that nothing passes": (
        "[[redaction.rules]]\nid = 'x'\npattern = 'y'\ncatch = ['y']\nentropy = nan\n"
    ),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_file_that_says_something_else_refuses_all_work(
    text: str | bytes, tmp_path: Path
) -> None:
    gc.collect()  # or another test's leftovers are finalised where the recursion ends
    base = tmp_path / "store"
    backend = SQLiteBackend(base)
    mine = session(backend)
    (base / "sams.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    for work in (
        lambda: session(backend, "s2"),
        lambda: mine.child("helper"),
        lambda: Owner(backend, "olga"),
        lambda: DreamerSession(backend, job_id="nightly", scope=ACME),
        lambda: load_policy(base / "sams.toml"),
    ):
        with pytest.raises(InvalidArguments) as caught:
            work()
        assert caught.value.rule == "text-policy"
        assert str(caught.value).startswith("sams.toml: ")
    for words in (["review", "list", ACME], ["doctor"], ["init", ACME]):
        done = CliRunner().invoke(main, ["--base", str(base), *words])
        assert done.exit_code == 1
        assert done.stderr.startswith("refused (text-policy): sams.toml: ")
        assert "Traceback" not in done.output


def test_a_file_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "sams.toml").mkdir()
    with pytest.raises(InvalidArguments, match="not a file"):
        session(SQLiteBackend(tmp_path))
    with pytest.raises(InvalidArguments, match="no such file"):
        load_policy(tmp_path / "nothing.toml")


# Whom it holds for.


def test_a_file_in_the_store_holds_for_every_process_that_opens_it(
    tmp_path: Path, file: Path
) -> None:
    base = tmp_path / "store"
    base.mkdir()
    file.rename(base / "sams.toml")
    script = f"""
        from sams_core import *
        backend = open_backend({f"sqlite:{base}"!r})
        session = AgentSession(backend, session_id="s1", agent="bot", assigned={ACME!r},
                               user="insider", observed="by-hand")
        session.mark_tainted({TEXT!r}, origin={TEXT!r})
        session.memory_write("run", "note", {TEXT!r}, {TEXT!r})
        session.memory_write("assigned", "write", {TEXT!r}, {TEXT!r})
        job = DreamerSession(backend, job_id="nightly", scope={ACME!r})
        job.snapshot()
        job.propose("proposal", {TEXT!r}, {TEXT!r}, rationale={TEXT!r}, evidence=[{TEXT!r}])
        owner = Owner(backend, "olga")
        owner.write({ACME!r}, "own", {TEXT!r}, {TEXT!r})
        for change in owner.changes({ACME!r}):
            owner.reject({ACME!r}, change.id, {TEXT!r})
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, cwd=os.getcwd())
    held = b"".join(f.read_bytes() for f in base.rglob("*") if f.is_file() and f.suffix != ".toml")
    assert b"BDG-654321" not in held
    assert MAIL.encode() not in held
    assert held.count(b"[REDACTED:badge]") >= 10
    entry = Owner(SQLiteBackend(base), "olga").get(ACME, "own")
    assert entry is not None
    assert entry.content == "badge [REDACTED:badge] of [REDACTED:email@shop.example]"


def test_a_policy_given_in_code_adds_to_the_stores_own(tmp_path: Path, rules: Any) -> None:
    base = tmp_path / "store"
    base.mkdir()
    (base / "sams.toml").write_text("[personal]\nemail = ['run']\n")
    for backend in (
        SQLiteBackend(base, policy=TextPolicy(rules)),
        open_backend(f"sqlite:{base}", TextPolicy(rules)),
    ):
        assert policy_of(backend) == TextPolicy(rules, {"email": ["run"]})
    assert policy_of(open_backend("memory:", TextPolicy(rules))) == TextPolicy(rules)
    assert policy_of(MemoryBackend()) == TextPolicy()


def test_a_policy_is_given_to_a_database_in_each_process(rules: Any) -> None:
    url = "postgresql://nobody@localhost:1/none"  # nothing connects yet
    for backend in (
        PostgresBackend(url, policy=TextPolicy(rules)),
        open_backend(url, TextPolicy(rules)),
    ):
        assert policy_of(backend) == TextPolicy(rules)
    assert policy_of(PostgresBackend(url)) == TextPolicy()


def test_a_changed_file_counts_from_the_next_session_on(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path)
    first = session(backend, "s1")
    (tmp_path / "sams.toml").write_text(BADGE)
    second = session(backend, "s2")
    for one, kept in ((first, True), (second, False)):
        one.memory_write("run", "note", "BDG-654321", "d")
        assert (one.memory_read("run", "note").content == "BDG-654321") is kept


def test_a_file_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tomllib

    (tmp_path / "sams.toml").write_text(BADGE)
    parsed: list[str] = []
    loads = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: parsed.append(text) or loads(text))
    backend = SQLiteBackend(tmp_path)
    for number in range(5):
        session(backend, f"s{number}").memory_write("run", "note", "BDG-654321", "d")
        Owner(SQLiteBackend(tmp_path), "olga").changes(ACME)
    assert len(parsed) == 1


def test_names_that_the_policy_would_change_are_refused_where_it_counts() -> None:
    kinds = {"email": ["tenant:acme"], "card": ["run"], "phone": ["org"]}
    backend = MemoryBackend(policy=TextPolicy(personal=kinds))
    card, phone = "4111111111111111", "555-234-5678"
    for refused in (
        lambda: session(backend, MAIL),
        lambda: session(backend, "s1", MAIL),
        lambda: session(backend, card),
        lambda: session(backend).child(card),
        lambda: session(backend).memory_write("run", f"cards/{card}", "x", "d"),
        lambda: DreamerSession(backend, job_id=MAIL, scope=ACME),
        lambda: Owner(backend, MAIL).changes(ACME),
        lambda: Owner(backend, "olga").write("org", phone, "x", "d"),
    ):
        with pytest.raises(InvalidArguments) as caught:
            refused()
        assert caught.value.rule == "secret-in-name"
    Owner(backend, MAIL).write("org", f"cards/{card}", "x", "d")
    session(backend).memory_write("assigned", f"cards/{card}", "x", "d")


def test_half_a_value_is_not_kept_where_a_marks_text_is_clipped(file: Path) -> None:
    backend = MemoryBackend(policy=load_policy(file))
    mine = session(backend)
    mine.mark_tainted("x" * 190 + " BDG-654321", origin="y" * 185 + f" {MAIL}")
    (source,) = mine.sources
    assert "BDG" not in source.name
    assert "anna" not in (source.origin or "")
    assert len(source.name) == len(source.origin or "") == 200


def test_one_family_cuts_what_any_of_its_openers_asked_for(tmp_path: Path, rules: Any) -> None:
    weak, strict = SQLiteBackend(tmp_path), SQLiteBackend(tmp_path, policy=TextPolicy(rules))
    one = session(weak)
    other = session(strict)
    assert one.family is other.family
    one.mark_tainted("BDG-654321")
    assert one.sources[0].name == "[REDACTED:badge]"


# An owner whose policy is stricter than the agents'.


@pytest.fixture
def weak(tmp_path: Path) -> SQLiteBackend:
    return SQLiteBackend(tmp_path / "store")


@pytest.fixture
def strict(tmp_path: Path, file: Path, weak: SQLiteBackend) -> SQLiteBackend:
    return SQLiteBackend(tmp_path / "store", policy=load_policy(file))


def test_a_stricter_owner_sees_and_serves_the_cut_text_and_a_flag_says_so(
    weak: SQLiteBackend, strict: SQLiteBackend
) -> None:
    session(weak).memory_write("assigned", "p", TEXT, "d")
    owner, lax = Owner(strict, "olga"), Owner(weak, "olga")
    (shown,) = owner.changes(ACME)
    assert shown.content == "badge [REDACTED:badge] of [REDACTED:email@shop.example]"
    assert [flag.field for flag in shown.flags if flag.rule == "uncut"] == ["content"]
    (other,) = lax.changes(ACME)
    assert not any(flag.rule == "uncut" for flag in other.flags)
    assert other.digest != shown.digest
    with pytest.raises(Exception, match="changed since review"):
        owner.accept(ACME, shown.id, other.digest)
    served = owner.accept(ACME, shown.id, shown.digest)
    assert served.content == shown.content


def test_a_stricter_owner_serves_no_change_whose_name_it_would_cut(
    weak: SQLiteBackend, strict: SQLiteBackend
) -> None:
    session(weak).memory_write("assigned", "badges/BDG-654321", "x", "d")
    session(weak, "s2", f"bot of {MAIL}").memory_write("assigned", "p", "x", "d")
    session(weak, f"s3-{MAIL}").memory_write("assigned", "q", "x", "d")
    owner = Owner(strict, "olga")
    changes = owner.changes(ACME)
    assert len(changes) == 3
    for change in changes:
        with pytest.raises(InvalidArguments) as caught:
            owner.accept(ACME, change.id, change.digest)
        assert caught.value.rule == "secret-in-name"
        owner.reject(ACME, change.id)


def test_a_version_that_is_cut_by_now_is_not_published_again(
    weak: SQLiteBackend, strict: SQLiteBackend
) -> None:
    dirty = session(weak)
    dirty.mark_tainted("a page")
    dirty.memory_write("assigned", "p", TEXT, "d")
    lax, owner = Owner(weak, "olga"), Owner(strict, "olga")
    (change,) = lax.changes(ACME)
    entry = lax.accept(ACME, change.id, change.digest)
    with pytest.raises(PermissionDenied) as caught:
        owner.endorse(ACME, "p", entry.digest, "checked")
    assert caught.value.rule == "text-policy"
    owner.retire(ACME, "p")
    with pytest.raises(PermissionDenied) as caught:
        owner.restore(ACME, "p", entry.digest)
    assert caught.value.rule == "text-policy"
    assert owner.get(ACME, "p") is None


def test_what_an_added_rule_finds_is_flagged(file: Path) -> None:
    backend = MemoryBackend(policy=load_policy(file))
    session(backend).memory_write("assigned", "p", "badge BDG-654321", "d")
    (change,) = Owner(backend, "olga").changes(ACME)
    assert [(f.rule, f.start, f.end) for f in change.flags] == [("credential", 6, 16)]


# The command line.


def test_the_command_line_cuts_what_the_store_or_an_option_says(
    weak: SQLiteBackend, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(weak).memory_write("assigned", "p", TEXT, "d")
    base = str(weak.folders.base)

    def shown(*words: str) -> Result:
        (change,) = Owner(weak, "olga").changes(ACME)
        command = ["review", "show", ACME, change.id, "--base", base, *words]
        return CliRunner().invoke(main, command)

    assert "BDG-654321" in shown().output
    option = shown("--config", str(file))
    assert option.exit_code == 0, option.output
    assert "BDG-654321" not in option.output
    assert f"--config {file}" in option.output  # the printed command decides on what was shown
    assert "BDG-654321" not in shown("--config", str(file), "--json").output
    monkeypatch.setenv("SAMS_CONFIG", str(file))
    assert "BDG-654321" not in shown().output
    monkeypatch.setenv("SAMS_CONFIG", str(file) + "x")
    assert shown().exit_code == 1
    monkeypatch.delenv("SAMS_CONFIG")
    file.rename(weak.policy_file)
    assert "BDG-654321" not in shown().output


def test_a_text_can_be_tried_against_a_policy(file: Path) -> None:
    def cut(*words: str) -> Result:
        return CliRunner().invoke(main, ["redact", *words], input=TEXT)

    rules = ("--rules", str(file))
    assert cut(*rules, "--scope", ACME).stdout == (
        "badge [REDACTED:badge] of [REDACTED:email@shop.example]"
    )
    assert MAIL not in cut(*rules, "--scope", "run").stdout
    assert cut(*rules, "--scope", "org").stdout == f"badge [REDACTED:badge] of {MAIL}"
    assert cut("--scope", ACME).exit_code == 2
    assert cut(*rules, "--scope", "everything").exit_code == 1


def test_a_policy_in_the_stores_folder_is_no_leftover(weak: SQLiteBackend, file: Path) -> None:
    session(weak)
    file.rename(weak.policy_file)
    weak.policy_file.chmod(0o666)
    found = CliRunner().invoke(main, ["doctor", "--base", str(weak.folders.base)]).output
    assert "leftovers" not in found
    assert "sams.toml is writable for" in " ".join(found.replace("↳", " ").split())
