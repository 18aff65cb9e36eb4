"""Which instances a policy is chosen by, where some have no nodes."""

from __future__ import annotations

import numpy as np
import pytest

from abw.core.graph.dag import Dag, build_dag
from abw.core.run.learning import Asked, NoNodesError, choose_from, train


def chains(sizes: list[int]) -> Dag:
    """A chain of one type for each of these numbers of nodes."""
    ends = np.cumsum(sizes)
    node = np.arange(sum(sizes), dtype=np.int32)
    follows = ~np.isin(node, [0, *ends.tolist()])
    return build_dag(("a",), np.zeros(len(node), np.int32), node[follows] - 1, node[follows])


@pytest.mark.parametrize("sizes", [[0, 3], [3, 0], [0, 0, 2, 0], [4]])
def test_instances_without_nodes_are_no_obstacle(sizes: list[int]) -> None:
    found = choose_from(lambda first, last: chains(sizes[first:last]), len(sizes), Asked(batch=1))
    assert found.held.nodes == max(sizes)
    assert not found.held.apart


def test_no_nodes_at_all_are_told() -> None:
    with pytest.raises(NoNodesError, match="the first 2 instances have no nodes") as error:
        choose_from(lambda first, last: chains([0, 0][first:last]), 2, Asked(batch=1))
    assert "--policy critical" in str(error.value.hint)
    with pytest.raises(NoNodesError):
        train(lambda first, last: chains([0, 0][first:last]), 2, "best", 0)


@pytest.mark.parametrize("sizes", [[0, 3], [3, 0]])
def test_an_fsm_is_learned_where_half_of_the_instances_have_no_nodes(sizes: list[int]) -> None:
    policy = train(lambda first, last: chains(sizes[first:last]), 2, "base", 0, trials=20)
    assert len(policy.schedule(chains(sizes))) == 3
