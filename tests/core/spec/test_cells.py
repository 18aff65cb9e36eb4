"""Cells: what equations become, and what is wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from abw.core.base.errors import AbwError, SpecError
from abw.core.ir.cell import Cell, Op, Param, Port
from abw.core.spec.cells.equations import MOST_OPERATIONS
from abw.core.spec.load import load_cell
from tests.core.spec.writing import LATTICE, LINEAR, LSTM, Folder, edited, marks_of, unmark

FRAME = """\
cell: c
dims: [n, m]
inputs: {x: n, y: m, A: [n, m]}
params: {W: [m, n], b: m}
equations: |
  use = concat(x, y) + 0 * concat(x, b)
  twice = A @ W @ x
EQUATION
outputs: {o: z, use: use, twice: twice}
"""
# sizes in the messages: n=3, m=2


def equations(folder: Folder, *lines: str) -> Cell:
    text = FRAME.replace("EQUATION", "\n".join(f"  {line}" for line in lines))
    return load_cell(folder.write("cell.yaml", text), {"n": 3, "m": 2})


def test_a_cell_in_single_assignment_form(folder: Folder) -> None:
    cell = load_cell(folder.path / "lstm.yaml", {"embed": 4, "hidden": 8})
    assert cell == Cell(
        "lstm",
        (Port("x", (4,)), Port("h", (8,)), Port("c", (8,))),
        (Param("W", (8, 4)), Param("U", (8, 8)), Param("b", (8,))),
        (
            Op("matmul", (3, 0), (8,)),
            Op("matmul", (4, 1), (8,)),
            Op("add", (6, 7), (8,)),
            Op("add", (8, 5), (8,)),
            Op("sigmoid", (9,), (8,), label="f"),
            Op("mul", (10, 2), (8,)),
            Op("constant", (), (), (1.0,)),
            Op("sub", (12, 10), (8,)),
            Op("add", (11, 13), (8,), label="c1"),
            Op("tanh", (14,), (8,), label="h1"),
        ),
        (("h", 15), ("c", 14)),
    )
    assert cell.output_ports == (Port("h", (8,)), Port("c", (8,)))
    assert [cell.shape_of(value) for value in (0, 3, 6)] == [(4,), (8, 4), (8,)]


def test_sizes_are_64_unless_given(folder: Folder) -> None:
    assert load_cell(folder.path / "lstm.yaml").params[0].shape == (64, 64)
    assert load_cell(folder.path / "lstm.yaml", {"embed": 4}).params[0].shape == (64, 4)
    with pytest.raises(AbwError, match=r"no dim 'hiden' to set\n  hint: did you mean 'hidden'\?"):
        load_cell(folder.path / "lstm.yaml", {"hiden": 4})
    with pytest.raises(AbwError, match="dim 'hidden' cannot be 0"):
        load_cell(folder.path / "lstm.yaml", {"hidden": 0})


@pytest.mark.parametrize(
    ("equation", "ops"),
    [
        ("z = 2 * 3 + 1 - -x", ["neg", "constant 7", "sub"]),
        ("z = 1 - (2 - x) * 2 / 4", ["constant 2", "sub", "mul", "constant 4", "div", "constant 1", "sub"]),
        (
            "z = sigmoid(0) * x + tanh(0) + relu(-3) + exp(0)",
            ["constant 0.5", "mul", "constant 0", "add", "add", "constant 1", "add"],
        ),
        ("z = --x", ["identity"]),
        ("z = x", ["identity"]),
        ("z = W", ["identity"]),
        ("z = transpose(A) @ x", ["transpose", "matmul"]),
        ("z = x[1:n]", ["slice 1 3"]),
        ("z = A[:1]", ["slice 0 1"]),
        ("z = concat(x, y)[n:][0:m / 2]", ["concat", "slice 3 5", "slice 0 1"]),
        ("z = softmax(A)", ["softmax"]),
        ("z = softmax(A, 1)", ["softmax"]),
        ("z = elu(x)", ["constant 1", "elu"]),
        ("z = leaky_relu(x, 0.2)", ["constant 0.2", "leaky_relu"]),
        ("z = 2 < x", ["constant 2", "lt"]),
        ("z = -x ** 2", ["mul", "neg"]),
        ("z = x ** 6", ["mul", "mul", "mul"]),
        ("z = x ** -0.5", ["rsqrt"]),
        ("z = x ** 1.5 ** 1 + 2 ** 3", ["sqrt", "mul", "constant 8", "add"]),
        ("z = 2 ** x", ["constant 0.693147", "mul", "exp"]),
        ("z = x ** x", ["log", "mul", "exp"]),
        ("z = x + (1 < 2) - (1 == 2)", ["constant 1", "add", "constant 0", "sub"]),
        ("z = sum(x)", ["sum -1 1"]),
        ("z = sum(A, axis=-1)", ["sum -1 0"]),
        ("z = max(A)", ["max -2 0", "max -1 1"]),
        ("z = mean(A, 0)", ["sum -2 0", "constant 3", "div"]),
        ("z = dot(x, x)", ["mul", "sum -1 1"]),
        ("z = A * y", ["spread 1 2 3 2", "mul"]),
        ("z = A * reshape(x, n, 1)", ["spread 3 1 3 2", "mul"]),
        ("z = x * sum(y)", ["sum -1 1", "spread 1 3", "mul"]),
        ("z = outer(x, y)", ["spread 3 1 3 2", "spread 1 2 3 2", "mul"]),
        ("z = reshape(reshape(A, m, n), n, m) * A", ["mul"]),
        ("z = (x\n     +\n     x)  # goes on in brackets", ["add"]),
        ("w = x * 2\n  z = w", ["constant 2", "mul"]),
    ],
)
def test_what_equations_become(folder: Folder, equation: str, ops: list[str]) -> None:
    cell = equations(folder, equation)
    start = next(at for at, op in enumerate(cell.ops) if op.label == "twice") + 1
    shown = [" ".join([op.name, *(f"{a:g}" for a in op.attr)]) for op in cell.ops[start:]]
    # the frame's own constant 0 is used again, not made again
    assert shown == [op for op in ops if op != "constant 0"]


@pytest.mark.parametrize(
    ("equation", "shape"),
    [
        ("z = W @ x", (2,)),
        ("z = A @ W", (3, 3)),
        ("z = A @ W @ x", (3,)),
        ("z = concat(A, transpose(W))", (6, 2)),
        ("z = concat(x, y, x)", (8,)),
        ("z = A[1:3]", (2, 2)),
        ("z = transpose(A)", (2, 3)),
        ("z = 1 / exp(A)", (3, 2)),
    ],
)
def test_shapes(folder: Folder, equation: str, shape: tuple[int, ...]) -> None:
    assert equations(folder, equation).output_ports[0] == Port("o", shape)


def test_two_outputs_of_one_value_are_two_values(folder: Folder) -> None:
    text = edited(LINEAR, "{y: y}", "{y: y, again: y, x: x}")
    cell = load_cell(folder.write("cell.yaml", text))
    assert [(op.name, op.args, op.label) for op in cell.ops[-2:]] == [
        ("identity", (4,), "again"),
        ("identity", (0,), "x"),
    ]
    assert cell.outputs == (("y", 4), ("again", 5), ("x", 6))


def test_initial_values_and_sizes_that_are_expressions(folder: Folder) -> None:
    text = edited(LINEAR, "b: out}", "b: {shape: 2 * (out + in) / 4, init: -1.5e-1}}")
    cell = load_cell(folder.write("cell.yaml", text))
    assert cell.params == (Param("W", (64, 64)), Param("b", (64,), -0.15))


@pytest.mark.parametrize(
    ("equation", "message", "hint"),
    [
        ("z = «W @ y»", "W @ y: [m=2, n=3] @ [m=2]: the inner sizes differ", "transpose the matrix?"),
        ("z = «x @ W»", "x @ W: [n=3] @ [m=2, n=3]: the left side must be a matrix", "W @ x"),
        ("z = «x @ x»", "x @ x: [n=3] @ [n=3]: the left side must be a matrix", "element by element"),
        ("z = x * («W @ x + x»)", "W @ x + x: [m=2] + [n=3]: the sizes differ", ""),
        ("z = «A * x»", "A * x: [n=3, m=2] * [n=3]: the sizes differ", "for a matrix times a vector write @"),
        ("z = «A + x»", "A + x: [n=3, m=2] + [n=3]: the sizes differ", "a row write reshape(…, n, 1)"),
        ("z = «W * x + y»", "W * x + y: [m=2, n=3] + [m=2]: the sizes differ", "did you mean @?"),
        ("z = «A + x»", "A + x: [n=3, m=2] + [n=3]: the sizes differ", "for one number a row"),
        ("z = «x < y»", "x < y: [n=3] < [m=2]: the sizes differ", ""),
        ("z = x < x «<» x", "a comparison has two sides", "(a < b) * (b < c)"),
        ("z = «where(x, y, 1)»", "where(x, y, 1): [n=3], [m=2]: the sizes differ", ""),
        ("z = «sum(x, 1)»", "sum(x, 1): [n=3] has no axis 1", "a vector has axis 0 alone"),
        ("z = «mean(A, axis=2)»", "mean(A, axis=2): [n=3, m=2] has no axis 2", "0 goes down the columns"),
        (
            "z = «max(x, x)»",
            "max(x, x): only the first argument is a value, the others are numbers",
            "maximum(x, y)",
        ),
        ("z = sum(A, «dim»=1)", "no argument is called 'dim'", "axis=1"),
        ("z = «(-2) ** x»", "(-2) ** x: the number is too large", ""),
        ("z = x * «*» 2", "expected a name, a number or '(', not '*'", ""),
        ("z = x > 0 «and» x < 1", "there is no operator 'and'", "(a < b) * (b < c)"),
        ("z = (x > 0 «|» x < 1) * 2", "there is no operator '|'", "maximum(a < b, b < c)"),
        ("z = «x + 1e50»", "x + 1e50: 1e+50 is beyond what a float32 holds", "at most 3.4e38"),
        ("z = «sum(A, x)»", "sum(A, x): only the first argument is a value, the others are numbers", ""),
        ("z = x + «sum(1)»", "sum(1): sum needs vectors or matrices, not numbers", ""),
        ("z = «dot(1, x)»", "dot(1, x): a number (1) is neither vector nor matrix", ""),
        ("z = «dot(x, y)»", "dot(x, y): [n=3], [m=2]: the sizes differ", ""),
        ("z = «dot(A, x)»", "dot(A, x): [n=3, m=2], [n=3]: dot takes two vectors", "write @"),
        ("z = «reshape(A, n, n)»", "reshape(A, n, n): [n=3, m=2] has 6 elements, [3, 3] 9", ""),
        ("z = reshape(A, «k»)", "unknown dim 'k'", "m, n"),
        ("z = «layernorm(x, y, 0)»", "layernorm(x, y, 0): [n=3] * [m=2]: the sizes differ", ""),
        ("z = «layernorm»(x)", "layernorm takes three or four arguments, not 1", "layernorm(x, y, z)"),
        ("z = «sum»(x, 0, 0)", "sum takes one or two arguments, not 3", "sum(A, 1)"),
        ("z = «2 @ x»", "2 @ x: a number (2) is neither vector nor matrix", "multiply with *"),
        ("z = «concat(x, A)»", "concat(x, A): [n=3], [n=3, m=2]: only the first sizes may differ", ""),
        ("z = «concat(x, 1)»", "concat(x, 1): a number (1) is neither vector nor matrix", ""),
        ("z = x + «softmax(1)»", "softmax(1): softmax needs vectors or matrices, not numbers", ""),
        ("z = «transpose(x)»", "transpose(x): [n=3] is no matrix", ""),
        ("z = «x[0:4]»", "x[0:4]: 0:4 is not inside [n=3]", "stop <= 3"),
        ("z = «x[2:2]»", "x[2:2]: 2:2 is not inside [n=3]", ""),
        ("z = «x[n - 4:2]»", "x[n - 4:2]: -1:2 is not inside [n=3]", ""),
        ("z = «(1)[0:1]» + x", "(1)[0:1]: a number has no parts", ""),
        ("z = x[0«]»", "a slice needs ':'", "x[0:1]"),
        ("z = x[0:«k»]", "unknown dim 'k'", "m, n"),
        ("z = x[0:n «/» 2]", "3 / 2 is not a whole number", ""),
        ("z = x[0:n «/» 0]", "division by zero", ""),
        ("z = x[0:«1.5»]", "'1.5' is no size: a whole number", ""),
        ("z = «x / 0»", "x / 0: division by zero", ""),
        ("z = x + «1 / 0»", "1 / 0: division by zero", ""),
        ("z = x + «exp(1000)»", "exp(1000): the number is too large", ""),
        ("z = x + «1e999»", "the number is too large", ""),
        ("z = x + «twyce»", "unknown name 'twyce'", "did you mean 'twice'?"),
        ("z = x + «n»", "'n' is a dim, not a value", "slices: x[0:hidden]"),
        ("z = x + «tanh»", "'tanh' is a function", "write tanh(…)"),
        ("z = «tan»(x)", "unknown function 'tan'", "did you mean 'tanh'?"),
        ("z = «clip»(x, 0, 1)", "unknown function 'clip'", "write minimum(maximum(x, low), high)"),
        ("z = «tanh»(x, x)", "tanh takes one argument, not 2", ""),
        ("z = «tanh»()", "tanh takes one argument, not 0", ""),
        ("z = «concat»(x)", "concat takes two arguments or more, not 1", ""),
        ("z = x + «late»\n  late = x", "'late' is used before it is defined", "it is defined on line 9"),
        ("z = x + «z»", "'z' is used before it is defined", ""),
        ("z = x\n  «z» = y", "'z' is defined twice", "the first is on line 8"),
        ("z = x\n  «b» = y", "'b' is an input, parameter or constant already", "another name"),
        ("z = x\n  «relu» = y", "'relu' is a function's name", ""),
        ("z = x\n  «w» = y", "'w' is never used", "leave the equation out"),
        ("z = x «=» y", "expected an operator or the end of the line, not '='", ""),
        ("z = x «y»", "expected an operator or the end of the line, not 'y'", ""),
        ("z = x + «.»y", "expected a name, a number or '(', not '.'", ""),
        ("z = x +« »", "expected a name, a number or '(', not the end", ""),
        ("z = «(»x + x", "'(' is never closed", ""),
        ("z = tanh«(»x", "'(' is never closed", ""),
        ("z = x«)»", "expected an operator or the end of the line, not ')'", ""),
        ("z = x; «import» os", "", ""),
        ("z = «**»x", "", ""),
        ("«x» + 1", "an equation is: name = expression", ""),
        ("«3» = x", "an equation is: name = expression", ""),
        ("z = " + "(" * 51 + "«x»" + ")" * 51, "nested more than 50 deep", "equations of their own"),
        ("z = " + "tanh(" * 5000 + "x" + ")" * 5000, "nested more than 50 deep", ""),
        ("z = x + «2x»", "", ""),
    ],
)
def test_mistakes_in_equations(folder: Folder, equation: str, message: str, hint: str) -> None:
    text, marks = unmark(FRAME.replace("EQUATION", f"  {equation}"))
    problems = folder.cell_problems(text, {"n": 3, "m": 2})
    first = problems[0]
    if message:
        assert (first.message, len(problems)) == (message, 1)
    assert hint in first.hint
    if marks and message:
        assert marks_of(problems) == marks


def test_a_long_sum_is_no_deep_one(folder: Folder) -> None:
    cell = equations(folder, "z = " + " + ".join(["x"] * 3000) + " - " + "-" * 5001 + "x")
    assert len([op for op in cell.ops if op.name == "add"]) == 3000


def test_a_cell_is_no_larger_than_can_be_compiled(folder: Folder) -> None:
    text, marks = unmark(FRAME.replace("EQUATION", "  «z» = " + " + ".join(["x"] * (MOST_OPERATIONS + 2))))
    (problem,) = folder.cell_problems(text, {"n": 3, "m": 2})
    assert problem.message == "the equations up to here have more than 4,000 operations"
    assert marks_of((problem,)) == marks


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("cell: lstm\n", "", "a cell has no 'cell'", ""),
        (
            "outputs:",
            "«outptus»:",
            "unknown key 'outptus' in a cell",
            "did you mean 'outputs'? allowed here:",
        ),
        ("dims: [embed, hidden]", "dims: [embed, hidden, «embed»]", "'embed' is there twice", ""),
        ("dims: [embed, hidden]", "dims: «{»embed: 1}", "dims must be a list: [a, b]", ""),
        (
            "dims: [embed, hidden]",
            "dims: [embed, hidden, «a-b»]",
            "'a-b' cannot be the name of a dim",
            "letters",
        ),
        ("c: hidden}", "c: «hiden»}", "unknown dim 'hiden'", "did you mean 'hidden'?"),
        ("c: hidden}", "c: hidden, «n»: hidden}", "input 'n' is never used", ""),
        ("b: hidden}", "b: hidden, «n»: hidden}", "parameter 'n' is never used", ""),
        ("b: hidden}", "b: hidden, «tanh»: hidden}", "'tanh' is a function's name", ""),
        ("b: hidden}", "b: hidden, «x»: hidden}", "'x' is an input and a parameter", ""),
        ("b: hidden}", "b: «0»}", "parameter 'b' is 0: a size is from 1 to 1,048,576", ""),
        ("b: hidden}", "b: «hidden - 100»}", "parameter 'b' is -36: a size is from 1 to 1,048,576", ""),
        (
            "b: hidden}",
            "b: «[»1, 2, 3]}",
            "parameter 'b' must have one size or two",
            "a matrix: [hidden, embed]",
        ),
        (
            "b: hidden}",
            "b: «[»100000, 100000]}",
            "parameter 'b' would hold 10,000,000,000 numbers; at most 268,435,456 do",
            "",
        ),
        ("b: hidden}", "b: hidden +«}»", "expected a size, not the end", ""),
        ("b: hidden}", "b: 9999999 «*» 9999999}", "the size is too large", ""),
        ("b: hidden}", "b: {shape: hidden, init: «one»}}", "init of parameter 'b' must be a number", ""),
        ("b: hidden}", "b: {shape: hidden, «inti»: 1}}", "unknown key 'inti' in parameter 'b'", "'init'"),
        ("b: hidden}", "b: «{»init: 1}}", "parameter 'b' has no 'shape'", ""),
        (
            "outputs: {h: h1, c: c1}",
            "outputs: {h: «h2», c: c1, d: h1}",
            "output 'h': unknown name 'h2'",
            "did you mean 'h'?",
        ),
        ("outputs: {h: h1, c: c1}", "outputs: «{»}", "a cell needs an output", ""),
        ("outputs: {h: h1, c: c1}", "outputs: «h1»", "outputs must be a mapping (name: value)", ""),
        ("outputs: {h: h1, c: c1}", "outputs: {h: «[»h1]}", "output 'h' must be a text", ""),
        (
            "h1 = tanh(c1)\n",
            "h1 = tanh(c1)\n  k = 2 * 3\n",
            "output 'k' is a constant",
            "depends on an input",
        ),
    ],
)
def test_mistakes_around_the_equations(folder: Folder, old: str, new: str, message: str, hint: str) -> None:
    text, marks = unmark(edited(LSTM, old, new))
    if "k = 2" in new:
        text, marks = unmark(edited(text, "c: c1}", "c: c1, k: «k»}"))
    problems = [p for p in folder.cell_problems(text) if p.message == message]
    assert len(problems) == 1
    assert hint in problems[0].hint
    if marks:
        assert marks_of(tuple(problems)) == marks


CONSTANTS = """\
cell: c
dims: [n]
inputs: {x: n}
constants: {half: 0.5, steps: [1, 2, 3], table: [[1, 2, 3], [4, 5, 6]], ones: {shape: [n, 2], value: -1e-3}}
equations: |
  y = table @ (half * steps * x) + transpose(ones) @ x
outputs: {y: y}
"""


def test_constants_are_numbers_vectors_and_matrices(folder: Folder) -> None:
    cell = load_cell(folder.write("cell.yaml", CONSTANTS), {"n": 3})
    assert not cell.params
    assert [(op.shape, op.attr, op.label) for op in cell.ops if op.name == "constant"] == [
        ((3,), (1, 2, 3), "steps"),
        ((2, 3), (1, 2, 3, 4, 5, 6), "table"),
        ((3, 2), (-1e-3,) * 6, "ones"),
        ((), (0.5,), ""),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("half: 0.5", "half: «one»", "constant 'half' must be a number", ""),
        ("half: 0.5", "half: «.inf»", "constant 'half' must be a number", ""),
        ("half: 0.5", "half: «1e50»", "constant 'half' is beyond what a float32 holds", "at most 3.4e38"),
        ("[1, 2, 3], [4", "[1, 2, «-1e50»], [4", "constant 'table' is beyond what a float32 holds", ""),
        ("half: 0.5", "half: 0.5, «n»: 7", "'n' is a dim and a constant", "rename"),
        ("steps: [1, 2, 3]", "steps: [1, «two», 3]", "constant 'steps' must be a number", ""),
        (
            "[[1, 2, 3], [4, 5, 6]]",
            "«[»[1, 2, 3], [4, 5]]",
            "constant 'table' must be a number, or a list of numbers or of equally long lists",
            "",
        ),
        (
            "steps: [1, 2, 3]",
            "steps: «[»]",
            "constant 'steps' must be a number, or a list of numbers or of equally long lists",
            "",
        ),
        ("{shape: [n, 2], value: -1e-3}", "«{»value: 1}", "constant 'ones' has no 'shape'", ""),
        ("{shape: [n, 2], value: -1e-3}", "«{»shape: n}", "constant 'ones' has no 'value'", ""),
        (
            "[n, 2], value",
            "[n, 4096], value",
            "constant 'ones' has 12,288 numbers: 4,096 at most",
            "a parameter has",
        ),
        ("half: 0.5", "half: 0.5, «x»: 1", "'x' is an input and a constant", "rename"),
        ("half: 0.5", "half: 0.5, «max»: 1", "'max' is a function's name", ""),
        ("half: 0.5", "half: 0.5, «more»: 1", "constant 'more' is never used", "leave it out"),
        ("{y: y}", "{y: y, s: «steps»}", "output 's' is a constant", "depends on an input"),
    ],
)
def test_mistakes_in_constants(folder: Folder, old: str, new: str, message: str, hint: str) -> None:
    text, marks = unmark(edited(CONSTANTS, old, new))
    problems = [p for p in folder.cell_problems(text, {"n": 3}) if p.message == message]
    assert len(problems) == 1
    assert hint in problems[0].hint
    if marks:
        assert marks_of(tuple(problems)) == marks


def test_a_comma_that_tears_an_equation_apart_is_told_as_that(folder: Folder) -> None:
    cell = "{dims: [n], inputs: {g: n}, params: {b: n}, %s, outputs: {y: y}}"
    torn = cell % "equations: y = where(g > 1, b, maximum(b, 0))"
    problems = folder.model_problems(edited(LATTICE, "types:\n", f"cells:\n  c: {torn}\ntypes:\n"))
    assert [p.message for p in problems] == [
        "'(' is never closed",
        "key 'b' in cell 'c' has no value",
    ][-len(problems) :]
    assert all("put quotes around a text with commas" in p.hint for p in problems)


def test_recipes_of_the_docs_are_cells(folder: Folder, root: Path) -> None:
    page = (root / "docs" / "spec.md").read_text().partition("Their parts:")[2].partition("##")[0]
    recipes = re.findall(r"^- .*?: `(.*?)`", page, re.MULTILINE)
    found = [recipe for recipe in recipes if "(" in recipe and "=" not in recipe]
    assert len(found) > 6
    for recipe in found:
        names = "cell: c\ndims: [n, m]\ninputs: {x: n, y: m, q: n, K: [3, n], V: [3, n]}\n"
        names += "params: {weight: n, bias: n, W: [2, n * m]}\nconstants: {low: 0, high: 1, norm_k: 2}\n"
        text = f"{names}equations: |\n  z = {recipe}\noutputs: {{z: z}}\n"
        problems = folder.cell_problems(text, {"n": 4, "m": 4})
        assert all("never used" in problem.message for problem in problems), recipe


def test_a_dim_that_is_not_declared_is_one_mistake(folder: Folder) -> None:
    text = "cell: c\ninputs: {x: m}\nparams: {w: k, b: m}\nequations: z = w * x + b\noutputs: {z: z}\n"
    found = [(p.message, p.where.line, p.where.column) for p in folder.cell_problems(text, {}) if p.where]
    assert found == [("unknown dim 'm', at 2 places", 2, 13), ("unknown dim 'k'", 3, 13)]


def test_all_mistakes_of_a_file_at_once_in_the_order_of_its_lines(folder: Folder) -> None:
    problems = folder.cell_problems(
        "cell: c\ndims: [n]\ninputs: {x: n, unused: n}\nparams: {W: [n, m]}\n"
        "equations: |\n  a = W @ x + nix\n  b = tahn(a)\n  c = x @ x\n"
        "outputs: {a: a, b: b, c: c, d: dd}\nnote: 1\n"
    )
    assert [(p.where.line if p.where else 0, p.message.split(":")[0]) for p in problems] == [
        (3, "input 'unused' is never used"),
        (4, "unknown dim 'm'"),
        (6, "unknown name 'nix'"),
        (7, "unknown function 'tahn'"),
        (8, "x @ x"),
        (9, "output 'd'"),
        (10, "unknown key 'note' in a cell"),
    ]


def test_an_error_shows_the_line(folder: Folder) -> None:
    with pytest.raises(SpecError) as error:
        equations(folder, "z = x * (W @ y)")
    path = folder.path / "cell.yaml"
    assert str(error.value) == (
        f"{path}:8:12: W @ y: [m=2, n=3] @ [m=2]: the inner sizes differ\n"
        "  8 |   z = x * (W @ y)\n"
        "    |            ^^^^^\n"
        "  hint: transpose the matrix?"
    )


def test_a_model_is_no_cell(folder: Folder, root: Path) -> None:
    (problem,) = folder.cell_problems("model: m\ntypes: {}\n")
    assert problem.message.endswith("cell.yaml is a model, not a cell")
    (problem,) = folder.cell_problems("- a\n- b\n")
    assert problem.message == "a cell must be a mapping (name: value)"
