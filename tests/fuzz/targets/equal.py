"""Random graphs of special numbers without equal nodes: compared with a dictionary, and by values."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from abw.core.exec.params import init_params
from abw.core.exec.reference import ReferenceExecutor
from tests.core.exec.builder import random_graph, random_network
from tests.core.graph.test_dedup import expanded, random_equal
from tests.fuzz.target import target


def _seed(rng: Random, cases: Any, number: int) -> int:  # noqa: ANN401
    return rng.getrandbits(32)


@target("equal-nodes", lambda: [0, 1, 2], damage=_seed)
def equal(case: int, folder: Path) -> None:
    rng = np.random.default_rng(case)
    network = random_network(rng)
    divided, masked = rng.integers(0, 2, 2).astype(bool).tolist()
    nodes = random_graph(rng, network, int(rng.integers(60)))
    graph, made = random_equal(rng, nodes, divided=divided, masked=masked)
    executor = ReferenceExecutor()
    executor.prepare(network, init_params(network, case))
    outputs = [(t, o) for t, of in enumerate(network.types) for o in range(len(of.outputs))]
    with np.errstate(all="ignore"):
        whole, fewer = executor.run_graph(graph), executor.run_graph(made)
        found = expanded(made, [np.array(fewer.value(t, o)) for t, o in outputs])
        for (t, o), value in zip(outputs, found, strict=True):
            expected = np.array(whole.value(t, o))
            assert np.array_equal(value, expected, equal_nan=True)
            there = ~np.isnan(expected)
            assert np.array_equal(np.signbit(value[there]), np.signbit(expected[there]))
