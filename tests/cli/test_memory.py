"""What is served and what was: history, restore, endorse, retire."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

SHOP = "project:shop"


def two_versions(shop: Shop) -> tuple[str, str]:
    first = shop.owner.write(SHOP, "a/one", "first text", "a note")
    second = shop.owner.write(SHOP, "a/one", "second text", "a note", expected_version=1)
    return first.digest, second.digest


def test_history_is_oldest_first_and_names_who_decided(shop: Shop) -> None:
    first, second = two_versions(shop)
    shown = shop.sams("history", SHOP, "a/one").stdout
    assert shown.index(first) < shown.index(second)
    assert "decided by olga" in shown
    assert "first text" not in shown
    assert "  | first text" in shop.sams("history", SHOP, "a/one", "--text").stdout
    assert [e["version"] for e in shop.json("history", SHOP, "a/one")] == [1, 2]
    assert shown.splitlines()[-1].endswith(f" restore project:shop a/one {first}")


def test_a_path_that_looks_like_an_option_can_be_named(shop: Shop) -> None:
    first = shop.owner.write(SHOP, "-rf", "one", "a note")
    shop.owner.write(SHOP, "-rf", "two", "a note", expected_version=1)
    shown = shop.sams("history", "--", SHOP, "-rf").stdout.splitlines()[-1]
    words = shlex.split(shown)
    assert words[-5:] == ["restore", "--", SHOP, "-rf", first.digest]
    assert shop.sams(*words[-5:]).exit_code == 0


def test_history_of_nothing_is_refused(shop: Shop) -> None:
    two_versions(shop)
    result = shop.sams("history", SHOP, "no/such")
    assert (result.exit_code, result.stderr.split(":")[0]) == (1, "refused (not-found)")


def test_restore_names_a_digest_and_keeps_the_label(shop: Shop) -> None:
    change = shop.write("a/one", "from a page", marked=True)
    labelled = shop.owner.accept(SHOP, change, shop.digest(change))
    shop.owner.endorse(SHOP, "a/one", labelled.digest, "I wrote it")
    result = shop.sams("restore", SHOP, "a/one", labelled.digest)
    assert result.stdout == "restored: a/one version 3, labelled: outsiders influenced it\n"
    assert shop.sams("restore", SHOP, "a/one", "1").exit_code == 2
    assert shop.sams("restore", SHOP, "a/one", "0" * 64).exit_code == 1


def test_endorse_takes_the_label_off_and_records_why(shop: Shop) -> None:
    change = shop.write("a/one", "from a page", marked=True)
    entry = shop.owner.accept(SHOP, change, shop.digest(change))
    words = ("endorse", SHOP, "a/one", entry.digest)
    assert shop.sams(*words).exit_code == 2
    assert shop.sams(*words, "--why", " ").exit_code == 2
    wrong = shop.sams("endorse", SHOP, "a/one", "0" * 64, "--why", "x")
    assert (wrong.exit_code, wrong.stderr.split(":")[0]) == (3, "refused (changed-since-review)")
    assert shop.sams(*words, "--why", "I wrote it", "--name", "otto").exit_code == 0
    last = shop.owner.history(SHOP, "a/one")[-1]
    assert (last.tainted, last.why, last.decided_by) == (False, "I wrote it", "otto")


def test_retire_stops_serving_and_restore_brings_back(shop: Shop) -> None:
    _, second = two_versions(shop)
    assert shop.sams("retire", SHOP, "a/one").stdout == "retired: a/one\n"
    assert shop.owner.get(SHOP, "a/one") is None
    assert shop.sams("restore", SHOP, "a/one", second).exit_code == 0
    entry = shop.owner.get(SHOP, "a/one")
    assert entry is not None
    assert entry.content == "second text"
