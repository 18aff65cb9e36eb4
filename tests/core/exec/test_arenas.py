"""Values read by reference out of arenas: each where the plan says it lies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.exec.params import constant_value, init_params
from abw.core.exec.values import read_values
from abw.core.ir.cell import Shape
from abw.core.plan.plan import plan
from tests.core.exec.builder import random_graph, random_network, random_schedule


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.booleans())
def test_any_values_of_one_shape_in_any_order(seed: int, nodes: int, some: bool) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    graph = random_graph(rng, network, nodes)
    width, params = network.width, init_params(network, seed)
    # of each reference to a node's output or a constant: its shape, and for a node's its type and output
    home: dict[int, tuple[Shape, tuple[int, int] | None]] = {}
    for v, t in enumerate(graph.dag.type.tolist()):
        for o, output in enumerate(network.types[t].outputs):
            home[v * width + o] = output.shape, (t, o)
    for constant in network.constants:
        for row in range(constant.rows):
            home[-1 - constant.first - row] = constant.shape, None
    values = [reference for reference in home if reference >= 0]
    keep = np.array([r for r in values if rng.random() < 0.5], np.int32) if some else None
    planned = plan(graph, random_schedule(rng, graph), keep)
    arenas = planned.arenas
    memory = [
        rng.random((int(rows), *shape), np.float32)
        for rows, shape in zip(planned.rows, arenas.shape, strict=True)
    ]
    kept = set(values if keep is None else keep.tolist())
    shape = home[values[rng.integers(len(values))]][0]
    fit = [r for r, (its, _) in home.items() if its == shape and (r < 0 or r in kept)]
    if fit and rng.random() < 0.5:  # often all of them are of one type
        own = home[fit[0]][1]
        fit = [r for r in fit if home[r][1] == own]
    references = rng.choice(np.array(fit), rng.integers(1, 20)) if fit else np.zeros(0, np.int64)
    found = read_values(memory, planned, params, references)
    assert len(found) == len(references)
    for value, reference in zip(found, references.tolist(), strict=True):
        place = home[reference][1]
        if place is None:
            expected = constant_value(network, params, reference, graph.given)
        else:
            expected = memory[arenas.output_arena[place]][planned.row[reference]]
        assert np.array_equal(value, expected)

    lost = [r for r in values if r not in kept]
    if lost:
        with pytest.raises(RuntimeError, match="was not kept"):
            read_values(memory, planned, params, np.array([*references, lost[0]]))
    with pytest.raises(IndexError):
        read_values(memory, planned, params, np.array([len(graph) * width]))
