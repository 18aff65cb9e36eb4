"""`abw run --shard` and `abw join`: parts put together are what one run writes, or are refused by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Abw

FAST = ("-q", "--no-keep", "--json")
PROGRAM = ("specs/programs/treelstm.py:classify", "--data", "specs/data/trees.txt", "--format", "trees")
TREES = ("treelstm", "--set", "hidden=8", "--policy", "critical", "--batch", "4")


def shards(abw: Abw, output: Path, count: int, *args: str) -> None:
    for number in range(1, count + 1):
        done = abw("run", *args, *FAST, "--shard", f"{number}/{count}", "--output", str(output))
        assert done.code == 0, done.err
        report = done.json()
        assert report["shard"]["number"] == number and report["shard"]["of"] == count
        assert f"part-{number:05d}-of-{count:05d}" in report["output"]


CASES = {
    "trees": (TREES, ".jsonl", 3),
    "coins": (("treelstm-2type", "--set", "hidden=8", "--policy", "agenda", "--batch", "3"), ".npz", 2),
    "limit": ((*TREES, "--limit", "30"), ".safetensors", 2),
    "graphs": (("dag", "--policy", "agenda", "--batch", "5"), ".npz", 2),
    "grows": (("greedy", "--policy", "agenda", "--batch", "6"), ".jsonl", 2),
    "program": ((*PROGRAM, "--batch", "5"), ".jsonl", 2),
}


@pytest.mark.parametrize("case", CASES)
def test_joined_parts_are_what_one_run_writes(case: str, abw: Abw, tmp_path: Path) -> None:
    args, suffix, count = CASES[case]
    whole, output = tmp_path / f"whole{suffix}", tmp_path / f"out{suffix}"
    done = abw("run", *args, *FAST, "--output", str(whole))
    assert done.code == 0, done.err
    shards(abw, output, count, *args)
    joined = abw("join", str(output), "--json")
    assert joined.code == 0, joined.err
    assert joined.json()["instances"] == done.json()["instances"]
    assert output.read_bytes() == whole.read_bytes()
    assert not Path(f"{output}.parts").exists()


def test_what_is_left_out_is_left_out_in_shards_too(abw: Abw, root: Path, tmp_path: Path) -> None:
    data = tmp_path / "trees.txt"
    lines = (root / "specs/data/trees.txt").read_text().splitlines()[:20]
    data.write_text("\n".join([*lines[:5], "(3 (2 It)", "", *lines[5:12], "x", *lines[12:]]))
    args = (*TREES, "--data", str(data), "--skip-bad")
    whole, output = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert abw("run", *args, *FAST, "--output", str(whole)).code == 0
    shards(abw, output, 3, *args)
    joined = abw("join", str(output), "--json").json()
    assert (joined["instances"], joined["skipped"], joined["parts"]) == (20, 2, 3)
    assert output.read_bytes() == whole.read_bytes()


def test_more_shards_than_mini_batches_and_parts_of_other_runs(abw: Abw, tmp_path: Path) -> None:
    output, whole = tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    args = (*TREES[:-1], "30")
    shards(abw, output, 3, *args)
    assert abw("run", *args, *FAST, "--output", str(whole)).code == 0
    assert abw("join", str(output), "--keep").code == 0
    assert output.read_bytes() == whole.read_bytes()
    assert len(list(Path(f"{output}.parts").iterdir())) == 6
    for change, said in ((("--set", "embed=4"), "differs in dims"), (("--seed", "1"), "differs in coin")):
        done = abw("run", *args, *change, *FAST, "--shard", "1/3", "--output", str(output))
        assert done.code == 1 and said in done.err and "rm -r" in done.err
    done = abw("run", *args, *FAST, "--shard", "1/2", "--output", str(output))
    assert done.code == 1 and "this run has 2 parts" in done.err


def test_a_shard_that_fails_leaves_no_part(abw: Abw, root: Path, tmp_path: Path) -> None:
    data = tmp_path / "trees.txt"
    lines = (root / "specs/data/trees.txt").read_text().splitlines()[:20]
    data.write_text("\n".join([*lines, "(3 (2 It)", ""]))
    output = tmp_path / "out.jsonl"
    args = (*TREES, "--data", str(data), *FAST, "--output", str(output))
    assert abw("run", *args, "--shard", "1/2").code == 0
    failed = abw("run", *args, "--shard", "2/2")
    assert failed.code == 1 and f"{data}:21:" in failed.err
    assert sorted(path.name for path in Path(f"{output}.parts").iterdir()) == [
        "part-00001-of-00002.json",
        "part-00001-of-00002.jsonl",
    ]


REFUSED = {
    "0/2": ("--output", "o.jsonl"),
    "3/2": ("--output", "o.jsonl"),
    "x": ("--output", "o.jsonl"),
    "needs --output": (),
    "needs --output FILE": ("--output", "-"),
    "needs data in a file": ("--output", "o.jsonl", "--data", "-"),
    "--batch auto": ("--output", "o.jsonl", "--batch", "auto"),
    "--limit or with --skip-bad": ("--output", "o.jsonl", "--limit", "3", "--skip-bad"),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_does_not_go_with_shards_is_refused(said: str, abw: Abw) -> None:
    shard = said if said in ("0/2", "3/2", "x") else "1/2"
    done = abw("run", "treelstm", "-q", *REFUSED[said], "--shard", shard)
    assert done.code == 2 and said in done.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("greedy", "--grown", "g.jsonl"), "--grown"),
        (("bilstm-chars",), "frequency"),
        (PROGRAM, "JSON lines"),
    ],
)
def test_what_cannot_be_cut_is_refused(args: tuple[str, ...], said: str, abw: Abw, tmp_path: Path) -> None:
    output = tmp_path / ("out.npz" if args is PROGRAM else "out.jsonl")
    done = abw("run", *args, "-q", "--shard", "1/2", "--output", str(output))
    assert done.code == 2 and said in done.err


def test_an_engine_that_is_not_installed(abw: Abw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = abw("run", "treelstm", "-q", "--engine", "ray", "--output", "o.jsonl")
    assert done.code == 1 and "--engine ray needs ray" in done.err and 'pip install ".[ray]"' in done.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("treelstm", "--engine", "ray", "--shard", "1/2"), "--engine makes shards of its own"),
        (("treelstm", "--engine", "ray", "-o", "o.jsonl", "--verify"), "not with --engine"),
        (("treelstm", "--workers", "2"), "it goes with --engine"),
        ((*PROGRAM, "--engine", "ray"), "its file would run on every machine"),
    ],
)
def test_what_does_not_go_with_an_engine_is_refused(args: tuple[str, ...], said: str, abw: Abw) -> None:
    done = abw("run", *args, "-q")
    assert done.code == 2 and said in " ".join(done.err.split())
