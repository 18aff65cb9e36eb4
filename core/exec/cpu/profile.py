"""Where the time of runs goes: by type and reason, in seconds of the wall clock; and each batch of each run.

Two kinds of run, so that measuring does not change what is measured. A run proper has the kernels that every
run has; the walker alone takes stamps, two a batch: they give each type's time, the walker's, and waiting's.
What part of a type's time goes to which reason is told by runs of the same plan afterwards, samples, whose
kernels take stamps between addresses, products and element-wise operations; of some samples the least counts,
what stamps cost is subtracted, and only the ratios are used.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.launch import Launcher, Walk
from abw.core.exec.cpu.llvm.clock import (
    COUNTS,
    FIRST,
    LAST,
    LOG,
    LOGGED,
    NOTED,
    REASONS,
    ROOM,
    WAITING,
    WALKER,
    WHOLE,
    WORDS,
)  # fmt: skip
from abw.core.exec.cpu.llvm.compiled import compile_ir
from abw.core.exec.cpu.llvm.emit import Function, Module, splat
from abw.core.exec.cpu.llvm.walker import STAMPED_WALKS
from abw.core.exec.cpu.prepare import NetworkKernels
from abw.core.exec.cpu.target import TargetName, get_target
from abw.core.exec.interface import Executed
from abw.core.ir.network import Network
from abw.core.jit.pointers import Table, address
from abw.core.plan.plan import Plan
from abw.core.policy.schedule import Schedule

Longs = NDArray[np.int64]

# How many stamps tell what one costs.
STAMPS = 10_000
# How many runs of the stamped kernels there are for one run proper.
SAMPLES = 3
# How many times the peak is measured; the highest counts.
PEAKS = 9
# Sums that do not wait for each other: more than a processor has multiply-adds under way.
CHAINS = 12
TURNS = 40_000


@dataclass(frozen=True, slots=True)
class TypeTime:
    """A type's batches and rows (lanes of all of them), and its seconds: all, and by reason.

    `share_of_peak`: its matrix products' arithmetic over all its time, as a part of the peak;
    `product_share_of_peak`: over the time of its products alone. Both None without products.
    """

    name: str
    batches: int
    rows: int
    seconds: float
    gather: float
    product: float
    elementwise: float
    share_of_peak: float | None
    product_share_of_peak: float | None


@dataclass(frozen=True, slots=True)
class Profile:
    """Seconds of the wall clock of all runs (`seconds`), and where they went.

    Where threads share a run, each one's time counts by its part: two threads that compute for 1 ms are 1 ms.
    `held_up`: how long threads stood in the middle of it because others had the processor; contained in the
    types' times. `types` in the network's order, without those that never ran. `peak`: of one core, in
    operations a second.
    """

    seconds: float
    walker: float
    waiting: float
    held_up: float
    types: tuple[TypeTime, ...]
    peak: float

    @property
    def accounted(self) -> float:
        """The sum of everything that was charged to something."""
        return self.walker + self.waiting + sum(t.seconds for t in self.types)

    def reason(self, name: str) -> float:
        """The seconds of a reason: gather, product, elementwise, walker or waiting."""
        if name in REASONS:
            return sum(float(getattr(t, name)) for t in self.types)
        return float(getattr(self, name))

    def document(self) -> dict[str, Any]:
        """All of it for JSON."""
        return {
            "seconds": self.seconds,
            "accounted_seconds": self.accounted,
            "held_up_seconds": self.held_up,
            "reasons": {name: self.reason(name) for name in (*REASONS, "walker", "waiting")},
            "peak_gflops": self.peak / 1e9,
            "types": [asdict(t) for t in self.types],
        }


def peak_meter(name: TargetName | None = None) -> Callable[[], float]:
    """A function that measures once (some 0.3 ms): floating-point operations a second, by thread CPU time.

    `name`: of the target whose vectors count; None: the best that the machine has.
    """
    target = get_target(name)
    module = Module(target)
    f = Function(module, "peak", "ptr %out", public=True)
    factor = f.load("%out")
    sums = [(target.vector, splat(float(chain))) for chain in range(CHAINS)]
    totals = f.loop(TURNS, lambda _, held: [f.fma(factor, factor, h) for h in held], sums)
    for chain, value in enumerate(totals):
        f.store(value, "%out", 4 * target.lanes * chain)
    module.add(f)
    code = compile_ir(module.text(), target)
    memory = (ctypes.c_float * (CHAINS * target.lanes))()
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("peak"))

    def measure() -> float:
        assert code  # the machine code lives as long as this function
        start = time.thread_time()
        call(ctypes.addressof(memory))
        return 2.0 * target.lanes * CHAINS * TURNS / (time.thread_time() - start)

    return measure


def peak_of_core() -> float:
    """Floating-point operations a second, the best of PEAKS tries."""
    meter = peak_meter()
    return max(meter() for _ in range(PEAKS))


class Profiler:
    """Says where the time of an executor's runs goes, and notes each batch: stamps of its threads, summed up.

    `measuring`: whether it was told to; `recorder`: what notes batches, if it was told to.
    """

    measuring = False
    recorder: Recorder | None = None

    def prepare(self, stamped: Callable[[], NetworkKernels], network: Network, launcher: Launcher) -> None:
        """`stamped` compiles kernels and walker with stamps; `launcher` runs those without."""
        self._stamped, self._types, self._launcher = stamped, network.types, launcher
        self.measuring, self.recorder = False, None

    def measure(self) -> None:
        """From now on measure where the time of runs goes; each is to be followed by `sample`.

        Cost: kernels with stamps are compiled, or found on disk; of a run, nothing that could be noticed.
        """
        made = self._stamped()
        self._code, self._kernels = made.code, made.addresses
        self._walks = tuple(kind(made.code.address(name)) for name, kind in STAMPED_WALKS.items())
        self._now = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(made.code.address("now"))
        types, threads = len(self._types), self._launcher.threads
        self.clocks = [np.zeros((1 + types, WORDS), np.int64) for _ in range(threads)]
        """The threads' (see `abw.core.exec.cpu.llvm.clock`)."""
        self._inside = np.zeros(threads, np.int64)
        self._computing = np.zeros(threads)
        self.took = 1, 0.0, 0.0
        """The last run's threads, its seconds before the walk, and those of the walk."""
        self._sampled = np.zeros((types, len(REASONS)))
        self._ticks = np.zeros((1 + types, WORDS))
        self._thread_ticks = np.zeros(types)
        self._batches, self._rows = np.zeros(types, np.int64), np.zeros(types, np.int64)
        self._flops = np.zeros(types, np.int64)
        self._seconds = 0.0
        # each in seconds and in ticks; not in the walk, of one thread and of several; held up in it
        self._outside, self._idle, self._held = np.zeros(2), np.zeros(2), np.zeros(2)
        self._cost = self._cost_of_stamp()
        self._start = self._both_clocks()
        self._launcher.walks = [self._walks_of(thread) for thread in range(threads)]
        self.measuring = True

    def record(self, most: int) -> None:
        """From now on note what is executed, in `most` runs at most. Cost: as `measure`."""
        if not self.measuring:
            self.measure()
        self.recorder = Recorder(self.clocks, self._launcher.by_column, most)

    def recorded(self) -> list[Executed]:
        """The runs noted so far. Raises ValueError where nothing was noted. Cost: some ms, for the peak."""
        if self.recorder is None:
            raise ValueError("the executor was not told to record")
        return self.recorder.runs(self._timing(), peak_of_core())

    def _walks_of(self, thread: int) -> tuple[Walk, ...]:
        """The walkers as a thread calls them, with the thread's clock."""
        clock = self.clocks[thread]

        def stamped(walk: Walk) -> Walk:
            def measured(*arguments: object) -> None:
                start = time.thread_time()
                walk(*arguments, address(clock))
                self._computing[thread] += time.thread_time() - start
                self._inside[thread] += clock[0, LAST] - clock[0, FIRST]

            return measured

        return tuple(stamped(walk) for walk in self._walks)

    def settle(self, plan: Plan) -> None:
        """Take what a run of this plan left on the clocks."""
        threads, prepared, walked = self.took
        ticks = np.sum(self.clocks, axis=0)
        self._ticks += ticks / threads
        self._thread_ticks += ticks[1:, WHOLE]
        # several threads that are not in the walk wait: to be woken, and for the last one's end
        rest = self._idle if threads > 1 else self._outside
        inside = self._inside.sum() / threads
        rest += walked, -inside
        self._held += -self._computing.sum() / threads, inside
        self._outside[0] += prepared
        self._seconds += prepared + walked
        lanes = np.diff(plan.schedule.ptr)
        self._batches += np.bincount(plan.schedule.type, minlength=len(self._batches))
        rows = np.bincount(plan.schedule.type, lanes, len(self._rows)).astype(np.int64)
        self._rows += rows
        self._flops += rows * plan.arenas.product_flops
        self._clear()

    def sample(self, plan: Plan) -> None:
        """Run the plan that was run last some times more, by kernels that say what their time goes to.

        The result of the run stays as it is.
        """
        self.settle(plan)
        if not len(plan.schedule):
            return
        kernels = self._launcher.tables["kernel"].words
        plain = kernels.copy()
        kernels[:] = self._kernels
        self._launcher.note(plan)
        least = np.full(self._sampled.shape, np.inf)
        for _ in range(SAMPLES):
            self._launcher.alone(plan, 0, len(plan.launch_ptr) - 1)
            rows = self.clocks[0][1:]
            ticks = rows[:, list(REASONS.values())] - self._cost * rows[:, COUNTS : COUNTS + len(REASONS)]
            # another process may have had the processor in between
            least = np.minimum(least, np.maximum(ticks, 0))
            self._clear()
        self._sampled += least
        kernels[:] = plain

    def profile(self) -> Profile:
        """Where the time of all runs since `measure` went. Raises ValueError where nothing was measured.

        Cost: some ms, to measure the peak.
        """
        if not self.measuring:
            raise ValueError("the executor was not told to measure")
        peak = peak_of_core()
        now = self._both_clocks()
        tick = (now[0] - self._start[0]) / (now[1] - self._start[1])
        sampled = self._sampled.copy()
        # a reduction's kernel has nothing to tell apart
        sampled[[t.cell is None for t in self._types]] = [r == "elementwise" for r in REASONS]
        sampled /= np.maximum(sampled.sum(1, keepdims=True), 1)
        types = []
        for t in np.flatnonzero(self._batches).tolist():
            seconds = float(self._ticks[1 + t, WHOLE]) * tick
            busy, flops = float(self._thread_ticks[t]) * tick, float(self._flops[t])
            gather, product, elementwise = sampled[t].tolist()
            types.append(
                TypeTime(
                    self._types[t].name,
                    int(self._batches[t]),
                    int(self._rows[t]),
                    seconds,
                    seconds * gather,
                    seconds * product,
                    seconds * elementwise,
                    flops / busy / peak if flops else None,
                    flops / (busy * product) / peak if flops and product else None,
                )
            )
        walker = float(self._ticks[0, WALKER] * tick + self._outside @ (1, tick))
        waiting = float(self._ticks[0, WAITING] * tick + self._idle @ (1, tick))
        held = float(self._held @ (1, tick))
        return Profile(self._seconds, walker, waiting, max(held, 0.0), tuple(types), peak)

    def _timing(self) -> Callable[[Longs], NDArray[np.float64]]:
        """What makes of stamps seconds of `time.perf_counter`."""
        start, first = self._start
        now, last = self._both_clocks()
        tick = (now - start) / (last - first)
        return lambda stamps: np.asarray(start + (stamps - first) * tick, np.float64)

    def _clear(self) -> None:
        for clock in self.clocks:
            clock[:] = 0
        self._inside[:] = 0
        self._computing[:] = 0

    def _both_clocks(self) -> tuple[float, int]:
        """Seconds and ticks at one moment: of some tries the one that nothing came between."""
        tries = []
        row = np.zeros(WORDS, np.int64)
        for _ in range(5):
            start = time.perf_counter()
            self._now(address(row))
            end = time.perf_counter()
            tries.append((end - start, end, int(row[LAST])))
        return min(tries)[1:]

    def _cost_of_stamp(self) -> float:
        """Ticks that a stamp takes, the least of some tries."""
        stamps: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self._code.address("stamps"))
        costs = []
        for _ in range(5):
            row = np.zeros(WORDS, np.int64)
            stamps(address(row), STAMPS)
            costs.append(int(row[REASONS["gather"]]) / STAMPS)
        return min(costs)


class Recorder:
    """Notes of the stamped walker, of `most` runs at most, in ticks until they are read."""

    def __init__(self, clocks: list[Longs], by_column: Longs, most: int) -> None:
        """`clocks`: the threads'; `by_column` (T,): whether threads share a type's rows by their columns."""
        self._clocks, self._by_column, self._most = clocks, by_column, most
        self._tables = [Table(clock) for clock in clocks]
        self._logs = [np.empty((0, NOTED), np.int64) for _ in clocks]
        self._runs: list[tuple[Schedule, Longs, int, list[Longs]]] = []

    def begin(self, plan: Plan) -> None:
        """Make room for what a run of this plan will note."""
        if len(self._runs) == self._most:
            return
        split = plan.schedule.split
        room = len(plan.schedule) * (1 if split is None else split.shape[1] - 1)
        for thread, clock in enumerate(self._clocks):
            if len(self._logs[thread]) < room:
                self._logs[thread] = np.empty((room, NOTED), np.int64)
            self._tables[thread].point((0, LOG), self._logs[thread])
            clock[0, LOGGED], clock[0, ROOM] = 0, room

    def end(self, plan: Plan, threads: int) -> None:
        """Take what a run of this plan on so many threads has noted."""
        if len(self._runs) == self._most:
            return
        noted = []
        for clock, log in zip(self._clocks, self._logs, strict=True):
            noted.append(log[: clock[0, LOGGED]].copy())
            clock[0, LOG : ROOM + 1] = 0
        self._runs.append((plan.schedule, plan.arenas.product_flops, threads, noted))

    def runs(self, seconds: Callable[[Longs], NDArray[np.float64]], peak: float) -> list[Executed]:
        """All so far; `seconds` of ticks are those of `time.perf_counter`, `peak` is operations a second."""
        return [self._run(*run, seconds, peak) for run in self._runs]

    def _run(
        self,
        schedule: Schedule,
        flops_of: Longs,
        threads: int,
        noted: list[Longs],
        seconds: Callable[[Longs], NDArray[np.float64]],
        peak: float,
    ) -> Executed:
        thread = np.repeat(np.arange(len(noted)), [len(log) for log in noted])
        batch, first, last, begin, end = np.concatenate(noted).T
        kind = schedule.type[batch]
        # of rows shared by columns each thread computes its part
        together = threads > 1 and schedule.split is None
        parts = np.where(self._by_column[kind] & together, threads, 1)
        flops = flops_of[kind] * (last - first) / parts
        start, stop = seconds(begin), seconds(end)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(flops > 0, flops / (stop - start) / peak, np.nan)
        return Executed(thread, batch, kind, last - first, start, stop, share)
