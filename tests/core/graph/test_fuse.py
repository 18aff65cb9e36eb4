"""Fused reductions against their meaning in plain Python, on random graphs; what passes gain on real data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import Span
from abw.core.exec.params import init_params
from abw.core.graph.bounds import lower_bound, topological_order
from abw.core.graph.dag import Dag
from abw.core.graph.fuse import fuse, fuse_network
from abw.core.graph.graph import Graph, ResultRefs
from abw.core.graph.group import group_types
from abw.core.ir.model import Table
from abw.core.ir.network import Constant, Network, Slot
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.core.exec.builder import lstm, make_network, random_graph, random_network, reference
from tests.core.policy import brute

seeds = st.integers(0, 10**6)


def random_case(seed: int, nodes: int) -> Graph:
    """A random graph; some cells' values, a constant, and often a reduction's values are results."""
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    reductions = [t for t, net_type in enumerate(network.types) if net_type.reduction]
    asked = [t for t in reductions if rng.integers(3) == 0]
    network = replace(network, outputs=(("y", tuple((t, 0) for t in (0, *asked))),))
    graph = random_graph(rng, network, nodes)
    own = np.flatnonzero(np.isin(graph.dag.type, (0, *asked))).astype(np.int32)
    refs = np.append(own * network.width, -1).astype(np.int32)
    own = np.append(own, 0).astype(np.int32)
    return replace(graph, results=(ResultRefs("y", refs, own, own),))


def naive_gone(network: Network) -> set[str]:
    """The reductions that only cells read, none of them beside one of another kind."""

    def readers(t: int) -> list[tuple[int, int]]:
        return [
            (u, s)
            for u, net_type in enumerate(network.types)
            for s, slot in enumerate(net_type.slots)
            if any(p == t for p, _ in slot.producers)
        ]

    alone = {
        t
        for t, net_type in enumerate(network.types)
        if net_type.reduction in ("sum", "mean", "max")
        and readers(t)
        and all(network.types[u].cell for u, _ in readers(t))
        and not any(t == p for _, pairs in network.outputs for p, _ in pairs)
    }
    mixed = set()
    for t in alone:
        for u, s in readers(t):
            beside = {p for p, _ in network.types[u].slots[s].producers} & alone
            if len({network.types[p].reduction for p in beside}) > 1:
                mixed |= beside
    return {network.types[t].name for t in alone - mixed}


def naive_reads(graph: Graph, gone: set[str]) -> dict[int, list[list[int]]]:
    """For each node that stays, what each of its slots reads: references of values of nodes that stay."""
    network = graph.network
    operands = [
        graph.operand[graph.operand_ptr[v] : graph.operand_ptr[v + 1]].tolist() for v in range(len(graph))
    ]
    found = {}
    for v, own in enumerate(operands):
        net_type = network.types[graph.dag.type[v]]
        if net_type.name in gone:
            continue
        if net_type.reduction:
            found[v] = [[r] for r in own]
            continue
        found[v] = []
        for r in own:
            u, output = divmod(r, network.width)
            if r >= 0 and network.types[graph.dag.type[u]].name in gone:
                links = len(operands[u]) // len(network.types[graph.dag.type[u]].slots)
                found[v].append(operands[u][output * links : (output + 1) * links])
            else:
                found[v].append([r])
    return found


@given(seeds, st.integers(0, 25))
def test_cells_read_what_the_reductions_did(seed: int, nodes: int) -> None:
    graph = random_case(seed, nodes)
    fusion = fuse_network(graph.network)
    gone = naive_gone(graph.network)
    names = [t.name for t in graph.network.types]
    assert {n for n, g in zip(names, fusion.gone, strict=True) if g} == gone
    assert [t.name for t in fusion.network.types] == [n for n in names if n not in gone]
    fused, expected = fuse(graph, fusion), naive_reads(graph, gone)
    width = graph.network.width
    old = sorted(expected)
    assert [fused.dag.types[t] for t in fused.dag.type] == [names[graph.dag.type[v]] for v in old]
    assert np.diff(fused.type_ptr).tolist() == [
        n for n, name in zip(np.diff(graph.type_ptr), names, strict=True) if name not in gone
    ]
    assert fused.vertex.tolist() == graph.vertex[old].tolist()
    assert fused.instance.tolist() == graph.instance[old].tolist()

    def back(r: int) -> int:
        return old[r // width] * width + r % width if r >= 0 else r

    for v in range(len(fused)):
        own = fused.operand[fused.operand_ptr[v] : fused.operand_ptr[v + 1]].tolist()
        assert [[back(r) for r in fused.values_of(o)] for o in own] == expected[old[v]]
        producers = {back(r) // width for o in own for r in fused.values_of(o) if r >= 0}
        assert {old[u] for u in brute.producers(fused.dag)[v]} == producers
    for refs, before in zip(fused.results, graph.results, strict=True):
        assert [back(r) for r in refs.reference.tolist()] == before.reference.tolist()
    topological_order(fused.dag)
    assert lower_bound(fused.dag).sum() <= lower_bound(graph.dag).sum()


@given(seeds, st.integers(0, 25))
def test_slots_may_read_all_that_they_do(seed: int, nodes: int) -> None:
    graph = random_case(seed, nodes)
    fused = fuse(graph, fuse_network(graph.network))
    network = fused.network
    for v in range(len(fused)):
        t = fused.dag.type[v]
        for slot, r in zip(network.types[t].slots, fused.operand[fused.operand_ptr[v] :], strict=False):
            if network.types[t].reduction:
                continue
            values = fused.values_of(int(r))
            assert len(values) == 1 or slot.reduction
            for value in values:
                if value >= 0:
                    u, o = divmod(value, network.width)
                    assert (int(fused.dag.type[u]), o) in slot.producers
                else:
                    assert network.constant_of(value)[0] in slot.constants


@given(seeds, st.integers(0, 25))
def test_every_value_stays_the_same(seed: int, nodes: int) -> None:
    graph = random_case(seed, nodes)
    fusion = fuse_network(graph.network)
    fused = fuse(graph, fusion)
    params = init_params(graph.network, seed)
    with np.errstate(all="ignore"):
        found, expected = reference(fused, params), reference(graph, params)
    for number, t in enumerate(np.flatnonzero(~fusion.gone).tolist()):
        for o in range(len(graph.network.types[t].outputs)):
            assert np.array_equal(found.value(number, o), expected.value(t, o), equal_nan=True)
    for refs, before in zip(fused.results, graph.results, strict=True):
        for r, old in zip(refs.reference.tolist(), before.reference.tolist(), strict=True):
            values = found.values(np.array([r])), expected.values(np.array([old]))
            assert np.array_equal(*values, equal_nan=True)


def chain_of(kinds: tuple[str, str], outputs: tuple[tuple[int, int], ...] = ()) -> Network:
    """A cell that reads two reductions of words in one slot."""
    constants = (Constant("table", 0, (3,), 0, 4),)
    table = Table("words", 4, (3,), None, None, Span("test", 1))
    words = Slot("x", (3,), (), (0,))
    both = Slot("x", (3,), ((1, 0), (2, 0)), (0,))
    types = [("a", lstm(3), None, (both, words, words))]
    types += [(f"r{i}", None, kind, (words,)) for i, kind in enumerate(kinds)]  # type: ignore[misc]
    return replace(make_network(types, (table,), constants, []), outputs=(("y", outputs),))


def test_a_slot_takes_one_kind_of_reduction() -> None:
    assert fuse_network(chain_of(("sum", "sum"))).gone.tolist() == [False, True, True]
    assert fuse_network(chain_of(("sum", "sum"))).network.types[0].slots[0].reduction == "sum"
    mixed = fuse_network(chain_of(("sum", "max")))
    assert not mixed.gone.any()
    assert mixed.network is mixed.source


def test_what_is_asked_for_stays() -> None:
    fusion = fuse_network(chain_of(("max", "max"), ((2, 0),)))
    assert fusion.gone.tolist() == [False, True, False]
    assert fusion.network.outputs == (("y", ((1, 0),)),)
    assert fusion.network.types[0].slots[0].producers == ((1, 0),)


CASES = [
    # spec, data; nodes and bound: as they are, fused, grouped, both
    ("lattice", "lattice/train.txt", (7955, 208), (6660, 149), (7955, 165), (6660, 106)),
    ("lattice-gru", "lattice/train.txt", (7955, 208), (6660, 149), (7955, 165), (6660, 106)),
    ("treelstm-2type", "trees/train.txt", (5192, 28), (5192, 28), (5192, 26), (5192, 26)),
]


@pytest.mark.parametrize(("spec", "data", "plain", "fused", "grouped", "both"), CASES)
def test_what_they_gain_on_real_data(
    root: Path,
    shared_data: Path,
    spec: str,
    data: str,
    plain: tuple[int, int],
    fused: tuple[int, int],
    grouped: tuple[int, int],
    both: tuple[int, int],
) -> None:
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(data=shared_data / data, seed=0))
    workload = open_workload(model, read_instances(model.data, 64), open_networks(model, "cell"))
    graph, fusion = workload.graph(0, 64), fuse_network(workload.network)
    groups, of_fused = group_types(workload.network), group_types(fusion.network)
    without = fuse(graph, fusion).dag

    def seen(dag: Dag) -> tuple[int, int]:
        return len(dag), int(lower_bound(dag).sum())

    assert seen(graph.dag) == plain
    assert seen(without) == fused
    assert seen(groups.apply(graph.dag)) == grouped
    assert seen(of_fused.apply(without)) == both
