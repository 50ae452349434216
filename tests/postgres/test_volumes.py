"""Many client processes on one database: no increment lost, nothing accepted that wasn't reviewed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from .conftest import ACME, Store
from .crowd import Crowd

CLIENTS = 8


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    made = Crowd()
    yield made
    made.close()


@pytest.mark.parametrize("times", [5, pytest.param(250, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shared", [True, False], ids=["one", "own"])
@pytest.mark.parametrize("what", ["note", "entry"])
def test_eight_clients_that_read_modify_and_write_lose_nothing(
    store: Store, crowd: Crowd, what: str, shared: bool, times: int
) -> None:
    names = ["n0" if shared else f"n{number}" for number in range(CLIENTS)]
    url = store.database.granted("agent" if what == "note" else "owner", ACME)
    for name in names:
        crowd.start(f"count_{what}", url, name, times)
    crowd.await_end()
    counted = Counter(name for (name,) in crowd.heard("counted"))
    assert counted == Counter({name: times * names.count(name) for name in names})
    session, owner = store.session(), store.owner()
    for name, total in counted.items():
        found = session.memory_read("run", name) if what == "note" else owner.get(ACME, name)
        assert found is not None
        assert (found.content, found.version) == (str(total), total)
        if what == "entry":
            texts = [entry.content for entry in owner.history(ACME, name)]
            assert texts == [str(number) for number in range(1, total + 1)]


@pytest.mark.parametrize("times", [60, pytest.param(2_000, marks=pytest.mark.slow)])
def test_nothing_is_accepted_that_was_not_reviewed(store: Store, crowd: Crowd, times: int) -> None:
    database = store.database
    agent, owner = database.granted("agent", ACME), database.granted("owner", ACME)
    for number in range(2):
        crowd.start("rewrite", agent, f"s{number}")
        crowd.start("accept", owner, f"olga{number}")
    crowd.hear(times, "accepted")
    crowd.finish()
    assert ("changed-since-review",) in crowd.heard("too late")  # the race was on
    history = {
        (path, entry.version): entry.content
        for path in (f"p{number}" for number in range(12))
        for entry in store.owner().history(ACME, path)
    }
    accepted = set(crowd.heard("accepted"))  # two owners may both be told of one decision
    assert all(reviewed == served for _, _, reviewed, served in accepted)
    assert {(path, version): text for path, version, text, _ in accepted} == history
    assert len(history) == len(accepted) >= times // 2
    assert {(path, text) for path, _, text, _ in accepted} <= set(crowd.heard("written"))
