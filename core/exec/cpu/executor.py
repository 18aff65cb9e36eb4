"""The executor `cpu`: compiled kernels over packed weights, and one call that walks a plan."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numpy.typing import NDArray

from abw.core.base.parallel import usable_cores
from abw.core.exec.cpu import partition
from abw.core.exec.cpu.launch import Launcher
from abw.core.exec.cpu.llvm.walker import WALKS
from abw.core.exec.cpu.prepare import (
    NetworkKernels,
    PackedConstants,
    compile_network,
    emit_network,
    kernel_texts,
)
from abw.core.exec.cpu.profile import Profiler
from abw.core.exec.cpu.quantized import NARROW
from abw.core.exec.cpu.target import Target, TargetName, get_target
from abw.core.exec.cpu.team import Team
from abw.core.exec.cpu.weight_grads import RowSums
from abw.core.exec.interface import Abilities, Array, Executor, Result
from abw.core.exec.memory import ArenaMemory
from abw.core.exec.params import Params
from abw.core.exec.precision import Precision
from abw.core.exec.result_guard import RunEpochs
from abw.core.exec.values import fill_given, kept_rows, read_values
from abw.core.graph.equal.leaves import Leaves
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.plan.arenas import Arenas, arenas_of
from abw.core.plan.counts import Counts
from abw.core.plan.plan import Plan
from abw.core.policy.schedule import Schedule

if TYPE_CHECKING:
    from abw.core.exec.cpu.rounds.rounds import CompiledRounds
    from abw.core.exec.cpu.tape.tape import CompiledTape
    from abw.core.exec.cpu.weights import WeightGradients
    from abw.core.exec.gradient import Gradient
    from abw.core.grad.graph import TrainingGraph
    from abw.core.graph.growing.model import GrowthModel

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Parts:
    """The code and memory of an executor: its kernels and walkers as LLVM IR, their names there and addresses
    here; packed weights by type; the rows of constants with which each arena begins.
    """

    target: Target
    ir: str
    names: list[str]
    addresses: list[int]
    packed: list[NDArray[np.float32]]
    heads: list[NDArray[np.float32]]


class CpuExecutor(Executor):
    """One kernel a batch: products summed in registers, element by element to the end, stored once.

    Operands are read where they lie, through the plan's index arrays where their rows are not evenly spaced.
    Arenas are kept from run to run and grow as plans need it.

    Several threads share a run where it is long enough: each takes some of the instances, if the schedule was
    arranged for it, from first batch to last or to the end of a section of the plan; else they do each launch
    together and wait for each other after it. Results are the same bit for bit.
    """

    name = "cpu"
    abilities = Abilities(halves=True, tapes=True)
    profiler: Profiler

    def __init__(self, target: TargetName | Target | None = None, precision: Precision = "float32") -> None:
        """`target`: what to compile for; None takes the best that the machine has."""
        self._target = target if isinstance(target, Target) else get_target(target)
        self.precision = precision
        self._narrow = NARROW.get(precision)
        self.profiler = Profiler()

    def prepare(self, network: Network, params: Params, threads: int | None = None) -> None:
        """Compile the network's kernels, or find them on disk, and pack the weights.

        `threads`: how many share a run; None: one for each processor that this process may use.
        """
        self.threads = threads or usable_cores()
        team = None
        if self.threads > 1:
            team = Team(self.threads)
            partition.compile_sort()
        self._network = network
        self._arenas: Arenas = arenas_of(network)
        self._kernels = compile_network(network, self._target, self._narrow)
        self._constants = PackedConstants(network, self._kernels.layouts, params)
        self._take_memory(team)

    def _take_memory(self, team: Team | None) -> None:
        """Have arenas, scratch memory and tables of this executor's own, and no run yet."""
        params = self._constants.params
        self._memory = ArenaMemory(self._network, self._arenas, params, self._target.lanes)
        self._launcher = Launcher(self._kernels, self._constants, self._arenas, self._memory, team)
        self.profiler.prepare(self._stamped, self._network, self._launcher)
        self._epochs = RunEpochs(self._network, params)
        self._leaves = Leaves(self._network)
        self._kept = kept_rows(self._network, self._arenas)
        self._weights: WeightGradients | None = None
        self._rounds: CompiledRounds | None = None
        self._tape: CompiledTape | None = None
        self._twins: tuple[CpuExecutor, ...] = ()

    def _stamped(self) -> NetworkKernels:
        return compile_network(self._network, self._target, self._narrow, stamped=True)

    @property
    def packed_bytes(self) -> int:
        """Weights, biases and scales of all types."""
        return self._constants.nbytes

    @property
    def leaves(self) -> Leaves | None:
        """The leaves that it keeps from run to run; None where the network has none."""
        return self._leaves if self._leaves.types.rows else None

    def twins(self) -> tuple[CpuExecutor, ...]:
        """One a thread, with arenas of its own; none while runs are measured or noted."""
        if self._launcher.team is None or self.profiler.measuring:
            return ()
        if not self._twins:
            self._twins = tuple(self._twin() for _ in range(self.threads))
        return self._twins

    def _twin(self) -> CpuExecutor:
        twin = copy.copy(self)
        twin.threads, twin.profiler = 1, Profiler()
        twin._take_memory(None)
        return twin

    def update(self, params: Params, rows: Mapping[int, Ints] | None = None) -> None:
        """Pack weights; those that were changed in place by numbers found once. Raises ValueError for other
        shapes.
        """
        self._epochs.renew(params)
        for executor in (self, *self._twins):
            executor._leaves.forget()
        self._twins = ()
        if params is self._constants.params and params.flat is not None:
            self._constants.refresh(params.flat, self.share)
        else:
            self._constants.update(params)
        self._memory.update(params, rows)

    def arrange(self, graph: Graph, schedule: Schedule) -> Schedule:
        """The lanes sorted by the thread that will compute them, where several share this graph's run."""
        return partition.shared_out(graph, schedule, self.threads)

    def divide(self, graph: Graph) -> Ints | None:
        """The part of each instance, for threads that share the run of this graph; None where none do."""
        return partition.parts_of(graph, self.threads)

    def run(self, plan: Plan) -> Result:
        """Execute the batches in order, and keep the leaves. Raises ValueError for another network's plan,
        StaleLeavesError for one that reads leaves which were forgotten.
        """
        result = self.begin(plan, len(plan.launch_ptr) - 1)
        graph, found = plan.graph, plan.graph.distinct
        if found is not None and found.epoch is not None:
            read = graph.type_ptr, graph.operand_ptr, graph.operand
            self.keep_leaves(read, plan.row, divided=found.part is not None)
        return result

    def keep_leaves(self, graph: tuple[Ints, Ints, Ints], row: Ints, *, divided: bool = False) -> None:
        """Keep outputs of the leaves that the last run has computed: see `Leaves.store`."""
        memory, arena = self._memory.views, self._arenas.output_arena
        self._leaves.store(graph, row, memory, arena, self._kept, divided=divided)

    def begin(self, plan: Plan, until: int) -> Result:
        """Execute the first launches. Raises ValueError for a plan of another network."""
        start = time.perf_counter()
        self._epochs.begin(plan)
        if self._memory.reserve_for(plan):
            self._leaves.forget()
        self._leaves.require(plan.graph)
        return self._run(plan, 0, until, start)

    def resume(self, plan: Plan, since: int) -> Result:
        """Execute the launches that `begin` left. Raises RuntimeError for a plan that was not run last."""
        start = time.perf_counter()
        self._epochs.require(plan)
        return self._run(plan, since, len(plan.launch_ptr) - 1, start)

    def _run(self, plan: Plan, first: int, last: int, start: float) -> Result:
        """Execute the launches `first` to `last - 1` of a plan for which there is room."""
        fill_given(self._memory.views, plan)
        self._launcher.note(plan)
        prepared = time.perf_counter()
        recorder = self.profiler.recorder if last - first == len(plan.launch_ptr) - 1 else None
        if recorder is not None:
            recorder.begin(plan)
        threads = self._launcher.run(plan, first, last) if first < last else 1
        if recorder is not None:
            recorder.end(plan, threads)
        self.profiler.took = threads, prepared - start, time.perf_counter() - prepared
        batches = int(plan.launch_ptr[last] - plan.launch_ptr[first])
        counts = Counts(batches, last - first, 0, 0)
        return Result(plan.graph, counts, self._epochs.reader(self._memory.views, plan))

    def share(self, work: Callable[[int, int], object], amount: int, kind: str) -> None:
        """Call `work(part, parts)` on each thread, where that is faster than `work(0, 1)` on this one."""
        self._launcher.share(work, amount, kind)

    def gradient(
        self,
        made: TrainingGraph,
        plan: Plan,
        result: Result,
        params: Params,
        meanwhile: Callable[[], object] | None = None,
    ) -> Gradient:
        """The gradient of parameters and tables, by kernels that read rows where they lie."""
        self._epochs.require(plan)
        if self._weights is None:
            from abw.core.exec.cpu.weights import WeightGradients

            sums = RowSums(self._target, self._launcher.team, self.threads)
            self._weights = WeightGradients(sums, made.training, params, self._target.lanes)
        self._weights.params = params
        return self._weights.gradient(made, plan, self._memory, meanwhile)

    def rounds(self, model: GrowthModel) -> CompiledRounds | str:
        """The compiled rounds of a model that grows."""
        if self.profiler.recorder is not None:
            return "each is noted by itself, with its batches"
        if self._rounds is None or self._rounds.model is not model:
            from abw.core.exec.cpu.rounds.rounds import CompiledRounds

            run = self._launcher
            self._rounds = CompiledRounds(
                model, self._target, self._memory, run.tables, run.scratch, run.team, self._epochs
            )
        return self._rounds

    def tape(self, bits: int) -> CompiledTape | None:
        """A tape that runs on this thread; work for which several are faster is left to plans.

        None under NUMBA_DISABLE_JIT: Python itself calls nothing by its address.
        """
        if self.profiler.measuring or numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return None
        if self._tape is None:
            from abw.core.exec.cpu.tape.tape import CompiledTape

            run = self._launcher
            self._tape = CompiledTape(
                self._network, self, self._target, self._memory, run.tables, run.scratch[0], self._epochs,
                bits, run.limit,
            )  # fmt: skip
        return self._tape

    def parts(self) -> Parts:
        """What this executor is made of, to be used without it."""
        text, names, _ = emit_network(self._network, self._target, self._narrow)
        names = [*dict.fromkeys(names), *WALKS]
        addresses = [self._kernels.code.address(name) for name in names]
        memory = ArenaMemory(self._network, self._arenas, self._constants.params, self._target.lanes)
        memory.reserve(self._arenas.head)
        heads = [memory.rowwise(a)[:rows].copy() for a, rows in enumerate(self._arenas.head.tolist())]
        return Parts(self._target, text, names, addresses, self._constants.memory, heads)

    def walking(self) -> Launcher | None:
        """What compiled code runs batches with by itself, on one thread and by a copy of the walker's table.

        Each run is to begin with `run_alone`. None while runs are measured, and under NUMBA_DISABLE_JIT.
        """
        if self.profiler.measuring or numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return None
        return self._launcher

    def run_alone(self) -> None:
        """A run without a plan begins: results of earlier ones cannot be read any more."""
        self._epochs.start()

    def have_rows(self, rows: Ints, *, keep: bool) -> None:
        """Have so many rows of each arena for the run without a plan, and `keep` what lies in those there.

        Errors: TooLargeError.
        """
        self._epochs.go_on(rows, self._arenas)
        if self._memory.reserve(rows, self._memory.held.astype(np.int32) if keep else None):
            self._leaves.forget()

    def reader_of(self, plan: Callable[[], Plan]) -> Callable[[NDArray[np.integer[Any]]], Array]:
        """What reads values of the run without a plan, of which this one is made afterwards: see `Result`."""
        views, params = self._memory.views, self._constants.params
        return self._epochs.guarded(lambda references: read_values(views, plan(), params, references))

    def kernels(self) -> Mapping[str, str]:
        """Each type's kernel as LLVM IR; what all share (fills, lists collected, the walker) is left out."""
        return kernel_texts(self._network, self._target, self._narrow)
