"""The memory of a mini-batch and of a process, predicted; plans are cached if they fit into little memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter, mul
from typing import Any

import numpy as np

from abw.core.base.memory import available_memory, require_memory
from abw.core.cell.normal import size_of
from abw.core.exec.cpu.quantized import NARROW
from abw.core.exec.cpu.target import get_target
from abw.core.exec.cpu.tiling import layout_of
from abw.core.exec.interface import Executor, Result
from abw.core.exec.lower.rows import row_floats
from abw.core.exec.precision import Precision
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Distinct, Graph, Ints, Nodes, ResultRefs
from abw.core.ir.model import Model
from abw.core.ir.network import Network
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import Plan
from abw.core.policy.schedule import Policy, Schedule
from abw.core.run.minibatches import MiniBatch, run_all
from abw.core.run.workload import Workload

# Floats of the widest vectors, to which an executor may pad rows.
LANES = 16

KINDS = Plan, Nodes, Graph, Distinct, Schedule, ResultRefs
_FIELDS: dict[type[Any], Callable[[Any], Iterable[Any]]] = {
    kind: attrgetter(*(f.name for f in fields(kind))) for kind in KINDS
}
# edges only if a policy has requested them
_FIELDS[Dag] = lambda dag: (dag.type, *vars(dag).get("edges", ()))


class Bytes:
    """Bytes by what takes them."""

    __slots__ = ()

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(self._parts().values())

    def document(self) -> dict[str, int]:
        """The document in a report."""
        return {**self._parts(), "total": self.total}

    def _parts(self) -> dict[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Footprint(Bytes):
    """Bytes of a mini-batch, on top of a process with a prepared executor.

    `arenas`: all values, including tables; `graph`: the arrays of graph, schedule and plan; `outputs`: what
    is read at the end.
    """

    arenas: int
    graph: int
    outputs: int


def footprint(planned: Plan) -> Footprint:
    """The footprint of running a plan. O(arenas)."""
    return _footprint(planned.graph, planned.rows, (planned,))


def footprint_of(batch: MiniBatch) -> Footprint:
    """The footprint of a mini-batch; if it has grown, of all its values and the plans of its pieces."""
    if batch.grown is None:
        return footprint(batch.plan)
    return _footprint(batch.grown.result.nodes, batch.grown.rows, batch.grown.pieces)


def _footprint(nodes: Nodes, rows: Ints, plans: Sequence[Plan]) -> Footprint:
    pitch = (row_floats(shape, LANES) for shape in arenas_of(nodes.network).shape)
    floats = sum(map(mul, rows.tolist(), pitch))
    parts: list[Any] = [part for made in plans for part in (made, made.graph, made.graph.dag, made.schedule)]
    parts += [made.graph.distinct for made in plans if made.graph.distinct]
    return Footprint(4 * floats, _array_bytes((nodes, *nodes.results, *parts)), _output_bytes(nodes))


# The most bytes of a node and of an operand in the arrays of graph, schedule and plan.
NODE_BYTES, OPERAND_BYTES = 48, 12


def grown_footprint(before: Plan, nodes: Sequence[int], operands: int) -> Footprint:
    """The footprint of a growing mini-batch, from the plan `before` growth and the further nodes.

    `nodes` (types,) and `operands`: those of rounds and after them; all values are kept. O(types).
    """
    found, network = footprint(before), before.graph.network
    pairs = list(zip(network.types, nodes, strict=True))
    floats = sum(count * row_floats(o.shape, LANES) for t, count in pairs for o in t.outputs)
    arrays = NODE_BYTES * sum(nodes) + OPERAND_BYTES * operands
    outputs = dict(network.outputs).values()
    counts = [(sum(nodes[t] for t, _ in producers), producers[0]) for producers in outputs]
    read = sum(4 * count * size_of(network.types[t].outputs[o].shape) for count, (t, o) in counts)
    return Footprint(found.arenas + 4 * floats, found.graph + arrays, found.outputs + read)


# Bytes of `abw run` without weights and instances: Python, NumPy, numba, LLVM, compiled code.
#
# Measured (`abw bench memory`) with all code compiled; compiling it adds some 100 MB for a while.
AT_REST = 152_000_000

# Bytes of a vertex while instances are read and graphs constructed.
VERTEX_BYTES = 150


@dataclass(frozen=True, slots=True)
class Forecast(Bytes):
    """Bytes of a process that runs a model on the executor cpu.

    `at_rest`: without a model; `pytorch`: PyTorch, if it reads the weights; `weights`: parameters and tables,
    also packed for the kernels; `instances`: those read together; `mini_batches`: the largest one, and those
    planned together with it.
    """

    at_rest: int
    pytorch: int
    weights: int
    instances: int
    mini_batches: int


def forecast(
    network: Network,
    largest: Footprint,
    together: int,
    vertices: int,
    abreast: int = 1,
    precision: Precision = "float32",
    pytorch: int = 0,
) -> Forecast:
    """Predict the peak memory of `abw run`. Cost: laying out the cells, a millisecond each.

    `largest`: the largest mini-batch; `together`: the number of such that are planned before the first runs;
    `vertices`: of the instances that are read together; `abreast`: mini-batches that run at once; `pytorch`:
    the bytes of importing it, if needed (`reader_bytes`).
    """
    found = largest
    plans = abreast * (found.arenas + found.outputs) + together * found.graph
    weights = weight_bytes(network, precision)
    return Forecast(AT_REST, pytorch, weights, VERTEX_BYTES * vertices, plans)


def require_weights(model: Model, held: tuple[int, int] = (2, 2), also: str = "") -> None:
    """Refuse a model whose weights do not fit into memory, before allocating any. Errors: AbwError.

    `held`: copies of parameters and of tables: as read, and packed or in the arenas. `also`: what else these
    copies include, in words.
    """
    params, tables = numbers_of(model)
    needed = 4 * (held[0] * params + held[1] * tables)
    name, size = max(model.dims.items(), key=lambda dim: dim[1], default=("", 0))
    # matrices grow with the square of a dim
    fitting = int(size * min(1.0, available_memory() / (needed or 1)) ** 0.5)
    hint = f"smaller dims: with {name}={fitting} they take about as much as is free (--set {name}=SIZE)"
    require_memory(needed, f"the weights of {model.name}, {params + tables:,} numbers{also},", hint)


def numbers_of(whose: Model | Network) -> tuple[int, int]:
    """Count the numbers in all parameters, and in all tables."""
    params = sum(math.prod(p.shape) for p in whose.params)
    return params, sum(t.rows * math.prod(t.shape) for t in whose.tables)


def weight_bytes(network: Network, precision: Precision = "float32") -> int:
    """The bytes of parameters and tables besides the arenas: in float32, and packed for the executor cpu."""
    return 4 * sum(numbers_of(network)) + sum(packed_bytes(network, precision).values())


def packed_bytes(network: Network, precision: Precision = "float32") -> dict[int, int]:
    """The bytes packed for the kernels of the executor cpu, by type."""
    target, found = get_target(), {}
    narrow = NARROW.get(precision)
    for t, (net_type, cell) in enumerate(zip(network.types, arenas_of(network).cells, strict=True)):
        if cell is not None:
            layout = layout_of(cell, target, tuple(s.reduction for s in net_type.slots), narrow)
            found[t] = 4 * layout.constants
    return found


def _output_bytes(nodes: Nodes) -> int:
    shapes = [
        nodes.network.types[pairs[0][0]].outputs[pairs[0][1]].shape for _, pairs in nodes.network.outputs
    ]
    return sum(
        4 * len(refs.reference) * size_of(shape) for refs, shape in zip(nodes.results, shapes, strict=True)
    )


def _array_bytes(parts: Iterable[Any]) -> int:
    """The bytes of all arrays, counting each once even if several parts hold it."""
    values = (value for part in parts for value in _FIELDS[type(part)](part))
    arrays = {id(value): value.nbytes for value in values if type(value) is np.ndarray}
    return sum(arrays.values())


# The most bytes of graphs and plans that are kept: of some 10,000 short sentences.
CACHE_BYTES = 64 << 20


@dataclass(slots=True)
class PlanCache:
    """The mini-batches of a workload, planned once and run again by other weights.

    If all plans take more than `most` bytes, or instances grow, nothing is `kept`, and each run plans again.
    Values are the same to the bit.
    """

    workload: Workload
    policy: Policy
    most: int = CACHE_BYTES
    kept: list[MiniBatch] = field(default_factory=list)
    keeps: bool = True

    def run(self, executor: Executor) -> Iterator[tuple[MiniBatch, Result]]:
        """Run all mini-batches in order on an executor of the workload's network, as `run_all` does.

        Every executor must have as many threads as that of the first run.
        """
        if self.kept:
            for batch in self.kept:
                yield batch, executor.run(batch.plan)
            return
        kept: list[MiniBatch] = []
        left = self.most
        for batch, result in run_all(self.workload, self.policy, executor):
            left -= footprint_of(batch).graph
            self.keeps = self.keeps and left >= 0 and batch.grown is None
            if self.keeps:
                kept.append(batch)
            yield batch, result
        self.kept = kept if self.keeps else []
