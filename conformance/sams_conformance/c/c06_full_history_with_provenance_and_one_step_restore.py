"""C6: every version stays with its provenance, and one step brings a named one back."""

from __future__ import annotations

from typing import Any

from sams_conformance.driver import Subject, needs_durable
from sams_conformance.process import process
from sams_conformance.support import (
    ACME,
    ORIGIN,
    SECRET,
    accept,
    agent,
    dreamer,
    marked,
    owner,
    publish,
    publish_labelled,
    queued,
    refused,
    seen_by,
)
from sams_core.errors import InvalidArguments, NotFound, ReviewMismatch, SamsError, VersionConflict


def _history(deployment: Subject, path: str = "facts", scope: str = ACME) -> list[Any]:
    return list(owner(deployment, scope).history(scope, path))


def test_history_is_complete_and_oldest_first(deployment: Subject) -> None:
    """Versions are numbered from 1 without a gap; the last is active, the others are superseded."""
    for number in range(5):
        publish(deployment, "facts", f"text {number}", f"title {number}", version=number or None)
    publish(deployment, "other", "apart")
    versions = _history(deployment)
    assert [entry.version for entry in versions] == [1, 2, 3, 4, 5]
    assert [entry.content for entry in versions] == [f"text {n}" for n in range(5)]
    assert [entry.description for entry in versions] == [f"title {n}" for n in range(5)]
    assert [entry.status for entry in versions] == ["superseded"] * 4 + ["active"]
    assert len({entry.digest for entry in versions}) == 5
    assert _history(deployment, "absent") == []
    assert owner(deployment).get(ACME, "facts").digest == versions[-1].digest


def test_each_version_says_who_wrote_it_in_which_session_and_from_what(deployment: Subject) -> None:
    """Owner, agent, marked agent and dreaming job each leave their own provenance."""
    publish(deployment, "facts", "by the owner")
    clean = agent(deployment, "s-clean", agent="scribe")
    accept(deployment, clean.memory_write("assigned", "facts", "by an agent", "d", 1).change_id)
    outside = marked(deployment, "s-outside", agent="reader")
    receipt = outside.memory_write("assigned", "facts", "from a page", "d", 2)
    accept(deployment, receipt.change_id, endorse="checked the page")
    job = dreamer(deployment, job_id="nightly")
    job.snapshot("clean")
    accept(deployment, job.propose("facts", "by a job", "d", rationale="tidy").id)
    first, second, third, fourth = _history(deployment)
    assert (first.author, first.source_session, first.tainted) == ("olga", None, False)
    assert (second.author, second.source_session) == ("scribe", "s-clean")
    assert (third.author, third.source_session) == ("reader", "s-outside")
    assert fourth.content == "by a job"
    assert fourth.author == "nightly"


def test_a_labelled_version_keeps_its_sources_in_history(deployment: Subject) -> None:
    """Superseding it by clean text doesn't rewrite the past."""
    publish_labelled(deployment, "facts", "from a page")
    entry = owner(deployment).get(ACME, "facts")
    owner(deployment).endorse(ACME, "facts", entry.digest, "checked it")
    publish(deployment, "facts", "the owner's words", version=2)
    labelled, endorsed, own = _history(deployment)
    assert labelled.tainted
    assert any(ORIGIN in (source.origin or "") for source in labelled.sources)
    assert not endorsed.tainted
    assert not own.tainted
    assert labelled.digest == entry.digest


def test_restore_brings_a_named_version_back_in_one_step(deployment: Subject) -> None:
    """The text is served again, byte for byte, as a new version; nothing is removed."""
    texts = ["first \u202e\n é\t", "second", "third"]
    for number, text in enumerate(texts):
        publish(deployment, "facts", text, f"title {number}", version=number or None)
    before = _history(deployment)
    restored = owner(deployment).restore(ACME, "facts", before[0].digest)
    assert (restored.version, restored.content) == (4, texts[0])
    assert restored.description == "title 0"
    assert agent(deployment).memory_read("assigned", "facts").content == texts[0]
    after = _history(deployment)
    assert [entry.digest for entry in after[:3]] == [entry.digest for entry in before]
    assert [entry.status for entry in after] == ["superseded"] * 3 + ["active"]
    assert len({entry.digest for entry in after}) == 4


def test_restore_names_a_digest_of_that_path(deployment: Subject) -> None:
    """A number, a made-up digest, another path's or another version's prefix restore nothing."""
    publish(deployment, "facts", "one")
    publish(deployment, "facts", "two", version=1)
    publish(deployment, "other", "elsewhere")
    first, other = _history(deployment)[0].digest, _history(deployment, "other")[0].digest
    for wrong in ("1", "0" * 64, other, first[:12], first.upper(), "", f"{first} "):
        with refused(NotFound, ReviewMismatch, InvalidArguments, note=repr(wrong)):
            owner(deployment).restore(ACME, "facts", wrong)
    assert [entry.content for entry in _history(deployment)] == ["one", "two"]


def test_labels_survive_restore(deployment: Subject) -> None:
    """A text comes back with the label that its named version had, and with its sources."""
    publish_labelled(deployment, "facts", "from a page")
    labelled = owner(deployment).get(ACME, "facts")
    endorsed = owner(deployment).endorse(ACME, "facts", labelled.digest, "checked it")
    publish(deployment, "facts", "the owner's words", version=2)
    back = owner(deployment).restore(ACME, "facts", labelled.digest)
    assert back.content == "from a page"
    assert back.tainted
    assert back.sources == labelled.sources
    reader = agent(deployment, "s-reader")
    assert reader.memory_index("assigned").items[0].labelled
    reader.memory_read("assigned", "facts")
    assert reader.tainted
    clean = owner(deployment).restore(ACME, "facts", endorsed.digest)
    assert not clean.tainted


def test_superseded_and_retired_text_is_served_by_nothing(deployment: Subject) -> None:
    """Search, index, context and read know the active version; the past is the owner's to see."""
    publish(deployment, "facts", "zanzibar once", "zanzibar title")
    publish(deployment, "facts", "madagascar now", "madagascar title", version=1)
    publish(deployment, "gone", "zanzibar too", "zanzibar title")
    owner(deployment).retire(ACME, "gone")
    for reader in (agent(deployment), marked(deployment)):
        assert "zanzibar" not in seen_by(reader, "assigned", "zanzibar", "zanzibar title")
        found = reader.memory_search("assigned", "madagascar").items
        assert [(listing.path, listing.version) for listing in found] == [("facts", 2)]
    digest = _history(deployment)[0].digest
    owner(deployment).restore(ACME, "facts", digest)
    reader = agent(deployment, "s-later")
    assert "madagascar" not in seen_by(reader, "assigned", "madagascar", "madagascar title")
    assert [x.version for x in reader.memory_search("assigned", "zanzibar").items] == [3]


def test_versions_never_restart_after_retirement(deployment: Subject) -> None:
    """A retired path is served to nobody, keeps its history, and goes on counting."""
    publish(deployment, "facts", "one")
    digest = _history(deployment)[0].digest
    owner(deployment).retire(ACME, "facts")
    reader = agent(deployment)
    with refused(NotFound):
        reader.memory_read("assigned", "facts")
    assert not reader.memory_index("assigned").items
    assert not reader.memory_search("assigned", "one").items
    assert owner(deployment).get(ACME, "facts") is None
    assert [entry.status for entry in _history(deployment)] == ["retired"]
    owner(deployment).retire(ACME, "facts")
    with refused(VersionConflict):
        publish(deployment, "facts", "again", version=1)
    again = publish(deployment, "facts", "again")
    assert again.version > 1
    owner(deployment).retire(ACME, "facts")
    back = owner(deployment).restore(ACME, "facts", digest)
    assert (back.content, back.status) == ("one", "active")
    assert back.version > again.version
    assert reader.memory_read("assigned", "facts").content == "one"
    with refused(NotFound):
        owner(deployment).retire(ACME, "never-was")


def test_retiring_keeps_what_is_waiting(deployment: Subject) -> None:
    """An open change of a retired path can't be accepted on its old base, and isn't lost."""
    publish(deployment, "facts", "one")
    receipt = agent(deployment).memory_write("assigned", "facts", "two", "d", 1)
    change = queued(deployment, receipt.change_id)
    owner(deployment).retire(ACME, "facts")
    with refused(VersionConflict, ReviewMismatch):
        owner(deployment).accept(ACME, change.id, change.digest)
    assert queued(deployment, change.id).content == "two"


def test_restoring_what_is_served_already_adds_no_version(deployment: Subject) -> None:
    """The same decision twice gives the same result."""
    publish(deployment, "facts", "one")
    publish(deployment, "facts", "two", version=1)
    first = _history(deployment)[0].digest
    once = owner(deployment).restore(ACME, "facts", first)
    assert owner(deployment).restore(ACME, "facts", first) == once
    assert len(_history(deployment)) == 3


def test_no_two_versions_share_a_digest(deployment: Subject) -> None:
    """Equal text at another version, path or scope, or with another label, has its own digest."""
    for scope in (ACME, "tenant:globex", "org"):
        for path in ("a", "b"):
            for version in (None, 1):
                publish(deployment, path, "same", "same", scope=scope, version=version)
    publish_labelled(deployment, "c", "same")
    entry = owner(deployment).get(ACME, "c")
    owner(deployment).endorse(ACME, "c", entry.digest, "checked")
    digests = [
        entry.digest
        for scope in (ACME, "tenant:globex", "org")
        for path in ("a", "b", "c")
        for entry in _history(deployment, path, scope)
    ]
    assert len(digests) == 14
    assert len(set(digests)) == 14


def test_secrets_never_enter_history(deployment: Subject) -> None:
    """The owner's own texts are redacted before they are stored, like everybody's."""
    entry = publish(deployment, "facts", f"the key is {SECRET}", f"about {SECRET}")
    assert SECRET not in repr(entry.to_dict())
    assert SECRET not in repr([version.to_dict() for version in _history(deployment)])
    with refused(SamsError):
        publish(deployment, SECRET)


@needs_durable
def test_history_and_restore_work_from_a_new_process(deployment: Subject) -> None:
    """Another process sees the same versions and digests, and restores by them."""
    publish_labelled(deployment, "facts", "from a page")
    labelled = owner(deployment).get(ACME, "facts")
    owner(deployment).endorse(ACME, "facts", labelled.digest, "checked it")
    with process(deployment) as there:
        boss = there.owner(name="otto")
        shown = boss.call("history", ACME, "facts")
        assert [entry["digest"] for entry in shown] == [e.digest for e in _history(deployment)]
        assert boss.call("restore", ACME, "facts", labelled.digest)["tainted"]
    assert [entry.tainted for entry in _history(deployment)] == [True, False, True]
