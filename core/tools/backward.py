"""What `abw check --backward` says: each type's backward pass as equations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from abw.core.grad.cell import differentiate
from abw.core.grad.explain import explain
from abw.core.ir.cell import Cell
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides, load_cell


def backward_of_cell(path: Path, dims: Mapping[str, int]) -> dict[str, Any]:
    """A cell's file; every dim is 64 unless `dims` says otherwise. Errors: SpecError, AbwError."""
    cell = load_cell(path, dims)
    return {"schema_version": 1, "spec": str(path), "types": [_of(cell.name, cell)]}


def backward(spec: Path, overrides: Overrides) -> dict[str, Any]:
    """All types of a model that are cells. Errors: SpecError."""
    model = open_model(spec, overrides)
    types = [_of(t.name, t.cell) for t in model.types if t.cell]
    return {"schema_version": 1, "spec": str(spec), "types": types}


def _of(name: str, cell: Cell) -> dict[str, Any]:
    return {"type": name, **asdict(explain(cell, differentiate(cell)))}
