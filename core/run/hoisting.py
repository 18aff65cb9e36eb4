"""Which products to hoist where the user does not say: those that equal rows of tables share often enough."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from abw.core.cell.hoist import hoist
from abw.core.data.instances import Instances
from abw.core.exec.lower.rows import row_floats
from abw.core.exec.precision import Precision
from abw.core.graph.equal.consing import LEAST_NODES, DedupMode
from abw.core.graph.equal.dedup import dedup
from abw.core.graph.equal.numbering import keys_of
from abw.core.ir.model import Model
from abw.core.ir.network import Granularity
from abw.core.plan.arenas import arenas_of
from abw.core.run.workload import open_networks, open_workload

# Floating-point operations a second of a core in products; the seconds that a byte of a hoisted product takes
# to write or to read; those that a node takes beside its arithmetic. Measured on a core of 2.6 GHz with
# AVX-512, hidden 64 to 256: of slower cores, hoisting pays earlier.
RATE, MOVED, OF_NODE = 160e9, 0.12e-9, 100e-9
# What is to be spared of a mini-batch's arithmetic, at least.
LEAST_GAIN = 0.06


def hoisted_types(model: Model) -> tuple[str, ...]:
    """The types of a model whose products were hoisted."""
    names = {node_type.name for node_type in model.types}
    return tuple(t.name for t in model.types if f"{t.name}-hoisted" in names)


def may_hoist(
    policy: str, granularity: Granularity, executor: str, dedup: DedupMode, precision: Precision = "float32"
) -> bool:
    """Whether abw may choose by itself what is hoisted.

    Not where a given policy knows the types, where equal nodes are not looked for, for weights in fewer bits,
    whose products take less, nor on other executors than `cpu`.
    """
    named = not policy.endswith((".json", ".py")) and ":" not in policy
    usual = executor == "cpu" and precision == "float32"
    return named and usual and granularity == "cell" and dedup != "off"


def hoist_where_it_pays(model: Model, sample: Callable[[], tuple[Instances, int]]) -> Model:
    """Hoist the products of those types where that is faster, once equal nodes are left out.

    A hoisted product is computed once for each row of a table that nodes read, but it is written to memory
    and read again. `sample` gives instances, and how many of the first ones are a usual mini-batch: it is
    reckoned with what is left of their nodes. A model that grows is left as it is. Cost: where there is
    something to hoist, reading and constructing the mini-batch. Errors: DataError, SpecError.
    """
    whole = model if model.growth else hoist(model)
    if whole is model:
        return model
    (instances, count), networks = sample(), open_networks(whole, "cell")
    graph = open_workload(whole, instances, networks).unfused(0, count)
    if len(graph) < LEAST_NODES:
        return model
    left = dedup(graph, keys_of(networks.cells, networks.program.edges)).type_sizes.astype(np.int64)
    arenas, number = arenas_of(networks.cells), {t.name: n for n, t in enumerate(whole.types)}
    flops = left @ (arenas.product_flops + arenas.other_flops)
    gains: dict[str, float] = {}
    for name in hoisted_types(whole):
        late, early = number[name], number[f"{name}-hoisted"]
        here, spared = int(left[early]), int(left[late] - left[early])
        moved = 4 * sum(row_floats(o.shape, 1) for o in whole.types[early].outputs)
        flops += spared * arenas.product_flops[early]  # what all takes unless it is hoisted
        gains[name] = spared * float(arenas.product_flops[early]) / RATE
        gains[name] -= (here + int(left[late])) * moved * MOVED + here * OF_NODE
    chosen = [name for name, gain in gains.items() if gain > 0]
    if sum(gains[name] for name in chosen) < LEAST_GAIN * float(flops) / RATE:
        return model
    return hoist(model, chosen)
