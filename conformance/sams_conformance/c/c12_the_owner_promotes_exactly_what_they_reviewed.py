"""C12: a decision names the digest of what was shown; anything that differs is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from sams_conformance.driver import Subject, needs_durable
from sams_conformance.process import process
from sams_conformance.support import (
    ACME,
    accept,
    agent,
    marked,
    owner,
    publish,
    publish_labelled,
    queued,
    race,
    refused,
)
from sams_core.errors import (
    InvalidArguments,
    NotFound,
    PermissionDenied,
    ReviewMismatch,
    SamsError,
    VersionConflict,
)


def _change(
    deployment: Subject, text: str = "reviewed", session: Any = None, path: str = "facts"
) -> Any:
    writer = session or agent(deployment)
    served = owner(deployment).get(ACME, path)
    version = served.version if served else None
    receipt = writer.memory_write("assigned", path, text, "d", version)
    return queued(deployment, receipt.change_id)


def test_a_digest_that_wasnt_shown_accepts_nothing(deployment: Subject) -> None:
    """Made up, cut short, in capitals, of another change, of the entry that it replaces."""
    base = publish(deployment, "facts", "the base")
    change, other = _change(deployment), _change(deployment, path="other")
    wrong = ["0" * 64, change.digest[:12], change.digest.upper(), other.digest, base.digest]
    wrong += [change.id, "1", f"{change.digest} ", ""]
    for digest in wrong:
        with refused(ReviewMismatch, InvalidArguments, note=digest):
            owner(deployment).accept(ACME, change.id, digest)
    for digest in wrong[:5]:
        with refused(ReviewMismatch, note=digest):
            owner(deployment).accept(ACME, change.id, digest, endorse="sure")
    assert owner(deployment).get(ACME, "facts").content == "the base"
    assert len(owner(deployment).changes(ACME)) == 2


def test_an_id_that_isnt_open_accepts_nothing(deployment: Subject) -> None:
    """Unknown ids are not found, in whatever form."""
    change = _change(deployment)
    for change_id in ("0" * 32, change.id[:8], change.id.upper(), "*", "", "../x", change.digest):
        with refused(NotFound, InvalidArguments, note=change_id):
            owner(deployment).accept(ACME, change_id, change.digest)
        with refused(NotFound, InvalidArguments, note=change_id):
            owner(deployment).reject(ACME, change_id)
    assert len(owner(deployment).changes(ACME)) == 1


def test_a_rewrite_after_a_reject_needs_its_own_review(deployment: Subject) -> None:
    """Reviewed harmless, rejected, rewritten evil: neither old id nor old digest serves it."""
    first = _change(deployment, "harmless")
    owner(deployment).reject(ACME, first.id)
    second = _change(deployment, "evil")
    assert second.id != first.id
    assert second.digest != first.digest
    for change_id, digest in (
        (first.id, first.digest),
        (second.id, first.digest),
        (first.id, second.digest),
    ):
        with refused(NotFound, ReviewMismatch):
            owner(deployment).accept(ACME, change_id, digest)
    assert owner(deployment).get(ACME, "facts") is None
    assert queued(deployment, second.id).content == "evil"


def test_even_the_same_text_again_is_another_change(deployment: Subject) -> None:
    """Ids are never reused and digests not shared: an old approval approves nothing new."""
    first = _change(deployment, "same")
    owner(deployment).reject(ACME, first.id)
    second = _change(deployment, "same")
    assert (second.id, second.digest) != (first.id, first.digest)
    assert second.id != first.id
    assert second.digest != first.digest
    with refused(SamsError):
        owner(deployment).accept(ACME, second.id, first.digest)


def test_a_superseded_change_cant_be_accepted(deployment: Subject) -> None:
    """Its author has rewritten it since: the owner is told that it changed."""
    session = agent(deployment)
    reviewed = _change(deployment, "harmless", session)
    successor = _change(deployment, "evil", session)
    for change_id, digest in (
        (reviewed.id, reviewed.digest),
        (reviewed.id, successor.digest),
        (successor.id, reviewed.digest),
    ):
        with refused(ReviewMismatch, NotFound):
            owner(deployment).accept(ACME, change_id, digest)
    assert owner(deployment).get(ACME, "facts") is None
    owner(deployment).accept(ACME, successor.id, successor.digest)
    with refused(ReviewMismatch, NotFound):
        owner(deployment).accept(ACME, reviewed.id, reviewed.digest)


def test_a_base_that_moved_is_a_conflict_and_the_change_stays(deployment: Subject) -> None:
    """The diff that was reviewed was against another text."""
    publish(deployment, "facts", "one")
    change = _change(deployment, "two")
    publish(deployment, "facts", "the owner's", version=1)
    for endorse in (None, "sure"):
        with refused(VersionConflict) as refusal:
            owner(deployment).accept(ACME, change.id, change.digest, endorse=endorse)
        assert (refusal.error.expected, refusal.error.found) == (1, 2)
    assert owner(deployment).get(ACME, "facts").content == "the owner's"
    assert queued(deployment, change.id).content == "two"


def test_the_same_text_put_back_is_still_another_base(deployment: Subject) -> None:
    """Versions never restart: one, two, one again isn't where the review began."""
    publish(deployment, "facts", "one")
    change = _change(deployment, "new")
    publish(deployment, "facts", "two", version=1)
    first = owner(deployment).history(ACME, "facts")[0].digest
    owner(deployment).restore(ACME, "facts", first)
    with refused(VersionConflict):
        owner(deployment).accept(ACME, change.id, change.digest)
    assert owner(deployment).get(ACME, "facts").version == 3


def test_the_same_decision_twice_gives_the_same_result(deployment: Subject) -> None:
    """Accepting again returns the entry, rejecting again does nothing, later versions or not."""
    yes, no = _change(deployment, path="yes"), _change(deployment, path="no")
    boss = owner(deployment)
    entry = boss.accept(ACME, yes.id, yes.digest)
    assert boss.accept(ACME, yes.id, yes.digest).digest == entry.digest
    assert len(boss.history(ACME, "yes")) == 1
    publish(deployment, "yes", "later", version=1)
    assert boss.accept(ACME, yes.id, yes.digest).digest == entry.digest
    assert boss.get(ACME, "yes").content == "later"
    boss.reject(ACME, no.id)
    boss.reject(ACME, no.id)
    with refused(ReviewMismatch):
        boss.accept(ACME, yes.id, no.digest)


def test_a_decision_isnt_reversed_by_the_opposite_one(deployment: Subject) -> None:
    """Accepted can't be rejected, rejected can't be accepted."""
    yes, no = _change(deployment, path="yes"), _change(deployment, path="no")
    boss = owner(deployment)
    boss.accept(ACME, yes.id, yes.digest)
    boss.reject(ACME, no.id)
    with refused(NotFound):
        boss.reject(ACME, yes.id)
    with refused(NotFound):
        boss.accept(ACME, no.id, no.digest)
    assert boss.get(ACME, "yes") is not None
    assert boss.get(ACME, "no") is None


def test_accepting_tainted_text_serves_it_labelled(deployment: Subject) -> None:
    """Accept isn't endorse: only a reason takes the label, and it is recorded."""
    one, two = marked(deployment, "s-1"), marked(deployment, "s-2")
    plain = _change(deployment, "a", one, "plain")
    vouched = _change(deployment, "b", two, "vouched")
    boss = owner(deployment)
    for reason in ("", " ", "x" * 10_000):
        with refused(SamsError, note=f"reason of {len(reason)}"):
            boss.accept(ACME, vouched.id, vouched.digest, endorse=reason)
    entry = boss.accept(ACME, plain.id, plain.digest)
    assert entry.tainted
    assert entry.sources == plain.sources
    trusted = boss.accept(ACME, vouched.id, vouched.digest, endorse="I read the page")
    assert not trusted.tainted
    record = str(trusted.to_dict())
    assert "I read the page" in record
    assert "olga" in record
    assert vouched.digest in record


def test_tainted_text_doesnt_replace_trusted_text_unendorsed(deployment: Subject) -> None:
    """Clean sessions would lose the entry: refused without a reason, possible with one."""
    publish(deployment, "facts", "trusted")
    change = _change(deployment, "from a page", marked(deployment))
    with refused(PermissionDenied):
        owner(deployment).accept(ACME, change.id, change.digest)
    assert agent(deployment, "s-r").memory_read("assigned", "facts").content == "trusted"
    entry = owner(deployment).accept(ACME, change.id, change.digest, endorse="read it")
    assert not entry.tainted
    assert agent(deployment, "s-r").memory_read("assigned", "facts").content == "from a page"


def test_endorsing_names_the_version_that_was_read(deployment: Subject) -> None:
    """Another digest, a version that has moved, an unlabelled entry: nothing is endorsed."""
    first = publish_labelled(deployment, "facts", "harmless")
    second = publish_labelled(deployment, "facts", "evil", version=1)
    ours = publish(deployment, "ours")
    boss = owner(deployment)
    for path, digest, kinds in (
        ("facts", first.digest, (ReviewMismatch,)),
        ("facts", "0" * 64, (ReviewMismatch,)),
        ("facts", "2", (ReviewMismatch, InvalidArguments)),
        ("ours", second.digest, (ReviewMismatch,)),
        ("ours", ours.digest, (SamsError,)),
        ("absent", second.digest, (NotFound,)),
    ):
        with refused(*kinds, note=f"{path} {digest[:6]}"):
            boss.endorse(ACME, path, digest, "sure")
    with refused(SamsError):
        boss.endorse(ACME, "facts", second.digest, "")
    assert boss.get(ACME, "facts").tainted
    entry = boss.endorse(ACME, "facts", second.digest, "I read the page")
    assert (entry.content, entry.tainted, entry.version) == ("evil", False, 3)
    record = str(entry.to_dict())
    assert "I read the page" in record
    assert "olga" in record
    assert second.digest in record
    assert boss.endorse(ACME, "facts", second.digest, "I read the page").digest == entry.digest
    assert [e.tainted for e in boss.history(ACME, "facts")] == [True, True, False]


def test_an_edit_decides_its_change_and_keeps_the_label(deployment: Subject) -> None:
    """`write(based_on=change)` is the owner's text with the change's marks, in one decision."""
    change = _change(deployment, "from a page", marked(deployment))
    boss = owner(deployment)
    entry = boss.write(ACME, "facts", "corrected", "d", based_on=change.id)
    assert (entry.content, entry.tainted, entry.author) == ("corrected", True, "olga")
    assert entry.sources == change.sources
    assert boss.changes(ACME) == []
    with refused(NotFound, ReviewMismatch):
        boss.accept(ACME, change.id, change.digest)
    with refused(NotFound):
        boss.reject(ACME, change.id)
    with refused(SamsError):
        boss.write(ACME, "facts", "again", "d", expected_version=1, based_on=change.id)
    clean = _change(deployment, "clean text", path="clean")
    assert not boss.write(ACME, "clean", "corrected", "d", based_on=clean.id).tainted


def test_an_edit_whose_base_moved_decides_nothing(deployment: Subject) -> None:
    """The write is refused and the change still waits: both or neither."""
    publish(deployment, "facts", "one")
    change = _change(deployment, "two")
    publish(deployment, "facts", "moved", version=1)
    with refused(VersionConflict):
        owner(deployment).write(
            ACME, "facts", "edited", "d", expected_version=1, based_on=change.id
        )
    assert queued(deployment, change.id).content == "two"
    assert owner(deployment).get(ACME, "facts").content == "moved"


def test_a_write_over_a_labelled_version_keeps_its_label(deployment: Subject) -> None:
    """By default, and where a labelled version is named as base; unknown bases are refused."""
    labelled = publish_labelled(deployment, "facts", "from a page")
    boss = owner(deployment)
    edited = boss.write(ACME, "facts", "edited", "d", expected_version=1)
    assert edited.tainted
    assert edited.sources == labelled.sources
    publish(deployment, "ours", "ours")
    copied = boss.write(ACME, "ours", "copy", "d", expected_version=1, based_on=labelled.digest)
    assert copied.tainted
    assert not boss.write(ACME, "new", "x", "d").tainted
    for unknown in ("0" * 64, "0" * 32, "latest"):
        with refused(NotFound, InvalidArguments, ReviewMismatch, note=unknown):
            boss.write(ACME, "new2", "x", "d", based_on=unknown)
    assert boss.get(ACME, "new2") is None


def test_owners_write_only_where_they_think_nothing_or_that_version_is(
    deployment: Subject,
) -> None:
    """None as expected version means that there must be none."""
    publish(deployment, "facts", "one")
    for version in (None, 0, 2):
        with refused(VersionConflict):
            publish(deployment, "facts", "lost", version=version)
    with refused(VersionConflict):
        publish(deployment, "absent", "lost", version=1)
    assert owner(deployment).get(ACME, "facts").content == "one"


def test_owner_verbs_are_refused_beside_an_agent(deployment: Subject) -> None:
    """While a session is ambient, in any thread, or named in the environment: reads included."""
    change = _change(deployment)
    boss = owner(deployment)
    session = agent(deployment, "s-ambient")
    verbs: tuple[Callable[[], Any], ...] = (
        partial(boss.changes, ACME),
        partial(boss.accept, ACME, change.id, change.digest),
        partial(boss.reject, ACME, change.id),
        partial(boss.endorse, ACME, "facts", change.digest, "sure"),
        partial(boss.get, ACME, "facts"),
        partial(boss.history, ACME, "facts"),
        partial(boss.write, ACME, "new", "x", "d"),
        partial(boss.restore, ACME, "facts", change.digest),
        partial(boss.retire, ACME, "facts"),
        partial(boss.clear_runs, ACME),
    )
    for verb in verbs:
        with session.active():
            with refused(PermissionDenied):
                verb()
            (answer,) = race([verb])
            assert isinstance(answer, PermissionDenied), "in another thread"
        before = os.environ.get("SAMS_SESSION")
        os.environ["SAMS_SESSION"] = "s-1"
        try:
            with refused(PermissionDenied):
                verb()
        finally:
            del os.environ["SAMS_SESSION"]
            if before is not None:
                os.environ["SAMS_SESSION"] = before
    assert queued(deployment, change.id).digest == change.digest


def test_what_is_served_is_what_was_shown(deployment: Subject) -> None:
    """Byte for byte, for text that a reader could take for something else."""
    for number, text in enumerate(
        ("a\u202eb\u200b", "x\u2028y", "\x1b[2K", "é", "e\u0301", "\r\n")
    ):
        change = _change(deployment, text, path=f"p{number}")
        assert change.content == text
        entry = accept(deployment, change.id)
        assert entry.content == text
        assert agent(deployment).memory_read("assigned", f"p{number}").content == text
        for raw in "\u202e\u200b\u2028\x1b\r":
            assert raw not in change.diff(), "the diff hides or acts"


@needs_durable
def test_a_review_holds_across_processes(deployment: Subject) -> None:
    """The digest shown here accepts there, once; what changed between is refused there."""
    session = agent(deployment)
    stale = _change(deployment, "harmless", session)
    fresh = _change(deployment, "evil", session)
    with process(deployment) as there:
        boss = there.owner(name="otto")
        with refused(ReviewMismatch, NotFound):
            boss.call("accept", ACME, stale.id, stale.digest)
        with refused(ReviewMismatch):
            boss.call("accept", ACME, fresh.id, stale.digest)
        entry = boss.call("accept", ACME, fresh.id, fresh.digest)
    assert owner(deployment).accept(ACME, fresh.id, fresh.digest).digest == entry["digest"]
    assert len(owner(deployment).history(ACME, "facts")) == 1
