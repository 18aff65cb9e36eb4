"""`abw calibrate`, and `abw compare --cost` with what it wrote, as a user meets them."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Abw

LATTICE = ("specs/lattice.yaml", "--limit", "16", "-q")


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
