"""The benchmarks that run whole workloads: ablation, peers, paper. On the data that ships."""

from __future__ import annotations

import itertools
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from abw.bench.executors.launch import bench_launch
from abw.bench.executors.passes import bench_passes
from abw.bench.graphs.quality import bench_unseen
from abw.bench.systems import STEPS, System, Taken, chosen_cases, preset, side_by_side
from abw.bench.whole import paper
from abw.bench.whole.ablation import bench_ablation
from abw.bench.whole.paper import PARTS, SYSTEMS, bench_paper
from abw.bench.whole.peers import PEERS, bench_peers
from abw.bench.workloads import CASES, case
from abw.cli.bench.paper_tables import SHOWN, tables
from abw.core.base.errors import AbwError
from abw.core.base.interrupts import STOP
from abw.core.base.progress import Quiet
from tests.cli.conftest import Abw


@pytest.fixture(scope="module")
def data(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small data that ships, under the names of the real data."""
    folder = tmp_path_factory.mktemp("data")
    for chosen in CASES:
        target = folder / chosen.data
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(root / "specs/data" / f"{target.parent.name}.txt", target)
    return folder


def test_a_system_runs_the_mini_batches_it_is_told(root: Path, data: Path) -> None:
    system = System(case("TreeLSTM"), preset("abw"), root / "specs", data, 8, 3, 4)
    taken = system.run()
    assert taken.instances == 12
    assert taken.seconds.keys() == set(STEPS)
    assert taken.total == pytest.approx(sum(taken.seconds.values()))
    assert taken.instances_per_second * taken.total == pytest.approx(12)
    again = side_by_side({"one": system, "two": system}, 3)
    assert all(t.batches == taken.batches and t.launches == taken.launches for t in again.values())


def test_the_ablation_shows_each_part(root: Path, data: Path) -> None:
    rows = bench_ablation(root / "specs", data, "latticelstm,TreeLSTM", [8], [4], 1, Quiet())["rows"]
    lattice = [r for r in rows if r["workload"] == "LatticeLSTM"]
    assert len(lattice) == 36
    assert not any(r["fuse"] for r in rows if r["workload"] == "TreeLSTM")
    assert not any(r["hoist"] for r in rows if r["workload"] == "TreeLSTM")

    def one(**wanted: object) -> dict[str, Any]:
        usual = {
            "executor": "blas",
            "policy": "fsm sort",
            "layout": "planned",
            "hoist": False,
            "fuse": False,
        } | wanted
        (found,) = (r for r in lattice if all(r[k] == v for k, v in usual.items()))
        assert isinstance(found, dict)
        return found

    assert one(layout="declared")["memory_kernels"] > one()["memory_kernels"]
    assert one(policy="agenda-static")["batches"] > one()["batches"]
    assert one(fuse=True)["batches"] < one()["batches"]
    assert one(executor="cpu")["memory_kernels"] == 0
    assert one(policy="agenda-static", layout="declared")["speedup"] == 1


def test_the_limit_is_above_what_is_reached(root: Path, data: Path) -> None:
    report = bench_peers(root / "specs", data, "TreeGRU", 16, 4, 2, [1, 2], 2, Quiet())
    assert [(r["workload"], r["threads"]) for r in report["rows"]] == [("TreeGRU", 1), ("TreeGRU", 2)]
    for row in report["rows"]:
        assert 0 < row["share_of_limit"] < 1
        assert row["peers"] is None  # theirs are of size 128 and mini-batches of 64
    assert PEERS.keys() == {c.name for c in CASES}


def test_a_workload_that_is_none() -> None:
    assert chosen_cases(None) == CASES
    with pytest.raises(AbwError, match="no workload is called 'TreeLSTMs'") as raised:
        chosen_cases("MV-RNN,TreeLSTMs")
    assert "TreeLSTM" in (raised.value.hint or "")


def test_the_papers_parts(root: Path, data: Path) -> None:
    parts = ("fig6", "fig9", "table2")
    report = bench_paper(root / "specs", data, parts, "TreeGRU,BiLSTM-Tagger", [4], [1, 4], 1, Quiet())
    assert [row["workload"] for row in report["fig6"]] == ["TreeGRU", "BiLSTM-Tagger"]
    for row in report["fig6"]:
        assert set(row["instances_per_second"]) == set(SYSTEMS)
        assert set(row["at_batch"].values()) <= {1, 4}
    assert len(report["table2"]) == 7
    assert all(row["paper"] for row in report["table2"])
    assert len(list(tables(report))) == 3
    assert tuple(SHOWN) == PARTS


def test_passes_side_by_side(root: Path, data: Path) -> None:
    report = bench_passes(root / "specs", data, "LatticeLSTM", [8], [4], [1, 2], 1, Quiet())
    assert [r["passes"] for r in report["rows"][:4]] == [[], ["fuse"], ["group"], ["fuse", "group"]]
    plain, fuse, group, both = report["rows"][:4]
    assert both["launches"] < min(fuse["launches"], group["launches"]) < plain["launches"]
    assert all(r["batches"] == r["launches"] for r in report["rows"])
    assert plain["kernels"] == plain["launches"]
    assert group["kernels"] > group["launches"]
    assert plain["gain"] == plain["execute_gain"] == 1
    assert all(r["gain"] > 0 for r in report["rows"])


def test_launches_are_fitted_over_sizes(root: Path, data: Path) -> None:
    report = bench_launch(root / "specs", data, ["cpu", "blas"], [8, 16], 4, Quiet())
    assert [r["executor"] for r in report["rows"]] == ["cpu", "blas"]
    assert all(r["launch"] >= 0 and r["reading"] > 0 for r in report["rows"])
    sizes = {(t["hidden"], t["weights_bytes"]) for t in report["types"] if t["type"] == "internal"}
    assert all(below < above for below, above in itertools.pairwise(b for _, b in sorted(sizes)))


@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_policies_on_unseen_instances(root: Path, data: Path, granularity: str) -> None:
    report = bench_unseen(root / "specs", data, ["TreeGRU"], granularity, 2, 1e-5, 2, Quiet())
    (row,) = report["rows"]
    assert row["lower_bound"] <= row["best"] == min(row["batches"].values())
    assert row["batches"]["auto, any launch"] <= row["batches"]["depth"]
    with pytest.raises(AbwError, match="too few"):
        bench_unseen(root / "specs", data, ["TreeGRU"], granularity, 50, 1e-5, 2, Quiet())


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_families_are_drawn_and_told(abw: Abw, tmp_path: Path, flags: tuple[str, ...]) -> None:
    file = tmp_path / "quality.svg"
    options = ("--family", "strings, 4", "--batch", "4", "--mini-batches", "1", "--data", str(tmp_path))
    done = abw("bench", "policies", "--families", *options, "--plot", str(file), *flags)
    assert done.code == 0, done.err
    assert "strings, 4" in done.out
    assert file.read_text().startswith("<svg")


def test_what_is_measured_before_ctrl_c_is_shown(
    abw: Abw, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = {name: Taken(dict.fromkeys(STEPS, 1.0), 8, 1, 1, 0, 0, 0, 1) for name in SYSTEMS}

    def taken(self: object, chosen: object, names: object, hidden: int, batch: int) -> dict[str, Taken]:
        if (hidden, batch) == (8, 1):
            signal.raise_signal(signal.SIGINT)
        return measured

    monkeypatch.setattr(paper._Paper, "taken", taken)
    sizes = ("--hidden", "4", "--hidden", "8", "--hidden", "16", "--batches", "1,4")
    flags = ("--data", str(data), "--only", "fig6,fig9", "--workloads", "TreeGRU", *sizes)
    done = abw("bench", "paper", *flags, "--json")
    assert (done.code, "ended early" in done.err) == (130, True)
    report = done.json()
    assert [row["hidden"] for row in report["fig6"]] == [4]  # of 8 one mini-batch alone was tried
    assert "fig9" not in report
    assert "TreeGRU" in abw("bench", "paper", *flags).out
    assert not STOP.asked  # what is benched next in this process is not ended
