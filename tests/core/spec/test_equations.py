"""Equations mean what they say: random expressions, as text through the parser and directly in NumPy."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from abw.core.ir.cell import Cell, Shape
from abw.core.ir.operations import OPERATIONS
from abw.core.spec.load import load_cell

Array = NDArray[np.float64]
SIZES = (2, 3)
INPUTS: dict[str, Shape] = {
    **{f"x{a}": (a,) for a in SIZES},
    **{f"A{a}{b}": (a, b) for a in SIZES for b in SIZES},
}
COMPARISON, SUM, PRODUCT, UNARY, ATOM = range(5)


@dataclass(frozen=True)
class Expression:
    """A text, how tightly it binds, and what it is."""

    text: str
    level: int
    value: Callable[[dict[str, Array]], Array]

    def inside(self, level: int) -> str:
        """The text as an operand that must bind at least so tightly."""
        return self.text if self.level >= level else f"({self.text})"


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "exp": lambda x: np.exp(x),
    "softmax": softmax,
    "abs": np.abs,
    "square": np.square,
}
COMPARED: dict[str, Callable[[Array, Array], Array]] = {
    "<": lambda a, b: np.less(a, b) * 1.0,
    "<=": lambda a, b: np.less_equal(a, b) * 1.0,
    ">": lambda a, b: np.greater(a, b) * 1.0,
    ">=": lambda a, b: np.greater_equal(a, b) * 1.0,
    "==": lambda a, b: np.equal(a, b) * 1.0,
    "!=": lambda a, b: np.not_equal(a, b) * 1.0,
}


def call(name: str, inner: Expression) -> Expression:
    return Expression(f"{name}({inner.text})", ATOM, lambda env: FUNCTIONS[name](inner.value(env)))


def binary(sign: str, a: Expression, b: Expression) -> Expression:
    signs: dict[str, Callable[[Array, Array], Array]] = {
        "+": np.add,
        "-": np.subtract,
        "*": np.multiply,
        "/": np.divide,
        "@": np.matmul,
        **COMPARED,
    }
    compute = signs[sign]
    level = COMPARISON if sign in COMPARED else SUM if sign in "+-" else PRODUCT
    # an operation of the same level on the right needs its parentheses; a comparison on both sides
    text = f"{a.inside(max(SUM, level))} {sign} {b.inside(level + 1)}"
    return Expression(text, level, lambda env: compute(a.value(env), b.value(env)))


@st.composite
def constants(draw: st.DrawFn, depth: int) -> Expression:
    """A number, or arithmetic on numbers."""
    choice = draw(st.integers(0, 4 if depth else 0))
    if choice == 0:
        number = draw(st.integers(0, 300)) / 100
        return Expression(f"{number:g}", ATOM, lambda env: np.asarray(number))
    inner = draw(constants(depth - 1))
    if choice == 1:
        return Expression(f"-{inner.inside(UNARY)}", UNARY, lambda env: -inner.value(env))
    if choice == 2:
        return call(draw(st.sampled_from(["sigmoid", "tanh", "relu"])), inner)
    return binary(draw(st.sampled_from("+-*")), inner, draw(constants(depth - 1)))


@st.composite
def expressions(draw: st.DrawFn, shape: Shape, names: dict[str, Shape], depth: int) -> Expression:
    """An expression of this shape over these names."""
    leaves = [name for name, other in names.items() if other == shape]
    choice = draw(st.integers(0, 8)) if depth else 0

    def of(shape: Shape) -> Expression:
        return draw(expressions(shape, names, depth - 1))

    if choice == 0:
        name = draw(st.sampled_from(leaves))
        return Expression(name, ATOM, lambda env: env[name])
    if choice == 1:
        return call(draw(st.sampled_from([*FUNCTIONS])), of(shape))
    if choice == 2:
        inner = of(shape)
        return Expression(f"-{inner.inside(UNARY)}", UNARY, lambda env: -inner.value(env))
    if choice == 3:
        return binary(draw(st.sampled_from(["+", "-", "*", *COMPARED])), of(shape), of(shape))
    if choice == 4:
        pair = [of(shape), draw(constants(2))]
        return binary(draw(st.sampled_from("+-*")), *draw(st.permutations(pair)))
    if choice == 5:
        # a divisor that is never near zero
        positive = binary(
            "+", call("sigmoid", of(shape)), Expression("0.5", ATOM, lambda env: np.asarray(0.5))
        )
        return binary("/", of(shape), positive)
    if choice == 6:
        inner_size = draw(st.sampled_from(SIZES))
        return binary("@", of((shape[0], inner_size)), of((inner_size, *shape[1:])))
    if choice == 7 and len(shape) == 2:
        inner = of(shape[::-1])
        return Expression(f"transpose({inner.text})", ATOM, lambda env: inner.value(env).T)
    parts = [of((draw(st.sampled_from(SIZES)), *shape[1:])) for _ in range(2)]
    joined = Expression(
        f"concat({parts[0].text}, {parts[1].text})",
        ATOM,
        lambda env: np.concatenate([part.value(env) for part in parts]),
    )
    start = draw(st.integers(0, 4 - shape[0]))
    stop = start + shape[0]
    written = draw(st.sampled_from([f"{start}:{stop}", f"three - {3 - start}:two * 2 - {4 - stop}"]))
    return Expression(f"{joined.text}[{written}]", ATOM, lambda env: joined.value(env)[start:stop])


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[str, Expression]]:
    """One to three equations; the later ones may use the earlier."""
    names = dict(INPUTS)
    found = []
    for number in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(sorted(set(INPUTS.values()))))
        found.append((f"v{number}", draw(expressions(shape, names, 4))))
        names[f"v{number}"] = shape
    return found


def interpret(cell: Cell, inputs: dict[str, Array]) -> dict[str, Array]:
    """A cell's outputs, one operation after the other."""
    values: list[Array] = [inputs[port.name] for port in cell.inputs]
    for op in cell.ops:
        args = [values[number] for number in op.args]
        match op.name:
            case "constant":
                result = np.array(op.attr[0])
            case "matmul":
                result = args[0] @ args[1]
            case "add":
                result = args[0] + args[1]
            case "sub":
                result = args[0] - args[1]
            case "mul":
                result = args[0] * args[1]
            case "div":
                result = args[0] / args[1]
            case "neg":
                result = -args[0]
            case "concat":
                result = np.concatenate(args)
            case "slice":
                start, stop = map(int, op.attr)
                result = args[0][start:stop]
            case "transpose":
                result = args[0].T
            case "identity":
                result = args[0]
            case "lt" | "le" | "gt" | "ge" | "eq" | "ne":
                result = COMPARED[OPERATIONS[op.name].sign](*args)
            case _:
                result = FUNCTIONS[op.name](args[0])
        assert result.shape == op.shape, (op, result.shape)
        values.append(result)
    return {name: values[number] for name, number in cell.outputs}


@settings(max_examples=100, deadline=None)
@given(program=programs(), seed=st.integers(0, 1000))
def test_random_equations_agree_with_numpy(program: list[tuple[str, Expression]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    env = {name: rng.uniform(-1, 1, shape) for name, shape in INPUTS.items()}
    lines = [f"  {name} = {expression.text}\n" for name, expression in program]
    # every input is used somewhere
    lines.append("  rest = A22 @ x2 + A23 @ x3\n  more = A32 @ x2 + A33 @ x3\n")
    shapes = ", ".join(f"{name}: {list(shape)}" for name, shape in INPUTS.items())
    outputs = ", ".join(f"{name}: {name}" for name, _ in program)
    text = (
        f"cell: c\ndims: [two, three]\ninputs: {{{shapes}}}\nequations: |\n{''.join(lines)}"
        f"outputs: {{{outputs}, rest: rest, more: more}}\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cell.yaml"
        path.write_text(text)
        cell = load_cell(path, {"two": 2, "three": 3})
    numbers = [number for _, number in cell.outputs]
    assert len(set(numbers)) == len(numbers) and min(numbers) >= cell.first_op
    with np.errstate(all="ignore"):
        found = interpret(cell, env)
        for name, expression in program:
            env[name] = np.asarray(expression.value(env))
            np.testing.assert_allclose(found[name], env[name], rtol=1e-9, atol=1e-9)
