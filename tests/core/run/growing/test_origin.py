"""Where grown vertices come from, as outputs tell it, and the order in which they stand there."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abw
from abw.core.base.errors import SpecError
from abw.core.run.pipeline import RunOptions, run
from abw.core.serve.answers import as_tensors, described, tensors_of
from abw.core.spec.load import Overrides
from abw.core.store.outputs import outputs_of

TREE = """
model: tree
data: {format: words, path: d.txt, batch: 4}
tables: {w: {dim: 4}, sides: {dim: 4, rows: 3}}
grow:
  node:
    links: {up: node or none}
    fields: {side: sides}
    most: 15
    start: {side: 2}
    choose: {label: argmax split.y}
    then:
      - {add: node, unless: label == 0, up: this, side: 0}
      - {add: node, unless: label == 1, up: this, side: 1}
cells:
  state:
    inputs: {x: 4, s: 4, h: 4}
    params: {U: [4, 4]}
    equations: "z = tanh(U @ h + 3 * x + s)"
    outputs: {z: z}
  split: {inputs: {z: 4}, params: {W: [3, 4]}, equations: "y = W @ z", outputs: {y: y}}
types:
  state:
    per: node
    cell: state
    inputs: {x: "w[instance.token[0].word]", s: "sides[side]", h: up.state.z or zeros}
  split: {per: node, cell: split, inputs: {z: state.z}}
outputs:
  label: {of: node.label, fields: [vertex, parent, clause, up, side]}
  scores: {of: split.y, fields: [parent, clause]}
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))
    (tmp_path / "d.txt").write_text("a\nb c\nd e f\ng\nh i\nj\n")
    (tmp_path / "tree.yaml").write_text(TREE)
    return tmp_path / "tree.yaml"


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("executor", ["cpu", "reference"])
def test_outputs_name_parent_and_clause(spec: Path, tmp_path: Path, executor: str) -> None:
    jsonl, npz, grown = tmp_path / "o.jsonl", tmp_path / "o.npz", tmp_path / "g.jsonl"
    run(spec, Overrides(), RunOptions(policy="depth", executor=executor, output=jsonl, verify=True))
    run(spec, Overrides(), RunOptions(policy="depth", executor=executor, output=npz, grown=grown, keep=False))
    found = lines(jsonl)
    assert max(len(line["outputs"]["label"]) for line in found) > 4
    for line, words in zip(found, (tmp_path / "d.txt").read_text().splitlines(), strict=True):
        told = line["fields"]["label"]
        assert told["parent"] == told["up"]
        assert [None, *told["clause"][1:]] == [None, *told["side"][1:]]
        assert told["clause"][0] is None and told["parent"][0] is None
        count, given = len(told["vertex"]), len(words.split())
        assert told["vertex"] == list(range(given, given + count))  # grown vertices stand behind given ones
        assert line["fields"]["scores"] == {"parent": told["parent"], "clause": told["clause"]}
        # a round's vertices: clause by clause, in each by the vertex that added them
        level = {told["vertex"][0]: 0}
        for vertex, parent in zip(told["vertex"][1:], told["parent"][1:], strict=True):
            level[vertex] = level[parent] + 1
        keys = [
            (level[v], c, p)
            for v, c, p in zip(*(told[n][1:] for n in ("vertex", "clause", "parent")), strict=True)
        ]
        assert all(one < other for one, other in pairwise(keys))
    flat = {name: [v for line in found for v in line["fields"]["label"][name]] for name in told}
    with np.load(npz) as arrays:
        for name, values in flat.items():
            expected = [-1 if value is None else value for value in values]
            assert arrays[f"label.fields.{name}"].tolist() == expected
            assert arrays[f"label.fields.{name}"].dtype == np.int32
        assert arrays["label.vertex"].tolist() == flat["vertex"]
    model = abw.load(spec, policy="depth", executor=executor)
    assert model(tmp_path / "d.txt")["label"].fields == flat
    # what has grown is data with the same links and fields
    assert "parent" in lines(grown)[0]["links"] or len(found[0]["outputs"]["label"]) == 1
    assert any("clause" in vertex for line in lines(grown) for vertex in line["vertices"])


def test_tensors_of_a_server_have_them_too(spec: Path, tmp_path: Path) -> None:
    from abw.core.serve.answers import Answer

    model = abw.load(spec, policy="depth")
    instances = model.read(tmp_path / "d.txt")
    (_, columns), *_ = model.columns(instances)
    ends = [np.append(0, np.cumsum(column.counts)) for column in columns]
    answers = [
        Answer(
            n,
            tuple((c, int(end[n]), int(end[n + 1])) for c, end in zip(columns, ends, strict=True)),
            None,
        )
        for n in range(2)
    ]
    wanted: dict[str, Any] = {"model": "m", "id": None, "outputs": {}, "binary": False}
    reply = as_tensors(answers, wanted, lambda some, _: tensors_of(some, model.outputs))
    tensors = {t["name"]: t["data"] for t in json.loads(reply.body)["outputs"]}
    expected = [-1 if v is None else v for v in columns[-1].fields["parent"][: int(ends[-1][2])]]
    assert tensors["label.fields.parent"] == expected
    assert set(tensors) == {tensor["name"] for tensor in described(outputs_of(model.spec))}


def test_a_kinds_own_names_go_first(spec: Path) -> None:
    text = spec.read_text()
    spec.write_text(
        text.replace("up", "parent").replace("[vertex, parent, clause, parent, side]", "[parent]")
    )
    model = abw.load(spec, policy="depth")
    assert model.spec.growth is not None
    assert not model.spec.growth.kinds[0].origin & {"parent"}
    first = model(["a"])["label"].fields["parent"]
    assert (
        first[0] is None
        and first[1:] == abw.load(text_of(spec, text), policy="depth")(["a"])["label"].fields["up"][1:]
    )


def text_of(spec: Path, text: str) -> Path:
    other = spec.with_name("other.yaml")
    other.write_text(text)
    return other


@pytest.mark.parametrize(
    ("fields", "said"),
    [("[parents]", "node has no field 'parents'"), ("[word]", "node has no field 'word'")],
)
def test_names_that_mean_nothing_are_refused(spec: Path, fields: str, said: str) -> None:
    spec.write_text(spec.read_text().replace("[vertex, parent, clause, up, side]", fields))
    with pytest.raises(SpecError, match=said):
        abw.load(spec)


def test_what_outputs_do_not_ask_for_is_nowhere(spec: Path) -> None:
    spec.write_text(
        spec.read_text()
        .replace(", fields: [vertex, parent, clause, up, side]", "")
        .replace("fields: [parent, clause]", "fields: [up]")
    )
    model = abw.load(spec)
    assert not {"parent", "clause"} & {*model.spec.schema.links, *model.spec.schema.fields}
    clause = spec.read_text().replace("up: this, side: 0", "parent: this, up: this, side: 0")
    spec.write_text(clause.replace("fields: [up]", "fields: [parent]"))
    with pytest.raises(SpecError, match="node has no link or field 'parent'"):
        abw.load(spec)
