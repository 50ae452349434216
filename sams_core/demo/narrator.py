"""The story's voice: numbered steps, and what really came back; stored text is visible text."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from sams_core.cli.layout import width
from sams_core.visible import visible_line

INDENT = 3
_BOLD, _RED, _GREEN, _END = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[0m"


class Narrator:
    """Writes lines through `out`, with colours if the reader has some.

    Texts of others that are part of a sentence are escaped by whoever makes the sentence.
    """

    def __init__(self, out: Callable[[str], object], *, colour: bool = False) -> None:
        self._out, self._colour = out, colour
        self.steps = 0

    def _put(self, text: str, style: str = "") -> None:
        self._out(f"{style}{text}{_END}" if style and self._colour else text)

    def _told(self, text: str, style: str = "") -> None:
        for line in textwrap.wrap(text, width(), subsequent_indent="  "):
            self._put(" " * INDENT + line, style)

    def step(self, title: str) -> None:
        """Begin a step."""
        self.steps += 1
        self._put("")
        self._put(f"{self.steps}. {title}", _BOLD)

    def say(self, text: str) -> None:
        """Tell something."""
        self._told(text)

    def lines(self, lines: Iterable[str]) -> None:
        """Show lines that are visible text and fit."""
        for line in lines:
            self._put(" " * INDENT + line if line else "")

    def answer(self, what: str, answer: dict[str, Any]) -> None:
        """Show what a tool answered."""
        self._told(f"{what} -> {visible_line(json.dumps(answer, ensure_ascii=False))}")

    def refused(self, what: str, rule: str, message: str) -> None:
        """Show a refusal."""
        self._told(f"{what} -> refused ({visible_line(rule)}): {visible_line(message)}", _RED)

    def good(self, text: str) -> None:
        """Show what went as it should."""
        self._told(text, _GREEN)

    def bad(self, text: str) -> None:
        """Show what went wrong."""
        self._told(f"FAILED: {text}", _RED)
