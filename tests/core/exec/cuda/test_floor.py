"""The floor against what graphs say, on random networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.cell.normal import size_of
from abw.core.exec.cuda.measure.costs import Limits, demand, floor
from abw.core.graph.graph import Graph
from abw.core.ir.network import LISTED
from abw.core.plan.plan import Plan, plan
from tests.core.exec.builder import fused_graph, random_graph, random_network, random_schedule


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    nodes = draw(st.integers(1, 25))
    graph = fused_graph(rng, nodes) if draw(st.booleans()) else random_graph(rng, random_network(rng), nodes)
    return plan(graph, random_schedule(rng, graph))


def references(graph: Graph, node: int, slot: int, slots: int) -> list[int]:
    """What flows into a slot of a node, with lists written out."""
    found = graph.operand[graph.operand_ptr[node] : graph.operand_ptr[node + 1]].tolist()
    links = len(found) // slots
    mine = found[slot * links : (slot + 1) * links]
    out: list[int] = []
    for r in mine:
        if r <= LISTED:
            number = LISTED - r
            out += graph.list_operand[graph.list_ptr[number] : graph.list_ptr[number + 1]].tolist()
        else:
            out.append(r)
    return out


@given(plans())
def test_every_value_is_read_once_a_batch_and_results_are_written(planned: Plan) -> None:
    graph, schedule = planned.graph, planned.schedule
    asked = demand(planned)
    assert asked.flops.sum() == planned.product_flops + planned.other_flops
    for b, t in enumerate(schedule.type.tolist()):
        kind = graph.network.types[t]
        nodes = schedule.nodes[schedule.ptr[b] : schedule.ptr[b + 1]]
        floats = len(nodes) * sum(size_of(port.shape) for port in kind.outputs)
        for s, slot in enumerate(kind.slots):
            read = {r for v in nodes.tolist() for r in references(graph, v, s, len(kind.slots))}
            floats += len(read) * size_of(slot.shape)
        assert asked.bytes[b] == 4 * floats


@given(plans())
def test_the_floor_is_the_longer_of_the_two_batch_by_batch(planned: Plan) -> None:
    asked, batches = demand(planned), len(planned.schedule)
    free = 1e30
    assert floor(planned, Limits(free, free, 2.0, 9.0)) == pytest.approx(2.0 * batches)
    arithmetic, bytes_ = asked.flops.sum() / 3.0, asked.bytes.sum() / 5.0
    assert floor(planned, Limits(3.0, free, 0.0, 9.0)) == pytest.approx(arithmetic)
    assert floor(planned, Limits(free, 5.0, 0.0, 9.0)) == pytest.approx(bytes_)
    both = floor(planned, Limits(3.0, 5.0, 0.0, 9.0))
    assert max(arithmetic, bytes_) <= both * (1 + 1e-12)
    assert both <= (arithmetic + bytes_) * (1 + 1e-12)
    assert both == pytest.approx(sum(map(max, zip(asked.flops / 3, asked.bytes / 5, strict=True))))
