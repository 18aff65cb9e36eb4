"""PyTorch batched by level, for any model: what one would write by hand, made from the cells' equations.

Each batch of the schedule is one call of each kind: index_select for operands that are not consecutive rows,
one addmm for all gates that read the same values (their weights stacked, their inputs side by side), one call
for all gates under the same sigmoid or tanh, one for every other operation. Results are written to
consecutive rows. Indices and stacked weights are made before; what is timed is the calls. In inference mode,
float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.layout import CONTIGUOUS
from abw.core.cell.normal import NormalCell
from abw.core.exec.lower.packing import static_values
from abw.core.exec.lower.stages import Gate, Part, Stage, stages_of
from abw.core.exec.params import Params
from abw.core.exec.values import fill_constants, read_values
from abw.core.ir.model import SPREADS
from abw.core.ir.operations import OPERATIONS, Arrays
from abw.core.plan.plan import Plan

Tensor = Any
Values = dict[int, Tensor]


class TorchLevels:
    """A plan's batches in PyTorch on one device, to be run again and again."""

    def __init__(self, torch: Any, planned: Plan, params: Params, device: str = "cpu") -> None:  # noqa: ANN401
        self._torch, self._plan, self._params = torch, planned, params
        arenas, network = planned.arenas, planned.graph.network
        self._memory = []
        for a, (rows, shape) in enumerate(zip(planned.rows.tolist(), arenas.shape, strict=True)):
            values = np.zeros((rows, *shape), np.float32)
            fill_constants(values, a, arenas, network, params)
            self._memory.append(torch.from_numpy(values).to(device))
        self._cells = [
            None if normal is None else _Cell(torch, normal, [params.values[i] for i in t.params], device)
            for t, normal in zip(network.types, arenas.cells, strict=True)
        ]
        self._calls = [self._batch(b, device) for b in range(len(planned.schedule))]

    def run(self) -> None:
        """Compute the mini-batch; on a GPU it need not be done on return."""
        with self._torch.inference_mode():
            for call in self._calls:
                call()

    def outputs(self) -> NDArray[Any]:
        """The model's first output of one more run."""
        self.run()
        return self.values(self._plan.graph.results[0].reference)

    def values(self, references: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """The values of references after a run, as `Result.values` gives them."""
        memory = [tensor.cpu().numpy() for tensor in self._memory]
        return read_values(memory, self._plan, self._params, references)

    def _batch(self, b: int, device: str) -> Callable[[], None]:
        plan, arenas = self._plan, self._plan.arenas
        kind = int(plan.schedule.type[b])
        lanes = int(plan.schedule.ptr[b + 1] - plan.schedule.ptr[b])
        operands = [
            self._operand(k, kind, slot, lanes, device)
            for slot, k in enumerate(range(plan.operand_ptr[b], plan.operand_ptr[b + 1]))
        ]
        out = [
            self._memory[arenas.output_arena[kind, o]][row : row + lanes]
            for o, row in enumerate(plan.base[b].tolist())
            if row >= 0
        ]
        cell = self._cells[kind]

        def call() -> None:
            inputs = [operand() for operand in operands]
            results = inputs if cell is None else cell.run(inputs, lanes)
            for rows, value in zip(out, results, strict=True):
                rows.copy_(value)

        return call

    def _operand(self, k: int, kind: int, slot: int, lanes: int, device: str) -> Callable[[], Tensor]:
        """Return a function that reads operand number `k` of the plan, which is a slot of a type."""
        torch, plan = self._torch, self._plan
        memory = self._memory[plan.arenas.slot_arena[kind, slot]]
        rows = torch.from_numpy(plan.index[slice(*plan.index_ptr[k : k + 2])].astype(np.int64)).to(device)
        begin, end = int(plan.start[k]), int(plan.start[k]) + len(rows)
        contiguous = plan.status[k] == CONTIGUOUS

        def read() -> Tensor:
            return memory[begin:end] if contiguous else memory.index_select(0, rows)

        if plan.list_ptr[k] < 0:
            return read
        ends = plan.lists[plan.list_ptr[k] : plan.list_ptr[k] + lanes + 1].astype(np.int64)
        lane = torch.from_numpy(np.repeat(np.arange(lanes), np.diff(ends))).to(device)
        shape, net_type = tuple(memory.shape[1:]), plan.graph.network.types[kind]
        reduction = net_type.reduction or net_type.slots[slot].reduction
        empty = partial(torch.zeros, (lanes, *shape), device=device)
        if reduction == "sum":
            return lambda: empty().index_add_(0, lane, read())
        reduce = "amax" if reduction == "max" else reduction
        each, lane = lane, lane.view(-1, *[1] * len(shape)).expand(-1, *shape)
        if reduction in SPREADS:

            def spread() -> Tensor:
                values = read()
                mean = empty().scatter_reduce_(0, lane, values, "mean", include_self=False)
                apart = (values - mean[each]).square()
                found = empty().scatter_reduce_(0, lane, apart, "mean", include_self=False)
                return found if reduction == "var" else found.sqrt()

            return spread
        return lambda: empty().scatter_reduce_(0, lane, read(), reduce, include_self=False)


class _Cell:
    """A cell as PyTorch calls on all lanes."""

    def __init__(self, torch: Any, normal: NormalCell, params: Sequence[Any], device: str) -> None:  # noqa: ANN401
        self._torch, self._normal = torch, normal
        self._outputs = [(v, normal.cell.shape_of(v)) for _, v in normal.cell.outputs]
        self._static: Values = {
            v: torch.from_numpy(np.ascontiguousarray(value, np.float32)).to(device)
            for v, value in static_values(normal, params).items()
        }
        self._steps: list[Callable[[Values], None]] = []
        for stage in stages_of(normal):
            if isinstance(stage, Stage):
                fused = self._gates(stage) if stage.gates else set()
                for v in stage.operations:
                    if v not in fused:
                        self._steps.append(self._operation(v))
            else:
                self._steps.append(self._operation(stage.value))

    def run(self, inputs: Sequence[Tensor], lanes: int) -> list[Tensor]:
        """The outputs for inputs (lanes, *shape)."""
        values: Values = dict(enumerate(inputs))
        for step in self._steps:
            step(values)
        # what is the same at every lane has no lanes yet
        return [
            values[v] if values[v].dim() > len(shape) else values[v].expand(lanes, *shape)
            for v, shape in self._outputs
        ]

    def _gates(self, stage: Stage) -> set[int]:
        """Add the products of a stage's gates, and the sigmoids and tanhs over them; these operations."""
        normal = self._normal
        squashes = {
            normal.arguments(v)[0]: v
            for v in stage.operations
            if normal.op(v).name in ("sigmoid", "tanh")
            and normal.root[normal.arguments(v)[0]] == normal.arguments(v)[0]
        }

        def squash(gate: Gate) -> str:
            return normal.op(squashes[gate.value]).name if gate.value in squashes else ""

        gates = sorted(stage.gates, key=squash)
        feeds: dict[tuple[Part, ...], list[Gate]] = {}
        for gate in gates:
            feeds.setdefault(tuple(part for _, _, part in gate.products), []).append(gate)
        for parts, fed in feeds.items():
            runs = [(name, [gate.value for gate in some]) for name, some in groupby(fed, squash)]
            self._steps.append(self._product(parts, fed, runs, stage.shape[0], squashes))
        return {squashes[gate.value] for gate in gates if gate.value in squashes}

    def _product(
        self, parts: tuple[Part, ...], gates: list[Gate], runs: list[tuple[str, list[int]]], size: int,
        squashes: dict[int, int]
    ) -> Callable[[Values], None]:  # fmt: skip
        """One product for gates that read the same parts; `runs` of them are under the same function."""
        torch, normal, static = self._torch, self._normal, self._static
        columns = [
            torch.cat([static[w][:, c : c + p.length] for w, c, p in gate.products], 1) for gate in gates
        ]
        weights = torch.cat(columns).T.contiguous()
        none = torch.zeros(size, device=weights.device)
        bias = torch.cat([sum((static[v] for v in gate.biases), none) for gate in gates])
        read_whole = [(p, normal.cell.shape_of(p.value) == (p.length,)) for p in parts]
        widths = [size * len(of) for _, of in runs]
        reads = Counter(a for v in normal.batched for a in normal.arguments(v))
        reads.update(v for _, v in normal.cell.outputs)

        def step(values: Values) -> None:
            read = [
                values[p.value] if whole else values[p.value].flatten(1)[:, p.start : p.start + p.length]
                for p, whole in read_whole
            ]
            sums = torch.addmm(bias, torch.cat(read, 1) if len(read) > 1 else read[0], weights)
            for block, (name, of) in zip(sums.split(widths, 1), runs, strict=True):
                if not name or any(reads[v] > 1 for v in of):
                    values.update(zip(of, block.split(size, 1), strict=True))
                if name:
                    squashed = (torch.sigmoid if name == "sigmoid" else torch.tanh)(block)
                    values.update(zip((squashes[v] for v in of), squashed.split(size, 1), strict=True))

        return step

    def _operation(self, v: int) -> Callable[[Values], None]:
        """One operation that runs at every lane, over all of them."""
        torch, normal = self._torch, self._normal
        op, arguments = normal.op(v), normal.arguments(v)
        one = {
            "sigmoid": torch.sigmoid, "relu": torch.relu, "softmax": lambda x: torch.softmax(x, -1),
            "gelu": torch.nn.functional.gelu, "softplus": torch.nn.functional.softplus, "erf": torch.erf,
        }.get(op.name, partial(OPERATIONS[op.name].meaning, Arrays(torch)))  # fmt: skip

        def step(values: Values) -> None:
            operands = [self._value(a, values) for a in arguments]
            if op.name == "matmul":
                left, right = operands
                vector = len(normal.cell.shape_of(arguments[1])) == 1
                values[v] = torch.matmul(left, right.unsqueeze(-1)).squeeze(-1) if vector else left @ right
            elif op.name == "concat":
                lanes = max(len(x) for x, a in zip(operands, arguments, strict=True) if not normal.static[a])
                wide = [
                    x.expand(lanes, *x.shape) if normal.static[a] else x
                    for x, a in zip(operands, arguments, strict=True)
                ]
                values[v] = torch.cat(wide, 1)
            else:
                values[v] = one(*operands, *op.attr)

        return step

    def _value(self, v: int, values: Values) -> Tensor:
        """A value (lanes, *shape), or (*shape) where it is the same at every lane."""
        normal = self._normal
        if normal.static[v]:
            return self._static[v]
        if normal.root[v] not in values:  # a concatenation that stages leave to those who read it
            self._operation(normal.root[v])(values)
        if normal.root[v] == v:
            return values[v]
        shape = normal.cell.shape_of(v)
        size = int(np.prod(shape))
        whole = values[normal.root[v]].flatten(1)
        return whole[:, normal.start[v] : normal.start[v] + size].unflatten(1, shape)
