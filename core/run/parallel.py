"""Runs the mini-batches of instances that arrive in parts: each by one compiled pass where that can be, else
planned and run; several at once where that helps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from threading import Lock
from typing import Any, NoReturn

import numpy as np

from abw.core.base.errors import AbwError, InstanceError
from abw.core.base.parallel import map_in_order
from abw.core.base.progress import Clock, Times
from abw.core.exec.interface import Executor, Result
from abw.core.exec.lower.rows import row_floats
from abw.core.plan.counts import Counts
from abw.core.policy.schedule import Policy
from abw.core.run.checks import refuse_values
from abw.core.run.columns import columns_of
from abw.core.run.minibatches import (
    MiniBatch,
    Passed,
    Window,
    bundles,
    each_window,
    in_pieces,
    planned,
    run_all,
)
from abw.core.run.onepass.onepass import Pass, Passes
from abw.core.run.workload import Workload
from abw.core.store.outputs import Column

# Nodes of the mini-batches that are planned together, fewest and usual: a thread that alternates between
# planning and executing has cold caches each time.
FEWEST, ENOUGH = 1 << 11, 1 << 13

# A mini-batch that a pass is to run, and whether equal nodes are looked for (see `Pass.bound`).
Turn = tuple[Window, bool | None]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A chunk of instances with the mini-batches that they are run in.

    `leave_out` is called with instances that the model cannot be run on; without it, they are errors. `told`:
    anything that the caller attaches. `apart`: so many of the first windows use nothing that earlier
    mini-batches have computed.
    """

    workload: Workload
    windows: Sequence[tuple[int, int]]
    leave_out: Callable[[InstanceError], None] | None = None
    told: Any = None
    apart: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """A mini-batch that has run, its nodes, and what it took.

    `columns` reads its outputs; of one that did not run in parallel, `result` has the values of its nodes;
    both before the next one is requested.
    """

    batch: MiniBatch
    nodes: int
    counts: Counts
    result: Callable[[], Result]
    columns: Callable[[], tuple[Column, ...]]


@dataclass(frozen=True, slots=True)
class _Share:
    """Mini-batches of a part for one thread, planned or (a turn) for a pass; when they have run, what they
    gave, the seconds they took by phase, and the error that ended them.
    """

    part: Part
    batches: Sequence[MiniBatch | Turn]
    found: Sequence[Done] = ()
    clock: Clock | None = None
    error: AbwError | None = None


PHASES = ("construct", "schedule", "plan", "execute")


@dataclass(frozen=True, slots=True)
class PartRunner:
    """Runs parts on an executor, in parallel if that helps.

    `clock` counts the seconds of all threads. `passes`: those of the model, by the policy. `looked_at`:
    whether graphs and plans are looked at when mini-batches have run. `check_finite`: refuse values that are
    not finite. `keep_all`: see `run_all`. `alone`: never run in parallel.

    Mini-batches use leaves that earlier ones have computed, unless their part says otherwise (`Part.apart`).
    Those that run in parallel do so only if they `reuse` them: each thread has its own, so that the number of
    nodes that are left to compute depends on the threads' pace.
    """

    policy: Policy
    executor: Executor
    clock: Clock
    passes: Passes | None = None
    looked_at: bool = False
    check_finite: bool = False
    keep_all: bool = False
    alone: bool = False
    reuse: bool = False

    def run(self, parts: Iterable[Part]) -> Iterator[tuple[Part, int, Iterator[Done]]]:
        """Run parts as `run_all` does, each mini-batch by a pass where that can be.

        With each part comes the number of threads that run its mini-batches in parallel, or 0. In parallel, a
        mini-batch runs and is read on one thread, while the next ones are planned, also those of later parts;
        its `result` has no values then, and parts are requested by other threads, one at a time.
        """
        for many, some in groupby(parts, lambda part: 0 if self.alone else side_by_side(self.executor, part)):
            if many:
                yield from ((part, many, found) for part, found in self._in_parallel(some))
            else:
                yield from ((part, 0, self._one_by_one(part)) for part in some)

    def _pass(self, executor: Executor, part: Part) -> Pass | None:
        """What runs mini-batches of a part; None for those of models that grow, if these are looked at, or
        have grown.
        """
        left = part.workload.growing is None or self.looked_at or self.check_finite
        if self.passes is None or (part.workload.model.growth and left):
            return None
        return self.passes.of(self.policy, executor, len(part.windows))

    def _turns(self, part: Part, made: Pass | None, *, at_once: bool) -> Iterator[tuple[bool, Turn]]:
        """Yield each mini-batch of a part, and whether a pass runs it.

        Of those that run `at_once`, some are planned in their turn where equal nodes may be looked for: so it
        is known whether looking pays, and at which mini-batches does not depend on the threads' pace.
        """
        equal, instances = part.workload.networks.equal, part.workload.instances
        grows = part.workload.growing is not None
        types = Counter(kind for t in part.workload.model.types for kind in t.kinds)
        most = np.array([types[kind] for kind in instances.schema.kinds])  # nodes of a vertex
        for number, (first, last) in enumerate(part.windows):
            kinds = instances.kind[instances.start[first] : instances.start[last]]
            passed, looks = made is not None, None
            if passed and equal is not None and (at_once or grows):
                looks = equal.foreseen(int(most[kinds].sum()), grows=grows)
                passed = looks is not None
            yield passed, ((number, (first, last)), looks)

    def _one_by_one(self, part: Part) -> Iterator[Done]:
        made = self._pass(self.executor, part)
        for passed, turns in groupby(self._turns(part, made, at_once=False), itemgetter(0)):
            if made is None or not passed:
                yield from self._planned(part, (window for _, (window, _) in turns))
                continue
            for _, turn in turns:
                if done := self._passed(made, part, turn, self.clock, apart=turn[0][0] < part.apart):
                    yield done
                else:
                    yield from self._planned(part, [turn[0]])

    def _planned(self, part: Part, windows: Iterable[Window]) -> Iterator[Done]:
        """Run mini-batches by graph, schedule and plan."""
        of = part.workload, self.policy, self.executor, self.clock, part.leave_out
        for batch, result in run_all(*of, keep_all=self.keep_all, apart=part.apart, windows=windows):
            yield self._done(part, batch, result)

    def _done(self, part: Part, batch: MiniBatch, result: Result) -> Done:
        def columns() -> tuple[Column, ...]:
            found = columns_of(part.workload, batch, result)
            if self.check_finite:
                refuse_values(batch, result, part.workload.instances)
            return found

        nodes = len(result.nodes) - (batch.equal_nodes if batch.grown else 0)
        return Done(batch, nodes, result.counts, lambda: result, columns)

    def _passed(
        self, made: Pass, part: Part, turn: Turn, clock: Times, *, apart: bool, copied: bool = False
    ) -> Done | None:
        """Run a mini-batch by a pass; None where it has to be planned."""
        (number, (first, last)), looks = turn
        columns = made.bound(part.workload, first, last, clock, apart=apart, looks=looks)
        if columns is None:
            return None
        if not (self.looked_at or self.check_finite):
            return Done(
                MiniBatch(number, first, last, _UNSEEN), 0, _NO_COUNTS, _nothing, partial(_given, columns)
            )
        what = made.passed(part.workload, first, last, copied=copied)
        counts, result = Counts(what.batches, what.batches, 0, 0), made.result(what)
        batch = MiniBatch(number, first, last, what)
        if self.check_finite:
            refuse_values(batch, result(), part.workload.instances)
        return Done(batch, what.nodes, counts, result, partial(_given, columns))

    def _in_parallel(self, parts: Iterable[Part]) -> Iterator[tuple[Part, Iterator[Done]]]:
        planning, twins = Lock(), self.executor.twins()
        turn = list(twins[:1])  # whom the next share is for

        def made(
            part: Part, twin: Executor | None, unequal: bool, first: int, last: int, window: int
        ) -> MiniBatch:
            of = part.workload, self.policy, twin or turn[0], first, last, window
            apart, keep_all = part.apart if self.reuse else math.inf, self.keep_all
            with planning:
                return planned(*of, clock=self.clock, keep_all=keep_all, apart=apart, unequal=unequal)

        def batches(part: Part) -> Iterator[MiniBatch | Turn]:
            how = partial(made, part, None, False)
            for passed, each in self._turns(part, self._pass(turn[0], part), at_once=True):
                if passed:
                    yield each
                else:
                    yield from each_window(part.workload, how, part.leave_out, [each[0]])

        def shares() -> Iterator[_Share]:
            portions = _Portions(len(twins))
            for part in parts:
                for some in portions.of(part, batches(part)):
                    yield _Share(part, some)

        def ran(twin: Executor, part: Part, each: MiniBatch | Turn, clock: Clock) -> Iterator[Done]:
            if isinstance(each, tuple):
                one, apart = self._pass(twin, part), not self.reuse or each[0][0] < part.apart
                done = one and self._passed(one, part, each, clock, apart=apart, copied=True)
                if done:
                    yield done
                    return
                how = partial(made, part, twin, True)
                waiting = each_window(part.workload, how, part.leave_out, [each[0]])
            else:
                how, waiting = partial(made, part, twin, False), iter([each])
            for batch in waiting:
                for piece, result in in_pieces(how, twin, clock, batch):
                    found = self._done(part, piece, result)
                    yield replace(found, columns=partial(_given, found.columns()))

        def work(twin: Executor, share: _Share) -> _Share:
            own, found = Clock(*PHASES), list[Done]()
            try:
                for each in share.batches:
                    found.extend(ran(twin, share.part, each, own))
            except AbwError as error:
                return _Share(share.part, (), found, own, error)
            return _Share(share.part, (), found, own)

        def given(done: Iterator[_Share]) -> Iterator[Done]:
            for share in done:
                for phase, seconds in share.clock.seconds.items() if share.clock else ():
                    self.clock.seconds[phase] += seconds
                yield from share.found
                if share.error:
                    raise share.error

        with closing(map_in_order(shares(), twins, work, lambda twin: turn.__setitem__(0, twin))) as done:
            for part, some in groupby(done, attrgetter("part")):
                yield part, given(some)


def _given(value: tuple[Column, ...]) -> tuple[Column, ...]:
    return value


def _nothing() -> NoReturn:
    raise RuntimeError("the mini-batch was run to its outputs alone")


# In place of what nobody looks at.
_UNSEEN, _NO_COUNTS = Passed(0, 0, _nothing), Counts(0, 0, 0, 0)


class _Portions:
    """Divides mini-batches into portions for a thread.

    Portions are small at first, so that all threads soon have work, and at the end, so that all threads end
    at about the same time.
    """

    def __init__(self, threads: int) -> None:
        self._threads, self._taken, self._left = threads, 0, 0

    def of(self, part: Part, batches: Iterator[MiniBatch | Turn]) -> Iterator[list[MiniBatch | Turn]]:
        """Divide a part's mini-batches; the last portion may be empty."""
        start, self._left = part.workload.instances.start, len(part.windows)

        def size(batch: MiniBatch | Turn) -> int:
            if isinstance(batch, MiniBatch):
                return len(batch.graph)
            (_, (first, last)), _ = batch
            return int(start[last] - start[first])

        for some in bundles(batches, self._full, size):
            yield some
            self._taken += 1
            if some:
                last = some[-1]
                self._left = len(part.windows) - 1 - (last[0][0] if isinstance(last, tuple) else last.window)

    def _full(self, some: list[MiniBatch | Turn], nodes: int) -> bool:
        few = self._taken < self._threads or 2 * self._threads * len(some) >= self._left
        return nodes >= (FEWEST if few else ENOUGH)


# Bytes of values, from and to, of mini-batches that run in parallel: smaller ones end before a thread wakes;
# larger ones, with tables and plans, are better shared by all threads than held at once.
LEAST, MOST = 1 << 17, 1 << 25
# Bytes of a vertex in graph, schedule and plan, a generous estimate.
OF_VERTEX = 256


def side_by_side(executor: Executor, part: Part) -> int:
    """The number of threads that run a part's mini-batches in parallel; 0 to run them one by one."""
    return len(executor.twins()) if should_parallelise(part.workload, part.windows) else 0


def should_parallelise(workload: Workload, windows: Sequence[tuple[int, int]]) -> bool:
    """Whether there are several mini-batches, neither too small nor too large to run in parallel.

    Growing ones run one by one.
    """
    if len(windows) < 2 or workload.growing is not None:
        return False
    network, start = workload.network, workload.instances.start
    vertices = max(int(start[last] - start[first]) for first, last in windows)
    values = 4 * vertices * sum(row_floats(o.shape, 1) for t in network.types for o in t.outputs)
    rest = OF_VERTEX * vertices + 4 * sum(table.rows * math.prod(table.shape) for table in network.tables)
    return LEAST <= values <= MOST - rest
