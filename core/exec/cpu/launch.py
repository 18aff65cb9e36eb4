"""Launches of plans: the walker's table, and the threads that share a run where it is long enough."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from operator import attrgetter
from typing import Any, cast

import numpy as np

from abw.core.exec.cpu import partition
from abw.core.exec.cpu.llvm.walker import OF_ARENAS, OF_EXECUTOR, OF_PLAN, OF_SCHEDULE, WALKS, note_plan
from abw.core.exec.cpu.prepare import NetworkKernels, PackedConstants
from abw.core.exec.cpu.team import Team
from abw.core.exec.memory import ArenaMemory, aligned
from abw.core.jit.pointers import Pointer, Table, address
from abw.core.plan.arenas import Arenas
from abw.core.plan.plan import Plan

# The least arithmetic a launch where threads wait for each other after each.
TOGETHER_FLOPS = 2_500_000
# The least numbers, of which each is read and written, that threads share: some 0.3 ms.
APART_FLOATS = 500_000

_SCHEDULE, _PLAN = attrgetter(*OF_SCHEDULE), attrgetter(*OF_PLAN)
# A walker, as a thread calls it.
Walk = Callable[..., None]


def arrays_of(plan: Plan, arenas: Arenas) -> list[np.ndarray]:
    """What the walker reads of a plan, in the order of its table."""
    return [*_SCHEDULE(plan.schedule), *_PLAN(plan), *(getattr(arenas, name) for name in OF_ARENAS)]


class Launcher:
    """Runs launches of plans by compiled kernels, on memory of its own.

    `table`: the walker's; `tables`: addresses of arenas, kernels and constants; `scratch`, `walks`: each
    thread's scratch memory and walkers.
    """

    def __init__(
        self,
        kernels: NetworkKernels,
        constants: PackedConstants,
        arenas: Arenas,
        memory: ArenaMemory,
        team: Team | None,
    ) -> None:
        """`team`: the threads that share runs."""
        self._noted: Plan | None = None
        self.team, self.memory = team, memory
        self.threads = team.threads if team else 1
        layouts = [layout for layout in kernels.layouts if layout]
        size = max((layout.scratch_floats for layout in layouts), default=0)
        # whole vectors are read at parts of the last row
        self.scratch = [Pointer(aligned(size + memory.lanes)) for _ in range(self.threads)]
        self.walks: list[tuple[Walk, ...]] = [
            tuple(kind(kernels.code.address(name)) for name, kind in WALKS.items())
        ] * self.threads
        self.by_column = np.array([bool(x and x.by_column) for x in kernels.layouts], np.int64)
        self.tables = {
            "arena": memory.table,
            "kernel": Table(kernels.addresses, kernels.code),
            "constants": constants.table,
        }
        own = {**self.tables, "pitch": memory.pitch, "by_column": self.by_column}
        fixed = *(getattr(arenas, name) for name in OF_ARENAS), *(own[name] for name in OF_EXECUTOR)
        of_plan = len(OF_SCHEDULE) + len(OF_PLAN)
        self.table = Table(np.zeros(of_plan + len(fixed), np.int64))
        for place, array in enumerate(fixed, of_plan):
            self.table.point(place, array)

    def note(self, plan: Plan) -> None:
        """Tell the walker where a plan's arrays lie."""
        if plan is not self._noted:
            self._noted = plan
            note_plan(self.table.words, *_SCHEDULE(plan.schedule), *_PLAN(plan))

    @property
    def walk(self) -> int:
        """Where the walker of one thread begins."""
        return ctypes.cast(cast(Any, self.walks[0][0]), ctypes.c_void_p).value or 0

    @property
    def limit(self) -> int:
        """From so much arithmetic on plans on several threads are faster than one thread alone."""
        return np.iinfo(np.int64).max if self.team is None else partition.APART_FLOPS

    def share(self, work: Callable[[int, int], object], amount: int, kind: str) -> None:
        """Call `work(part, parts)` on each thread, where that is faster than `work(0, 1)` on this one."""
        if self.team is None or amount < APART_FLOATS:
            work(0, 1)
        else:
            self.team.do(lambda part: work(part, self.threads), lambda: work(0, 1), amount, kind)

    def alone(self, plan: Plan, first: int, last: int) -> None:
        """Run the launches `first` to `last - 1` of the plan noted, on this thread."""
        walk = self.walks[0][0]
        walk(self.table.at, self.scratch[0].at, first, last, 0, 1, None, None)

    def run(self, plan: Plan, first: int, last: int) -> int:
        """Run launches of the plan noted, on several threads where that pays; on how many."""
        flops = plan.product_flops
        if last - first < len(plan.launch_ptr) - 1:  # their part of it, by the nodes
            ends = plan.schedule.ptr[plan.launch_ptr[[first, last]]]
            flops = flops * int(ends[1] - ends[0]) // len(plan.schedule.nodes)
        shared = self._shared(plan, first, last, flops)
        if self.team is None or shared is None:
            self.alone(plan, first, last)
            return 1
        half = first > 0, last < len(plan.launch_ptr) - 1
        together = self.team.do(shared, lambda: self.alone(plan, first, last), flops, half)
        return self.threads if together else 1

    def _shared(self, plan: Plan, first: int, last: int, flops: int) -> Callable[[int], None] | None:
        """What each thread does of some launches; None where one alone is faster."""
        if flops < partition.APART_FLOPS:
            return None
        if plan.schedule.split is not None:
            split = plan.schedule.split
            inside = plan.sections[(first < plan.sections) & (plan.sections < last)]
            sections = np.array([first, *inside, last], np.int32)
            count, shares = len(sections) - 1, split.shape[1] - 1
            taken, done = np.zeros(count, np.int64), np.zeros(1, np.int64)

            def apart(thread: int) -> None:
                walk = self.walks[thread][1]
                walk(
                    self.table.at, self.scratch[thread].at, address(sections), count, shares, address(split),
                    address(taken), address(done),
                )  # fmt: skip

            return apart
        if flops < (last - first) * TOGETHER_FLOPS:
            return None
        arrived = np.zeros(1, np.int64)

        def together(thread: int) -> None:
            walk = self.walks[thread][0]
            walk(
                self.table.at, self.scratch[thread].at, first, last, thread, self.threads, None,
                address(arrived),
            )  # fmt: skip

        return together
