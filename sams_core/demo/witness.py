"""What another session gets to see of the memory, and whether any page's poison is in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sams_core import AgentSession
    from sams_core.demo.site import Page

_TAG = re.compile("[\U000e0020-\U000e007e]")
_UNSEEN = re.compile("[\u200b-\u200f\u2060-\u2064\ufeff]")


def plain(text: str) -> str:
    """Undo what hides a word from a search for it: tag characters and zero-width ones."""
    return _UNSEEN.sub("", _TAG.sub(lambda m: chr(ord(m[0]) - 0xE0000), text))


@dataclass
class Seen:
    """Everything that one session was served: its context block and its tools' answers."""

    answers: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def finds(self, word: str) -> bool:
        """Tell whether `word` occurs anywhere, hidden or not."""
        return any(word in plain(answer) for answer in self.answers)


def look(session: AgentSession, questions: Iterable[str]) -> Seen:
    """List, search and read all that a session may, labelled entries excepted, by tool calls."""
    seen = Seen([session.context_block()])

    def call(name: str, **arguments: Any) -> dict[str, Any]:
        answer = session.call_tool(name, arguments)
        result: dict[str, Any] = json.loads(answer)
        # Without JSON's own escapes, so that hidden characters are found as such.
        seen.answers.append(json.dumps(result, ensure_ascii=False))
        return result

    for scope in ("org", "assigned", "run"):
        cursor = None
        while True:
            page = call("memory_index", scope=scope, cursor=cursor)
            for item in page["items"]:
                seen.paths.append(item["path"])
                if "label" not in item or session.tainted:
                    call("memory_read", scope=scope, path=item["path"])
            cursor = page["cursor"]
            if cursor is None:
                break
    for question in questions:
        call("memory_search", scope="assigned", query=question)
    return seen


def poison_in(seen: Seen, pages: Iterable[Page]) -> list[str]:
    """Return the canaries of poisoned pages that were served."""
    return [page.canary for page in pages if page.canary and seen.finds(page.canary)]
