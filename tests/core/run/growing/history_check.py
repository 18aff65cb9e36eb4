"""A mini-batch's history beside what the second, slow grower has seen of each instance."""

from __future__ import annotations

import math

import numpy as np

from abw.core.graph.growing.history.history import History, history
from abw.core.graph.growing.history.margins import DROPPED, ENDED, MADE, WON
from abw.core.ir.growth import Decision
from abw.core.run.growing.grown import Grown
from abw.core.run.workload import Workload
from tests.core.run.growing.oracle import Oracle, Vertex


def check_history(workload: Workload, made: Grown, oracles: list[Oracle]) -> None:
    """Rounds, choices, scores, what came second, what was cut."""
    assert workload.growing is not None and workload.model.growth is not None
    found = history(workload.growing.growth_model, made.ended, made.result.nodes, made.result.values)
    vertices = [(i, v) for i, oracle in enumerate(oracles) for v in oracle.vertices]
    assert found.rounds == made.rounds == max(oracle.rounds for oracle in oracles)
    assert found.instance.tolist() == [i for i, _ in vertices]
    assert found.round.tolist() == [v.born + 1 for _, v in vertices]
    assert found.index.tolist() == [v.index for _, v in vertices]
    assert [found.kinds[k] for k in found.kind] == [v.kind for _, v in vertices]
    assert {(found.kinds[k], i, r) for k, i, r in found.cut.tolist()} == {
        (kind, i, r) for i, oracle in enumerate(oracles) for kind, r in oracle.cut.items()
    }
    assert (np.diff(found.made_in) >= 0).all()
    ends = [oracle.rounds for oracle in oracles]
    assert found.growing.tolist() == [sum(end >= r for end in ends) for r in range(1, found.rounds + 1)]
    _check_nodes(workload, made, found)
    kinds = {kind.name: kind for kind in workload.model.growth.kinds}
    known = [decision for kind in kinds.values() for decision in kind.decisions]
    assert (found.decisions, found.hows) == (tuple(d.name for d in known), tuple(d.how for d in known))
    expected = {
        (d, n)
        for d, decision in enumerate(known)
        for n, (_, v) in enumerate(vertices)
        if any(v.kind in kind.kinds and decision in kind.decisions for kind in kinds.values())
    }
    assert set(zip(found.decision.tolist(), found.vertex.tolist(), strict=True)) == expected
    for row in range(len(found.decision)):
        instance, vertex = vertices[found.vertex[row]]
        _check_row(known[found.decision[row]], oracles[instance], vertex, found, row)


def _check_nodes(workload: Workload, made: Grown, found: History) -> None:
    """What reads a node of another vertex is computed in no earlier round."""
    graph, phases = made.graph, workload.growing.growth_model.phases  # type: ignore[union-attr]
    source = np.repeat(np.arange(len(graph)), np.diff(graph.dag.succ_ptr))
    assert (found.node_round[source] <= found.node_round[graph.dag.succ]).all()
    during = np.isin(graph.dag.type, phases.during)
    assert (found.node_round[during] == found.round[graph.vertex[during]]).all()


def _check_row(decision: Decision, oracle: Oracle, vertex: Vertex, found: History, row: int) -> None:
    chosen, second = int(found.chosen[row]), int(found.second[row])
    score, other = float(found.score[row]), float(found.second_score[row])
    if decision.how == "best":
        _check_pick(decision, oracle, vertex, found, row)
        return
    assert (chosen, found.fate[row]) == (vertex.fields[decision.name], MADE)
    if decision.how == "chance":
        likely = decision.limit if chosen == 1 else 1 - decision.limit
        assert second == 1 - chosen
        np.testing.assert_allclose([score, other], [likely, 1 - likely], 1e-6)
        return
    scores = oracle.value(decision.type, vertex)[decision.output].tolist()
    if decision.how == "over":
        assert (second, np.float32(other)) == (1 - chosen, np.float32(decision.limit))
        np.testing.assert_allclose(score, scores[0], 1e-5, 1e-6)
        return
    allowed = oracle._allowed(decision, vertex, len(scores))
    if decision.how == "sample" and allowed:
        whole = sum(math.exp(scores[i]) for i in allowed)
        scores = [math.exp(s) / whole for s in scores]
    assert (chosen in allowed) == (chosen >= 0) == bool(allowed)
    rest = [i for i in allowed if i != chosen]
    assert (second in rest) == (second >= 0) == bool(rest)
    np.testing.assert_allclose(score, scores[chosen] if chosen >= 0 else np.nan, 1e-5, 1e-6)
    np.testing.assert_allclose(other, max((scores[i] for i in rest), default=np.nan), 1e-5, 1e-6)


def _check_pick(decision: Decision, oracle: Oracle, vertex: Vertex, found: History, row: int) -> None:
    here = (found.decision == found.decision[row]) & (found.vertex == found.vertex[row])
    chosen, fate = int(found.chosen[row]), int(found.fate[row])
    scores = oracle.value(decision.type, vertex)[decision.output].tolist()
    allowed = oracle._allowed(decision, vertex, len(scores))
    assert (chosen in allowed) == (chosen >= 0) == bool(allowed)
    before = vertex.pick.total if vertex.pick else 0.0
    top = max((scores[i] for i in allowed), default=0.0)
    whole = math.log(sum(math.exp(scores[i] - top) for i in allowed)) if allowed else 0.0
    total = {i: before + scores[i] - top - whole for i in allowed} | {-1: before}
    np.testing.assert_allclose(float(found.score[row]), total[chosen], 1e-5, 1e-5)
    rest = [i for i in allowed if i not in found.chosen[here]]
    if fate == DROPPED:
        assert (here.sum(), found.second[row]) == (1, -1)
        assert total[chosen] >= max((total[i] for i in allowed), default=before) - 1e-5
        assert not any(v.pick and v.pick.vertex is vertex for v in oracle.vertices)
        return
    best = max((total[i] for i in rest), default=np.nan)
    np.testing.assert_allclose(float(found.second_score[row]), best, 1e-5, 1e-5)
    # the likeliest hypothesis chose this here, where the decision says so in the end
    assert (fate == WON) == (vertex.fields[decision.name] == chosen >= 0) or chosen < 0
    if fate == ENDED:  # vertices of other kinds may add some of its own kind in later rounds
        added = [v for v in oracle.vertices if v.kind == vertex.kind and v.born == vertex.born + 1]
        assert not any(v.pick and v.pick.vertex is vertex and v.pick.number == chosen for v in added)
