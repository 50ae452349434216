"""C1 to C12 on the three backends that the core brings: every conformance test is a test here."""

from __future__ import annotations

from pathlib import Path

import pytest

from sams_conformance.driver import Factory
from sams_conformance.factories import memory, postgres, sqlite
from sams_conformance.runner import Case, collect, subject

BACKENDS = {"memory": memory, "sqlite": sqlite, "postgres": postgres}


@pytest.mark.parametrize("case", collect(), ids=lambda case: f"{case.id}-{case.name[5:]}")
@pytest.mark.parametrize("factory", BACKENDS.values(), ids=BACKENDS)
def test_backend_conforms(factory: Factory, case: Case, tmp_path: Path) -> None:
    with subject(factory, str(tmp_path / "store")) as deployment:
        if case.needs_durable and not deployment.durable:
            pytest.skip("not applicable: the store doesn't outlive its process")
        case.test(deployment)
