"""Element-wise functions on vectors, to single precision, as instructions.

What is not a number stays so, and infinities end where NumPy's do. The polynomials were fitted for this file:
least squares, weights raised where the relative error was largest. The errors named are measured ones, with
products and sums rounded once; without such instructions e^x is good to 3e-6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from abw.core.exec.cpu.llvm.emit import Function, splat
from abw.core.exec.lower.polynomials import LOG2_E, LOG2_E_REST, TANH_P, TANH_Q
from abw.core.ir.meanings import spell

ROUNDER = 1.5 * 2**23
"""Added to a number below 2^22 and taken away again it rounds it; in between its last bits are an integer."""

POWER = (0.0013264727065237245, 0.00967151264890986, 0.055507337436912496, 0.24022242085173176,
         0.6931469775988574, 1.0)  # fmt: skip
"""2^f for |f| <= 1/2, highest power first; relative error 9.2e-8."""


def exp(f: Function, x: str) -> str:
    """e^x; relative error below 2e-7, also where the result is nearly infinite."""
    # the result is scaled in two steps, so that neither scale leaves the exponents that there are
    x = clamp(f, x, -110.0, 95.0)
    shifted = f.fma(x, splat(LOG2_E), splat(ROUNDER))
    whole = f.vec("fsub", shifted, splat(ROUNDER))
    rest = f.fma(x, splat(LOG2_E), f.let(f"fneg {f.target.vector} {whole}"))
    rest = f.fma(x, splat(LOG2_E_REST), rest)
    half = f.vec("fadd", f.vec("fmul", whole, splat(0.5)), splat(ROUNDER))
    other = f.vec("fadd", f.vec("fsub", whole, f.vec("fsub", half, splat(ROUNDER))), splat(ROUNDER))
    power = f.vec("fmul", polynomial(f, rest, POWER), _power_of_two(f, half))
    return f.vec("fmul", power, _power_of_two(f, other))


def sigmoid(f: Function, x: str) -> str:
    """1 / (1 + e^-x); absolute error below 1e-7, relative below 2e-6 above x = -40."""
    return quotient(f, splat(1.0), f.vec("fadd", splat(1.0), _exp_bounded(f, x, -LOG2_E)))


def tanh(f: Function, x: str) -> str:
    """x P(x^2) / Q(x^2) for |x| <= 8, beyond which tanh is nearly 1; relative error below 5e-7."""
    x = clamp(f, x, -8.0, 8.0)
    z = f.vec("fmul", x, x)
    top = f.vec("fmul", x, polynomial(f, z, TANH_P))
    return quotient(f, top, polynomial(f, z, TANH_Q))


def maximum(f: Function, a: str, b: str) -> str:
    """The larger one; not a number where either is none."""
    return f.choose("uno", a, a, a, f.choose("ogt", a, b, a, b))


def quotient(f: Function, a: str, b: str) -> str:
    """a / b where b is neither 0 nor infinite: by an estimate of 1 / b made better, where there is one."""
    return f.vec("fdiv arcp", a, b)


def clamp(f: Function, x: str, low: float, high: float) -> str:
    """x between two numbers."""
    x = f.choose("ogt", x, splat(high), splat(high), x)
    return f.choose("olt", x, splat(low), splat(low), x)


def polynomial(f: Function, x: str, coefficients: Sequence[float]) -> str:
    """Horner's scheme, highest power first."""
    result = splat(coefficients[0])
    for coefficient in coefficients[1:]:
        result = f.fma(x, result, splat(coefficient))
    return result


def _exp_bounded(f: Function, x: str, factor: float) -> str:
    """2^(factor x), held between 2^-126 and 2^126."""
    t = clamp(f, f.vec("fmul", x, splat(factor)), -126.0, 126.0)
    shifted = f.vec("fadd", t, splat(ROUNDER))
    rest = f.vec("fsub", t, f.vec("fsub", shifted, splat(ROUNDER)))
    return f.vec("fmul", polynomial(f, rest, POWER), _power_of_two(f, shifted))


def _power_of_two(f: Function, shifted: str) -> str:
    """2^n of n + ROUNDER."""
    vector, integers = f.target.vector, f.target.integers
    bits = f.let(f"bitcast {vector} {shifted} to {integers}")
    bits = f.let(f"shl {integers} {bits}, splat (i32 23)")
    bits = f.let(f"add {integers} {bits}, splat (i32 {0x3F800000})")
    return f.let(f"bitcast {integers} {bits} to {vector}")


OWN: Mapping[str, Callable[..., str]] = {
    "add": lambda f, a, b: f.vec("fadd", a, b),
    "sub": lambda f, a, b: f.vec("fsub", a, b),
    "mul": lambda f, a, b: f.vec("fmul", a, b),
    "div": lambda f, a, b: f.vec("fdiv", a, b),
    "neg": lambda f, x: f.let(f"fneg {f.target.vector} {x}"),
    "less": lambda f, a, b: f.let(f"fcmp olt {f.target.vector} {a}, {b}"),
    "select": Function.select,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "exp": exp,
    "identity": lambda f, x: x,
}
"""What has instructions of its own; `element` makes the other operations of these."""


def element(f: Function, name: str, args: Sequence[str]) -> str:
    """An element-wise operation of the table."""
    return spell(name, args, OWN, lambda step, values: OWN[step](f, *values), splat)
