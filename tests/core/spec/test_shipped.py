"""The specs that ship with the project."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml

from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.ir.model import Model
from abw.core.policy.registry import get_policy
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.keys.model import model_schema
from abw.core.spec.load import Overrides, load_cell
from tests.core.spec.writing import LATTICE, LSTM, edited

SPECS = Path(__file__).resolve().parents[3] / "specs"
MODELS = sorted(path for path in SPECS.glob("*.yaml") if path.stem != "subgraph")
CELLS = sorted(SPECS.glob("cells/*.yaml"))
PLANS = sorted(SPECS.glob("plans/*.yaml"))


def name_of(path: Path) -> str:
    return path.stem


def test_all_the_workloads_are_there() -> None:
    assert {path.stem for path in MODELS} == {
        *("bilstm", "bilstm-chars", "lstm-nmt", "treelstm", "treegru", "treelstm-nary", "treegru-nary"),
        *("mvrnn", "treelstm-2type", "lattice", "lattice-gru", "dag", "fig1", "fig10", "uneven"),
        *(
            "greedy",
            "greedy-attention",
            "stackrnn",
            "drnn",
            "nested",
            "early-exit",
            "experts",
            "beam",
            "berxit",
            "stackrnn-gold",
        ),
        *("torch-lstm", "torch-bilstm", "torch-gru", "torch-treelstm", "torch-childsum", "words", "rings"),
        *("torch-greedy", "torch-beam", "sst", "ner", "seq2seq"),
        *(
            "gat",
            "ggnn",
            "rgcn",
            "bidag",
            "treelstm-attend",
            "attention-nmt",
            "set-transformer",
            "tree-transformer",
        ),
    }


@pytest.mark.parametrize("path", [*MODELS, *CELLS], ids=name_of)
def test_form(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    schema = "abw.schema.json" if path.parent == SPECS else "../abw.schema.json"
    assert lines[0] == f"# yaml-language-server: $schema={schema}"
    assert lines[1].startswith("# ")
    assert len(lines) <= 40 and max(map(len, lines)) <= 110


@pytest.mark.parametrize("path", MODELS, ids=name_of)
def test_models_load_at_any_size(path: Path) -> None:
    model = open_model(path, Overrides())
    assert model.dims["hidden"] == (128 if path.stem == "sst" else 64)
    assert model.data.batch == {"fig1": 1, "fig10": 1, "uneven": 2}.get(path.stem, 64)
    small = open_model(path, Overrides(dims={"hidden": 6}))
    assert set(small.dims.values()) <= {*model.dims.values(), 6, 3, 12} - {64, 32, 128}
    assert {file for file in model.files if file.parent.name == "cells"} <= set(CELLS)


def test_every_cell_is_used_and_stands_alone() -> None:
    used = {file for path in MODELS for file in open_model(path, Overrides()).files[1:]}
    assert {file for file in used if file.suffix == ".yaml"} == set(CELLS)
    for path in CELLS:
        assert load_cell(path, {}).name == path.stem


def dag_of(name: str) -> tuple[Model, Dag]:
    model = open_model(SPECS / f"{name}.yaml", Overrides())
    instances = read_instances(model.data, None)
    return model, open_workload(model, instances, open_networks(model, "cell")).graph(0, len(instances)).dag


def fewest(dag: Dag) -> int:
    """The least number of batches: breadth first over what is executed."""
    before: list[set[int]] = [set() for _ in range(len(dag))]
    for v in range(len(dag)):
        for w in dag.succ[dag.succ_ptr[v] : dag.succ_ptr[v + 1]]:
            before[w].add(v)

    def after(done: frozenset[int]) -> Iterator[frozenset[int]]:
        ready = [v for v in range(len(dag)) if v not in done and before[v] <= done]
        for a in {int(dag.type[v]) for v in ready}:
            yield done | {v for v in ready if dag.type[v] == a}

    states = {frozenset[int]()}
    batches = 0
    while not any(len(state) == len(dag) for state in states):
        states = {later for state in states for later in after(state)}
        batches += 1
    return batches


def test_figure_1() -> None:
    _, dag = dag_of("fig1")
    assert len(dag) == 15
    assert [len(get_policy(name).schedule(dag)) for name in ("depth", "agenda")] == [9, 7]
    assert fewest(dag) == lower_bound(dag).sum() == 6


def test_figure_10() -> None:
    _, dag = dag_of("fig10")
    assert len(dag) == 2 * 15
    assert fewest(dag) == lower_bound(dag).sum() == 12


def test_the_json_schema_file_is_the_generated_one() -> None:
    written = (SPECS / "abw.schema.json").read_text(encoding="utf-8")
    assert written == json.dumps(model_schema(), indent=1, ensure_ascii=False) + "\n"


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = model_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", [*MODELS, *CELLS, *PLANS], ids=name_of)
def test_shipped_specs_fit_the_json_schema(path: Path, validator: jsonschema.Draft202012Validator) -> None:
    validator.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (LATTICE, "model: lattice\n", ""),
        (LATTICE, "outputs:", "ouputs:"),
        (LATTICE, "format: lattice", "format: latice"),
        (LATTICE, "path: d.txt", "path: d.txt, batch: 0"),
        (LATTICE, "path: d.txt", "path: d.txt, batch: many"),
        (LATTICE, "tags: 3", "tags: 3.5"),
        (LATTICE, "tags: 3", "a-b: 3"),
        (LATTICE, "{dim: embed}", "{rows: 5}"),
        (LATTICE, "per: position, sum", "sum"),
        (LATTICE, "cell: linear.yaml, ", ""),
        (LATTICE, "cell: linear.yaml, ", "cell: linear.yaml, sum: {h: arcs.h}, "),
        (LATTICE, "sum: {h: arcs.h or h0, c: arcs.c}", "sum: {h: arcs.h}, inputs: {h: arcs.h}"),
        (LATTICE, "inputs: {x: state.h}", "input: {x: state.h}"),
        (LATTICE, "inputs: {x: state.h}", "inputs: {x: [state.h]}"),
        (LATTICE, "{tags: tag.y}", "{}"),
        (LSTM, "outputs: {h: h1, c: c1}", ""),
        (LSTM, "b: hidden}", "b: [1, 2, 3]}"),
        (LSTM, "b: hidden}", "b: {init: 1}}"),
        (LSTM, "b: hidden}", "'b b': hidden}"),
        (LSTM, "cell: lstm", "cell: lstm\nmodel: m"),
    ],
)
def test_broken_specs_do_not_fit(
    text: str, old: str, new: str, validator: jsonschema.Draft202012Validator
) -> None:
    validator.validate(yaml.safe_load(text))
    assert not validator.is_valid(yaml.safe_load(edited(text, old, new)))
