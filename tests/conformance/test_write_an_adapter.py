"""docs/how-to/write-an-adapter.md: its code, saved as it says, is a conformant adapter."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sams_conformance import Report, run_adapter
from sams_conformance.a.ids import MANDATORY

PAGE = Path(__file__).parents[2] / "docs/how-to/write-an-adapter.md"
BLOCK = re.compile(
    r"`(\w+\.py)`[^\n]*(?:\n[^\n`]+)*:\n\n<!--- skip: next -->\n\n```python\n(.*?)```", re.DOTALL
)
NAMES = ["toyframework", "sams_toy", "sams_toy_testing"]


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    text = PAGE.read_text()
    for name, code in BLOCK.findall(text):
        (tmp_path / name).write_text(code)
    points = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert points is not None
    info = tmp_path / "sams_toy-1.0.dist-info"
    info.mkdir()
    lines = points[1].replace('project.entry-points."', "").replace('"', "")
    (info / "entry_points.txt").write_text(lines)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sams-toy\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in NAMES:
        sys.modules.pop(name, None)


def broken(toy: Path, changes: dict[str, str], ids: set[str]) -> Report:
    """Run the kit with parts of the adapter replaced."""
    code = (toy / "sams_toy.py").read_text()
    for old, new in changes.items():
        assert code.count(old) == 1
        code = code.replace(old, new)
    (toy / "sams_toy.py").write_text(code)
    importlib.invalidate_caches()
    return run_adapter("sams_toy_testing:driver", ids)


def failed(report: Report) -> set[str]:
    return {o.id for o in report.outcomes if o.status == "failed"}


def test_the_adapter_of_the_page_is_conformant(toy: Path) -> None:
    report = run_adapter("sams_toy_testing:driver")
    assert report.conformant, report.to_text()
    assert set(report.mandatory) == set(MANDATORY)
    assert report.count("not applicable") > 0


JUDGE = "begin_tool(Govern, tool.name, tool, [tool.body])"
SHADOW = "refuse_shadow(tool.name, isinstance(tool, MemoryTool))"
SHOWN = '[{"role": "user", "content": remembered}, *messages]'
FIND = "find = None if governed is None else governed.session"
CALL = "return await acall_memory("

# Reads without the session, so without the mark.
READS_BY_ITSELF = """if schema["name"] == "memory_read":
            session = at_work(Govern)[0].session
            row = session.backend.read(session.assigned, session.assigned, arguments["path"])
            return row.content if row else '{"error": {"rule": "not-found"}}'
        """

# Keeps the last session for whoever calls without one.
REMEMBERS = """

class _Last:
    session = None

    def __call__(self):
        blocks = at_work(Govern)
        _Last.session = blocks[0].session if blocks else _Last.session
        return _Last.session
"""

BROKEN = [
    ({JUDGE: "pass"}, {"A3", "A5", "A6", "A7", "A25"}),
    ({"self._judge(by_name[name])": "pass"}, {"A6"}),
    ({SHADOW: "pass"}, {"A8"}),
    ({"[tool.body])": "[])"}, {"A7", "A18"}),
    ({"begin_tool(Govern, tool.name, tool,": "begin_tool(Govern, tool.name, object(),"}, {"A7"}),
    ({"_call_id.get(), find)": '"same", find)'}, {"A19"}),
    ({SHOWN: "messages"}, {"A17"}),
    ({'"user", "content": remembered': '"system", "content": remembered'}, {"A17"}),
    ({"wrap(tool.body, session, name)": "tool.body"}, {"A21"}),
    ({'schema["input_schema"]': '{**schema["input_schema"], "required": []}'}, {"A1"}),
    ({"toyframework.observers.remove(_observer)": "pass"}, {"A17"}),
    ({FIND: "find = None"}, {"A15"}),
    ({CALL: 'return \'{"status": "saved"}\' or await acall_memory('}, {"A2", "A19"}),
    ({CALL: READS_BY_ITSELF + CALL}, {"A20"}),
    (
        {FIND: "find = _Last()", "govern = Govern\n": "govern = Govern\n" + REMEMBERS},
        {"A16", "A22"},
    ),
    (
        {
            "toyframework.observers.append(_observer)": "toyframework.observers[:] = [_observer]",
            "toyframework.observers.remove(_observer)": "toyframework.observers.clear()",
        },
        {"A24"},
    ),
]


@pytest.mark.parametrize(("changes", "ids"), BROKEN)
def test_an_adapter_without_one_of_its_parts_fails_the_ids_that_the_part_serves(
    toy: Path, changes: dict[str, str], ids: set[str]
) -> None:
    report = broken(toy, changes, ids)
    assert failed(report) == ids, report.to_text()
    assert not report.passed
