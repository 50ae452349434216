"""The four tools as a model calls them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from sams_core import TOOL_NAMES, AgentSession, Backend, Owner, SQLiteBackend

Open = Callable[..., AgentSession]
ACME = "tenant:acme"


def call(session: AgentSession, name: str, call_id: str | None = None, /, **arguments: Any) -> Any:
    return json.loads(session.call_tool(name, arguments, call_id=call_id))


def write(
    session: AgentSession, scope: str, path: str, call_id: str | None = None, **more: Any
) -> Any:
    arguments = {"path": path, "content": "c", "description": "d", "expected_version": None} | more
    return call(session, "memory_write", call_id, scope=scope, **arguments)


def test_there_are_exactly_four_tools(session: AgentSession) -> None:
    assert TOOL_NAMES == ("memory_index", "memory_read", "memory_search", "memory_write")
    assert tuple(session.tools()) == TOOL_NAMES
    assert [schema["name"] for schema in session.tool_schemas()] == list(TOOL_NAMES)


def test_the_schemas_are_static_closed_and_name_no_tenant(
    session: AgentSession, backend: Backend, open_clean: Open
) -> None:
    other = open_clean(backend, "s9", agent="x", assigned="project:secret-name")
    assert session.tool_schemas() == other.tool_schemas()
    for tool in session.tool_schemas():
        schema = tool["input_schema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
        assert schema["properties"]["scope"]["enum"] == ["org", "assigned", "run"]
        assert not {"author", "status", "session", "tainted"} & set(schema["properties"])


def test_an_optional_argument_may_be_absent_or_null(session: AgentSession) -> None:
    assert call(session, "memory_index", scope="run") == {"items": [], "cursor": None}
    assert call(session, "memory_index", scope="run", cursor=None)["items"] == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_delete", {"scope": "run"}),
        ("memory_index", {}),
        ("memory_index", {"scope": "tenant:acme"}),
        ("memory_index", {"scope": "run", "tainted": False}),
        ("memory_index", {"scope": "run", "x" * 10_000: 1}),
        ("memory_index", []),
        ("memory_index", "[" * 100_000),
        ("memory_index", "not json"),
        ("memory_index", "7"),
        ("memory_index", {1: 2}),
        ("memory_read", {"scope": "run", "path": 7}),
        ("memory_read", {"scope": "run", "path": "a/../b"}),
        ("memory_read", {"scope": "run", "path": "STORED-NOWHERE"}),
        ("memory_search", {"scope": "run", "query": "x" * 100_000}),
        ("memory_write", {"scope": "org", "path": "p", "content": "c", "description": "d"}),
        (
            "memory_write",
            '{"scope":"run","path":"p","content":"c","description":"d","expected_version":1e400}',
        ),
        (
            "memory_write",
            '{"scope":"run","path":"p","content":"c","description":"d","expected_version":NaN}',
        ),
        ("memory_write", '{"scope":"run","path":"p","content":"\\ud800","description":"d"}'),
        (
            "memory_write",
            {"scope": "run", "path": "p", "content": "c", "description": "d", "author": "x"},
        ),
        ("memory_write", {"scope": "run", "path": "p", "content": "c"}),
    ],
)
def test_a_refusal_is_a_result_with_a_rule_and_quotes_nothing(
    name: str, arguments: Any, session: AgentSession
) -> None:
    answer = session.call_tool(name, arguments)
    error = json.loads(answer)["error"]
    assert set(error) == {"rule", "message"}
    assert "STORED" not in answer and "xxxx" not in answer
    assert len(answer) < 500


def test_a_queued_write_says_queued_and_not_saved(session: AgentSession) -> None:
    answer = write(session, "assigned", "p")
    assert answer["status"] == "queued"
    assert "queued for review" in answer["note"]
    assert "saved" not in json.dumps(answer) and "stored" not in json.dumps(answer)
    assert write(session, "run", "n")["status"] == "stored"


def test_labelled_text_comes_with_its_label(
    session: AgentSession, backend: Backend, owner: Owner, open_clean: Open, publish: Any
) -> None:
    dirty = open_clean(backend, "dirty")
    dirty.mark_tainted("a page")
    publish(owner, dirty, "p", "poison")
    read = call(session, "memory_read", scope="assigned", path="p")
    assert read["labelled"] and "untrusted" in read["label"]
    (line,) = call(session, "memory_index", scope="assigned")["items"]
    assert line["labelled"] and "untrusted" in line["label"]


def test_error_texts_carry_nothing_that_is_stored(
    session: AgentSession, backend: Backend, owner: Owner, open_clean: Open, publish: Any
) -> None:
    dirty = open_clean(backend, "dirty")
    dirty.mark_tainted("SOURCENAME", origin="SOURCEORIGIN")
    publish(owner, dirty, "poison", "POISON", "POISON")
    answers = [
        write(session, "assigned", "poison"),
        write(session, "assigned", "poison", expected_version=9),
    ]
    assert all(answer["error"]["rule"] == "version-conflict" for answer in answers)
    answers += [
        write(dirty, "org", "poison"),
        call(dirty, "memory_read", scope="assigned", path="none"),
    ]
    assert "POISON" not in json.dumps(answers) and "SOURCE" not in json.dumps(answers)


def test_a_replayed_write_answers_as_the_first_did_and_stores_once(
    session: AgentSession, owner: Owner, backend: Backend, open_clean: Open
) -> None:
    first = write(session, "assigned", "p", "m1:c1")
    again = open_clean(backend)
    assert (
        write(session, "assigned", "p", "m1:c1") == write(again, "assigned", "p", "m1:c1") == first
    )
    assert len(owner.changes(ACME)) == 1
    assert owner.changes(ACME)[0].supersedes == ()
    other = write(session, "assigned", "p", "m1:c1", content="other")
    assert other["change_id"] != first["change_id"]
    assert write(session, "assigned", "q", "m1:c1")["change_id"] not in (other["change_id"], None)
    assert write(session, "assigned", "p", "m1:c1")["state"] == "superseded"


@pytest.mark.parametrize("decision", ["accepted", "rejected", "edited"])
def test_a_replay_tells_what_became_of_the_change(
    decision: str, session: AgentSession, owner: Owner
) -> None:
    write(session, "assigned", "p", "m1:c1")
    (change,) = owner.changes(ACME)
    if decision == "accepted":
        owner.accept(ACME, change.id, change.digest)
    elif decision == "rejected":
        owner.reject(ACME, change.id)
    else:
        owner.write(ACME, "p", "edited", "d", based_on=change.id)
    assert write(session, "assigned", "p", "m1:c1")["state"] == decision
    assert owner.changes(ACME) == []


def test_a_replay_of_a_superseded_write_stores_nothing_after_its_successor_was_decided(
    session: AgentSession, owner: Owner
) -> None:
    first = write(session, "assigned", "p", "m1:c1")
    write(session, "assigned", "p", "m1:c2", content="second")
    (change,) = owner.changes(ACME)
    owner.accept(ACME, change.id, change.digest)
    again = write(session, "assigned", "p", "m1:c1")
    assert (again["state"], again["change_id"]) == ("superseded", first["change_id"])
    assert owner.changes(ACME) == []


def test_a_replay_in_the_run_scope_stores_once(session: AgentSession, owner: Owner) -> None:
    first = write(session, "run", "n", "m1:c1")
    assert write(session, "run", "n", "m1:c1") == first
    assert session.memory_read("run", "n").version == 1
    assert write(session, "run", "n", "m1:c2")["error"]["rule"] == "version-conflict"


def test_equal_call_ids_of_two_families_are_unrelated(
    session: AgentSession, backend: Backend, owner: Owner, open_clean: Open
) -> None:
    other = open_clean(backend, "s2")
    for one in (session, other):
        write(one, "assigned", "p", "m1:c1")
        write(one, "run", "p", "m1:c1")
    assert len({change.id for change in owner.changes(ACME)}) == 2


def test_a_call_id_may_be_any_text(session: AgentSession) -> None:
    for call_id in ("", "\ud800", "x" * 1_000_000, "\0"):
        assert write(session, "assigned", "p", call_id)["status"] == "queued"
    assert json.loads(session.call_tool("memory_index", {"scope": "run"}, call_id=7))["items"] == []  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_the_async_call_gives_the_same_answers(session: AgentSession) -> None:
    written = await session.acall_tool(
        "memory_write", {"scope": "run", "path": "n", "content": "billing", "description": "d"}
    )
    assert json.loads(written)["status"] == "stored"
    for name, arguments in (
        ("memory_read", {"scope": "run", "path": "n"}),
        ("memory_index", {"scope": "run"}),
        ("memory_search", {"scope": "run", "query": "billing"}),
        ("memory_read", {"scope": "org", "path": "none"}),
        ("nothing", {}),
    ):
        assert await session.acall_tool(name, arguments) == session.call_tool(name, arguments)


@pytest.mark.anyio
async def test_the_ambient_session_reaches_the_thread_of_an_async_call(
    session: AgentSession, backend: Backend, open_clean: Open
) -> None:
    other = open_clean(backend, "s2")
    with other.active():
        answer = await session.acall_tool(
            "memory_write", {"scope": "run", "path": "n", "content": "c", "description": "d"}
        )
    assert json.loads(answer)["error"]["rule"] == "foreign-run"


@pytest.mark.anyio
async def test_a_read_that_would_wait_for_a_lock_moves_to_a_thread(
    sqlite: SQLiteBackend, open_clean: Open
) -> None:
    import asyncio
    import sqlite3
    import threading

    Owner(sqlite, "olga").write(ACME, "p", "c", "d")
    session = open_clean(sqlite)
    file = sqlite.folders.store(ACME, "curated") / "curated.db"
    blocker = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(0.3, lambda: blocker.execute("ROLLBACK"))
    release.start()
    turns = 0

    async def spin() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.005)

    spinning = asyncio.create_task(spin())
    answer = await session.acall_tool("memory_read", {"scope": "assigned", "path": "p"})
    spinning.cancel()
    release.join()
    blocker.close()
    assert json.loads(answer)["content"] == "c"
    assert turns > 5


def test_a_child_and_its_parent_each_keep_a_note_under_one_call_id(session: AgentSession) -> None:
    child = session.child("helper")
    for one in (session, child):
        assert write(one, "run", "n", "m1:c1")["status"] == "stored"
        assert one.memory_read("run", "n").content == "c"


@pytest.mark.parametrize("cursor", ["t:\ud800", "l:\x00", "t:", "l:untrusted/x", "t:../x", "x:a"])
def test_a_cursor_of_another_form_is_a_refusal(cursor: str, session: AgentSession) -> None:
    answer = call(session, "memory_index", scope="assigned", cursor=cursor)
    assert answer["error"]["rule"] == "invalid-arguments"


def test_a_tool_name_may_be_anything(session: AgentSession) -> None:
    for name in (["x"], None, 7, {}):
        assert "unknown-tool" in session.call_tool(name, {})  # type: ignore[arg-type]
