"""`abw bench cuda` whole, but for the GPU: the driver is a stub whose kernels run in the simulator."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abw.bench.executors import cuda, rig
from abw.bench.executors.cuda import (
    ENOUGH,
    LATENCIES,
    bench_cuda,
    beside_published,
    compile_all,
    fitted,
    in_order,
    kernels_of,
    quick_settings,
    raising,
)
from abw.bench.executors.rig import Rig
from abw.bench.rows import Row
from abw.bench.workloads import CASES, Case, case, mini_batch
from abw.core.base.errors import AbwError
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
from abw.core.exec.cuda.measure.costs import Limits, Times, costs_of
from abw.core.exec.cuda.tiles import HOPPER, Forms
from tests.bench.conftest import Tables, by_table
from tests.cli.conftest import Abw, Outcome
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
    monkeypatch.setattr(rig, "CHECKED_INSTANCES", 1)
    monkeypatch.setattr(rig, "CHECKED_HIDDEN", 4)
    monkeypatch.setattr(rig, "IN_A_ROW", 1)
    monkeypatch.setattr(rig, "WARMING", 0.0)
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


def near(library: FakeLibrary, data: Path, root: Path) -> Rig:
    return Rig(data, root / "specs", 1, Device(Driver(library), patience=0.05), small)


def run(library: FakeLibrary, data: Path, root: Path, **options: Any) -> Tables:  # noqa: ANN401
    """The rows of a bench of one setting by table; notes are rows of the table 'notes'."""
    on, trees = near(library, data, root), case("TreeLSTM")

    def call(method: str, *args: Any) -> Any:  # noqa: ANN401
        return getattr(on, method)(*args)

    rows = list(bench_cuda(options.pop("call", call), [trees], [(trees, 4, 1)], **options))
    notes = [Row("notes", text=row) for row in rows if isinstance(row, str)]
    return by_table(row for row in [*rows, *notes])


def test_rows_of_a_setting(library: FakeLibrary, data: Path, root: Path) -> None:
    found = run(library, data, root)
    assert library.failed is None
    assert [(row["workload"], row["scheme"]) for row in found["checked"]] == [
        ("TreeLSTM", "batch"),
        ("TreeLSTM", "plan"),
    ]
    assert "failed" not in found
    assert costs_of(Device(Driver(library)).traits).limits == LIMITS  # kept for later runs
    (row,) = found["timed"]
    assert row["torch_seconds"] is None
    assert "GPU" in found["notes"][0]["text"]
    assert row["scheme"] == "plan"
    assert row["device_seconds"] == pytest.approx(1e-3)  # one launch, of 1 ms
    assert row["other_scheme_seconds"] > 2e-3
    assert row["over_floor_times"] == pytest.approx(row["device_seconds"] / row["floor_seconds"])
    assert row["floor_seconds"] >= LIMITS.barrier * row["batches"]


def test_no_row_begins_after_the_time_is_up(library: FakeLibrary, data: Path, root: Path) -> None:
    found = run(library, data, root, until=0.0)
    assert len(found["checked"]) == 2 and "timed" not in found  # these are always checked
    assert "no time for 1 more" in found["notes"][-1]["text"]


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
    monkeypatch.setattr(rig, "TORCH_DEVICE", "cpu")
    monkeypatch.setattr(rig, "_torch", lambda: (torch, "PyTorch on the processor"))
    (row,) = run(library, data, root)["timed"]
    assert (row["torch_seconds"], row["over_torch_times"]) == pytest.approx((4e-3, 4))
    original = rig._same

    def strict(found: Any, expected: Any, whose: str) -> None:  # noqa: ANN401
        original([value + 1 for value in found] if whose == "by PyTorch" else found, expected, whose)

    monkeypatch.setattr(rig, "_same", strict)
    found = run(library, data, root)
    assert "timed" not in found
    assert "by PyTorch differ" in found["failed"][0]["error"]


def test_a_scheme_that_is_wrong_is_not_timed(
    library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = library._launch

    def without(cooperative: bool, *args: Any) -> int:  # noqa: ANN401
        library.simulate = not cooperative  # the kernel of a whole plan does nothing
        return launch(cooperative, *args)

    monkeypatch.setattr(library, "_launch", without)
    found = run(library, data, root)
    assert [row["scheme"] for row in found["checked"]] == ["batch"]
    (failure,) = found["failed"]
    assert failure["what"] == "TreeLSTM, scheme plan, checked"
    assert "wrong by" in failure["error"]
    assert (found["timed"][0]["scheme"], found["timed"][0]["other_scheme_seconds"]) == ("batch", None)
    monkeypatch.setattr(library, "_launch", lambda *args: 0)
    found = run(library, data, root)
    assert len(found["failed"]) == 2 and "timed" not in found


def test_timed_outputs_are_compared(
    library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on, expected = near(library, data, root), rig._run
    monkeypatch.setattr(rig, "_run", lambda *given: [value + 1 for value in expected(*given)])
    with pytest.raises(AbwError, match="scheme batch differ from those of blas"):
        on.timed("TreeLSTM", 4, 1, ("batch", "plan"), LIMITS)


def test_one_that_hangs_does_not_keep_the_others(
    library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [library, FakeLibrary()]
    rigs: list[Rig] = []

    def call(method: str, *args: Any) -> Any:  # noqa: ANN401
        """As with a process that is replaced once it failed; the first one hangs at its second check."""
        if not rigs:
            rigs.append(near(made.pop(0), data, root))
        library.hangs = args == ("TreeLSTM", "plan")
        try:
            return getattr(rigs[0], method)(*args)
        except AbwError:
            rigs.clear()
            monkeypatch.setattr(gpu, "compile_image", made[0].compile)
            raise

    found = run(library, data, root, call=call)
    (failure,) = found["failed"]
    assert "kernel hangs" in failure["error"]
    assert [row["scheme"] for row in found["timed"]] == ["batch"]


def test_a_gpu_that_cannot_be_measured_is_timed_all_the_same(
    library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(device: Device) -> Limits:
        raise AbwError("no clock")

    monkeypatch.setattr(probe, "measure", failed)
    found = run(library, data, root)
    assert [row["what"] for row in found["failed"]] == ["the GPU measured"]
    assert len(found["timed"]) == 1


def test_the_most_informative_settings_come_first() -> None:
    settings = in_order(CASES, [128, 256, 512, 64], [1, 8, 64, 256, 2])
    assert len(set(settings)) == len(settings) == len(CASES) * 4 * 5
    assert [(c.name, h, b) for c, h, b in settings[:3]] == [
        ("TreeLSTM", 256, 64), ("LatticeLSTM", 256, 64), ("BiLSTM-Tagger", 256, 64)
    ]  # fmt: skip
    assert {(h, b) for _, h, b in settings[: 3 * len(CASES)]} == {(256, 64), (512, 64), (256, 8)}
    assert settings[-1][1:] == (64, 2)
    assert quick_settings(CASES) == settings[:3]
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
    found = by_table(compile_all(root / "specs", settings, SM_90, SMALL))
    made = sum(row["kernels"] for row in found["compiled"])
    assert made == len(list((tmp_path / "kernels").glob("*.cubin"))) > len(probe.KERNELS)
    assert ["none.yaml" in row["error"] for row in found["failed"]] == [True]
    late = by_table(compile_all(root / "specs", [(tiny, 8, 1)], SM_90, SMALL, until=0.0))
    assert [row["kernels"] for row in late["compiled"]] == [len(probe.KERNELS)]


def dies(*given: object) -> int:
    """As when there is no memory for a process any more."""
    os._exit(9)


def test_compiling_goes_on_without_a_process_that_died(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_compile", dies)
    monkeypatch.setattr(probe, "compiled", lambda arch: {})
    settings = [(case("TreeLSTM"), hidden, 1) for hidden in range(4, 12)]
    found = by_table(compile_all(root / "specs", settings, SM_90, SMALL))
    assert [row["kernels"] for row in found["compiled"]] == [0]
    assert found["failed"][0]["error"].startswith("stopped")


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
        rows.append({"items": items, "phases": phases, "product_flops": flops, "schemes": seconds})
    return rows


def test_the_schemes_times_follow_from_rows() -> None:
    batch, plan = Times(3e-6, 2e-14), Times(4e-6, 6e-14)
    rows = rows_of(batch, plan)
    costs = fitted(rows, LIMITS)
    assert costs is not None
    for found, true in ((costs.batch, batch), (costs.plan, plan)):
        assert found is not None
        assert (found.step, found.flop) == pytest.approx((true.step, true.flop))
    rough = fitted(rows_of(batch, plan, 0.1), LIMITS)
    assert rough is not None
    assert rough.plan is not None
    assert rough.plan.flop == pytest.approx(plan.flop, rel=0.3)
    assert fitted(rows[: ENOUGH - 1], LIMITS) is None
    assert fitted([{**r, "schemes": {"plan": r["schemes"]["plan"]}} for r in rows], LIMITS) is None


def test_fitted_times_are_kept(
    library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "ENOUGH", 1)
    found = run(library, data, root)
    costs = costs_of(Device(Driver(library)).traits)
    assert costs.plan is not None
    assert costs.limits == LIMITS
    assert "times fitted to these 1 rows" in found["notes"][-1]["text"]


def test_published_latencies_are_scaled_by_peaks() -> None:
    row = {"workload": "TreeLSTM", "hidden": 256, "batch": 8, "with_copies_seconds": 1e-4}
    assert not [
        *beside_published({**row, "workload": "TreeGRU"}, 1.0),
        *beside_published({**row, "batch": 9}, 1.0),
    ]
    found = list(beside_published(row, 40.6e12))
    assert [(p["system"], p["published_seconds"]) for p in found] == [
        ("ACRoBat", 1.48e-3),
        ("Cortex", 0.79e-3),
    ]
    assert (found[0]["scaled_by_peaks_seconds"], found[0]["ahead_times"]) == pytest.approx((0.74e-3, 7.4))
    assert {len(latencies) for latencies in LATENCIES.values()} == {4}


def test_failures_are_an_error_at_the_end() -> None:
    rows = raising(row for row in (Row("timed", n=1), Row("failed", n=1), "note"))
    assert [next(rows), next(rows), next(rows)] == [{"n": 1}, {"n": 1}, "note"]
    with pytest.raises(AbwError, match="1 of the steps failed"):
        next(rows)


@pytest.fixture
def command(
    abw: Abw, library: FakeLibrary, data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """`abw bench cuda` on the stub, in this process."""

    class Near:
        def __init__(self, make: Callable[..., Rig], *args: object, seconds: float) -> None:
            self.rig = make(*args, Device(Driver(library), patience=0.05), small)

        def call(self, method: str, *args: object) -> object:
            return getattr(self.rig, method)(*args)

        def close(self) -> None: ...

    monkeypatch.setattr(cuda, "Apart", Near)
    monkeypatch.setattr(cuda, "open_device", lambda: Device(Driver(library)))
    monkeypatch.setattr(cuda, "compile_all", lambda *given: iter(()))
    options = ("--workloads", "TreeLSTM", "--hidden", "4", "--batch", "1", "--runs", "1", "-q")
    return lambda *more: abw("bench", "cuda", "--data", str(data), *options, *more)


@pytest.mark.parametrize(("flags", "used"), [((), True), (("--no-tensor-cores",), False)])
def test_the_command(
    command: Callable[..., Outcome], flags: tuple[str, ...], used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Forms] = []
    measured = Rig.measured

    def compiling(specs: Path, networks: Any, arch: Any, forms: Forms, *more: Any) -> Any:  # noqa: ANN401
        asked.append(forms)
        return iter(())

    def measuring(on: Rig) -> Limits:
        asked.append(on._gpu.forms)
        return measured(on)

    monkeypatch.setattr(cuda, "compile_all", compiling)
    monkeypatch.setattr(Rig, "measured", measuring)
    done = command("--json", *flags)
    assert done.code == 0, done.err
    assert [row["table"] for row in done.json()["rows"]] == ["GPU", "checked", "checked", "timed"]
    assert [forms.batch.tensor for forms in asked] == [used, used]


def test_the_command_fails_where_a_part_of_it_does(
    command: Callable[..., Outcome], library: FakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, wrong = library._launch, [True]

    def first(*args: Any) -> int:  # noqa: ANN401
        library.simulate = not wrong
        wrong.clear() if len(library.launches) > 4 else None
        return launch(*args)

    monkeypatch.setattr(library, "_launch", first)
    done = command()
    assert done.code == 1
    assert "TreeLSTM, scheme batch, checked" in done.out and "timed: workload" in done.out
    assert "1 of the steps failed" in done.err


def test_without_a_gpu_the_command_says_what_is_missing(
    abw: Abw, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abw.core.exec.cuda.available.load_driver", lambda: None)
    done = abw("bench", "cuda", "--data", str(data), "--workloads", "TreeLSTM")
    assert done.code == 1
    assert "no NVIDIA driver" in done.err
    assert "580" in done.err
