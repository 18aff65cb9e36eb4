"""The report of `abw check --backward`: each type's backward pass as equations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from abw.core.cell.names import equations
from abw.core.grad.cell import Differentiated, differentiate
from abw.core.grad.explain import explain
from abw.core.grad.network import training_network
from abw.core.grad.reductions import Part
from abw.core.graph.cells import cell_network
from abw.core.ir.cell import Cell
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides, load_cell


def backward_of_cell(path: Path, dims: Mapping[str, int]) -> dict[str, Any]:
    """A cell's file; every dim is 64 unless `dims` says otherwise. Errors: SpecError, AbwError."""
    cell = load_cell(path, dims)
    return {"schema_version": 1, "spec": str(path), "types": [_of(cell.name, cell, differentiate(cell))]}


# What the gradients of an attention's inputs sum over edges: of the edge's value v, key k, query q, weight w
# and, of the result y, the gradient g.
_TERMS = {"values": "w g", "keys": "w (g v - g y) q", "query": "w (g v - g y) k"}


def backward(spec: Path, overrides: Overrides) -> dict[str, Any]:
    """A model whose outputs all have a loss: its types, as far as gradients reach them.

    Errors: SpecError; AbwError where there is nothing to train.
    """
    network = cell_network(open_model(spec, overrides))
    training = training_network(network, [name for name, _ in network.outputs])
    types = []
    for t, made in enumerate(training.parts):
        net_type, derivative = network.types[t], training.cells[t]
        if net_type.cell is not None and derivative is not None:
            types.append(_of(net_type.name, net_type.cell, derivative))
        elif made is not None:
            parts = [_of_part(part) for part in made.parts]
            types.append({"type": net_type.name, "reduction": str(net_type.reduction), "parts": parts})
    return {"schema_version": 1, "spec": str(spec), "types": types}


def _of(name: str, cell: Cell, made: Differentiated) -> dict[str, Any]:
    return {"type": name, **asdict(explain(cell, made))}


def _of_part(part: Part) -> dict[str, Any]:
    """A part of a reduction's backward pass."""
    summed = [port.name for port, read in zip(part.inputs, part.reads, strict=True) if read.kind == "edges"]
    said = equations(part.cell) if part.cell else [f"{part.outputs[0].name} = the sum of {_TERMS[part.name]}"]
    return {"name": part.name, "at": part.place, "summed": summed, "equations": said}
