"""Random graphs of special numbers without equal nodes: compared with a dictionary, and by values."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from abw.core.exec.params import init_params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.core.exec.builder import random_graph, random_network
from tests.core.graph.test_dedup import expanded, random_equal
from tests.core.run.growing.runs import GROWING, SPECS, check_equal_nodes, ready
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


@target("equal-nodes-growing", lambda: [0, 1, 2], damage=_seed)
def growing(case: int, folder: Path) -> None:
    """Instances of few words, so that many nodes are equal, grow as with all nodes."""
    rng = Random(case)
    spec = SPECS / f"{rng.choice([name for name in GROWING if name != 'early-exit'])}.yaml"
    executor = rng.choice(("cpu", "reference"))
    lines = []
    for _ in range(rng.randint(1, 6)):
        words = [rng.choice(("the", "in", "dogs")) for _ in range(rng.randint(1, 4))]
        sentence = f"<s> {' '.join(words)} </s>"
        pairs = "format: pairs" in spec.read_text(encoding="utf-8")
        lines.append(f"{sentence} ||| {sentence}" if pairs else " ".join(f"{word}|O" for word in words))
    data = folder / "data.txt"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    changes = Overrides(data=data, dims={"hidden": rng.choice((4, 8))}, allow_outside=True)
    model = open_model(spec, changes)
    workload = open_workload(model, read_instances(model.data, None), open_networks(model, "cell"))
    threads = rng.choice((1, 2)) if executor == "cpu" else None
    check_equal_nodes(workload, ready(workload, executor, init_params(workload.network, case), threads))
