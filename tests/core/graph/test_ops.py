"""Granularity `op`: the same values from a graph with a node for every operation."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from abw.core.exec.params import init_params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.graph.bounds import lower_bound, topological_order
from abw.core.graph.graph import Graph
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import get_policy
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.core.graph.test_construct import SPECS


def both(spec: Path, limit: int) -> tuple[Workload, Workload]:
    model = open_model(spec, Overrides(limit=limit, dims={"hidden": 4}))
    instances = read_instances(model.data, limit)
    cell, op = (open_workload(model, instances, open_networks(model, g)) for g in ("cell", "op"))
    return cell, op


def results(workload: Workload, graph: Graph) -> dict[str, np.ndarray]:
    executor = ReferenceExecutor()
    executor.prepare(workload.network, init_params(workload.network, 0))
    result = executor.run_graph(graph)
    return {refs.name: result.values(refs.reference) for refs in graph.results}


@pytest.mark.parametrize("name", SPECS)
def test_operations_compute_what_cells_compute(root: Path, name: str) -> None:
    cell, op = both(root / "specs" / f"{name}.yaml", 3)
    coarse, fine = cell.graph(0, len(cell.instances)), op.graph(0, len(op.instances))
    for (one, x), (other, y) in zip(results(cell, coarse).items(), results(op, fine).items(), strict=True):
        assert one == other
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    for a, b in zip(coarse.results, fine.results, strict=True):
        assert (a.vertex == b.vertex).all()
        assert (a.instance == b.instance).all()
    topological_order(fine.dag)
    assert (np.sort(fine.dag.type) == fine.dag.type).all()
    for policy in ("depth", "agenda", "sufficient"):
        check_schedule(fine.dag, get_policy(policy).schedule(fine.dag))


@pytest.mark.parametrize("name", SPECS)
def test_every_operation_of_every_cell_is_a_node(root: Path, name: str) -> None:
    """Counted from the cells: operations, a lookup for each row read, a node for each output of a sum."""
    cell, op = both(root / "specs" / f"{name}.yaml", 3)
    graph = cell.graph(0, len(cell.instances))
    network = graph.network
    tables = {c for c, constant in enumerate(network.constants) if constant.kind == "table"}
    expected: Counter[str] = Counter()
    for node in range(len(graph)):
        net_type = network.types[graph.dag.type[node]]
        if net_type.cell is None:
            expected[str(net_type.reduction).split("[")[0]] += len(net_type.outputs)
            continue
        expected.update(o.name for o in net_type.cell.ops if o.name != "constant")
        references = graph.operand[graph.operand_ptr[node] : graph.operand_ptr[node + 1]].tolist()
        expected["lookup"] += sum(1 for r in references if r < 0 and network.constant_of(r)[0] in tables)
    fine = op.graph(0, len(op.instances))
    found: Counter[str] = Counter()
    for t, count in enumerate(np.diff(fine.type_ptr).tolist()):
        found[fine.dag.types[t].split("(")[0].split("[")[0]] += count
    assert {k: n for k, n in found.items() if n} == {k: n for k, n in expected.items() if n}


def test_types_are_shared_by_operations_that_can_be_batched_and_by_no_others(root: Path) -> None:
    _, op = both(root / "specs" / "treelstm-2type.yaml", 3)
    names = op.network.types
    assert len({t.name for t in names}) == len(names)
    tanh = [t for t in names if t.name.startswith("tanh")]
    assert len(tanh) == 1  # of leaf and both internal types: same operation, same shape, no parameter
    products = [t for t in names if t.name.startswith("matmul")]
    assert len({t.params for t in products}) == len(products)  # each product has a matrix of its own


def test_the_bound_at_op_granularity_counts_lookups_products_and_sums(root: Path) -> None:
    _, op = both(root / "specs" / "fig1.yaml", 1)
    graph = op.graph(0, 1)
    bound = dict(zip(graph.dag.types, lower_bound(graph.dag).tolist(), strict=True))
    assert bound["lookup(words)"] == 1
    assert max(v for k, v in bound.items() if k.startswith("tanh")) == 4  # the leaf's and three inner ones
