"""Compiling side by side: a second process compiles edges, plans and all policies, this one the rest.

numba compiles one function at a time in a process, and those take about half of what a first run compiles.
Machine code comes into this process by way of the cache on disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from abw.core.base.cores import usable_cores
from abw.core.base.jit import is_compiled
from abw.core.base.pipes import ready
from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag, Reads, build_dag
from abw.core.graph.edges import consumers
from abw.core.plan.kernels import fill_plan
from abw.core.policy.learned.choice import RULES
from abw.core.policy.learned.learner import BEST_OF, learn, trial
from abw.core.policy.learned.states import ENCODINGS
from abw.core.policy.registry import CHOSEN, LEARNED, REVERSED, get_policy

if TYPE_CHECKING:
    from abw.core.run.learning import Asked  # the other process does without what that imports

EDGES, PLAN, BOUND = "edges", "plan", "bound"
"""What the other process compiles first, in this order: a run needs these before policies."""
FIRST = ("agenda", *RULES)
"""The policies that it compiles next, in this order, before FSMs."""

PATIENCE = 60.0
"""Seconds without a word after which the other process is given up."""


@contextmanager
def compiling_beside(asked: Asked | None) -> Iterator[Beside]:
    """Another process that compiles its part of what a run takes, while the block runs.

    `asked`: the policy to be learned, if one is. There is none where all is compiled already, or on a single
    core. It never outlives the block, and whatever it fails at (a cache that cannot be written, say) is
    compiled here as ever.
    """
    beside = Beside(asked)
    try:
        yield beside
    finally:
        beside.end()


class Beside:
    """The other process, if there is one. It says the name of each part that it has compiled."""

    def __init__(self, asked: Asked | None) -> None:
        """Start it."""
        self.process: subprocess.Popen[bytes] | None = None
        self._said, self._until = b"", time.monotonic() + PATIENCE
        what = ""
        if asked is not None and not asked.name.endswith(".json") and not is_compiled(trial):
            what = CHOSEN if asked.name == CHOSEN else asked.encoding
        if (not what and is_compiled(fill_plan)) or usable_cores() < 2:
            return
        # -P, and the very path of this process: a file of the user's called like a module of ours is not run
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "abw.core.run.precompile", what],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError:
            return

    def wait(self, part: str) -> None:
        """Until it has compiled a part (EDGES, PLAN, BOUND, a policy), has ended, or has taken too long."""
        name = part.removesuffix(REVERSED)
        if name not in (EDGES, PLAN, BOUND, *FIRST, LEARNED):
            return
        while self.process and name.encode() not in self._said.split(b"\n")[:-1]:
            pipe = self.process.stdout
            if pipe is None or pipe.closed:
                return
            left = max(0.0, self._until - time.monotonic())
            if not ready(pipe.fileno(), left):
                self.end()
            elif told := os.read(pipe.fileno(), 1 << 12):
                self._said += told
                self._until = time.monotonic() + PATIENCE
            else:
                self.process.wait()
                self.end()

    def end(self) -> None:
        """End it if it still runs: what it has compiled so far stays."""
        if self.process:
            self.process.kill()
            self.process.wait()
            if self.process.stdout:
                self.process.stdout.close()


def compile_parts(what: str) -> None:
    """Compile what every run takes: edges, plans, bounds, `agenda`, which it is compared with.

    Then all that learning an FSM with an encoding (`best`: with each that is tried) uses; or the rules and
    FSMs that `auto` tries; or, for '', no more.

    Prints the name of each part as soon as it is ready.
    """
    _connect_nothing()
    print(EDGES, flush=True)
    _plan_nothing()
    print(PLAN, flush=True)
    # a chain of four nodes, whose types recur
    type, succ_ptr, succ, indegree, ptr, operand = (
        np.array(values, np.int32)
        for values in ([0, 1, 0, 1], [0, 1, 2, 3, 3], [1, 2, 3], [0, 1, 1, 1], [0, 0, 1, 2, 3], [0, 1, 2])
    )
    chain = Dag.of(("a", "b"), type, succ_ptr, succ, indegree)
    dag = replace(chain, reads=Reads(ptr, operand, 0))
    # and two nodes that are ready together: a state that the chain never is in
    other = build_dag(dag.types, type[:2].copy(), succ[:0].copy(), succ[:0].copy())
    lower_bound(dag)
    print(BOUND, flush=True)
    for name in FIRST if what == CHOSEN else FIRST[:1]:
        get_policy(name).schedule(dag)
        print(name, flush=True)
    for each in ENCODINGS:
        if each == what or (what in ("best", CHOSEN) and each in BEST_OF):
            learned = learn(dag, encoding=each, trials=1)
            learned.schedule(dag)
            learned.schedule(other)
    print(LEARNED, flush=True)


def _connect_nothing() -> None:
    """Find the edges of a graph without nodes: its arrays have the types of every graph's."""
    ints, none = np.zeros(1, np.int32), np.zeros(0, np.int32)
    table = np.full((1, 1), -1, np.int32)
    consumers(np.zeros(2, np.int32), ints, np.zeros(1, np.bool_), table, ints, none, 0)


def _plan_nothing() -> None:
    """Fill a plan of no batches: its arrays have the types of every plan's."""
    ints, table, bools = np.zeros(1, np.int32), np.zeros((1, 1), np.int32), np.zeros(1, np.bool_)
    longs = np.zeros(1, np.int64)
    none, listed = ints[:0], (ints, ints)
    three = (ints, ints, ints)
    fill_plan(
        (none, ints, none),
        (listed, listed),
        (table, table, ints, bools, np.zeros((1, 1), np.bool_)),
        (table, ints, ints),
        (table, longs, longs),
        (bools, ints),
        False,
        (ints, table, ints),
        three,
        three,
        listed,
    )


if __name__ == "__main__":
    compile_parts(sys.argv[1])
