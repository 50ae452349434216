"""The story step by step: every line that it prints as a result was returned by a real call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal

from sams_core import AgentSession, DreamerSession, Owner
from sams_core.ambient import refuse_beside_agent
from sams_core.cli.layout import indented, short, width, wrapped
from sams_core.cli.show import change_lines, entry_line, queue_lines
from sams_core.demo.agent import Agent, AgentFactory, ScriptedAgent
from sams_core.demo.narrator import INDENT, Narrator
from sams_core.demo.site import Page, Site, fetch_page, pages, serve
from sams_core.demo.stage import Logins, Stage, in_database, in_folder
from sams_core.demo.witness import Seen, look, plain, poison_in
from sams_core.errors import SamsError
from sams_core.records import Change, Entry
from sams_core.visible import visible, visible_line

SHOP = "project:shop"
POLICY = "policies/exports"
NOTE = "deploys/billing"
HOURS = "web/opening-hours"
UNDECIDED = "web/refunds"  # left in the queue, to see that pending text is not served
WEB_SESSION, WEB_AGENT = "tuesday", "web-agent"
# What nobody's login but an owner's, or nobody's at all, may do; each with SQL and no code of ours.
_FORBIDDEN = (
    ("agent", "DELETE FROM sams.sources"),
    ("agent", "UPDATE sams.versions SET status = 'retired'"),
    ("agent", "INSERT INTO sams.decisions SELECT * FROM sams.decisions"),
    ("dreamer", "SELECT content FROM sams.texts"),
    ("owner", "DELETE FROM sams.versions"),
)


class Story:
    """One telling, on one store."""

    def __init__(self, tell: Narrator, stage: Stage, agent: AgentFactory) -> None:
        self.tell, self.stage, self.agent = tell, stage, agent
        self.owner = Owner(stage.owner, "olga")
        self.pages = pages()
        self.problems: list[str] = []
        self.accepted = self.refused = self.rejected = 0

    def run(self) -> int:
        """Tell the story; returns 0, or 1 if anything went otherwise than it must."""
        self._trusted_entry()
        self._insider()
        with serve(self.pages) as site:
            agent = self._web(site)
            self._queue()
            self._accept_note()
            self._accept_labelled()
            self._changed_after_review(site, agent)
        self._over_trusted()
        self._decide_poison()
        self._restart()
        self._other_agent()
        if self.stage.logins is not None:
            self._below(self.stage.logins)
        return self._end()

    # The steps.

    def _trusted_entry(self) -> None:
        self.tell.step("The owner writes a first entry. It is trusted: an insider's own words.")
        entry = self.owner.write(
            SHOP,
            POLICY,
            "Exports of customer data need the approval of two people.",
            "Who approves exports",
        )
        self.tell.say(f"served: {entry_line(entry)}")

    def _insider(self) -> None:
        self.tell.step("An insider tells an agent something worth keeping.")
        session, agent = self._agents("monday", "desk-agent")
        answer = agent.remember(
            NOTE,
            "When the billing deployment runs",
            "The billing deployment runs every Friday at 14:00, after the backup.",
        )
        self.tell.answer("memory_write", answer)
        self.tell.say(f"the session read nothing of outsiders: tainted = {session.tainted}")
        self._must(answer.get("status") == "queued", "an agent's write was not queued")
        self._must(not session.tainted, "a session that read nothing of outsiders was marked")

    def _web(self, site: Site) -> Agent:
        names = [name for name in self.pages if not name.endswith(".changed")]
        self.tell.step(f"Another agent reads {len(names)} web pages and believes every word.")
        session, agent = self._agents(WEB_SESSION, WEB_AGENT)
        self.tell.say(f"before the first page: tainted = {session.tainted}")
        self._must(not session.tainted, "the web agent's session began marked")
        for name in names:
            answer = agent.read_and_remember(site.url(name))
            style = self.pages[name].style or "benign"
            path = str(answer.get("path", answer.get("error")))
            self.tell.say(f"{answer.get('status', 'refused')}: {visible_line(path)} ({style})")
            self._must(answer.get("status") == "queued", "a page's text was not queued")
        self.tell.say(f"after it: tainted = {session.tainted}, for good, in every process")
        for source in session.sources:
            origin = f", first {visible_line(source.origin)}" if source.origin else ""
            self.tell.say(
                f"source: {visible_line(source.kind)} {visible_line(source.name)}{origin}"
            )
        self._must(session.tainted, "reading web pages left the session unmarked")
        told = any(source.kind == "tool" for source in session.sources)
        self._must(told, "the wrapped fetch didn't mark by itself")
        return agent

    def _queue(self) -> None:
        self.tell.step("Nothing of that is served. It waits for the owner (`sams review list`):")
        changes = self.owner.changes(SHOP)
        self.tell.lines(queue_lines(changes, 50))
        poisoned = [c for c in changes if self._page_of(c) is not None]
        flagged = sum(bool(change.flags) for change in poisoned)
        self.tell.say(f"{flagged} of {len(poisoned)} poisoned drafts carry flags. Flags are hints:")
        self.tell.say("the label and the owner's decision protect, whether or not they fire.")
        self._must(all(c.tainted for c in poisoned), "a poisoned draft was stored as clean")
        expected = sum(bool(p.canary) and "." not in p.name for p in self.pages.values())
        self._must(len(poisoned) == expected, "a poisoned page is not in the queue as it was read")

    def _accept_note(self) -> None:
        self.tell.step("The owner looks at the insider's note (`sams review show`) and accepts it:")
        change = self._open(NOTE)
        self.tell.lines(change_lines(change))
        self._accepted(change)

    def _accept_labelled(self) -> None:
        self.tell.step("A useful page may be served too, but labelled: nobody vouches for it.")
        self._accepted(self._open("web/release-notes"))

    def _changed_after_review(self, site: Site, agent: Agent) -> None:
        self.tell.step("The owner reads the opening hours. Then the page and the draft change.")
        seen = self._open(HOURS)
        self.tell.say(f"reviewed digest: {seen.digest}")
        site.change("opening-hours")
        agent.read_and_remember(site.url("opening-hours"))
        now = self._open(HOURS)
        self.tell.say(f"digest now:      {now.digest}")
        self._refused("accept what was reviewed", lambda: self._accept(seen.id, seen.digest))
        self._refused(
            "accept the new draft with the old digest", lambda: self._accept(now.id, seen.digest)
        )

    def _over_trusted(self) -> None:
        self.tell.step(f"A hidden block told the agent to overwrite the trusted {POLICY}:")
        change = self._open(POLICY)
        self.tell.lines(change_lines(change))
        self._refused(
            "accept it without vouching for it", lambda: self._accept(change.id, change.digest)
        )

    def _decide_poison(self) -> None:
        self.tell.step("The owner rejects the poison, and leaves one poisoned draft undecided.")
        hidden = self._open("web/recipes").content.replace("\n", " ").strip()
        self.tell.say("A browser shows nothing of what web/recipes says in tag characters. Here:")
        self.tell.lines(wrapped(f"> {short(hidden, 140)}", width()))
        self.tell.say("They spell:")
        self.tell.lines(wrapped(f"> {visible_line(plain(hidden))}", width()))
        for change in self.owner.changes(SHOP):
            page = self._page_of(change)
            if page is None or change.path == UNDECIDED:
                continue
            self.owner.reject(SHOP, change.id, "poisoned page")
            self.rejected += 1
            self.tell.say(f"rejected: {visible_line(change.path)} ({page.style})")
        left = [change.path for change in self.owner.changes(SHOP)]
        self.tell.say(f"still pending: {', '.join(map(visible_line, left))}")

    def _restart(self) -> None:
        self.tell.step("The web agent's process ends. A new one opens the same session.")
        words = (SHOP, WEB_SESSION, WEB_AGENT)
        done = subprocess.run(  # noqa: S603 - our own module, by our own interpreter
            [sys.executable, "-P", "-m", "sams_core.demo.second_process", *words],
            capture_output=True,
            text=True,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            | {"SAMS_SESSION": WEB_SESSION, "SAMS_URL": self.stage.url},
            check=False,
        )
        try:
            found: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            self._must(False, "the second process failed")
            self.tell.lines(visible(done.stderr).split("\n"))
            return
        self.tell.say(f"before any call: tainted = {found['tainted']}")
        self.tell.say(f"acting as the owner there -> refused ({visible_line(found['owner'])})")
        self._must(found["tainted"] is True, "the mark didn't survive a restart")
        self._must(found["owner"] == "owner-beside-agent", "an agent's process acted as owner")

    def _other_agent(self) -> None:
        self.tell.step("A third session, of another agent, begins. Its context block:")
        session = self._session("wednesday", "support-agent")
        self.tell.lines(visible(session.context_block()).rstrip("\n").split("\n"))
        questions = [p.title for p in self.pages.values()] + [
            "when does the billing deployment run?"
        ]
        seen = look(session, questions)
        billing = session.memory_read("assigned", NOTE)
        self.tell.say(f"memory_read {NOTE}: {visible_line(billing.content)}")
        self.tell.say(f"after all its lists, searches and reads: tainted = {session.tainted}")
        self._must(seen.finds("The billing deployment runs"), "the accepted note is not served")
        self._must(not session.tainted, "looking at trusted memory marked the session")
        self._must(not seen.finds("importer reads"), "labelled text reached an unmarked session")
        handles = [path for path in seen.paths if path.startswith("untrusted/")]
        self._must(len(handles) == 1, "the labelled entry is not listed as one handle")
        for handle in handles:
            entry = session.memory_read("assigned", handle)
            self.tell.say(f"memory_read {handle}: {visible_line(entry.content)}")
            self.tell.say(f"which marked it before the text was returned: {session.tainted}")
            self._must(session.tainted, "reading a labelled entry left the session unmarked")
        after = look(session, questions)
        found = poison_in(seen, self.pages.values()) + poison_in(after, self.pages.values())
        served = len(seen.answers) + len(after.answers)
        poisons = sum(bool(page.canary) for page in self.pages.values())
        self._must(not found, f"poison was served: {', '.join(map(visible_line, found))}")
        if not found:
            self.tell.good(f"{served} answers searched for {poisons} poisons: none found")

    def _below(self, logins: Logins) -> None:
        self.tell.step("Each role had a login of its own. With plain SQL they can do as little:")
        for role, statement in _FORBIDDEN:
            rule = logins.refused(logins.urls[role], statement)
            self._must(rule == "no-grant", f"not refused to the login of the {role}: {statement}")
            if rule is not None:
                self.tell.refused(f"{role}: {statement}", rule, "the database allows no such thing")
        job = DreamerSession(logins.dreamer, job_id="nightly", scope=SHOP)
        shown = job.snapshot("clean")
        read = Seen([entry.content for entry in shown.entries])
        read.answers += [change.content for change in shown.changes]
        found = poison_in(read, self.pages.values())
        self._must(not found, "a dreaming job's clean snapshot holds poison")
        self.tell.say(f"a dreaming job's clean snapshot: {len(shown.entries)} entries, no poison")

    def _end(self) -> int:
        self.tell.step("Counted")
        drafts = self.accepted + self.rejected + len(self.owner.changes(SHOP))
        self.tell.say(
            f"{drafts} drafts: {self.accepted} accepted, {self.rejected} rejected, "
            f"{drafts - self.accepted - self.rejected} pending; {self.refused} unsafe decisions "
            f"refused; {len(self.problems)} poisons or other problems found"
        )
        for problem in self.problems:
            self.tell.bad(problem)
        self.tell.say("Read next: README.md, to put this under an agent of your own.")
        return 1 if self.problems else 0

    # What the steps share.

    def _session(
        self, session_id: str, agent: str, *, observed: Literal["by-hand"] | None = "by-hand"
    ) -> AgentSession:
        return AgentSession(
            self.stage.agent,
            session_id=session_id,
            agent=agent,
            assigned=SHOP,
            user="insider",
            observed=observed,
        )

    def _agents(self, session_id: str, name: str) -> tuple[AgentSession, Agent]:
        observed = getattr(self.agent, "observed", None)
        session = self._session(session_id, name, observed=observed)
        return session, self.agent(session, fetch_page)

    def _open(self, path: str) -> Change:
        return next(change for change in self.owner.changes(SHOP) if change.path == path)

    def _page_of(self, change: Change) -> Page | None:
        """Return the poisoned page that a draft holds the canary of."""
        for page in self.pages.values():
            if page.canary and page.canary in plain(change.content):
                return page
        return None

    def _accept(self, change_id: str, digest: str) -> Entry:
        return self.owner.accept(SHOP, change_id, digest)

    def _accepted(self, change: Change) -> None:
        self.tell.say(f"sams review accept {SHOP} {change.id} --digest {change.digest}")
        entry = self._accept(change.id, change.digest)
        self.accepted += 1
        self.tell.good(f"served: {entry_line(entry)}")

    def _refused(self, what: str, act: Callable[[], object]) -> None:
        try:
            act()
        except SamsError as error:
            self.refused += 1
            self.tell.refused(what, error.rule, str(error))
        else:
            self._must(False, f"not refused: {what}")

    def _must(self, holds: bool, problem: str) -> None:
        if not holds:
            self.problems.append(problem)
            self.tell.bad(problem)


def run(
    out: Callable[[str], object],
    base: str,
    *,
    colour: bool = False,
    agent: AgentFactory = ScriptedAgent,
) -> int:
    """Tell the story line by line to `out` on a new store in the folder `base`.

    `agent` makes the agents from a session and the page-reading function; a framework's stand in
    here. Returns 0, or 1 if poison was served or anything else went otherwise than it must.
    """
    return _tell(out, in_folder(base), colour, agent)


def run_in_database(
    out: Callable[[str], object],
    admin_url: str,
    *,
    colour: bool = False,
    agent: AgentFactory = ScriptedAgent,
) -> int:
    """Tell the same story on Postgres, each role under a login that is made for it and removed.

    Raises `PermissionDenied` for a database that isn't free for that, or a login that may not do it.
    """
    refuse_beside_agent()  # before anything is made
    return _tell(out, in_database(admin_url, SHOP), colour, agent)


def _tell(
    out: Callable[[str], object],
    where: AbstractContextManager[Stage],
    colour: bool,
    agent: AgentFactory,
) -> int:
    with indented(INDENT), where as stage:
        return Story(Narrator(out, colour=colour), stage, agent).run()
