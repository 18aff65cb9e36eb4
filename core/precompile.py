"""Compiling side by side: a second process compiles what learning needs, while this one compiles the rest.

numba compiles one function at a time in a process, and learning a policy takes about half of what a first run
compiles. Machine code comes into this process by way of the cache on disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from abw.core.cores import usable_cores
from abw.core.graph.dag import Dag
from abw.core.jit import is_compiled
from abw.core.policy.agenda import Agenda
from abw.core.policy.learner import BEST_OF, learn, trial
from abw.core.policy.states import ENCODINGS

PATIENCE = 60.0
"""Seconds after which the other process is given up."""


@contextmanager
def learner_beside(encoding: str | None) -> Iterator[Beside]:
    """Another process that compiles the learner for an encoding (or `best`) while the block runs.

    There is none without an encoding, where the learner is compiled already, or on a single core. It never
    outlives the block, and whatever it fails at (a cache that cannot be written, say) is compiled here as
    ever.
    """
    beside = Beside(encoding)
    try:
        yield beside
    finally:
        beside.end()


class Beside:
    """The other process, if there is one."""

    def __init__(self, encoding: str | None) -> None:
        """Start it."""
        self.process: subprocess.Popen[bytes] | None = None
        if encoding is None or is_compiled(trial) or usable_cores() < 2:
            return
        # -P, and the very path of this process: a file of the user's called like a module of ours is not run
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "abw.core.precompile", encoding],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError:
            return

    def wait(self) -> None:
        """Until it is done, or has taken too long."""
        if self.process:
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.end()

    def end(self) -> None:
        """End it if it still runs: what it has compiled so far stays."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def compile_learner(encoding: str) -> None:
    """Compile all that learning with an encoding (`best`: with each that is tried) uses, on a tiny graph.

    And the policy `agenda`, which every run is compared with: so both processes have about as much to do.
    """
    # a chain of four nodes, whose types recur
    type, succ_ptr, succ, indegree = (
        np.array(values, np.int32) for values in ([0, 1, 0, 1], [0, 1, 2, 3, 3], [1, 2, 3], [0, 1, 1, 1])
    )
    dag = Dag(("a", "b"), type, succ_ptr, succ, indegree)
    for each in ENCODINGS:
        if each == encoding or (encoding == "best" and each in BEST_OF):
            learn(dag, encoding=each, trials=1).schedule(dag)
    Agenda().schedule(dag)


if __name__ == "__main__":
    compile_learner(sys.argv[1])
