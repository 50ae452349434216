"""Measures redaction and flags on generated texts: recall, ordinary lines changed, speed, rates.

Run as ``python benchmarks/redaction.py``. With ``--peers`` it measures detect-secrets and
safer-agent-memory 0.1.1 on the same texts, each in an environment of its own that is built in a
temporary folder. The generators know formats and sentences, not the rules.
"""

from __future__ import annotations

import argparse
import json
import random
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import texts

HEX = "0123456789abcdef"
LOWER = string.ascii_lowercase + string.digits
MIXED = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
URLSAFE = MIXED + "-_"

# Shapes as vendors publish them: what is fixed, then alphabet and length of what is random.
SHAPES: dict[str, tuple[object, ...]] = {
    "github classic": ("ghp_", (MIXED, 36)),
    "github fine": ("github_pat_", (MIXED, 22), "_", (MIXED, 59)),
    "gitlab": ("glpat-", (URLSAFE, 20)),
    "aws id": ("AKIA", (string.ascii_uppercase + "234567", 16)),
    "google": ("AIza", (URLSAFE, 35)),
    "slack bot": ("xoxb-", (string.digits, 12), "-", (string.digits, 12), "-", (MIXED, 24)),
    "slack hook": (
        "https://hooks.slack.com/services/T",
        (UPPER, 8),
        "/B",
        (UPPER, 10),
        "/",
        (MIXED, 24),
    ),
    "stripe": ("sk_live_", (MIXED, 24)),
    "openai": ("sk-proj-", (URLSAFE, 74), "T3BlbkFJ", (URLSAFE, 74)),
    "anthropic": ("sk-ant-api03-", (URLSAFE, 93), "AA"),
    "hugging face": ("hf_", (MIXED, 34)),
    "npm": ("npm_", (MIXED, 36)),
    "pypi": ("pypi-AgEIcHlwaS5vcmc", (URLSAFE, 140)),
    "sendgrid": ("SG.", (URLSAFE, 22), ".", (URLSAFE, 43)),
    "twilio": ("SK", (HEX, 32)),
    "telegram": ((string.digits, 10), ":AA", (URLSAFE, 33)),
    "databricks": ("dapi", (HEX, 32)),
    "digitalocean": ("dop_v1_", (HEX, 64)),
    "shopify": ("shpat_", (HEX, 32)),
    "vault": ("hvs.", (URLSAFE, 90)),
    "grafana": ("glsa_", (MIXED, 32), "_", (HEX, 8)),
    "linear": ("lin_api_", (MIXED, 40)),
    "notion": ("ntn_", (string.digits, 11), (MIXED, 35)),
    "postman": ("PMAK-", (HEX, 24), "-", (HEX, 34)),
    "new relic": ("NRAK-", (UPPER, 27)),
    "doppler": ("dp.pt.", (MIXED, 43)),
    "azure storage": ("AccountKey=", (MIXED + "+/", 86), "=="),
    "mailgun": ("key-", (HEX, 32)),
    "figma": ("figd_", (URLSAFE, 40)),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9.eyJ", (URLSAFE, 40), ".", (URLSAFE, 43)),
}
VENDORS = (
    "acme adobe algolia asana contentful dropbox fastly jira okta plaid snyk twitch zendesk".split()
)
NAMES = (
    "{v}_api_key",
    "{V}_SECRET",
    "{v}.client.secret",
    "{v}AccessToken",
    "{v}-auth-token",
    "{V}_PASSWORD",
)
ASSIGNMENTS = (
    '{n} = "{s}"',
    "{n}={s}",
    "{n}: {s}",
    '"{n}": "{s}"',
    "export {n}='{s}'",
    "{n} := `{s}`",
)
PROSE = (
    "The {v} key is {s} for the staging account.",
    "Use the {v} token {s} when you deploy.",
    "Our {v} API key changed to {s} on Monday.",
    "Anna said that the {v} secret is now {s}.",
    "For {v} log in with the password {s} until Friday.",
    "{s} is the access token of {v}.",
)


def draw(rng: random.Random, shape: tuple[object, ...]) -> str:
    """Fill a shape with random characters."""
    out = ""
    for part in shape:
        out += part if isinstance(part, str) else "".join(rng.choices(part[0], k=part[1]))  # type: ignore[index]
    return out


def opaque(rng: random.Random) -> str:
    """Return a secret that no vendor's prefix gives away."""
    alphabet, size = rng.choice(
        ((HEX, 32), (LOWER, 24), (MIXED, 32), (MIXED, 40), (URLSAFE, 43), (LOWER, 64))
    )
    return "".join(rng.choices(alphabet, k=size))


def corpora(seed: int) -> dict[str, list[tuple[str, str]]]:
    """Generate (text, secret) pairs by kind."""
    rng = random.Random(seed)
    literals = [draw(rng, shape) for shape in SHAPES.values() for _ in range(10)]
    sets: dict[str, list[tuple[str, str]]] = {
        "vendor literals": [
            (f"seen in the log: {s} (rotate)", s.split("=", 1)[-1]) for s in literals
        ],
        "assignments": [],
        "prose": [],
    }
    for _ in range(400):
        vendor, secret = rng.choice(VENDORS), opaque(rng)
        name = rng.choice(NAMES).format(v=vendor, V=vendor.upper())
        sets["assignments"].append((rng.choice(ASSIGNMENTS).format(n=name, s=secret), secret))
        sets["prose"].append((rng.choice(PROSE).format(v=vendor, s=secret), secret))
    return sets


def survives(secret: str, text: str) -> bool:
    """Tell whether more than a shape's fixed part of a secret is still in `text`."""
    return secret[-16:] in text


def report(
    name: str, redact: Callable[[list[str]], list[str]], sets: dict[str, list[tuple[str, str]]]
) -> None:
    """Print recall and changed lines of one redactor."""
    print(f"\n{name}")
    for kind, pairs in sets.items():
        left = redact([text for text, _ in pairs])
        caught = sum(
            not survives(secret, text) for (_, secret), text in zip(pairs, left, strict=True)
        )
        print(f"  {kind:16} {100 * caught / len(pairs):5.1f} % of {len(pairs)} caught")
    left = redact(texts.ORDINARY)
    changed = sum(a != b for a, b in zip(texts.ORDINARY, left, strict=True))
    print(
        f"  {'ordinary lines':16} {100 * changed / len(texts.ORDINARY):5.1f} % of {len(texts.ORDINARY)} changed"  # noqa: E501
    )


def speed(redact: Callable[[list[str]], list[str]]) -> None:
    """Print how fast two kinds of text are read."""
    notes = [note for language in texts.NOTES.values() for note in language]
    for kind, lines in (("notes", notes), ("full of names", list(texts.ORDINARY))):
        text = "\n".join(lines) + "\n"
        text *= 1_000_000 // len(text.encode()) + 1
        start = time.process_time()
        redact([text])
        spent = time.process_time() - start
        print(f"  {kind:16} {len(text.encode()) / spent / 1e6:5.2f} MB/s on one core")


PEERS = {
    "detect-secrets": (
        "detect-secrets==1.5.0",
        """
import json, os, sys, tempfile
from detect_secrets.core.scan import scan_file
from detect_secrets.settings import default_settings
out = []
with default_settings(), tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "note.txt")
    for text in json.load(sys.stdin):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        for found in scan_file(path):
            if found.secret_value:
                text = text.replace(found.secret_value, "[X]")
        out.append(text)
json.dump(out, sys.stdout)
""",
    ),
    "safer-agent-memory 0.1.1": (
        "safer-agent-memory==0.1.1",
        """
import json, sys
from sams.redact import redact
out = []
for text in json.load(sys.stdin):
    done = redact(text)
    out.append(done if isinstance(done, str) else done[0])
json.dump(out, sys.stdout)
""",
    ),
}


def peer(requirement: str, script: str, folder: str) -> Callable[[list[str]], list[str]]:
    """Build an environment for another redactor and return a function that runs it there."""
    python = Path(folder) / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", requirement], check=True)

    def run(batch: list[str]) -> list[str]:
        done = subprocess.run(
            [python, "-c", script],
            input=json.dumps(batch),
            capture_output=True,
            text=True,
            check=True,
        )
        return list(json.loads(done.stdout))

    return run


def flags() -> None:
    """Print how many ordinary notes and attacks get a flag, per language."""
    from sams_core.flags import review_flags

    print("\nflags (hints for the reviewer; the gate is the human who accepts)")
    print(f"  {'':10} {'ordinary':>14} {'attacks':>14}")
    totals = [0, 0, 0, 0]
    for language in texts.NOTES:
        notes, attacks = texts.NOTES[language], texts.ATTACKS[language]
        noted = sum(bool(review_flags(text)) for text in notes)
        caught = sum(bool(review_flags(text)) for text in attacks)
        print(f"  {language:10} {noted:>8}/{len(notes):<5} {caught:>8}/{len(attacks):<5}")
        totals = [
            a + b for a, b in zip(totals, (noted, len(notes), caught, len(attacks)), strict=True)
        ]
    print(
        f"  {'all':10} {100 * totals[0] / totals[1]:13.1f}% {100 * totals[2] / totals[3]:13.1f}%"
        "   (goals: at most 10 %, at least 60 %)"
    )


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", action="store_true", help="measure two others as well")
    parser.add_argument("--seed", type=int, default=20_261)
    options = parser.parse_args()
    from sams_core.redaction import redact

    redact("warm up")
    sets = corpora(options.seed)
    report("sams", lambda batch: [redact(text).text for text in batch], sets)
    speed(lambda batch: [redact(text).text for text in batch])
    print("  goals: literals 90 %, assignments 97 %, prose 60 %, ordinary at most 2 %, 5 MB/s")
    if options.peers:
        for name, (requirement, script) in PEERS.items():
            with tempfile.TemporaryDirectory() as folder:
                report(name, peer(requirement, script, folder), sets)
    flags()


if __name__ == "__main__":
    main()
