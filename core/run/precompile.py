"""Compiling in parallel: a second process compiles plans, bounds and all policies, this one the rest.

numba compiles one function at a time in a process; the former take about half of the time of a first run.
Machine code reaches this process through the cache on disk.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core.registry import cpu_target

from abw.core.base.parallel import usable_cores
from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag, Reads, build_dag
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.jit.decorators import is_compiled
from abw.core.plan.kernels import fill_plan
from abw.core.plan.plan import plan
from abw.core.policy.learned.choice import RULES
from abw.core.policy.learned.learner import BEST_OF, learn, trial
from abw.core.policy.learned.states import ENCODINGS
from abw.core.policy.registry import CHOSEN, LEARNED, REVERSED, get_policy
from abw.core.policy.schedule import Schedule

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

# What the other process compiles first, in this order, since a run needs it before policies.
PLAN, BOUND = "plan", "bound"
# The policies that it compiles next, in this order; FSMs follow.
FIRST = ("agenda", *RULES)
# What `auto` nearly always needs; the other policies are compiled once one of them is asked for.
NEEDED = (PLAN, BOUND, *FIRST[:2])

# Seconds without a message after which the other process is given up.
PATIENCE = 60.0
# How it starts: as a copy of this process, which has imported everything already; or anew.
WAY = "fork" if sys.platform == "linux" else "spawn"


@contextmanager
def compiling_beside(policy: str, encoding: str = "best") -> Iterator[Beside]:
    """Run another process that compiles its part of what a run by a policy needs, during the block.

    `encoding`: of `fsm`. No process is started if everything is compiled already, or on a single core. It
    never outlives the block; what it fails to compile is compiled here as usual.
    """
    beside = Beside(policy, encoding)
    try:
        yield beside
    finally:
        beside.end()


class Beside:
    """The other process, if there is one. It sends the name of each part that it has compiled."""

    def __init__(self, policy: str, encoding: str) -> None:
        """Start it if nothing is compiled yet."""
        self.process: BaseProcess | None = None
        self._said: set[str] = set()
        self._learned = {CHOSEN: CHOSEN, LEARNED: encoding}.get(policy, "")
        if not is_compiled(fill_plan):
            self._start()

    def learn(self) -> None:
        """Start it if the policy has to be learned or chosen, and what that runs is not compiled yet."""
        if self._learned and not self.process and not is_compiled(trial):
            self._start()

    def _start(self) -> None:
        if usable_cores() < 2:
            return
        import multiprocessing  # takes longer than everything else here in later runs

        cpu_target.typing_context.refresh()  # so that a copy need not fill numba's tables anew
        context: Any = multiprocessing.get_context(WAY)
        self._told, tells = context.Pipe()
        process = context.Process(target=_compile_quietly, args=(self._learned, tells), daemon=True)
        # no memory for another process, or this one may not start any (a daemon)
        with suppress(OSError, AssertionError), _safe_start():
            process.start()
            self.process = process
        tells.close()

    def wait(self, part: str) -> None:
        """Wait until it has compiled a part (PLAN, BOUND, a policy), has ended, or takes too long."""
        name = part.removesuffix(REVERSED)
        if name not in (PLAN, BOUND, *FIRST, LEARNED):
            return
        while self.process and not self._told.closed and name not in self._said:
            try:
                if name not in NEEDED:
                    self._told.send(name)
                if self._told.poll(PATIENCE):
                    self._said.add(self._told.recv())
                    continue
            except (EOFError, OSError):  # it has ended
                self.process.join()
            self.end()

    def end(self) -> None:
        """End it if it still runs; what it has compiled stays."""
        if self.process:
            self.process.kill()
            self.process.join()
            self._told.close()


@contextmanager
def _safe_start() -> Iterator[None]:
    """Start processes that import no file of the user's instead of a module of Python's of the same name.

    Suppresses the warning about locks of other threads: the copy does not use them.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _compile_quietly(what: str, tells: Connection) -> None:
    """Compile without output, and send the name of each part as soon as it is ready."""
    with Path(os.devnull).open("w") as nothing:
        for standard in (1, 2):
            os.dup2(nothing.fileno(), standard)
    with suppress(BaseException):  # such as Ctrl-C: then this process compiles it, if it goes on
        for part in compile_parts(what):
            tells.send(part)
            if part == NEEDED[-1] and not tells.poll(PATIENCE):
                break


def compile_parts(what: str) -> Iterator[str]:
    """Compile what every run needs: plans, bounds, and `depth` and `agenda`, with which runs are compared.

    Then, by `what`: learning an FSM with an encoding (`best`: with all that are tried), or the rules and FSMs
    that `auto` tries, or nothing more (''). Yields the name of each part as soon as it is ready.
    """
    # a chain of four nodes, whose types recur
    type, succ_ptr, succ, indegree, ptr, operand = (
        np.array(values, np.int32)
        for values in ([0, 1, 0, 1], [0, 1, 2, 3, 3], [1, 2, 3], [0, 1, 1, 1], [0, 0, 1, 2, 3], [0, 1, 2])
    )
    chain = Dag.of(("a", "b"), type, succ_ptr, succ, indegree)
    dag = replace(chain, reads=Reads(ptr, operand, 0))
    # and two nodes that are ready together: a state that the chain never has
    other = build_dag(dag.types, type[:2].copy(), succ[:0].copy(), succ[:0].copy())
    get_policy("depth").schedule(dag)
    _plan_nothing()
    yield PLAN
    lower_bound(dag)
    yield BOUND
    for name in FIRST if what == CHOSEN else FIRST[:1]:
        get_policy(name).schedule(dag)
        yield name
    for each in ENCODINGS:
        if each == what or (what in ("best", CHOSEN) and each in BEST_OF):
            learned = learn(dag, encoding=each, trials=1)
            learned.schedule(dag)
            learned.schedule(other)
    yield LEARNED


def _plan_nothing() -> None:
    """Plan a graph without nodes, whose arrays have the types of every graph's."""
    none, begin = np.zeros(0, np.int32), np.zeros(1, np.int32)
    network = Network("", "cell", (), (), (), (), (), 1, "planned", ())
    graph = Graph(network, begin, none, none, (), 0, build_dag((), none, none, none), begin, none)
    plan(graph, Schedule(none, begin, none))
