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


def test_an_agents_login_reviews_nothing(store: Store) -> None:
    url = store.database.granted("agent", ACME)
    assert "no-grant" in _sams(url, "review", "list", ACME, code=1)
