"""Memory by owner: what is there throughout, and the values needed while each batch runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.precision import Precision
from abw.core.graph.graph import Graph
from abw.core.ir.network import LISTED
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import outputs_to_keep, plan
from abw.core.policy.schedule import Schedule
from abw.core.run.observing.footprint import footprint, weight_bytes

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BytesPicture:
    """Bytes by owner under one schedule of B batches.

    `owners`: what is there all the time. `needed` (B, T): values of each type that a batch writes or reads,
    or that later ones read or the model gives back, while it runs. `arenas`: the rows that the plan has for
    values.
    """

    owners: tuple[tuple[str, int], ...]
    needed: Longs
    arenas: int


def bytes_picture(graph: Graph, schedule: Schedule, precision: Precision = "float32") -> BytesPicture:
    """Memory as `abw run` plans it, with weights of this precision. Cost: planning, and some 20 ns a node."""
    planned = plan(graph, schedule, outputs_to_keep(graph))
    arenas, whole = planned.arenas, footprint(planned)
    row_bytes = 4 * arenas.row_floats.astype(np.int64)
    head = int(row_bytes @ arenas.head)
    owners = (
        ("weights, and what is packed of them for the kernels", weight_bytes(graph.network, precision)),
        ("tables and other constants among the values", head),
        ("graph, schedule and plan", whole.graph),
        ("outputs, when they are read", whole.outputs),
    )
    return BytesPicture(owners, _needed(graph, schedule), int(row_bytes @ planned.rows) - head)


def bytes_document(picture: BytesPicture, types: tuple[str, ...]) -> dict[str, Any]:
    """Summarise the bytes for `abw explain --json`: the batch that needs most, by type."""
    sums = picture.needed.sum(axis=1)
    most = int(sums.argmax()) if len(sums) else 0
    by_type = picture.needed[most].tolist() if len(sums) else [0] * len(types)
    return {
        "owners": [{"owner": owner, "owner_bytes": count} for owner, count in picture.owners],
        "rows_bytes": picture.arenas,
        "most_bytes": sum(by_type),
        "most_in": most + 1,
        "types": [
            {"type": name, "type_bytes": count} for name, count in zip(types, by_type, strict=True) if count
        ],
    }


def batch_of(schedule: Schedule, nodes: int) -> Ints:
    """(n,): the number of the batch that executes each node."""
    number = np.empty(nodes, np.int32)
    number[schedule.nodes] = np.repeat(np.arange(len(schedule), dtype=np.int32), np.diff(schedule.ptr))
    return number


def _needed(graph: Graph, schedule: Schedule) -> Longs:
    """(B, T) bytes while each batch runs: a value is needed from when it is written to its last reader."""
    batches, width = len(schedule), graph.network.width
    batch = batch_of(schedule, len(graph)).astype(np.int64)
    last = np.repeat(batch, width)  # nobody reads it: it is needed while it is written
    reader = np.repeat(batch, np.diff(graph.operand_ptr))
    plain = graph.operand >= 0
    np.maximum.at(last, graph.operand[plain], reader[plain])
    listed = graph.operand <= LISTED
    lists = LISTED - graph.operand[listed]
    reads = np.full(len(graph.list_ptr) - 1, -1, np.int64)
    np.maximum.at(reads, lists, reader[listed])
    of_member = np.repeat(reads, np.diff(graph.list_ptr))
    members = graph.list_operand >= 0
    np.maximum.at(last, graph.list_operand[members], of_member[members])
    for refs in graph.results:
        last[refs.reference[refs.reference >= 0]] = batches
    arenas = arenas_of(graph.network)
    kind = graph.dag.type
    arena = arenas.output_arena[kind].ravel()
    size = np.where(arena >= 0, 4 * arenas.row_floats.astype(np.int64)[arena], 0)
    of = np.repeat(kind, width)
    change = np.zeros((batches + 2, len(graph.dag.types)), np.int64)
    np.add.at(change, (np.repeat(batch, width), of), size)
    np.add.at(change, (np.minimum(last + 1, batches + 1), of), -size)
    return np.cumsum(change, axis=0)[:batches]
