"""The derivatives of reductions, as cells: at each of their nodes, and at each edge from a neighbour.

A sum needs none: each neighbour reads its gradient. Attention forms its weights again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from abw.core.grad.draft import Draft, Leaf, Value, equal, joined, reshaped, spread, total, where
from abw.core.ir.cell import Cell, Port, Shape
from abw.core.ir.model import KEYS, QUERY, VALUES, Attention, AttentionGradient

Place = Literal["node", "edge", "value"]
Kind = Literal["operand", "output", "gradient", "own", "node", "edges", "count"]


@dataclass(frozen=True, slots=True)
class Read:
    """What a slot of a part reads: of the node or edge that it belongs to the `operand` of slot `a`, the
    `output` a or the `gradient` of that; output b of part a: at the same place (`own`), at an edge's `node`,
    the sum over all `edges` of a node; the `count` of neighbours.
    """

    kind: Kind
    a: int = 0
    b: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A type of the backward pass, a node for each node or edge of what it belongs to.

    It computes a cell, or (`reduction`) sums over edges: those of a node, or (place "value") those that read
    a value in the slot that the reduction is `of`. What it reads it reads at each edge.
    """

    name: str
    place: Place
    cell: Cell | None
    reduction: AttentionGradient | None
    reads: tuple[Read, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """The backward pass of a reduction: `parts` in the order in which they run.

    `gives[s]` is where the gradients of slot s's neighbours are: part and output; None: at no part, each
    neighbour reads the gradient of output s.
    """

    parts: tuple[Part, ...]
    gives: tuple[tuple[int, int] | None, ...]


def sums(slots: int) -> Parts:
    """Each neighbour's gradient is the sum's."""
    return Parts((), (None,) * slots)


def means(shapes: Sequence[Shape]) -> Parts:
    """The gradient over the number of neighbours."""
    parts: list[Part] = []
    for slot, shape in enumerate(shapes):
        with _part(f"mean{_several(shapes, slot)}", "node", parts) as part:
            g, count = part.read("g", shape, "gradient", slot), part.read("count", (1,), "count")
            part.outputs["each"] = g / _wide(count, shape)
    return Parts(tuple(parts), tuple((slot, 0) for slot in range(len(shapes))))


def spreads(shapes: Sequence[Shape], *, root: bool) -> Parts:
    """Each neighbour's difference from the mean, times 2 g / n; of the `root` of a variance g / (n std),
    which is taken as zero where that is zero.
    """
    parts: list[Part] = []
    for slot, shape in enumerate(shapes):
        at, number = len(parts), _several(shapes, slot)
        with _part(f"value{number}", "edge", parts) as part:
            part.outputs["x"] = part.read("x", shape, "operand", slot) + 0.0
        with _part(f"share{number}", "node", parts) as part:
            sum_, g = part.read("total", shape, "edges", at), part.read("g", shape, "gradient", slot)
            wide = _wide(part.read("count", (1,), "count"), shape)
            factor = 2.0 * g
            if root:
                y = part.read("y", shape, "output", slot)
                factor = where(y > 0, g / where(y > 0, y, 1.0), 0.0)
            part.outputs |= {"mean": sum_ / wide, "factor": factor / wide}
        with _part(f"apart{number}", "edge", parts) as part:
            x = part.read("x", shape, "operand", slot)
            mean, factor = (
                part.read(name, shape, "node", at + 1, o) for o, name in enumerate(("mean", "factor"))
            )
            part.outputs["each"] = (x - mean) * factor
    return Parts(tuple(parts), tuple((3 * slot + 2, 0) for slot in range(len(shapes))))


def largest(shapes: Sequence[Shape]) -> Parts:
    """The gradient goes to the largest neighbour, element by element; equal ones share it."""
    parts: list[Part] = []
    for slot, shape in enumerate(shapes):
        at, number = len(parts), _several(shapes, slot)
        with _part(f"same{number}", "edge", parts) as part:
            x, y = part.read("x", shape, "operand", slot), part.read("y", shape, "output", slot)
            part.outputs["same"] = equal(x, y)
        with _part(f"share{number}", "node", parts) as part:
            g, count = part.read("g", shape, "gradient", slot), part.read("count", shape, "edges", at)
            part.outputs["share"] = g / count
        with _part(f"largest{number}", "edge", parts) as part:
            same, share = part.read("same", shape, "own", at), part.read("share", shape, "node", at + 1)
            part.outputs["each"] = same * share
    return Parts(tuple(parts), tuple((3 * slot + 2, 0) for slot in range(len(shapes))))


def attended(attention: Attention, values: Shape, keys: Shape, wanted: Sequence[int]) -> Parts:
    """What all edges of a node share, its state (see `AttentionGradient`), and the gradients of wanted slots.

    With w = e^(s - l) the weights of a head, l the logarithm of their sum, y the result and g its gradient:
    that of a value is w g, that of a score w (g . value - g . y). No edge has a node.
    """
    heads = attention.heads
    parts: list[Part] = []
    with _part("state", "node", parts) as part:
        q, g = part.read("q", keys, "operand", QUERY), part.read("g", values, "gradient", 0)
        logs, y = part.read("l", (heads,), "output", 1), part.read("y", values, "output", 0)
        part.outputs["state"] = joined([q, g, logs, _by_head(g * y, heads)])
    ports = Port("v", values), Port("k", keys), parts[0].outputs[0]
    reads = Read("operand", VALUES), Read("operand", KEYS), Read("node", 0, 0)
    gives: list[tuple[int, int] | None] = [None] * 3
    for slot in wanted:
        gives[slot] = len(parts), 0
        place: Place = "node" if slot == QUERY else "value"
        made, name = AttentionGradient(attention, slot), ("values", "keys", "query")[slot]
        parts.append(Part(name, place, None, made, reads, ports, (Port("d", (values, keys, keys)[slot]),)))
    return Parts(tuple(parts), tuple(gives))


def _several(shapes: Sequence[Shape], slot: int) -> str:
    """What tells the parts of one slot from those of another."""
    return f"-{slot}" if len(shapes) > 1 else ""


def _by_head(x: Value, heads: int) -> Value:
    """The sums of a vector's parts, one for each head."""
    return total(reshaped(x, (heads, x.shape[0] // heads)))


def _wide(count: Value, shape: Shape) -> Value:
    """The number of neighbours, repeated over a shape."""
    return reshaped(spread(count, (1,), (math.prod(shape),)), shape)


class _Writing:
    """A part's cell while it is written: what it reads, in order, and its outputs."""

    def __init__(self) -> None:
        self.draft, self.inputs, self.outputs = Draft(), dict[str, Read](), dict[str, Value]()

    def read(self, name: str, shape: Shape, kind: Kind, a: int = 0, b: int = 0) -> Value:
        """One more input (see `Read`)."""
        self.inputs[name] = Read(kind, a, b)
        return self.draft.leaf("input", len(self.inputs) - 1, shape)


@contextmanager
def _part(name: str, place: Place, parts: list[Part]) -> Iterator[_Writing]:
    """Append the part that is written meanwhile."""
    made = _Writing()
    yield made
    leaves = [(port, Leaf("input", number)) for number, port in enumerate(made.inputs)]
    cell = made.draft.cell(name, leaves, [], list(made.outputs.items()))
    reads = tuple(made.inputs.values())
    parts.append(Part(name, place, cell, None, reads, cell.inputs, cell.output_ports))
