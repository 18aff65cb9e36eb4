"""Attention as a spec writes it."""

from __future__ import annotations

import pytest

from abw.core.ir.model import Attention, NodeSource, ParamSource
from abw.core.ir.schema import Hop
from abw.core.spec.load import Overrides
from tests.core.spec.writing import Folder, Mark, edited, marks_of, unmark

MODEL = """\
model: attentive
dims: {hidden: 8, embed: 4, heads: 2}
data: {format: tags, path: d.txt}
tables: {words: {dim: embed}}
params: {v0: hidden, q0: embed}
types:
  q: {per: token, cell: linear.yaml, dims: {in: embed, out: embed}, inputs: {x: "words[word]"}}
  v: {per: token, cell: linear.yaml, dims: {in: embed, out: hidden}, inputs: {x: "words[word]"}}
  all:
    per: token
    attend:
      query: q.y
      keys: instance.token.q.y
      values: instance.token.v.y or v0
      heads: heads
  top: {per: instance, attend: {values: token.all.y, keys: token.q.y, query: q0, scaled: false}}
outputs: {all: all.y, top: top.y}
"""


def test_attention_is_a_reduction_of_its_values(folder: Folder) -> None:
    *_, every, top = folder.model(MODEL).types
    assert every.reduction == Attention(2) and top.reduction == Attention(1, scaled=False)
    hops = (Hop("instance"), Hop("token"))
    assert [(i.name, i.shape) for i in every.inputs] == [("values", (8,)), ("keys", (4,)), ("query", (4,))]
    assert every.inputs[0].sources == (NodeSource(hops, ((1, 0),)), ParamSource(0))
    assert [i.sources for i in every.inputs[1:]] == [
        (NodeSource(hops, ((0, 0),)),),
        (NodeSource((), ((0, 0),)),),
    ]
    assert [(o.name, o.shape) for o in every.outputs] == [("y", (8,))]
    assert top.inputs[2].sources == (ParamSource(1),) and top.listed == 2
    assert folder.model(MODEL, Overrides(dims={"heads": 4})).types[2].reduction == Attention(4)


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("      query: q.y\n", "", "attend of type 'all' has no 'query'", ""),
        (
            "heads: heads",
            "«head»: heads",
            "unknown key 'head' in attend of type 'all'",
            "did you mean 'heads'?",
        ),
        ("heads: heads", "heads: «0»", "heads of type 'all' is 0: a size is from 1 to 1,048,576", ""),
        (
            "heads: heads",
            "«mask»: index > 0",
            "attend of type 'all' has no mask of its own",
            "of keys and values",
        ),
        ("heads: heads", "score: «add»", "unknown score 'add'", "did you mean 'added'?"),
        ("heads: heads", "score: added\n      «scaled»: true", "only products are scaled", "leave it out"),
        ("heads: heads", "scaled: «maybe»", "scaled of type 'all' must be true or false", ""),
        (
            "heads: heads}",
            "heads: 3}",
            "3 heads cannot share 8 numbers of values evenly",
            "that divides them",
        ),
        (
            "query: q.y",
            "query: «v.y»",
            "the query has [8] numbers, the keys have [4]",
            "a score wants as many of both",
        ),
        ("query: q.y", "query: «w».y", "has no link or type 'w'", ""),
        ("query: q0", "query: «v0»", "the query has [8] numbers, the keys have [4]", ""),
        (
            "keys: token.q.y",
            "keys: «common.q.y»",
            "all inputs of an attention must follow the same links",
            "",
        ),
        ("keys: instance.token.q.y", "keys: «q.y»", "attend needs a link to what it reduces", ""),
        ("keys: token.q.y", "keys: token.q.y or «q0»", "the keys have no default", "without neighbours"),
        ("values: token.all.y", "values: token.all.«z»", "type 'all' has no output 'z'", ""),
    ],
)
def test_mistakes(folder: Folder, old: str, new: str, message: str, hint: str) -> None:
    if "heads cannot" in message:
        old, new = "heads: heads", "heads: 3"
        text, marks = edited(MODEL, old, new), list[Mark]()
    else:
        text, marks = unmark(edited(MODEL, old, new))
    found = [p for p in folder.model_problems(text) if message in p.message]
    assert found, folder.model_problems(text)
    assert not marks or marks_of((found[0],)) == marks
    assert hint in found[0].hint


def test_what_it_reads_must_be_there_on_the_same_vertices(folder: Folder) -> None:
    """Keys that only some vertices have are no list as long as that of the values."""

    def lines(text: str) -> list[int]:
        message = "what an attention reads must be there on the same vertices"
        found = [p for p in folder.model_problems(text) if p.message == message]
        return [p.where.line for p in found if p.where]

    some = edited(MODEL, "  q: {per: token,", "  q: {per: token, where: index > 0,")
    assert lines(some) == [13, 16]
    assert lines(edited(some, "  v: {per: token,", "  v: {per: token, where: index >= 1,")) == [16]
    half = "{per: token, where: coin == %d, cell: half, inputs: {x: q.y}}"
    cell = "cells: {half: {dims: [embed], inputs: {x: embed}, equations: k = tanh(x), outputs: {k: k}}}\n"
    text = edited(MODEL, "  all:", f"  k0: {half % 0}\n  k1: {half % 1}\n  all:").replace(
        "types:", f"{cell}types:"
    )
    assert lines(edited(text, "keys: instance.token.q.y", "keys: instance.token.k0.k")) == [16]
    assert folder.model(edited(text, "keys: instance.token.q.y", "keys: instance.token.k"))


def test_it_is_one_of_what_a_type_can_be(folder: Folder) -> None:
    text = edited(MODEL, "scaled: false}}", "scaled: false}, cell: linear.yaml}")
    assert "type 'top' has cell and attend: it is one of them" in {
        p.message for p in folder.model_problems(text)
    }
    matrices = edited(
        MODEL, "tables: {words: {dim: embed}}", "tables: {words: {dim: embed}, m: {dim: [4, 4]}}"
    )
    for name in ("query: q.y", "query: q0"):
        found = folder.model_problems(
            edited(matrices, name, "query: 'm[word]'" if "q.y" in name else "query: 'm[index]'")
        )
        assert "query must be vectors, not [4, 4]" in {p.message for p in found}
