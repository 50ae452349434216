"""Each MUST of the standard names what proves it, and something that breaks it is caught."""

from __future__ import annotations

import importlib.util
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

from sams_conformance import ids as stores
from sams_conformance.a import ids as adapters

TITLES = {**stores.TITLES, **adapters.TITLES}
STANDARD = Path(__file__).parents[2] / "STANDARD.md"
MUST = re.compile(r"\bMUST(?: NOT)?\b")
IDS = re.compile(r"\((?:A|C)\d+(?:, (?:A|C)\d+)*\)")
PROOF = re.compile(rf"{IDS.pattern}|\[id later\]")
WHOLE_SECTION = re.compile(r"Every MUST here: \[id later\]")

# Breaks the adapter of docs/how-to/write-an-adapter.md in sixteen ways.
TOY = "test_an_adapter_without_one_of_its_parts_fails_the_ids_that_the_part_serves"
# Rule of the standard: the mutants that break it, or the tests that break it by hand.
MUTANTS = {
    "S1.2": ("GivesChildrenALedgerOfTheirOwn",),
    "S1.3": ("SaysNothingBesideMemory",),
    "S1.4": ("DropsSourcesOnSubmit", "ForgetsWhoWroteIt"),
    "S1.5": ("PublishesAtOnce", "ServesPendingAsCurated", "LetsAJobAccept"),
    "S1.6": ("WritesToAnyPath", "ReadsTheScopeThatTheModelNames", "PutsRawTextIntoTheContext"),
    "S1.7": ("IgnoresUnknownArguments",),
    "S2.1": ("ReadsTheScopeThatTheModelNames", "FoldsTheCaseOfContainers"),
    "S2.2": ("LetsSessionsReadAnyRun", "SearchesAllContainers", "LetsChildrenWriteTheirParentsRun"),
    "S2.3": ("LetsSessionsWriteOrg", "PublishesAtOnce"),
    "S2.4": ("OffersAFifthTool", "OpensTheSchemas"),
    "S2.5": ("IgnoresUnknownArguments", "BelievesTheTextAboutItsAuthor"),
    "S2.6": ("EchoesTheArgumentsInErrors", "ClaimsToHaveSaved"),
    "S2.7": ("StoresReplays", "TakesNamesForReplays", "KnowsReplaysOfItsProcess"),
    "S2.8": ("MatchesRunsByPattern", "KeepsMarksOfOneIdInAllContainers", "TrimsContainers"),
    "S3.1": ("NeedsNoDeclarations",),
    "S3.2": ("ForgetsMarksOnReopen", "ForgetsMarksWithTheNotes", "OverwritesTheFirstRecord"),
    "S3.3": ("MarksWhenTheCallHasReturned",),
    "S3.4": ("WorksOnWhileAMarkIsOwed",),
    "S3.5": ("GivesChildrenALedgerOfTheirOwn", "KeepsMarksInItsProcess"),
    "S3.6": ("ForgetsMarksOnReopen", "KeepsMarksInItsProcess"),
    "S3.7": ("ReadsLabelledTextUnmarked",),
    "S3.8": ("DropsSourcesOnSubmit", "test_a_backend_that_caches_clean_is_caught"),
    "S3.9": ("LetsAnotherAgentIn", "KeepsMarksOfOneIdInAllContainers"),
    "S3.10": ("WorksInAnyRun",),
    "S4.1": ("ServesPendingAsCurated", "ShowsPendingToEverybody", "ListsPending", "FindsPending"),
    "S4.2": ("ShowsLabelledTextToCleanSessions",),
    "S4.3": ("ListsLabelledHitsFirst", "FloodsWithHandles"),
    "S4.4": ("PutsRawTextIntoTheContext", "RendersAnewEachTime", "KeepsPinsInItsProcess"),
    "S4.5": ("ShowsLabelledTextLikeAnyOther",),
    "S4.6": ("FindsSupersededText", "KeepsRetiredTextInTheContext"),
    "S5.1": ("WorksBesideAnAgent",),
    "S5.2": ("AcceptsByNumber", "test_a_field_left_out_of_the_digest_is_caught"),
    "S5.3": ("AcceptsByNumber", "AcceptsWhatWasSuperseded"),
    "S5.4": ("HidesWhatWasSuperseded", "KeepsSupersededChangesOpen"),
    "S5.5": ("EndorsesByAccepting", "ReplacesTrustedTextByTaintedText"),
    "S5.6": ("WashesByEditing", "EndorsesByAccepting"),
    "S5.7": ("RestoresWithoutTheLabel", "WashesByEditing"),
    "S5.8": ("DecidesAnew", "LosesTheRivals"),
    "S5.9": ("RestartsVersions",),
    "S5.10": ("ForgetsWhoWroteIt", "ListsTheNewestFirst", "SharesDigests"),
    "S5.11": ("test_a_diff_that_hides_characters_is_caught",),
    "S5.12": ("PublishesOnAnyBase", "LosesTheRivals", "OverwritesNotes"),
    "S6.1": ("LetsAJobAccept", "HandsOutSnapshotsOfAllContainers"),
    "S6.2": ("ProposesUnread",),
    "S6.3": ("LaundersProposals", "WashesAJobWithACleanSnapshot"),
    "S6.4": ("ClipsEvidence",),
    "S6.5": ("ProposesOverWhatItHasntRead",),
    "S7.1": ("OpensHandlesOfAnyContainer", "FindsChangesOfAnyContainer", "SearchesAllContainers"),
    "S7.4": ("keeps_everything_in_its_process", "KeepsMarksInItsProcess"),
    "S7.5": ("CountsNothing",),
    "S8.1": ("KeepsDescriptions", "KeepsEvidence", "KeepsReasons", "TakesAnyPath", "TakesAnyJob"),
    "S10.1": (TOY, "llamaindex: what servers describe"),
    "S10.2": (TOY, "langchain: start events", "llamaindex: the scan of answers"),
    "S10.3": (TOY, "langchain: start events and the judging of a turn"),
    "S10.4": ("langchain: the look at histories", "llamaindex: the scan of requests"),
    "S10.5": (TOY, "langchain: the judging of a turn", "llamaindex: the judging of a turn"),
    "S10.6": (TOY,),
    "S10.7": (TOY, "langchain: the context block"),
    "S10.8": (TOY,),
    "S10.9": (TOY, "langchain: the refusal of shadows"),
    "S10.10": (TOY,),
    "S10.11": (TOY,),
    "S8.2": ("FlagsAfterRedaction", "FlagsNoProposals", "FlagsContentsOnly", "ShowsNoFlags"),
}


def rules() -> dict[str, str]:
    """Return the text of every numbered rule, with what its section says of all of them."""
    found = {}
    for section in re.split(r"^## ", STANDARD.read_text(encoding="utf-8"), flags=re.M):
        later = WHOLE_SECTION.search(" ".join(section.split()))
        parts = re.split(r"^- \*\*(S\d+\.\d+)\*\*", section, flags=re.M)
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            rule = " ".join(text.split("\n\n")[0].split())
            found[name] = f"{rule} {later[0].partition(': ')[2]}" if later else rule
    return found


def named(text: str) -> set[str]:
    return {id for ids in IDS.findall(text) for id in re.findall(r"[AC]\d+", ids)}


ADAPTERS = ("test_write_an_adapter.py", "test_detectors_off.py")


@cache
def mutants() -> dict[str, set[str]]:
    """Return the ids that each mutant, or test that breaks something by hand, is caught by."""
    found: dict[str, set[str]] = {}
    here = Path(__file__).parent
    for file in [*sorted(here.glob("test_broken_*.py")), *map(here.joinpath, ADAPTERS)]:
        spec = importlib.util.spec_from_file_location(f"mutants_of_{file.stem}", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if file.name in ADAPTERS:
            for word, what, _, ids in getattr(module, "OFF", ()):
                found[f"{word}: {what}"] = ids
            for _, ids in getattr(module, "BROKEN", ()):
                found.setdefault(TOY, set()).update(ids)
            continue
        for row in getattr(module, "BROKEN", ()):
            (id,) = {part for part in row if isinstance(part, str) and part in stores.TITLES}
            (kind,) = [
                kind
                for part in row
                for kind in (part.values() if isinstance(part, dict) else (part,))
                if isinstance(kind, type)
            ]
            found.setdefault(kind.__name__, set()).add(id)
        for name, test in vars(module).items():
            if name.startswith("test_"):
                found[name] = set(re.findall(r'"(C\d+)"', inspect.getsource(test)))
        if hasattr(module, "MODULE"):  # stores that only other processes find wrong
            for name, id in re.findall(r'\("(\w+)", "(C\d+)"\)', file.read_text(encoding="utf-8")):
                found.setdefault(name, set()).add(id)
            found["keeps_everything_in_its_process"] = set(stores.TITLES)
    return found


def test_the_standard_was_read() -> None:
    assert len(rules()) > 60
    assert sum(len(MUST.findall(text)) for text in rules().values()) > 80


@pytest.mark.parametrize("rule", rules())
def test_each_must_says_what_proves_it(rule: str) -> None:
    text = rules()[rule]
    for must in MUST.finditer(text):
        sentence = text.rfind(". ", 0, must.start()) + 1
        assert PROOF.search(text, sentence), f"nothing proves: ...{text[must.start() :]}"


def test_each_id_that_the_standard_names_is_one_that_the_kit_prints() -> None:
    every = {id for text in rules().values() for id in named(text)}
    assert every == set(TITLES)


def test_no_must_stands_outside_the_rules() -> None:
    text = STANDARD.read_text(encoding="utf-8")
    inside = sum(len(MUST.findall(rule)) for rule in rules().values())
    about_musts = 5  # in "MUST, MUST NOT and SHOULD are used", "each MUST", "Every MUST here" twice
    assert len(MUST.findall(text)) - inside <= about_musts


@pytest.mark.parametrize("rule", [name for name, text in rules().items() if named(text)])
def test_something_that_breaks_the_rule_is_caught_by_its_id(rule: str) -> None:
    ids = named(rules()[rule])
    assert MUST.search(rules()[rule])
    assert MUTANTS.get(rule), f"no mutant breaks {rule}, which {sorted(ids)} should prove"
    for name in MUTANTS[rule]:
        assert mutants().get(name, set()) & ids, f"{name} isn't caught by an id of {rule}"


def test_the_table_names_rules_that_there_are() -> None:
    assert set(MUTANTS) <= {name for name, text in rules().items() if named(text)}


def test_every_id_has_a_mutant() -> None:
    assert set().union(*mutants().values()) >= set(TITLES)
