"""A cell's derivative as equations, for people."""

from __future__ import annotations

import math
from dataclasses import dataclass

from abw.core.cell.names import equations, value_names
from abw.core.grad.cell import Differentiated, Operand
from abw.core.ir.cell import Cell


@dataclass(frozen=True, slots=True)
class Explained:
    """What a backward cell reads, and what it computes.

    `saved`: the values that the forward cell keeps for it. `gradients`: the gradients of outputs that it
    reads. `equations` are its own, `inputs` the gradients of inputs among what they define, `weights` what is
    summed over all nodes. `none`: the inputs that no gradient reaches.
    """

    saved: tuple[str, ...]
    gradients: tuple[str, ...]
    equations: tuple[str, ...]
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    none: tuple[str, ...]


def explain(cell: Cell, made: Differentiated) -> Explained:
    """Put what was made of a cell in words."""
    names, declared = value_names(made.forward), len(cell.outputs)
    none = tuple(port.name for i, port in enumerate(cell.inputs) if i not in made.inputs)
    saved = tuple(names[v] for _, v in made.forward.outputs[declared:])
    if made.backward is None:
        return Explained(saved, (), (), (), (), none)
    outputs = [name for name, _ in made.backward.outputs]
    reads = zip(made.reads, made.backward.inputs, strict=True)

    def shown(x: Operand) -> str:
        port = made.forward.inputs[x.number] if x.source == "input" else None
        name = port.name if port else names[made.forward.outputs[x.number][1]]
        shape = port.shape if port else made.forward.output_ports[x.number].shape
        return name if x.length == math.prod(shape) else f"{name}[{x.start}:{x.start + x.length}]"

    weights = []
    for term in made.terms:
        columns, dz = "", outputs[term.dz]
        if term.x is not None:
            dz = f"outer({dz}, {shown(term.x)})"
            if term.x.length < made.forward.shape_of(term.static)[1]:
                columns = f"[:, {term.column}:{term.column + term.x.length}]"
        weights.append(f"{names[term.static]}{columns} += {dz}")
    return Explained(
        saved,
        tuple(port.name for leaf, port in reads if leaf.source == "gradient"),
        tuple(equations(made.backward)),
        tuple(outputs[o] for o in dict.fromkeys(made.inputs.values())),
        tuple(weights),
        none,
    )
