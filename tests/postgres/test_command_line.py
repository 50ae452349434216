"""The command line on Postgres: setting up, reviewing, and keeping the password to itself."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from sams_conformance.postgres_server import Database
from sams_core.cli import main

from .conftest import ACME, Store


def _sams(url: str, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, arguments, env={"SAMS_URL": url, "SAMS_OWNER": "olga"})
    assert result.exit_code == code, (result.output, result.exception)
    password = url.split(":")[2].split("@")[0] if url.count(":") > 2 else None
    assert password is None or password not in result.output
    return result.output


@pytest.fixture
def empty(tmp_path):
    made = Database(f"{tmp_path} cli")
    made.create(install=False)
    yield made
    made.drop()


def test_an_administrator_installs_grants_lists_and_revokes(empty: Database) -> None:
    assert "run `sams admin install`" in _sams(empty.admin, "admin", "grants", code=1)
    for _ in range(2):
        assert "schema version" in _sams(empty.admin, "admin", "install")
    empty.login("bot")
    login = empty.login_name("bot")
    out = _sams(empty.admin, "admin", "grant", login, "agent", ACME)
    assert "tainted from the start" in out
    _sams(empty.admin, "admin", "grant", login, "agent", ACME, "--clean-sessions")
    (found,) = json.loads(_sams(empty.admin, "admin", "grants", "--json"))
    assert found == {
        "login": login, "role": "agent", "container": ACME, "clean_sessions": True
    }  # fmt: skip
    assert login in _sams(empty.admin, "admin", "grants")
    _sams(empty.admin, "admin", "revoke", login, "agent", ACME)
    _sams(empty.admin, "admin", "revoke", login, "agent", ACME, code=1)
    _sams(empty.admin, "admin", "grant", "no-such-login", "agent", ACME, code=1)


def test_the_schema_is_printed_without_a_database() -> None:
    result = CliRunner().invoke(main, ["admin", "install", "--print"])
    assert "CREATE SCHEMA IF NOT EXISTS sams" in result.output


def test_another_stores_address_is_a_usage_error(tmp_path) -> None:
    _sams(f"sqlite:{tmp_path}", "admin", "grants", code=2)


def test_an_owner_reviews_over_the_address(store: Store) -> None:
    session = store.session()
    change_id = session.memory_write("assigned", "facts", "billing runs on Thursday", "d").change_id
    url = store.database.granted("owner", ACME)
    assert "facts" in _sams(url, "pending", "list", ACME)
    shown = _sams(url, "pending", "show", ACME, change_id)
    (change,) = store.owner().changes(ACME)
    assert "SAMS_URL" in shown or "--url" not in shown
    _sams(url, "pending", "accept", ACME, change_id, "--digest", change.digest)
    assert "decided by olga" in _sams(url, "history", ACME, "facts")


def test_the_logins_are_shown_as_the_database_recorded_them(store: Store) -> None:
    change_id = store.session().memory_write("assigned", "facts", "c", "d").change_id
    agent = store.database.login_name(f"agent {ACME} True")
    login = store.database.login_name(f"owner {ACME} True")
    url = store.database.granted("owner", ACME)
    shown = _sams(url, "review", "show", ACME, change_id)
    assert f"  login        {agent} (recorded by the database)\n" in shown
    (change,) = store.owner().changes(ACME)
    assert change.login == agent
    _sams(url, "review", "accept", ACME, change_id, "--digest", change.digest)
    told = _sams(url, "history", ACME, "facts")
    assert f"  owner login  {login} (recorded by the database)\n" in told
    assert f"  author login {agent}\n" in told
    (entry,) = store.owner().history(ACME, "facts")
    assert (entry.login, entry.decided_login) == (agent, login)
    assert entry.sealed().digest == entry.digest
    store.owner().retire(ACME, "facts")
    assert store.owner().restore(ACME, "facts", entry.digest).login == agent


def test_a_deciders_login_is_the_servers_word_and_not_the_clients(store: Store) -> None:
    store.owner().write(ACME, "facts", "c", "d")
    login = store.database.login_name(f"owner {ACME} True")
    values = "container, 'forged', version, labelled, handle, born, date, '0', family, change_id"
    columns = values.replace("'forged'", "path").replace("'0'", "digest")
    db = store.raw("owner")
    db.execute(
        f"INSERT INTO sams.versions ({columns}, login, sources, provenance) SELECT {values}, "
        "'boss', sources, provenance || '{\"decided_login\": \"boss\"}' FROM sams.versions"
    )
    db.execute(
        "INSERT INTO sams.texts SELECT container, 'forged', version, description, content "
        "FROM sams.texts"
    )
    (entry,) = store.owner().history(ACME, "forged")
    assert entry.decided_login == login


def test_a_logins_name_acts_on_no_terminal(store: Store) -> None:
    from dataclasses import replace

    from sams_core.cli.show import change_lines, entry_lines

    evil = "bot\x1b[2K\u202e\nlabel clean"
    store.session().memory_write("assigned", "facts", "c", "d")
    (change,) = store.owner().changes(ACME)
    entry = store.owner().accept(ACME, change.id, change.digest)
    lines = change_lines(replace(change, login=evil))
    lines += entry_lines(replace(entry, login=evil, decided_login=evil), text=False)
    assert not [line for line in lines if not line.isprintable()]
    assert not [line for line in lines if line.startswith("label")]


def test_an_agents_login_reviews_nothing(store: Store) -> None:
    url = store.database.granted("agent", ACME)
    assert "no-grant" in _sams(url, "review", "list", ACME, code=1)
