"""Mini-batches on a GPU with too little memory: in pieces."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from abw.core.base.progress import Clock
from abw.core.exec.cuda.driver import gpu
from abw.core.exec.cuda.driver.device import Device
from abw.core.exec.cuda.driver.driver import Driver
from abw.core.exec.cuda.driver.gpu import Gpu
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.interface import TooLargeError
from abw.core.exec.params import init_params
from abw.core.policy.registry import get_policy
from abw.core.run.minibatches import run_all
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.core.exec.cuda.fakedriver import FakeLibrary
from tests.core.exec.cuda.simulated import SMALL

pytestmark = pytest.mark.simulated
TREES = 32


def run(root: Path, batch: int, memory: int) -> tuple[FakeLibrary, list[int]]:
    """The sizes of the pieces that mini-batches of `batch` trees are run in; nothing is computed."""
    model = open_model(root / "specs" / "treelstm.yaml", Overrides(batch=batch, dims={"hidden": 8}))
    networks = open_networks(model, "cell")
    workload = open_workload(model, read_instances(model.data, TREES), networks)
    library = FakeLibrary(memory=memory, simulate=False)
    clock = Clock("construct", "schedule", "plan", "execute")
    with patch.object(gpu, "compile_image", library.compile):
        made = Gpu(Device(Driver(library)))
        made.forms = SMALL
        executor = CudaExecutor(made, "plan")
        executor.prepare(workload.network, init_params(workload.network, 0))
        found = run_all(workload, get_policy("depth"), executor, clock)
        sizes = [batch.last - batch.first for batch, _ in found]
    assert library.failed is None
    assert len(library.launches) == len(sizes)
    return library, sizes


def test_what_does_not_fit_the_memory_runs_in_pieces(root: Path) -> None:
    small, sizes = run(root, 1, 1 << 30)
    assert sizes == [1] * TREES
    large, sizes = run(root, TREES, 1 << 30)
    assert sizes == [TREES]
    # what there was to spare is done without first
    least = next(m for m in range(large.most, 0, -large.most // 16) if len(run(root, TREES, m)[1]) > 1)
    assert least > small.most
    pieces, sizes = run(root, TREES, least)
    assert sum(sizes) == TREES
    assert pieces.most <= least
    with pytest.raises(TooLargeError, match="Simulated GPU"):
        run(root, TREES, small.most // 4)
