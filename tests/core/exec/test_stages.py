"""Which operations of a cell go together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from abw.core.cell.normal import NormalCell, normalise
from abw.core.exec.lower.stages import Single, Stage, stages_of
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from tests.core.exec.builder import random_cell


def stages(root: Path, spec: str, type_name: str) -> tuple[NormalCell, tuple[Stage | Single, ...]]:
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides())
    cell = next(t.cell for t in model.types if t.name == type_name)
    assert cell is not None
    normal = normalise(cell)
    return normal, stages_of(normal)


@pytest.mark.parametrize(
    ("spec", "type_name", "gates"),
    [
        ("treelstm", "internal", [5]),
        ("treelstm", "leaf", [3]),
        ("treelstm", "output", [1]),
        ("lattice", "char", [4]),
        ("lattice-gru", "char", [2, 1]),
        ("treegru", "internal", [3, 1]),
        ("treelstm-nary", "internal", [6]),
    ],
)
def test_cells_are_a_stage_for_each_product_of_products(
    spec: str, type_name: str, gates: list[int], root: Path
) -> None:
    normal, found = stages(root, spec, type_name)
    assert [len(stage.gates) for stage in found if isinstance(stage, Stage)] == gates
    assert all(isinstance(stage, Stage) for stage in found)
    # biases and both products of a gate are in its sum; only outputs and the reset state are stored
    outputs = {value for _, value in normal.cell.outputs}
    stored = [value for stage in found if isinstance(stage, Stage) for value in stage.stores]
    assert outputs <= set(stored)
    assert len(stored) <= len(outputs) + 2 * (len(gates) - 1) + 1
    added = [value for stage in found if isinstance(stage, Stage) for value in stage.operations]
    gate_values = {gate.value for stage in found if isinstance(stage, Stage) for gate in stage.gates}
    assert not any(normal.op(v).name == "add" and gate_values >= set(normal.arguments(v)) for v in added)


def test_children_side_by_side_are_not_copied(root: Path) -> None:
    _, (stage,) = stages(root, "treelstm-nary", "internal")
    assert isinstance(stage, Stage)
    operands = {part.value for gate in stage.gates for _, _, part in gate.products}
    assert operands == {0, 2, 4}
    assert {first for gate in stage.gates for _, first, _ in gate.products} == {0, 64, 128}
    assert all(len(gate.biases) == 1 for gate in stage.gates)


@given(st.integers(0, 2**32 - 1))
@example(10321160)
def test_nothing_is_read_before_it_is_stored(seed: int) -> None:
    normal = normalise(random_cell(np.random.default_rng(seed), "cell"))
    ready = {v for v, static in enumerate(normal.static) if static} | set(range(len(normal.cell.inputs)))
    for stage in stages_of(normal):
        if isinstance(stage, Single):
            # a concatenation on the right side of a product is not made: its parts are read
            whole = normal.arguments(stage.value)[: 1 if stage.right else None]
            read = {*(normal.root[a] for a in whole), *(part.value for part in stage.right)}
            assert read <= ready
            ready.add(stage.value)
            continue
        here = set()
        for gate in stage.gates:
            assert all(part.value in ready for _, _, part in gate.products)
            here.add(gate.value)
        for value in stage.operations:
            # a part of a value has its elements elsewhere: it must be stored
            assert all(a in here or normal.root[a] in ready for a in normal.arguments(value))
            here.add(value)
        assert set(stage.stores) <= here
        ready.update(stage.stores)
    assert {value for _, value in normal.cell.outputs} <= ready
