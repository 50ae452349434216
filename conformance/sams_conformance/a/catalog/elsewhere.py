"""Sources that are no function of the app: retrievers, providers' tools, uploads, MCP servers."""

from __future__ import annotations

from typing import Literal

from sams_conformance.a.scenario import (
    DONE,
    Agent,
    Expect,
    Hosted,
    Run,
    Scenario,
    Stored,
    Tool,
    Turn,
    memory_write,
    say,
    use,
)

_HOSTED: tuple[Hosted, ...] = ("hosted-tool", "citation", "unknown-type")
_UPLOADS: tuple[Literal["image", "file"], ...] = ("image", "file")
_STORED = {"facts/code": Stored(True)}


def _inside(id: str, title: str, inner: Tool, needs: str) -> Scenario:
    return Scenario(
        id,
        title,
        (
            Run(
                turns=(say(use("helper", "c1")), say(memory_write("facts/code", "c2")), DONE),
                expect=Expect(
                    marked=True,
                    stored={"facts/code": Stored(True)},
                    bodies=("helper", inner.key),
                    saw=("this page",),
                ),
            ),
        ),
        agents=(Agent(tools=("helper",)),),
        tools=(Tool("helper", trust="function", calls=inner.key), inner),
        needs=frozenset({needs}),
    )


SCENARIOS = [
    _inside("A3", "an undeclared tool inside a trusted one", Tool("fetch"), "direct"),
    _inside("A4", "a retriever inside a trusted tool", Tool("docs", kind="retriever"), "retriever"),
    Scenario(
        "A4",
        "a retriever's tool, then a write",
        (
            Run(
                turns=(say(use("docs", "c1")), say(memory_write("facts/code", "c2")), DONE),
                expect=Expect(
                    marked=True,
                    stored={"facts/code": Stored(True)},
                    bodies=("docs",),
                    saw=("this page",),
                ),
            ),
        ),
        agents=(Agent(tools=("docs",)),),
        tools=(Tool("docs", kind="retriever"),),
        needs=frozenset({"retriever"}),
    ),
    Scenario(
        "A4",
        "a retriever's tool and a write in one turn",
        (
            Run(
                turns=(say(memory_write("facts/code", "c1"), use("docs", "c2")), DONE),
                expect=Expect(marked=True, stored=_STORED, bodies=("docs",)),
            ),
        ),
        agents=(Agent(tools=("docs",)),),
        tools=(Tool("docs", kind="retriever"),),
        needs=frozenset({"retriever"}),
    ),
    *(
        Scenario(
            "A13",
            f"{hosted} beside a write",
            (
                Run(
                    turns=(Turn((memory_write("facts/code", "c1"),), hosted=hosted), DONE),
                    expect=Expect(marked=True, stored=_STORED),
                ),
            ),
            needs=frozenset({"hosted"}),
        )
        for hosted in _HOSTED
    ),
    *(
        Scenario(
            "A14",
            f"an uploaded {upload}",
            (
                Run(
                    turns=(say(memory_write("facts/code", "c1")), DONE),
                    upload=upload,
                    expect=Expect(marked=True, stored=_STORED),
                ),
            ),
            needs=frozenset({"upload"}),
        )
        for upload in _UPLOADS
    ),
    Scenario(
        "A23",
        "a call of its tool",
        (
            Run(
                turns=(say(use("crm", "c1")), say(memory_write("facts/code", "c2")), DONE),
                expect=Expect(marked=True, stored=_STORED, saw=("this page",)),
            ),
        ),
        agents=(Agent(tools=("crm",)),),
        tools=(Tool("crm", kind="mcp"),),
        needs=frozenset({"mcp"}),
    ),
    Scenario(
        "A23",
        "its descriptions alone",
        (
            Run(
                turns=(say(memory_write("facts/code", "c1")), DONE),
                expect=Expect(marked=True, stored=_STORED),
            ),
        ),
        agents=(Agent(tools=("crm",)),),
        tools=(Tool("crm", kind="mcp"),),
        needs=frozenset({"mcp"}),
    ),
    Scenario(
        "A23",
        "its tool under the name of a trusted one",
        (
            Run(
                turns=(say(use("calc", "c1")), say(memory_write("facts/code", "c2")), DONE),
                expect=Expect(marked=True, stored=_STORED, saw=("this page",)),
            ),
        ),
        agents=(Agent(tools=("crm",)),),
        tools=(Tool("real", name="calc", trust="function"), Tool("crm", name="calc", kind="mcp")),
        needs=frozenset({"mcp"}),
    ),
]
