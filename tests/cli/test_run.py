"""`abw run` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from abw.core.exec.cuda.driver.driver import Driver
from abw.core.exec.cuda.tiles import Forms
from abw.core.graph.graph import Graph
from abw.core.plan.plan import Plan, plan
from abw.core.policy.schedule import Schedule
from tests.cli.conftest import Abw
from tests.core.exec.cuda.fakedriver import FakeLibrary
from tests.core.exec.cuda.simulated import SMALL as TILES

REQUIRED = {
    "schema_version", "model", "policy", "executor", "instances", "mini_batches", "nodes", "batches",
    "lower_bound", "launches", "memory_kernels", "bytes_moved", "seconds", "instances_per_second", "compared",
}  # fmt: skip
PHASES = {"read", "construct", "schedule", "plan", "execute", "learn", "compile", "write", "wait"}
SMALL = ("run", "specs/lattice.yaml", "--limit", "7", "--batch", "3", "--set", "hidden=8")


def test_json_is_one_document_with_all_it_promises(abw: Abw) -> None:
    done = abw(*SMALL, "--json", "--verify")
    assert done.code == 0, done.err
    report = done.json()
    assert report.keys() >= REQUIRED
    assert report["seconds"].keys() == PHASES
    assert report["instances"] == 7
    assert report["mini_batches"] == 3
    assert report["lower_bound"] <= report["batches"] <= report["nodes"]
    assert report["compared"].keys() == {"depth", "agenda", "auto"}
    assert report["compared"]["auto"] == report["batches"]
    assert 0 < report["max_error"] < 1e-5
    working = sum(report["seconds"][p] for p in ("read", "construct", "schedule", "plan", "execute"))
    assert report["instances_per_second"] == pytest.approx(7 / working)


def test_the_summary_fits_a_screen_and_names_the_results(abw: Abw, home: Path) -> None:
    done = abw(*SMALL)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) <= 24
    folder = next((home / "runs").iterdir())
    for said in (
        "instances/s",
        "lower bound",
        "agenda",
        "depth",
        "auto (",
        "memory kernels",
        str(folder),
    ):
        assert said in done.out
    assert "this is its training data" in done.out


def test_the_summary_says_what_of_the_data_was_trained_on(abw: Abw) -> None:
    assert abw(*SMALL, "--train-limit", "3").code == 0
    assert "3 of these 7 instances are its training data" in abw(*SMALL).out


def test_a_policy_is_learned_anew_from_other_instances_only_where_that_is_asked_for(abw: Abw) -> None:
    def fresh(*flags: str) -> tuple[bool, int]:
        training = abw(*SMALL, *flags, "--json").json()["training"]
        return training["fresh"], training["instances"]

    assert fresh("--train-limit", "3") == (True, 3)
    assert fresh() == (False, 3)
    assert fresh("--train-limit", "3") == (False, 3)
    assert fresh("--train-limit", "5") == (True, 5)
    assert fresh() == (False, 5)


def test_a_run_keeps_its_spec_schedule_policy_and_outputs(abw: Abw, home: Path) -> None:
    assert abw(*SMALL).code == 0
    folder = home / "runs" / "0001-lattice-lstm"
    report = json.loads((folder / "run.json").read_text())
    assert (folder / "spec" / "lattice.yaml").is_file()
    assert (folder / "spec" / "cells").is_dir()
    tried = json.loads((folder / "policy.json").read_text())["tried"]
    assert [report["picked"]] in [t["policies"] for t in tried]
    batches = nodes = 0
    for number in range(3):
        with np.load(folder / "batches" / f"{number:04d}.npz") as kept:
            ends = kept["batch_ptr"]
            assert sorted(kept["nodes"]) == list(range(len(kept["type"])))
            for b, t in enumerate(kept["batch_type"]):
                members = kept["nodes"][ends[b] : ends[b + 1]]
                assert (kept["type"][members] == t).all()
                assert kept["ready"][b, t] >= len(members)  # a reversed policy may leave some
            batches += len(kept["batch_type"])
            nodes += len(kept["type"])
    assert (batches, nodes) == (report["batches"], report["nodes"])
    with np.load(folder / "outputs.npz") as kept:
        assert kept["tags"].shape[1:] == (28,)
        ends = kept["tags.offsets"]
        assert len(kept["tags"]) == len(kept["tags.vertex"]) == ends[-1]
        assert len(ends) == 8 and ends[0] == 0 and (np.diff(ends) > 0).all()
        for first, last in pairwise(ends):
            assert (np.diff(kept["tags.vertex"][first:last]) > 0).all()
        assert kept["instance.id"].tolist() == list(range(7))
        assert np.isfinite(kept["tags"]).all()


def test_a_policy_is_learned_once_and_runs_are_never_overwritten(abw: Abw, home: Path) -> None:
    first = abw(*SMALL, "--json").json()
    again = abw(*SMALL, "--json").json()
    assert first["training"]["fresh"]
    assert not again["training"]["fresh"]
    assert first["batches"] == again["batches"]
    assert [p.name for p in sorted((home / "runs").iterdir())] == ["0001-lattice-lstm", "0002-lattice-lstm"]
    assert len(list((home / "policies").iterdir())) == 1


def test_the_same_seed_gives_the_same_bits_and_another_does_not(abw: Abw, home: Path) -> None:
    for seed in ("3", "3", "4"):
        assert abw(*SMALL, "--seed", seed).code == 0
    values = []
    for folder in sorted((home / "runs").iterdir()):
        with np.load(folder / "outputs.npz") as kept:
            values.append(kept["tags"])
    assert (values[0] == values[1]).all()
    assert not np.allclose(values[0], values[2])


@pytest.mark.parametrize("policy", ["depth", "agenda", "agenda-static", "sufficient"])
@pytest.mark.parametrize("executor", ["blas", "reference"])
def test_policies_and_executors_agree_on_the_outputs(
    abw: Abw, home: Path, policy: str, executor: str
) -> None:
    flags = ("--limit", "4", "--set", "hidden=8")
    assert abw("run", "specs/treelstm.yaml", *flags).code == 0
    assert abw("run", "specs/treelstm.yaml", *flags, "--policy", policy, "--executor", executor).code == 0
    ours, theirs = (p / "outputs.npz" for p in sorted((home / "runs").iterdir()))
    with np.load(ours) as a, np.load(theirs) as b:
        np.testing.assert_allclose(a["classes"], b["classes"], atol=1e-5)


def test_both_granularities_give_the_same_outputs(abw: Abw, home: Path) -> None:
    for granularity in ("cell", "op"):
        done = abw(*SMALL, "--granularity", granularity, "--verify")
        assert done.code == 0, done.err
    cell, op = sorted((home / "runs").iterdir())
    with np.load(cell / "outputs.npz") as a, np.load(op / "outputs.npz") as b:
        np.testing.assert_allclose(a["tags"], b["tags"], atol=1e-5)
        assert (a["tags.vertex"] == b["tags.vertex"]).all()


def test_a_wrong_result_fails_the_verification_and_keeps_no_run(
    abw: Abw, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Swaps two operand rows between planning and execution."""
    from abw.core.run import minibatches, streaming

    def swapped(graph: Graph, schedule: Schedule, keep: None) -> Plan:
        planned = plan(graph, schedule, keep)
        wide = np.flatnonzero((np.diff(planned.index_ptr) > 1) & (planned.status == 3))
        for k in wide:
            low = planned.index_ptr[k]
            planned.index[[low, low + 1]] = planned.index[[low + 1, low]]
        return planned

    monkeypatch.setattr(minibatches, "plan", swapped)
    monkeypatch.setattr(streaming, "check_plan", lambda graph, planned: None)
    done = abw(*SMALL, "--verify")
    assert done.code == 1
    assert "differs from the reference" in done.err
    assert list((home / "runs").iterdir()) == []


def test_an_interrupted_run_leaves_the_earlier_ones_and_nothing_else(
    abw: Abw, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from abw.core.run import pipeline

    assert abw(*SMALL).code == 0

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "save_report", interrupted)
    done = abw(*SMALL)
    assert done.code == 130
    assert "interrupted" in done.err
    assert [p.name for p in (home / "runs").iterdir()] == ["0001-lattice-lstm"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--policy", "agend"), "did you mean 'agenda'?"),
        (("--executor", "gpu"), "blas"),
        (("--encoding", "sorted"), "sort"),
        (("--encoding", "sort", "--policy", "agenda"), "--policy fsm, not with agenda"),
        (("--set", "hidden"), "DIM=SIZE"),
        (("--set", "hiden=8"), "did you mean 'hidden'?"),
        (("--set", "hidden=-3"), "sizes are from 1"),
        (("--set", "hidden=0"), "sizes are from 1"),
        (("--batch", "0"), "--batch"),
        (("--granularity", "node"), "cell"),
        (("--nonsense",), "--nonsense"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(abw: Abw, args: tuple[str, ...], said: str) -> None:
    done = abw("run", "specs/lattice.yaml", *args)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("specs/latice.yaml",), "lattice.yaml"),
        (("specs/lattice.yaml", "--data", "nowhere.txt"), "nowhere.txt"),
        (("specs/lattice.yaml", "--data", "specs/data/trees.txt"), "specs/data/trees.txt:1:"),
        (("specs/lattice.yaml", "--policy", "absent.json"), "absent.json"),
    ],
)
def test_what_fails_otherwise_says_where_and_ends_with_1(abw: Abw, args: tuple[str, ...], said: str) -> None:
    done = abw("run", *args, "--json")
    assert done.code == 1
    assert said in done.err
    assert done.out == ""
    assert "Traceback" not in done.err


def test_a_policy_of_another_model_is_refused(abw: Abw, home: Path) -> None:
    assert abw("run", "specs/treelstm.yaml", "--limit", "3", "--set", "hidden=8").code == 0
    policy = str(next((home / "policies").iterdir()))
    done = abw(*SMALL, "--policy", policy)
    assert done.code == 1
    assert "internal" in done.err
    assert "char" in done.err


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("vanilla-dynet", ("agenda-static", "blas", "op", "declared")),
        ("cavs-dynet", ("agenda-static", "blas", "cell", "declared")),
        ("ed-batch", ("fsm", "blas", "cell", "planned")),
        ("abw", ("auto", "cpu", "cell", "planned")),
    ],
)
def test_a_preset_is_a_set_of_options(abw: Abw, preset: str, expected: tuple[str, ...]) -> None:
    report = abw(*SMALL, "--preset", preset, "--verify", "--json").json()
    assert tuple(report[key] for key in ("policy", "executor", "granularity", "layout")) == expected
    assert report["max_error"] < 1e-5
    assert report["encoding"] == ("sort" if preset == "ed-batch" else None)
    own = abw(*SMALL, "--preset", preset, "--policy", "depth", "--executor", "reference", "--json").json()
    assert (own["policy"], own["executor"], own["granularity"]) == ("depth", "reference", expected[2])


def test_a_layout_as_variables_come_moves_more(abw: Abw) -> None:
    small = (*SMALL, "--preset", "ed-batch", "--json")
    planned, declared = abw(*small).json(), abw(*small, "--layout", "declared").json()
    assert declared["batches"] == planned["batches"]
    assert declared["memory_kernels"] > planned["memory_kernels"]


def test_an_unknown_preset_is_a_usage_error(abw: Abw) -> None:
    done = abw(*SMALL, "--preset", "ed_batch")
    assert done.code == 2
    assert "did you mean 'ed-batch'" in done.err.lower()


def test_hoisting_leaves_the_results_as_they_are(abw: Abw, home: Path) -> None:
    found = []
    for number, flags in enumerate(([], ["--hoist"]), 1):
        report = abw(*SMALL, "--verify", *flags, "--json").json()
        assert report["hoist"] == bool(flags)
        with np.load(home / "runs" / f"{number:04d}-lattice-lstm" / "outputs.npz") as kept:
            found.append({name: kept[name] for name in kept})
    for name, values in found[0].items():
        np.testing.assert_allclose(found[1][name], values, rtol=1e-4, atol=1e-6)
    assert "char-hoisted" in abw("viz").out


def test_profile_says_where_the_time_went(abw: Abw) -> None:
    done = abw(*SMALL, "--profile", "--json", "--threads", "1")
    assert done.code == 0, done.err
    profile = done.json()["profile"]
    assert profile["seconds"] <= done.json()["seconds"]["execute"]
    assert profile["accounted_seconds"] == pytest.approx(profile["seconds"], rel=0.05)
    assert {t["name"] for t in profile["types"]} == {"char", "word", "state", "tag"}
    shown = abw(*SMALL, "--profile").out
    assert all(word in shown for word in ("char", "state", "gather", "walker", "of peak", "accounted for"))
    assert abw(*SMALL, "--json").json()["profile"] is None


@pytest.mark.parametrize("executor", ["blas", "reference"])
def test_profile_is_of_the_executor_cpu(abw: Abw, executor: str) -> None:
    done = abw(*SMALL, "--profile", "--executor", executor)
    assert done.code == 2
    assert f"'{executor}' cannot say" in done.err
    assert "--executor cpu" in done.err


def test_kernels_are_chosen_for_the_executor_cpu(abw: Abw) -> None:
    done = abw(*SMALL, "--kernels", "njit", "--executor", "blas")
    assert done.code == 2
    assert "executor 'blas' has no choice of kernels" in done.err
    done = abw(*SMALL, "--kernels", "njit", "--profile")
    assert done.code == 2
    assert "with kernels ir" in done.err
    assert abw(*SMALL, "--kernels", "ir", "--json").json()["kernels"] == "ir"


@pytest.mark.parametrize("chosen", [("--executor", "reference"), ("--kernels", "njit")])
def test_threads_are_refused_where_a_run_is_not_shared(abw: Abw, home: Path, chosen: tuple[str, ...]) -> None:
    done = abw(*SMALL, *chosen, "--threads", "2")
    assert done.code == 2
    assert "shares no run among threads" in done.err and "--executor blas" in done.err
    assert not list(home.glob("runs/[0-9]*"))
    assert abw(*SMALL, *chosen, "--threads", "1").code == 0


@pytest.mark.parametrize("passes", [("--fuse",), ("--group",), ("--fuse", "--group")])
@pytest.mark.parametrize("executor", ["cpu", "blas", "reference"])
def test_passes_leave_the_results_as_they_are(
    abw: Abw, home: Path, passes: tuple[str, ...], executor: str
) -> None:
    threads = "1" if executor == "reference" else "2"
    options = (
        *SMALL,
        "--policy",
        "critical",
        "--json",
        "--verify",
        "--executor",
        executor,
        "--threads",
        threads,
    )
    plain, changed = abw(*options).json(), abw(*options, *passes).json()
    assert plain["passes"] == []
    assert [f"--{name}" for name in changed["passes"]] == list(passes)
    assert changed["lower_bound"] < plain["lower_bound"]
    assert (changed["nodes"] < plain["nodes"]) == ("--fuse" in passes)
    if executor == "cpu":
        assert changed["launches"] == changed["batches"] < plain["batches"]
    before, after = (np.load(Path(report["path"]) / "outputs.npz") for report in (plain, changed))
    for name in before.files:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-4, atol=1e-5)


def test_runs_with_passes_can_be_looked_at(abw: Abw, home: Path) -> None:
    done = abw(*SMALL, "--fuse", "--group", "--report")
    assert "report.html" in done.out
    assert "reductions read in place; types grouped" in done.out
    policies = list((home / "policies").iterdir())
    explained = abw("explain", "--json").json()
    assert [t["type"] for t in explained["types"]] == ["char+word", "tag"]
    pictures = abw("viz", "--json", "--batches", "--policy", "--memory", "--graph").json()
    assert pictures["batches"][0]["types"] == ["char+word", "tag"]
    assert {block["type"] for block in pictures["arena"][0]["blocks"]} == {"char", "word", "tag"}
    # learned again with every combination, and found again
    assert abw(*SMALL, "--group").code == abw(*SMALL, "--fuse").code == abw(*SMALL).code == 0
    assert len(list((home / "policies").iterdir())) == len(policies) + 3
    assert "learned earlier" in abw(*SMALL, "--fuse", "--group").out


def test_cuda_where_there_is_none_says_what_is_missing(abw: Abw, home: Path) -> None:
    from abw.core.exec.cuda import available

    with patch.multiple(available, load_driver=lambda: None, find_toolkit=lambda: None):
        for flag in ("--device", "--executor"):
            done = abw(*SMALL, flag, "cuda")
            assert done.code == 1
            assert "no NVIDIA driver" in done.err
            assert "580" in done.err
            assert 'pip install "abw[cuda]"' in done.err
            assert not done.out
    assert not (home / "runs").exists()


def test_schemes_are_chosen_for_the_executor_cuda(abw: Abw) -> None:
    done = abw(*SMALL, "--scheme", "plan")
    assert done.code == 2
    assert "executor 'cpu' has no choice of schemes" in done.err
    assert "--device cuda" in done.err


def test_tensor_cores_are_for_the_executor_cuda(abw: Abw) -> None:
    done = abw(*SMALL, "--no-tensor-cores")
    assert done.code == 2
    assert "executor 'cpu' has no choice of tensor cores" in done.err
    assert "--device cuda" in done.err


def test_kernels_are_shown_of_a_type_or_of_all(abw: Abw) -> None:
    one = abw(*SMALL, "--show-kernels", "char")
    assert one.out.startswith("define void @kernel") and one.out.rstrip().endswith("}")
    assert one.out.count("define ") == 1
    assert "results:" in one.err
    every = abw("run", "--show-kernels", *SMALL[1:])
    assert [line for line in every.out.splitlines() if line.startswith("# ")] == [
        "# char", "# word", "# state", "# tag"
    ]  # fmt: skip
    assert one.out.strip() in every.out
    assert abw(*SMALL, "--show-kernels").out == every.out
    plain = abw(*SMALL, "--show-kernels", "tag", "--kernels", "njit")
    assert "def kernel" in plain.out and "define " not in plain.out


def test_kernels_that_are_not_there_are_told(abw: Abw, home: Path) -> None:
    misspelt = abw(*SMALL, "--show-kernels", "chra")
    assert misspelt.code == 2 and "did you mean 'char'" in misspelt.err
    none = abw(*SMALL, "--show-kernels", "char", "--executor", "blas")
    assert none.code == 2 and "'blas' compiles no kernels" in none.err
    both = abw(*SMALL, "--show-kernels", "char", "--json")
    assert both.code == 2 and "both want standard output" in both.err
    assert not list(home.glob("runs/[0-9]*"))


TREES = "(3 (2 It) (3 works))\n(3 (2 So) (3 (2 it) (2 does)))\n(2 (2 Well) (2 (2 no) (2 more)))\n"


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeLibrary], FakeLibrary]:
    """Puts a driver in place whose kernels run in the simulator."""
    from abw.core.exec.cuda import available
    from abw.core.exec.cuda.driver import gpu

    def put(library: FakeLibrary) -> FakeLibrary:
        monkeypatch.setattr(available, "load_driver", lambda: Driver(library))
        found = available.Finding("cuda compiler", True, "simulated")
        monkeypatch.setattr(available, "_compiler", lambda: found)
        monkeypatch.setattr(gpu, "compile_image", library.compile)
        monkeypatch.setattr(gpu, "forms_for", lambda processors, shared_bytes, tensor: TILES)
        return library

    return put


def run_trees(abw: Abw, folder: Path, *flags: str) -> dict[str, Any]:
    data = folder / "trees.txt"
    data.write_text(TREES)
    shared = ("--data", str(data), "--set", "hidden=8", "--policy", "depth", "--verify", "--json")
    report: dict[str, Any] = abw("run", "specs/treelstm.yaml", *shared, "--device", "cuda", *flags).json()
    assert report["max_error"] < 1e-5
    return report


@pytest.mark.parametrize("scheme", ["batch", "plan"])
def test_cuda_through_a_driver_whose_kernels_are_simulated(
    abw: Abw, simulated: Callable[[FakeLibrary], FakeLibrary], scheme: str, tmp_path: Path
) -> None:
    library = simulated(FakeLibrary(seed=1))
    report = run_trees(abw, tmp_path, "--batch", "1", "--scheme", scheme)
    assert library.failed is None
    assert (report["executor"], report["scheme"]) == ("cuda", scheme)
    assert (report["mini_batches"], report["in_pieces"]) == (3, 0)
    assert {entry[3] for entry in library.launches} == {scheme == "plan"}


@pytest.mark.parametrize("flags", [(), ("--no-tensor-cores",)])
def test_cuda_with_and_without_tensor_cores(
    abw: Abw,
    simulated: Callable[[FakeLibrary], FakeLibrary],
    flags: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    from abw.core.exec.cuda.driver import gpu

    simulated(FakeLibrary())
    asked: list[bool] = []

    def forms_for(processors: int, shared_bytes: int, tensor: bool) -> Forms:
        asked.append(tensor)
        return TILES

    monkeypatch.setattr(gpu, "forms_for", forms_for)
    assert run_trees(abw, tmp_path, *flags)["tensor_cores"] is (not flags)
    assert asked == [not flags]
