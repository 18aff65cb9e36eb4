"""The memory that a mini-batch takes, and the process that runs it, said before it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter, mul
from typing import Any

import numpy as np

from abw.core.base.memory import available_memory, require_memory
from abw.core.cell.normal import size_of
from abw.core.exec.cpu.quantized import narrow_of
from abw.core.exec.cpu.target import get_target
from abw.core.exec.cpu.tiling import layout_of
from abw.core.exec.lower.rows import row_floats
from abw.core.exec.precision import Precision
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph, Ints, Nodes, ResultRefs
from abw.core.ir.model import Model
from abw.core.ir.network import Network
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import Plan
from abw.core.policy.schedule import Schedule
from abw.core.run.minibatches import MiniBatch

# Floats of the widest vectors, to which an executor may pad rows.
LANES = 16

_FIELDS: dict[type[Any], Callable[[Any], Iterable[Any]]] = {
    kind: attrgetter(*(f.name for f in fields(kind))) for kind in (Plan, Nodes, Graph, Schedule, ResultRefs)
}
# edges only where a policy has asked for them
_FIELDS[Dag] = lambda dag: (dag.type, *vars(dag).get("edges", ()))


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of a mini-batch, beside what a process has taken once its executor is prepared.

    `arenas`: all values, tables among them; `graph`: the arrays of graph, schedule and plan; `outputs`: what
    is read in the end.
    """

    arenas: int
    graph: int
    outputs: int

    @property
    def total(self) -> int:
        """The bytes of all parts together."""
        return self.arenas + self.graph + self.outputs


def footprint(planned: Plan) -> Footprint:
    """What running a plan takes. O(arenas)."""
    return _footprint(planned.graph, planned.rows, (planned,))


def footprint_of(batch: MiniBatch) -> Footprint:
    """What a mini-batch takes; of one that has grown, all its values and the plans of its pieces."""
    if batch.grown is None:
        return footprint(batch.plan)
    return _footprint(batch.grown.result.nodes, batch.grown.rows, batch.grown.pieces)


def _footprint(nodes: Nodes, rows: Ints, plans: Sequence[Plan]) -> Footprint:
    pitch = (row_floats(shape, LANES) for shape in arenas_of(nodes.network).shape)
    floats = sum(map(mul, rows.tolist(), pitch))
    parts = [part for made in plans for part in (made, made.graph, made.graph.dag, made.schedule)]
    return Footprint(4 * floats, _array_bytes((nodes, *nodes.results, *parts)), _output_bytes(nodes))


# What a node and an operand take at most in the arrays of graph, schedule and plan.
NODE_BYTES, OPERAND_BYTES = 48, 12


def grown_footprint(before: Plan, nodes: Sequence[int], operands: int) -> Footprint:
    """What a mini-batch that grows takes, whose part before growth is planned, with so many further nodes.

    `nodes` (types,) and `operands`: what comes in rounds and behind them; all values are kept. O(types).
    """
    found, network = footprint(before), before.graph.network
    pairs = list(zip(network.types, nodes, strict=True))
    floats = sum(count * row_floats(o.shape, LANES) for t, count in pairs for o in t.outputs)
    arrays = NODE_BYTES * sum(nodes) + OPERAND_BYTES * operands
    outputs = dict(network.outputs).values()
    counts = [(sum(nodes[t] for t, _ in producers), producers[0]) for producers in outputs]
    read = sum(4 * count * size_of(network.types[t].outputs[o].shape) for count, (t, o) in counts)
    return Footprint(found.arenas + 4 * floats, found.graph + arrays, found.outputs + read)


# What `abw run` holds before it has any weights or instances: Python, NumPy, numba, LLVM, compiled code.
#
# Measured (`abw bench memory`) where all code was compiled before; compiling it adds some 100 MB for a while.
AT_REST = 152_000_000

# What a vertex of the instances takes while they are read and found in the graphs.
VERTEX_BYTES = 150


@dataclass(frozen=True, slots=True)
class Forecast:
    """Bytes of a whole process that runs a model by the executor cpu.

    `at_rest`: without a model; `pytorch`: what reads the weights where they are in a file of PyTorch's;
    `weights`: parameters and tables, and what is packed of them for the kernels;
    `instances`: those read together; `mini_batches`: the largest one, and those planned beside it.
    """

    at_rest: int
    pytorch: int
    weights: int
    instances: int
    mini_batches: int

    @property
    def total(self) -> int:
        """All of them: the process's peak."""
        return self.at_rest + self.pytorch + self.weights + self.instances + self.mini_batches

    def document(self) -> dict[str, int]:
        """As it stands in a report."""
        return {**{f.name: getattr(self, f.name) for f in fields(self)}, "total": self.total}


def forecast(
    network: Network,
    largest: Footprint,
    together: int,
    vertices: int,
    abreast: int = 1,
    precision: Precision = "float32",
    pytorch: int = 0,
) -> Forecast:
    """What `abw run` takes at most. Cost: laying out the cells, a millisecond each.

    `largest`: the mini-batch that takes most; `together`: so many of its size are planned before the first
    runs, or held; `vertices`: of the instances that are read together; `abreast`: so many run at once;
    `pytorch`: the bytes of importing it, if it is (`reader_bytes`).
    """
    found = largest
    plans = abreast * (found.arenas + found.outputs) + together * found.graph
    weights = weight_bytes(network, precision)
    return Forecast(AT_REST, pytorch, weights, VERTEX_BYTES * vertices, plans)


def require_weights(model: Model, held: tuple[int, int] = (2, 2), also: str = "") -> None:
    """Refuse a model whose weights do not fit, before any of them is taken. Errors: AbwError.

    Parameters and tables are `held` so often: twice, packed for the executor too, and as they came and in the
    arenas. `also`: what else is counted in that, in words.
    """
    params, tables = numbers_of(model)
    needed = 4 * (held[0] * params + held[1] * tables)
    name, size = max(model.dims.items(), key=lambda dim: dim[1], default=("", 0))
    # matrices grow with the square of a dim
    fitting = int(size * min(1.0, available_memory() / (needed or 1)) ** 0.5)
    hint = f"smaller dims: with {name}={fitting} they take about as much as is free (--set {name}=SIZE)"
    require_memory(needed, f"the weights of {model.name}, {params + tables:,} numbers{also},", hint)


def numbers_of(whose: Model | Network) -> tuple[int, int]:
    """How many numbers all parameters have, and all tables."""
    params = sum(math.prod(p.shape) for p in whose.params)
    return params, sum(t.rows * math.prod(t.shape) for t in whose.tables)


def weight_bytes(network: Network, precision: Precision = "float32") -> int:
    """What parameters and tables take beside the arenas: in float32, and packed for the executor cpu."""
    return 4 * sum(numbers_of(network)) + sum(packed_bytes(network, precision).values())


def packed_bytes(network: Network, precision: Precision = "float32") -> dict[int, int]:
    """What is packed for the kernels of the executor cpu, by the numbers of types."""
    target, found = get_target(), {}
    narrow = narrow_of(precision, target)
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
    """Each array once, though several parts hold it."""
    values = (value for part in parts for value in _FIELDS[type(part)](part))
    arrays = {id(value): value.nbytes for value in values if type(value) is np.ndarray}
    return sum(arrays.values())
