"""Measures how many public attack texts, and texts beside them that are none, get a review flag.

Run as ``python benchmarks/attacks.py``. The texts stay in the packages that publish them, which are
downloaded into a temporary folder without what they depend on; nothing of them is executed, their data
files are read and their source is parsed. Kept apart by language where the package says it.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sams_core import review_flags

PACKAGES = (
    "bastioncorpus==0.6.0",
    "thymus-ai==1.0.2",
    "agent-injection-bench==0.1.0",
    "agentdojo==0.1.35",
)
Text = tuple[str, bool, str]  # source, whether it is an attack, the text


def lines(file: Path) -> Iterator[Any]:
    """Yield the objects of a file of JSON lines."""
    for line in file.read_text("utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def texts(folder: Path) -> Iterator[Text]:
    """Yield every text of the packages unpacked in a folder."""
    for found in lines(folder / "bastioncorpus/corpus/injections.jsonl"):
        language = found.get("lang", "en")
        yield f"bastioncorpus {language}", found["label"] == "malicious", found["text"]
    corpus = folder / "thymus_bench/corpus"
    for attack in json.loads((corpus / "minja_attacks.json").read_text("utf-8"))["attacks"]:
        poison = attack["poison"]
        yield "thymus", True, poison.get("output") or poison.get("text") or json.dumps(poison)
    for name in ("benign_facts", "hard_negatives"):
        for fact in json.loads((corpus / f"{name}.json").read_text("utf-8"))["facts"]:
            yield "thymus", False, fact["text"]
    for found in lines(folder / "aib/data/attacks.jsonl"):
        yield "agent-injection-bench", True, found["injected"]
    for file in sorted(folder.glob("agentdojo/default_suites/v1/*/injection_tasks.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "GOAL":
                parts = (n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant))
                yield "agentdojo goals", True, " ".join(p for p in parts if isinstance(p, str))


def main() -> None:
    """Print the share of texts that get a flag, by source."""
    counts: defaultdict[tuple[str, bool], list[int]] = defaultdict(lambda: [0, 0])
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--target",
            folder,
        ]
        environment = {**os.environ, "UV_SYSTEM_CERTS": "1"}
        subprocess.run([*command, *PACKAGES], check=True, env=environment)
        for source, attack, text in texts(Path(folder)):
            flagged = int(bool(review_flags(text)))
            for name in (source, "all"):
                counts[name, attack][0] += flagged
                counts[name, attack][1] += 1
    print("flags on public texts (hints for the reviewer; the gate is the human who accepts)")
    print(f"  {'':<24}{'attacks':>14}{'others':>14}")
    for name in sorted({name for name, _ in counts}, key=lambda name: (name == "all", name)):
        cells = []
        for attack in (True, False):
            flagged, total = counts.get((name, attack), (0, 0))
            cells.append(f"{flagged}/{total} {100 * flagged / total:3.0f}%" if total else "-")
        print(f"  {name:<24}{cells[0]:>14}{cells[1]:>14}")
    print(
        "  the others are written to look risky; goals: at least 60 % of attacks, at most 10 % of notes"
    )


if __name__ == "__main__":
    main()
