"""The long runs: `python -m tests.faults threads`, `--kills 200`, `--disks`, `--engine 20`,
`--serve 100000`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.bench import COMMANDS, Bench
from tests.faults.disks import CASES, cannot_mount, sweep
from tests.faults.kills import Tally, kill


def main() -> int:
    """Say how every command ended, and all that was wrong; the exit code is 1 if anything was."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "what", nargs="?", choices=["threads"], help="outputs at 2 to 8 threads beside those of one"
    )
    parser.add_argument("--runs", type=int, default=10_000, metavar="N", help="so many of `threads`")
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="kills with each of three signals")
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which they come")
    parser.add_argument("--disks", action="store_true", help="full disks, in steps of 4 kB (root alone)")
    parser.add_argument(
        "--engine", type=int, default=0, metavar="N", help="kills of each of workers, nodes, drivers of Ray's"
    )
    parser.add_argument(
        "--serve", type=int, default=0, metavar="N", help="requests to a server whose engines are killed"
    )
    asked = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        if asked.what == "threads":
            from tests.faults import threads

            wrong += tell("runs that threads share", threads.compare(Path(folder), asked.runs))
        if asked.kills:
            with Bench(Path(folder) / "kills", Path(folder) / "home") as bench:
                bench.folder.mkdir()
                wrong += tell("kills", kill(bench, list(COMMANDS), asked.kills, asked.seed))
        if asked.engine:
            from tests.faults import engine

            wrong += tell("kills on Ray", engine.kill(Path(folder) / "engine", asked.engine, asked.seed))
        if asked.serve:
            from tests.faults import serving

            wrong += tell("requests while engines die", serving.kill(Path(folder), asked.serve, asked.seed))
        if asked.disks:
            if why := cannot_mount(Path(folder) / "disk"):
                sys.exit(why)
            for number, name in enumerate(CASES):
                begun = time.perf_counter()
                place = Path(folder) / f"disks{number}"
                (place).mkdir()
                if (Path(folder) / "home/kernels").is_dir():
                    (place / "kernels").symlink_to(Path(folder) / "home/kernels")
                wrong += tell(f"a full disk for {name}", sweep(place, name))
                print(f"  {time.perf_counter() - begun:.0f} s")
    return min(wrong, 1)


def tell(what: str, tally: Tally) -> int:
    """Print a tally; how much was wrong."""
    print(f"{what}: {sum(tally.ends.values())} cases, {len(tally.wrong)} wrong")
    for end, count in sorted(tally.ends.items()):
        print(f"  {count:>4} {end}")
    for said in tally.wrong:
        print(f"  WRONG {said}")
    sys.stdout.flush()
    return len(tally.wrong)


if __name__ == "__main__":
    sys.exit(main())
