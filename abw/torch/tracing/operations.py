"""What PyTorch's element-wise operations, activations and losses mean in cells.

`ELEMENTS` has those that are an operation of cells. All others are written with simpler ones of PyTorch's, as
one would write them for tensors.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from abw.core.spec.cells.builder import Number
from abw.torch.tracing.shaping import cat, narrow
from abw.torch.tracing.symbols import COMPARISONS, CannotTrace, K, NeedsFixed, axis, core, sizes_of
from abw.torch.tracing.trace import Traced, means, trace_of, traced, views

# What stands for minus infinity in `masked_fill`: cells have finite numbers.
LEAST = -3e38
# Operations of cells, and PyTorch's names of them.
ELEMENTS = {
    "add": "add __add__", "sub": "sub subtract __sub__", "mul": "mul multiply __mul__",
    "div": "div divide true_divide __truediv__ __div__", "maximum": "maximum fmax", "minimum": "minimum fmin",
    "where": "where", "lt": "lt less __lt__", "le": "le less_equal __le__", "gt": "gt greater __gt__",
    "ge": "ge greater_equal __ge__", "eq": "eq __eq__", "ne": "ne not_equal __ne__",
    "abs": "abs absolute __abs__", "exp": "exp", "log": "log", "neg": "neg negative __neg__", "relu": "relu",
    "rsqrt": "rsqrt", "sigmoid": "sigmoid", "silu": "silu", "sqrt": "sqrt", "square": "square",
    "tanh": "tanh", "erf": "erf special_erf", "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil",
    "round": "round", "sign": "sign sgn",
}  # fmt: skip
# Those that give booleans for booleans.
LOGICAL = {"mul", "maximum", "minimum", "where", *COMPARISONS}
# What they are called, where they are computed with numbers of any kind.
NUMERIC = {name for names in ELEMENTS.values() for name in names.split()}


def broadcast(a: Any, b: Any) -> tuple[Any, ...]:
    """The logical shape that two broadcast to. Errors: CannotTrace."""
    rank = max(len(a), len(b))
    out: list[Any] = []
    for x, y in zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b), strict=True):
        if x is K or y is K:
            if (x is not K and x != 1) or (y is not K and y != 1):
                raise NeedsFixed("a list of unknown length beside a fixed size")
            out.append(K)
        elif x == y or y == 1:
            out.append(x)
        elif x == 1:
            out.append(y)
        else:
            raise CannotTrace(f"the shapes {list(a)} and {list(b)} do not broadcast")
    return tuple(out)


def elementwise(name: str, *args: Any) -> Any:
    """An operation element by element; its arguments broadcast as PyTorch's do."""
    trace = trace_of(*args)
    assert trace is not None
    given = [traced(trace, a) for a in args]
    shape = given[0].shape_
    for one in given[1:]:
        shape = broadcast(shape, one.shape_)
    made, target = trace.apply(name, *(_fitted(one, shape) for one in given)), core(shape)
    if not isinstance(made, Number) and made.shape != target:  # a number is to be as wide as the result
        whole = [Traced(trace, one.v, shape) if isinstance(one.v, Number) else one for one in given]
        made = trace.apply(name, *(_fitted(one, shape, trace.value(one)) for one in whole))
        if made.shape != target:
            raise CannotTrace(f"{name} of shapes {[list(one.shape_) for one in given]}")
    found = Traced(trace, made, shape)
    alike = all(isinstance(a, Traced) and a.boolean for a in args)
    if alike and name not in LOGICAL:
        raise CannotTrace(f"{name} of booleans")
    found.boolean = alike or name in COMPARISONS
    return found


def _fitted(x: Traced, shape: Any, v: Any = None) -> Any:
    """An argument's value as cells broadcast it: a number, a row, a column, or all of the result's matrix."""
    v = x.v if v is None else v
    places = [i for i, s in enumerate(shape) if s is not K and s != 1]
    if isinstance(v, Number) or len(places) < 2:
        return v
    own = (1,) * (len(shape) - len(x.shape_)) + x.shape_
    rows = [i for i in places[:-1] if own[i] != 1]
    if rows and len(rows) < len(places) - 1:  # along some of the dimensions that are rows of the matrix
        whole = Traced(x.trace, v, own)
        for i in set(places[:-1]) - set(rows):
            whole = cat([whole] * shape[i], i)
        v = whole.v
    if own[places[-1]] != 1:
        return v
    return x.trace.shaped(v, (math.prod(shape[i] for i in places[:-1]) if rows else 1, 1))


def _element(op: str) -> Any:
    def apply(*args: Any, alpha: float = 1, rounding_mode: str | None = None) -> Any:
        if alpha != 1:
            args = (args[0], elementwise("mul", args[1], alpha))
        if rounding_mode not in (None, "floor"):
            raise CannotTrace(f"div with rounding_mode {rounding_mode!r}")
        found = elementwise(op, *args)
        return found if rounding_mode is None else elementwise("floor", found)

    return apply


for _op, _names in ELEMENTS.items():
    means(*_names.split())(_element(_op))

means("floor_divide", "__floordiv__")(lambda x, y: elementwise("floor", elementwise("div", x, y)))
means("remainder", "__mod__")(lambda x, y: elementwise("sub", x, elementwise("mul", y, x // y)))
means("logical_and", "bitwise_and", "__and__")(lambda x, y: flags(elementwise("mul", x, y), x, y))
means("logical_or", "bitwise_or", "__or__")(lambda x, y: flags(elementwise("maximum", x, y), x, y))
means("logical_not", "bitwise_not", "__invert__")(lambda x: flags(elementwise("sub", 1.0, x), x))


def flags(found: Traced, *of: Any) -> Traced:
    """What is made of booleans as booleans. Errors: CannotTrace for anything else."""
    if not all(one.dtype is torch.bool for one in of):
        raise CannotTrace("a logical operation on numbers")
    found.boolean = True
    return found


@means("gelu")
def _gelu(x, approximate="none"):
    if approximate == "none":
        return elementwise("gelu", x)
    inner = ((x + x.square() * x * 0.044715) * math.sqrt(2 / math.pi)).tanh()
    return x * 0.5 * (inner + 1.0)


means("leaky_relu")(lambda x, negative_slope=0.01: elementwise("leaky_relu", x, negative_slope))
means("elu")(lambda x, alpha=1.0: elementwise("elu", x, alpha))
means("selu")(lambda x: elementwise("elu", x, 1.6732632423543772) * 1.0507009873554805)
means("prelu")(lambda x, weight: x.relu() + x.clamp(max=0.0) * weight)
means("hardtanh")(lambda x, min_val=-1.0, max_val=1.0: x.clamp(min_val, max_val))
means("relu6")(lambda x: x.clamp(0.0, 6.0))
means("hardsigmoid")(lambda x: (x + 3.0).clamp(0.0, 6.0) / 6.0)
means("hardswish")(lambda x: x * (x + 3.0).clamp(0.0, 6.0) / 6.0)
means("mish")(lambda x: x * elementwise("softplus", x).tanh())
means("softsign")(lambda x: x / (x.abs() + 1.0))
means("tanhshrink")(lambda x: x - x.tanh())
means("logsigmoid", "log_sigmoid")(lambda x: -elementwise("softplus", -x))
means("log1p")(lambda x: (x + 1.0).log())
means("expm1")(lambda x: x.exp() - 1.0)
means("log2")(lambda x: x.log() * (1 / math.log(2)))
means("log10")(lambda x: x.log() * (1 / math.log(10)))
means("reciprocal")(lambda x: elementwise("div", 1.0, x))
means("trunc", "fix")(lambda x: x.sign() * x.abs().floor())
means("lerp")(lambda x, y, weight: x + (y - x) * weight)
means("addcmul")(lambda x, a, b, value=1: x + a * b * value)
means("addcdiv")(lambda x, a, b, value=1: x + a / b * value)
means("masked_fill")(lambda x, mask, value: elementwise("where", mask, max(float(value), LEAST), x))


@means("softplus")
def _softplus(x, beta=1, threshold=20):
    return elementwise("softplus", x) if beta == 1 else elementwise("softplus", x * beta) / beta


@means("clamp", "clip")
def _clamp(x, min=None, max=None):
    if min is not None:
        x = elementwise("maximum", x, min)
    return x if max is None else elementwise("minimum", x, max)


means("clamp_min")(lambda x, min: _clamp(x, min))
means("clamp_max")(lambda x, max: _clamp(x, None, max))


@means("pow", "__pow__")
def _pow(x, y):
    if isinstance(y, int | float):
        simple = {2: "square", 0.5: "sqrt", -0.5: "rsqrt"}.get(y)
        if simple:
            return elementwise(simple, x)
        if y == int(y) and 0 < y <= 8:
            made = x
            for _ in range(int(y) - 1):
                made = made * x
            return made
    return elementwise("pow", x, y)


@means("glu")
def _glu(x, dim=-1):
    d = axis(dim, len(x.shape_))
    whole = x.shape_[d]
    if whole is K or whole % 2:
        raise CannotTrace("glu of an odd number of elements")
    return narrow(x, d, 0, whole // 2) * narrow(x, d, whole // 2, whole // 2).sigmoid()


def _loss(of: Any) -> Any:
    """A loss of each element; weights, and factors other than 1, are refused."""

    def loss(x, y, *given, reduction="mean", **others):
        if reduction not in ("mean", "sum", "none") or {*given, *others.values()} - {None, 1.0}:
            raise CannotTrace("a loss with weights or other options")
        return _averaged(of(x, y), reduction)

    return loss


def _averaged(x: Any, how: str) -> Any:
    if how == "batchmean":
        return x.sum() * (1.0 / x.shape_[0])
    return x if how == "none" else getattr(x, how)()


@means("kl_div")
def _divergence(x, y, size_average=None, reduce=None, reduction="mean", log_target=False):
    trace = trace_of(x, y)
    assert trace is not None
    y = traced(trace, y)
    logs = y if log_target else y.clamp(min=1e-37).log()
    return _averaged((y.exp() if log_target else y) * (logs - x), reduction)


@means("margin_ranking_loss")
def _ranking(x, y, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    apart = elementwise("sub", float(margin), elementwise("mul", target, elementwise("sub", x, y)))
    return _averaged(apart.relu(), reduction)


means("mse_loss")(_loss(lambda x, y: elementwise("square", elementwise("sub", x, y))))
means("l1_loss")(_loss(lambda x, y: elementwise("abs", elementwise("sub", x, y))))
means("binary_cross_entropy_with_logits")(
    _loss(lambda x, y: elementwise("softplus", x) - elementwise("mul", x, y))
)


@means("smooth_l1_loss", "huber_loss")
@_loss
def _smooth_loss(x, y):
    apart = elementwise("abs", elementwise("sub", x, y))
    return elementwise("where", apart < 1.0, apart.square() * 0.5, apart - 0.5)


@means("binary_cross_entropy")
@_loss
def _cross_entropy(x, y):
    """Of probabilities; PyTorch bounds the logarithms, too."""
    yes, no = x.log().clamp(min=-100.0), (1.0 - x).log().clamp(min=-100.0)
    return -elementwise("mul", yes - no, y) - no


@means("dropout")
def _dropout(x, p=0.5, training=True):
    """In training the mask is an input, drawn as PyTorch draws it."""
    if not training or p == 0:
        return x
    return x * x.trace.input(x.shape_, ("mask", float(p)), row=K in x.shape_)


@means("contiguous", "detach_", "to", "cpu", "cuda", "requires_grad_", "type", "type_as")
def _same(x, *args, **kwargs):
    given = (a.dtype if isinstance(a, torch.Tensor) else a for a in (*args, *kwargs.values()))
    wanted = next((a for a in given if isinstance(a, torch.dtype)), x.dtype)
    if wanted not in (torch.float32, x.dtype):
        raise CannotTrace(f"a tensor is converted to {wanted}")
    return x if wanted is x.dtype else Traced(x.trace, x.v, x.shape_)


means("float")(lambda x, **_: _same(x, torch.float32))


@means("clone", "alias", "identity")
def _clone(x, **_):
    found = Traced(x.trace, x.v, x.shape_)
    found.boolean = x.boolean
    return found


@means("double", "half", "bfloat16", "long", "int")
def _converted(x, **_):
    raise CannotTrace("a tensor is converted to another type than float32")


@means("bool")
def _bool(x):
    return elementwise("ne", x, 0.0)


@means("detach")
def _detach(x):
    raise CannotTrace("detach cuts gradients inside a cell")


def _filled(x: Traced, value: float, shape: Any = None) -> Traced:
    return Traced(x.trace, Number(float(value)), x.shape_ if shape is None else shape)


means("zeros_like", "zero")(lambda x, **_: _filled(x, 0.0))
means("ones_like")(lambda x, **_: _filled(x, 1.0))
means("full_like", "fill")(lambda x, value, **_: _filled(x, value))
means("new_zeros", "new_empty", "new")(lambda x, *shape, **_: _filled(x, 0.0, sizes_of(shape)))
means("new_ones")(lambda x, *shape, **_: _filled(x, 1.0, sizes_of(shape)))
means("is_floating_point")(lambda x: not x.boolean)
means("is_complex")(lambda x: False)


@means("numel", "nelement")
def _numel(x):
    if K in x.shape_:
        raise NeedsFixed("the number of elements of a list")
    return math.prod(x.shape_)


@views("expand")
def expand(x, *shape, implicit=False):
    """`Tensor.expand`."""
    sizes = sizes_of(shape)
    old = (1,) * (len(sizes) - len(x.shape_)) + x.shape_
    new = tuple(o if (s is not K and s == -1) else s for o, s in zip(old, sizes, strict=True))
    if any(o is not n and o is not K and o != n and o != 1 for o, n in zip(old, new, strict=True)):
        raise CannotTrace(f"a tensor of shape {list(x.shape_)} is expanded to {list(new)}")
    if core(old) == core(new):
        return Traced(x.trace, x.v, new)
    return elementwise("add", Traced(x.trace, x.v, old), Traced(x.trace, Number(0.0), new))


views("expand_as", "broadcast_to")(lambda x, other: expand(x, getattr(other, "shape_", other)))


@means("repeat", "tile")
def _repeat(x, *times):
    counts = sizes_of(times)
    x = Traced(x.trace, x.v, (1,) * (len(counts) - len(x.shape_)) + x.shape_)
    new: list[Any] = []
    for d, (size, n) in enumerate(zip(x.shape_, counts, strict=True)):
        wide = size is K or size != 1
        if wide and n is not K and n != 1 and size is not K:
            x = cat([x] * n, d)
        elif wide and (n is K or n != 1):
            raise NeedsFixed("the rows of a list are repeated")
        new.append(x.shape_[d] if wide else n)
    return expand(x, tuple(new))
