"""`abw compare` as a user meets it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tests.cli.conftest import Abw

LATTICE = ("compare", "specs/lattice.yaml", "--batch", "16", "--trials", "60")


def test_the_document_for_scripts(abw: Abw) -> None:
    done = abw(*LATTICE, "--policies", "depth,fsm", "--train-limit", "8", "--skip", "8", "--json")
    assert done.code == 0, done.err
    report = done.json()
    assert report["schema_version"] == 1
    assert report["nodes"] > report["lower_bound"] > 0
    assert [p["policy"] for p in report["policies"]] == ["depth", "fsm"]
    keys = {"policy", "batches", "ratio", "ns_per_node", "states", "train_seconds"}
    assert all(keys <= p.keys() for p in report["policies"])
    checked = abw("check", "specs/lattice.yaml", "--batch", "16", "--json").json()
    assert report["instances"] == checked["instances"] - 8


def test_the_table_names_every_policy_and_its_numbers(abw: Abw) -> None:
    flags = (*LATTICE, "--batches", "1,4", "--seeds", "2", "--fuse")
    report, shown = abw(*flags, "--json").json(), abw(*flags).out
    names = [p["policy"] for p in report["policies"]]
    assert names == ["depth", "agenda", "sufficient", "phases", "critical", "search", "auto", "fsm"]
    table = {line.split()[0]: line.split() for line in shown.split("\n\n")[1].splitlines()}
    for p in report["policies"]:
        assert f"{p['ratio']:.3f}" in table[p["policy"]]
        assert f"{p['worst_ratio']:.3f}" in table[p["policy"]]
    assert "after fuse" in shown
    assert "trials" in shown


def test_the_plot_is_svg(abw: Abw, tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    done = abw(*LATTICE, "--policies", "fsm-base,agenda", "--batches", "1,2", "--plot", str(path))
    assert done.code == 0, done.err
    said = {"".join(t.itertext()) for t in ElementTree.fromstring(path.read_text()).iter() if t.text}
    assert {"fsm-base", "agenda", "lower bound", "trials", "instances in a mini-batch"} <= said


def test_nothing_to_plot_is_said(abw: Abw, tmp_path: Path) -> None:
    done = abw(*LATTICE, "--policies", "agenda", "--plot", str(tmp_path / "plot.svg"))
    assert done.code == 1
    assert "--batches" in done.err


def test_wrong_lists_are_usage_errors(abw: Abw) -> None:
    done = abw(*LATTICE, "--policies", "agnda")
    assert done.code == 2
    assert "agenda" in done.err
    done = abw(*LATTICE, "--batches", "1,x")
    assert done.code == 2
    assert "1,8,32" in done.err


def test_a_search_says_what_is_proven_and_ratios_can_be_to_the_tight_bound(abw: Abw) -> None:
    flags = (*LATTICE, "--policies", "depth,exact,critical-reversed,auto", "--bound", "tight")
    report, shown = abw(*flags, "--json").json(), abw(*flags).out
    found = {p["policy"]: p for p in report["policies"]}
    assert report["lower_bound"] <= report["tight_bound"] <= found["exact"]["batches"]
    assert found["exact"]["at_least"] <= found["exact"]["batches"] <= found["auto"]["batches"]
    assert found["depth"]["at_least"] is None
    assert f"no schedule has fewer than {report['tight_bound']} batches" in shown
    assert f"{found['depth']['batches'] / report['tight_bound']:.3f}" in shown
    assert f"auto ({found['auto']['picked']})" in shown
    optimal = [
        n for n, p in found.items() if p["batches"] == max(report["tight_bound"], found["exact"]["at_least"])
    ]
    rows = {line.split()[0]: line for line in shown.splitlines() if "(optimal)" in line}
    assert set(rows) == set(optimal)
