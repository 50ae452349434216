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


def broken(toy: Path, old: str, new: str, ids: set[str]) -> Report:
    """Run the kit with one line of the adapter changed."""
    code = (toy / "sams_toy.py").read_text()
    assert code.count(old) == 1
    (toy / "sams_toy.py").write_text(code.replace(old, new))
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
BLOCK_SHOWN = '[{"role": "user", "content": remembered}, *messages]'


@pytest.mark.parametrize(
    ("old", "new", "ids"),
    [
        (JUDGE, "pass", {"A3", "A6", "A7"}),
        ("self._judge(by_name[name])", "pass", {"A6"}),
        (SHADOW, "pass", {"A8"}),
        ("[tool.body])", "[])", {"A7", "A18"}),
        ("begin_tool(Govern, tool.name, tool,", "begin_tool(Govern, tool.name, object(),", {"A7"}),
        ("_call_id.get(), find)", '"same", find)', {"A19"}),
        (BLOCK_SHOWN, "messages", {"A17"}),
        ('"user", "content": remembered', '"system", "content": remembered', {"A17"}),
        ("wrap(tool.body, session, name)", "tool.body", {"A21"}),
        ('schema["input_schema"]', '{**schema["input_schema"], "required": []}', {"A1"}),
        ("toyframework.observers.remove(_observer)", "pass", {"A17"}),
        ("None if governed is None else governed.session", "None", {"A15"}),
    ],
)
def test_an_adapter_without_one_of_its_parts_fails_the_ids_that_the_part_serves(
    toy: Path, old: str, new: str, ids: set[str]
) -> None:
    report = broken(toy, old, new, ids)
    assert failed(report) == ids, report.to_text()
    assert not report.passed
