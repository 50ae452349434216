"""What nobody read marks nobody; what is made something else, forgotten or waited for still counts."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from agents import (
    Agent,
    ModelBehaviorError,
    OpenAIConversationsSession,
    RunConfig,
    Runner,
    RunState,
    SQLiteSession,
    function_tool,
    handoff,
)
from agents.run_config import CallModelData, ModelInputData
from agents.testing import function_call

from sams_core import SessionClosed
from sams_openai_agents import govern, memory_tools, restored

pytestmark = pytest.mark.anyio


@function_tool
async def calc(a: int) -> str:
    """Add one."""
    return str(a + 1)


def calls(call_id: str) -> Any:
    return function_call("calc", {"a": 1}, call_id=call_id)


def writer(lab: Any, *answers: Any, tools: Any = (), name: str = "A", **more: Any) -> Agent[Any]:
    return Agent(name=name, tools=[*memory_tools(), *tools], model=lab.script(*answers), **more)


# What the SDK answers itself.


async def test_a_tool_that_the_model_made_up_marks_neither_now_nor_in_a_new_process(
    each_mode: Callable[[], Any],
) -> None:
    lab = each_mode()
    history = SQLiteSession("chat", lab.folder / "history.db")
    config = lab.quiet(tool_not_found_behavior="return_error_to_model")
    made_up = function_call("nothing_like_it", {}, call_id="n1")
    session = await lab.play(
        writer(lab, [made_up, lab.write()]), session_=history, run_config=config
    )
    restored._calls.clear()  # as in a new process
    again = writer(lab, [lab.write("w2", "facts/more")])
    await lab.play(again, session=lab.session("s2"), session_=history)
    assert [c.tainted for c in lab.changes()] == [False, False], session.sources


async def test_a_made_up_call_clears_no_result_of_its_name_and_id(
    each_mode: Callable[[], Any],
) -> None:
    lab = each_mode()
    config = lab.quiet(tool_not_found_behavior="return_error_to_model")
    made_up = function_call("fetch", {}, call_id="c0")
    session = await lab.play(writer(lab, [made_up]), run_config=config)
    assert not session.sources
    await lab.play(writer(lab, [lab.write()]), READ, session=session)
    assert [c.tainted for c in lab.changes()] == [True]


async def test_a_made_up_tool_that_ends_the_run_leaves_no_mark(
    each_mode: Callable[[], Any],
) -> None:
    lab = each_mode()
    session = lab.session()
    with pytest.raises(ModelBehaviorError):
        await lab.play(writer(lab, [function_call("nope", {}, call_id="n1")]), session=session)
    assert not session.sources


async def test_one_hand_off_too_many_says_nothing_of_outsiders(
    each_mode: Callable[[], Any],
) -> None:
    lab = each_mode()
    history = SQLiteSession("chat", lab.folder / "history.db")
    others = [writer(lab, name=name) for name in "BC"]
    both = [function_call(f"transfer_to_{name}", {}, call_id=name) for name in "bc"]
    await lab.play(writer(lab, both, handoffs=others), session_=history)
    restored._calls.clear()  # as in a new process
    await lab.play(writer(lab, [lab.write()], name="B"), session_=history)
    assert [c.tainted for c in lab.changes()] == [False]


# What is said before a run, and made something else.

READ: list[Any] = [
    {"type": "function_call", "call_id": "c0", "name": "fetch", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c0", "output": "EVIL"},
    {"role": "user", "content": "go on"},
]
SUMMARY: Any = {"role": "user", "content": "The page said: EVIL"}


def filters(data: CallModelData[Any]) -> ModelInputData:
    return ModelInputData([SUMMARY, *data.model_data.input[2:]], data.model_data.instructions)


def calls_back(history: Any, new: Any) -> Any:
    return [SUMMARY, new[-1]]


@pytest.mark.parametrize(
    "config", [{"call_model_input_filter": filters}, {"session_input_callback": calls_back}]
)
async def test_what_a_run_is_given_counts_before_the_users_code_makes_it_prose(
    each_mode: Callable[[], Any], config: dict[str, Any]
) -> None:
    lab = each_mode()
    more: dict[str, Any] = {"run_config": RunConfig(tracing_disabled=True, **config)}
    if "session_input_callback" in config:
        more["session_"] = SQLiteSession("chat", lab.folder / "history.db")
    await lab.play(writer(lab, [lab.write()]), READ, **more)
    assert [c.tainted for c in lab.changes()] == [True]


async def test_a_trusted_tools_results_are_clean_before_the_users_filter_too(lab: Any) -> None:
    history = SQLiteSession("chat", lab.folder / "history.db")
    await Runner.run(
        Agent(name="A", tools=[calc], model=lab.script([calls("k1")])),
        "hi", session=history, run_config=lab.quiet(),
    )  # fmt: skip
    config = lab.quiet(call_model_input_filter=lambda data: data.model_data)
    again = writer(lab, [lab.write()], tools=[calc])
    await lab.play(again, session_=history, run_config=config, trusted=(calc,))
    assert [c.tainted for c in lab.changes()] == [False]


class AsOpenAI(OpenAIConversationsSession):
    """A conversation whose pages the API limits, to which older versions send any limit."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__(conversation_id="conv_1", openai_client=object())  # type: ignore[arg-type]  # never asked
        self.items = items

    async def get_items(self, limit: int | None = None) -> list[Any]:
        if limit is not None and limit > 100:
            raise ValueError("limit: at most 100")
        return self.items

    async def add_items(self, items: list[Any]) -> None:
        self.items = [*self.items, *items]


@pytest.mark.parametrize("read", [True, False])
async def test_a_conversation_at_openai_is_read_whole_without_a_limit_that_its_api_refuses(
    each_mode: Callable[[], Any], read: bool
) -> None:
    lab = each_mode()
    history = AsOpenAI(READ if read else READ[2:])
    await lab.play(writer(lab, [lab.write()]), session_=history)
    assert [c.tainted for c in lab.changes()] == [read]


# A state that waits for approval.


def approved(state: Any) -> Any:
    for each in state.get_interruptions():
        state.approve(each)
    return state


def asking() -> list[Any]:
    """Return memory tools that need approval."""
    tools = memory_tools()
    for tool in tools:
        tool.needs_approval = True
    return tools


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("name", [None, "go_on_with_b"])
async def test_a_pause_after_a_hand_off_resumes_clean(
    each_mode: Callable[[], Any], name: str | None, new: bool
) -> None:
    lab = each_mode()
    last = Agent(name="B", tools=asking(), model=lab.script([lab.write()]))
    over = function_call(name or "transfer_to_b", {}, call_id="h1")
    made_up = function_call("nope", {}, call_id="n1")
    first = writer(
        lab, [calls("k1")], [made_up], [over],
        tools=[calc], handoffs=[handoff(last, tool_name_override=name)],
    )  # fmt: skip
    session, governed = lab.session(), govern(trusted=[calc])
    config = lab.quiet(tool_not_found_behavior="return_error_to_model")
    with governed(session):
        state = (await lab.go(governed, first, run_config=config)).to_state()
        if new:
            restored._calls.clear()
            state = await RunState.from_string(first, state.to_string())
        await lab.go(governed, first, approved(state), run_config=config)
    assert [c.tainted for c in lab.changes()] == [False], session.sources


async def test_another_packages_memory_in_a_state_marks_as_in_a_history(
    each_mode: Callable[[], Any],
) -> None:
    lab = each_mode()

    @function_tool(name_override="memory_search")
    async def foreign(scope: str, query: str) -> str:
        """Search something else."""
        return '["EVIL"]'

    asks = function_call("memory_search", {"scope": "run", "query": "q"}, call_id="m1")
    other = [foreign, *(tool for tool in asking() if tool.name == "memory_write")]
    before = Agent(name="A", tools=other, model=lab.script([asks], [lab.write()]))
    saved = (await Runner.run(before, "hi", run_config=lab.quiet())).to_state().to_string()
    agent = Agent(name="A", tools=asking(), model=lab.script())
    await lab.play(agent, approved(await RunState.from_string(agent, saved)))
    assert [c.tainted for c in lab.changes()] == [True]


# What waits, and what is forgotten.


@pytest.mark.parametrize("mode", ["run", "run_streamed"])
async def test_a_mark_that_must_wait_for_a_lock_lets_the_event_loop_go_on(
    lab: Any, mode: str
) -> None:
    lab.mode, session = mode, lab.session()
    session.context_block()  # which writes, too
    (ledger,) = lab.folder.rglob("ledger.db")
    other = sqlite3.connect(ledger, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    # On a loop that waits itself, this comes after the deadline of the mark.
    asyncio.get_running_loop().call_later(0.3, other.rollback)
    agent = writer(lab, [lab.calls_fetch(), lab.write()], tools=[lab.fetch()])
    try:
        await lab.play(agent, session=session)
    except SessionClosed:
        pytest.fail("the event loop was blocked")
    finally:
        other.close()
    assert [c.tainted for c in lab.changes()] == [True]


async def test_calls_are_bounded_over_all_sessions_and_a_forgotten_one_marks(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restored, "_MOST_CALLS", 1)
    one = await lab.play(writer(lab, [calls("k1")], tools=[calc]), trusted=(calc,))
    assert not one.sources
    turn = [calls("k1"), calls("k2")]
    two = await lab.play(
        writer(lab, turn, tools=[calc]), session=lab.session("s2"), trusted=(calc,)
    )
    assert len(restored._calls) == 1
    assert [source.kind for source in two.sources] == ["history"]


async def test_what_is_known_of_a_conversation_holds_no_text(lab: Any) -> None:
    block = lab.session().context_block()
    agent = writer(lab)
    await lab.play(agent, auto_previous_response_id=True)
    assert restored._chains and block[:40] not in repr(restored._chains)
