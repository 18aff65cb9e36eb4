"""The mini-batch that `--batch auto` takes."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Abilities, Array, Executor, Result, TooLargeError
from abw.core.exec.params import Params, init_params
from abw.core.exec.registry import get_executor
from abw.core.ir.network import Network
from abw.core.plan.plan import Plan, plan
from abw.core.policy.registry import get_policy
from abw.core.run.batchsize import GAIN, Tried, choose, needed_bytes, parse_bytes, try_sizes
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides


@pytest.fixture(scope="module")
def workload(root: Path) -> Workload:
    model = open_model(root / "specs/treelstm.yaml", Overrides())
    return open_workload(model, read_instances(model.data, None), open_networks(model, "cell"))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2G", 2 << 30),
        ("500M", 500 << 20),
        ("1.5GiB", 3 << 29),
        ("64 kB", 64 << 10),
        ("7", 7),
        ("1T", 1 << 40),
    ],
)
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "G", "2X", "-1G", "0", "0.0001K", "1,5G"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(AbwError, match="not an amount of memory"):
        parse_bytes(text)


@given(
    rates=st.lists(st.floats(1, 1e6), min_size=1, max_size=8),
    sizes=st.lists(st.integers(1, 1000), min_size=8, max_size=8),
    limit=st.integers(1, 1000),
)
def test_the_smallest_that_is_nearly_the_best_of_those_that_fit(
    rates: list[float], sizes: list[int], limit: int
) -> None:
    tried = [Tried(1 << k, rate, sizes[k]) for k, rate in enumerate(rates)]
    fit = {t.batch: t.instances_per_second for t in tried if t.bytes <= limit}
    if not fit:
        with pytest.raises(AbwError, match="one instance needs"):
            choose(tried, limit)
        return
    chosen = choose(tried, limit)
    assert fit[chosen] >= (1 - GAIN) * max(fit.values())
    assert all(rate < (1 - GAIN) * max(fit.values()) for b, rate in fit.items() if b < chosen)


@pytest.mark.parametrize("name", ["blas", "cpu"])
def test_sizes_that_are_tried(workload: Workload, name: str) -> None:
    executor = get_executor(name)
    executor.prepare(workload.network, init_params(workload.network, 0), 1)
    tried = try_sizes(workload, 40, get_policy("critical"), executor)
    assert [t.batch for t in tried] == [1, 2, 4, 8, 16, 32]
    assert all(t.instances_per_second > 0 for t in tried)
    assert all(a.bytes < b.bytes for a, b in pairwise(tried[2:]))


class Device(Executor):
    """An executor that leaves the processor free: it is done when its results are read, 20 ms later."""

    name = "cuda"
    abilities = Abilities(overlaps=True)

    def __init__(self, workload: Workload, most: int) -> None:
        self.inner = get_executor("cpu")
        self.inner.prepare(workload.network, init_params(workload.network, 0), 1)
        self.most = most

    def prepare(self, network: Network, params: Params, threads: int | None = None) -> None:
        self.inner.prepare(network, params, threads)

    def update(self, params: Params, rows: Any = None) -> None:  # noqa: ANN401
        self.inner.update(params, rows)

    def run(self, plan: Plan) -> Result:
        if plan.graph.instances > self.most:
            raise TooLargeError(2, 1, "device")
        result = self.inner.run(plan)

        def read(references: NDArray[np.integer[Any]]) -> Array:
            time.sleep(0.02)
            return result.read(references)

        return replace(result, read=read)


def test_on_a_device_whole_mini_batches_are_timed(workload: Workload) -> None:
    tried = try_sizes(workload, 40, get_policy("critical"), Device(workload, 16))
    assert [t.batch for t in tried] == [1, 2, 4, 8, 16]  # what does not fit is not tried
    for t in tried:
        # no mini-batch takes less than the wait for its outputs
        assert t.instances_per_second <= t.batch / 0.02
    assert choose(tried, max(t.bytes for t in tried)) >= 8
    with pytest.raises(TooLargeError):
        try_sizes(workload, 40, get_policy("critical"), Device(workload, 0))


def test_the_reference_has_no_best(workload: Workload) -> None:
    with pytest.raises(AbwError, match="runs node by node"):
        try_sizes(workload, 4, get_policy("depth"), get_executor("reference"))


def test_what_a_mini_batch_needs_is_what_it_takes(workload: Workload) -> None:
    """Within a factor of two of what is alive at most while it is made and run."""
    executor = get_executor("cpu")
    executor.prepare(workload.network, init_params(workload.network, 0), 1)
    policy = get_policy("critical")

    def made(count: int) -> int:
        graph = workload.graph(0, count)
        planned = plan(graph, policy.schedule(graph.dag))
        executor.run(planned)
        return needed_bytes(planned)

    made(4)
    tracemalloc.start()
    needed = made(48)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert needed / 2 < peak < 2 * needed


def test_types_that_the_sample_does_not_have(root: Path, tmp_path: Path) -> None:
    (tmp_path / "leaves.txt").write_text("(2 It)\n(3 works)\n")
    model = open_model(root / "specs/treelstm.yaml", Overrides(data=tmp_path / "leaves.txt"))
    found = open_workload(model, read_instances(model.data, None), open_networks(model, "cell"))
    executor = get_executor("blas")
    executor.prepare(found.network, init_params(found.network, 0), 1)
    tried = try_sizes(found, 2, get_policy("depth"), executor)
    assert [t.batch for t in tried] == [1, 2]
    assert np.isfinite([t.instances_per_second for t in tried]).all()
