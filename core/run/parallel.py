"""Mini-batches of instances that arrive in chunks, run in parallel if that helps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from threading import Lock
from typing import Any, Generic, TypeVar

from abw.core.base.errors import InstanceError
from abw.core.base.parallel import map_in_order
from abw.core.base.progress import Clock
from abw.core.exec.interface import Executor, Result
from abw.core.exec.lower.rows import row_floats
from abw.core.policy.schedule import Policy
from abw.core.run.minibatches import (
    MiniBatch,
    bundles,
    each_window,
    in_pieces,
    planned,
    run_all,
)
from abw.core.run.workload import Workload

T = TypeVar("T")

# Nodes of the mini-batches that are planned together, fewest and usual: a thread that alternates between
# planning and executing has cold caches each time.
FEWEST, ENOUGH = 1 << 11, 1 << 13


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


# Mini-batches in order, each with its result and a function that reads it.
Found = Iterator[tuple[MiniBatch, Result, Callable[[], T]]]


@dataclass(frozen=True, slots=True)
class _Share(Generic[T]):
    """Planned mini-batches of a part; when they have run, their results, and the seconds they took."""

    part: Part
    batches: list[MiniBatch]
    found: tuple[tuple[MiniBatch, Result, T], ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PartRunner(Generic[T]):
    """Runs parts on an executor, in parallel if that helps, and reads results by `read(part, batch, result)`.

    `clock` counts the seconds of all threads. `keep_all`: see `run_all`. `alone`: never run in parallel.

    Mini-batches use leaves that earlier ones have computed, unless their part says otherwise (`Part.apart`).
    Those that run in parallel do so only if they `reuse` them: each thread has its own, so that the number of
    nodes that are left to compute depends on the threads' pace.
    """

    policy: Policy
    executor: Executor
    clock: Clock
    read: Callable[[Part, MiniBatch, Result], T]
    keep_all: bool = False
    alone: bool = False
    reuse: bool = False

    def run(self, parts: Iterable[Part]) -> Iterator[tuple[Part, int, Found[T]]]:
        """Run parts as `run_all` does; yields with each mini-batch what returns its `read`.

        Call that before the next mini-batch. With each part comes the number of threads that run its
        mini-batches in parallel, or 0. In parallel, a mini-batch runs and is read on one thread, while the
        next ones are planned, also those of later parts; its `result` has no values then, and parts are
        requested by other threads, one at a time.
        """
        for many, some in groupby(parts, lambda part: 0 if self.alone else side_by_side(self.executor, part)):
            if many:
                yield from ((part, many, found) for part, found in self._in_parallel(some))
            else:
                yield from ((part, 0, self._one_by_one(part)) for part in some)

    def _one_by_one(self, part: Part) -> Found[T]:
        for batch, result in run_all(
            part.workload,
            self.policy,
            self.executor,
            self.clock,
            part.leave_out,
            keep_all=self.keep_all,
            apart=part.apart,
            windows=part.windows,
        ):
            yield batch, result, partial(self.read, part, batch, result)

    def _in_parallel(self, parts: Iterable[Part]) -> Iterator[tuple[Part, Found[T]]]:
        planning, twins = Lock(), self.executor.twins()
        turn = list(twins[:1])  # whom the next share is for

        def made(part: Part, twin: Executor | None, window: int, first: int, last: int) -> MiniBatch:
            with planning:
                return planned(
                    part.workload,
                    self.policy,
                    twin or turn[0],
                    first,
                    last,
                    self.clock,
                    window=window,
                    keep_all=self.keep_all,
                    apart=not self.reuse or window < part.apart,
                )

        def shares() -> Iterator[_Share[T]]:
            portions = _Portions(len(twins))
            for part in parts:
                batches = each_window(part.workload, partial(made, part, None), part.leave_out, part.windows)
                for some in portions.of(batches, len(part.windows)):
                    yield _Share(part, some)

        def work(twin: Executor, share: _Share[T]) -> _Share[T]:
            part, own = share.part, Clock("execute")
            again = partial(made, part, twin)
            pieces = chain.from_iterable(in_pieces(again, twin, own, b) for b in share.batches)
            found = tuple((batch, result, self.read(part, batch, result)) for batch, result in pieces)
            return _Share(part, [], found, own.seconds["execute"])

        def given(done: Iterator[_Share[T]]) -> Found[T]:
            for share in done:
                self.clock.seconds["execute"] += share.seconds
                for batch, result, value in share.found:
                    yield batch, result, partial(_given, value)

        with closing(map_in_order(shares(), twins, work, lambda twin: turn.__setitem__(0, twin))) as done:
            for part, some in groupby(done, attrgetter("part")):
                yield part, given(some)


def _given(value: T) -> T:
    return value


class _Portions:
    """Divides mini-batches into portions that are planned together.

    Portions are small at first, so that all threads soon have work, and at the end, so that all threads end
    at about the same time.
    """

    def __init__(self, threads: int) -> None:
        self._threads, self._taken, self._left = threads, 0, 0

    def of(self, batches: Iterator[MiniBatch], windows: int) -> Iterator[list[MiniBatch]]:
        """Divide the mini-batches of this number of windows; the last portion may be empty."""
        self._left = windows
        for some in bundles(batches, self._full):
            yield some
            self._taken += 1
            self._left = windows - 1 - some[-1].window if some else 0

    def _full(self, some: list[MiniBatch], nodes: int) -> bool:
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
