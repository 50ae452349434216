"""Which strings are ids, paths and scopes."""

from __future__ import annotations

import pytest

from sams_core.backends.sqlite.folders import folder_name
from sams_core.errors import InvalidArguments, ScopeError
from sams_core.scopes import check_assigned, check_container, check_id, check_path


@pytest.mark.parametrize("path", ["a", "a/b.md", "A_b-c.1", "/".join("abcdefgh"), "x" * 96, "..a"])
def test_a_path_is_ascii_segments(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize(
    "path",
    ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "x" * 97, "/".join("abcdefghi"), "é"]
    + [
        "a b",
        "a\n",
        "a\\b",
        "untrusted",
        "untrusted/7f3a91c2",
        "Untrusted/x",
        "a\u0000",
        "a*",
        "%2e",
    ],
)
def test_another_form_of_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidArguments):
        check_path(path)


@pytest.mark.parametrize(
    "bad", ["", "a/b", "x" * 201, "a\nb", "a\u202eb", "\u200b", 7, None, "\ud800"]
)
def test_an_id_is_1_to_200_printable_characters_without_a_slash(bad: object) -> None:
    with pytest.raises(InvalidArguments):
        check_id(bad, "id")
    assert check_id("héllo wörld *_%", "id") == "héllo wörld *_%"


@pytest.mark.parametrize(
    "bad", ["", "orgs", "tenant", "tenant:", "tenant:a/b", "run:x", "Tenant:a", 1]
)
def test_a_container_is_org_or_one_project_or_tenant(bad: object) -> None:
    with pytest.raises(ScopeError):
        check_container(bad)


def test_a_session_is_not_assigned_to_org() -> None:
    with pytest.raises(ScopeError):
        check_assigned("org")


def test_container_folders_differ_where_a_file_system_folds_names() -> None:
    names = ["tenant:acme", "tenant:Acme", "tenant:ACME", "tenant:acme.", "tenant:acme ", "org"]
    names += [
        "tenant:é",
        "tenant:e\u0301",
        "project:acme",
        "tenant:a=41",
        "tenant:aA",
        "tenant:" + "x" * 200,
    ]
    names += ["tenant:" + "x" * 199 + "X", "tenant:" + "x" * 199 + "é"]
    folders = [folder_name(name) for name in names]
    assert len({folder.casefold() for folder in folders}) == len(names)
    assert all(folder.isascii() and len(folder) <= 255 for folder in folders)
