"""What an agent that was a tool had read is in no history: elsewhere its answers count as that."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, RunState, SQLiteSession, WebSearchTool, function_tool
from agents.testing import function_call

from sams_openai_agents import govern, memory_tools, restored

pytestmark = pytest.mark.anyio
ASK = function_call("ask", {"input": "q"}, call_id="o1")


@function_tool
async def calc(a: int) -> str:
    """Add one."""
    return str(a + 1)


def writer(lab: Any, *answers: Any, tools: Any = ()) -> Agent[Any]:
    return Agent(name="A", tools=[*memory_tools(), *tools], model=lab.script(*answers))


def helper(lab: Any, *tools: Any, calls: Any = ()) -> Any:
    return Agent(name="H", tools=list(tools), model=lab.script(*calls)).as_tool("ask", "Ask.")


@pytest.mark.parametrize("depth", [1, 2])
async def test_what_a_trusted_helper_read_for_one_session_marks_another_that_goes_on(
    each_mode: Any, depth: int
) -> None:
    lab = each_mode()
    trusted = [helper(lab, lab.fetch(), calls=[[lab.calls_fetch()]])]
    if depth == 2:
        trusted.insert(0, helper(lab, *trusted, calls=[[ASK]]))
    history = SQLiteSession("chat", lab.folder / "history.db")
    given: dict[str, Any] = {"trusted": tuple(trusted), "session_": history}
    one = await lab.play(writer(lab, [ASK], tools=trusted[:1]), **given)
    assert one.tainted
    await lab.play(
        writer(lab, [lab.write()], tools=trusted[:1]), session=lab.session("s2"), **given
    )
    assert [c.tainted for c in lab.changes()] == [True]


async def test_a_state_that_another_session_paused_tells_no_more(each_mode: Any) -> None:
    lab = each_mode()
    ask = helper(lab, lab.fetch(), calls=[[lab.calls_fetch()]])
    agent = writer(lab, [ASK], [lab.write()], tools=[ask])
    for tool in agent.tools[:4]:
        tool.needs_approval = True  # type: ignore[union-attr]  # a function tool
    governed = govern(trusted=[ask])
    with governed(lab.session()):
        paused = (await lab.go(governed, agent)).to_state().to_string()
    state = await RunState.from_string(agent, paused)
    for each in state.get_interruptions():
        state.approve(each)
    await lab.play(agent, state, session=lab.session("s2"), trusted=(ask,))
    assert [c.tainted for c in lab.changes()] == [True]


@pytest.mark.parametrize("has", ["trusted tools", "a fetcher", "a hosted search"])
async def test_in_a_new_process_its_answer_is_clean_where_it_can_read_nothing(
    each_mode: Any, has: str
) -> None:
    lab = each_mode()
    more = {"a fetcher": [lab.fetch()], "a hosted search": [WebSearchTool()]}.get(has, [])
    first = helper(
        lab, calc, *memory_tools(), calls=[[function_call("calc", {"a": 1}, call_id="k1")]]
    )
    history = SQLiteSession("chat", lab.folder / "history.db")
    before = await lab.play(
        writer(lab, [ASK], tools=[first]), trusted=(first, calc), session_=history
    )
    assert not before.sources
    restored._calls.clear()  # as in a new process
    then = helper(lab, calc, *memory_tools(), *more)
    agent = writer(lab, [lab.write()], tools=[then])
    session = await lab.play(agent, trusted=(then, calc), session_=history)
    assert [c.tainted for c in lab.changes()] == [bool(more)], session.sources
