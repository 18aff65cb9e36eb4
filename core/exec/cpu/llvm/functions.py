"""Element-wise functions on vectors, to single precision, as instructions.

What is not a number stays so, and infinities end where NumPy's do. The polynomials were fitted for this file:
least squares, weights raised where the relative error was largest. The errors named are measured ones, with
products and sums rounded once; without such instructions e^x is good to 3e-6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from abw.core.exec.cpu.llvm.emit import Function, splat
from abw.core.exec.lower.polynomials import (
    LEAST_NORMAL,
    LN2,
    LOG1P_P,
    LOG2_E,
    LOG2_E_REST,
    LOG_P,
    NORMAL_END,
    NORMAL_P,
    NORMAL_SLOPE,
    NORMALISE,
    NORMALISED,
    ROOT_HALF_BITS,
    TANH_P,
    TANH_Q,
)
from abw.core.ir.operations import spell

# Added to a number below 2^22 and taken away again it rounds it; in between its last bits are an integer.
ROUNDER = 1.5 * 2**23

# e^-104 is less than half of the least denormal number.
ZERO_BELOW = -104.0

# 109 e^-109 is 0 in single precision; times 2^64 it is a usual number.
UNSCALE, LAST = 2.0**-64, 109.0

# 2^f for |f| <= 1/2, highest power first; relative error 9.2e-8.
POWER = (0.0013264727065237245, 0.00967151264890986, 0.055507337436912496, 0.24022242085173176,
         0.6931469775988574, 1.0)  # fmt: skip


def exp(f: Function, x: str) -> str:
    """e^x; relative error below 2e-7, also where the result is nearly infinite."""
    # what rounds to 0 is never computed: an operation whose result underflows takes some 150 cycles
    zero = f.let(f"fcmp olt {f.target.vector} {x}, {splat(ZERO_BELOW)}")
    x = f.select(zero, splat(0.0), f.choose("ogt", x, splat(95.0), splat(95.0), x))
    # the result is scaled in two steps, so that neither scale leaves the exponents that there are
    shifted = f.fma(x, splat(LOG2_E), splat(ROUNDER))
    whole = f.vec("fsub", shifted, splat(ROUNDER))
    rest = f.fma(x, splat(LOG2_E), f.let(f"fneg {f.target.vector} {whole}"))
    rest = f.fma(x, splat(LOG2_E_REST), rest)
    half = f.vec("fadd", f.vec("fmul", whole, splat(0.5)), splat(ROUNDER))
    other = f.vec("fadd", f.vec("fsub", whole, f.vec("fsub", half, splat(ROUNDER))), splat(ROUNDER))
    power = f.vec("fmul", polynomial(f, rest, POWER), _power_of_two(f, half))
    return f.select(zero, splat(0.0), f.vec("fmul", power, _power_of_two(f, other)))


def sigmoid(f: Function, x: str) -> str:
    """1 / (1 + e^-x); absolute error below 1e-7, relative below 2e-6 above x = -40."""
    return divided(f, sigmoid_quotient(f, x))


def tanh(f: Function, x: str) -> str:
    """x P(x^2) / Q(x^2) for |x| <= 8, beyond which tanh is nearly 1; relative error below 5e-7."""
    return divided(f, tanh_quotient(f, x))


@dataclass(frozen=True, slots=True)
class Quotient:
    """What is still to be divided: `top`, or else one, by `bottom`.

    Bottoms are such that one of each kind multiply to less than 2^127.
    """

    top: str | None
    bottom: str


def sigmoid_quotient(f: Function, x: str) -> Quotient:
    """1 / (1 + e^-x), with e^-x below 2^118."""
    x = clamp(f, x, -118 / LOG2_E, 125 / LOG2_E)
    shifted = f.fma(x, splat(-LOG2_E), splat(ROUNDER))
    whole = f.vec("fsub", shifted, splat(ROUNDER))
    rest = f.fma(x, splat(-LOG2_E), f.let(f"fneg {f.target.vector} {whole}"))
    power = f.vec("fmul", polynomial(f, rest, POWER), _power_of_two(f, shifted))
    return Quotient(None, f.vec("fadd", splat(1.0), power))


def tanh_quotient(f: Function, x: str) -> Quotient:
    """x P(x^2) / Q(x^2) for |x| <= 8; Q is below 2^8."""
    x = clamp(f, x, -8.0, 8.0)
    z = f.vec("fmul", x, x)
    return Quotient(f.vec("fmul", x, polynomial(f, z, TANH_P)), polynomial(f, z, TANH_Q))


def divided(f: Function, value: str | Quotient) -> str:
    """A value, divided out."""
    if isinstance(value, Quotient):
        return f.vec("fdiv", value.top or splat(1.0), value.bottom)
    return value


def product(f: Function, a: str | Quotient, b: str | Quotient) -> str:
    """`a * b`, by one division where one will do."""
    if isinstance(b, Quotient) and b.top is None:
        a, b = b, a
    if not isinstance(a, Quotient) or a.top is not None:
        return f.vec("fmul", divided(f, a), divided(f, b))
    if isinstance(b, Quotient) and b.top is not None:
        return f.vec("fdiv", b.top, f.vec("fmul", a.bottom, b.bottom))
    return f.vec("fdiv", divided(f, b), a.bottom)


def log(f: Function, x: str) -> str:
    """The logarithm of x = m 2^n, m near 1; relative error below 5e-7, near 1, too, and of denormals."""
    vector, integers = f.target.vector, f.target.integers
    tiny = f.let(f"fcmp olt {vector} {x}, {splat(LEAST_NORMAL)}")
    normal = f.select(tiny, f.vec("fmul", x, splat(NORMALISE)), x)
    bits = f.let(f"bitcast {vector} {normal} to {integers}")
    above = f.let(f"sub {integers} {bits}, splat (i32 {ROOT_HALF_BITS})")
    power = f.let(f"ashr {integers} {above}, splat (i32 23)")
    shift = f.let(f"shl {integers} {power}, splat (i32 23)")
    near = f.let(f"bitcast {integers} {f.let(f'sub {integers} {bits}, {shift}')} to {vector}")
    n = f.let(f"sitofp {integers} {power} to {vector}")
    n = f.vec("fsub", n, f.select(tiny, splat(NORMALISED), splat(0.0)))
    part = f.vec("fsub", near, splat(1.0))
    curved = f.fma(part, polynomial(f, part, LOG_P), splat(-0.5))
    result = f.fma(n, splat(LN2), f.fma(f.vec("fmul", part, part), curved, part))
    # of infinity and of what is no number themselves
    result = f.choose("olt", x, splat(float("inf")), result, x)
    result = f.choose("oeq", x, splat(0.0), splat(-float("inf")), result)
    return f.choose("olt", x, splat(0.0), splat(float("nan")), result)


def silu(f: Function, x: str) -> str:
    """x / (1 + e^-x), of e^-|x|; relative error below 5e-7."""
    e = exp_of_negative(f, f.intrinsic("fabs", x))
    small = f.vec("fmul", f.vec("fmul", x, e), splat(UNSCALE))
    return f.vec("fdiv", f.choose("olt", x, splat(0.0), small, x), f.fma(e, splat(UNSCALE), splat(1.0)))


def softplus(f: Function, x: str) -> str:
    """log(1 + e^x) = max(x, 0) + log(1 + e^-|x|); relative error below 5e-7."""
    t = f.intrinsic("fabs", x)
    e = f.vec("fmul", _scaled_exp(f, f.choose("ogt", t, splat(LAST), splat(LAST), t)), splat(UNSCALE))
    return f.fma(e, polynomial(f, e, LOG1P_P), _positive(f, x))


def gelu(f: Function, x: str) -> str:
    """x times the normal distribution up to x; relative error below 1e-6."""
    t = f.intrinsic("fabs", x)
    t = f.choose("ogt", t, splat(NORMAL_END), splat(NORMAL_END), t)
    power = _scaled_exp(f, *_square(f, t))
    y = f.vec("fdiv", splat(1.0), f.fma(t, splat(NORMAL_SLOPE), splat(1.0)))
    part = polynomial(f, y, [-UNSCALE * coefficient for coefficient in NORMAL_P])
    return f.fma(f.vec("fmul", part, power), f.vec("fmul", t, y), _positive(f, x))


def _square(f: Function, x: str) -> tuple[str, str]:
    """x^2, and what is lost of it."""
    if f.target.fused:
        square = f.vec("fmul", x, x)
        return square, f.fma(x, x, f.let(f"fneg {f.target.vector} {square}"))
    # the square of what has half the bits is exact
    bits = f.let(f"bitcast {f.target.vector} {x} to {f.target.integers}")
    bits = f.let(f"and {f.target.integers} {bits}, splat (i32 -4096)")
    high = f.let(f"bitcast {f.target.integers} {bits} to {f.target.vector}")
    return f.vec("fmul", high, high), f.vec("fmul", f.vec("fsub", x, high), f.vec("fadd", x, high))


def _positive(f: Function, x: str) -> str:
    return f.choose("olt", x, splat(0.0), splat(0.0), x)


def _scaled_exp(f: Function, t: str, lost: str | None = None) -> str:
    """2^64 e^-t of 0 <= t < 120, which is no denormal number; of a square and what is lost of it, of half."""
    factor = LOG2_E if lost is None else LOG2_E / 2
    whole_of = t if lost is None or f.target.fused else f.vec("fadd", t, lost)
    shifted = f.fma(whole_of, splat(-factor), splat(ROUNDER))
    whole = f.vec("fsub", shifted, splat(ROUNDER))
    rest = f.fma(t, splat(-factor), f.let(f"fneg {f.target.vector} {whole}"))
    # of a square, what single precision leaves of log2(e) is in NORMAL_P
    rest = f.fma(t, splat(-LOG2_E_REST), rest) if lost is None else f.fma(lost, splat(-factor), rest)
    return f.vec("fmul", polynomial(f, rest, POWER), _power_of_two(f, shifted, 64))


def exp_of_negative(f: Function, t: str) -> str:
    """2^64 e^-t of t >= 0, which is no denormal number; 0 where e^-t is."""
    return f.choose("ogt", t, splat(LAST), splat(0.0), _scaled_exp(f, t))


def maximum(f: Function, a: str, b: str) -> str:
    """The larger one; not a number where either is none."""
    return f.choose("uno", a, a, a, f.choose("ogt", a, b, a, b))


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


def _power_of_two(f: Function, shifted: str, more: int = 0) -> str:
    """2^(n + more) of n + ROUNDER."""
    vector, integers = f.target.vector, f.target.integers
    bits = f.let(f"bitcast {vector} {shifted} to {integers}")
    bits = f.let(f"shl {integers} {bits}, splat (i32 23)")
    bits = f.let(f"add {integers} {bits}, splat (i32 {(127 + more) << 23})")
    return f.let(f"bitcast {integers} {bits} to {vector}")


# What has instructions of its own; `element` makes the other operations of these.
OWN: Mapping[str, Callable[..., str]] = {
    "add": lambda f, a, b: f.vec("fadd", a, b),
    "sub": lambda f, a, b: f.vec("fsub", a, b),
    "mul": lambda f, a, b: f.vec("fmul", a, b),
    "div": lambda f, a, b: f.vec("fdiv", a, b),
    "neg": lambda f, x: f.let(f"fneg {f.target.vector} {x}"),
    "less": lambda f, a, b: f.let(f"fcmp olt {f.target.vector} {a}, {b}"),
    "less_equal": lambda f, a, b: f.let(f"fcmp ole {f.target.vector} {a}, {b}"),
    "equal": lambda f, a, b: f.let(f"fcmp oeq {f.target.vector} {a}, {b}"),
    "select": Function.select,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "exp": exp,
    "log": log,
    "sqrt": lambda f, x: f.intrinsic("sqrt", x),
    "abs": lambda f, x: f.intrinsic("fabs", x),
    "floor": lambda f, x: f.intrinsic("floor", x),
    "silu": silu,
    "softplus": softplus,
    "gelu": gelu,
    "identity": lambda f, x: x,
}


# What ends in a division, which a product with it may take upon itself.
QUOTIENTS: Mapping[str, Callable[[Function, str], Quotient]] = {
    "sigmoid": sigmoid_quotient,
    "tanh": tanh_quotient,
}


def element(f: Function, name: str, args: Sequence[str]) -> str:
    """An element-wise operation of the table."""
    return spell(name, args, OWN, lambda step, values: OWN[step](f, *values), splat)
