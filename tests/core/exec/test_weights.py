"""Weights brought to parameters: what PyTorch computes, random maps, and what does not fit."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.base.errors import SpecError
from abw.core.exec.params import init_params
from abw.core.exec.registry import get_executor
from abw.core.exec.trained import load_weights, make_params, needs
from abw.core.graph.cells import cell_network
from abw.core.ir.model import Model
from abw.core.plan.plan import plan
from abw.core.policy.registry import get_policy
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides

GOLDEN = Path("tests/golden/torch")
SIZES = {"hidden": 5, "embed": 6}
MODELS = ("torch-lstm", "torch-bilstm", "torch-gru", "torch-treelstm", "torch-childsum")
# Sizes of the models over graphs, and those with attention.
GALLERY = {
    "gat": {"hidden": 6, "heads": 2},
    "ggnn": {"hidden": 6},
    "rgcn": {"hidden": 6},
    "treelstm-attend": SIZES,
    "attention-nmt": SIZES,
    "bidag": {"hidden": 6},
    "set-transformer": {"hidden": 6},
    "tree-transformer": {"hidden": 6},
}
GATES = "ifuo"  # in PyTorch's order; it calls u g
ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)


def file_of(root: Path, name: str) -> Path:
    """The weights that PyTorch made for a spec."""
    (path,) = (p for p in (root / GOLDEN).glob(f"{name}.*") if p.suffix in (".npz", ".safetensors"))
    if path.suffix == ".safetensors":
        pytest.importorskip("safetensors")
    return path


def outputs(model: Model, executor: str, granularity: str = "cell") -> np.ndarray:
    """A model's only output with its weights, in the order of instances and vertices."""
    workload = load_workload(model, "op" if granularity == "op" else "cell")
    graph = workload.graph(0, len(workload.instances))
    chosen = get_executor(executor)
    chosen.prepare(graph.network, make_params(graph.network, load_weights(model), 0), 1)
    schedule = chosen.arrange(graph, get_policy("sufficient").schedule(graph.dag))
    (refs,) = graph.results
    return np.asarray(chosen.run(plan(graph, schedule)).values(refs.reference))[np.argsort(refs.vertex)]


def expected(root: Path, name: str) -> np.ndarray:
    with np.load(root / GOLDEN / f"{name}-expected.npz") as file:
        return np.asarray(file["arr_0"])


@pytest.mark.parametrize("executor", ["reference", "blas", "cpu"])
@pytest.mark.parametrize("name", [*MODELS, *GALLERY])
def test_outputs_are_those_of_pytorch(root: Path, name: str, executor: str) -> None:
    overrides = Overrides(dims=GALLERY.get(name, SIZES), weights=file_of(root, name), limit=12)
    model = open_model(root / f"specs/{name}.yaml", overrides)
    wanted = expected(root, name)
    assert wanted.std() > 0.05
    np.testing.assert_allclose(outputs(model, executor), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["torch-bilstm", "torch-childsum"])
@pytest.mark.parametrize("how", ["op", "hoist"])
def test_granularity_and_hoisting_change_nothing(root: Path, name: str, how: str) -> None:
    overrides = Overrides(dims=SIZES, weights=file_of(root, name), limit=12, hoist=how == "hoist")
    found = outputs(open_model(root / f"specs/{name}.yaml", overrides), "blas", how)
    np.testing.assert_allclose(found, expected(root, name), rtol=0, atol=1e-5)


def fused(prefix: str, suffix: str, cell: str) -> str:
    """A map from nn.LSTM's fused gates to the cell lstm.yaml, whose gates are apart and have one bias."""
    lines = [f"    {cell}:"]
    for k, gate in enumerate(GATES):
        rows = f"[{k} * hidden : {k + 1} * hidden]"
        lines += [
            f"      W{gate}: '{prefix}weight_ih{suffix}{rows}'",
            f"      U{gate}: '{prefix}weight_hh{suffix}{rows}'",
            f"      b{gate}: '({prefix}bias_ih{suffix} + {prefix}bias_hh{suffix}){rows}'",
        ]
    return "\n".join(lines) + "\n"


def test_fused_gates_can_be_taken_apart(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "specs", tmp_path / "specs")
    spec = tmp_path / "specs/torch-lstm.yaml"
    text = spec.read_text().replace("torch-lstm.yaml", "lstm.yaml")
    spec.write_text(text.replace("    lstm: lstm.*_l0\n", fused("lstm.", "_l0", "lstm")))
    overrides = Overrides(dims=SIZES, weights=file_of(root, "torch-lstm"), limit=12)
    found = outputs(open_model(spec, overrides), "blas")
    np.testing.assert_allclose(found, expected(root, "torch-lstm"), rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def specs(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the shipped specs, in which others may lie."""
    return shutil.copytree(root / "specs", tmp_path_factory.mktemp("weights") / "specs")


@given(st.integers(0, 2**32 - 1), st.sampled_from([("", ""), ("net.rnn.", "_l0"), ("0.", "_l1_reverse")]))
def test_parameters_in_pytorchs_layout_come_back(
    root: Path, specs: Path, seed: int, names: tuple[str, str]
) -> None:
    prefix, suffix = names
    spec = specs / "one.yaml"
    text = (root / "specs/torch-lstm.yaml").read_text().split("weights:")[0]
    extra = "    tag: {W: transpose(out), b: zeros}\n    words: concat(low, high)\n"
    spec.write_text(
        text.replace("torch-lstm.yaml", "lstm.yaml")
        + "weights:\n  file: w.npz\n  map:\n"
        + fused(prefix, suffix, "lstm")
        + extra
    )
    model = open_model(spec, Overrides(dims=SIZES))
    network = cell_network(model)
    params = init_params(network, seed)
    by_name = dict(zip((p.name for p in network.params), params.values, strict=True))
    (words,) = params.tables
    cut = int(np.random.default_rng(seed).integers(0, len(words) + 1))
    half = {gate: by_name[f"lstm.b{gate}"] / 4 for gate in GATES}
    np.savez(
        spec.parent / "w.npz",
        **{  # type: ignore[arg-type]
            f"{prefix}weight_ih{suffix}": np.concatenate([by_name[f"lstm.W{g}"] for g in GATES]),
            f"{prefix}weight_hh{suffix}": np.concatenate([by_name[f"lstm.U{g}"] for g in GATES]),
            f"{prefix}bias_ih{suffix}": np.concatenate([half[g] for g in GATES]),
            f"{prefix}bias_hh{suffix}": np.concatenate([by_name[f"lstm.b{g}"] - half[g] for g in GATES]),
            "out": by_name["tag.W"].T,
            "low": words[:cut],
            "high": words[cut:],
        },
    )
    trained = load_weights(model)
    assert trained is not None and not trained.converted
    for name, values in {**by_name, "words": words, "tag.b": np.zeros(9, np.float32)}.items():
        np.testing.assert_allclose(trained.values[name], values, rtol=1e-6, atol=1e-7 * ("b" in name))


@dataclass(frozen=True)
class Term:
    """A value as it is written, and what NumPy makes of it."""

    text: str
    values: np.ndarray


def terms(tensors: Mapping[str, np.ndarray]) -> st.SearchStrategy[Term]:
    """Random values over some matrices and vectors."""

    @st.composite
    def cut(draw: st.DrawFn, inner: st.SearchStrategy[Term]) -> Term:
        term = draw(inner)
        picks: list[str] = []
        index: list[int | slice] = []
        for size in term.values.shape[: draw(st.integers(1, max(1, term.values.ndim)))]:
            start = draw(st.integers(0, size - 1))
            stop = draw(st.none() | st.integers(start + 1, size))
            if stop is None and draw(st.booleans()) and term.values.ndim > 1 and not index:
                picks.append(str(start))
                index.append(start)
                continue
            first = "" if start == 0 and draw(st.booleans()) else f"{start}"
            picks.append(f"{first}:{'' if stop is None else stop}")
            index.append(slice(start, stop))
        return Term(f"({term.text})[{', '.join(picks)}]", term.values[tuple(index)])

    @st.composite
    def joined(draw: st.DrawFn, inner: st.SearchStrategy[Term]) -> Term:
        a, b = draw(inner), draw(inner)
        if a.values.shape == b.values.shape and draw(st.booleans()):
            total = a.values.astype(np.float64) + b.values
            return Term(f"{a.text} + ({b.text})", total)
        if a.values.shape[1:] == b.values.shape[1:]:
            return Term(f"concat({a.text}, {b.text})", np.concatenate([a.values, b.values]))
        return a

    def turned(term: Term) -> Term:
        return Term(f"transpose({term.text})", term.values.T) if term.values.ndim == 2 else term

    leaves = st.sampled_from([Term(name, values) for name, values in tensors.items()])
    return st.recursive(leaves, lambda i: cut(i) | joined(i) | i.map(turned), max_leaves=6)


CELL = """\
cell: one
dims: [n, m]
inputs: {x: m}
params: {W: [n, m]}
equations: y = W @ x
outputs: {y: y}
"""
SPEC = """\
model: one
dims: {n: N, m: M}
data: {format: trees, path: d.txt}
tables: {words: {dim: m, vocab: words.txt}}
types: {leaf: {per: leaf, cell: one.yaml, inputs: {x: "words[word]"}}}
outputs: {y: leaf.y}
weights: {file: w.npz, map: {leaf.W: 'VALUE', words: w}, ignore: ['*']}
"""


def one(folder: Path, shape: tuple[int, int], value: str) -> Model:
    """A model with one parameter W of this shape, which the map says is `value`."""
    folder.joinpath("one.yaml").write_text(CELL)
    folder.joinpath("words.txt").write_text("a\nb\n")
    folder.joinpath("d.txt").write_text("(1 a)\n")
    text = SPEC.replace("N", str(shape[0])).replace("M", str(shape[1])).replace("VALUE", value)
    folder.joinpath("one.spec.yaml").write_text(text)
    return open_model(folder / "one.spec.yaml", Overrides())


def save(folder: Path, **tensors: np.ndarray) -> None:
    np.savez(folder / "w.npz", **tensors)  # type: ignore[arg-type]


@given(st.data(), st.sampled_from(["float16", "float32", "float64"]))
@ANY
def test_random_values_mean_what_numpy_says(tmp_path: Path, data: st.DataObject, dtype: str) -> None:
    draw = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    shapes = {"a": (4, 3), "b.weight": (3, 4), "c/k:0": (4, 3), "d_0": (3,), "e": (2, 4, 3)}
    tensors = {name: draw.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    term = data.draw(terms(tensors).filter(lambda t: t.values.ndim == 2))
    n, m = term.values.shape
    np.savez(tmp_path / "w.npz", **tensors, w=np.zeros((2, m), np.float32))  # type: ignore[arg-type]
    trained = load_weights(one(tmp_path, (n, m), term.text))
    assert trained is not None
    found = trained.values["leaf.W"]
    assert found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_array_equal(found, term.values.astype(np.float32))
    assert set(trained.converted) == ({dtype} - {"float32"})


@pytest.mark.parametrize(
    ("value", "said", "hint"),
    [
        ("a", "wants [2, 3], a is [4, 3]", "check the dims"),
        ("t", "wants [2, 3], t is [3, 2]", "transpose(t)"),
        ("a[3:5]", "'a' is [4, 3]: axis 0 has no 4", "check the dims"),
        ("a[:2, 3]", "'a' is [4, 3]: axis 1 has no 3", "check the dims"),
        ("a[0, 0, 0]", "'a' is [4, 3]: it has no axis 2", ""),
        ("a + t", "[4, 3] and [3, 2] cannot be added", ""),
        ("concat(a, t)", "[4, 3] and [3, 2] cannot stand one after the other", ""),
        ("concat(v, v[0])", "[3] and [] cannot stand one after the other", ""),
        ("transpose(v)", "only a matrix can be transposed, not [3]", ""),
        ("n", "'n' holds int64, not floating-point numbers", ""),
    ],
)
def test_what_does_not_fit(tmp_path: Path, value: str, said: str, hint: str) -> None:
    save(tmp_path, a=np.zeros((4, 3)), t=np.zeros((3, 2)), v=np.zeros(3), n=np.zeros((2, 3), np.int64),
         w=np.zeros((2, 3)))  # fmt: skip
    with pytest.raises(SpecError) as caught:
        load_weights(one(tmp_path, (2, 3), value))
    (problem,) = caught.value.problems
    assert problem.message == f"leaf.W: {said}" and hint in problem.hint
    assert problem.where is not None and problem.where.line == 7
    assert problem.where.text[problem.where.column - 1 :].startswith(f"'{value}'")


def test_everything_that_is_wrong_is_said_at_once(root: Path, tmp_path: Path) -> None:
    with np.load(root / GOLDEN / "torch-bilstm.npz") as file:
        state = {name: file[name] for name in file.files}
    for name in ("lstm.weight_hh_l0", "lstm.bias_ih_l0", "out.bias"):
        del state[name]
    state["embed.weight"] = state["embed.weight"][1:]
    state["embed.scale"] = state["out.weights"] = np.ones(3, np.float32)
    save(tmp_path, **state)
    overrides = Overrides(dims=SIZES, weights=tmp_path / "w.npz")
    with pytest.raises(SpecError) as caught:
        load_weights(open_model(root / "specs/torch-bilstm.yaml", overrides))
    assert caught.value.exit_code == 1
    text = (root / "specs/torch-bilstm.yaml").read_text().splitlines()
    said = [(text[p.where.line - 1].strip() if p.where else "", p.message) for p in caught.value.problems]
    path = tmp_path / "w.npz"
    assert said == [
        ("weights:", f"{path} has 'embed.scale', 'out.weights', which the model does not use"),
        ("words: embed.weight", "words: wants [127, 6], embed.weight is [126, 6]"),
        ("fwd1: lstm.*_l0", f"{path} has no 'lstm.weight_hh_l0', 'lstm.bias_ih_l0'"),
        (text[-1].strip(), f"{path} has no 'out.bias'"),
    ]
    assert all(p.hint for p in caught.value.problems)


def test_names_of_the_models_own_need_no_map(root: Path, tmp_path: Path) -> None:
    model = open_model(root / "specs/lattice.yaml", Overrides(dims={"hidden": 4}, weights=tmp_path / "w.npz"))
    network = cell_network(model)
    params = init_params(network, 3)
    save(
        tmp_path,
        **{p.name: v for p, v in zip(network.params, params.values, strict=True)},
        **{t.name: v for t, v in zip(network.tables, params.tables, strict=True)},
    )
    found = make_params(network, load_weights(model), 0)
    for a, b in zip((*found.values, *found.tables), (*params.values, *params.tables), strict=True):
        np.testing.assert_array_equal(a, b)
    save(tmp_path, chars=params.tables[0])
    with pytest.raises(SpecError) as caught:
        load_weights(model)
    messages = [p.message for p in caught.value.problems]
    assert len(messages) == 6  # words, h0, c0, and one for each type
    assert any("has no tensor for 'char.Wi', 'char.Wf'" in message for message in messages)
    assert any("char: PREFIX.*" in p.hint for p in caught.value.problems)


def test_without_a_file_the_seed_draws(root: Path) -> None:
    model = open_model(root / "specs/torch-gru.yaml", Overrides(dims=SIZES))
    network = cell_network(model)
    assert load_weights(model) is None
    for a, b in zip(make_params(network, None, 7).values, init_params(network, 7).values, strict=True):
        np.testing.assert_array_equal(a, b)


def test_needs_name_every_parameter_with_its_users(root: Path) -> None:
    model = open_model(root / "specs/lattice.yaml", Overrides(dims={"hidden": 4}))
    found = {need.name: need for need in needs(model)}
    assert list(found) == ["chars", "words", *(param.name for param in model.params)]
    assert (found["chars"].shape, found["chars"].users) == ((256, 4), ("char",))
    assert (found["h0"].owner, found["h0"].users) == ("", ("state",))
    assert (found["word.Wi"].owner, found["word.Wi"].users, found["word.Wi"].text) == (
        "word", ("word",), "word.Wi"
    )  # fmt: skip
