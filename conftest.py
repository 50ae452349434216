"""What every test shares: anyio on asyncio alone, no deadlines, and the documents' examples."""

import gc
import os
import tempfile
from typing import Any

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

# Tests assert counts and bytes, never wall time. In CI hypothesis loads its own profile, which
# has no deadline either and is reproducible.
if "CI" not in os.environ:
    settings.register_profile("sams", deadline=None)
    settings.load_profile("sams")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # the frameworks' modules and the tests are never garbage: no need to look again


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def enter_empty_folder(namespace: dict[str, Any]) -> None:
    namespace["_back"] = os.getcwd()
    namespace["_folder"] = tempfile.TemporaryDirectory()
    os.chdir(namespace["_folder"].name)


def leave_folder(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_back"])
    namespace["_folder"].cleanup()


# Every ```python block of README.md, docs/ and adapters/*/README.md runs, in order, in one
# namespace a document and an empty working folder. `<!--- skip: next -->` before a block leaves
# it out.
pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/**/*.md", "adapters/*/README.md"],
    setup=enter_empty_folder,
    teardown=leave_folder,
).pytest()
