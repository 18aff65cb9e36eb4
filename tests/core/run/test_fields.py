"""Numbers of the data as inputs: in every executor and granularity what plain NumPy makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abw
from abw.core.base.errors import AbwError, SpecError
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.ir.network import Granularity
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides
from tests.core.exec.cuda.simulated import SimulatedDevice

CELL = """
cell: sense
inputs: {p: 2, q: 1, n: 1, h: 2}
params: {P: [2, 2], Q: [2, 1], N: [2, 1]}
equations: h1 = tanh(P @ p + Q @ q + N @ n) + h
outputs: {h: h1}
"""
SPEC = """
model: senses
data: {format: json, path: data.jsonl, batch: 2}
types:
  sense:
    per: point
    cell: sense.yaml
    inputs: {p: place, q: weight or last.weight or zeros, n: index, h: last.h or next.place or zeros}
outputs: {h: sense.h}
"""
POINTS: list[list[dict[str, Any]]] = [
    [{"place": [0.5, 1], "weight": 2}, {"place": [-1, 3]}, {"place": [2, 0.25], "weight": -0.5}],
    [{"place": [1, 1]}],
    [{"place": [4, 4], "weight": 1e-3}, {"place": [0, 0]}],
]


def lines() -> list[dict[str, Any]]:
    result = []
    for points in POINTS:
        n = len(points)
        links = {"last": [[i, i - 1] for i in range(1, n)], "next": [[i, i + 1] for i in range(n - 1)]}
        vertices = [{"kind": "point", **point} for point in points]
        result.append({"vertices": [*vertices, {"kind": "other"}], "links": links})
    return result


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "sense.yaml").write_text(CELL)
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines()))
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


def expected(params: Any) -> list[np.ndarray]:  # noqa: ANN401
    p, q, n = (np.asarray(params[f"sense.{name}"], np.float64) for name in "PQN")
    result = []
    for points in POINTS:
        found: list[np.ndarray] = []
        for i, point in enumerate(points):
            weight = point.get("weight", points[i - 1].get("weight", 0.0) if i else 0.0)
            before = found[-1] if found else np.array(points[1]["place"] if len(points) > 1 else [0, 0])
            found.append(np.tanh(p @ point["place"] + q @ [weight] + n @ [i]) + before)
        result.append(np.array(found))
    return result


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("executor", ["reference", "blas", "cpu", "cuda"])
def test_numpy_says_the_same(
    spec: Path,
    executor: str,
    granularity: Granularity,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if executor == "cuda":
        monkeypatch.setattr("abw.core.loaded.executor_of", lambda *_: CudaExecutor(SimulatedDevice()))
    model = abw.load(spec, executor=executor, granularity=granularity, policy="agenda")
    for given in (Path(spec.parent / "data.jsonl"), lines()):
        outputs = model(given)["h"]
        for found, values in zip(outputs, expected(model.params), strict=True):
            np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-6)


def test_arrays_streams_and_fusion(spec: Path) -> None:
    vertices: dict[str, Any] = {
        "point": {
            "instance": [0, 0, 0, 1, 2, 2],
            "place": np.array([point["place"] for points in POINTS for point in points]),
        },
        "heavy": {"instance": [0, 2], "weight": [0.5, 1.5]},
    }
    text = SPEC.replace("weight or last.weight or zeros", "'instance.heavy[0].weight or zeros'")
    spec.write_text(text.replace("path: data.jsonl, ", ""))
    links: Any = {
        "last": ("point", "point", [[1, 2, 5], [0, 1, 4]]),
        "next": ("point", "point", [[0, 1, 4], [1, 2, 5]]),
    }
    arrays = abw.Instances.from_arrays(vertices, links)
    model = abw.load(spec, data=arrays, policy="agenda", fuse=True)
    whole = model(arrays)["h"]
    p, q, n = (np.asarray(model.params[f"sense.{name}"], np.float64) for name in "PQN")
    first = np.tanh(p @ [0.5, 1] + q @ [0.5] + n @ [0]) + np.array([-1, 3])
    np.testing.assert_allclose(whole[0][0], first, rtol=1e-5)
    np.testing.assert_allclose(whole[1][0], np.tanh(p @ [1, 1]), rtol=1e-5)

    spec.write_text(SPEC)
    model = abw.load(spec, policy="agenda")
    (spec.parent / "more.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines()) * 40)
    found = [one for piece in model.stream(spec.parent / "more.jsonl") for one in piece["h"]]
    for one, values in zip(found, expected(model.params) * 40, strict=True):
        np.testing.assert_allclose(one, values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("p: place", "p: weight", r"input 'p' of sense wants \[2\], field 'weight' gives \[1\]"),
        ("p: place", "p: plac", "did you mean 'place'"),
        ("p: place", 'p: "t[place]"', "field 'place' holds floats, and no rows of a table"),
        ("per: point", "per: point, where: weight > 1", "field 'weight' holds floats"),
        ("p: place", "p: label", "'label' is a text: a table has vectors of its words"),
    ],
)
def test_wrong_uses_are_told(spec: Path, old: str, new: str, message: str) -> None:
    data = spec.parent / "data.jsonl"
    data.write_text(data.read_text().replace('"weight": 2', '"weight": 2, "label": "x"'))
    if "where" in new:
        new = new.replace(", where", "\n    where")
    spec.write_text(SPEC.replace(old, new).replace("types:", "tables: {t: {dim: 2}}\ntypes:"))
    with pytest.raises(SpecError, match=message):
        open_model(spec, Overrides())


def test_what_the_data_lack_is_told_with_its_place(spec: Path) -> None:
    spec.write_text(SPEC.replace("weight or last.weight or zeros", "weight"))
    with pytest.raises(
        SpecError, match="nothing feeds input 'q' of type 'sense' at point 1 of instance 0"
    ) as told:
        load_workload(open_model(spec, Overrides()), "cell").graph(0, 2)
    assert "data.jsonl:1" in str(told.value)


def test_too_many_values_of_one_mini_batch(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abw.core.graph.construct.MOST_GIVEN", 2)
    with pytest.raises(
        AbwError, match=r"a mini-batch has [48] values of field '(place|index)', of at most 2"
    ):
        load_workload(open_model(spec, Overrides()), "cell").graph(0, 2)


GROWING = """
model: walk
data: {format: json, path: data.jsonl, batch: 2}
grow:
  turn:
    links: {before: turn or none, at: point or none}
    most: 3
    start: {at: "point[0]"}
    then: [{add: turn, before: this, at: "at.next"}]
types:
  turn:
    per: turn
    cell: sense.yaml
    inputs:
      {p: at.place or zeros, q: "instance.point[0].weight or zeros", n: zeros, h: before.turn.h or zeros}
outputs: {h: turn.h}
"""


@pytest.mark.parametrize("executor", ["reference", "cpu"])
def test_what_grows_reads_the_given_numbers(spec: Path, executor: str) -> None:
    spec.write_text(GROWING)
    model = abw.load(spec, executor=executor, policy="agenda")
    outputs = model(spec.parent / "data.jsonl")["h"]
    p, q = (np.asarray(model.params[f"turn.{name}"], np.float64) for name in "PQ")
    for found, points in zip(outputs, POINTS, strict=True):
        assert len(found) == 3
        h = np.zeros(2)
        for i, value in enumerate(found):
            place = points[i]["place"] if i < len(points) else [0, 0]
            h = np.tanh(p @ place + q @ [points[0].get("weight", 0.0)]) + h
            np.testing.assert_allclose(value, h, rtol=1e-5, atol=1e-6)
    spec.write_text(GROWING.replace("n: zeros", "n: index"))
    with pytest.raises(SpecError, match="field 'index' holds whole numbers, and this model grows"):
        open_model(spec, Overrides())
