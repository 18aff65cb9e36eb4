"""abw from Python: the same results as from the command line, whatever the instances are given as."""

from __future__ import annotations

import copy
import doctest
import json
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abw
from abw.core import api, loaded
from abw.core.base.errors import AbwError, DataError, InstanceError
from abw.core.graph.dag import Dag
from abw.core.policy.check import check_schedule
from abw.core.policy.rules.depth import Depth
from abw.core.policy.schedule import Schedule
from abw.core.run import parallel
from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides

TREES = [(3, (2, "It"), (4, (3, "works"), (2, "well"))), (2, "Fine"), (1, (0, "Not"), (1, "so"))]
LINES = ["(3 (2 It) (4 (3 works) (2 well)))", "(2 Fine)", "(1 (0 Not) (1 so))"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(root)


def test_what_the_documentation_says() -> None:
    assert doctest.testmod(api).attempted > 5
    assert doctest.testmod(api).failed == 0
    told = doctest.testfile("docs/python.md", module_relative=False)
    assert told.attempted > 15
    assert told.failed == 0


@pytest.mark.parametrize("executor", ["cpu", "blas", "reference"])
def test_a_call_gives_what_a_run_gives(tmp_path: Path, executor: str) -> None:
    file = tmp_path / "out.npz"
    run(
        Path("specs/lattice.yaml"),
        Overrides(dims={"hidden": 8}, batch=5),
        RunOptions(executor=executor, output=file),
    )
    model = api.load("specs/lattice.yaml", dims={"hidden": 8}, batch=5, executor=executor)
    column = model(Path("specs/data/lattice.txt"))["tags"]
    with np.load(file) as kept:
        np.testing.assert_allclose(column.values, kept["tags"], rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(column.offsets, kept["tags.offsets"])
        np.testing.assert_array_equal(column.vertex, kept["tags.vertex"])


def test_arrays_are_what_their_lines_are(tmp_path: Path) -> None:
    """Two sums of leaves, as lines and as arrays; the model may be opened with either."""
    leaves = [{"kind": "leaf", "name": name} for name in "xyz"]
    lines = [
        {
            "vertices": [*leaves[:2], {"kind": "operation", "name": "+"}],
            "links": {"arguments": [[2, 0], [2, 1]]},
        },
        {"vertices": [leaves[2], {"kind": "operation", "name": "-"}], "links": {"arguments": [[1, 0]]}},
    ]
    arrays = abw.Instances.from_arrays(
        {
            "leaf": {"instance": [0, 0, 1], "name": ["x", "y", "z"]},
            "operation": {"instance": [0, 1], "name": ["+", "-"]},
        },
        {"arguments": ("operation", "leaf", [[0, 0, 1], [0, 1, 2]])},
    )
    model = abw.load("specs/dag.yaml", dims={"hidden": 8})
    expected = model(lines)["sign"]
    opened = abw.load("specs/dag.yaml", dims={"hidden": 8}, data=arrays, policy="auto")
    for found in (model(arrays)["sign"], opened(arrays)["sign"], opened(lines)["sign"]):
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(found.vertex, expected.vertex)
    with pytest.raises(abw.AbwError, match="the model's are of format trees"):
        abw.load("specs/treelstm.yaml")(arrays)
    with pytest.raises(abw.SpecError, match="the model's data are of format trees, the instances json"):
        abw.load("specs/treelstm.yaml", data=arrays)


def test_objects_lines_and_files_are_the_same(tmp_path: Path) -> None:
    model = abw.load("specs/treelstm.yaml", dims={"hidden": 8})
    file = tmp_path / "trees.txt"
    file.write_text("\n".join(LINES))
    expected = model(file)["classes"]
    for instances in (TREES, LINES, model.read(TREES)):
        np.testing.assert_array_equal(model(instances)["classes"].values, expected.values)
    assert [len(array) for array in expected] == [5, 1, 3]
    np.testing.assert_array_equal(expected[-1], expected[2])
    assert [len(array) for array in expected[1:]] == [1, 3]
    with pytest.raises(IndexError):
        expected[3]


def test_a_stream_gives_the_same_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = abw.load("specs/treelstm.yaml", dims={"hidden": 8}, batch=2)
    monkeypatch.setattr(loaded, "read_ahead", lambda batch: (batch, batch))
    file = tmp_path / "trees.txt"
    file.write_text("\n".join(LINES * 2))
    pieces = list(model.stream(file))
    assert [len(piece["classes"]) for piece in pieces] == [2, 2, 2]
    joined = np.concatenate([piece["classes"].values for piece in pieces])
    np.testing.assert_allclose(joined, model(LINES * 2)["classes"].values, rtol=1e-5, atol=1e-7)


def test_a_model_may_be_called_while_its_stream_is_not_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its threads go on meanwhile, in memory of their own."""
    monkeypatch.setattr(loaded, "read_ahead", lambda batch: (2 * batch, 2 * batch))
    monkeypatch.setattr(parallel, "LEAST", 0)
    file = tmp_path / "trees.txt"
    file.write_text("\n".join(LINES * 40))
    alone, several = (
        abw.load("specs/treelstm.yaml", dims={"hidden": 8}, batch=2, policy="depth", threads=n)
        for n in (1, 3)
    )
    expected = alone(LINES)["classes"].values
    pieces, others = [], []
    for piece in several.stream(file):
        pieces.append(piece["classes"].values)
        others.append(several(LINES)["classes"].values)
        if len(others) == 2:
            others.append(next(several.stream(file))["classes"].values[: len(expected)])
    assert np.array_equal(np.concatenate(pieces), alone(file)["classes"].values)
    assert all(np.array_equal(other, expected) for other in others)
    assert len(others) == len(pieces) + 1 > 10


def test_calls_on_several_threads_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share the executor's memory."""
    model, lines = (
        abw.load("specs/treelstm.yaml", policy="depth", threads=1),
        ["(3 (2 It) (4 works))", "(2 Fine)"],
    )
    (tmp_path / "t.txt").write_text("\n".join(lines * 40))
    wanted, inside, most = model(lines), 0, 0
    plain = model._called

    def called(*given: Any) -> Any:  # noqa: ANN401
        nonlocal inside, most
        inside, most = inside + 1, max(most, inside + 1)
        time.sleep(0.01)
        found = plain(*given)
        inside -= 1
        return found

    monkeypatch.setattr(model, "_called", called)
    streamed = model.stream(tmp_path / "t.txt")
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: model(lines)["classes"].values, range(9)))
        pieces = [pool.submit(next, streamed).result()["classes"].values[:4]]
    assert most == 1
    for values in found + pieces:
        np.testing.assert_array_equal(values, wanted["classes"].values[: len(values)])


def test_every_step_alone() -> None:
    model = abw.load("specs/lattice.yaml", dims={"hidden": 8}, fuse=True, group=True)
    graph = model.graph(Path("specs/data/lattice.txt"))
    for policy in (None, "agenda", "fsm"):
        schedule = model.schedule(graph, policy)
        check_schedule(graph.dag, schedule)
        result = model.run(model.plan(graph, schedule))
        found = result.values(graph.results[0].reference)
        np.testing.assert_allclose(
            found, model(Path("specs/data/lattice.txt"))["tags"].values, rtol=1e-5, atol=1e-7
        )


def test_a_policy_of_ones_own() -> None:
    class Counting(Depth):
        """The depth policy, which says that it was asked."""

        asked = 0

        def schedule(self, dag: Dag) -> Schedule:
            Counting.asked += 1
            return super().schedule(dag)

    model = abw.load("specs/treelstm.yaml", dims={"hidden": 8}, policy=Counting())
    usual = abw.load("specs/treelstm.yaml", dims={"hidden": 8})
    np.testing.assert_allclose(
        model(TREES)["classes"].values, usual(TREES)["classes"].values, rtol=1e-5, atol=1e-7
    )
    assert Counting.asked == 1


def test_schedules_from_outside_are_checked() -> None:
    class Wrong(Depth):
        """The depth policy, without its last batch."""

        def schedule(self, dag: Dag) -> Schedule:
            right = super().schedule(dag)
            return Schedule(right.type[:-1], right.ptr[:-1], right.nodes[: right.ptr[-2]])

    model = abw.load("specs/treelstm.yaml", dims={"hidden": 8}, policy=Wrong())
    with pytest.raises(AbwError, match=r"policy Wrong: node \d+ is never executed"):
        model(TREES)
    graph = model.graph(TREES)
    with pytest.raises(AbwError, match=r"policy Wrong: node \d+ is never executed"):
        model.schedule(graph, Wrong())
    with pytest.raises(AbwError, match=r"schedule: node \d+ is never executed"):
        model.plan(graph, Wrong().schedule(graph.dag))


class Backwards:
    """Depth's batches, by a class that can be sent to another process."""

    def schedule(self, dag: Dag) -> Schedule:
        return Depth().schedule(dag)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"policy": "critical", "executor": "blas", "threads": None},
        {"policy": Backwards(), "precision": "bf16", "seed": 3},
        {"policy": "fsm", "granularity": "op", "check_finite": True},
    ],
)
@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_model_can_be_copied_and_pickled(again: Any, options: dict[str, Any]) -> None:  # noqa: ANN401
    model = api.load("specs/treelstm.yaml", dims={"hidden": 8}, **{"threads": 1, **options})
    other = again(model)
    np.testing.assert_array_equal(other(TREES)["classes"].values, model(TREES)["classes"].values)
    assert repr(other) == repr(model)
    assert other.executor is not model.executor


def test_a_copy_has_the_weights_of_its_moment() -> None:
    model = api.load("specs/sst.yaml", dims={"hidden": 8}, policy="sufficient", threads=1)
    trainer = model.trainer()
    trainer.step(TREES)
    then = model(TREES)["classes"].values
    other = copy.deepcopy(model)
    trainer.step(TREES)
    np.testing.assert_array_equal(other(TREES)["classes"].values, then)
    other.trainer().step(TREES)
    assert not np.array_equal(other(TREES)["classes"].values, then)


def test_what_single_precision_cannot_hold_is_infinite_without_a_warning(tmp_path: Path) -> None:
    """Warnings are errors in these tests."""
    spec = """\
model: large
data: {format: json, path: t.jsonl}
cells: {c: {inputs: {x: 2}, equations: "y = exp(x * 100)", outputs: {y: y}}}
types: {t: {per: a, cell: c, inputs: {x: x}}}
outputs: {y: t.y}
"""
    (tmp_path / "m.yaml").write_text(spec)
    line = {"vertices": [{"kind": "a", "x": [0.95, -2]}, {"kind": "a", "x": [1000, 1]}], "links": {}}
    (tmp_path / "t.jsonl").write_text(json.dumps(line))
    for executor in ("reference", "blas", "cpu"):
        found = api.load(tmp_path / "m.yaml", executor=executor, policy="critical")(tmp_path / "t.jsonl")
        assert found["y"].values.tolist() == [[np.inf, 0], [np.inf, np.inf]], executor


def test_a_policy_is_learned_once_from_the_data_given(tmp_path: Path) -> None:
    file = tmp_path / "trees.txt"
    file.write_text("\n".join(LINES))
    model = abw.load("specs/treelstm.yaml", data=file, dims={"hidden": 8})
    model(TREES)
    (policy,) = (tmp_path / "home" / "policies").iterdir()
    plain = abw.load("specs/treelstm.yaml", dims={"hidden": 8}, policy="depth")
    graph = plain.graph(TREES)
    found = [plain.schedule(graph, name).nodes.tolist() for name in ("auto", str(policy))]
    assert found == 2 * [model.schedule(graph).nodes.tolist()]
    assert json.loads(policy.read_text())["data"]["path"] == str(file)
    abw.load("specs/treelstm.yaml", dims={"hidden": 8})(TREES)
    assert list((tmp_path / "home" / "policies").iterdir()) == [policy]


def test_parameters_can_be_read_and_not_written() -> None:
    model = abw.load("specs/treelstm.yaml", dims={"hidden": 8}, seed=3)
    assert model.params["internal.Ui" + "l"].shape == (8, 8)
    assert model.params["words"].shape[1] == 8
    with pytest.raises(ValueError, match="read-only"):
        model.params["words"][0] = 0


def test_what_cannot_be_run_says_so(tmp_path: Path) -> None:
    model = abw.load("specs/treelstm.yaml", dims={"hidden": 8})
    wrong: list[Any] = ["(2 Fine)", b"(2 Fine)", 5, None]
    for what in wrong:
        with pytest.raises(TypeError, match="neither a file nor instances"):
            model(what)
    with pytest.raises(abw.AbwError, match="a mapping, not a sequence of instances"):
        model({"vertices": [{"kind": "a"}]})
    with pytest.raises(abw.AbwError, match="no instances"):
        model([])
    with pytest.raises(DataError, match="instance 1:1:10: "):
        model([*LINES[:1], "(3 (2 It)"])
    with pytest.raises(abw.AbwError, match="instance 1 is not an instance of format trees"):
        model([TREES[0], (3, "two words")])
    with pytest.raises(abw.SpecError):
        abw.load(tmp_path / "absent.yaml")
    with pytest.raises(abw.AbwError, match="no policy"):
        abw.load("specs/treelstm.yaml", policy="dept")(TREES)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"granularity": "cel"}, "did you mean 'cell'"),
        ({"layout": "plan"}, "no layout is called 'plan'"),
        ({"encoding": "sorted"}, "did you mean 'sort'"),
        ({"threads": 0}, "threads cannot be 0"),
        ({"executor": "gpu"}, "no executor is called 'gpu'"),
    ],
)
def test_options_that_do_not_exist(options: dict[str, Any], said: str) -> None:
    with pytest.raises(abw.AbwError) as caught:
        abw.load("specs/treelstm.yaml", **options)
    assert said in str(caught.value)


def test_import_abw_is_cheap_and_says_what_it_offers() -> None:
    offered = {name for name in dir(abw) if not name.startswith("_")}
    assert {*abw.__all__, "tanh", "softmax", "arrow", "torch"} <= offered
    assert not offered & {"Any", "importlib", "sys"}
    assert all(hasattr(abw, name) for name in offered - {"arrow", "torch"})
    with pytest.raises(AttributeError):
        abw.nothing  # noqa: B018


def test_outputs_show_themselves() -> None:
    outputs = abw.load("specs/treelstm.yaml", dims={"hidden": 8})(TREES)
    assert repr(outputs) == "classes: Ragged: 9 values of 3 instances, each (m, 5)"
    one = abw.load("specs/treelstm.yaml", dims={"hidden": 8})([TREES[0]])
    assert "of 1 instance, each" in repr(one)
    assert list(outputs) == ["classes"]
    assert json.dumps(outputs["classes"][1].tolist())


BAD = ["", " ", "\x00", "\ud800", "(3 (2 It)", "(3 x)\n(3 y)", "(2 a) b", 7, None, (3,), (3, "two words")]


@given(st.lists(st.sampled_from([*TREES, *LINES, *BAD]), min_size=1, max_size=140))
@settings(max_examples=25, deadline=None)
def test_each_instance_gives_one_output_or_one_error(instances: list[Any]) -> None:
    model = treelstm()
    outputs = model(instances, errors="return")
    good = [i for i, instance in enumerate(instances) if instance not in BAD]
    assert sorted({*range(len(instances))} - set(good)) == list(outputs.errors)
    column = outputs["classes"]
    assert len(column) == len(instances)
    for i, error in outputs.errors.items():
        assert len(column[i]) == 0 and f"instance {i}" in str(error)
    for i in good:
        np.testing.assert_array_equal(column[i], model([instances[i]])["classes"][0])
    if outputs.errors:
        with pytest.raises(AbwError, match="instance "):
            model(instances)


def test_errors_of_files_have_the_instances_places(tmp_path: Path) -> None:
    lines = [LINES[i % 3] if i % 7 else "(3 (2 It)" for i in range(3000)]
    path = tmp_path / "trees.txt"
    path.write_text("\n".join(lines))
    model = treelstm()
    outputs = model(path, errors="return")
    assert list(outputs.errors) == list(range(0, 3000, 7))
    assert str(outputs.errors[7]) == f"{path}:8:10: the line ends inside a tree"
    np.testing.assert_array_equal(
        outputs["classes"].values, model([x for x in lines if x in LINES])["classes"].values
    )
    pieces = list(model.stream(path, errors="return"))
    assert sum(len(piece["classes"]) for piece in pieces) == 3000
    assert sum(len(piece.errors) for piece in pieces) == len(outputs.errors)
    with pytest.raises(AbwError, match="no errors is called 'ignore'"):
        model(path, errors="ignore")


def test_an_instance_that_the_model_cannot_be_run_on_is_an_error_of_its_own() -> None:
    model = abw.load("specs/dag.yaml", dims={"hidden": 8}, policy="depth")
    good = Path("specs/data/expressions.jsonl").read_text().splitlines()[:3]
    nameless = {"vertices": [{"kind": "operation"}]}
    outputs = model([good[0], nameless, '{"vertices": 5}', good[1], nameless, good[2]], errors="return")
    assert [type(error) for error in outputs.errors.values()] == [InstanceError, DataError, InstanceError]
    assert list(outputs.errors) == [1, 2, 4]
    expected = model(good)["sign"]
    for at, array in zip((0, 3, 5), expected, strict=True):
        np.testing.assert_array_equal(outputs["sign"][at], array)


@cache
def treelstm() -> abw.LoadedModel:
    return abw.load("specs/treelstm.yaml", dims={"hidden": 8}, policy="depth")


COINS = """
model: coins
data: {format: words, path: d.txt, seed: 5, batch: 4}
tables: {w: {dim: 2, rows: 9}}
cells:
  c: {inputs: {x: 2}, equations: "y = x + 1", outputs: {y: y}}
types:
  t: {per: token, where: coin == 1, cell: c, inputs: {x: "w[index]"}}
outputs: {y: t.y}
"""


def test_without_a_seed_the_coin_is_the_specs_everywhere(tmp_path: Path) -> None:
    (tmp_path / "coins.yaml").write_text(COINS)
    (tmp_path / "d.txt").write_text("a b c d e f g h\ni j k l\n")
    for seed in (None, 7):
        file = tmp_path / f"{seed}.npz"
        run(tmp_path / "coins.yaml", Overrides(seed=seed), RunOptions(seed=seed or 0, output=file))
        with np.load(file) as kept:
            offsets, vertex = kept["y.offsets"], kept["y.vertex"]
        model = api.load(tmp_path / "coins.yaml", seed=seed)
        assert model.spec.data.seed == (5 if seed is None else seed)
        column = model(tmp_path / "d.txt")["y"]
        np.testing.assert_array_equal(column.offsets, offsets)
        np.testing.assert_array_equal(column.vertex, vertex)
    assert api.load(tmp_path / "coins.yaml", seed=0).spec.data.seed == 0


def test_a_server_takes_the_specs_coin_too(tmp_path: Path) -> None:
    from abw.core.serve.settings import Loading

    (tmp_path / "coins.yaml").write_text(COINS)
    (tmp_path / "d.txt").write_text("a b c\n")
    told = Loading(str(tmp_path / "coins.yaml"))
    assert api.load(told.target, **told.options).spec.data.seed == 5
