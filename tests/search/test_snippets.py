"""A snippet shows where a text answers, out of the text as it was written."""

from __future__ import annotations

import pytest

from sams_core.search import snippet

FILLER = "Nothing to see here. " * 50


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("when does the billing deployment run?", "The billing deployment\nruns every Friday."),
        ("deployed billing", "Billing: deployment on Friday."),
        ("Schlüssel erneuern", "Der SCHLÜSSEL wird erneuert."),
        ("ключей", "Ключи меняем ежемесячно."),
        ("计费什么时候部署", "计费服务每周五部署。"),
        ("サーバーの再起動", "サーバを再起動する。"),
        ("ชำระเงินเมื่อไหร่", "ทีมฟอลคอนดูแลการชำระเงิน"),
        ("get_user_name", "call getUserName() first"),
    ],
)
def test_the_best_place_is_shown_from_the_middle_of_a_long_text(question: str, answer: str) -> None:
    line = snippet(FILLER + answer + " " + FILLER, question)
    assert " ".join(answer.split()) in line
    assert line.startswith("…")
    assert line.endswith("…")
    assert len(line) <= 160


def test_the_place_with_more_of_the_terms_wins() -> None:
    text = f"A deployment. {FILLER} The billing deployment runs on Friday. {FILLER}"
    assert "billing deployment" in snippet(text, "when does the billing deployment run?")


def test_a_short_text_is_shown_whole_on_one_line() -> None:
    assert snippet("one\r\n two\u2028three\x00", "two") == "one two three\x00"


def test_without_a_hit_the_beginning_is_shown() -> None:
    assert snippet(FILLER, "absent").startswith("Nothing to see here.")
    assert snippet(FILLER, "").startswith("Nothing to see here.")


def test_a_word_inside_another_is_not_a_hit_while_there_is_a_better_one() -> None:
    line = snippet(f"Prune the trees. {FILLER} It can run now. {FILLER}", "run")
    assert "It can run now" in line


@pytest.mark.parametrize("width", [0, 1, 2, 3, 10, 40])
def test_no_width_is_exceeded(width: int) -> None:
    assert len(snippet(FILLER, "see", width)) <= width
