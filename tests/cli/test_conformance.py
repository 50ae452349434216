"""`sams conformance`: what it runs, and that it fails closed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sams_core.cli import main


def conformance(*words: str) -> Result:
    return CliRunner().invoke(main, ["conformance", *words])


def test_one_id_runs_on_a_temporary_store_of_our_own_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hashlib.py").write_text("raise SystemExit('a file of the working folder ran')")
    monkeypatch.chdir(tmp_path)
    result = conformance("--id", "C1", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["passed"]
    assert list(report["ids"]) == ["C1"]
    assert not report["conformant"]  # the others weren't asked for


def test_a_strangers_broken_factory_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "strange_factory.py").write_text("def broken(location):\n    raise OSError('no')\n")
    monkeypatch.chdir(tmp_path)
    result = conformance("--backend", "strange_factory:broken", "--id", "C1")
    assert result.exit_code == 1
    assert "NOT CONFORMANT" in result.output


def test_names_that_cannot_be_loaded_are_usage_errors() -> None:
    for words in (("--backend", "no_such_module:x"), ("--backend", "x"), ("--id", "C99")):
        assert conformance(*words).exit_code == 2, words
