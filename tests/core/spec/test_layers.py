"""Models in one file: cells of their own, and types that are repeated."""

from __future__ import annotations

import pytest

from abw.core.ir.model import NodeSource, NodeType, TableSource, ZeroSource
from abw.core.ir.weights import Combined, Expr, Tensor
from abw.core.spec.load import Overrides
from tests.core.spec.writing import LINEAR, LSTM, Folder, edited, marks_of, unmark

LAYERS = """\
model: stacked
dims: {hidden: 4, embed: hidden, tags: 3, layers: 3}
data: {format: tags, path: d.txt}
tables: {words: {dim: embed}}
cells:
  step:
    dims: [hidden]
    inputs: {x: hidden, h: hidden}
    params: {W: [hidden, hidden], U: [hidden, hidden]}
    equations: y = tanh(W @ x + U @ h)
    outputs: {h: y}
types:
  layer:
    per: token
    repeat: layers
    cell: step
    inputs: {x: "layer[below].h or words[word]", h: prev.layer.h or zeros}
  tag: {per: token, cell: linear.yaml, dims: {in: hidden, out: tags}, inputs: {x: layer.h}}
outputs: {tags: tag.y, first: layer-0.h}
"""


def types(folder: Folder, text: str, **overrides: int) -> dict[str, NodeType]:
    return {t.name: t for t in folder.model(text, Overrides(dims=overrides)).types}


def test_a_cell_of_the_models_own_is_the_one_of_a_file(folder: Folder) -> None:
    text = "".join(f"    {line}\n" for line in LINEAR.splitlines()[1:])
    own = edited(LAYERS, "cells:\n", f"cells:\n  out:\n{text}").replace("linear.yaml", "out")
    (a, b) = (types(folder, LAYERS)["tag"].cell, types(folder, own)["tag"].cell)
    assert a is not None and b is not None
    assert (a.inputs, a.params, a.ops, a.outputs) == (b.inputs, b.params, b.ops, b.outputs)
    assert b.name == "out"
    assert folder.model(own).files == (folder.path / "model.yaml",)


def test_each_layer_has_parameters_of_its_own_and_reads_the_one_below(folder: Folder) -> None:
    model = folder.model(LAYERS)
    numbers = {t.name: number for number, t in enumerate(model.types)}
    assert list(numbers) == ["layer-0", "layer-1", "layer-2", "tag"]
    assert [p.name for p in model.params[:6]] == [f"layer-{n}.{p}" for n in range(3) for p in "WU"]
    below = [t.inputs[0].sources for t in model.types[:3]]
    assert isinstance(below[0][0], TableSource)
    for layer in (1, 2):  # the words are for the first: the layer below is always there
        assert below[layer] == (NodeSource((), ((layer - 1, 0),)),)
    for t in model.types[:3]:
        before, else_ = t.inputs[1].sources
        assert isinstance(before, NodeSource) and before.producers == ((numbers[t.name], 0),)
        assert before.hops[0].link == "prev" and isinstance(else_, ZeroSource)
    assert model.types[3].inputs[0].sources == (NodeSource((), ((2, 0),)),)
    assert dict(model.outputs)["first"] == ((0, 0),)


def test_how_often_is_a_dim_that_the_command_line_sets(folder: Folder) -> None:
    assert list(types(folder, LAYERS, layers=1)) == ["layer-0", "tag"]
    assert len(types(folder, LAYERS, layers=5)) == 6


def test_layers_may_have_the_parameters_of_the_first(folder: Folder) -> None:
    text = edited(LAYERS, "    cell: step\n", "    cell: step\n    params: layer-0\n")
    found = types(folder, text)
    assert [found[f"layer-{n}"].params for n in range(3)] == [(0, 1)] * 3
    part = types(folder, edited(LAYERS, "    cell: step\n", "    cell: step\n    params: {U: layer-0.U}\n"))
    assert [part[f"layer-{n}"].params for n in range(3)] == [(0, 1), (2, 1), (3, 1)]


def test_another_block_has_the_last_layer_or_names_it(folder: Folder) -> None:
    more = "  above: {per: token, repeat: %s, cell: step, inputs: {x: %s, h: '%s'}}\n  tag:"
    for repeat, written, expected in ((2, "layer.h", 2), (3, "layer.h", None), (3, "'layer[last].h'", 2)):
        text = edited(LAYERS, "  tag:", more % (repeat, written, "above[below].h or zeros"))
        found = types(folder, text)
        for layer in range(repeat):
            source = found[f"above-{layer}"].inputs[0].sources[0]
            assert isinstance(source, NodeSource)
            assert source.producers == ((layer if expected is None else expected, 0),)


def test_weights_name_the_layer_by_its_number(folder: Folder) -> None:
    def mapped(section: str) -> dict[str, Expr]:
        text = f"{LAYERS}weights: {{file: w.npz, map: {section}}}\n"
        return {name: value.expr for name, value in folder.model(text).weights.map.items()}

    values = mapped("{layer: {W: rnn.w_ih_l#, U: 'transpose(rnn.#.u)'}}")
    assert [values[f"layer-{n}.W"] for n in range(3)] == [Tensor(f"rnn.w_ih_l{n}") for n in range(3)]
    assert values["layer-2.U"] == Combined("transpose", (Tensor("rnn.2.u"),))
    assert mapped("{layer: 'rnn.#.*'}")["layer-1.U"] == Tensor("rnn.1.U")
    assert mapped("{layer.W: rnn.#}")["layer-1.W"] == Tensor("rnn.1")


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("cell: step", "cell: «stp»", "unknown cell 'stp'", "did you mean 'step'?"),
        ("  step:\n", "  «other»: {equations: y = x, inputs: {x: 3}, outputs: {y: y}}\n  step:\n",
         "cell 'other' is never used", "leave it out"),
        ("  step:\n", "  step:\n    «cell»: s\n", "unknown key 'cell' in cell 'step'", ""),
        ("repeat: layers", "repeat: «0»", "repeat of type 'layer' is 0: a size is from 1 to 1,000", ""),
        ("h: prev.layer.h or zeros", "h: «'layer[below].h'»", "layer 0 of 'layer' has nothing below", "or"),
        ("x: layer.h", "x: '«layer»[below].h'", "'layer' is repeated otherwise than this type", ""),
        ("repeat: layers", "repeat: «100000»", "repeat of type 'layer' is 100000: a size is from", ""),
        ("prev.layer.h or zeros", "'prev.layer«[»above].h or zeros'", "expected", "[below], [last] or a"),
        ("prev.layer.h or zeros", "'layer[«above»].h or zeros'", "no [above] before a '.'", "layer[below]"),
        ("x: layer.h", "x: '«layer»[0].h'", "'layer' is a repeated type: no [0] there", "layer-0 to layer-2"),
        ("prev.layer.h or zeros", "'«prev»[last].layer.h'", "no layer of 'prev' is here", "[below]"),
        ("prev.layer.h or zeros", "'prev.«tag»[below].h'", "'tag' is no repeated type", ""),
        ("  tag: ", "  «layer-1»: {per: token, sum: {h: next.layer.h}}\n  tag: ", "there are two types", ""),
        ("h: prev.layer.h or zeros", "«g»: zeros", "cell 'step' has no input 'g'", ""),
    ],
)  # fmt: skip
def test_mistakes(folder: Folder, old: str, new: str, message: str, hint: str) -> None:
    text, marks = unmark(edited(LAYERS, old, new))
    problems = folder.model_problems(text)
    where = [p for p in problems if message in p.message]
    assert where, problems
    assert marks_of((where[0],)) == marks
    assert hint in where[0].hint


def test_nothing_follows_from_a_wrong_repeat(folder: Folder) -> None:
    for repeat in ("100000", "lyers", "layers / 2"):
        assert len(folder.model_problems(edited(LAYERS, "repeat: layers", f"repeat: {repeat}"))) == 1


def test_a_file_without_an_ending_is_a_cell_too(folder: Folder) -> None:
    folder.write("plain", LSTM)
    folder.write("linear", LINEAR)
    assert types(folder, LAYERS.replace("linear.yaml", "linear"))["tag"].cell is not None
