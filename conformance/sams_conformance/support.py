"""The vocabulary of the tests: open a role, publish an entry, expect a refusal, run a race."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from sams_conformance.driver import Role, Subject
from sams_core.errors import SamsError

ACME = "tenant:acme"
OTHER = "tenant:globex"
SECRET = "ghp" + "_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
ORIGIN = "https://evil.example/page"
LOOK_ALIKES = (
    ("john_doe", "john-doe"),
    ("acme", "acme-corp"),
    ("Acme", "acme"),
    ("*", "acme"),
    ("_", "a"),
    ("%", "acme"),
    ("acm_", "acme"),
    ("acme%", "acme-1"),
    ("acme.", "acme"),
    ("acme ", "acme"),
    ("ﬁrm", "firm"),
    ("caf\u00e9", "cafe\u0301"),
    ("аcme", "acme"),
    ("a:b", "a"),
    ("a#b", "a"),
    ("..", "."),
    ("x" * 200, "x" * 199),
)
"""Pairs of ids that are equal to a wildcard, a prefix match, a case fold, a file name or the eye."""


def agent(
    deployment: Subject,
    session_id: str = "s-1",
    *,
    agent: str = "writer",
    assigned: str = ACME,
    backend: Any = None,
    **declared: Any,
) -> Any:
    """Open a session; both declarations that keep it clean are made unless `declared` differs."""
    declared = {"user": "insider", "observed": "by-hand"} | declared
    return deployment.harness("AgentSession")(
        backend or deployment.backend("agent", assigned),
        session_id=session_id,
        agent=agent,
        assigned=assigned,
        **declared,
    )


def marked(deployment: Subject, session_id: str = "s-marked", **more: Any) -> Any:
    """Open a session that has read outsiders' content."""
    session = agent(deployment, session_id, **more)
    session.mark_tainted("read a web page", origin=ORIGIN)
    return session


def owner(
    deployment: Subject, scope: str = ACME, name: str = "olga", *, backend: Any = None
) -> Any:
    """Open the owner of a scope."""
    return deployment.harness("Owner")(backend or deployment.backend("owner", scope), name)


def dreamer(deployment: Subject, scope: str = ACME, job_id: str = "job-1") -> Any:
    """Open a dreaming job on a scope."""
    backend = deployment.backend("dreamer", scope)
    return deployment.harness("DreamerSession")(backend, job_id=job_id, scope=scope)


def publish(
    deployment: Subject,
    path: str,
    content: str = "plain content",
    description: str = "plain description",
    *,
    scope: str = ACME,
    version: int | None = None,
) -> Any:
    """Publish an entry of the owner's own."""
    return owner(deployment, scope).write(
        scope, path, content, description, expected_version=version
    )


def publish_labelled(
    deployment: Subject,
    path: str,
    content: str = "outside content",
    description: str = "outside description",
    *,
    scope: str = ACME,
    version: int | None = None,
    session_id: str = "s-outside",
) -> Any:
    """Have a marked session write and the owner accept: the entry is labelled."""
    session = marked(deployment, session_id, assigned=scope)
    receipt = session.memory_write("assigned", path, content, description, version)
    entry = accept(deployment, receipt.change_id, scope=scope)
    assert entry.tainted, "an accepted change of a marked session must be labelled"
    return entry


def queued(deployment: Subject, change_id: str | None, scope: str = ACME) -> Any:
    """Return the open change of that id as the owner sees it."""
    found = [c for c in owner(deployment, scope).changes(scope) if c.id == change_id]
    assert len(found) == 1, f"{len(found)} open changes of that id"
    return found[0]


def accept(
    deployment: Subject, change_id: str | None, scope: str = ACME, endorse: str | None = None
) -> Any:
    """Review and accept a change."""
    change = queued(deployment, change_id, scope)
    return owner(deployment, scope).accept(scope, change.id, change.digest, endorse=endorse)


def seen_by(session: Any, scope: str, *queries: str) -> str:
    """Return, as one text, what a session is shown without reading: index, searches, context."""
    shown: list[object] = [listing.to_dict() for listing in whole_index(session, scope)]
    for query in queries:
        shown.append(session.memory_search(scope, query).to_dict())
    shown.append(session.context_block())
    return json.dumps(shown, ensure_ascii=False)


def whole_index(session: Any, scope: str) -> list[Any]:
    """Return all pages of an index; a cursor that doesn't move on is a failure."""
    page = session.memory_index(scope)
    items = list(page.items)
    cursors = set()
    while page.cursor is not None:
        assert page.cursor not in cursors, "the cursor goes in a circle"
        cursors.add(page.cursor)
        page = session.memory_index(scope, page.cursor)
        items += page.items
    return items


def paths(listings: Iterable[Any]) -> list[str]:
    """Return the paths of listings."""
    return [listing.path for listing in listings]


class refused:
    """A block that must end in a refusal of one of `kinds`; it is `error` afterwards."""

    def __init__(self, *kinds: type[SamsError], note: str = "") -> None:
        self.kinds = kinds or (SamsError,)
        self.note = note
        self.error: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool:
        wanted = " or ".join(k.__name__ for k in self.kinds)
        if error is None:
            raise AssertionError(f"not refused; {wanted} expected {self.note}")
        if not isinstance(error, self.kinds):
            if isinstance(error, SamsError):
                found = f"{type(error).__name__} ({error.rule})"
                raise AssertionError(f"{wanted} expected, found {found} {self.note}") from error
            return False
        self.error = error
        return True


def race(jobs: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run the jobs in threads that start together; return results, or the refusals raised.

    Anything raised that is no `SamsError` fails the test.
    """
    barrier = threading.Barrier(len(jobs))
    results: list[Any] = [None] * len(jobs)
    broken: list[BaseException] = []

    def work(number: int) -> None:
        try:
            barrier.wait()
            results[number] = jobs[number]()
        except SamsError as refusal:
            results[number] = refusal
        except BaseException as error:
            broken.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise broken[0]
    return results


def split(results: Sequence[Any]) -> tuple[list[Any], list[SamsError]]:
    """Part the results of a race into successes and refusals."""
    refusals = [r for r in results if isinstance(r, SamsError)]
    return [r for r in results if not isinstance(r, SamsError)], refusals


class Tampered:
    """A backend whose named verbs are replaced; everything else is the real one's."""

    def __init__(self, backend: Any, **verbs: Any) -> None:
        self._backend = backend
        self._verbs = verbs

    def __getattr__(self, name: str) -> Any:
        return self._verbs.get(name) or getattr(self._backend, name)


def tampered(deployment: Subject, role: Role, scope: str, **verbs: Callable[..., Any]) -> Tampered:
    """Connect, with verbs replaced; a replacement gets the real backend as its first argument."""
    real = deployment.backend(role, scope)

    def bound(verb: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: verb(real, *args, **kwargs)

    return Tampered(real, **{name: bound(verb) for name, verb in verbs.items()})


def elsewhere(deployment: Subject, role: Role, scope: str) -> Tampered:
    """Connect so that the harness takes the store for one that it hasn't met in this process.

    What it remembers of sessions that are open here is then out of play, as in another process.
    """
    real = deployment.backend(role, scope)
    return Tampered(real, location=f"{real.location} seen from elsewhere")
