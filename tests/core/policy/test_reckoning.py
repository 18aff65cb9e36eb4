"""What scheduling is reckoned to take."""

from __future__ import annotations

import numpy as np
import pytest

from abw.core.graph.dag import Dag
from abw.core.policy.learned.choice import BEAMS, SINGLE
from abw.core.policy.learned.learner import BEST_OF
from abw.core.policy.learned.trying import choose
from abw.core.policy.reckoning import Size, seconds_of
from abw.core.policy.registry import REVERSED
from tests.core.policy import graphs


@pytest.mark.parametrize("name", [*SINGLE, *BEAMS, "phases", *(f"fsm-{e}" for e in BEST_OF)])
def test_more_of_anything_takes_longer(name: str) -> None:
    size = Size(4, 10_000, 20)
    taken = seconds_of(name, size, 500)
    assert taken > 0
    for more in (size._replace(graphs=400), size._replace(work=20_000), size._replace(types=2000)):
        assert seconds_of(name, more, 500) >= taken
    assert seconds_of(name, size, 50_000) >= taken
    if not name.endswith(REVERSED) and name not in ("phases", *(f"fsm-{e}" for e in BEST_OF)):
        assert seconds_of(f"{name}{REVERSED}", size, 500) > taken


def test_types_times_batches_count() -> None:
    few, many = Size(4, 40_000, 4), Size(4, 40_000, 300)
    assert seconds_of("share-free", many, 8000) > 10 * seconds_of("share-free", few, 800)
    assert seconds_of("depth", many, 8000) < 2 * seconds_of("depth", few, 8000)


def trees(count: int, types: int) -> Dag:
    """Small random graphs."""
    return graphs.random_dag(count, 12, types, 0.2)


def test_small_mini_batches_with_cheap_launches_go_by_depth() -> None:
    held = [trees(k, 3) for k in range(20)]
    cheap, dear = (choose([trees(99, 3)], held, launch=price) for price in (1e-9, 1e-3))
    assert cheap.picked.name == "depth"
    assert (dear.picked.batches or 0) < (cheap.picked.batches or 0)
    assert np.isclose(
        cheap.picked.scheduling, seconds_of("depth", cheap.held.size(3), cheap.picked.batches or 0)
    )
