"""What PyTorch's element-wise operations and activations mean in cells."""

from __future__ import annotations

import math
from typing import Any

import torch

from abw.core.spec.cells.builder import Number
from abw.torch.tracing.trace import (
    MEANINGS,
    CannotTrace,
    K,
    NeedsFixed,
    Traced,
    core,
    means,
    trace_of,
    traced,
)

# What stands for minus infinity in `masked_fill`: cells have finite numbers.
LEAST = -3e38


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


def elementwise(name: str, *args: Any) -> Traced:
    """An operation element by element; its arguments broadcast as PyTorch's do."""
    trace = trace_of(*args)
    assert trace is not None
    given = [traced(trace, a) for a in args]
    shape = given[0].shape_
    for one in given[1:]:
        shape = broadcast(shape, one.shape_)
    target = core(shape)
    if all(isinstance(one.v, Number) for one in given):
        return Traced(trace, trace.apply(name, *(one.v for one in given)), shape)
    operands = [one.v for one in given]
    if len(target) == 2:
        places = [i for i, d in enumerate(shape) if d is not K and d != 1]
        for i, one in enumerate(given):
            if not isinstance(one.v, Number):
                padded = (1,) * (len(shape) - len(one.shape_)) + one.shape_
                pair = tuple(padded[p] for p in places)
                operands[i] = trace.shaped(one.v, pair) if pair[1] == 1 else one.v
    made = trace.apply(name, *operands)
    if made.shape != target:  # a number that is to be as wide as the result
        operands = [
            trace.value(Traced(trace, one.v, shape)) if isinstance(one.v, Number) else operand
            for one, operand in zip(given, operands, strict=True)
        ]
        made = trace.apply(name, *operands)
        if made.shape != target:
            raise CannotTrace(f"{name} of shapes {[list(one.shape_) for one in given]}")
    return Traced(trace, made, shape)


def _binary(name: str, names: str, turned: str = "", inplace: str = "") -> None:
    def plain(x: Any, y: Any, *, alpha: float = 1, rounding_mode: str | None = None) -> Traced:
        if rounding_mode is not None:
            raise CannotTrace(f"div with rounding_mode {rounding_mode!r}")
        return elementwise(name, x, elementwise("mul", y, alpha) if alpha != 1 else y)

    MEANINGS.update(dict.fromkeys(names.split(), plain))
    MEANINGS.update(dict.fromkeys(turned.split(), lambda x, y: elementwise(name, y, x)))
    MEANINGS.update(dict.fromkeys(inplace.split(), lambda x, y: x.write(plain(x, y))))


_binary("add", "add __add__", "__radd__", "__iadd__")
_binary("sub", "sub subtract __sub__", "__rsub__ rsub", "__isub__")
_binary("mul", "mul multiply __mul__", "__rmul__", "__imul__")
_binary("div", "div divide true_divide __truediv__", "__rtruediv__ __rdiv__", "__itruediv__")
_binary("maximum", "maximum fmax")
_binary("minimum", "minimum fmin")


def _compare(name: str) -> Any:
    def compare(x: Any, y: Any) -> Traced:
        found = elementwise(name, x, y)
        found.boolean = True
        return found

    return compare


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    means(_name, f"__{_name}__")(_compare(_name))


def _unary(op: str) -> Any:
    return lambda x: elementwise(op, x)


UNARY = {
    "abs": "abs absolute __abs__", "exp": "exp", "log": "log", "neg": "neg negative __neg__", "relu": "relu",
    "rsqrt": "rsqrt", "sigmoid": "sigmoid", "silu": "silu", "sqrt": "sqrt", "square": "square",
    "tanh": "tanh", "erf": "erf special_erf", "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil",
    "round": "round", "sign": "sign",
}  # fmt: skip
for _name, _names in UNARY.items():
    means(*_names.split())(_unary(_name))


@means("gelu")
def _gelu(x, approximate="none"):
    if approximate == "none":
        return elementwise("gelu", x)
    cubic = elementwise(
        "add", x, elementwise("mul", elementwise("mul", elementwise("square", x), x), 0.044715)
    )
    inner = elementwise("tanh", elementwise("mul", cubic, math.sqrt(2 / math.pi)))
    return elementwise("mul", elementwise("mul", x, 0.5), elementwise("add", inner, 1.0))


@means("leaky_relu")
def _leaky_relu(x, negative_slope=0.01):
    return elementwise("leaky_relu", x, negative_slope)


@means("prelu")
def _prelu(x, weight):
    below = elementwise("mul", elementwise("minimum", x, 0.0), traced(x.trace, weight))
    return elementwise("add", elementwise("relu", x), below)


@means("elu")
def _elu(x, alpha=1.0):
    return elementwise("elu", x, alpha)


@means("softplus")
def _softplus(x, beta=1, threshold=20):
    if beta == 1:
        return elementwise("softplus", x)
    return elementwise("div", elementwise("softplus", elementwise("mul", x, beta)), beta)


@means("logsigmoid")
def _logsigmoid(x):
    return elementwise("neg", elementwise("softplus", elementwise("neg", x)))


@means("hardtanh")
def _hardtanh(x, min_val=-1.0, max_val=1.0):
    return elementwise("minimum", elementwise("maximum", x, min_val), max_val)


@means("relu6")
def _relu6(x):
    return _hardtanh(x, 0.0, 6.0)


@means("clamp", "clip")
def _clamp(x, min=None, max=None):
    if min is not None:
        x = elementwise("maximum", x, min)
    return x if max is None else elementwise("minimum", x, max)


@means("clamp_min")
def _clamp_min(x, min):
    return elementwise("maximum", x, min)


@means("reciprocal")
def _reciprocal(x):
    return elementwise("div", 1.0, x)


@means("pow", "__pow__")
def _pow(x, y):
    if isinstance(y, int | float):
        simple = {2: "square", 0.5: "sqrt", -0.5: "rsqrt"}.get(y)
        if simple:
            return elementwise(simple, x)
        if y == int(y) and 0 < y <= 8:
            made = x
            for _ in range(int(y) - 1):
                made = elementwise("mul", made, x)
            return made
    return elementwise("pow", x, y)


@means("__rpow__")
def _rpow(x, y):
    return elementwise("pow", y, x)


@means("where")
def _where(condition, x, y):
    return elementwise("where", condition, x, y)


@means("masked_fill")
def _masked_fill(x, mask, value):
    return elementwise("where", mask, max(float(value), LEAST), x)


@means("glu")
def _glu(x, dim=-1):
    d = dim % len(x.shape_)
    whole = x.shape_[d]
    if whole is K or whole % 2:
        raise CannotTrace("glu of an odd number of elements")
    halves = [MEANINGS["narrow"](x, d, at, whole // 2) for at in (0, whole // 2)]
    return elementwise("mul", halves[0], elementwise("sigmoid", halves[1]))


def _loss(of: str) -> Any:
    def loss(x, y, size_average=None, reduce=None, reduction="mean", weight=None):
        if reduction not in ("mean", "sum", "none") or weight is not None:
            raise CannotTrace("a loss with weights")
        apart = elementwise(of, elementwise("sub", x, y))
        return apart if reduction == "none" else MEANINGS[reduction](apart)

    return loss


means("mse_loss")(_loss("square"))
means("l1_loss")(_loss("abs"))


@means("binary_cross_entropy_with_logits")
def _logit_loss(x, y, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
    if weight is not None or pos_weight is not None or reduction not in ("mean", "sum", "none"):
        raise CannotTrace("a loss with weights")
    apart = elementwise("sub", elementwise("softplus", x), elementwise("mul", x, y))
    return apart if reduction == "none" else MEANINGS[reduction](apart)


@means("lerp")
def _lerp(x, y, weight):
    return elementwise("add", x, elementwise("mul", elementwise("sub", y, x), weight))


@means("addcmul")
def _addcmul(x, a, b, value=1):
    return elementwise("add", x, elementwise("mul", elementwise("mul", a, b), value))


@means("dropout")
def _dropout(x, p=0.5, training=True):
    """In training the mask is an input, drawn as PyTorch draws it."""
    if not training or p == 0:
        return x
    return elementwise("mul", x, x.trace.input(x.shape_, ("mask", float(p)), row=K in x.shape_))


@means(
    "contiguous",
    "detach_",
    "to",
    "float",
    "cpu",
    "cuda",
    "requires_grad_",
    "type",
    "type_as",
    "double",
    "half",
)
def _same(x, *args, **kwargs):
    wanted = next((a for a in (*args, *kwargs.values()) if isinstance(a, torch.dtype)), torch.float32)
    if wanted is not torch.float32:
        raise CannotTrace(f"a tensor is converted to {wanted}")
    return x


def _copied(x: Traced) -> Traced:
    return Traced(x.trace, x.v, x.shape_)


@means("clone", "alias", "identity")
def _clone(x, **_):
    return _copied(x)


@means("double", "half", "bfloat16", "bool", "long", "int")
def _converted(x, **_):
    raise CannotTrace("a tensor is converted to another type than float32")


@means("detach")
def _detach(x):
    raise CannotTrace("detach cuts gradients inside a cell")


@means("zeros_like")
def _zeros_like(x, **_):
    return Traced(x.trace, Number(0.0), x.shape_)


@means("ones_like")
def _ones_like(x, **_):
    return Traced(x.trace, Number(1.0), x.shape_)


@means("full_like")
def _full_like(x, value, **_):
    return Traced(x.trace, Number(float(value)), x.shape_)


@means("new_zeros")
def _new_zeros(x, *shape, **_):
    from abw.torch.tracing.trace import sizes_of

    return Traced(x.trace, Number(0.0), sizes_of(shape))


@means("numel")
def _numel(x):
    if K in x.shape_:
        raise NeedsFixed("the number of elements of a list")
    return math.prod(x.shape_)


@means("is_floating_point")
def _is_floating_point(x):
    return True


@means("is_complex")
def _is_complex(x):
    return False


for _dunder in [
    "rpow",
    "add",
    "radd",
    "iadd",
    "sub",
    "rsub",
    "isub",
    "mul",
    "rmul",
    "imul",
    "truediv",
    "rtruediv",
    "itruediv",
    "matmul",
    "rmatmul",
    "pow",
    "neg",
    "abs",
    "getitem",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
]:

    def _forward(self, *args, _name=f"__{_dunder}__"):
        return MEANINGS[_name](self, *args)

    setattr(Traced, f"__{_dunder}__", _forward)
