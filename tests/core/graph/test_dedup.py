"""Equal nodes found by the pass, compared with a dictionary; values with and without it, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from abw.core.exec.params import init_params
from abw.core.exec.registry import get_executor
from abw.core.graph.bounds import topological_order
from abw.core.graph.equal.dedup import dedup
from abw.core.graph.equal.numbering import keys_of
from abw.core.graph.graph import Graph
from abw.core.ir.network import Granularity, Network
from abw.core.plan.check import check_plan
from abw.core.plan.plan import plan
from abw.core.policy.check import check_schedule
from abw.core.policy.rules.depth import Depth
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.core.exec.builder import random_graph, random_network, special_rows

seeds = st.integers(0, 10**6)
SPECS = [
    str(path.relative_to("specs").with_suffix(""))
    for path in [*sorted(Path("specs").glob("*.yaml")), *sorted(Path("specs/plans").glob("*.yaml"))]
    if "\ndata:" in path.read_text() and "\ngrow:" not in path.read_text()
]


def opened(spec: str, granularity: Granularity = "cell", count: int = 24) -> Workload:
    small = {"hidden": 8} if spec.startswith("plans/") else {}
    model = open_model(Path(f"specs/{spec}.yaml"), Overrides(dims=small))
    networks = open_networks(model, granularity)
    return open_workload(model, read_instances(model.data, count), networks)


def by_dictionary(graph: Graph, apart: set[int], part: NDArray[np.int32]) -> list[int]:
    """For each node the first one, by number in a search through its operands, with an equal key."""
    network, width = graph.network, graph.network.width
    stands: dict[int, int] = {}
    found: dict[object, int] = {}

    def key(v: int) -> object:
        t = int(graph.dag.type[v])
        values: list[object] = []
        for r in graph.operand[graph.operand_ptr[v] : graph.operand_ptr[v + 1]].tolist():
            if r >= 0:
                values.append(("node", stands[r // width], r % width))
                continue
            number, row = network.constant_of(r)
            here = network.given.index(number) if number in network.given else -1
            values.append((number, row if here < 0 else graph.given[here][row].tobytes()))
        slots = len(network.types[t].slots)
        if network.types[t].reduction == "sum" and len(values) == 2 * slots:
            values = [frozenset((a, b)) for a, b in zip(values[::2], values[1::2], strict=True)]
        return v if t in apart else (t, int(part[graph.instance[v]]), tuple(values))

    for v in topological_order(graph.dag).tolist():
        stands[v] = found.setdefault(key(v), v)
    return [stands[v] for v in range(len(graph))]


def nodes_of(made: Graph) -> list[int]:
    """The node that stands for each node as constructed."""
    assert made.distinct
    found: list[int] = made.distinct.nodes(made.type_ptr).tolist()
    return found


def check(graph: Graph, made: Graph, apart: set[int], part: NDArray[np.int32]) -> None:
    """Nodes are one exactly where the dictionary says so; each reads what those that it stands for read."""
    of, expected = nodes_of(made), by_dictionary(graph, apart, part)
    pairs = set(zip(of, expected, strict=True))
    assert len(pairs) == len(set(of)) == len(set(expected)) == len(made)
    width = graph.network.width
    for v, now in enumerate(of):
        assert graph.dag.type[v] == made.dag.type[now]
        before = graph.operand[graph.operand_ptr[v] : graph.operand_ptr[v + 1]].tolist()
        behind = made.operand[made.operand_ptr[now] : made.operand_ptr[now + 1]].tolist()
        renamed = [of[r // width] * width + r % width if r >= 0 else r for r in before]
        fields = set(graph.network.given)
        if not any(r < 0 and graph.network.constant_of(r)[0] in fields for r in before):
            assert renamed == behind or sorted(renamed) == sorted(behind)
    for old, new in zip(graph.results, made.results, strict=True):
        expect = [of[r // width] * width + r % width if r >= 0 else r for r in old.reference.tolist()]
        assert new.reference.tolist() == expect
        assert np.array_equal(new.vertex, old.vertex) and np.array_equal(new.instance, old.instance)
    rebuilt = {(u, v) for u in range(len(made)) for v in made.dag.succ[slice(*made.dag.succ_ptr[u : u + 2])]}
    reads = {
        (int(r) // width, v)
        for v in range(len(made))
        for r in made.operand[made.operand_ptr[v] : made.operand_ptr[v + 1]]
        if r >= 0
    }
    assert rebuilt == reads


def values(graph: Graph, network: Network) -> list[NDArray[np.float32]]:
    """What the executor cpu computes at every node, with the schedule and the plan checked."""
    executor = get_executor("cpu")
    executor.prepare(network, init_params(network, 3), 1)
    schedule = Depth().schedule(graph.dag)
    check_schedule(graph.dag, schedule)
    made = plan(graph, executor.arrange(graph, schedule))
    check_plan(graph, made)
    result = executor.run(made)
    return [result.value(t, o).copy() for t, of in enumerate(network.types) for o in range(len(of.outputs))]


def expanded(made: Graph, found: list[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
    """The values of the nodes as constructed."""
    assert made.distinct
    several, number = [], 0
    for t, of in enumerate(made.network.types):
        place = made.distinct.place[slice(*made.distinct.type_ptr[t : t + 2])]
        for _ in of.outputs:
            several.append(found[number][place])
            number += 1
    return several


@given(seeds, st.integers(0, 60), st.booleans(), st.booleans())
def test_random_graphs(seed: int, nodes: int, divided: bool, masked: bool) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    random_equal(rng, random_graph(rng, network, nodes), divided=divided, masked=masked)


def random_equal(
    rng: np.random.Generator, graph: Graph, *, divided: bool, masked: bool
) -> tuple[Graph, Graph]:
    """A graph with instances and special numbers, and without equal nodes, which are checked."""
    network, instance = graph.network, rng.integers(0, 3, len(graph)).astype(np.int32)
    graph = replace(graph, instances=3, instance=instance, given=special_rows(rng, network))
    part = np.array([0, 1, 0], np.int32) if divided else None
    apart = rng.integers(0, 2, len(network.types)).astype(bool) if masked else None
    made = dedup(graph, keys_of(network), apart, part)
    of_types = set(np.flatnonzero(apart).tolist()) if apart is not None else set()
    check(graph, made, of_types, part if part is not None else np.zeros(3, np.int32))
    return graph, made


@pytest.mark.parametrize("spec", SPECS)
def test_shipped_models_have_the_same_bits(spec: str) -> None:
    workload = opened(spec)
    graph = workload.graph(0, len(workload.instances))
    made = dedup(graph, keys_of(graph.network, workload.binding.program.edges))
    check(graph, made, set(), np.zeros(graph.instances, np.int32))
    for a, b in zip(values(graph, graph.network), expanded(made, values(made, graph.network)), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("spec", ["treelstm", "lattice", "gat"])
def test_granularity_op_has_the_same_bits(spec: str) -> None:
    workload = opened(spec, "op", 4)
    graph = workload.graph(0, len(workload.instances))
    made = dedup(graph, keys_of(graph.network))
    check(graph, made, set(), np.zeros(graph.instances, np.int32))
    for a, b in zip(values(graph, graph.network), expanded(made, values(made, graph.network)), strict=True):
        assert a.tobytes() == b.tobytes()
