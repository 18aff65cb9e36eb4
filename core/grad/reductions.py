"""The derivatives of reductions, as cells: at each of their nodes, and at each edge from a neighbour.

A sum needs none: each neighbour reads its gradient. Attention forms its weights again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from abw.core.grad.draft import Draft, Leaf, Value, equal, function, reshaped, spread, total, where
from abw.core.ir.cell import Cell, Port, Shape
from abw.core.ir.model import KEYS, QUERY, SLOPE, VALUES, Attention, Reduction

Place = Literal["node", "edge"]
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

    It computes a cell, or (`reduction`) the largest of the values of all edges.
    """

    name: str
    place: Place
    cell: Cell | None
    reduction: Reduction | None
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
    parts = []
    for slot, shape in enumerate(shapes):
        draft = Draft()
        g, count = _leaves(draft, shape, (1,))
        wide = reshaped(spread(count, (1,), (math.prod(shape),)), shape)
        reads = (Read("gradient", slot), Read("count"))
        inputs, outputs = {"g": g, "count": count}, {"each": g / wide}
        parts.append(_part(f"mean{_several(shapes, slot)}", "node", draft, reads, inputs, outputs))
    return Parts(tuple(parts), tuple((slot, 0) for slot in range(len(shapes))))


def spreads(shapes: Sequence[Shape], *, root: bool) -> Parts:
    """Each neighbour's difference from the mean, times 2 g / n; of the `root` of a variance g / (n std),
    which is taken as zero where that is zero.
    """
    parts: list[Part] = []
    gives = []
    for slot, shape in enumerate(shapes):
        at, number = len(parts), _several(shapes, slot)
        draft = Draft()
        (x,) = _leaves(draft, shape)
        parts.append(
            _part(f"value{number}", "edge", draft, (Read("operand", slot),), {"x": x}, {"x": x + 0.0})
        )
        draft = Draft()
        total_, g, count, y = _leaves(draft, shape, shape, (1,), shape)
        wide = reshaped(spread(count, (1,), (math.prod(shape),)), shape)
        factor = where(y > 0, g / where(y > 0, y, 1.0), 0.0) if root else 2.0 * g
        reads: tuple[Read, ...] = (
            Read("edges", at, 0),
            Read("gradient", slot),
            Read("count"),
            Read("output", slot),
        )
        inputs = {"total": total_, "g": g, "count": count, "y": y}
        outputs = {"mean": total_ / wide, "factor": factor / wide}
        if not root:
            reads, inputs = reads[:3], {name: inputs[name] for name in ("total", "g", "count")}
        parts.append(_part(f"share{number}", "node", draft, reads, inputs, outputs))
        draft = Draft()
        x, mean, factor = _leaves(draft, shape, shape, shape)
        reads = (Read("operand", slot), Read("node", at + 1, 0), Read("node", at + 1, 1))
        inputs = {"x": x, "mean": mean, "factor": factor}
        parts.append(_part(f"apart{number}", "edge", draft, reads, inputs, {"each": (x - mean) * factor}))
        gives.append((at + 2, 0))
    return Parts(tuple(parts), tuple(gives))


def largest(shapes: Sequence[Shape]) -> Parts:
    """The gradient goes to the largest neighbour, element by element; equal ones share it."""
    parts: list[Part] = []
    gives = []
    for slot, shape in enumerate(shapes):
        at, number = len(parts), _several(shapes, slot)
        draft = Draft()
        x, y = _leaves(draft, shape, shape)
        reads: tuple[Read, ...] = (Read("operand", slot), Read("output", slot))
        parts.append(_part(f"same{number}", "edge", draft, reads, {"x": x, "y": y}, {"same": equal(x, y)}))
        draft = Draft()
        g, count = _leaves(draft, shape, shape)
        reads, inputs = (Read("gradient", slot), Read("edges", at, 0)), {"g": g, "count": count}
        parts.append(_part(f"share{number}", "node", draft, reads, inputs, {"share": g / count}))
        draft = Draft()
        same, share = _leaves(draft, shape, shape)
        reads, inputs = (Read("own", at, 0), Read("node", at + 1, 0)), {"same": same, "share": share}
        parts.append(_part(f"largest{number}", "edge", draft, reads, inputs, {"each": same * share}))
        gives.append((at + 2, 0))
    return Parts(tuple(parts), tuple(gives))


def attended(attention: Attention, values: Shape, keys: Shape) -> Parts:
    """Scores and the largest of them, powers, their sum with what all edges share, and each edge's gradients.

    With w = e / z the weights of a head, e = exp(s - max s), y the result and g its gradient: that of a value
    is w g, that of a score w (g . value - g . y).
    """
    heads = attention.heads
    factor = attention.factor(keys[0])
    scores: Shape = (heads,)

    draft = Draft()
    k, q = _leaves(draft, keys, keys)
    if attention.added:
        both = k + q
        score = _by_head(where(both > 0, both, SLOPE * both), heads)
    else:
        score = factor * _by_head(k * q, heads)
    reads: tuple[Read, ...] = (Read("operand", KEYS), Read("operand", QUERY))
    first = _part("scores", "edge", draft, reads, {"k": k, "q": q}, {"s": score})

    port = Port("s", scores)
    most = Part("largest", "node", None, "max", (Read("edges", 0, 0),), (port,), (port,))

    draft = Draft()
    s, level = _leaves(draft, scores, scores)
    reads = (Read("own", 0, 0), Read("node", 1, 0))
    e = function("exp", s - level)
    powers = _part("powers", "edge", draft, reads, {"s": s, "level": level}, {"e": e})

    draft = Draft()
    z, g, y = _leaves(draft, scores, values, values)
    share = g / _to_head(z, values)
    reads = (Read("edges", 2, 0), Read("gradient", 0), Read("output", 0))
    outputs = {"share": share, "level": _by_head(share * y, heads)}
    shares = _part("shares", "node", draft, reads, {"z": z, "g": g, "y": y}, outputs)

    draft = Draft()
    e, v, share, level, k, q = _leaves(draft, scores, values, values, scores, keys, keys)
    slope = _to_head(e * (_by_head(share * v, heads) - level) * factor, keys)
    outputs = {"d_value": _to_head(e, values) * share}
    if attention.added:
        outputs["d_key"] = slope * where(k + q > 0, 1.0, SLOPE)
    else:
        outputs |= {"d_key": slope * q, "d_query": slope * k}
    reads = (Read("own", 2, 0), Read("operand", VALUES), Read("node", 3, 0), Read("node", 3, 1),
             Read("operand", KEYS), Read("operand", QUERY))  # fmt: skip
    inputs = {"e": e, "v": v, "share": share, "level": level, "k": k, "q": q}
    each = _part("each", "edge", draft, reads, inputs, outputs)
    return Parts((first, most, powers, shares, each), ((4, 0), (4, 1), (4, len(outputs) - 1)))


def _several(shapes: Sequence[Shape], slot: int) -> str:
    """What tells the parts of one slot from those of another."""
    return f"-{slot}" if len(shapes) > 1 else ""


def _by_head(x: Value, heads: int) -> Value:
    """The sums of a vector's parts, one for each head."""
    return total(reshaped(x, (heads, x.shape[0] // heads)))


def _to_head(x: Value, shape: Shape) -> Value:
    """A number for each head, repeated over its part of a vector."""
    heads = x.shape[0]
    return reshaped(spread(x, (heads, 1), (heads, shape[0] // heads)), shape)


def _leaves(draft: Draft, *shapes: Shape) -> list[Value]:
    return [draft.leaf("input", number, shape) for number, shape in enumerate(shapes)]


def _part(
    name: str,
    place: Place,
    draft: Draft,
    reads: tuple[Read, ...],
    inputs: dict[str, Value],
    outputs: dict[str, Value],
) -> Part:
    leaves = [(port, Leaf("input", number)) for number, port in enumerate(inputs)]
    cell = draft.cell(name, leaves, [], list(outputs.items()))
    return Part(name, place, cell, None, reads, cell.inputs, cell.output_ports)
