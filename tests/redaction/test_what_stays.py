"""Ordinary text stays byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from sams_core.redaction import redact

LINES = (Path(__file__).parent / "ordinary.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", LINES)
def test_an_ordinary_line_stays_byte_for_byte(line: str) -> None:
    assert redact(line) == type(redact(""))(line, ())


def test_all_ordinary_lines_together_stay_byte_for_byte() -> None:
    text = "\n".join(LINES)
    assert redact(text).text == text


def test_the_fixture_covers_the_promised_kinds() -> None:
    assert len(LINES) > 100
