"""Runs all benchmarks, each in a process of its own.

``python -m benchmarks`` measures others beside us, each in an environment that is built in a temporary
folder; ``--no-peers`` leaves them out. ``python -m benchmarks postgres`` runs that one alone; so do the
names of the others.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The last one fetches texts.
SCRIPTS = ("redaction", "stores", "postgres", "adapters", "middleware", "attacks")
NO_PEERS = ("adapters", "middleware")


def run(script: str, *options: str) -> int:
    """Print a command and run it; return its exit code."""
    print(f"\n$ python benchmarks/{script} {' '.join(options)}".rstrip(), flush=True)
    return subprocess.run([sys.executable, HERE / script, *options], check=False).returncode


def main() -> int:
    """Run everything; the exit code says whether all of it ran."""
    options = sys.argv[1:]
    peers = "--no-peers" not in options
    wanted = [option for option in options if option != "--no-peers"] or list(SCRIPTS)
    if set(wanted) - set(SCRIPTS):
        print(f"usage: python -m benchmarks [--no-peers] [{' | '.join(SCRIPTS)}]", file=sys.stderr)
        return 2
    start = time.monotonic()
    failed = 0
    for script in (f"{name}.py" for name in wanted if name != "attacks"):
        beside = peers and script.removesuffix(".py") not in NO_PEERS
        code = run(script, *(["--peers"] if beside else []))
        if code != 0 and beside:
            print(f"\nskipped: {script} did not run with the others (exit {code}); without them:")
            code = run(script)
        failed += code != 0
    if peers and "attacks" in wanted:
        failed += run("attacks.py") != 0
    print(f"\n{time.monotonic() - start:.0f} s in all, {failed} failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
