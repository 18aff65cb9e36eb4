"""`abw run` in other ways: presets, passes, layouts, kernels, threads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from abw.core.api import load
from tests.cli.conftest import Abw
from tests.cli.test_run import SMALL


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


def test_threads_are_refused_where_a_run_is_not_shared(abw: Abw, home: Path) -> None:
    done = abw(*SMALL, "--executor", "reference", "--threads", "2")
    assert done.code == 2
    assert "shares no run among threads" in done.err and "--executor blas" in done.err
    assert not list(home.glob("runs/[0-9]*"))
    assert abw(*SMALL, "--executor", "reference", "--threads", "1").code == 0


@pytest.mark.parametrize(
    ("executor", "passes"),
    [
        *(("cpu", passes) for passes in (("--fuse",), ("--group",), ("--fuse", "--group"))),
        *((executor, ("--fuse", "--group")) for executor in ("blas", "reference")),
    ],
)
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


def test_kernels_that_are_not_there_are_told(abw: Abw, home: Path) -> None:
    misspelt = abw(*SMALL, "--show-kernels", "chra")
    assert misspelt.code == 2 and "did you mean 'char'" in misspelt.err
    none = abw(*SMALL, "--show-kernels", "char", "--executor", "blas")
    assert none.code == 2 and "'blas' compiles no kernels" in none.err
    both = abw(*SMALL, "--show-kernels", "char", "--json")
    assert both.code == 2 and "both want standard output" in both.err
    assert not list(home.glob("runs/[0-9]*"))


FEW = """
model: few
data: {format: words, path: few.txt, batch: 1}
tables: {w: {dim: 2, rows: 4}}
cells:
  c: {inputs: {x: 2}, equations: "y = tanh(x + 1)", outputs: {y: y}}
types:
  t: {per: token, where: index > 2, cell: c, inputs: {x: "w[index]"}}
  r: {per: instance, sum: {s: token.t.y}}
outputs: {s: r.s}
"""


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("policy", ["auto", "fsm", "critical"])
def test_the_first_instances_may_have_no_nodes(
    abw: Abw, tmp_path: Path, policy: str, granularity: str
) -> None:
    """Three hundred without, more than a policy is chosen by, and one that has."""
    (tmp_path / "few.yaml").write_text(FEW)
    (tmp_path / "few.txt").write_text(300 * "a b\n" + "a b c d e\n")
    done = abw(
        *("run", str(tmp_path / "few.yaml"), "--policy", policy, "--granularity", granularity),
        *("--verify", "--no-keep", "--quiet", "-o", str(tmp_path / "out.jsonl")),
    )
    assert done.code == 0, done.err
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    found = [json.loads(line)["outputs"]["s"] for line in lines]
    assert found[:300] == 300 * [[0.0, 0.0]]
    assert all(found[300])


ROOTS = """
model: roots
data: {format: json, path: roots.jsonl, batch: 2}
tables: {w: {dim: 2, vocab: words.txt}}
cells:
  c: {inputs: {x: 2, h: 2}, equations: "y = tanh(x + h + 1)", outputs: {y: y}}
types:
  node: {per: word, cell: c, inputs: {x: "w[word]", h: sum.s}}
  sum: {per: word, sum: {s: child.node.y}}
  top: {per: instance, cell: c, inputs: {x: root.node.y, h: all.s}}
  all: {per: instance, sum: {s: heads.node.y or zeros}}
outputs: {top: top.y}
"""
TREE = """{"vertices": [{"kind": "word", "word": "a"}, {"kind": "word", "word": "b"}], \
"links": {"child": [[1, 0]], "root": 1, "heads": [0, 1]}}
{"vertices": [{"kind": "word", "word": "b"}], "links": {"root": [0], "heads": []}}
"""


@pytest.mark.parametrize("executor", ["cpu", "blas", "reference"])
@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_json_links_lead_from_the_instance(abw: Abw, tmp_path: Path, executor: str, granularity: str) -> None:
    (tmp_path / "roots.yaml").write_text(ROOTS)
    (tmp_path / "roots.jsonl").write_text(3 * TREE)
    (tmp_path / "words.txt").write_text("a\nb\n")
    done = abw(
        *("run", str(tmp_path / "roots.yaml"), "--executor", executor, "--granularity", granularity),
        *("--verify", "--json", "-o", str(tmp_path / "out.jsonl")),
    )
    assert done.code == 0, done.err
    found = [json.loads(line)["outputs"]["top"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    model = load(tmp_path / "roots.yaml")
    w = model.params["w"]
    a = np.tanh(w[0] + 1)
    b, alone = np.tanh(w[1] + a + 1), np.tanh(w[1] + 1)
    expected = [np.tanh(b + a + b + 1), np.tanh(alone + 1)]
    np.testing.assert_allclose(found, 3 * expected, rtol=1e-5)
