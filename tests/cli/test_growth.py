"""Models that grow, as a user meets them."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import abw as api
from abw.core.data.instances import Instances
from abw.core.data.read import read
from abw.core.store.checked import load_history
from abw.core.store.grown import GrownWriter
from abw.core.store.runs import find_run, load_batch
from tests.cli.conftest import Abw

GREEDY = ("run", "specs/greedy.yaml", "--set", "hidden=8", "--limit", "5", "--batch", "2")


def test_a_run_tells_what_grew_and_what_was_cut(abw: Abw) -> None:
    done = abw(*GREEDY, "--verify", "--json")
    assert done.code == 0, done.err
    report = done.json()
    growth = report["growth"]
    assert growth["vertices"] == {"step": 100} and growth["rounds"] == 60
    assert growth["cut"] == {"step": {"instances": 5, "most": 20}}
    assert growth["decisions"] == 100 and growth["close"] == 0
    assert report["max_error"] < 1e-5
    said = abw(*GREEDY, "--verify")
    assert "5 of 5 instances were cut at `most: 20` of step" in said.out
    assert "100 decisions repeated: all the same" in said.out
    assert "grown vertices: 100 of step, in 60 rounds, compiled" in said.out
    said = abw(*GREEDY, "--executor", "blas")
    assert "60 rounds, driven by Python: executor 'blas' has none of its own" in said.out


def test_what_is_written_of_an_interrupted_run(
    abw: Abw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = GrownWriter.write, list[int]()

    def interrupted(writer: GrownWriter, instances: Instances) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(len(instances))
        write(writer, instances)

    monkeypatch.setattr(GrownWriter, "write", interrupted)
    out, grown = tmp_path / "out.jsonl", tmp_path / "grown.jsonl"
    for files, said in (
        (("--output", str(out), "--grown", str(grown)), f"what {out} and {grown} have are whole lines"),
        (("--output", str(tmp_path / "out.npz"), "--grown", str(grown)), f"what {grown} has are whole lines"),
    ):
        written.clear()
        done = abw(*GREEDY, *files)
        assert done.code == 130
        assert f"interrupted: {said}; no run was kept" in " ".join(done.err.split())
        assert [len(json.loads(line)) > 0 for line in grown.read_text().splitlines()] == [True] * 2
    assert len(out.read_text().splitlines()) == 2


def test_only_mini_batches_that_are_kept_are_looked_at_as_a_whole(
    abw: Abw, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = abw(*GREEDY, "--json").json()
    assert every["mini_batches"] == 3 and every["lower_bound"] == every["kept_lower_bound"]
    monkeypatch.setattr("abw.core.run.observing.observers.KEPT", 1)
    report = abw(*GREEDY, "--json").json()
    for name in ("mini_batches", "nodes", "batches", "launches", "memory_kernels", "bytes_moved", "growth"):
        assert report[name] == every[name]
    assert 0 < report["kept_lower_bound"] < every["lower_bound"]
    assert report["lower_bound"] is report["memory_kernels_avoided"] is report["bytes_avoided"] is None
    said = abw(*GREEDY)
    assert said.code == 0 and "avoided" not in said.out
    assert abw("runs").code == 0


def test_outputs_are_words_in_lines_and_numbers_in_arrays(abw: Abw, tmp_path: Path, root: Path) -> None:
    lines, arrays = tmp_path / "o.jsonl", tmp_path / "o.npz"
    assert abw(*GREEDY, "--output", str(lines)).code == 0
    assert abw(*GREEDY, "--output", str(arrays)).code == 0
    words = (root / "specs/data/target-words.txt").read_text().split()
    said = [json.loads(line)["outputs"]["words"] for line in lines.read_text().splitlines()]
    held = np.load(arrays)
    assert held["words"].dtype == np.int32
    assert [words[row] for row in held["words"]] == [word for one in said for word in one]
    assert held["words.offsets"].tolist() == [20 * i for i in range(6)]
    # the decision of step s stands on the s-th vertex behind those of the data
    assert held["words.vertex"][:3].tolist() == [10, 11, 12]
    parser = ("run", "specs/stackrnn.yaml", "--set", "hidden=8", "--limit", "1", "--output", str(lines))
    assert abw(*parser).code == 0
    actions = json.loads(lines.read_text())["outputs"]["actions"]
    assert set(actions[:-1]) <= {"shift", "left", "right"} and actions[0] == "shift"
    assert actions[-1] is None


def test_what_grew_is_data_for_the_same_types(abw: Abw, tmp_path: Path, root: Path) -> None:
    """The spec without `grow`, on what grew, has the same vertices and computes the same values."""
    spec = yaml.safe_load((root / "specs/greedy.yaml").read_text())
    spec["outputs"] = {"scores": "score.y"}
    for name in ("cells", "data"):
        (tmp_path / name).symlink_to(root / "specs" / name)
    (tmp_path / "growing.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    del spec["grow"]
    spec["data"] = {"format": "json", "path": "grown.jsonl", "batch": 3}
    (tmp_path / "plain.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    options = ("--set", "hidden=8", "--allow-outside", "--output")
    grown = str(tmp_path / "grown.jsonl")
    first = tmp_path / "a.npz", tmp_path / "b.npz"
    done = abw(
        "run", str(tmp_path / "growing.yaml"), "--limit", "4", *options, str(first[0]), "--grown", grown
    )
    assert done.code == 0, done.err
    done = abw("run", str(tmp_path / "plain.yaml"), *options, str(first[1]), "--verify")
    assert done.code == 0, done.err
    a, b = (np.load(path) for path in first)
    assert a["scores"].tobytes() == b["scores"].tobytes()
    assert a["scores.vertex"].tolist() == b["scores.vertex"].tolist()
    record = json.loads(Path(grown).read_text().splitlines()[0])
    steps = [vertex for vertex in record["vertices"] if vertex["kind"] == "step"]
    assert steps[0]["said"] == "<s>" and steps[1]["said"] == steps[0]["next"]


def test_a_beam(abw: Abw, tmp_path: Path) -> None:
    lines, grown = tmp_path / "o.jsonl", tmp_path / "g.jsonl"
    told = ("--verify", "--json", "--output", str(lines), "--grown", str(grown))
    done = abw("run", "specs/beam.yaml", "--set", "hidden=8", "--limit", "3", *told)
    assert done.code == 0, done.err
    growth = done.json()["growth"]
    assert growth["decisions"] > 3 * 4 and growth["close"] == 0
    for line, record in zip(*(p.read_text().splitlines() for p in (lines, grown)), strict=True):
        words = json.loads(line)["outputs"]["words"]
        steps = [v for v in json.loads(record)["vertices"] if v["kind"] == "step"]
        assert words == [step["next"] for step in steps if "next" in step]
        assert [step["length"] for step in steps if "next" in step] == list(range(1, len(words) + 1))
    assert "next: best 4 of score.y; adds step" in abw("check", "specs/beam.yaml").out


@pytest.mark.parametrize("spec", ["greedy", "beam", "greedy-attention", "early-exit", "experts"])
def test_memory_is_bounded_beforehand(abw: Abw, spec: str) -> None:
    told = (f"specs/{spec}.yaml", "--set", "hidden=8", "--limit", "6")
    most = abw("check", *told, "--json").json()
    done = abw("run", *told, "--policy", "depth", "--json")
    assert done.code == 0, done.err
    needed = done.json()["memory"]["mini_batch_bytes"]
    assert needed <= most["memory_bytes"] < 30 * needed
    assert most["process_bytes"]["total"] > most["memory_bytes"]
    assert "the largest mini-batch takes at most" in " ".join(abw("check", *told).out.split())


def test_the_mini_batch_is_chosen_by_growing_some(abw: Abw) -> None:
    done = abw("run", "specs/greedy.yaml", "--set", "hidden=8", "--batch", "auto", "--json")
    assert done.code == 0, done.err
    report = done.json()
    tried = report["auto_batch"]["tried"]
    assert [t["batch"] for t in tried][:4] == [1, 2, 4, 8]
    rates = {t["batch"]: t["instances_per_second"] for t in tried}
    assert rates[report["batch"]] >= 0.95 * max(rates.values()) and report["batch"] > 1
    assert all(a["bytes"] < b["bytes"] for a, b in pairwise(tried))


def test_check_says_what_is_computed_when(abw: Abw) -> None:
    done = abw("check", "specs/early-exit.yaml")
    assert done.code == 0, done.err
    assert "layer, at most 12 an instance; sure: exit.y > 0.3; adds layer" in done.out
    assert "before growth: word, text" in done.out
    assert "during growth (each round, in this order): block, exit" in done.out
    assert "after growth: class" in done.out
    growth = abw("check", "specs/experts.yaml", "--json").json()["growth"]
    assert growth["kinds"][0] == {
        "kind": "token",
        "given": True,
        "most": None,
        "decisions": {"best": "argmax gate.y"},
        "adds": [],
    }
    assert growth["numbers"] == ["expert"]
    assert "output 'expert' is written as numbers: it has words where" in " ".join(
        abw("check", "specs/experts.yaml").out.split()
    )
    assert "written as numbers" not in abw("check", "specs/greedy.yaml").out
    assert abw("check", "specs/treelstm.yaml", "--json").json()["growth"] is None


def test_bad_instances_are_left_out(abw: Abw, tmp_path: Path, root: Path) -> None:
    lines = (root / "specs/data/pairs.txt").read_text().splitlines()
    data = tmp_path / "d.txt"
    data.write_text("\n".join([lines[0], "no pair", lines[1]]) + "\n")
    output, grown = tmp_path / "o.jsonl", tmp_path / "g.jsonl"
    told = ("--data", str(data), "--skip-bad", "--output", str(output), "--grown", str(grown))
    assert abw(*GREEDY, *told).code == 0
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["outputs"] is None for line in found] == [False, True, False]
    assert [json.loads(line)["id"] for line in grown.read_text().splitlines()] == [0, 2]


def test_what_is_left_out_keeps_its_id(abw: Abw, little: Path) -> None:
    """The model cannot be run on the second: nothing feeds its mark."""
    vertices = [[{"kind": "token", "place": [1, 2]}] * 2, [{"kind": "token"}] * 2]
    lines = [{"id": f"no {i}", "vertices": v, "links": {}} for i, v in enumerate(vertices)]
    (little.parent / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    little.write_text(FLOATS)
    output = little.parent / "o.jsonl"
    assert abw("run", str(little), "--policy", "depth", "--skip-bad", "--output", str(output)).code == 0
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(line["id"], "error" in line) for line in found] == [("no 0", False), ("no 1", True)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("specs/greedy.yaml", "--granularity", "op"), "greedy grows round by round, and granularity op"),
        (("specs/greedy.yaml", "--fuse"), "greedy grows round by round, and reading reductions in place"),
        (("specs/greedy.yaml", "--profile"), "greedy grows: --profile cannot repeat its rounds"),
        (("specs/treelstm.yaml", "--grown", "x.jsonl"), "nothing grows in treelstm"),
        (("specs/greedy.yaml", "--grown", "x.npz"), "grown instances are not written to x.npz"),
        (("specs/greedy.yaml", "--grown", "x.jsonl", "--output", "./x.jsonl"), "both x.jsonl"),
        (("specs/greedy.yaml", "--grown", "nowhere/x.jsonl"), "there is no folder nowhere"),
        (("specs/greedy.yaml", "--grown", "specs/greedy.yaml"), "grown instances are not written"),
    ],
)
def test_what_is_refused(abw: Abw, arguments: tuple[str, ...], message: str) -> None:
    done = abw("run", *arguments)
    assert done.code != 0 and message in done.err


@pytest.mark.parametrize("passed", [("--granularity", "op"), ("--fuse",)], ids=lambda passed: passed[0])
def test_what_is_refused_in_rounds_is_taken_by_the_commands_that_the_hint_names(
    abw: Abw, passed: tuple[str, ...]
) -> None:
    done = abw("run", "specs/greedy.yaml", *passed)
    named = re.findall(r"compare|explain|viz", done.err.partition("hint:")[2])
    assert named
    for command in named:
        done = abw(command, "specs/greedy.yaml", *passed, "--limit", "2")
        assert done.code == 0, done.err


@pytest.mark.parametrize(
    "more",
    [
        ("compare", "--policies", "depth,critical", "--limit", "4"),
        ("explain", "--policy", "depth"),
        ("layout",),
    ],
    ids=lambda more: more[0],
)
def test_other_commands_take_what_has_grown(abw: Abw, more: tuple[str, ...]) -> None:
    done = abw(more[0], "specs/early-exit.yaml", *more[1:])
    assert done.code == 0, done.err


def test_a_run_of_what_grew_is_shown(abw: Abw, tmp_path: Path) -> None:
    assert abw(*GREEDY, "--policy", "depth").code == 0
    page = tmp_path / "v.html"
    assert abw("viz", "--html", "--output", str(page)).code == 0
    assert "decoder" in page.read_text()


LITTLE = """\
model: little
dims: {hidden: 4}
data: {format: words, path: d.txt, batch: 1}
tables: {words: {dim: hidden, rows: 8}}
grow:
  token: {then: [{add: mark, when: index == 2, at: this}]}
  mark: {links: {at: token}, most: 1}
types:
  read: {per: token, cell: linear.yaml, dims: {in: hidden, out: hidden}, inputs: {x: "words[word]"}}
  tag: {per: mark, cell: linear.yaml, dims: {in: hidden, out: 2}, inputs: {x: at.read.y}}
outputs: {tags: {of: tag.y, as: label}, scores: tag.y}
"""


@pytest.fixture
def little(tmp_path: Path, root: Path) -> Path:
    """A model that marks the third token of a sentence, where there is one."""
    (tmp_path / "linear.yaml").write_text((root / "specs/cells/linear.yaml").read_text())
    (tmp_path / "d.txt").write_text("a b\na b c\n")
    (tmp_path / "model.yaml").write_text(LITTLE)
    return tmp_path / "model.yaml"


@pytest.mark.parametrize("executor", ["cpu", "reference"])
def test_a_mini_batch_without_an_output_at_all(abw: Abw, little: Path, executor: str) -> None:
    lines = little.parent / "o.jsonl"
    done = abw("run", str(little), "--output", str(lines), "--executor", executor)
    assert done.code == 0, done.err
    first, second = (json.loads(line)["outputs"] for line in lines.read_text().splitlines())
    assert first == {"tags": [], "scores": []}
    assert np.shape(second["scores"]) == (1, 2) and len(second["tags"]) == 1
    outputs = api.load(little)(["a b", "a b c"])
    assert [len(tags) for tags in outputs["tags"]] == [0, 1]
    assert outputs["scores"][0].shape == (0, 2)


FLOATS = """\
model: floats
dims: {hidden: 4}
data: {format: json, path: d.jsonl}
grow:
  token: {then: [{add: mark, when: index == 1, at: this}]}
  mark: {links: {at: token}, most: 2}
types:
  tag: {per: mark, cell: linear.yaml, dims: {in: 2, out: 2}, inputs: {x: at.place}}
outputs: {y: tag.y}
"""


def test_what_grew_keeps_its_fields_of_floats(abw: Abw, little: Path) -> None:
    data, grown = little.parent / "d.jsonl", little.parent / "grown.jsonl"
    vertices: list[dict[str, Any]] = [
        {"kind": "token", "place": [0.1, -2.0], "weight": 0.25},
        {"kind": "token", "place": [1.0, 3.5]},
    ]
    data.write_text(json.dumps({"vertices": vertices, "links": {}}) + "\n")
    little.write_text(FLOATS)
    done = abw("run", str(little), "--policy", "depth", "--grown", str(grown))
    assert done.code == 0, done.err
    *tokens, mark = json.loads(grown.read_text())["vertices"]
    wanted = [vertex | {"place": np.float32(vertex["place"]).tolist()} for vertex in vertices]
    assert tokens == wanted and mark == {"kind": "mark"}


def test_a_row_without_a_word_is_not_written(abw: Abw, little: Path) -> None:
    (little.parent / "w.txt").write_text("x\ny\n")
    text = LITTLE.replace("rows: 8}", "rows: 8}, said: {dim: hidden, vocab: w.txt, rows: 4, unknown: 3}")
    text = text.replace("{at: token},", "{at: token}, fields: {said: said},").replace(
        "at.read.y", '"said[said]"'
    )
    grown = little.parent / "grown.jsonl"
    for row, told in ((1, "y"), (3, "3"), (2, None)):
        little.write_text(text.replace("at: this", f"at: this, said: {row}"))
        done = abw("run", str(little), "--policy", "depth", "--grown", str(grown))
        if told is None:
            assert done.code == 1
            assert "row 2 of table said has no word in w.txt: --grown cannot say it" in done.err
            assert "mark.said" in done.err
        else:
            assert done.code == 0, done.err
            assert json.loads(grown.read_text().splitlines()[1])["vertices"][3] == {
                "kind": "mark",
                "said": told,
            }


def test_a_run_in_which_nothing_grew(abw: Abw) -> None:
    done = abw("run", "specs/experts.yaml", "--set", "hidden=4", "--limit", "2", "--policy", "depth")
    assert done.code == 0, done.err
    assert "nothing grew: 1 round of decisions alone" in done.out


def test_from_python(root: Path) -> None:
    model = api.load(root / "specs/greedy.yaml", dims={"hidden": 8}, policy="depth")
    outputs = model([("<s> good morning . </s>", "<s> x y </s>"), ("<s> where ? </s>", "<s> x y </s>")])
    assert [len(words) for words in outputs["words"]] == [20, 20]
    assert "words" in repr(model)
    graph = model.graph([("<s> good morning . </s>", "<s> x y </s>")])
    assert graph.type_sizes.tolist() == [5, 20, 20]
    assert model.run(model.plan(graph)).value(2, 0).shape == (20, 213)


def test_links_of_the_instance_itself_are_written_and_read_again(abw: Abw, tmp_path: Path) -> None:
    grown = tmp_path / "grown.jsonl"
    done = abw("run", "specs/early-exit.yaml", "--limit", "3", "--no-keep", "--quiet", "--grown", str(grown))
    assert done.code == 0, done.err
    records = [json.loads(line) for line in grown.read_text().splitlines()]
    assert [record["links"]["root"] for record in records] == [[0]] * 3
    again = read(grown, "json")
    assert again.schema.links["root"].source == {"instance"}
    assert (again.links["root"].target[again.start[:-1]] == again.start[:-1] + 1).all()


@pytest.mark.parametrize("spec", ["greedy", "stackrnn", "nested", "experts", "beam"])
def test_the_bound_of_rounds_lies_between_the_graphs_and_what_was_run(abw: Abw, spec: str) -> None:
    done = abw("run", f"specs/{spec}.yaml", "--set", "hidden=8", "--limit", "6", "--batch", "3", "--json")
    report = done.json()
    assert report["kept_lower_bound"] <= report["kept_bound_by_rounds"] <= report["batches"]
    assert abw("run", "specs/treelstm.yaml", "--limit", "3", "--json").json()["kept_bound_by_rounds"] is None


def test_what_rounds_took_stands_apart_from_schedules_of_the_graph_in_the_end(abw: Abw) -> None:
    said = abw(*GREEDY, "--policy", "agenda").out
    rows = [
        line.split() for line in said.splitlines() if "round by round" in line or "finished graph" in line
    ]
    assert [row[0] for row in rows] == ["lower", "agenda,", "lower", "depth,"]
    ratios = [float(row[-2]) for row in rows if row[-1] == "x"]
    assert len(ratios) == 2 and min(ratios) >= 1
    bound = abw("runs", "--json").json()["runs"][-1]["kept_bound_by_rounds"]
    assert f"{bound}" in abw("runs").out
    for told in (abw("explain").out, abw("explain", *GREEDY[1:]).out):
        assert "none that goes round by round than" in " ".join(told.split())


def test_nothing_is_ready_before_its_round_begins(abw: Abw, home: Path) -> None:
    assert abw(*GREEDY[:-2], "--batch", "5").code == 0
    (found,) = abw("viz", "--frontier", "--json").json()["frontier"]
    folder = next((home / "runs").iterdir())
    run = find_run(str(folder))
    dag, schedule, *_ = load_batch(run, 0)
    history = load_history(folder, 0, len(dag), 5)
    assert history is not None and history.rounds == 20
    turn = np.empty(len(dag), np.int64)
    turn[schedule.nodes] = np.repeat(np.arange(len(schedule)), np.diff(schedule.ptr))
    source = np.repeat(np.arange(len(dag)), np.diff(dag.succ_ptr))
    for b in range(len(schedule)):
        begun = {history.node_round[v] for v in range(len(dag)) if turn[v] <= b}
        waits = {int(t) for s, t in zip(source, dag.succ, strict=True) if turn[s] >= b}
        ready = [
            v for v in range(len(dag)) if turn[v] >= b and v not in waits and history.node_round[v] in begun
        ]
        expected = np.bincount(dag.type[ready], minlength=len(dag.types)).tolist()
        assert found["ready"][b] == expected
