"""`abw run` as a user meets it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from abw.core.graph.graph import Graph
from abw.core.plan.plan import Plan, plan
from abw.core.policy.schedule import Schedule
from tests.cli.conftest import Abw

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
        "copied 0 B",
        str(folder),
    ):
        assert said in done.out
    assert "these are its training data" in done.out


def test_the_summary_says_what_of_the_data_was_trained_on(abw: Abw) -> None:
    assert abw(*SMALL, "--train-limit", "3").code == 0
    assert "3 of these 7 instances are its training data" in abw(*SMALL).out


def test_equal_instances_in_another_file_are_not_said_to_be_others(abw: Abw, tmp_path: Path) -> None:
    many = tmp_path / "many.txt"
    many.write_bytes(2 * Path("specs/data/lattice.txt").read_bytes())
    learned = abw("learn", SMALL[1], "--data", str(many), *SMALL[4:])
    assert learned.code == 0, learned.err
    said = abw(*SMALL).out
    assert "none of these" not in said
    assert f"from another file, {many}" in said
    assert abw(*SMALL, "--json").json()["training"]["of_these_instances"] is None


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
    from abw.core.run import checks, minibatches
    from abw.core.run.onepass.onepass import Passes

    def swapped(graph: Graph, schedule: Schedule, keep: None) -> Plan:
        planned = plan(graph, schedule, keep)
        wide = np.flatnonzero((np.diff(planned.index_ptr) > 1) & (planned.status == 3))
        for k in wide:
            low = planned.index_ptr[k]
            planned.index[[low, low + 1]] = planned.index[[low + 1, low]]
        return planned

    monkeypatch.setattr(Passes, "of", lambda *_: None)
    monkeypatch.setattr(minibatches, "plan", swapped)
    monkeypatch.setattr(checks, "check_plan", lambda graph, planned: None)
    done = abw(*SMALL, "--verify")
    assert done.code == 1
    assert "differs from the reference" in done.err
    assert list((home / "runs").iterdir()) == []


def test_an_interrupted_run_leaves_the_earlier_ones_and_nothing_else(
    abw: Abw, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from abw.core.run import run

    assert abw(*SMALL).code == 0

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "save_report", interrupted)
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
