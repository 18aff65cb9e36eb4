"""`python -m tests.fuzz`: the long run, with a table of what was run and found."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz.harness import Found, run, save
from tests.fuzz.target import load_targets


def main() -> int:
    """Run targets; returns 1 where a case failed."""
    targets = sorted(name for name in load_targets() if not name.startswith("_"))
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="of each target (some run a share of them)")
    parser.add_argument("--target", action="append", choices=targets, help="this one alone; repeatable")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="only the case of this number")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="folder for what failed")
    given = parser.parse_args()
    first, cases = (0, given.cases) if given.case is None else (given.case, 1)
    print(f"{'target':20} {'cases':>9} {'cases/s':>8} {'failed':>7}")
    failed = 0
    for name in given.target or targets:
        told = time.monotonic()

        def tell(name: str, number: int) -> None:
            nonlocal told
            if time.monotonic() > told + 10:
                print(f"{name}: case {number}", file=sys.stderr, flush=True)
                told = time.monotonic()

        found = run([name], cases, given.seed, first=first, tell=tell)[name]
        failed += _told(name, found, given.failures, given.seed)
    return 1 if failed else 0


def _told(name: str, found: Found, folder: Path, seed: int) -> int:
    """Print a target's row and its failures, of each kind the first with its files; returns how many."""
    count = sum(map(len, found.failures.values()))
    rate = found.cases / max(found.seconds, 1e-9)
    print(f"{name:20} {found.cases:9d} {rate:8.0f} {count:7d}", flush=True)
    for kind, cases in sorted(found.failures.items(), key=lambda item: -len(item[1])):
        print(f"  {len(cases)} x {kind}\n      {save(folder, name, seed, *cases[0])}", flush=True)
    return count


if __name__ == "__main__":
    sys.exit(main())
