"""`abw run program.py:function` as a user meets it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abw as abw_package
from abw.cli import completion
from abw.core.data.plain import plain
from abw.core.data.read import read
from tests.cli.conftest import Abw
from tests.core.program.cells import LIBRARY

PROGRAM = '''
from dataclasses import dataclass
from typing import NamedTuple
import abw
import beside

net = abw.cells("small.yaml")


@dataclass
class Out:
    state: abw.Value
    count: int
    label: str
    steps: list
    sure: bool


def read(words):
    """Reads words, doubling what is large."""
    state, steps = net.zeros("hidden"), []
    for word in words:
        state = net.step(net.words[word], state)
        steps.append(state)
        if net.gate(state).above(0):
            state = net.step(state, state)
    print("read", len(words))
    beside.check(words)
    return Out(state, len(words), words[0], steps, len(words) > 2)


def draw(words):
    return [net.score(net.words[word], net.start).sample() for word in words]


def first(words):
    return net.words[words[0]]


class Model:
    def forward(self, words):
        return {"score": net.score(net.words[words[0]], net.start), "at": {1, 0}}


model = Model()


@net.cell
def join_all(a="hidden", b="hidden"):
    return a + b


def two(a, b): ...
def none(): ...
async def waits(words): ...
def leaves(words): raise SystemExit(3)
def wrong(words): return net.step(net.words["a"], [1, 2])
def odd(words): return {words[0]: 1} if len(words) < 3 else words
def thing(words): return object()
'''
BESIDE = """
def check(words):
    if "stop" in words:
        raise KeyError("stop")
"""
SENTENCES = "a b\n\nc d e f\nx\na b c d e\nit works\n"


@pytest.fixture
def folder(abw: Abw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, at hand."""
    (tmp_path / "small.yaml").write_text(LIBRARY)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text(BESIDE)
    (tmp_path / "words.txt").write_text(SENTENCES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    return tmp_path


RUN = ("run", "program.py:read", "--data", "words.txt", "--format", "words", "--threads", "1")


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def rows_of(abw: Abw, *args: str) -> list[dict[str, Any]]:
    """What a run that is not kept writes."""
    done = abw(*args, "--no-keep", "-q", "--output", "rows.jsonl")
    assert done.code == 0, done.err
    return lines_of(Path("rows.jsonl").read_text())


def net_of(folder: Path, **told: Any) -> abw_package.Net:  # noqa: ANN401
    return abw_package.cells(folder / "small.yaml", threads=1, **told)


def expected(net: abw_package.Net, sentences: list[list[str]]) -> list[Any]:
    def program(words: list[str]) -> Any:  # noqa: ANN401
        state, steps = net.zeros("hidden"), []
        for word in words:
            state = net.step(net.words[word], state)
            steps.append(state)
            if net.gate(state).above(0):
                state = net.step(state, state)
        return state, steps

    found: list[Any] = net.run(program, sentences)
    return found


def test_what_it_gives_is_what_net_run_gives(abw: Abw, folder: Path) -> None:
    done = abw(*RUN, "--batch", "2", "--output", "out.jsonl", "--verify", "--json")
    assert done.code == 0, done.err
    assert done.err.count("read") >= 5 and "read" not in done.out.split('"instances"')[0][:5]
    report = done.json()
    sentences = [line.split() for line in SENTENCES.splitlines() if line]
    found = lines_of((folder / "out.jsonl").read_text())
    assert [row["line"] for row in found] == [1, 3, 4, 5, 6] and [row["id"] for row in found] == [
        0,
        1,
        2,
        3,
        4,
    ]
    for row, words, (state, steps) in zip(found, sentences, expected(net_of(folder), sentences), strict=True):
        out = row["outputs"]
        np.testing.assert_array_equal(np.array(out["state"], np.float32), state)
        np.testing.assert_array_equal(np.array(out["steps"], np.float32), np.array(steps))
        assert (out["count"], out["label"], out["sure"]) == (len(words), words[0], len(words) > 2)
    assert (report["instances"], report["mini_batches"], report["skipped"]) == (5, 3, 0)
    assert report["program"]["rounds"] > 3 and report["program"]["decisions"] == sum(map(len, sentences))
    assert report["nodes"] >= 2 * sum(map(len, sentences)) and 0 < report["max_error"] < 1e-5
    assert report["lower_bound"] <= report["batches"] == report["compared"]["critical"] <= report["nodes"]
    assert report["launches"] == report["batches"]


def test_doctor_warms_a_program(abw: Abw, folder: Path) -> None:
    found = abw("doctor", "--warm", f"{folder}/program.py:read", "--set", "hidden=8", "--json").json()
    assert found["model"] == "small" and found["instances"] == 0 and found["seconds"] > 0


def test_arrays_hold_the_same(abw: Abw, folder: Path) -> None:
    for name in ("out.npz", "out.safetensors"):
        assert abw(*RUN, "--no-keep", "-q", "--output", name).code == 0
    rows = [row["outputs"] for row in rows_of(abw, *RUN)]
    with np.load("out.npz") as archive:
        arrays = dict(archive)
    size = int.from_bytes(Path("out.safetensors").read_bytes()[:8], "little")
    assert json.loads(Path("out.safetensors").read_bytes()[8 : 8 + size]).keys() == arrays.keys()
    np.testing.assert_array_equal(arrays["state"], np.array([row["state"] for row in rows], np.float32))
    np.testing.assert_array_equal(arrays["count"], [row["count"] for row in rows])
    np.testing.assert_array_equal(arrays["sure"], [row["sure"] for row in rows])
    starts = arrays["steps.offsets"]
    for i, row in enumerate(rows):
        np.testing.assert_array_equal(arrays["steps"][starts[i] : starts[i + 1]], np.float32(row["steps"]))
    at = arrays["label.offsets"]
    texts = [bytes(arrays["label"][a:b]).decode() for a, b in pairwise(at)]
    assert texts == [row["label"] for row in rows]
    assert arrays["instance.line"].tolist() == [1, 3, 4, 5, 6] and not arrays["instance.bad"].any()


def test_a_run_is_kept_shown_explained_and_drawn(abw: Abw, folder: Path) -> None:
    done = abw(*RUN, "--batch", "3", "--note", "mine", "--tag", "t")
    assert done.code == 0, done.err
    assert "program program.py:read; " in done.out and "rounds of decisions" in done.out
    kept = next((folder / "abw-home" / "runs").glob("0001-small"))
    assert {path.name for path in (kept / "spec").iterdir()} == {"program.py", "small.yaml"}
    assert len(lines_of((kept / "outputs.jsonl").read_text())) == 5
    (folder / "program.py").write_text("raise SystemExit('a stored run runs no code')")
    assert "mine" in abw("runs").out and "program.py:read" in abw("runs", "show").out
    explained = abw("explain", "--json").json()
    assert explained["nodes"] > 10 and sum(t["batches"] for t in explained["types"]) == explained["batches"]
    assert (
        "critical" in abw("viz").out and abw("viz", "--mini-batch", "1", "--html", "-o", "p.html").code == 0
    )
    assert (folder / "p.html").stat().st_size > 10_000
    (folder / "program.py").write_text(PROGRAM)
    assert abw(*RUN, "--batch", "2").code == 0
    assert "outputs: the same" in abw("runs", "diff", "1", "2").out


def test_a_program_is_drawn_and_explained_without_a_run(abw: Abw, folder: Path) -> None:
    data = ("--data", "words.txt", "--format", "words")
    told = abw("explain", "program.py:read", *data, "--batch", "2", "--mini-batch", "1", "--json").json()
    assert (told["mini_batch"], told["mini_batches"]) == (1, 3) and told["decides"]
    again = abw("explain", "program.py:read", *data, "--policy", "depth", "--json").json()
    assert again["policy"] == "depth" and again["batches"] == again["others"].get("depth", again["batches"])
    said = abw("explain", "program.py:read", *data).out
    assert "pieces, with decisions between them" in said
    assert "step" in abw("viz", "program.py:read", *data, "--graph", "--batches", "--frontier").out
    assert abw("viz", "program.py:read", *data, "--html", "-o", "q.html", "--instances", "2").code == 0
    missing = abw("viz", "program.py:read", *data, "--mini-batch", "7")
    assert missing.code == 1 and "numbers here: 0 to 0" in missing.err


def test_the_command_line_changes_what_the_file_says(abw: Abw, folder: Path) -> None:
    base = ("--no-keep", "--json", "--output", "out.jsonl")
    report = abw(
        *RUN, *base, "--set", "hidden=4", "--seed", "3", "--policy", "depth", "--executor", "blas"
    ).json()
    assert report["dims"]["hidden"] == 4 and report["seed"] == 3
    assert (report["policy"], report["executor"], report["threads"]) == ("depth", "blas", 1)
    sentences = [line.split() for line in SENTENCES.splitlines() if line]
    net = net_of(folder, dims={"hidden": 4}, seed=3)
    for row, (state, _) in zip(
        lines_of(Path("out.jsonl").read_text()), expected(net, sentences), strict=True
    ):
        np.testing.assert_allclose(row["outputs"]["state"], state, atol=1e-5)
    assert "no dim" in abw(*RUN, "--set", "hiden=4").err
    (folder / "own.py").write_text(
        "class Mine:\n    def schedule(self, dag):\n        from abw.core.policy.registry import get_policy\n"
        "        return get_policy('depth').schedule(dag)\n"
    )
    assert abw(*RUN, *base, "--policy", "own.py:Mine").json()["policy"] == "own.py:Mine"
    assert "define" in abw(*RUN, "--no-keep", "--show-kernels", "step", "-q").out


def test_it_streams(abw: Abw, folder: Path) -> None:
    code = (sys.executable, "-m", "abw", "run", "program.py:first", "--data", "-", "--format", "words")
    with subprocess.Popen(
        [*code, "--output", "-", "-q", "--no-keep"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for word in ("a", "b"):
            process.stdin.write(f"{word} c\n".encode())
            row = json.loads(process.stdout.readline())
            assert len(row["outputs"]) == 6
        process.stdin.close()
        assert process.wait() == 0
    with subprocess.Popen(
        [*code, "--output", "-", "-q"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(b"a c\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        told = process.stderr.read().decode()
        assert "whole lines; no run was kept" in told and "Traceback" not in told
    empty = subprocess.run([*code, "--no-keep", "-q"], input=b"", check=False, capture_output=True)
    assert empty.returncode == 0, empty.stderr


def test_an_endless_program_can_be_interrupted(abw: Abw, folder: Path) -> None:
    (folder / "endless.py").write_text(
        "import abw, sys\nnet = abw.cells('small.yaml')\ndef f(words):\n    print('begun', flush=True)\n"
        "    while True:\n        net.gate(net.start).above(0)\n"
    )
    code = (sys.executable, "-m", "abw", "run", "endless.py:f", "--data", "words.txt", "--format", "words")
    with subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr is not None and b"Traceback" not in process.stderr.read()
    assert not list((folder / "abw-home" / "runs").glob("0*"))


def test_what_a_program_raises_is_told_with_its_own_lines_and_the_instance(abw: Abw, folder: Path) -> None:
    (folder / "words.txt").write_text("a b\n\na stop\nc\nstop\n")
    done = abw(*RUN, "--batch", "2", "--output", "out.jsonl")
    assert done.code == 1
    told = done.err[done.err.index("error:") :]
    assert told.startswith("error: words.txt:3 (instance 1): KeyError: 'stop'\n  program.py:")
    assert "in read\n    beside.check(words)\n  beside.py:4, in check\n    raise KeyError" in told
    assert "core/" not in told and "Traceback" not in told
    assert not (folder / "abw-home" / "runs").exists() or not list((folder / "abw-home" / "runs").glob("0*"))
    done = abw(*RUN, "--skip-bad", "--json", "--output", "out.jsonl")
    assert done.json()["skipped"] == 2 and "words.txt:3: KeyError: 'stop'" in done.json()["complaints"]
    rows = lines_of((folder / "out.jsonl").read_text())
    assert [(row["id"], row["line"], row.get("error", "")[:11]) for row in rows] == [
        (0, 1, ""), (1, 3, "words.txt:3"), (2, 4, ""), (3, 5, "words.txt:5"),
    ]  # fmt: skip
    abw(*RUN, "--skip-bad", "--output", "out.npz", "--no-keep")
    with np.load("out.npz") as arrays:
        assert arrays["instance.bad"].tolist() == [False, True, False, True]
        assert np.isnan(arrays["state"][1]).all() and arrays["count"].tolist() == [2, -1, 1, -1]
        assert np.diff(arrays["steps.offsets"]).tolist() == [2, 0, 1, 0]


def test_malformed_instances_are_left_out_and_the_others_draw_as_before(abw: Abw, folder: Path) -> None:
    good = ["(1 (2 a) (3 b))", "(1 c)", "(2 (1 d) (1 e))"]
    (folder / "good.txt").write_text("\n".join(good))
    (folder / "bad.txt").write_text("\n".join([good[0], "(1 (2 a", *good[2:]]))
    (folder / "trees.py").write_text(
        "import abw\nnet = abw.cells('small.yaml')\ndef words(tree):\n"
        "    return [tree[1]] if isinstance(tree[1], str) else [w for t in tree[1:] for w in words(t)]\n"
        "def f(tree):\n    return [net.score(net.words[w], net.start).sample() for w in words(tree) * 5]\n"
    )
    run = ("run", "trees.py:f", "--format", "trees", "--data")
    assert "bad.txt:2:" in abw(*run, "bad.txt", "--no-keep").err
    right, found = rows_of(abw, *run, "good.txt"), rows_of(abw, *run, "bad.txt", "--skip-bad")
    assert [row["id"] for row in found] == [0, 1, 2] and found[1]["outputs"] is None
    assert found[0] == right[0] and found[2] == right[2]


JSON = '{"id": "x", "words": ["a", "b"]}\n["c"]\n'


def test_json_values_are_instances(abw: Abw, folder: Path) -> None:
    (folder / "values.jsonl").write_text(JSON)
    (folder / "values.py").write_text(
        "import abw\nnet = abw.cells('small.yaml')\ndef f(thing):\n"
        "    words = thing['words'] if isinstance(thing, dict) else thing\n"
        "    return [net.words[w] for w in words]\n"
    )
    rows = rows_of(abw, "run", "values.py:f", "--data", "values.jsonl")
    assert [(row["id"], len(row["outputs"])) for row in rows] == [("x", 2), (1, 1)]
    (folder / "values.jsonl").write_text("[1]\n[2\n")
    told = abw("run", "values.py:f", "--data", "values.jsonl", "--no-keep")
    assert told.code == 1 and "values.jsonl:2:3: this is no JSON" in told.err
    (folder / "values.jsonl").write_text("\n")
    assert "no instances in values.jsonl" in abw("run", "values.py:f", "--data", "values.jsonl").err


def test_shipped_programs_run_by_name(abw: Abw, folder: Path, root: Path) -> None:
    data = root / "specs/data/trees.txt"
    run = ("run", "programs/treelstm.py:classify", "--format", "trees", "--limit", "5", "--threads", "1")
    rows = rows_of(abw, *run, "--data", str(data))
    trees = plain(read(data, "trees", limit=5)).objects

    def size(tree: Any) -> int:  # noqa: ANN401
        return 1 + sum(size(child) for child in tree[1:] if isinstance(child, tuple))

    assert [len(row["outputs"]) for row in rows] == [size(tree) for tree in trees]
    assert {len(scores) for row in rows for scores in row["outputs"]} == {5}


def test_programs_that_ship_are_listed_and_completed(abw: Abw, folder: Path) -> None:
    listed = {spec["name"]: spec["summary"] for spec in abw("specs", "--json").json()["specs"]}
    assert "stack LSTM" in listed["programs/parser.py:parse"] and "programs/parser.py:net" not in listed
    assert completion.programs("programs/p") == ["programs/parser.py:parse"]
    assert completion.programs("program.py:t") == ["program.py:two", "program.py:thing"]
    assert completion.programs("absent.py:") == [] and completion.programs("") == []


def test_granularities(abw: Abw, folder: Path) -> None:
    counts = {}
    for name in ("op", "cell", "graph"):
        run = ("run", "program.py:first", *RUN[2:], "--json", "--verify", "--granularity", name)
        report = abw(*run).json()
        assert report["granularity"] == name and report["kept"] == 1
        counts[name] = report["nodes"], report["batches"]
    assert counts == {"op": (0, 0), "cell": (0, 0), "graph": (0, 0)}  # rows of tables are no nodes
    nodes = {name: abw(*RUN, "--json", "--granularity", name).json()["nodes"] for name in ("op", "cell")}
    assert nodes["op"] > 2 * nodes["cell"]
    decided = abw(*RUN, "--granularity", "graph")
    assert decided.code == 1 and "after it has waited for a value" in decided.err
    drawn = abw("viz", "program.py:read", *RUN[2:6], "--granularity", "op", "--batches")
    assert drawn.code == 0 and "@" not in drawn.err
    spec = abw("run", "treelstm", "--granularity", "graph")
    assert spec.code == 2 and "graph is for programs" in spec.err
