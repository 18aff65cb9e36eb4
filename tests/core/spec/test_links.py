"""Links that a model makes of its data's: what they are for, and mistakes in saying what they are made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import abw
from abw.core.base.errors import DataError, SpecError
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from abw.core.spec.models.drafts import kinds_text

CELL = """
cell: step
inputs: {x: 2, h: 2}
params: {W: [2, 2]}
equations: y = tanh(W @ h + x)
outputs: {y: y}
"""
SPEC = """
model: both-ways
data: {format: json, path: data.jsonl, batch: 4}
links:
  back: {reverse: to}
  all: {all: point}
types:
  below: {per: point, sum: {h: to.up.y}}
  up: {per: point, cell: step.yaml, inputs: {x: at, h: below.h}}
  above: {per: point, sum: {h: back.down.y}}
  down: {per: point, cell: step.yaml, params: up, inputs: {x: up.y, h: above.h}}
  every: {per: point, max: {h: all.down.y}}
  out: {per: point, cell: step.yaml, inputs: {x: every.h, h: down.y}}
outputs: {y: out.y}
"""
# A diamond.
EDGES = [[0, 1], [0, 2], [1, 3], [2, 3]]
PLACES = [[0.5, 1.0], [2.0, -1.0], [0.25, 0.0], [1.0, 1.0]]


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    vertices = [{"kind": "point", "at": place} for place in PLACES]
    (tmp_path / "step.yaml").write_text(CELL)
    (tmp_path / "data.jsonl").write_text(json.dumps({"vertices": vertices, "links": {"to": EDGES}}) + "\n")
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


@pytest.mark.parametrize("executor", ["reference", "cpu"])
def test_a_dag_is_gone_over_both_ways(spec: Path, executor: str) -> None:
    model = abw.load(spec, executor=executor, policy="agenda")
    w, v = (np.asarray(model.params[name], np.float64) for name in ("up.W", "out.W"))
    up, down = [np.zeros(2)] * 4, [np.zeros(2)] * 4
    for p in (3, 2, 1, 0):
        up[p] = np.tanh(w @ sum((up[b] for a, b in EDGES if a == p), np.zeros(2)) + PLACES[p])
    for p in range(4):
        down[p] = np.tanh(w @ sum((down[a] for a, b in EDGES if b == p), np.zeros(2)) + up[p])
    expected = [np.tanh(v @ down[p] + np.max(down, axis=0)) for p in range(4)]
    (found,) = model(spec.parent / "data.jsonl")["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_data_that_have_a_link_of_that_name_are_refused(spec: Path) -> None:
    model = abw.load(spec, policy="agenda")
    text = (spec.parent / "data.jsonl").read_text()
    with pytest.raises(DataError, match="a link 'back'"):
        model([json.loads(text.replace('"to"', '"back"'))])
    (spec.parent / "data.jsonl").write_text(text.replace('"links": {', '"links": {"back": [], '))
    with pytest.raises(SpecError, match="the data have a link 'back'"):
        open_model(spec, Overrides())


def test_links_of_a_format_of_its_own(root: Path, tmp_path: Path) -> None:
    """Of trees: the parent, which the format has, made of its children."""
    cells = f"cell: {root}/specs/cells/"
    (tmp_path / "spec.yaml").write_text(
        f"""
model: down
dims: {{hidden: 4}}
data: {{format: trees, path: {root}/specs/data/trees.txt}}
links: {{mother: {{reverse: children}}, before: {{previous: node}}}}
tables: {{labels: {{dim: hidden}}}}
types:
  own: {{per: node, {cells}dense.yaml, dims: {{in: hidden, out: hidden}}, inputs: {{x: "labels[label]"}}}}
  node:
    per: node
    {cells}gru.yaml
    dims: {{embed: hidden}}
    inputs: {{x: before.own.h or zeros, h: LINK.node.h or zeros}}
outputs: {{h: node.h}}
"""
    )
    values = []
    for link, unused in (("mother", "no such text"), ("parent", "mother: {reverse: children}, ")):
        path = tmp_path / f"{link}.yaml"
        path.write_text((tmp_path / "spec.yaml").read_text().replace("LINK", link).replace(unused, ""))
        model = abw.load(path, policy="agenda", allow_outside=True)
        values.append(model(root / "specs/data/trees.txt")["h"].values)
    np.testing.assert_array_equal(*values)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{reverse: too}", "no link 'too' to reverse"),
        ("{reverse: to}\n  more: {next: point}", "link 'more' is never used"),
        ("{next: poin}", "unknown kind 'poin'"),
        ("{before: point}", "does not say what it is made of"),
        ("{next: point, previous: point}", "says next and previous: it is made in one way"),
        ("{revers: to}", r"does not say what it is made of(.|\n)*did you mean 'reverse'\?"),
        ("{reverse: every}\n  every: {all: point}", "link 'every' is declared further down"),
        ("to", "link 'back'"),
    ],
)
def test_mistakes(spec: Path, written: str, message: str) -> None:
    spec.write_text(SPEC.replace("{reverse: to}", written))
    with pytest.raises(SpecError, match=message):
        open_model(spec, Overrides())


def test_nothing_follows_from_a_wrong_link(spec: Path) -> None:
    spec.write_text(SPEC.replace("{reverse: to}", "{reverse: too}"))
    with pytest.raises(SpecError) as error:
        open_model(spec, Overrides())
    assert len(error.value.problems) == 1


def test_a_message_names_some_of_many_kinds() -> None:
    assert kinds_text(frozenset({"leaf", "internal"})) == "internal or leaf"
    assert kinds_text(frozenset("abcdef")) == "a or b or c or d or e or f"
    assert kinds_text(frozenset("abcdefgh")) == "a or b or c or d or e or 3 other kinds"
