"""Attention from a spec to outputs: every executor against formulas over the data as it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from abw.core.base.errors import Span
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.interface import Executor
from abw.core.exec.params import Params, init_params
from abw.core.exec.registry import get_executor
from abw.core.ir.cell import Param
from abw.core.ir.model import KEYS, QUERY, VALUES, Attention, AttentionGradient, Table
from abw.core.ir.network import Constant, Granularity, Slot
from abw.core.plan.check import check_plan
from abw.core.plan.plan import plan
from abw.core.policy.rules.agenda import Agenda
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.core.exec.builder import make_graph, make_network, reference
from tests.core.exec.corners import once
from tests.core.exec.cuda.simulated import SimulatedDevice

Array = NDArray[np.float64]

SPEC = """\
model: attention
dims: {hidden: 6, key: 4, heads: 2}
data: {format: json, path: graphs.jsonl}
tables: {names: {dim: hidden, rows: 11}}
params: {v0: hidden, q0: key}
cells:
  project:
    dims: [hidden, key]
    inputs: {x: hidden}
    params: {Q: [key, hidden], K: [key, hidden], V: [hidden, hidden]}
    equations: |
      q = Q @ x
      k = K @ x
      v = V @ x
    outputs: {q: q, k: k, v: v}
types:
  project: {per: node, cell: project, inputs: {x: "names[code]"}}
  near: {per: node, attend: {query: project.q, keys: to.project.k, values: to.project.v or v0, heads: heads}}
  all: {per: node, attend: {query: "to[0].project.q or q0", keys: instance.node.project.k,
                            values: instance.node.project.v, score: added}}
  readout: {per: instance, attend: {query: q0, keys: node.project.k, values: node.near.y, scaled: false}}
outputs: {near: near.y, all: all.y, readout: readout.y}
"""


def graphs(rng: np.random.Generator, sizes: list[int]) -> list[dict[str, Any]]:
    """Instances of so many nodes, with links between any of them."""
    return [
        {
            "vertices": [{"kind": "node", "code": int(code)} for code in rng.integers(0, 11, n)],
            "links": {"to": [[u, v] for u in range(n) for v in range(n) if rng.random() < 0.3]},
        }
        for n in sizes
    ]


def workload(
    folder: Path, made: list[dict[str, Any]], granularity: Granularity = "cell", **dims: int
) -> Workload:
    (folder / "graphs.jsonl").write_text("".join(f"{json.dumps(g)}\n" for g in made))
    (folder / "model.yaml").write_text(SPEC)
    model = open_model(folder / "model.yaml", Overrides(dims=dims))
    return open_workload(model, read_instances(model.data, None), open_networks(model, granularity))


def softmax_mean(scores: Array, values: Array) -> Array:
    """The mean of values, by the softmax of their scores."""
    weights = np.exp(scores) / np.exp(scores).sum()
    return np.asarray(sum(w * value for w, value in zip(weights, values, strict=True)))


def attention(
    query: Array, keys: list[Array], values: list[Array], heads: int, *, scaled: bool = True
) -> Array:
    """Attention by its definition, head by head."""
    found: list[Array] = []
    for h in range(heads):
        parts = [np.array_split(x, heads)[h] for x in (query, *keys)]
        scores = np.array([parts[0] @ key for key in parts[1:]])
        if scaled:
            scores /= np.sqrt(len(parts[0]))
        found.append(softmax_mean(scores, np.array([np.array_split(v, heads)[h] for v in values])))
    return np.concatenate(found)


def expected(made: list[dict[str, Any]], found: Workload, params: Params, heads: int) -> dict[str, Array]:
    """All outputs, from the data as written and the parameters."""
    values: dict[str, Array] = {
        p.name: params.values[n].astype(np.float64) for n, p in enumerate(found.model.params)
    }
    names: Array = params.tables[0].astype(np.float64)
    out: dict[str, list[Array]] = {"near": [], "all": [], "readout": []}
    for graph in made:
        x = [names[vertex["code"]] for vertex in graph["vertices"]]
        projected = {name: [values[f"project.{name}"] @ one for one in x] for name in "QKV"}
        q, k, v = (projected[name] for name in "QKV")
        near = []
        for u in range(len(x)):
            to = [b for a, b in graph["links"]["to"] if a == u]
            some = attention(q[u], [k[b] for b in to], [v[b] for b in to], heads) if to else values["v0"]
            near.append(some)
            sums = [key + (q[to[0]] if to else values["q0"]) for key in k]
            scores = np.array([np.where(s > 0, s, 0.2 * s).sum() for s in sums])
            out["all"].append(softmax_mean(scores, np.array(v)))
        out["near"] += near
        out["readout"].append(attention(values["q0"], k, near, 1, scaled=False))
    return {name: np.array(rows) for name, rows in out.items()}


def executors() -> list[tuple[str, Executor]]:
    return [
        ("reference", get_executor("reference")),
        ("blas", get_executor("blas")),
        ("cpu", get_executor("cpu")),
        ("cuda", CudaExecutor(SimulatedDevice(races=False), "plan")),
    ]


@pytest.mark.parametrize(
    ("sizes", "granularity", "dims"),
    [
        ([1, 2, 3, 5, 8], "cell", {"hidden": 16, "key": 8}),
        ([4, 1, 6], "op", {}),
        ([3, 70], "cell", {"hidden": 35, "key": 10, "heads": 5}),
    ],
)
def test_every_executor_computes_what_the_formulas_say(
    sizes: list[int], granularity: Granularity, dims: dict[str, int], tmp_path: Path
) -> None:
    made = graphs(np.random.default_rng(len(sizes)), sizes)
    found = workload(tmp_path, made, granularity, **dims)
    params = init_params(found.network, 3)
    wanted = expected(made, found, params, dims.get("heads", 2))
    graph = found.graph(0, len(made))
    planned = plan(graph, Agenda().schedule(graph.dag))
    check_plan(graph, planned)
    assert len(planned.schedule) <= (5 if granularity == "cell" else 9)  # no pair is a node
    for name, executor in executors():
        if name == "cuda" and max(sizes) > 10:
            continue  # to simulate is slow
        executor.prepare(found.network, params)
        result = executor.run(planned)
        for refs in graph.results:
            close = 1e-12 if name == "reference" else 2e-6
            error = np.abs(result.values(refs.reference) - wanted[refs.name]).max()
            assert error <= close * np.abs(wanted[refs.name]).max(), (name, refs.name)


LISTS = [
    [0, 1],
    [2, 1, 0],
    [3, 4],
    [4, 4, 4],
    [5, 1],
    [6, 0, 1],
    [0] * 64 + [7],
    [4] * 64 + [1],
    [7] + [0] * 99,
]


def test_scores_at_their_ends() -> None:
    """Scores of hundreds overflow no exponential; what is infinite or no number ends as NumPy's does."""
    keys = [1.0, -2.0, 300.0, -500.0, -np.inf, np.inf, np.nan, 900.0]
    tables = tuple(Table(name, len(keys), (2,), None, None, Span("test", 1)) for name in ("values", "keys"))
    constants = (
        Constant("table", 0, (2,), 0, 8),
        Constant("table", 1, (2,), 8, 8),
        Constant("param", 0, (2,), 16, 1),
    )
    slots = tuple(Slot(f"s{n}", (2,), (), (n,)) for n in range(3))
    network = make_network([("attend", None, Attention(1), slots)], tables, constants, [Param("query", (2,))])
    operands = [[*(-1 - i for i in some), *(-9 - i for i in some), *[-17] * len(some)] for some in LISTS]
    graph = make_graph(network, [0] * len(LISTS), operands)
    planned = plan(graph, once(graph))
    # two for each number of a value and of a key, four for each head's weight
    assert planned.other_flops == sum(map(len, LISTS)) * (2 * 2 + 2 * 2 + 4)
    rows = np.array([[key, 0.0] for key in keys], np.float32)
    values = (np.arange(16).reshape(8, 2) / 8 - 1).astype(np.float32)
    params = Params((np.array([2.0, 1.0], np.float32),), (values, rows))
    wanted = reference(graph, params).value(0, 0)
    assert np.isnan(wanted).any(axis=1).tolist() == [some[0] in (5, 6) or set(some) == {4} for some in LISTS]
    for name, executor in executors():
        executor.prepare(network, params)
        np.testing.assert_allclose(
            executor.run(planned).value(0, 0), wanted, rtol=2e-6, atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize(("size", "heads"), [(2, 2), (20, 1), (64, 4), (72, 2), (300, 1)])
@pytest.mark.parametrize("added", [False, True])
def test_heads_of_one_float_to_hundreds_over_lists_of_any_length(size: int, heads: int, added: bool) -> None:
    rng = np.random.default_rng(size)
    tables = tuple(Table(name, 9, (size,), None, None, Span("test", 1)) for name in ("values", "keys"))
    constants = (
        Constant("table", 0, (size,), 0, 9),
        Constant("table", 1, (size,), 9, 9),
        Constant("param", 0, (size,), 18, 1),
    )
    slots = tuple(Slot(f"s{n}", (size,), (), (n,)) for n in range(3))
    kind = Attention(heads, added=added, log_sums=True)
    network = make_network([("attend", None, kind, slots)], tables, constants, [Param("query", (size,))])
    lists = [rng.integers(0, 9, n) for n in (2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 63, 64, 65, 130)]
    operands = [[*(-1 - some), *(-10 - some), *[-19] * len(some)] for some in lists]
    graph = make_graph(
        network, [0] * len(lists), [[int(reference) for reference in some] for some in operands]
    )
    values, keys, query = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((9, size),) * 2 + ((size,),)
    )
    params = Params((query,), (values, keys))
    exact = reference(graph, params)
    score = np.einsum("ihd,hd->ih", keys.astype(float).reshape(9, heads, -1), query.reshape(heads, -1))
    if not added:
        score *= (size // heads) ** -0.5
        logs = np.stack([np.log(np.exp(score[some]).sum(axis=0)) for some in lists])
        np.testing.assert_allclose(exact.value(0, 1), logs)
    for name in ("cpu", "blas"):
        executor = get_executor(name)
        executor.prepare(network, params)
        found = executor.run(plan(graph, once(graph)))
        for output in range(2):
            wanted = exact.value(0, output)
            # scores of hundreds of floats are rounded in single precision before their exponentials
            allowed = 2e-6 * size**0.5 * np.abs(wanted).max()
            np.testing.assert_allclose(found.value(0, output), wanted, rtol=0, atol=allowed, err_msg=name)


@pytest.mark.parametrize(("sizes", "heads"), [((2, 4), 2), ((20, 3), 1), ((64, 64), 4), ((300, 36), 2)])
@pytest.mark.parametrize("of", [VALUES, KEYS, QUERY])
@pytest.mark.parametrize("added", [False, True])
def test_gradients_over_lists_of_any_length(sizes: tuple[int, int], heads: int, of: int, added: bool) -> None:
    """Sums, edge by edge, of what each adds."""
    rng = np.random.default_rng(sizes[0])
    shapes = [(sizes[0],), (sizes[1],), (sizes[1] + sizes[0] + 2 * heads,)]
    tables = tuple(Table(f"t{n}", 9, shape, None, None, Span("test", 1)) for n, shape in enumerate(shapes))
    constants = tuple(Constant("table", n, shape, 9 * n, 9) for n, shape in enumerate(shapes))
    slots = tuple(Slot(f"s{n}", shape, (), (n,)) for n, shape in enumerate(shapes))
    kind = AttentionGradient(Attention(heads, added=added), of)
    network = make_network([("gradient", None, kind, slots)], tables, constants, [])
    lists = [rng.integers(0, 9, (3, n)) for n in (1, 2, 3, 9, 16, 17, 64, 65, 150)]
    operands = [[-1 - 9 * s - int(row) for s in range(3) for row in some[s]] for some in lists]
    graph = make_graph(network, [0] * len(lists), operands)
    values, keys, states = ((rng.standard_normal((9, *shape)) / 2).astype(np.float32) for shape in shapes)
    planned, params = plan(graph, once(graph)), Params((), (values, keys, states))
    wanted = []
    for some in lists:
        total = np.zeros((heads, (sizes[0] if of == VALUES else sizes[1]) // heads))
        for v, k, state in zip(values[some[0]], keys[some[1]], states[some[2]].astype(float), strict=True):
            q, g, logs, level = np.split(state, np.cumsum([sizes[1], sizes[0], heads]))
            v, k, q, g = (x.astype(float).reshape(heads, -1) for x in (v, k, q, g))
            for h in range(heads):
                factor, slopes = kind.attention.factor(sizes[1]), np.where(k[h] + q[h] > 0, 1, 0.2)
                score = ((k[h] + q[h]) * slopes).sum() if added else factor * k[h] @ q[h]
                weight = np.exp(score - logs[h])
                slope = factor * weight * (g[h] @ v[h] - level[h])
                rows = slopes if added else k[h] if of == QUERY else q[h]
                total[h] += weight * g[h] if of == VALUES else slope * rows
        wanted.append(total.ravel())
    for name, tolerance in (("reference", 1e-9), ("cpu", 2e-5), ("blas", 2e-5)):
        executor = get_executor(name)
        executor.prepare(network, params)
        found = executor.run(planned).value(0, 0)
        for one, right in zip(found, np.stack(wanted), strict=True):
            np.testing.assert_allclose(one, right, rtol=0, atol=tolerance * np.abs(right).max(), err_msg=name)


@pytest.mark.parametrize("scores", ["equal", "random", "rising"])
def test_long_lists_keep_their_digits(scores: str) -> None:
    """As sums of them do: half a digit of single precision, and no more."""
    n, size = 10_000, 4
    rng = np.random.default_rng(0)
    tables = tuple(Table(name, n, (size,), None, None, Span("test", 1)) for name in ("values", "keys"))
    constants = (
        Constant("table", 0, (size,), 0, n),
        Constant("table", 1, (size,), n, n),
        Constant("param", 0, (size,), 2 * n, 1),
    )
    slots = tuple(Slot(f"s{k}", (size,), (), (k,)) for k in range(3))
    network = make_network([("attend", None, Attention(2), slots)], tables, constants, [Param("q", (size,))])
    rows = [0] * n if scores == "equal" else list(range(n))
    operands = [*(-1 - i for i in rows), *(-1 - n - i for i in rows), *[-1 - 2 * n] * n]
    graph = make_graph(network, [0], [operands])
    query, keys = np.ones(size, np.float32), rng.standard_normal((n, size)).astype(np.float32)
    if scores == "rising":
        keys[:] = np.linspace(-5, 5, n)[:, None]
    values = rng.random((n, size)).astype(np.float32) + 1
    params = Params((query,), (values, keys))
    wanted = reference(graph, params).value(0, 0)
    planned = plan(graph, once(graph))
    for name, executor in executors():
        executor.prepare(network, params)
        np.testing.assert_allclose(executor.run(planned).value(0, 0), wanted, rtol=4e-7, err_msg=name)


WEIGHTED = """\
model: weighted
dims: {hidden: 3}
data: {format: json, path: graphs.jsonl}
tables: {names: {dim: hidden, rows: 11}}
cells:
  take: {dims: [hidden], inputs: {x: hidden}, equations: h = x, outputs: {h: h}}
  weigh:
    dims: [hidden]
    inputs: {h: hidden, w: 1}
    equations: |
      product = w * h
      n = 0 * w + 1
      k = log(w)
    outputs: {product: product, n: n, k: k}
types:
  take: {per: node, cell: take, inputs: {x: "names[code]"}}
  weigh: {per: node, cell: weigh, inputs: {h: take.h, w: weight}}
  total: {per: node, sum: {h: to.weigh.product, n: to.weigh.n}}
  mean: {per: node, attend: {query: weigh.n, keys: to.weigh.k, values: to.take.h, scaled: false}}
outputs: {total: total.h, count: total.n, mean: mean.y}
"""


def test_sums_and_means_weighted_by_a_value_and_counts(tmp_path: Path) -> None:
    """As docs/spec.md writes them."""
    (graph,) = graphs(np.random.default_rng(2), [7])
    weights = np.random.default_rng(3).random(7) + 0.1
    for vertex, weight in zip(graph["vertices"], weights, strict=True):
        vertex["weight"] = float(weight)
    (tmp_path / "graphs.jsonl").write_text(json.dumps(graph))
    (tmp_path / "model.yaml").write_text(WEIGHTED)
    model = open_model(tmp_path / "model.yaml", Overrides())
    found = open_workload(model, read_instances(model.data, None), open_networks(model, "cell"))
    params = init_params(found.network, 0)
    rows = params.tables[0].astype(np.float64)[[vertex["code"] for vertex in graph["vertices"]]]
    joined = np.zeros((7, 7))
    joined[tuple(np.array(graph["links"]["to"]).T)] = 1
    total, count = (joined * weights) @ rows, joined.sum(axis=1, keepdims=True)
    mean = np.divide(
        total, (joined * weights).sum(axis=1, keepdims=True), where=count > 0, out=np.zeros((7, 3))
    )
    made = found.graph(0, 1)
    executor = get_executor("reference")
    executor.prepare(found.network, params)
    result = executor.run(plan(made, Agenda().schedule(made.dag)))
    for refs, wanted in zip(made.results, (total, count, mean), strict=True):
        np.testing.assert_allclose(result.values(refs.reference), wanted, rtol=1e-6, err_msg=refs.name)
