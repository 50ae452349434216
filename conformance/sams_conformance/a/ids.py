"""The ids of the A-series, which of them every adapter must pass, and what scenarios may need."""

from __future__ import annotations

TITLES = {
    "A1": "exactly the four tools, with a strict static schema and no tenant id",
    "A2": "a refusal reaches the model as a result; the run goes on; nothing is stored",
    "A3": "an undeclared tool marks before its body runs",
    "A4": "retrievers mark, and what is built on them",
    "A5": "errors, cancellation and half-read streams leave the mark",
    "A6": "a fetch and a write in one turn: the write is marked, in either order",
    "A7": "trust goes by identity: an impostor of the same name marks",
    "A8": "a foreign tool under the name of a memory tool is refused",
    "A9": "agents as tools share the marks, both ways",
    "A10": "a hand-off carries the marks",
    "A11": "a resume in a new process is marked before the first tool body",
    "A12": "the conversation of a marked session marks the session that opens it",
    "A13": "hosted tools, citations and unknown content mark",
    "A14": "uploads mark",
    "A15": "one agent serves many sessions at once; a session inside another's run is refused",
    "A16": "no session: refused; no observer: marked",
    "A17": "the context block is labelled data, the same bytes each time, never persisted",
    "A18": "clean runs stay clean",
    "A19": "a replayed call stores once, a genuine second one twice",
    "A20": "reading a labelled entry marks",
    "A21": "explicit wrappers keep type, schema, sync and async",
    "A22": "a thread without the run's context reaches no memory",
    "A23": "MCP tools mark, and so do their descriptions",
    "A24": "the user's own hooks hear the same with and without governance",
    "A25": "a mark that can't be recorded closes the session",
}

MANDATORY = tuple(f"A{n}" for n in (1, 2, 3, 5, 6, 7, 8, 15, 16, 17, 18, 19, 20, 21, 22, 24, 25))
"""What every framework can do; the others need a capability, and are mandatory where it is there."""

NEEDS = {
    "retriever": "native retrievers and a native tool made of one",
    "direct": "a public way to call a tool outside of an agent's turn, which the framework observes",
    "agent-tool": "an agent as another agent's tool",
    "handoff": "hand-offs",
    "resume": "runs that stop for an approval and go on in a new process",
    "thread": "conversations that the framework keeps by a name, across processes",
    "hosted": "a scripted model that answers as providers with hosted tools do",
    "upload": "user messages with images or files",
    "structured": "structured final answers",
    "mcp": "tools of a local MCP server",
}
