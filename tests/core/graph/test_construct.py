"""Construction against the naive meaning of a model, on shipped data, real data and random graphs."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.base.errors import SpecError
from abw.core.graph.bounds import lower_bound, topological_order
from abw.core.graph.graph import Graph
from abw.core.policy.registry import get_policy
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.core.graph.naive import NaiveGraph, Value

SPECS = [
    "bilstm", "bilstm-chars", "lstm-nmt", "treelstm", "treegru", "treelstm-nary", "treegru-nary", "mvrnn",
    "treelstm-2type", "lattice", "lattice-gru", "fig1", "fig10",
    "torch-lstm", "torch-bilstm", "torch-gru", "torch-treelstm", "torch-childsum", "dag", "words", "rings",
    "gat", "ggnn", "rgcn", "bidag", "treelstm-attend", "attention-nmt", "set-transformer", "tree-transformer",
]  # fmt: skip


def workload(spec: Path, data: Path | None = None, limit: int | None = None, seed: int = 0) -> Workload:
    model = open_model(spec, Overrides(data=data, limit=limit, batch=limit, seed=seed, dims={"hidden": 4}))
    return open_workload(model, read_instances(model.data, limit), open_networks(model, "cell"))


def value_of(graph: Graph, found: Workload, offset: int, reference: int) -> Value:
    """What a reference means, in the naive graph's words."""
    if reference >= 0:
        node, output = divmod(reference, graph.network.width)
        return ("node", int(graph.dag.type[node]), int(graph.vertex[node]) + offset, output)
    number, row = graph.network.constant_of(reference)
    constant = graph.network.constants[number]
    if constant.kind == "table":
        return ("table", constant.number, row)
    if constant.kind == "field":
        return ("field", graph.network.fields[constant.number], *graph.given[constant.number][row].tolist())
    return ("param", constant.number) if constant.kind == "param" else ("zeros", constant.shape)


def compare(found: Workload, first: int, last: int) -> Graph:
    """Construct, and compare all nodes, operands, edges and results with the naive graph's."""
    graph = found.graph(first, last)
    offset = int(found.instances.start[first])
    expected = NaiveGraph(found.model, found.instances, first, last).nodes()
    names = [(int(t), int(v) + offset) for t, v in zip(graph.dag.type, graph.vertex, strict=True)]
    assert names == sorted(expected)  # type by type, in the order of their vertices
    assert (
        graph.type_ptr.tolist()
        == np.searchsorted(graph.dag.type, np.arange(len(graph.dag.types) + 1)).tolist()
    )

    edges: Counter[tuple[int, int]] = Counter()
    for node, name in enumerate(names):
        references = graph.operand[graph.operand_ptr[node] : graph.operand_ptr[node + 1]].tolist()
        values = [value_of(graph, found, offset, r) for r in references]
        assert values == [v for slot in expected[name] for v in slot], (name, found.model.types[name[0]].name)
        edges.update({(r // graph.network.width, node) for r in references if r >= 0})
        instance = int(graph.instance[node])
        start = found.instances.start
        assert start[first + instance] <= graph.vertex[node] + offset < start[first + instance + 1]
    dag = graph.dag
    sources = np.repeat(np.arange(len(dag)), np.diff(dag.succ_ptr)).tolist()
    assert Counter(zip(sources, dag.succ.tolist(), strict=True)) == edges
    assert (
        dag.indegree.tolist() == [sum(1 for _, v in edges if v == node) for node in range(len(dag))]
        or len(dag) > 400
    )
    assert dag.indegree.sum() == len(edges)
    topological_order(dag)

    naive = NaiveGraph(found.model, found.instances, first, last)
    for refs, (called, producers) in zip(graph.results, found.model.outputs, strict=True):
        assert refs.name == called
        lives = [
            (v, t, o)
            for v in range(offset, int(found.instances.start[last]))
            for t, o in producers
            if naive.lives(t, v)
        ]
        assert [v for v, _, _ in lives] == (refs.vertex + offset).tolist()
        values = [value_of(graph, found, offset, r) for r in refs.reference.tolist()]
        assert values == [naive.value(t, v, o) for v, t, o in lives]
    return graph


@pytest.mark.parametrize("name", SPECS)
def test_every_shipped_model_has_the_graph_it_means(root: Path, name: str) -> None:
    found = workload(root / "specs" / f"{name}.yaml", limit=None)
    count = min(len(found.instances), 5)
    compare(found, 0, count)
    if len(found.instances) > 7:
        compare(found, 5, 7)  # a window that does not begin at the first instance


@pytest.mark.parametrize(
    ("spec", "data", "nodes", "bound", "depth", "agenda", "sufficient"),
    [
        ("treelstm", "trees/train.txt", 5192, 26, 50, 39, 26),
        ("lattice", "lattice/train.txt", 7955, 208, 584, 423, 275),
    ],
)
def test_the_first_64_real_instances_have_the_known_numbers(
    root: Path,
    shared_data: Path,
    spec: str,
    data: str,
    nodes: int,
    bound: int,
    depth: int,
    agenda: int,
    sufficient: int,
) -> None:
    dag = workload(root / "specs" / f"{spec}.yaml", shared_data / data, 64).graph(0, 64).dag
    batches = [len(get_policy(p).schedule(dag)) for p in ("depth", "agenda", "sufficient")]
    assert (len(dag), int(lower_bound(dag).sum()), *batches) == (nodes, bound, depth, agenda, sufficient)


def test_the_papers_first_figure(root: Path) -> None:
    dag = workload(root / "specs" / "fig1.yaml").graph(0, 1).dag
    batches = [len(get_policy(p).schedule(dag)) for p in ("depth", "agenda", "sufficient")]
    assert (*batches, int(lower_bound(dag).sum())) == (9, 7, 6, 6)


SIMPLE_SPEC = """
model: random
dims: {{n: 3}}
data: {{format: json, path: {path}, batch: 8, seed: {seed}}}
tables: {{t: {{dim: n, rows: 5}}}}
params: {{p: n}}
types:
  a:
    {{per: x, cell: cell.yaml, inputs: {{u: "only.m.s or w or t[id]", v: "down[0].b.y or only.w or zeros"}}}}
  b:
    per: y
    where: coin == 0
    cell: cell.yaml
    inputs: {{u: "only.a.y or t[only.id] or p", v: "down[1].m.s or zeros"}}
  e:
    per: y
    where: coin == 1
    cell: cell.yaml
    inputs: {{u: "t[id]", v: "down[1].m.q or down[1].e.y or p"}}
  m: {{per: x, {reduction}: {{s: down.y, q: down.y or p}}}}
  f: {{per: y, {reduction}: {{w: "down.down.a.y or t[id]"}}}}
  g: {{per: x, cell: other.yaml, inputs: {{u: "over[0].k.s or p", v: "over[0].k.q or zeros"}}}}
  k: {{per: x, {reduction}: {{s: over.a.y, q: over.g.z or p}}}}
  r: {{per: instance, sum: {{y: x.m.s or p}}}}
  like: {{per: x, {reduction}: {{s: down.y or p}}}}
  fewer: {{per: x, {reduction}: {{s: down.b.y}}}}
  some: {{per: x, where: coin == 0, {reduction}: {{s: down.y, q: down.y}}}}
  others: {{per: x, where: coin == 1, {reduction}: {{s: down.y}}}}
outputs: {{ab: [a.y, b.y], m: m.q, f: f.w, r: r.y, k: k.q, l: like.s, n: fewer.s, o: [some.q, others.s]}}
"""
CELL = """
cell: cell
dims: [n]
inputs: {u: n, v: n}
equations: "y = tanh(u + v)"
outputs: {y: y}
"""


@st.composite
def instances(draw: st.DrawFn) -> list[dict[str, object]]:
    """Graphs whose links lead to later vertices only: no cycle, whatever the model."""
    found: list[dict[str, object]] = []
    for number in range(draw(st.integers(1, 3))):
        kinds = draw(st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=7))
        vertices: list[dict[str, object]] = [{"kind": k, "id": draw(st.integers(0, 9))} for k in kinds]
        for vertex in vertices:
            if draw(st.booleans()):
                vertex["w"] = [draw(st.integers(-9, 9)), 0.5, draw(st.integers(-9, 9))]
        pairs = [[i, j] for i in range(len(kinds)) for j in range(i + 1, len(kinds))]
        down = draw(st.lists(st.sampled_from(pairs), unique_by=tuple)) if pairs else []
        later = {i: st.sampled_from(range(i + 1, len(kinds))) for i in range(len(kinds) - 1)}
        only = [[i, draw(target)] for i, target in later.items() if draw(st.booleans())]
        above = [pair for pair in pairs if kinds[pair[0]] == kinds[pair[1]] == "x"]
        over = draw(st.lists(st.sampled_from(above), unique_by=tuple)) if above else []
        links = {"down": down, "only": only, "over": over}
        found.append({"id": f"g{number}", "vertices": vertices, "links": links})
    # the schema is discovered from the data: the first graph shows every kind and link
    every: list[dict[str, object]] = [
        {"kind": "x", "id": 1},
        {"kind": "y", "id": 2},
        {"kind": "x", "id": 3},
        {"kind": "y", "id": 4},
    ]
    every.append({"kind": "x", "id": 5})
    every = [{**vertex, "w": [0.5, 1, 2]} for vertex in every]
    pairs = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    links = {"down": pairs, "only": [[0, 1], [1, 2], [2, 3]], "over": [[0, 2], [0, 4], [2, 4]]}
    found.insert(0, {"id": "all", "vertices": every, "links": links})
    return found


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    data=instances(), reduction=st.sampled_from(["sum", "mean", "max", "var", "std"]), seed=st.integers(0, 3)
)
def test_random_graphs_have_the_graph_that_the_model_means(
    tmp_path: Path, data: list[dict[str, object]], reduction: str, seed: int
) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(g) + "\n" for g in data))
    (tmp_path / "cell.yaml").write_text(CELL)
    (tmp_path / "other.yaml").write_text(
        CELL.replace("cell: cell", "cell: other").replace("{y: y}", "{z: y}")
    )
    spec = tmp_path / "model.yaml"
    text = SIMPLE_SPEC.format(path=path.name, seed=seed, reduction=reduction)
    spec.write_text("\n".join(map(without_default, text.split("\n"))))
    found = workload_of(spec)
    compare(found, 0, len(data))
    compare(found, len(data) - 1, len(data))


def without_default(line: str) -> str:
    """A line of a spec where a reduction that has no default has none."""
    return re.sub(r" or (p|t\[id\])", "", line) if re.search(r" (var|std): ", line) else line


def workload_of(spec: Path) -> Workload:
    model = open_model(spec, Overrides())
    return open_workload(model, read_instances(model.data, None), open_networks(model, "cell"))


def json_model(
    tmp_path: Path, types: str, links: str, vertices: str = '{"kind": "x"}, {"kind": "x"}, {"kind": "y"}'
) -> Path:
    (tmp_path / "cell.yaml").write_text(CELL)
    (tmp_path / "d.jsonl").write_text(f'{{"id": "g7", "vertices": [{vertices}], "links": {{{links}}}}}\n')
    spec = tmp_path / "m.yaml"
    head = "model: m\ndims: {n: 3}\ndata: {format: json, path: d.jsonl, batch: 8}\ntypes:\n"
    spec.write_text(f"{head}{types}\noutputs: {{o: a.y}}\n")
    return spec


def test_nodes_that_wait_for_each_other_are_named(tmp_path: Path) -> None:
    spec = json_model(
        tmp_path,
        "  a: {per: x, cell: cell.yaml, inputs: {u: go.y or zeros, v: zeros}}\n"
        "  b: {per: y, cell: cell.yaml, inputs: {u: go.y, v: zeros}}",
        '"go": [[0, 2], [2, 0]]',
    )
    with pytest.raises(SpecError) as caught:
        workload_of(spec).graph(0, 1)
    said = str(caught.value)
    assert "nodes wait for each other: " in said
    assert "a -> b -> a" in said or "b -> a -> b" in said
    assert "instance 0 'g7'" in said
    assert "d.jsonl:1" in said


@pytest.mark.parametrize(
    ("source", "links", "said"),
    [
        ("go.y", '"go": [[0, 1]]', "nothing feeds input 'u' of type 'a' at x 1 of instance 0 'g7'"),
        ("go.y or zeros", '"go": [[0, 1], [0, 2]]', "link 'go' leads to several vertices at x 0"),
    ],
)
def test_what_the_data_does_not_give_is_said_with_its_place(
    tmp_path: Path, source: str, links: str, said: str
) -> None:
    types = f"  a: {{per: x, cell: cell.yaml, inputs: {{u: {source}, v: zeros}}}}"
    with pytest.raises(SpecError) as caught:
        workload_of(json_model(tmp_path, types, links)).graph(0, 1)
    problem = caught.value.problems[0]
    assert said in problem.message
    assert "d.jsonl:1" in problem.message
    assert problem.where is not None
    assert (Path(problem.where.file).name, problem.where.line) == ("m.yaml", 5)
    assert problem.where.text[problem.where.column - 1 :].startswith(source)
    assert problem.hint


def test_a_default_need_only_be_where_a_reduction_reduces_nothing(tmp_path: Path) -> None:
    spec = json_model(
        tmp_path,
        "  a: {per: x, cell: cell.yaml, inputs: {u: s.y or zeros, v: zeros}}\n"
        "  b: {per: y, cell: cell.yaml, inputs: {u: zeros, v: zeros}}\n"
        "  s: {per: x, sum: {y: go.b.y or only.b.y}}",
        '"go": [[0, 2], [0, 3]], "only": [[1, 2]]',
        '{"kind": "x"}, {"kind": "x"}, {"kind": "y"}, {"kind": "y"}',
    )
    compare(workload_of(spec), 0, 1)


def test_a_reduction_that_stands_for_another_may_have_fewer_outputs(tmp_path: Path) -> None:
    """The places of outputs that one of them does not have hold nothing to follow."""
    spec = json_model(
        tmp_path,
        "  a: {per: x, cell: two.yaml, inputs: {u: r.y or zeros, v: zeros}}\n"
        "  s: {per: x, sum: {y: go.a.y}}\n"
        "  r: {per: x, sum: {y: go.s.y}}",
        '"go": [[0, 1], [1, 2], [1, 3]]',
        ", ".join(['{"kind": "x"}'] * 4),
    )
    two = CELL.replace("cell: cell", "cell: two").replace("{y: y}", "{y: y, z: y}")
    (tmp_path / "two.yaml").write_text(two)
    found = workload_of(spec)
    for size in range(4, 64):  # whatever lay in memory before
        for array in [np.full(size, -(2**30) - 7, np.int32) for _ in range(8)]:
            del array
        compare(found, 0, 1)


def test_reductions_that_stand_for_each_other_are_refused(tmp_path: Path) -> None:
    spec = json_model(
        tmp_path,
        "  a: {per: x, cell: cell.yaml, inputs: {u: s.y, v: zeros}}\n"
        "  s: {per: x, sum: {y: go.s.y or back.a.y}}",
        '"go": [[0, 1], [1, 0]], "back": [[1, 0], [0, 0]]',
    )
    with pytest.raises(SpecError, match="refer to each other"):
        workload_of(spec).graph(0, 1)


def test_what_a_table_does_not_have_is_said_with_its_place(root: Path, tmp_path: Path) -> None:
    trained = Overrides(weights=tmp_path / "w.npz", dims={"hidden": 4})
    found = open_model(root / "specs/lattice.yaml", trained)
    instances = read_instances(found.data, None)
    with pytest.raises(SpecError) as caught:
        open_workload(found, instances, open_networks(found, "cell")).graph(0, len(instances))
    said = caught.value.problems[0].message
    number = re.search(r"id (\d+) is no row of table '(chars|words)', which has 256", said)
    assert number and int(number[1]) >= 256 and "lattice.txt:" in said

    shutil.copytree(root / "specs", tmp_path / "specs")
    spec = tmp_path / "specs/torch-lstm.yaml"
    spec.write_text(spec.read_text().replace(", unknown: <unk>", ""))
    model = open_model(spec, Overrides())
    with pytest.raises(SpecError) as caught:
        workload_of(spec).graph(0, 1)
    said = caught.value.problems[0].message
    assert f"'Anna' is not in the vocabulary {model.tables[0].vocab and model.tables[0].vocab.path}" in said
    assert "instance 0" in said and "tags.txt:1" in said and "unknown: <unk>" in caught.value.problems[0].hint
