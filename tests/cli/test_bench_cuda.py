"""`abw bench cuda` whole, but for the GPU: the driver is a stub whose kernels run in the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abw.cli.bench import cuda as bench
from abw.cli.bench.cuda import bench_cuda
from abw.cli.bench.cuda_table import PUBLISHED, beside_published, markdown
from abw.cli.bench.workloads import case
from abw.core.errors import AbwError
from abw.core.exec.cuda import gpu, probe
from abw.core.exec.cuda.backend import Scheme
from abw.core.exec.cuda.device import Device
from abw.core.exec.cuda.driver import Driver
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.cuda.floor import Limits
from abw.core.exec.cuda.gpu import Gpu
from abw.core.progress import Quiet
from tests.cli.conftest import Abw
from tests.core.exec.cuda.fakedriver import FakeLibrary
from tests.core.exec.cuda.simulated import SMALL

LIMITS = Limits(60e12, 4e12, 1e-6, 2e-6)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    """A driver that runs kernels, and a bench as small as can be."""
    made = FakeLibrary()
    monkeypatch.setattr(gpu, "compile_image", made.compile)
    monkeypatch.setattr(probe, "measure", lambda device: LIMITS)
    monkeypatch.setattr(bench, "CHECKED_INSTANCES", 1)
    monkeypatch.setattr(bench, "CHECKED_HIDDEN", 8)
    monkeypatch.setattr(bench, "WARMING", 1)
    return made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """One tree."""
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "train.txt").write_text("(3 (2 It) (3 works))\n")
    return tmp_path


def small(on: Gpu, scheme: Scheme) -> CudaExecutor:
    on.forms = SMALL
    return CudaExecutor(on, scheme)


def run(library: FakeLibrary, data: Path, root: Path) -> dict[str, Any]:
    return bench_cuda(
        data, root / "specs", [case("TreeLSTM")], [8], [1], 1, Device(Driver(library)), Quiet(),
        small,
    )  # fmt: skip


def test_a_report_with_its_page(library: FakeLibrary, data: Path, root: Path) -> None:
    report = json.loads(json.dumps(run(library, data, root)))
    assert library.failed is None
    assert report["errors"].keys() == {"TreeLSTM"}
    assert report["errors"]["TreeLSTM"].keys() == {"batch", "plan"}
    (row,) = report["rows"]
    assert row["torch_seconds"] is None
    assert "GPU" in report["torch"] or "not installed" in report["torch"]
    assert row["schemes"]["plan"]["device_seconds"] == pytest.approx(1e-3)  # one launch, of 1 ms
    assert row["schemes"]["batch"]["device_seconds"] > 2e-3
    assert row["scheme"] == "plan"
    assert row["of_floor"] == pytest.approx(row["device_seconds"] / row["floor_seconds"])
    assert row["floor_seconds"] >= LIMITS.barrier * row["batches"]
    page = markdown(report)
    assert "Simulated GPU" in page
    assert "| TreeLSTM | plan | 8 | 1 |" in page
    widths = {line.count("|") for line in page.splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_beside_pytorch(
    library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch")

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None: ...

        def synchronize(self) -> None: ...

        def elapsed_time(self, end: Event) -> float:
            return 4.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(bench, "TORCH_DEVICE", "cpu")
    monkeypatch.setattr(bench, "_torch", lambda: (torch, "PyTorch on the processor"))
    (row,) = run(library, data, root)["rows"]
    assert row["torch_seconds"] == pytest.approx(4e-3)
    assert row["gain"] == pytest.approx(4)
    monkeypatch.setattr(bench, "TORCH_TOLERANCE", 0.0)
    with pytest.raises(AbwError, match="differ from PyTorch"):
        run(library, data, root)


def test_wrong_outputs_are_not_timed(
    library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.simulate = False
    with pytest.raises(AbwError, match="TreeLSTM: scheme batch is wrong"):
        run(library, data, root)


def test_published_latencies_are_scaled_by_peaks() -> None:
    rows = [{"workload": "TreeLSTM", "hidden": 256, "batch": 8, "total_seconds": 1e-4}]
    found = beside_published([*rows, {**rows[0], "workload": "TreeGRU", "batch": 64}], 40.6e12)
    assert [(p["system"], p["milliseconds"]) for p in found] == [("ACRoBat", 1.48), ("Cortex", 0.79)]
    assert found[0]["scaled_seconds"] == pytest.approx(0.74e-3)
    assert found[0]["gain"] == pytest.approx(7.4)
    assert len({(p.system, p.card, p.hidden, p.batch) for p in PUBLISHED}) == len(PUBLISHED)


def test_without_a_gpu_the_command_says_what_is_missing(
    abw: Abw, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from abw.core.exec.cuda import available

    monkeypatch.setattr(available, "load_driver", lambda: None)
    done = abw("bench", "cuda", "--data", str(data), "--workloads", "TreeLSTM")
    assert done.code == 1
    assert "no NVIDIA driver" in done.err
    assert "580" in done.err
