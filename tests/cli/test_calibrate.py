"""`abw calibrate`, and `abw compare --cost` with what it wrote, as a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.exec.cuda import available
from abw.core.exec.cuda.driver.device import Device
from abw.core.exec.cuda.driver.driver import Driver
from abw.core.exec.cuda.measure import probe
from abw.core.exec.cuda.measure.costs import PUBLISHED
from tests.cli.conftest import Abw
from tests.core.exec.cuda.fakedriver import FakeLibrary

LATTICE = ("specs/lattice.yaml", "--limit", "16")


def test_measured_costs_are_compared(abw: Abw, tmp_path: Path) -> None:
    path = tmp_path / "cost.yaml"
    done = abw("calibrate", *LATTICE, "-o", str(path))
    assert done.code == 0, done.err
    assert f"costs: {path}" in done.out
    assert path.read_text(encoding="utf-8").count("{launch:") == 4
    names = ("agenda", "critical-free", "search")
    report = abw("compare", *LATTICE, "--policies", ",".join(names), "--cost", str(path), "--json").json()
    costs = {p["policy"]: p["cost"] for p in report["policies"]}
    assert report["cost"] == str(path)
    assert 0 < report["least_cost"] * (1 - 1e-9) <= costs["search"] <= costs["critical-free"]
    shown = abw("compare", *LATTICE, "--policies", "agenda,search", "--cost", str(path))
    assert f"{costs['search']:.4g}" in shown.out
    assert shown.out.index("search  ") < shown.out.index("agenda  ")  # the cheapest first


def test_wrong_costs_and_executors(abw: Abw, tmp_path: Path) -> None:
    path = tmp_path / "cost.yaml"
    path.write_text("chars: {launch: 1}\n", encoding="utf-8")
    wrong = abw("compare", *LATTICE, "--cost", str(path))
    assert wrong.code == 1
    assert "did you mean 'char'" in wrong.err
    path.write_text("default: {launch: 1}\n", encoding="utf-8")
    assert abw("compare", *LATTICE, "--cost", str(path), "--group").code == 2
    done = abw("calibrate", *LATTICE, "-o", str(path), "--executor", "blass")
    assert done.code == 2
    assert "did you mean 'blas'" in done.err
    assert abw("calibrate", *LATTICE).code == 2


def test_a_gpu_is_measured_without_a_spec(abw: Abw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "cost.yaml")
    refused = abw("calibrate", *LATTICE, "-o", path, "--device", "cuda")
    assert refused.code == 2
    assert "without a spec" in refused.err
    assert abw("calibrate", "-o", path).code == 2
    device = Device(Driver(FakeLibrary()))
    monkeypatch.setattr(available, "open_device", lambda: device)
    monkeypatch.setattr(probe, "measure", lambda on: PUBLISHED)
    done = abw("calibrate", "--device", "cuda")
    assert done.code == 0, done.err
    assert "Simulated GPU: 61.8 TFLOP/s" in done.out
    report = abw("calibrate", "--device", "cuda", "--json").json()
    assert Path(report["path"]).is_file()
    assert report["path"] in done.out
