"""The executor `blas`: batches as NumPy and BLAS calls between explicit gathers, as the frameworks do it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from abw.core.cell.layout import CONTIGUOUS
from abw.core.cell.normal import size_of
from abw.core.exec.blas.calls import CellKernel
from abw.core.exec.interface import Executor, Result
from abw.core.exec.lower.rows import BLOCK
from abw.core.exec.memory import ArenaMemory
from abw.core.exec.params import Params
from abw.core.exec.reference import attention_gradients
from abw.core.exec.result_guard import RunEpochs
from abw.core.exec.values import fill_given
from abw.core.ir.model import KEYS, SLOPE, SPREADS, Attention, AttentionGradient
from abw.core.ir.network import Network
from abw.core.plan.arenas import Arenas, arenas_of
from abw.core.plan.counts import Counts, programs_of
from abw.core.plan.plan import Plan

Floats = NDArray[np.float32]

_REDUCE: dict[str, np.ufunc] = {"max": np.maximum}


class BlasExecutor(Executor):
    """One NumPy call for each batch of isomorphic operations of a cell, in float32.

    An operand whose rows are contiguous in its arena is read in place; every other one is gathered first. The
    memory (arenas, scratch) is kept from run to run and grows as plans need it: nothing is allocated in
    between. Cost beside the arithmetic: about 20 us a batch of an LSTM cell.
    """

    name = "blas"

    def prepare(self, network: Network, params: Params, threads: int | None = None) -> None:
        """Stack and transpose the weights. `threads`: of the BLAS, in this executor's runs."""
        self._network = network
        self._params = params
        self._threads = threads
        self._pools = ThreadpoolController()
        self._arenas: Arenas = arenas_of(network)
        self._memory = ArenaMemory(network, self._arenas, params, 1)
        self._kernels = self._stacked()
        self._gathered = np.empty(0, np.float32)
        self._epochs = RunEpochs(network, params)

    def update(self, params: Params, rows: object = None) -> None:
        """Stack and transpose other weights. Raises ValueError for other shapes."""
        self._epochs.renew(params)
        self._params = params
        self._kernels = self._stacked()
        self._memory.update(params)

    def _stacked(self) -> list[CellKernel | None]:
        return [
            None
            if program is None
            else CellKernel(program, [self._params.values[i] for i in net_type.params])
            for net_type, program in zip(
                self._network.types, programs_of(self._network).programs, strict=True
            )
        ]

    def run(self, plan: Plan) -> Result:
        """Execute the batches in order. Raises ValueError for a plan of another network."""
        self._epochs.begin(plan)
        self._reserve(plan)
        fill_given(self._memory.views, plan)
        with self._pools.limit(limits=self._threads, user_api="blas"), np.errstate(all="ignore"):
            counts = self._execute(plan)
        return Result(plan.graph, counts, self._epochs.reader(self._memory.views, plan))

    def _execute(self, plan: Plan) -> Counts:
        """Run the batches, counting what happens."""
        arenas, schedule = self._arenas, plan.schedule
        index = plan.index.astype(np.intp)
        ptr, base = schedule.ptr.tolist(), plan.base.tolist()
        operand_ptr, index_ptr = plan.operand_ptr.tolist(), plan.index_ptr.tolist()
        status, start, list_ptr = plan.status.tolist(), plan.start.tolist(), plan.list_ptr.tolist()
        views = self._memory.views
        slot_memory = [[views[a] for a in row if a >= 0] for row in arenas.slot_arena.tolist()]
        output_memory = [
            [self._memory.views[a] for a in row if a >= 0] for row in arenas.output_arena.tolist()
        ]
        launches = memory_kernels = floats = 0
        for b, t in enumerate(schedule.type.tolist()):
            kernel, reduction = self._kernels[t], self._network.types[t].reduction
            lanes = ptr[b + 1] - ptr[b]
            outputs = [
                memory[row : row + lanes] for memory, row in zip(output_memory[t], base[b], strict=False)
            ]
            inputs = []
            for s, memory in enumerate(slot_memory[t]):
                k = operand_ptr[b] + s
                first, last = index_ptr[k], index_ptr[k + 1]
                listed = list_ptr[k] >= 0
                rows = memory[start[k] : start[k] + last - first] if status[k] == CONTIGUOUS else None
                if isinstance(reduction, Attention | AttentionGradient):
                    if rows is None:  # in memory of its own: all three are needed at once
                        rows = memory.take(index[first:last], 0)
                        memory_kernels += 1
                        floats += rows.size
                    inputs.append(rows)
                    continue
                if rows is None or (kernel is not None and kernel.program.staged[s] and not listed):
                    place = self._place(None if listed else kernel, s, last - first, memory)
                    if rows is None:
                        # 'clip' is the mode that writes straight to `out`; the rows are all inside
                        memory.take(index[first:last], 0, place, "clip")
                    else:
                        np.copyto(place, rows)
                    rows = place
                    memory_kernels += 1
                    floats += place.size
                if listed:
                    ends = plan.lists[list_ptr[k] : list_ptr[k] + lanes + 1]
                    out = outputs[s] if kernel is None else kernel.inputs[s][:lanes]
                    rows = _reduce(self._reduction(t, s), rows, ends, out)
                    launches += 1
                inputs.append(rows)
            if isinstance(reduction, Attention):
                begin = list_ptr[operand_ptr[b]]
                _attend(reduction, inputs, plan.lists[begin : begin + lanes + 1], outputs)
                launches += 1
            if isinstance(reduction, AttentionGradient):
                begins = plan.lists[list_ptr[operand_ptr[b]] :][:lanes]
                rows = attention_gradients(reduction, *inputs)
                outputs[0][:] = np.add.reduceat(rows, begins, dtype=np.float64)
                launches += 1
            if kernel is not None:
                kernel.run(lanes, inputs, outputs)
                launches += kernel.launches
                memory_kernels += kernel.copies
                floats += lanes * kernel.copied_floats
        return Counts(len(schedule), launches, memory_kernels, 4 * floats)

    def _reduction(self, t: int, slot: int) -> str:
        net_type = self._network.types[t]
        return str(net_type.reduction or net_type.slots[slot].reduction)

    def _place(self, kernel: CellKernel | None, slot: int, rows: int, memory: Floats) -> Floats:
        """Where a gathered operand goes."""
        if kernel is not None:
            block: Floats = kernel.inputs[slot]
            return block[:rows]
        shape = memory.shape[1:]
        size = rows * size_of(shape)
        if len(self._gathered) < size:
            self._gathered = np.empty(2 * size, np.float32)
        place: Floats = self._gathered[:size].reshape(rows, *shape)
        return place

    def _reserve(self, plan: Plan) -> None:
        """Grow arenas and scratch memory to what the plan needs."""
        self._memory.reserve_for(plan)
        lanes = np.zeros(len(self._kernels), np.int64)
        np.maximum.at(lanes, plan.schedule.type, np.diff(plan.schedule.ptr))
        kernels = [(k, max(int(n), k.capacity)) for k, n in zip(self._kernels, lanes, strict=True) if k]
        if any(capacity > kernel.capacity for kernel, capacity in kernels):
            # one block for all types: only one of them runs at a time
            scratch = np.empty(max(kernel.width * capacity for kernel, capacity in kernels), np.float32)
            for kernel, capacity in kernels:
                kernel.bind(scratch, capacity)


def _attend(
    attention: Attention, inputs: Sequence[Floats], ends: NDArray[np.int32], outputs: Sequence[Floats]
) -> None:
    """Attention over the rows `ends[i]:ends[i + 1]` of the inputs to row i of the outputs."""
    values, keys, queries = (rows.reshape(len(rows), attention.heads, -1) for rows in inputs)
    counts, begins = np.diff(ends), ends[:-1]
    if attention.added:
        sums = keys + queries
        scores = np.where(sums > 0, sums, np.float32(SLOPE) * sums).sum(axis=-1)
    else:
        scores = np.einsum("nhd,nhd->nh", keys, queries) * np.float32(attention.factor(inputs[KEYS].shape[1]))
    largest = np.maximum.reduceat(scores, begins)
    powers = np.exp(scores - np.repeat(largest, counts, axis=0))
    # NumPy adds rows one after the other: long lists need a wider type
    totals = np.add.reduceat(powers, begins, dtype=np.float64).astype(np.float32)
    powers /= np.repeat(totals, counts, axis=0)
    weighted = (values * powers[:, :, None]).reshape(len(values), -1)
    outputs[0][:] = np.add.reduceat(weighted, begins, dtype=np.float64)
    if attention.log_sums:
        outputs[1][:] = largest + np.log(totals)


def _reduce(reduction: str, rows: Floats, ends: NDArray[np.int32], out: Floats) -> Floats:
    """Reduce the rows `ends[i]:ends[i + 1]` to row i of `out`, which is returned."""
    counts = np.diff(ends)
    # NumPy adds rows one after the other: long lists need a wider type
    kind = np.float64 if counts.max() > BLOCK and reduction != "max" else np.float32
    ufunc = _REDUCE.get(reduction, np.add)
    if (counts == counts[0]).all():
        # equal lists are one more axis, which NumPy reduces much faster than a list of ends
        listed = rows.reshape(len(out), counts[0], *out.shape[1:])
        ufunc.reduce(listed, axis=1, dtype=kind, out=out)
    else:
        ufunc.reduceat(rows, ends[:-1], axis=0, dtype=kind, out=out)
    if reduction in ("mean", *SPREADS):
        out /= counts.astype(np.float32).reshape(-1, *[1] * (out.ndim - 1))
    if reduction in SPREADS:
        apart = rows - np.repeat(out, counts, axis=0)
        _reduce("mean", apart * apart, ends, out)
    if reduction == "std":
        np.sqrt(out, out=out)
    return out
