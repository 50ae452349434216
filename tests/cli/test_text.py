"""`sams redact` and `sams rules test` on files, pipes and JSON Lines."""

from __future__ import annotations

import gc
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

import sams_core
from sams_core.cli import main

SECRET = "ghp_" + "Q3eGZ7nVX2kLMp4W" + "b9TcR5yHs8JdF6uA1oEi"


def redact(*words: str, text: str | bytes = "") -> Result:
    return CliRunner().invoke(main, ["redact", *words], input=text)


def test_standard_input_loses_its_secrets_and_nothing_else(tmp_path: Path) -> None:
    result = redact(text=f"one\r\nkey {SECRET}\ttwo \u202e")
    assert result.exit_code == 0
    assert SECRET not in result.stdout
    assert result.stdout_bytes.startswith(b"one\r\nkey [REDACTED")
    assert result.stdout.endswith("\ttwo \u202e")
    assert result.stderr.startswith("cut: ")
    assert SECRET not in result.stderr


def test_on_a_terminal_the_rest_is_visible_text(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("one \x1b]52;c;x\x07 two\n")
    ours, theirs = pty.openpty()
    root = str(Path(sams_core.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "sams_core.cli", "redact", str(file)],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": root},
        check=False,
    )
    os.close(theirs)
    shown = os.read(ours, 10_000)
    os.close(ours)
    assert done.returncode == 0, done.stderr
    assert shown == b"one \\x1b]52;c;x\\x07 two\r\n"


def test_files_are_written_one_after_the_other_byte_for_byte(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"plain \xff\xfe\x00 text\r\n")
    second.write_bytes(b"more")
    result = redact(str(first), str(second))
    assert result.exit_code == 0
    assert result.stdout_bytes == b"plain \xff\xfe\x00 text\r\nmore"
    assert result.stderr == "cut: nothing\n"


def test_json_lines_keep_their_structure() -> None:
    lines = [
        json.dumps({"a": [1, {"note": f"x {SECRET} y"}], "b": None}),
        '{"password": "q8#vLr2!zKp0", "n": 1.50}',
        '{"plain":   true}',
        "",
    ]
    result = redact("--jsonl", text="\n".join(lines))
    assert result.exit_code == 0, result.output
    one, two, three, four = result.stdout.split("\n")
    assert SECRET not in one
    assert json.loads(one)["a"][0] == 1
    assert "q8#" not in two
    assert json.loads(two).keys() == {"password", "n"}
    assert (three, four) == ('{"plain":   true}', "")


def test_json_lines_look_behind_escapes_and_at_names() -> None:
    escaped = "".join(f"\\u{ord(char):04x}" for char in SECRET)
    result = redact("--jsonl", text=f'{{"{SECRET}": "{escaped}"}}\n')
    assert result.exit_code == 0
    assert SECRET not in result.stdout
    ((name, value),) = json.loads(result.stdout).items()
    assert SECRET not in name + value


def test_what_is_not_cut_from_a_json_line_stays_as_it_was_written() -> None:
    numbers = '"n": [1.10, 1e400, 12345678901234567890.5, ' + "9" * 400 + ", -0.0, NaN]"
    line = f'{{"half": "\\ud800\\udfff\\ud800", "password": "{SECRET}", {numbers}}}\n'
    result = redact("--jsonl", text=line)
    assert result.exit_code == 0, result.stderr
    assert SECRET not in result.stdout
    assert numbers in result.stdout
    assert json.loads(result.stdout)["half"] == json.loads('"\\ud800\\udfff\\ud800"')


def test_a_closed_stream_is_a_usage_error_and_a_full_one_is_no_refusal() -> None:
    root = str(Path(sams_core.__file__).parents[1])
    for ends, code in (
        (">&-", 2),
        ("<&-", 2),
        (">/dev/full", 1),
    ):
        done = subprocess.run(
            [
                "sh",
                "-c",
                f'echo "key {SECRET}" | "$0" -m sams_core.cli redact {ends}',
                sys.executable,
            ],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": root},
            check=False,
        )
        assert (done.returncode, done.stdout) == (code, "")
        assert "internal" not in done.stderr
        assert "refused" not in done.stderr


def test_a_line_that_is_no_json_is_refused_with_its_number_only() -> None:
    gc.collect()  # or another test's leftovers are finalised where the recursion ends
    for bad in (f"{{{SECRET}", '{"a": 1, "a": 2}', "[" * 100_000):
        result = redact("--jsonl", text='{"a": 1}\n' + bad)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert "line 2" in result.stderr
        assert SECRET not in result.stderr


def test_personal_data_is_cut_on_request_only() -> None:
    text = "write to anna@shop.example"
    assert redact(text=text).stdout == text
    assert redact("--personal", "no-such-kind", text=text).exit_code == 2


def test_the_shipped_rules_do_what_their_examples_say() -> None:
    result = CliRunner().invoke(main, ["rules", "test"])
    assert result.exit_code == 0, result.output
    assert "all as they say" in result.stdout
    data = json.loads(CliRunner().invoke(main, ["rules", "test", "--json"]).stdout)
    assert data["rules"] > 0
    assert data["examples"] >= data["rules"]
    assert data["failures"] == []


def test_rules_of_ones_own_are_used_and_tested(tmp_path: Path) -> None:
    file = tmp_path / "sams.toml"
    rule = '[[redaction.rules]]\nid = "badge"\npattern = "BDG-[0-9]{6}"\ncatch = ["BDG-123456"]\n'
    file.write_text(rule)
    assert "BDG" not in redact("--rules", str(file), text="badge BDG-654321").stdout
    good = CliRunner().invoke(main, ["rules", "test", "--rules", str(file)])
    assert (good.exit_code, good.stdout) == (
        0,
        "1 rules in sams.toml, 1 examples: all as they say\n",
    )
    file.write_text(rule.replace("BDG-123456", "nothing of the kind"))
    bad = CliRunner().invoke(main, ["rules", "test", "--rules", str(file)])
    assert bad.exit_code == 1
    for broken in ("", "[[redaction.rules]]\nid = 3\n", "= ="):
        file.write_text(broken)
        result = CliRunner().invoke(main, ["rules", "test", "--rules", str(file)])
        assert result.exit_code == 1, broken
        assert "Traceback" not in result.output
