"""`abw bench cuda` whole, but for the GPU: the driver is a stub whose kernels run in the simulator."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abw.bench.cuda import bench as cuda
from abw.bench.cuda import rig as cuda_rig
from abw.bench.cuda.bench import (
    ENOUGH,
    bench_cuda,
    compile_all,
    fitted,
    in_order,
    judged,
    kernels_of,
    networks_of,
    quick_settings,
)
from abw.bench.cuda.rig import Rig
from abw.bench.cuda.table import PUBLISHED as LATENCIES
from abw.bench.cuda.table import beside_published, markdown
from abw.bench.workloads import CASES, Case, case, mini_batch
from abw.core.base.errors import AbwError
from abw.core.base.progress import Quiet
from abw.core.exec.cuda.backend import Scheme
from abw.core.exec.cuda.driver import gpu
from abw.core.exec.cuda.driver.compiled import SM_90
from abw.core.exec.cuda.driver.device import Device
from abw.core.exec.cuda.driver.driver import Driver
from abw.core.exec.cuda.driver.gpu import Gpu
from abw.core.exec.cuda.driver.toolkit import Toolkit
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.cuda.lowering import device_program
from abw.core.exec.cuda.measure import probe
from abw.core.exec.cuda.measure.costs import Costs, Times, costs_of
from abw.core.exec.cuda.measure.floor import PUBLISHED, Limits
from abw.core.exec.cuda.tiles import HOPPER, Forms
from tests.core.exec.cuda.conftest import toolkit as toolkit
from tests.core.exec.cuda.fakedriver import FakeLibrary
from tests.core.exec.cuda.simulated import SMALL

LIMITS = Limits(60e12, 4e12, 1e-6, 2e-6)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeLibrary:
    """A driver that runs kernels, and a bench as small as can be."""
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    made = FakeLibrary()
    monkeypatch.setattr(gpu, "compile_image", made.compile)
    monkeypatch.setattr(probe, "measure", lambda device: LIMITS)
    monkeypatch.setattr(cuda_rig, "CHECKED_INSTANCES", 1)
    monkeypatch.setattr(cuda_rig, "CHECKED_HIDDEN", 4)
    monkeypatch.setattr(cuda_rig, "IN_A_ROW", 1)
    monkeypatch.setattr(cuda_rig, "WARMING", 0.0)
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


def rig(library: FakeLibrary, data: Path, root: Path) -> Rig:
    return Rig(data, root / "specs", 1, Device(Driver(library), patience=0.05), small)


def run(library: FakeLibrary, data: Path, root: Path, **options: Any) -> dict[str, Any]:  # noqa: ANN401
    near = rig(library, data, root)
    trees = case("TreeLSTM")

    def call(method: str, *args: Any) -> Any:  # noqa: ANN401
        return getattr(near, method)(*args)

    settings = options.pop("settings", [(trees, 4, 1)])
    return bench_cuda(options.pop("call", call), [trees], settings, 1, Quiet(), **options)


def test_a_report_with_its_page(library: FakeLibrary, data: Path, root: Path) -> None:
    report = json.loads(json.dumps(run(library, data, root)))
    assert library.failed is None
    assert report["errors"].keys() == {"TreeLSTM"}
    assert report["errors"]["TreeLSTM"].keys() == {"batch", "plan"}
    assert not report["failures"]
    assert report["left_out"] == 0
    assert costs_of(Device(Driver(library)).traits).limits == LIMITS  # kept for later runs
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
    assert "| TreeLSTM | plan | 4 | 1 |" in page
    assert "Failed" not in page
    widths = {line.count("|") for line in page.splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_the_report_so_far_is_told_after_every_step(library: FakeLibrary, data: Path, root: Path) -> None:
    trees = case("TreeLSTM")
    pages: list[str] = []
    counts: list[tuple[int, int]] = []

    def tell(report: dict[str, Any]) -> None:
        pages.append(markdown(report))
        counts.append((sum(map(len, report["errors"].values())), len(report["rows"])))

    run(library, data, root, tell=tell, settings=[(trees, 8, 1), (trees, 4, 1)])
    assert counts == [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2)]
    assert all("There was no time" in page for page in pages[:-1])
    assert "There was no time" not in pages[-1]
    assert pages[-1].index("| TreeLSTM | plan | 4 | 1 |") < pages[-1].index("| TreeLSTM | plan | 8 | 1 |")


def test_no_row_begins_after_the_time_is_up(library: FakeLibrary, data: Path, root: Path) -> None:
    report = run(library, data, root, until=0.0)
    assert (report["rows"], report["left_out"]) == ([], 1)
    assert report["errors"]["TreeLSTM"].keys() == {"batch", "plan"}  # these are always checked
    assert "no time for 1 more" in markdown(report)


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
    monkeypatch.setattr(cuda_rig, "TORCH_DEVICE", "cpu")
    monkeypatch.setattr(cuda_rig, "_torch", lambda: (torch, "PyTorch on the processor"))
    (row,) = run(library, data, root)["rows"]
    assert row["torch_seconds"] == pytest.approx(4e-3)
    assert row["gain"] == pytest.approx(4)
    original = cuda_rig._same

    def strict(found: Any, expected: Any, whose: str, others: str) -> None:  # noqa: ANN401
        if whose == "by PyTorch":
            found = [value + 1 for value in found]
        original(found, expected, whose, others)

    monkeypatch.setattr(cuda_rig, "_same", strict)
    report = run(library, data, root)
    assert not report["rows"]
    assert "by PyTorch differ" in report["failures"][0]["error"]


def test_a_scheme_that_is_wrong_is_not_timed(
    library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = library._launch

    def without(cooperative: bool, *args: Any) -> int:  # noqa: ANN401
        library.simulate = not cooperative  # the kernel of a whole plan does nothing
        return launch(cooperative, *args)

    monkeypatch.setattr(library, "_launch", without)
    report = run(library, data, root)
    assert report["errors"]["TreeLSTM"].keys() == {"batch"}
    (failure,) = report["failures"]
    assert failure["what"] == "TreeLSTM, scheme plan, checked"
    assert "wrong by" in failure["error"]
    assert report["rows"][0]["schemes"].keys() == {"batch"}
    assert "TreeLSTM, scheme plan, checked" in markdown(report)
    monkeypatch.setattr(library, "_launch", lambda *args: 0)
    report = run(library, data, root)
    assert len(report["failures"]) == 2
    assert not report["rows"]


def test_timed_outputs_are_compared(
    library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = rig(library, data, root)
    blas = cuda_rig._blas
    monkeypatch.setattr(cuda_rig, "_blas", lambda *given: [value + 1 for value in blas(*given)])
    with pytest.raises(AbwError, match="scheme batch differ from those of blas"):
        near.timed("TreeLSTM", 4, 1, ("batch", "plan"), LIMITS)


def test_large_mini_batches_are_timed_without_tensor_cores_too(
    library: FakeLibrary, data: Path, root: Path
) -> None:
    used: list[bool] = []

    def make(on: Gpu, scheme: Scheme) -> CudaExecutor:
        tensor = on.forms.batch.tensor
        used.append(tensor)
        on.forms = Forms(replace(SMALL.batch, tensor=tensor), replace(SMALL.plan, tensor=tensor))
        return CudaExecutor(on, scheme)

    near = Rig(data, root / "specs", 1, Device(Driver(library), patience=0.05), make)
    row = near.timed("TreeLSTM", 4, 1, ("batch", "plan"), LIMITS, True)
    assert row["plain_seconds"] == row["schemes"]["batch"]["device_seconds"]
    assert used == [True, True, False]
    assert near.timed("TreeLSTM", 4, 1, ("batch",), LIMITS)["plain_seconds"] is None
    assert near.timed("TreeLSTM", 4, 1, ("plan",), LIMITS, True)["plain_seconds"] is None
    assert used[3:] == [True, True]
    trees = case("TreeLSTM")
    sizes = ((512, 64), (512, 256), (512, 1), (128, 256))
    networks = networks_of(root, [(trees, *both) for both in sizes], HOPPER)
    assert [(hidden, forms.batch.tensor) for _, hidden, forms in networks] == [
        (512, True),
        (512, False),
        (128, True),
    ]


def test_one_that_hangs_does_not_keep_the_others(
    library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [library, FakeLibrary()]
    near: list[Rig] = []

    def call(method: str, *args: Any) -> Any:  # noqa: ANN401
        """As with a process that is replaced once it failed; the first one hangs at its second check."""
        if not near:
            near.append(rig(made.pop(0), data, root))
        library.hangs = args == ("TreeLSTM", "plan")
        try:
            return getattr(near[0], method)(*args)
        except AbwError:
            near.clear()
            monkeypatch.setattr(gpu, "compile_image", made[0].compile)
            raise

    report = run(library, data, root, call=call)
    (failure,) = report["failures"]
    assert "kernel hangs" in failure["error"]
    assert report["rows"][0]["schemes"].keys() == {"batch"}


def test_a_gpu_that_cannot_be_measured_is_timed_all_the_same(
    library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(device: Device) -> Limits:
        raise AbwError("no clock")

    monkeypatch.setattr(probe, "measure", failed)
    report = run(library, data, root)
    assert report["limits"]["flops"] == PUBLISHED.flops
    assert [f["what"] for f in report["failures"]] == ["the GPU measured"]
    assert len(report["rows"]) == 1


def test_what_says_most_comes_first() -> None:
    settings = in_order(CASES, [128, 256, 512, 64], [1, 8, 64, 256, 2])
    assert len(set(settings)) == len(settings) == len(CASES) * 4 * 5
    assert [(c.name, h, b) for c, h, b in settings[:3]] == [
        ("TreeLSTM", 256, 64), ("LatticeLSTM", 256, 64), ("BiLSTM-Tagger", 256, 64)
    ]  # fmt: skip
    assert {(h, b) for _, h, b in settings[: 3 * len(CASES)]} == {(256, 64), (512, 64), (256, 8)}
    assert settings[-1][1:] == (64, 2)
    assert [(c.name, h, b) for c, h, b in quick_settings(CASES)] == [
        (c.name, h, b) for c, h, b in settings[:3]
    ]
    assert quick_settings(CASES[2:3]) == [(CASES[2], 256, 64)]


@pytest.mark.parametrize("name", [c.name for c in CASES])
def test_kernels_compiled_beforehand_are_those_that_are_run(shared_data: Path, root: Path, name: str) -> None:
    """The spec alone, of which they are made, says the same as with its data read."""
    planned, _ = mini_batch(name, root / "specs", shared_data, 2, 8)
    ahead = kernels_of(root / "specs" / case(name).spec, 8, HOPPER)
    assert ahead.text == device_program(planned.graph.network, HOPPER).text


def test_compiled_on_all_cores(
    toolkit: Toolkit, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    tiny = Case("tiny", "fig10.yaml", "")
    settings = [(tiny, 4, 1), (tiny, 4, 8), (Case("none", "none.yaml", ""), 4, 1)]
    made, (failure,) = compile_all(root / "specs", settings, SM_90, SMALL, Quiet())
    assert made == len(list((tmp_path / "kernels").glob("*.cubin"))) > len(probe.KERNELS)
    assert "none.yaml" in failure
    later = [(tiny, 8, 1)]
    assert compile_all(root / "specs", later, SM_90, SMALL, Quiet(), until=0.0) == (len(probe.KERNELS), [])


def dies(*given: object) -> int:
    """As when there is no memory for a process any more."""
    os._exit(9)


def test_compiling_goes_on_without_a_process_that_died(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_compile", dies)
    monkeypatch.setattr(probe, "compiled", lambda arch: {})
    settings = [(case("TreeLSTM"), hidden, 1) for hidden in range(4, 12)]
    made, (failure,) = compile_all(root / "specs", settings, SM_90, SMALL, Quiet())
    assert made == 0
    assert failure.startswith("compiling stopped")


def rows_of(batch: Times, plan: Times, noise: float = 0.0) -> list[dict[str, Any]]:
    """Rows of runs that take these times, within so much."""
    rng = np.random.default_rng(0)
    rows = []
    for items, phases, flops in (
        (30, 10, 10**7),
        (300, 100, 10**8),
        (40, 12, 10**10),
        (900, 210, 10**11),
    ) * 3:
        seconds = {
            "batch": (batch.step * items + batch.flop * flops) * rng.uniform(1 - noise, 1 + noise),
            "plan": (plan.step * phases + plan.flop * flops) * rng.uniform(1 - noise, 1 + noise),
        }
        rows.append(
            {
                "items": items,
                "phases": phases,
                "product_flops": flops,
                "device_seconds": min(seconds.values()),
                "schemes": {name: {"device_seconds": s} for name, s in seconds.items()},
            }
        )
    return rows


def test_the_schemes_times_are_told_from_rows() -> None:
    batch, plan = Times(3e-6, 2e-14), Times(4e-6, 6e-14)
    rows = rows_of(batch, plan)
    costs = fitted(rows, LIMITS)
    assert costs is not None
    for found, true in ((costs.batch, batch), (costs.plan, plan)):
        assert found is not None
        assert found.step == pytest.approx(true.step)
        assert found.flop == pytest.approx(true.flop)
    assert judged(rows, costs) == {"rows": len(rows), "wrong": 0, "loss": 0.0}
    rough = fitted(rows_of(batch, plan, 0.1), LIMITS)
    assert rough is not None
    assert rough.plan is not None
    assert rough.plan.flop == pytest.approx(plan.flop, rel=0.3)
    assert fitted(rows[: ENOUGH - 1], LIMITS) is None
    assert fitted([{**r, "schemes": {"plan": r["schemes"]["plan"]}} for r in rows], LIMITS) is None


def test_costs_that_choose_wrongly_are_told() -> None:
    rows = rows_of(Times(1e-6, 0.0), Times(4e-6, 0.0))  # the plan's is faster in every fourth one
    found = judged(rows, Costs(LIMITS, Times(1.0, 0.0), Times(0.0, 0.0)))
    assert (found["rows"], found["wrong"]) == (12, 9)
    assert found["loss"] == pytest.approx(40 / 30 - 1)


def test_fitted_times_are_kept_and_told(
    library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "ENOUGH", 1)
    report = run(library, data, root)
    costs = costs_of(Device(Driver(library)).traits)
    assert costs.plan is not None
    assert costs.limits == LIMITS
    assert report["choices"]["now"]["rows"] == 1
    assert "kept for later runs" in markdown(report)


def test_published_latencies_are_scaled_by_peaks() -> None:
    rows = [{"workload": "TreeLSTM", "hidden": 256, "batch": 8, "total_seconds": 1e-4}]
    found = beside_published([*rows, {**rows[0], "workload": "TreeGRU", "batch": 64}], 40.6e12)
    assert [(p["system"], p["milliseconds"]) for p in found] == [("ACRoBat", 1.48), ("Cortex", 0.79)]
    assert found[0]["scaled_seconds"] == pytest.approx(0.74e-3)
    assert found[0]["gain"] == pytest.approx(7.4)
    assert len({(p.system, p.card, p.hidden, p.batch) for p in LATENCIES}) == len(LATENCIES)
