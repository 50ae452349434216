"""What a backend's author supplies: a factory of deployments, reopenable by name and location."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import sams_core

Role = Literal["agent", "dreamer", "owner"]
Test = TypeVar("Test", bound=Callable[..., None])


class Deployment(Protocol):
    """One store under test.

    `durable` says that the store outlives its deployment: the factory, called again with the same
    location in this or another process, opens the same store. Where it is False, reopening means
    calling `backend` again, and tests that need a second process are not applicable.

    A deployment may also have `AgentSession`, `Owner` or `DreamerSession`: a harness of its own,
    used in place of the class of that name in `sams_core`.
    """

    @property
    def durable(self) -> bool:
        """Whether the same location opens the same store again."""
        ...

    @property
    def location(self) -> str:
        """The location that the factory was called with."""
        ...

    def backend(self, role: Role, container: str) -> Any:
        """Return a backend connected as `role`, for `org`, `project:<id>` or `tenant:<id>`.

        Called again, it connects again: what one process has cached may not be in the answer.
        """
        ...


Factory = Callable[[str], AbstractContextManager[Deployment]]
"""A location to a deployment. A location names one store: it is the path of a folder that doesn't
exist yet, inside a temporary one; a database server's factory may derive a schema name from it."""


def load_factory(name: str) -> Factory:
    """Import a factory of deployments by name; see `load_callable`."""
    found: Factory = load_callable(name)
    return found


def load_callable(name: str) -> Any:
    """Import `package.module:factory`; raises `ValueError` where that names no callable."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError("a factory is named package.module:factory")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot load the factory: {error}") from error
    if not callable(found):
        raise ValueError("the factory is not callable")
    return found


def name_of(factory: Factory) -> str | None:
    """Return the name by which another process imports `factory`, or None if it can't."""
    name = f"{getattr(factory, '__module__', '')}:{getattr(factory, '__qualname__', '')}"
    try:
        return name if load_factory(name) is factory else None
    except ValueError:
        return None


@dataclass(frozen=True)
class Subject:
    """A deployment as the tests get it, with what it takes to open its store once more."""

    deployment: Deployment
    factory: Factory

    @property
    def durable(self) -> bool:
        """Whether the same location opens the same store again."""
        return self.deployment.durable

    @property
    def location(self) -> str:
        """Where the store is."""
        return self.deployment.location

    @property
    def factory_name(self) -> str:
        """The name by which another process imports the factory."""
        name = name_of(self.factory)
        assert name, "the factory of a durable store must be importable as package.module:factory"
        return name

    def backend(self, role: Role, container: str) -> Any:
        """Connect as `role` for `container`."""
        return self.deployment.backend(role, container)

    def again(self) -> AbstractContextManager[Deployment]:
        """Open the store a second time, beside the first; durable stores only."""
        return self.factory(self.location)

    def harness(self, name: str) -> Any:
        """Return the class `name`: the deployment's own, else the core's."""
        return getattr(self.deployment, name, None) or getattr(sams_core, name)


def needs_durable(test: Test) -> Test:
    """Declare that a test needs a store that outlives its deployment."""
    test.needs_durable = True  # type: ignore[attr-defined]
    return test
