"""An instance's outputs have the same bits whatever it is batched with, in any order, on any threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.exec.cpu import launch, partition
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.interface import Executor
from abw.core.exec.params import init_params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.policy.registry import get_policy
from abw.core.run.minibatches import planned
from abw.core.run.workload import Workload, load_workload, open_model
from abw.core.spec.load import Overrides
from tests.conftest import ROOT

SPECS = ("treelstm", "lattice", "mvrnn", "dag")
POLICIES = ("depth", "agenda", "sufficient", "critical")
HIDDEN = 20
MOST = 64

# Not blas: which kernel of a BLAS multiplies, and in what order it adds, depends on the number of rows.
EXECUTORS: dict[str, Callable[[], Executor]] = {
    "cpu": CpuExecutor,
    "reference": ReferenceExecutor,
}


@cache
def workload(spec: str, *, fuse: bool = False) -> Workload:
    model = open_model(ROOT / "specs" / f"{spec}.yaml", Overrides(dims={"hidden": HIDDEN}, limit=MOST))
    return load_workload(model, "cell", fuse=fuse)


@cache
def executor(spec: str, name: str, threads: int, *, fuse: bool = False) -> Executor:
    found = EXECUTORS[name]()
    network = workload(spec, fuse=fuse).network
    found.prepare(network, init_params(network, 0), threads if threads > 1 else None if name != "cpu" else 1)
    return found


def outputs(
    spec: str, name: str, windows: list[tuple[int, int]], policy: str, threads: int = 1, *, fuse: bool = False
) -> list[bytes]:
    """The bits of each instance's outputs, run in these mini-batches."""
    found = []
    ready = executor(spec, name, threads, fuse=fuse)
    with patch.object(partition, "APART_FLOPS", 0), patch.object(launch, "TOGETHER_FLOPS", 0):
        for first, last in windows:
            batch = planned(workload(spec, fuse=fuse), get_policy(policy), ready, first, last)
            result = ready.run(batch.plan)
            columns = [(refs, np.asarray(result.values(refs.reference))) for refs in batch.graph.results]
            found += [
                b"".join(values[refs.instance == i].tobytes() for refs, values in columns)
                for i in range(last - first)
            ]
    return found


@cache
def alone(spec: str, name: str, *, fuse: bool = False) -> list[bytes]:
    count = len(workload(spec, fuse=fuse).instances)
    return outputs(spec, name, [(i, i + 1) for i in range(count)], "depth", fuse=fuse)


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=12)
@given(
    st.sampled_from(["cpu", "cpu", "reference"]),
    st.sampled_from([1, 2]),
    st.sampled_from(POLICIES),
    st.lists(st.integers(1, MOST), max_size=4),
    st.booleans(),
)
def test_an_instance_is_the_same_in_every_company(
    spec: str, name: str, threads: int, policy: str, cuts: list[int], fuse: bool
) -> None:
    count = len(workload(spec, fuse=fuse).instances)
    ends = sorted({0, count, *(c for c in cuts if c < count)})
    windows = list(pairwise(ends))
    shared = threads if name == "cpu" else 1
    assert outputs(spec, name, windows, policy, shared, fuse=fuse) == alone(spec, name, fuse=fuse)


@pytest.mark.parametrize("name", EXECUTORS)
@pytest.mark.parametrize("size", [8, 64])
def test_mini_batches_of_usual_sizes(size: int, name: str) -> None:
    count = len(workload("treelstm").instances)
    windows = [(first, min(first + size, count)) for first in range(0, count, size)]
    assert outputs("treelstm", name, windows, "agenda") == alone("treelstm", name)
