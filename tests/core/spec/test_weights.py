"""The section `weights`: what its values mean, and what can be wrong with them."""

from __future__ import annotations

import pytest

from abw.core.ir.weights import Combined, Expr, Slice, Tensor, Zeros
from abw.core.spec.load import Overrides
from tests.core.spec.writing import LATTICE, Folder, marks_of, unmark

SHARED = LATTICE.replace(
    "c: from.state.c}}\n  state", "c: from.state.c}, params: {W: char.W, b: h0}}\n  state"
)


def values(folder: Folder, section: str, text: str = LATTICE) -> dict[str, Expr]:
    found = folder.model(f"{text}weights:\n  map:\n{section}").weights.map
    return {name: value.expr for name, value in found.items()}


def test_no_section_and_its_short_form(folder: Folder) -> None:
    assert folder.model().weights.file is None
    weights = folder.model(LATTICE + "weights: w.npz\n").weights
    assert (weights.file, dict(weights.map), weights.ignore) == (folder.path / "w.npz", {}, ())
    given = folder.model(LATTICE + "weights: w.npz\n", Overrides(weights=folder.path / "other.npz"))
    assert (given.weights.file, given.weights.named) == (folder.path / "other.npz", None)
    assert weights.named is not None and weights.named.text[weights.named.column - 1 :] == "w.npz"
    assert folder.model(overrides=Overrides(weights=folder.path)).weights.file == folder.path


def test_the_long_form(folder: Folder) -> None:
    weights = folder.model(LATTICE + "weights: {file: w.pt, ignore: [decoder.*, step]}\n").weights
    assert weights.file == folder.path / "w.pt"
    assert [weights.ignores(name) for name in ("decoder.w", "step", "steps", "encoder.w")] == [
        True,
        True,
        False,
        False,
    ]
    assert weights.where is not None and weights.where.line == LATTICE.count("\n") + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", Tensor("a")),
        ("encoder/lstm.0.kernel:0", Tensor("encoder/lstm.0.kernel:0")),
        ("2.weight", Tensor("2.weight")),
        ("zeros", Zeros()),
        ("a[0:hidden]", Slice(Tensor("a"), ((0, 8),))),
        ("a[2 * hidden : 3*hidden]", Slice(Tensor("a"), ((16, 24),))),
        ("a[:, hidden-embed:]", Slice(Tensor("a"), ((0, None), (4, None)))),
        ("a[3][:(1 + tags) / 2]", Slice(Slice(Tensor("a"), (3,)), ((0, 2),))),
        ("a + b+c", Combined("sum", (Tensor("a"), Tensor("b"), Tensor("c")))),
        ("transpose(a)", Combined("transpose", (Tensor("a"),))),
        (
            "concat(a[0], (b + c)[1], transpose)",
            Combined(
                "concat",
                (
                    Slice(Tensor("a"), (0,)),
                    Slice(Combined("sum", (Tensor("b"), Tensor("c"))), (1,)),
                    Tensor("transpose"),
                ),
            ),
        ),
    ],
)
def test_values(folder: Folder, text: str, expected: Expr) -> None:
    assert values(folder, f"    h0: '{text}'\n") == {"h0": expected}


def test_entries_of_tables_parameters_and_types(folder: Folder) -> None:
    found = values(
        folder,
        "    chars: emb\n    h0: start\n    char.W: w\n    char: {U: u}\n"
        "    word: cells.1.*\n    tag: '*_out + *_more'\n",
    )
    assert found == {
        "chars": Tensor("emb"),
        "h0": Tensor("start"),
        "char.W": Tensor("w"),
        "char.U": Tensor("u"),
        **{f"word.{name}": Tensor(f"cells.1.{name}") for name in ("W", "U", "b")},
        **{
            f"tag.{name}": Combined("sum", (Tensor(f"{name}_out"), Tensor(f"{name}_more")))
            for name in ("W", "b")
        },
    }


def test_a_pattern_stands_for_the_types_own_parameters(folder: Folder) -> None:
    assert values(folder, "    word: x.*\n", SHARED) == {"word.U": Tensor("x.U")}


@pytest.mark.parametrize(
    ("section", "message", "hint"),
    [
        ("weights: {«fil»: w.npz}", "unknown key 'fil' in weights", "did you mean 'file'?"),
        ("weights: «[»w.npz]", "weights must be a mapping (name: value)", ""),
        ("weights: {map: «a»}", "map must be a mapping (name: value)", ""),
        ("weights: {ignore: «a»}", "ignore must be a list of tensors' names", "decoder"),
        ("weights: {map: {«chrs»: a}}", "'chrs' is no table, parameter or type", "did you mean 'chars'?"),
        ("weights: {map: {«state»: '*'}}", "type 'state' has no parameters of its own", "none"),
        ("weights: {map: {char: «a»}}", "'a' cannot be every parameter of type 'char'", "'a*' for all"),
        ("weights: {map: {char: {«w»: a}}}", "type 'char' has no parameter 'w'", "one of: U, W, b"),
        ("weights: {map: {«char.w»: a}}", "type 'char' has no parameter 'w'", "one of: U, W, b"),
        ("weights: {map: {«word.b»: a}}", "type 'word' shares its parameter 'b'", "where it belongs"),
        ("weights: {map: {char: {W: a}, «char.W»: b}}", "'char.W' is mapped twice", "one value"),
        ("weights: {map: {h0: «[»]}}", "'h0' must be a text", ""),
        ("weights: {map: {h0: 'a «b»'}}", "expected '+', '[' or the end, not 'b'", ""),
        ("weights: {map: {h0: 'a +«»'}}", "expected the name of a tensor, not the end", ""),
        ("weights: {map: {h0: 'a[«hiden»:]'}}", "unknown dim 'hiden'", "did you mean 'hidden'?"),
        ("weights: {map: {h0: 'a[0:hidden«»'}}", "expected ']' to close the bracket", ""),
        ("weights: {map: {h0: 'a[3:«3»]'}}", "nothing lies between 3 and 3", ""),
        ("weights: {map: {h0: 'a[«0» - 1]'}}", "-1 is before the first", ""),
        ("weights: {map: {h0: '«transpos»(a)'}}", "unknown function 'transpos'", "'transpose'?"),
        ("weights: {map: {h0: 'transpose(a«,» b)'}}", "expected ')' to close the parenthesis", ""),
        ("weights: {map: {h0: 'zeros «+» a'}}", "expected the end, not '+'", ""),
    ],
)
def test_mistakes(folder: Folder, section: str, message: str, hint: str) -> None:
    text, marks = unmark(f"{SHARED}{section}\n")
    (problem,) = folder.model_problems(text)
    assert message in problem.message
    assert marks_of((problem,)) == marks
    assert hint in problem.hint


def test_all_mistakes_at_once(folder: Folder) -> None:
    text = LATTICE.replace("cell: linear.yaml", "cell: liner.yaml")
    problems = folder.model_problems(text + "weights: {map: {hh: a, char: {w: b}, tag: '*'}}\n")
    assert [p.message for p in problems if p.where and p.where.line > 10] == [
        "'hh' is no table, parameter or type",
        "type 'char' has no parameter 'w'",
    ]
    assert len(problems) == 3  # of `tag`, whose cell is missing, nothing can be said
