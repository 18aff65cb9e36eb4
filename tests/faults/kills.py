"""Kills at random moments: earlier results stay, nothing is half written, the next command works."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.faults.bench import COMMANDS, Bench, Ended

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130}
# The share of kills that hit a process of its own, which begins with imports, and how much later.
ALONE, ALONE_LATER = 0.1, 0.5
# In no traceback; one of Python's own start, before there is a command, is none of ours.
OURS = ("abw/cli", "abw/core", "abw/viz")


@dataclass
class Tally:
    """How often commands ended how, and what was wrong."""

    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def ready(bench: Bench, names: Iterable[str]) -> dict[str, float]:
    """Run commands to their ends, so that there is something to lose; the seconds that each takes."""
    seconds = {}
    for name in names:
        bench.call(COMMANDS[name])  # compiles
        ended = bench.call(COMMANDS[name])
        assert ended.code == 0, (name, ended.said)
        seconds[name] = ended.seconds
    bench.note()
    return seconds


def kill(bench: Bench, names: Sequence[str], kills: int, seed: int) -> Tally:
    """So many kills with each signal, the commands in turn; half of them late, where results are written."""
    seconds = ready(bench, names)
    draw = random.Random(seed)
    tally = Tally()
    for number in range(kills):
        for by in SIGNALS:
            name = names[number % len(names)]
            after = draw.uniform(draw.choice((0.0, 0.6)), 1.05) * seconds[name]
            alone = draw.random() < ALONE
            ended = bench.call(COMMANDS[name], by, after + ALONE_LATER * alone, alone=alone)
            what = f"{by.name} after {after:.3f} s of {name} (seed {seed})"
            tally.ends[f"{by.name}: {_end(ended, by)}"] += 1
            for said in _wrong(bench, ended, by):
                tally.wrong.append(f"{what}: {said}")
                print(f"WRONG {tally.wrong[-1]}", file=sys.stderr, flush=True)
            bench.note()
        if number % 10 == 9:
            print(f"{number + 1} of {kills}, {len(tally.wrong)} wrong", file=sys.stderr, flush=True)
    tally.wrong += _after(bench, names)
    return tally


def _end(ended: Ended, by: signal.Signals) -> str:
    if ended.code == 0:
        return "finished before"
    if ended.code == -by:
        return "killed" if by == signal.SIGKILL else "ended before there was a command"
    if ended.code == CODES.get(by):
        return f"exit code {ended.code}"
    return "ended before there was a command" if _early(ended) else f"exit code {ended.code}"


def _early(ended: Ended) -> bool:
    """Whether Python had not yet come to the command when it was interrupted."""
    return ended.said.rstrip().endswith("KeyboardInterrupt") and not any(part in ended.said for part in OURS)


def _wrong(bench: Bench, ended: Ended, by: signal.Signals) -> list[str]:
    found = bench.wrong()
    if _end(ended, by) == f"exit code {ended.code}":
        if ended.code != CODES.get(by):
            found.append(f"exit code {ended.code}: {ended.said}")
        elif len(ended.said.splitlines()) != 1:
            found.append(f"said {ended.said!r}")
    elif ended.code == 0 and ended.said:
        found.append(f"said {ended.said!r}")
    left = bench.drafts()
    if by != signal.SIGKILL:
        found += [f"{path} is left" for path in left if path not in bench.left]
    bench.left = left
    hours_ago = time.time() - 2 * 3600
    for path in left:
        os.utime(path, (hours_ago, hours_ago))
    return found


def _after(bench: Bench, names: Iterable[str]) -> list[str]:
    """Every command works, and takes away what was left."""
    found = []
    for name in names:
        ended = bench.call(COMMANDS[name], alone=True)
        if ended.code or ended.said:
            found.append(f"{name} afterwards: exit code {ended.code}, {ended.said!r}")
    return found + bench.wrong() + [f"{path} is left for ever" for path in bench.drafts()]
