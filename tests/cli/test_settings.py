"""Where the store is and who the owner is: options, environment, defaults; and the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import sams_core
from sams_core.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    from tests.cli.conftest import Shop

SHOP = "project:shop"


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(words))
    return result.exit_code, result.output


def test_the_base_may_stand_anywhere_or_in_the_environment(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shop.write("a/one", "first")
    base = str(shop.base)
    for words in (
        ("--base", base, "review", "list", SHOP),
        ("review", "--base", base, "list", SHOP),
        ("review", "list", SHOP, "--base", base),
        ("--base", "/nowhere", "review", "list", SHOP, "--base", base),
    ):
        code, output = run(*words)
        assert (code, "a/one" in output) == (0, True), words
    monkeypatch.setenv("SAMS_BASE", base)
    assert "a/one" in run("review", "list", SHOP)[1]
    monkeypatch.delenv("SAMS_BASE")
    monkeypatch.chdir(tmp_path)
    assert run("review", "list", SHOP)[0] == 1  # no ./.sams here
    os.symlink(base, tmp_path / ".sams")
    listed = run("review", "list", SHOP)[1]
    assert "a/one" in listed
    assert f" --base {tmp_path / '.sams'} review show " in listed  # works in any folder


WITHOUT_A_DRIVER = """
import sys
sys.modules["psycopg"] = None  # as where the extra isn't installed
from click.testing import CliRunner
from sams_core.cli import main
for line in sys.stdin:
    done = CliRunner().invoke(main, line.split())
    print(done.exit_code, "pip install 'sams-adapters[postgres]'" in done.output, "secret" in done.output)
"""


def test_every_verb_says_which_extra_a_database_needs() -> None:
    url = "--url postgresql://nobody:secret@127.0.0.1:1/none"
    verbs = (
        f"review list {SHOP}",
        f"history {SHOP} p",
        f"init {SHOP}",
        "doctor",
        "demo",
        "admin grants",
    )
    lines = [f"{verb} {url}" for verb in verbs] + ["admin install --print"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_DRIVER],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["2 True False"] * len(lines)


def test_a_base_and_an_address_at_once_are_a_usage_error(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("review", "list", SHOP)
    assert run("--base", str(shop.base), "--url", "sqlite:///x", *words)[0] == 2
    monkeypatch.setenv("SAMS_URL", "sqlite:////nowhere")
    assert run("--base", str(shop.base), *words)[0] in (0, 1)  # an option beats the environment
    monkeypatch.setenv("SAMS_BASE", str(shop.base))
    assert run(*words)[0] == 2
    assert run("--base", "", *words)[0] == 2


def test_a_folder_that_is_not_there_is_refused_and_not_made(tmp_path: Path) -> None:
    code, output = run("--base", str(tmp_path / "typo"), "review", "list", SHOP)
    assert (code, output.split(":")[0]) == (1, "refused (not-found)")
    assert list(tmp_path.iterdir()) == []


def test_init_makes_the_folders_of_a_scope(tmp_path: Path) -> None:
    base = tmp_path / "a b"
    for _ in range(2):
        code, output = run("init", SHOP, "--base", str(base))
        assert code == 0, output
        assert output.startswith("ready: project:shop in ")
    (container,) = base.iterdir()
    assert {"curated", "queue", "ledger", "runs"} <= {p.name for p in container.iterdir()}
    assert run("init", "run:x", "--base", str(base))[0] == 1
    assert run("init", SHOP, "--base", str(base), "--agents-group", "no such group")[0] == 1


def test_the_owner_is_named_by_option_environment_or_the_operating_system(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pwd

    names = []
    for number, (words, environment) in enumerate(
        ((("--name", "otto"), "ignored"), ((), "olivia"), ((), ""))
    ):
        change = shop.write(f"n/{number}", "text")
        monkeypatch.setenv("SAMS_OWNER", environment)
        accept = ("review", "accept", SHOP, change, "--digest", shop.digest(change))
        result = shop.sams(*accept, *words)
        assert result.exit_code == 0, result.output
        names.append(shop.owner.history(SHOP, f"n/{number}")[0].decided_by)
    assert names == ["otto", "olivia", pwd.getpwuid(os.getuid()).pw_name]


def test_usage_errors_exit_with_2(shop: Shop) -> None:
    for words in (("no-such-verb",), ("review", "accept", SHOP), ("history",), ("--no-such",)):
        assert shop.sams(*words).exit_code == 2, words


def test_a_group_without_a_verb_shows_its_help(shop: Shop) -> None:
    for words in ((), ("review",), ("rules",)):
        result = shop.sams(*words)
        assert result.exit_code == 2
        assert result.output.count("Usage:") == 1


def test_help_and_version(process: Callable[..., CompletedProcess[str]]) -> None:
    done = process("--help")
    assert done.returncode == 0
    for (
        verb
    ) in "init review pending history restore endorse retire demo conformance redact".split():
        assert f"\n  {verb} " in done.stdout
    assert "3 changed since review" in done.stdout


def test_our_modules_load_nothing_heavy_until_a_verb_needs_it() -> None:
    """The package itself is imported by then; this is about what the command adds to it."""
    code = (
        "import sys, sams_core; before = set(sys.modules); import sams_core.cli;"
        "print(sorted(m for m in set(sys.modules) - before if m.startswith('sams')))"
    )
    root = str(Path(sams_core.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": root},
    )
    loaded = eval(done.stdout)
    assert all(name.startswith("sams_core.cli") for name in loaded), loaded
    assert not any("sams_core.demo" in name for name in loaded)


def test_a_real_process_exits_with_the_code_and_says_why_on_stderr(
    shop: Shop, process: Callable[..., CompletedProcess[str]]
) -> None:
    change = shop.write("a/one", "first")
    words = ("--base", str(shop.base), "review", "accept", SHOP, change, "--digest")
    wrong = process(*words, "0" * 64)
    assert (wrong.returncode, wrong.stdout) == (3, "")
    assert wrong.stderr.startswith("refused (changed-since-review): ")
    refused = process(*words, shop.digest(change), env={"SAMS_SESSION": "x"})
    assert (refused.returncode, refused.stdout) == (1, "")
    assert process(*words, shop.digest(change)).returncode == 0


def test_output_that_nobody_reads_to_the_end_is_no_traceback(shop: Shop) -> None:
    session = shop.session()
    change = shop.write("a/one", "line\n" * 15_000, session=session)
    root = str(Path(sams_core.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "sams_core.cli", "--base", str(shop.base), "review", "show", SHOP]
        + [change],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": root},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"change ")
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert error == b""


def test_a_damaged_store_is_refused_without_a_traceback(shop: Shop) -> None:
    shop.owner.write(SHOP, "a/one", "first", "a note")
    shop.backend.close()
    for database in shop.base.rglob("curated/*"):
        database.write_bytes(b"no database" * 1000)
    result = shop.sams("history", SHOP, "a/one")
    assert result.exit_code == 1
    assert result.stderr.startswith("refused (")
    assert "Traceback" not in result.output


def test_a_bug_is_one_line_and_its_text_stays_inside(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sams_core import Owner

    shop.write("a/one", "text")

    def broken(*args: object, **kwargs: object) -> None:
        raise TypeError("stored \x1b]52;c;x\x07 text")

    monkeypatch.setattr(Owner, "changes", broken)
    result = shop.sams("review", "list", SHOP)
    assert result.exit_code == 1
    assert result.stderr == "failed (internal error TypeError): SAMS_DEBUG=1 shows where\n"
    monkeypatch.setenv("SAMS_DEBUG", "1")
    result = shop.sams("review", "list", SHOP)
    assert "broken" in result.stderr
    assert "\x1b" not in result.stderr


def test_the_program_in_a_printed_command_is_the_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sams_core.cli.paste import program

    script = tmp_path / "sams"
    script.touch(0o755)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert program() == [str(script)]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == ["sams"]
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "__main__.py")])
    assert program() == [sys.executable, "-m", "sams_core.cli"]


def test_words_that_would_act_on_a_terminal_are_quoted_for_the_shell(tmp_path: Path) -> None:
    from sams_core.cli.paste import quoted

    for word in ("a b", "it's", "\x1b]52;c;x\x07", "a\nb\\'", "\u202e\u00e9", "$(ls) `x` *"):
        line = quoted(word)
        assert all(char.isprintable() for char in line)
        shell = ["bash", "-c", f"printf %s {line}"]
        assert subprocess.run(shell, capture_output=True, check=True).stdout == word.encode()


def test_an_address_with_a_password_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    import click

    from sams_core.cli.paste import command

    def pasted(url: str) -> str:
        with click.Context(main) as context:
            context.meta["sams.url"] = url
            return command("review", "list", SHOP)

    assert "s3cret" not in pasted("postgresql://olga:s3cret@db/x")
    assert '--url "$SAMS_URL"' in pasted("postgresql://olga:s3cret@db/x")
    assert "--url 'postgresql://db/x?a=1&b=2'" in pasted("postgresql://db/x?a=1&b=2")
