"""Run fault injection from the command line.

`python -m tests.faults SEED` shows one case; `python -m tests.faults SEED COUNT` runs several cases, starting with
SEED. The files of a case are kept for inspection.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.faults.oracle import Case, Oracle
from tests.faults.world import World
from tests.forked import shared_forker


def main() -> int:
    """Run cases; return 1 if any of them has a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="faults."))
    kinds: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    started = time.monotonic()
    oracle = Oracle(World(root, shared_forker()))
    for seed in range(args.seed, args.seed + args.count):
        verdict = oracle.judge(Case.of(seed))
        ends[f"exit code {verdict.finished.code}"] += 1
        kinds.update(fault.split(":")[0] for fault in verdict.faults)
        if verdict.faults or args.count == 1:
            print(verdict, flush=True)
            print()
    print(f"{args.count} cases in {time.monotonic() - started:.0f} s: {dict(ends)}; faults: {dict(kinds)}")
    print(f"files: {root}/world")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
