"""The executor `cpu`: compiled kernels over packed weights, and one call that walks a plan."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Hashable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

import numba
import numpy as np
from numpy.typing import NDArray

from abw.core.base.cores import usable_cores
from abw.core.exec.cpu import partition
from abw.core.exec.cpu.llvm.attention import emit_attention
from abw.core.exec.cpu.llvm.clock import emit_clock
from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.llvm.emit import Module, function_text
from abw.core.exec.cpu.llvm.kernel import emit_cell, emit_fill
from abw.core.exec.cpu.llvm.reduction import emit_collect, emit_reduction
from abw.core.exec.cpu.llvm.walker import (
    OF_ARENAS,
    OF_EXECUTOR,
    OF_PLAN,
    OF_SCHEDULE,
    WALKS,
    emit_walker,
    note_plan,
)
from abw.core.exec.cpu.memory import ArenaMemory, aligned
from abw.core.exec.cpu.partition import compile_sort, shared_out
from abw.core.exec.cpu.profile.profile import Profile, Profiler, Walk, peak_of_core
from abw.core.exec.cpu.profile.recorder import Recorder
from abw.core.exec.cpu.quantized import narrow_of
from abw.core.exec.cpu.repack import Packing, packing_of
from abw.core.exec.cpu.target import TargetName, get_target
from abw.core.exec.cpu.team import Team
from abw.core.exec.cpu.tiling import CellTiling, layout_of, packed_constants
from abw.core.exec.cpu.weight_grads import RowSums
from abw.core.exec.interface import Abilities, Executed, Executor, Result, Rounds
from abw.core.exec.params import Params
from abw.core.exec.precision import Precision
from abw.core.exec.result_guard import RunEpochs
from abw.core.exec.values import fill_given, refill_rows
from abw.core.graph.graph import Graph
from abw.core.graph.group import structure
from abw.core.ir.model import Attention
from abw.core.ir.network import Network
from abw.core.jit.pointers import Pointer, Table, address
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
    from abw.core.graph.growing.round_graph import Sprouter

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


# The least arithmetic a launch where threads wait for each other after each.
TOGETHER_FLOPS = 2_500_000
# The least numbers, of which each is read and written, that threads share: some 0.3 ms.
APART_FLOATS = 500_000

_SCHEDULE, _PLAN = attrgetter(*OF_SCHEDULE), attrgetter(*OF_PLAN)


class CpuExecutor(Executor):
    """One kernel a batch: products summed in registers, element by element to the end, stored once.

    Operands are read where they lie, through the plan's index arrays where their rows are not evenly spaced.
    Arenas are kept from run to run and grow as plans need it.

    Several threads share a run where it is long enough: each takes some of the instances, if the schedule was
    arranged for it, from first batch to last or to the end of a section of the plan; else they do each launch
    together and wait for each other after it. Results are the same bit for bit.
    """

    name = "cpu"
    abilities = Abilities(halves=True)

    def __init__(self, target: TargetName | None = None, precision: Precision = "float32") -> None:
        """`target`: what to compile for; None takes the best that the machine has."""
        self._target, self.precision = get_target(target), precision
        self._narrow = narrow_of(precision, self._target)

    def prepare(self, network: Network, params: Params, threads: int | None = None) -> None:
        """Compile the network's kernels, or find them on disk, and pack the weights.

        `threads`: how many share a run; None: one for each processor that this process may use.
        """
        self.threads = threads or usable_cores()
        self._team = None
        if self.threads > 1:
            self._team = Team(self.threads)
            compile_sort()
        self._network, self._params = network, params
        self._arenas: Arenas = arenas_of(network)
        text, names, layouts = self._emit()
        self._code: Code = compile_ir(text, self._target)
        walks = tuple(kind(self._code.address(name)) for name, kind in WALKS.items())
        self._walks: list[tuple[Walk, ...]] = [walks] * self.threads
        self._profiler: Profiler | None = None
        self._recorder: Recorder | None = None
        self._names, self._layouts = names, layouts
        self._constants = self._packed()
        self._packings: list[Packing | None] | None = None
        self._take_room()

    def _take_room(self) -> None:
        """Have arenas, scratch and tables of one's own, and no run yet."""
        lanes = self._target.lanes
        self._memory = ArenaMemory(self._network, self._arenas, self._params, lanes)
        self._weights: WeightGradients | None = None
        size = max((layout.scratch_floats for layout in self._layouts if layout), default=0)
        # whole vectors are read at parts of the last row
        self._scratch = [Pointer(aligned(size + lanes)) for _ in range(self.threads)]
        kernels = np.array([self._code.address(name) for name in self._names], np.int64)
        self._by_column = np.array([bool(layout and layout.by_column) for layout in self._layouts], np.int64)
        self._tables = {
            "arena": self._memory.table,
            "kernel": Table(kernels, self._code),
            "constants": Table(np.zeros(len(self._constants), np.int64)),
        }
        self._point_constants()
        own = {**self._tables, "pitch": self._memory.pitch, "by_column": self._by_column}
        fixed = *(getattr(self._arenas, name) for name in OF_ARENAS), *(own[name] for name in OF_EXECUTOR)
        of_plan = len(OF_SCHEDULE) + len(OF_PLAN)
        self._table = Table(np.zeros(of_plan + len(fixed), np.int64))
        for place, array in enumerate(fixed, of_plan):
            self._table.point(place, array)
        self._epochs = RunEpochs(self._network, self._params)
        self._rounds: CompiledRounds | None = None
        self._tape: CompiledTape | None = None
        self._twins: tuple[CpuExecutor, ...] = ()

    @property
    def packed_bytes(self) -> int:
        """Weights, biases and scales of all types."""
        return sum(memory.nbytes for memory in self._constants)

    def twins(self) -> tuple[CpuExecutor, ...]:
        """One a thread, with arenas of its own; none while runs are measured or noted."""
        if self._team is None or self._profiler is not None:
            return ()
        if not self._twins:
            self._twins = tuple(self._twin() for _ in range(self.threads))
        return self._twins

    def _twin(self) -> CpuExecutor:
        twin = copy.copy(self)
        twin.threads, twin._team = 1, None
        twin._take_room()
        return twin

    def update(self, params: Params) -> None:
        """Pack other weights. Raises ValueError for other shapes."""
        self._epochs.renew(params)
        self._params, self._twins = params, ()
        self._constants = self._packed()
        self._point_constants()
        self._memory.update(params)

    def refresh(self, params: Params, rows: Mapping[int, Ints]) -> None:
        """Pack the weights again, by numbers found once; of tables write the rows that changed.

        Raises ValueError for parameters that are not those given last, in one vector.
        """
        if params is not self._params or params.flat is None:
            raise ValueError("what was given last, in one vector, is to be changed in place: see `flattened`")
        self._epochs.renew(params)
        self._twins = ()
        if self._packings is None:
            ends = np.cumsum([0, *(value.size for value in params.values)]).tolist()
            self._packings = []
            for layout, t in zip(self._layouts, self._network.types, strict=True):
                own = [params.values[i] for i in t.params], [ends[i] for i in t.params]
                gathered = layout is not None and layout.narrow is None
                self._packings.append(packing_of(layout, *own) if layout and gathered else None)
        whole = list(zip(self._network.types, self._layouts, self._packings, self._constants, strict=True))
        packed = [(made, memory) for *_, made, memory in whole if made is not None]
        theta: Floats = params.flat

        def gather(part: int, parts: int) -> None:
            for made, memory in packed:
                made.gather(theta, memory, part, parts)

        self.share(gather, sum(memory.size for _, memory in packed), "pack")
        for made, memory in packed:
            made.finish(theta, memory)
        for net_type, layout, packing, memory in whole:
            if layout is not None and packing is None:
                memory[:] = packed_constants(layout, [params.values[i] for i in net_type.params])
        refill_rows(self._memory.views, self._arenas, self._network, params, rows)

    def _point_constants(self) -> None:
        for t, packed in enumerate(self._constants):
            self._tables["constants"].point(t, packed)

    def _packed(self) -> list[Floats]:
        return [
            aligned(0)
            if layout is None
            else packed_constants(layout, [self._params.values[i] for i in t.params])
            for layout, t in zip(self._layouts, self._network.types, strict=True)
        ]

    def arrange(self, graph: Graph, schedule: Schedule) -> Schedule:
        """The lanes sorted by the thread that will compute them, where several share this graph's run."""
        return shared_out(graph, schedule, self.threads)

    def run(self, plan: Plan) -> Result:
        """Execute the batches in order. Raises ValueError for a plan of another network."""
        return self.begin(plan, len(plan.launch_ptr) - 1)

    def begin(self, plan: Plan, until: int) -> Result:
        """Execute the first launches. Raises ValueError for a plan of another network."""
        start = time.perf_counter()
        self._epochs.begin(plan)
        self._memory.reserve(plan.rows, plan.earlier.rows if plan.earlier else None)
        return self._walked(plan, 0, until, start)

    def resume(self, plan: Plan, since: int) -> Result:
        """Execute the launches that `begin` left. Raises RuntimeError for a plan that was not run last."""
        start = time.perf_counter()
        self._epochs.require(plan)
        return self._walked(plan, since, len(plan.launch_ptr) - 1, start)

    def _walked(self, plan: Plan, first: int, last: int, start: float) -> Result:
        """Execute the launches `first` to `last - 1` of a plan for which there is room."""
        fill_given(self._memory.views, plan)
        self._note(plan)
        prepared = time.perf_counter()
        recorder = self._recorder if last - first == len(plan.launch_ptr) - 1 else None
        if recorder is not None:
            recorder.begin(plan)
        threads = self._walk_all(plan, first, last) if first < last else 1
        if recorder is not None:
            recorder.end(plan, threads)
        if self._profiler is not None:
            self._profiler.took = threads, prepared - start, time.perf_counter() - prepared
        batches = int(plan.launch_ptr[last] - plan.launch_ptr[first])
        counts = Counts(batches, last - first, 0, 0)
        return Result(plan.graph, counts, self._epochs.reader(self._memory.views, plan))

    def _note(self, plan: Plan) -> None:
        """Tell the walker where a plan's arrays lie."""
        self._table.keep("plan", plan)
        note_plan(self._table.words, *_SCHEDULE(plan.schedule), *_PLAN(plan))

    def share(self, work: Callable[[int, int], object], amount: int, kind: str) -> None:
        """Call `work(part, parts)` on each thread, where that is faster than `work(0, 1)` on this one."""
        if self._team is None or amount < APART_FLOATS:
            work(0, 1)
        else:
            self._team.do(lambda part: work(part, self.threads), lambda: work(0, 1), amount, kind)

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

            sums = RowSums(self._target, self._team, self.threads)
            self._weights = WeightGradients(sums, made.training, params, self._target.lanes)
        return self._weights.gradient(made, plan, self._memory, meanwhile)

    @property
    def profiler(self) -> CpuExecutor:
        """Itself."""
        return self

    def measure(self) -> None:
        """From now on measure where the time of runs goes; each is to be followed by `sample`.

        Cost: kernels with stamps are compiled, or found on disk; of a run, nothing that could be noticed.
        """
        text, names, _ = self._emit(stamped=True)
        code = compile_ir(text, self._target)
        self._profiler = Profiler(code, names, self._network, self.threads)
        self._walks = [self._profiler.walks_of(thread) for thread in range(self.threads)]

    def sample(self, plan: Plan) -> None:
        """Run the plan that was run last some times more, by kernels that say what their time goes to.

        The result of the run stays as it is. Raises ValueError for an executor that does not measure.
        """
        if self._profiler is None:
            raise ValueError("the executor was not told to measure")
        self._profiler.settle(plan)
        kernels = self._tables["kernel"].words
        plain = kernels.copy()
        kernels[:] = self._profiler.kernels
        self._note(plan)
        if len(plan.schedule):
            self._profiler.sample(lambda: self._alone(plan, 0, len(plan.launch_ptr) - 1))
        kernels[:] = plain

    def profile(self) -> Profile:
        """Where the time of all runs since `measure` went. Raises ValueError where nothing was measured."""
        if self._profiler is None:
            raise ValueError("the executor was not told to measure")
        return self._profiler.profile()

    @property
    def recorder(self) -> CpuExecutor:
        """Itself."""
        return self

    def record(self, most: int) -> None:
        """From now on note each batch, in `most` runs at most. Cost: as `measure`."""
        if self._profiler is None:
            self.measure()
        assert self._profiler is not None
        self._recorder = Recorder(self._profiler.clocks, self._by_column, most)

    def recorded(self) -> list[Executed]:
        """The runs noted so far. Cost: some ms, to measure the peak."""
        if self._recorder is None or self._profiler is None:
            raise ValueError("the executor was not told to record")
        return self._recorder.runs(self._profiler.timing(), peak_of_core())

    def _alone(self, plan: Plan, first: int, last: int) -> None:
        """Run launches on this thread."""
        walk = self._walks[0][0]
        walk(self._table.at, self._scratch[0].at, first, last, 0, 1, None, None)

    def _walk_all(self, plan: Plan, first: int, last: int) -> int:
        """Run launches, on several threads where that pays; on how many."""
        flops = plan.product_flops
        if last - first < len(plan.launch_ptr) - 1:  # their part of it, by the nodes
            ends = plan.schedule.ptr[plan.launch_ptr[[first, last]]]
            flops = flops * int(ends[1] - ends[0]) // len(plan.graph)
        shared = self._shared(plan, first, last, flops)
        if self._team is None or shared is None:
            self._alone(plan, first, last)
            return 1
        half = first > 0, last < len(plan.launch_ptr) - 1
        together = self._team.do(shared, lambda: self._alone(plan, first, last), flops, half)
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
                walk_parts = self._walks[thread][1]
                walk_parts(
                    self._table.at,
                    self._scratch[thread].at,
                    address(sections),
                    count,
                    shares,
                    address(split),
                    address(taken),
                    address(done),
                )

            return apart
        if flops < (last - first) * TOGETHER_FLOPS:
            return None
        arrived = np.zeros(1, np.int64)

        def together(thread: int) -> None:
            walk = self._walks[thread][0]
            walk(
                self._table.at,
                self._scratch[thread].at,
                first,
                last,
                thread,
                self.threads,
                None,
                address(arrived),
            )

        return together

    def rounds(self, sprouter: Sprouter) -> Rounds | str:
        """Those of a model that grows, compiled."""
        if self._recorder is not None:
            return "each is noted by itself, with its batches"
        if self._rounds is None or self._rounds.sprouter is not sprouter:
            from abw.core.exec.cpu.rounds.rounds import CompiledRounds

            self._rounds = CompiledRounds(
                sprouter, self._target, self._memory, self._tables, self._scratch, self._team, self._epochs
            )
        return self._rounds

    def tape(self, bits: int) -> CompiledTape | None:
        """One that runs on this thread; what several are worth their while for is left to plans.

        None under NUMBA_DISABLE_JIT: Python itself calls nothing by its address.
        """
        if self._profiler is not None or numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return None
        if self._tape is not None:
            return self._tape
        from abw.core.exec.cpu.tape.tape import CompiledTape

        limit = np.iinfo(np.int64).max if self._team is None else partition.APART_FLOPS
        self._tape = CompiledTape(
            self._arenas,
            self._target,
            self._memory,
            self._tables,
            self._scratch[0],
            self._epochs,
            bits,
            int(limit),
        )
        return self._tape

    def kernels(self) -> Mapping[str, str]:
        """Each type's kernel as LLVM IR; what all share (fills, lists collected, the walker) is left out."""
        text, names, _ = self._emit()
        return {t.name: function_text(text, n) for t, n in zip(self._network.types, names, strict=True)}

    def _emit(self, *, stamped: bool = False) -> tuple[str, list[str], list[CellTiling | None]]:
        """The network's module, and each type's kernel and layout; equal types share a kernel."""
        module = Module(self._target)
        emit_fill(module)
        if stamped:
            emit_clock(module)
        names: list[str] = []
        layouts: list[CellTiling | None] = []
        collectors: set[str] = set()
        made: dict[Hashable, tuple[str, CellTiling | None]] = {}
        for net_type, normal in zip(self._network.types, self._arenas.cells, strict=True):
            key = structure(net_type)
            if key not in made:
                name, layout = f"kernel{len(made)}", None
                if normal is not None:
                    reductions = tuple(s.reduction for s in net_type.slots)
                    layout = layout_of(normal, self._target, reductions, self._narrow)
                    for place in filter(None, layout.lists):
                        if place.collector not in collectors:
                            collectors.add(place.collector)
                            emit_collect(module, place)
                    emit_cell(module, name, layout, stamped=stamped)
                elif isinstance(net_type.reduction, Attention):
                    emit_attention(module, name, net_type.reduction, tuple(s.shape for s in net_type.slots))
                elif net_type.reduction is not None:
                    emit_reduction(module, name, net_type.reduction, tuple(s.shape for s in net_type.slots))
                made[key] = name, layout
            names.append(made[key][0])
            layouts.append(made[key][1])
        emit_walker(module, self._arenas.slot_arena.shape[1], self._network.width, stamped=stamped)
        return module.text(), names, layouts
