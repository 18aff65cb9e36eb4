"""Instances from arrays, networkx and PyTorch Geometric: those of the same graphs written as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.base.errors import AbwError, DataError
from abw.core.data.derive import conform
from abw.core.data.given.graphs import from_networkx, from_pyg
from abw.core.data.given.objects import read_objects
from abw.core.data.instances import Instances
from abw.core.data.read import read
from tests.core.data import oracle


def by_json(graphs: list[dict[str, Any]], folder: Path) -> Instances:
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))
    return read(path, "json")


def same(found: Instances, expected: Instances) -> None:
    oracle.check_arrays(found)
    assert oracle.plain(found) == oracle.plain(expected)
    assert {n: (f.text, f.size) for n, f in found.schema.fields.items()} == {
        n: (f.text, f.size) for n, f in expected.schema.fields.items()
    }
    assert found.schema.links == expected.schema.links


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Graphs whose vertices are ordered by kind, every kind in each of them."""
    result = []
    number = st.floats(-9, 9, width=32)
    for _ in range(draw(st.integers(1, 4))):
        a, b = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        vertices: list[dict[str, Any]] = [
            {
                "kind": "a",
                "n": draw(st.integers(0, 9)),
                "x": draw(number) + 0.1,
                "s": draw(st.text("aé ", max_size=2)),
            }
            for _ in range(a)
        ]
        vertices += [{"kind": "b", "n": draw(st.integers(0, 9)), "p": [draw(number), 0.5]} for _ in range(b)]
        ab = st.tuples(st.integers(0, a - 1), st.integers(a, a + b - 1))
        ba = ab.map(lambda pair: pair[::-1])
        links = {"up": draw(st.lists(ab, max_size=4)), "both": draw(st.lists(ab | ba, max_size=4))}
        result.append({"vertices": vertices, "links": links})
    return result


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_graphs=graphs())
def test_columns_are_lines(given_graphs: list[dict[str, Any]], tmp_path: Path) -> None:
    vertices: dict[str, dict[str, list[Any]]] = {}
    number: dict[tuple[int, int], int] = {}
    ends: dict[str, dict[tuple[str, str], list[tuple[int, int]]]] = {"up": {}, "both": {}}
    for i, graph in enumerate(given_graphs):
        for v, vertex in enumerate(graph["vertices"]):
            columns = vertices.setdefault(vertex["kind"], {"instance": []})
            number[i, v] = len(columns["instance"])
            for name, value in {**vertex, "instance": i}.items():
                columns.setdefault(name, []).append(value)
        for name, pairs in graph["links"].items():
            for v, w in pairs:
                kinds = graph["vertices"][v]["kind"], graph["vertices"][w]["kind"]
                ends[name].setdefault(kinds, []).append((number[i, v], number[i, w]))
    arrays = {k: {n: np.array(c) for n, c in cs.items() if n != "kind"} for k, cs in vertices.items()}
    links = {
        name: [(*kinds, np.array(pairs).T) for kinds, pairs in parts.items()]
        or ("a", "b", np.zeros((2, 0), int))
        for name, parts in ends.items()
    }
    found, expected = Instances.from_arrays(arrays, links), by_json(given_graphs, tmp_path)
    ordered = [
        sorted(ones) for one in oracle.plain(found) for ways in one.links.values() for ones in ways.values()
    ]
    wanted = [
        sorted(o) for one in oracle.plain(expected) for ways in one.links.values() for o in ways.values()
    ]
    assert sorted(ordered) == sorted(wanted)
    plain, plain_expected = oracle.plain(found), oracle.plain(expected)
    assert [(o.line, o.kinds, o.fields) for o in plain] == [
        (o.line, o.kinds, o.fields) for o in plain_expected
    ]
    oracle.check_arrays(found)
    # brought to a schema of data with more of everything, and read as that data
    more = by_json(
        [
            *given_graphs,
            {
                "vertices": [{"kind": "a", "n": 1}, {"kind": "c"}],
                "links": {"up": 2 * [[0, 1]], "new": [[0, 1]]},
            },
        ],
        tmp_path,
    )
    fitted = conform(found, more.schema)
    oracle.check_arrays(fitted)
    assert [(o.kinds, o.fields) for o in oracle.plain(fitted)] == [(o.kinds, o.fields) for o in plain]


def test_links_of_the_instances_themselves(tmp_path: Path) -> None:
    a = {"instance": [0, 0, 1]}
    links: dict[str, Any] = {
        "root": ("instance", "a", [[0, 1], [1, 2]]),
        "of": [("instance", "a", [[0, 1, 0], [1, 2, 0]]), ("a", "a", [[1], [0]])],
    }
    lines = [
        {"vertices": 2 * [{"kind": "a"}], "links": {"root": 1, "of": [1, 0, [1, 0]]}},
        {"vertices": [{"kind": "a"}], "links": {"root": [0], "of": 0}},
    ]
    expected = by_json(lines, tmp_path)
    same(Instances.from_arrays({"a": a}, links), expected)
    same(read_objects(lines, "json"), expected)
    with pytest.raises(AbwError, match="no kind 'instance'"):
        Instances.from_arrays({"a": a}, {"up": ("a", "instance", [[0], [0]])})


ATOMS = {"instance": [0, 0, 1], "element": [6, 8, 6]}


@pytest.mark.parametrize(
    ("vertices", "links", "message"),
    [
        ({}, {}, "one to 255 kinds"),
        ({"a": {"n": [1, 2], "m": [1]}}, {}, "have not one length: n 2, m 1"),
        ({"a": {"instance": [1, 0]}}, {}, "does not ascend"),
        ({"a": {"instance": [0.5]}}, {}, "no array of whole numbers"),
        ({"atom": ATOMS}, {"bond": [[0, 1]]}, r"link 'bond' is int64 \[1, 2\]"),
        ({"atom": ATOMS}, {"bond": [[0], [3]]}, "link 'bond', edge 0: there is no vertex 3 of kind 'atom'"),
        ({"atom": ATOMS}, {"bond": [[0, 1], [1, 2]]}, "edge 1 leads from one instance to another"),
        ({"atom": ATOMS}, {"bond": ("atom", "atm", [[0], [1]])}, "no kind 'atm'"),
        ({"atom": ATOMS, "b": {"instance": [1]}}, {"bond": [[0], [1]]}, "does not say its kinds"),
        ({"a": {"x": [0.5, np.nan]}}, {}, "field 'x' of vertex 1 of kind 'a' is nan"),
        ({"a": {"x": [0.5]}, "b": {"x": [[0, 1e39]]}}, {}, "not of one type and size"),
        ({"a": {"x": [0.5]}, "b": {"x": [1.5, 1e39]}}, {}, "field 'x' of vertex 1 of kind 'b' is 1e[+]39"),
        ({"a": {"x": [1j]}}, {}, "is of type complex128"),
        ({"a": {"instance": []}}, {}, "there are no instances: every column is empty"),
        ([1], {}, "vertices are arrays by kind"),
        ({"a": [1]}, {}, "vertices are arrays by kind"),
        ({"a": {"n": [1]}}, [1], "links are arrays by name"),
        ({"atom": ATOMS}, {"bond": ("atom", "atom", [[0, 1], [1]])}, "link 'bond' is not an array"),
        ({"atom": ATOMS}, {"bond": ("atom", [[0], [1]])}, "link 'bond' does not say its kinds"),
        ({"a": {"s": np.array([["x", "y"]])}}, {}, "field 's' is not of one type and size"),
    ],
)
def test_mistakes_in_arrays(vertices: Any, links: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(AbwError, match=message):
        Instances.from_arrays(vertices, links)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, None, "a"], "vertex 1 of kind 'p' is None"),
        ([True, "x", None], "vertex 1 of kind 'p' is 'x', a string; of vertex 0 it is a number"),
        (["C", None, "O"], "vertex 1 of kind 'p' is None"),
        (["C", "O", b"O"], "vertex 2 of kind 'p' is b'O', bytes; of vertex 0 it is a string"),
        ([0.5, "nan"], "vertex 1 of kind 'p' is 'nan'"),
        ([None], "vertex 0 of kind 'p' is None"),
        (np.array([6, "x"], object), "vertex 1 of kind 'p' is 'x'"),
        (np.ma.array([6, 8], mask=[False, True]), "vertex 1 of kind 'p' is None"),
        (
            [[1, 2, 3], [1, 2], [3]],
            r"vertex 1 of kind 'p' is \[1, 2\], a list of 2; of vertex 0 it is a list of 3",
        ),
        ([["a", "b"]], r"vertex 0 of kind 'p' is \['a', 'b'\], neither"),
        ([10**30], "fit no array"),
        ([b"\xff"], "not UTF-8"),
    ],
)
def test_no_value_is_made_a_string(values: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(DataError, match=f"field 'z' of (kind 'p' holds .*)?{message}"):
        Instances.from_arrays({"p": {"z": values}}, {})


def test_objects_are_what_their_list_is() -> None:
    values: Any = {"n": [6, 8], "x": [0.5, 1], "s": ["b", "a"], "v": [[1, 2.5], [3, 4]]}
    as_objects = {name: np.array(column, object) for name, column in values.items()}
    same(Instances.from_arrays({"p": as_objects}), Instances.from_arrays({"p": values}))
    nothing: Any = {"p": {"s": ["a"]}, "q": {"s": np.array([], object)}}
    assert Instances.from_arrays(nothing).vocabulary["s"] == ["a"]


@pytest.mark.parametrize("given_graphs", [["a"], "a", [1], 5, None, []])
def test_what_is_no_graph(given_graphs: Any) -> None:  # noqa: ANN401
    for make in (from_networkx, from_pyg):
        with pytest.raises(AbwError, match=r"graph 0 is .*, not|there are no graphs"):
            make(given_graphs)


@pytest.mark.parametrize(
    ("vertices", "links", "message"),
    [
        ({"c": {"n": [1]}}, {}, "has no kind 'c'"),
        ({"a": {"s": [1]}}, {}, "field 's' does not hold strings"),
        ({"a": {"n": ["1"]}}, {}, "field 'n' does not hold whole numbers"),
        ({"a": {"n": [0.5]}}, {}, "field 'n' does not hold whole numbers"),
        ({"a": {"x": ["1"]}}, {}, "field 'x' holds strings"),
        ({"a": {"x": [[1, 2.5]]}}, {}, "field 'x' holds 2 numbers a vertex, not 1"),
        ({"a": {"n": [1, 2]}}, {"l": [[0, 0], [0, 1]]}, "several links 'l'"),
    ],
)
def test_instances_that_a_model_does_not_know(vertices: Any, links: Any, message: str) -> None:  # noqa: ANN401
    known: Any = {"a": {"n": [1], "s": ["b"], "x": [0.5]}, "b": {"n": [1]}}
    schema = Instances.from_arrays(known, {"l": ("a", "a", [[0], [0]])}).schema
    whole = conform(Instances.from_arrays({"a": {"x": [2]}}), schema)
    assert whole.values["x"].rows.tolist() == [[2.0]] and whole.links["l"].target.tolist() == [-1, -1]
    with pytest.raises(AbwError, match=message):
        conform(Instances.from_arrays(vertices, links), schema)


class Graph:
    """As much of networkx's graphs as is read of them."""

    def __init__(self, nodes: dict[Any, dict[str, Any]], edges: list[Any], directed: bool, name: str) -> None:
        self.graph = {"name": name}
        self.nodes = lambda data: nodes.items()
        self.edges = lambda data: edges
        self.is_directed = lambda: directed


def test_networkx(tmp_path: Path) -> None:
    given: dict[Any, Any] = {"x": {"kind": "a", "n": 3}, "y": {"kind": "a", "n": 4}}
    one = Graph(given, [("x", "y", {}), ("y", "y", {})], False, "g")
    two = Graph({0: {"kind": "a", "n": 5}, 1: {"kind": "b", "w": 0.5}}, [(0, 1, {})], True, "")
    found = from_networkx([one, two])
    assert found.names == ("g", 1)
    a: list[Any] = [{"kind": "a", "n": n} for n in (3, 4, 5)]
    b = {"kind": "b", "w": 0.5}
    lines: list[dict[str, Any]] = [
        {"vertices": a[:2], "links": {"edge": [[0, 1], [1, 0], [1, 1]]}},
        {"vertices": [a[2], b], "links": {"edge": [[0, 1]]}},
    ]
    same(found, by_json(lines, tmp_path))
    weighed = Graph({0: {}, 1: {}}, [(0, 1, {"weight": 0.5})], False, "")
    with pytest.raises(AbwError, match="edges have attributes: weight") as raised:
        from_networkx(weighed)
    assert "edges='bond'" in str(raised.value)
    bonds: list[Any] = [{"kind": "bond", "weight": 0.5}] * 2
    nodes = [{"kind": "node"}] * 2
    ends = {"from": [[2, 0], [3, 1]], "to": [[2, 1], [3, 0]]}
    line: dict[str, Any] = {"vertices": nodes + bonds, "links": ends}
    same(from_networkx(weighed, edges="bond"), by_json([line], tmp_path))
    assert len(from_networkx(weighed, ignore=["weight"]).kind) == 3
    half = Graph({0: {"x": 0.5}, 1: {"x": None}}, [], True, "")
    with pytest.raises(DataError, match="field 'x' of vertex 1 of kind 'node' is None"):
        from_networkx(half)
    with pytest.raises(AbwError, match="graph 1, node 0: attribute 'n' is not on all of kind 'a'"):
        from_networkx([one, Graph({0: {"kind": "a"}}, [], True, "")])


class Data(dict[Any, Any]):
    """As much of PyTorch Geometric's data as is read of it."""

    def __init__(self, fields: Mapping[Any, Any], **attributes: Any) -> None:  # noqa: ANN401
        super().__init__(fields)
        for name, value in attributes.items():
            setattr(self, name, value)


def tensor(values: object) -> Any:  # noqa: ANN401
    array = np.array(values)
    return SimpleNamespace(shape=array.shape, detach=lambda: SimpleNamespace(cpu=lambda: array))


def test_pyg(tmp_path: Path) -> None:
    first = {
        "x": tensor([[1.5], [2.5]]),
        "z": tensor([6, 8]),
        "edge_index": tensor([[0, 1], [1, 0]]),
        "y": tensor([1]),
    }
    second = {"x": np.array([[0.5]]), "z": np.array([1]), "edge_index": np.array([[0], [0]]), "num_nodes": 1}
    lines: list[dict[str, Any]] = [
        {
            "vertices": [{"kind": "node", "x": 1.5, "z": 6}, {"kind": "node", "x": 2.5, "z": 8}],
            "links": {"edge": [[0, 1], [1, 0]]},
        },
        {"vertices": [{"kind": "node", "x": 0.5, "z": 1}], "links": {"edge": [[0, 0]]}},
    ]
    same(from_pyg([Data(first), Data(second)]), by_json(lines, tmp_path))
    batch: dict[str, Any] = {
        "x": tensor([[1.5], [2.5], [0.5]]),
        "z": tensor([6, 8, 1]),
        "edge_index": tensor([[0, 2, 1], [1, 2, 0]]),
        "edge_attr": tensor([[1.0, 2], [3, 4], [5, 6]]),
        "batch": tensor([0, 0, 1]),
        "ptr": tensor([0, 2, 3]),
    }
    same(from_pyg(Data(batch), ignore=["edge_attr"]), by_json(lines, tmp_path))
    with pytest.raises(AbwError, match="edges have attributes: edge_attr"):
        from_pyg(Data(batch))
    bonds: list[tuple[Any, Any]] = [([[1, 2.0], [5, 6]], [[0, 1], [1, 0]]), ([[3, 4]], [[0, 0]])]
    for line, (values, ends) in zip(lines, bonds, strict=True):
        n = len(line["vertices"])
        line["vertices"] += [{"kind": "bond", "edge_attr": value} for value in values]
        line["links"] = {
            "from": [[n + e, a] for e, (a, _) in enumerate(ends)],
            "to": [[n + e, b] for e, (_, b) in enumerate(ends)],
        }
    same(from_pyg(Data(batch), edges="bond"), by_json(lines, tmp_path))


def test_pyg_columns_are_of_one_type() -> None:
    mixed = Data({"num_nodes": 2, "s": ["C", None], "name": ["a", None, 1]})
    with pytest.raises(DataError, match="field 's' of vertex 1 of kind 'node' is None"):
        from_pyg(mixed)
    words, numbers = (Data({"num_nodes": 1, "s": [value]}) for value in ("C", 6))
    with pytest.raises(AbwError, match=r"field 's' of kind 'node' is <U1 .1., and then int64"):
        from_pyg([words, numbers])
    with pytest.raises(AbwError, match=r"field 's' of kind 'node' is int64 .1., and then int64 .1, 2"):
        from_pyg([numbers, Data({"num_nodes": 1, "s": [[6, 8]]})])
    assert from_pyg([words, words]).vocabulary["s"] == ["C"]


def test_pyg_with_types(tmp_path: Path) -> None:
    data = Data(
        {
            "paper": {"x": np.array([[1.0, 2.5], [0, 1]]), "num_nodes": 2},
            "author": {"num_nodes": 1},
            ("author", "writes", "paper"): {"edge_index": np.array([[0, 0], [0, 1]])},
        },
        node_types=["paper", "author"],
        edge_types=[("author", "writes", "paper")],
    )
    papers = [{"kind": "paper", "x": x} for x in ([1, 2.5], [0, 1])]
    line = {"vertices": [*papers, {"kind": "author"}], "links": {"writes": [[2, 0], [2, 1]]}}
    same(from_pyg([data, data]), by_json([line, line], tmp_path))
