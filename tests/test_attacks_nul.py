"""A NUL in a text is a character as any other: no size is counted up to it."""

from __future__ import annotations

from collections.abc import Callable

from sams_core import AgentSession, Backend, Owner

ACME = "tenant:acme"


def test_a_page_of_an_index_holds_no_content(
    backend: Backend, owner: Owner, open_clean: Callable[..., AgentSession]
) -> None:
    for number, text in enumerate(("", "\0", "\0" + "x" * 50_000, "x" * 50_000)):
        owner.write(ACME, f"p{number}", text, "d")
    page = open_clean(backend, "s1").memory_index("assigned")
    assert [item.snippet for item in page.items] == [""] * 4


def test_a_text_that_is_too_long_for_the_block_is_named_only(
    backend: Backend, owner: Owner, open_clean: Callable[..., AgentSession]
) -> None:
    owner.write(ACME, "long", "a\0b" + "x" * 9_000, "d")
    owner.write(ACME, "short", "a\0b", "d")
    block = open_clean(backend, "s1").context_block(100_000)
    assert "xxx" not in block
    assert "a\\x00b" in block
