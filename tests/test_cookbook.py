"""What docs/cookbook.md says is so: every recipe is valid, and computes what NumPy does by the formula."""

from __future__ import annotations

import doctest
import importlib.util
import json
import math
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import abw
from abw.core.api import LoadedModel
from abw.core.cell.evaluate import run_cell
from abw.core.spec.load import load_cell
from abw.core.store.ragged import Outputs

Floats = NDArray[Any]
Params = Mapping[str, Floats]
ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "cookbook.md").read_text()
BLOCKS = {
    tuple(re.split(r": ", block.partition("\n")[0], maxsplit=1)): block
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
}


def sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


def normal(x: Floats, p: Params, gain: str, shift: str) -> Floats:
    return np.asarray((x - x.mean()) / np.sqrt(x.var() + 1e-5) * p[gain] + p[shift])


def gelu(x: Floats) -> Floats:
    return np.asarray(x * np.array([(1 + math.erf(v / math.sqrt(2))) / 2 for v in x]))


def silu(x: Floats) -> Floats:
    return x * sigmoid(x)


def lstm(p: Params, x: Floats, h: Floats, c: Floats) -> tuple[Floats, Floats]:
    i, f, g, o = np.split(p["weight_ih"] @ x + p["bias_ih"] + p["weight_hh"] @ h + p["bias_hh"], 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru(p: Params, x: Floats, h: Floats) -> Floats:
    xr, xz, xn = np.split(p["weight_ih"] @ x + p["bias_ih"], 3)
    hr, hz, hn = np.split(p["weight_hh"] @ h + p["bias_hh"], 3)
    z = sigmoid(xz + hz)
    return np.asarray((1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h)


CELLS: dict[str, Callable[..., Any]] = {
    "linear": lambda p, x: p["weight"] @ x + p["bias"],
    "lstm": lstm,
    "batch-norm": lambda p, x: (
        (x - p["running_mean"]) / np.sqrt(p["running_var"] + 1e-5) * p["weight"] + p["bias"]
    ),
    "feed-forward": lambda p, x: (
        x + p["down"] @ gelu(p["up"] @ normal(x, p, "gain", "shift") + p["up_bias"]) + p["down_bias"]
    ),
    "swiglu": lambda p, x: p["down"] @ (silu(p["gate"] @ x) * (p["up"] @ x)),
}


def test_every_recipe_has_a_formula() -> None:
    assert {name for kind, name in BLOCKS if kind == "cell"} == CELLS.keys()
    assert {name for kind, name in BLOCKS if kind == "model"} == MODELS.keys()
    assert len(BLOCKS) == PAGE.count("```yaml")


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_its_formula(name: str, tmp_path: Path) -> None:
    file = tmp_path / "cell.yaml"
    file.write_text(BLOCKS["cell", name])
    dims = re.search(r"^dims: \[(.*)\]", BLOCKS["cell", name], re.MULTILINE)
    assert dims
    cell = load_cell(file, {dim: 3 + i for i, dim in enumerate(dims[1].split(", "))})
    draw = np.random.default_rng(0)
    # of no parameter is a root taken but of a variance, which is positive
    params = [draw.uniform(0.1, 1, param.shape) for param in cell.params]
    inputs = [draw.normal(size=port.shape) for port in cell.inputs]
    wanted = CELLS[name]({p.name: value for p, value in zip(cell.params, params, strict=True)}, *inputs)
    found = run_cell(cell, inputs, params)
    for one, other in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def rows(file: str) -> dict[str, int]:
    lines = (ROOT / "specs" / "data" / file).read_text(encoding="utf-8").splitlines()
    return {word: row for row, word in enumerate(lines)}


def line(file: str, number: int) -> str:
    return (ROOT / "specs" / "data" / file).read_text(encoding="utf-8").splitlines()[number]


def embedded(p: Params, table: str, file: str, words: list[str]) -> list[Floats]:
    known = rows(file)
    return [p[table][known.get(word, known.get("<unk>", 0))].astype(float) for word in words]


def part(p: Params, name: str) -> dict[str, Floats]:
    """The parameters of a type."""
    return {key.partition(".")[2]: value for key, value in p.items() if key.startswith(f"{name}.")}


def linked(instance: Mapping[str, Any], link: str) -> list[list[int]]:
    """The vertices that each vertex's link leads to."""
    found: list[list[int]] = [[] for _ in instance["vertices"]]
    for a, b in instance["links"][link]:
        found[a].append(b)
    return found


def softmax(x: Floats) -> Floats:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


def mean(values: list[Floats]) -> Floats:
    return np.mean(values, axis=0) if values else np.zeros(8)


def total(values: list[Floats]) -> Floats:
    return np.sum(values, axis=0) if values else np.zeros(8)


SENTENCE = "the plot never wakes up unseen"


def tagger(p: Params) -> dict[str, Any]:
    xs = embedded(p, "words", "words.txt", SENTENCE.split())

    def run(name: str, xs: list[Floats]) -> list[Floats]:
        h, c, states = np.zeros(8), np.zeros(8), []
        for x in xs:
            h, c = lstm(part(p, name), x, h, c)
            states.append(h)
        return states

    both = zip(run("fwd", xs), run("bwd", xs[::-1])[::-1], strict=True)
    scores = np.array([p["tag.weight"] @ np.concatenate(pair) + p["tag.bias"] for pair in both])
    return {"scores": scores, "tags": scores.argmax(1)}


def self_attention(p: Params) -> dict[str, Any]:
    xs = embedded(p, "words", "words.txt", SENTENCE.split())
    q, k, v = np.split(np.array([p["part.W"] @ x + p["part.b"] for x in xs]), 3, axis=1)
    heads = []
    for q1, k1, v1 in zip(*(np.split(m, 2, axis=1) for m in (q, k, v)), strict=True):
        scores = q1 @ k1.T / math.sqrt(4)
        heads.append(np.array([softmax(row) for row in scores]) @ v1)
    return {"y": np.concatenate(heads, axis=1) @ p["mix.W"].T + p["mix.b"]}


def at_root(p: Params) -> dict[str, Any]:
    tree = json.loads(line("dependency.jsonl", 0))
    words = embedded(p, "words", "words.txt", [v["word"] for v in tree["vertices"]])
    children = linked(tree, "children")

    def node(v: int) -> tuple[Floats, Floats]:
        below = [node(child) for child in children[v]]
        i, o, u = np.split(
            p["node.W"] @ words[v] + p["node.U"] @ total([h for h, _ in below]) + p["node.b"], 3
        )
        c = sigmoid(i) * np.tanh(u)
        for h, cell in below:
            c = c + sigmoid(p["forget.W"] @ words[v] + p["forget.U"] @ h + p["forget.b"]) * cell
        return sigmoid(o) * np.tanh(c), c

    h = np.array([node(v)[0] for v in range(len(words))])
    return {"classes": p["output.W"] @ h[tree["links"]["root"]] + p["output.b"], "h": h}


def features(p: Params) -> dict[str, Any]:
    atoms = [v for v in json.loads(line("rings.jsonl", 0))["vertices"] if v["kind"] == "atom"]
    given = [
        np.concatenate([p["elements"][a["element"]], a["position"], [a.get("charge", 0.0)]]) for a in atoms
    ]
    return {"h": np.array([np.tanh(p["atom.weight"] @ x + p["atom.bias"]) for x in given])}


def molecule(p: Params) -> tuple[dict[str, Any], list[Floats]]:
    instance = json.loads(line("molecules.jsonl", 2))
    return instance, embedded(p, "elements", "elements.txt", [v["element"] for v in instance["vertices"]])


def sage(p: Params) -> dict[str, Any]:
    instance, xs = molecule(p)
    for layer in range(3):
        own = part(p, f"conv-{layer}")
        near = [mean([xs[w] for w in there]) for there in linked(instance, "single")]
        xs = [np.maximum(own["L"] @ n + own["R"] @ x + own["b"], 0) for n, x in zip(near, xs, strict=True)]
    return {"classes": (p["out.W"] @ mean(xs) + p["out.b"])[None]}


def gated(p: Params) -> dict[str, Any]:
    instance, hs = molecule(p)
    for step in range(3):
        said = [p[f"say-{step}.W"] @ h for h in hs]
        heard = [total([said[w] for w in there]) for there in linked(instance, "single")]
        hs = [gru(part(p, "state-0"), m, h) for m, h in zip(heard, hs, strict=True)]
    return {"h": np.array(hs)}


def over_bonds(p: Params) -> dict[str, Any]:
    instance, xs = molecule(p)
    zs = [p["project.W"] @ x for x in xs]
    found = []
    for v, there in enumerate(linked(instance, "near")):
        scores = np.array([p["project.source"] @ zs[w] + p["project.target"] @ zs[v] for w in there])
        weights = [softmax(np.where(s > 0, s, 0.2 * s)) for s in scores.T]
        parts = [w @ np.array([zs[u][4 * i : 4 * i + 4] for u in there]) for i, w in enumerate(weights)]
        found.append(np.concatenate(parts) + p["state.b"])
    return {"h": np.array(found)}


TREE = "(4 (2 I) (4 (4 loved) (2 it)))"


def leave(p: Params, limit: float = 0.3) -> dict[str, Any]:
    x = mean(embedded(p, "words", "words.txt", ["I", "loved", "it"]))
    states: list[Floats] = []
    sure: list[int] = []
    while len(states) < 12 and not (sure and sure[-1]):
        x = np.tanh(p["layer.W"] @ x + p["layer.b"])
        states.append(x)
        sure.append(int((p["sure.W"] @ x + p["sure.b"])[0] > limit))
    return {"h": np.array(states), "sure": np.array(sure)}


def decode(p: Params, end: str = "</s>") -> dict[str, Any]:
    source = line("pairs.txt", 0).split(" ||| ")[0].split()
    h, c = np.zeros(8), np.zeros(8)
    for x in embedded(p, "sources", "english.txt", source):
        h, c = lstm(part(p, "encoder"), x, h, c)
    known, said = rows("target-words.txt"), [rows("target-words.txt")["<s>"]]
    while len(said) <= 20 and said[-1] != known[end]:
        h, c = lstm(part(p, "decoder"), p["targets"][said[-1]], h, c)
        said.append(int((p["score.W"] @ h + p["score.b"]).argmax()))
    return {"words": np.array(said[1:])}


MODELS: dict[str, tuple[Callable[[Params], dict[str, Any]], Callable[[], object]]] = {
    "tagger": (tagger, lambda: SENTENCE),
    "self-attention": (self_attention, lambda: SENTENCE),
    "root": (at_root, lambda: json.loads(line("dependency.jsonl", 0))),
    "features": (features, lambda: json.loads(line("rings.jsonl", 0))),
    "sage": (sage, lambda: json.loads(line("molecules.jsonl", 2))),
    "gated": (gated, lambda: json.loads(line("molecules.jsonl", 2))),
    "attention-over-bonds": (over_bonds, lambda: json.loads(line("molecules.jsonl", 2))),
    "leave": (leave, lambda: TREE),
    "decode": (decode, lambda: line("pairs.txt", 0)),
}


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(ROOT / "specs", tmp_path_factory.mktemp("cookbook") / "specs"))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_its_formula(name: str, specs: Path) -> None:
    formula, instance = MODELS[name]
    model = loaded(specs, BLOCKS["model", name])
    same(model([instance()]), formula(model.params))


def loaded(specs: Path, text: str) -> LoadedModel:
    (specs / "recipe.yaml").write_text(text)
    found: LoadedModel = abw.load(
        specs / "recipe.yaml", dims={"hidden": 8}, executor="reference", policy="depth", seed=1
    )
    return found


def same(found: Outputs, wanted: Mapping[str, Any]) -> None:
    assert wanted.keys() == set(found)
    for key, values in wanted.items():
        np.testing.assert_allclose(np.squeeze(found[key].values), np.squeeze(values), rtol=1e-5, atol=1e-7)


def test_decoding_ends_with_its_last_word(specs: Path) -> None:
    text = BLOCKS["model", "decode"]
    said = decode(loaded(specs, text).params)["words"]
    last = next(i for i, row in enumerate(said) if row != said[0])
    word = list(rows("target-words.txt"))[said[last]]
    model = loaded(specs, text.replace("next == </s>", f"next == {word}"))
    wanted = decode(model.params, word)
    assert 1 < len(wanted["words"]) == last + 1 < 20
    same(model([line("pairs.txt", 0)]), wanted)


def test_layers_end_where_one_is_sure(specs: Path) -> None:
    text = BLOCKS["model", "leave"]
    params = loaded(specs, text).params
    scores = [float((params["sure.W"] @ h + params["sure.b"])[0]) for h in leave(params)["h"]]
    last = next(i for i in range(1, 12) if scores[i] > max(scores[:i]) + 1e-3)
    limit = scores[last] - 5e-4
    model = loaded(specs, text.replace("> 0.3", f"> {limit:.6f}"))
    wanted = leave(model.params, limit)
    assert 1 < len(wanted["h"]) == last + 1 < 12
    same(model([TREE]), wanted)


def test_the_examples_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    monkeypatch.chdir(ROOT)
    told = doctest.testfile(str(ROOT / "docs" / "cookbook.md"), module_relative=False)
    assert (told.attempted > 3, told.failed) == (True, 0)


@pytest.mark.skipif(not importlib.util.find_spec("networkx"), reason="needs networkx")
def test_the_example_with_networkx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    (code,) = re.findall(r"^```python\n(import networkx.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"abw": abw}
    exec(code, names)
    assert [len(values) for values in names["outputs"]["classes"]] == [1, 3]
