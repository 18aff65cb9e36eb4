"""What PyTorch's reductions, softmax and products mean in cells."""

from __future__ import annotations

import math
from typing import Any

import torch

from abw.core.spec.cells.builder import Number
from abw.torch.tracing.operations import broadcast, elementwise
from abw.torch.tracing.scores import Scores
from abw.torch.tracing.shaping import (
    MOST_PARTS,
    around,
    cat,
    dropped,
    fixed,
    narrow,
    permute,
    reshaped,
    rotated,
    unsqueeze,
    view,
)
from abw.torch.tracing.symbols import (
    CannotTrace,
    DependsOnData,
    K,
    NeedsFixed,
    Refusing,
    axis,
    core,
    dims_of,
    sized,
)
from abw.torch.tracing.trace import Traced, means, trace_of, traced

# A square below the smallest that is not rounded to 0.
TINY = 1e-37


def _along(x: Traced, d: int, apply: Any, keep: bool) -> Traced:
    """What `apply(value, *axis)` makes of a vector, or of a matrix's rows or columns, along one dimension.

    `keep`: whether it keeps its size there.
    """
    trace, n = x.trace, x.shape_[d]
    shape = x.shape_ if keep else sized(x.shape_, d, 1)
    before, behind = around(x.shape_, d)
    if before > 1 and behind > 1:
        return rotated(_along(rotated(x, d), 0, apply, keep), len(x.shape_) - d)
    v = trace.value(x)
    if before == behind == 1:
        made = apply(trace.shaped(v, (n,)))
    elif behind == 1:
        made = apply(trace.shaped(v, (before, n)), Number(1.0))
    else:
        made = apply(trace.shaped(v, (n, behind)), Number(0.0))
    return Traced(trace, trace.shaped(made, core(shape)), shape)


def _reduced(x: Traced, how: str, dim: int) -> Traced:
    """`how` ("sum", "max", of K also "mean") along one logical dimension, which stays as 1."""
    trace, d = x.trace, axis(dim, len(x.shape_))
    if x.shape_[d] is K:
        return Traced(trace, trace.reduce(how, x), sized(x.shape_, d, 1))
    if x.shape_[d] == 1:
        return Traced(trace, x.v, x.shape_)
    return _along(x, d, lambda v, *at: trace.apply(how, v, *at), False)


def reduced(x: Traced, how: str, dim: Any, keepdim: bool) -> Traced:
    """`how` along some dimensions, or all; K last, when rows are as small as they get."""
    rank = len(x.shape_)
    dims = dims_of(dim, rank) if rank else []
    for d in sorted(dims, key=lambda d: (x.shape_[d] is K, -d)):
        x = _reduced(x, how, d)
    return x if keepdim else _without(x, dims)


def _without(x: Traced, dims: Any) -> Traced:
    """Without these dimensions, which are 1."""
    return Traced(x.trace, x.v, tuple(s for i, s in enumerate(x.shape_) if i not in dims))


@means("sum", "nansum")
def _sum(x, dim=None, keepdim=False, *, axis=None, dtype=None):
    found = reduced(x, "sum", axis if dim is None else dim, keepdim)
    found.whole = x.boolean
    return found


@means("mean")
def mean(x, dim=None, keepdim=False, *, axis=None, dtype=None):
    """`torch.mean`."""
    dims = dims_of(axis if dim is None else dim, len(x.shape_)) if x.shape_ else []
    known = [d for d in dims if x.shape_[d] is not K]
    found = x if dims and not known else _scaled(reduced(x, "sum", known or None, True), x, known)
    for d in dims:
        if x.shape_[d] is K:
            found = _reduced(found, "mean", d)
    return found if keepdim else _without(found, dims)


def _scaled(total: Traced, x: Traced, dims: Any) -> Any:
    return elementwise("mul", total, 1.0 / math.prod(x.shape_[d] for d in dims))


@means("prod")
def _prod(x, dim=None, keepdim=False, *, dtype=None):
    x, d = (view(x, -1), 0) if dim is None else (x, axis(dim, len(x.shape_)))
    parts = [narrow(x, d, i, 1) for i in range(fixed(x, d, "a product"))]
    found = parts[0]
    for part in parts[1:]:
        found = elementwise("mul", found, part)
    return found if keepdim else dropped(found, d)


class MaxPair(tuple):  # type: ignore[type-arg]
    """What `torch.max(x, dim)` gives: values, and indices that nobody may ask for in a cell."""

    def __new__(cls, values: Any) -> MaxPair:
        return super().__new__(cls, (values, _NoIndices()))

    @property
    def values(self) -> Any:
        """The largest elements."""
        return self[0]


class _NoIndices(Refusing):
    def refuse(self, *_: object) -> Any:
        raise DependsOnData("the index of the largest element is asked for")

    __getattr__ = refuse


def _extreme(of: Any, pair: str) -> Any:
    """`max` or `min`: of all elements, along a dimension, or of two tensors."""

    def extreme(x, dim=None, keepdim=False, *, axis=None, other=None):
        dim = next((d for d in (dim, axis, other) if d is not None), None)
        if isinstance(dim, Traced | torch.Tensor):
            return elementwise(pair, x, dim)
        found = of(x, dim, keepdim)
        return found if dim is None else MaxPair(found)

    return extreme


@means("amax")
def _amax(x, dim=None, keepdim=False):
    return reduced(x, "max", dim, keepdim)


@means("amin")
def _amin(x, dim=None, keepdim=False):
    return -_amax(-x, dim, keepdim)


means("max")(_extreme(_amax, "maximum"))
means("min")(_extreme(_amin, "minimum"))


@means("norm", "vector_norm", "linalg_vector_norm", "linalg_norm")
def norm(x, p=2, dim=None, keepdim=False, *, ord=None, dtype=None):
    """The Euclidean norm. Errors: CannotTrace for others."""
    if (p if ord is None else ord) not in (2, 2.0, "fro", None):
        raise CannotTrace("a norm other than the Euclidean")
    return _root(reduced(x.square(), "sum", dim, keepdim))


def _root(x: Traced) -> Any:
    """A square root whose gradient is 0 at 0, as that of PyTorch's norms."""
    return elementwise("maximum", x, TINY).sqrt()


means("dist")(lambda x, y, p=2: norm(x - y, p))
means("pairwise_distance")(lambda x, y, p=2.0, eps=1e-6, keepdim=False: norm(x - y + eps, p, -1, keepdim))


@means("normalize")
def _normalize(x, p=2.0, dim=1, eps=1e-12):
    return x / norm(x, p, dim, True).clamp(min=eps)


@means("var")
def _var(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    n = math.prod(fixed(x, d, "the variance") for d in dims_of(dim, len(x.shape_)))
    less = correction if correction is not None else int(unbiased)
    if n <= less:
        raise CannotTrace("the variance of a single number")
    total = reduced((x - mean(x, dim, True)).square(), "sum", dim, keepdim)
    return elementwise("mul", total, 1.0 / (n - less))


means("std")(lambda x, *args, **kwargs: _root(_var(x, *args, **kwargs)))


def _named_axis(x: Traced, dim: int | None) -> int:
    """The dimension of a softmax; without one that which PyTorch takes."""
    rank = len(x.shape_)
    return axis(dim if dim is not None else 0 if rank in (0, 1, 3) else 1, rank)


@means("softmax")
def softmax(x, dim=None, _stacklevel=3, dtype=None):
    """`torch.softmax`, over K too."""
    if isinstance(x, Scores):
        return x.softmax(dim)
    d = _named_axis(x, dim)
    if x.shape_[d] is K:
        e = (x - _reduced(x, "max", d)).exp()
        return e / _reduced(e, "sum", d)
    if x.shape_[d] == 1:
        return x * 0.0 + 1.0

    def apply(v, at=Number(1.0)):  # noqa: B008 (rows are the default)
        return x.trace.apply("softmax", v, *([at] if at.value == 0.0 else []))

    return _along(x, d, apply, True)


@means("log_softmax")
def _log_softmax(x, dim=None, _stacklevel=3, dtype=None):
    dim = _named_axis(x, dim)
    apart = x - _amax(x, dim, True)
    return apart - apart.exp().sum(dim, True).log()


means("softmin")(lambda x, dim=None, _stacklevel=3, dtype=None: softmax(-x, dim))


@means("logsumexp")
def _logsumexp(x, dim, keepdim=False):
    most = _amax(x, dim, True)
    found = (x - most).exp().sum(dim, True).log() + most
    return found if keepdim else _without(found, dims_of(dim, len(x.shape_)))


@means("cumsum")
def _cumsum(x, dim, dtype=None):
    """In log2(n) steps (Hillis and Steele, 1986)."""
    d = axis(dim, len(x.shape_))
    n, step = fixed(x, d, "cumsum") if x.shape_ else 1, 1
    while step < n:
        zeros = Traced(x.trace, Number(0.0), sized(x.shape_, d, step))
        x, step = x + cat([zeros, narrow(x, d, 0, n - step)], d), 2 * step
    return x


@means("linear")
def linear(x, weight, bias=None):
    """`functional.linear`: a product with a matrix, of a vector or of each row of a matrix."""
    trace = trace_of(x, weight, bias)
    assert trace is not None
    x, w = traced(trace, x), traced(trace, weight)
    if len(w.shape_) != 2 or x.shape_[-1] is K or x.shape_[-1] != w.shape_[1]:
        raise CannotTrace(f"linear of {list(x.shape_)} with a weight of {list(w.shape_)}")
    out, inner = w.shape_
    shape = (*x.shape_[:-1], out)
    matrix, v = trace.shaped(trace.value(w), (out, inner)), trace.value(x)
    rows = around(x.shape_, len(x.shape_) - 1)[0]
    if rows == 1:
        made = trace.apply("matmul", matrix, trace.shaped(v, (inner,)))
    else:
        made = trace.turned(trace.apply("matmul", matrix, trace.turned(trace.shaped(v, (rows, inner)))))
    if bias is not None:
        made = trace.apply("add", made, trace.shaped(trace.value(traced(trace, bias)), (out,)))
    return Traced(trace, trace.shaped(made, core(shape)), shape)


@means("addmm", "addmv", "baddbmm")
def _addmm(bias, x, w, *, beta=1, alpha=1):
    if beta != 1 or alpha != 1:
        raise CannotTrace("addmm with factors")
    return matmul(x, w) + bias


@means("matmul", "mm", "mv", "bmm", "__matmul__", "dot", "inner", "vdot")
def matmul(a, b):
    """`torch.matmul` of vectors, matrices, rows of K, and of several matrices."""
    if isinstance(a, Scores):
        return a.times(b)
    trace = trace_of(a, b)
    assert trace is not None
    a, b = traced(trace, a), traced(trace, b)
    ranks = len(a.shape_), len(b.shape_)
    if 0 in ranks:
        raise CannotTrace("a matrix product of a number")
    found = _product(unsqueeze(a, 0) if ranks[0] == 1 else a, unsqueeze(b, 1) if ranks[1] == 1 else b)
    if ranks[0] == 1:
        found = dropped(found, -2)
    return dropped(found, -1) if ranks[1] == 1 else found


def _product(a: Traced, b: Traced) -> Any:
    """A product of matrices of two dimensions or more."""
    trace, lead = a.trace, broadcast(a.shape_[:-2], b.shape_[:-2])
    (m, n), (also, p) = a.shape_[-2:], b.shape_[-2:]
    if (n is K) != (also is K) or (n is not K and n != also):
        if K in (n, also):
            raise NeedsFixed("a list of unknown length times a fixed size")
        raise CannotTrace(f"the shapes {list(a.shape_)} and {list(b.shape_)} do not multiply")
    wide = [i for i, s in enumerate(lead) if s is not K and s != 1]
    if m is K and p is K and n is not K and K not in lead and a.shape_[:-2] == b.shape_[:-2]:
        return Scores(a, b, (*lead, m, p))
    if wide:
        return _products(a, b, lead, wide[0])
    if K in lead and K in (m, n, p):
        raise NeedsFixed("a product of several lists")
    shape = (*lead, m, p)
    if n is K:  # weights times rows: a sum over the rows
        if m != 1:
            raise NeedsFixed("a matrix times a list of unknown length")
        weights = Traced(trace, a.v, (*a.shape_[:-2], K, 1))
        return _reduced(elementwise("mul", weights, b), "sum", -2)
    if p is K and m != 1:
        raise NeedsFixed("a matrix times a list of unknown length")
    left, right = trace.value(a), trace.value(b)
    if m is K or m == 1:
        if p is K or p == 1:
            made = trace.apply("dot", trace.shaped(left, (n,)), trace.shaped(right, (n,)))
        else:
            turned = trace.turned(trace.shaped(right, (n, p)))
            made = trace.apply("matmul", turned, trace.shaped(left, (n,)))
    else:
        right = trace.shaped(right, (n,) if p == 1 else (n, p))
        made = trace.apply("matmul", trace.shaped(left, (m, n)), right)
    return Traced(trace, trace.shaped(made, core(shape)), shape)


def _products(a: Traced, b: Traced, lead: Any, d: int) -> Traced:
    """Products of several matrices, along dimension d: one, where all are multiplied by the same."""
    n, p = b.shape_[-2:]
    if K not in (*lead, *a.shape_, *b.shape_) and all(s == 1 for s in b.shape_[:-2]):
        rows = reshaped(a, (a.shape_[-2] * around(a.shape_[:-1], len(a.shape_) - 2)[0], n))
        return reshaped(_product(rows, reshaped(b, (n, p))), (*lead, a.shape_[-2], p))
    if math.prod(s for s in lead if s is not K) > MOST_PARTS:
        raise CannotTrace(f"a product of {lead[d]} pairs of matrices")
    rank = len(lead) + 2
    a, b = (reshaped(one, (1,) * (rank - len(one.shape_)) + one.shape_) for one in (a, b))
    pairs = [[one if one.shape_[d] == 1 else narrow(one, d, i, 1) for one in (a, b)] for i in range(lead[d])]
    return cat([_product(*pair) for pair in pairs], d)  # type: ignore[no-any-return]


means("outer", "ger")(lambda x, y: unsqueeze(x, 1) * unsqueeze(y, 0))


@means("einsum")
def _einsum(equation, *operands):
    """Sums of products of one or more tensors, two by two from the left. Errors: CannotTrace."""
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    given, arrow, result = equation.replace(" ", "").partition("->")
    names = given.split(",")
    if "." in equation or any(len(set(n)) < len(n) for n in (*names, result)) or len(names) != len(operands):
        raise CannotTrace(f"einsum '{equation}': diagonals and '...' are no product")
    if not arrow:
        result = "".join(sorted(c for c in given if c != "," and given.count(c) == 1))
    trace = trace_of(*operands)
    assert trace is not None
    tensors = [traced(trace, one) for one in operands]
    have, x = names[0], tensors[0]
    for i, (own, y) in enumerate(zip(names[1:], tensors[1:], strict=True), 2):
        kept = {*result}.union(*names[i:])
        have, x = _pair(have, x, own, y, kept)
    have, x = _summed(have, x, {*result})
    return permute(x, [have.index(c) for c in result])


def _summed(names: str, x: Traced, kept: set[str]) -> tuple[str, Traced]:
    """The sum over the dimensions whose names are not kept; the names of the others."""
    gone = [i for i, c in enumerate(names) if c not in kept]
    return "".join(c for c in names if c in kept), reduced(x, "sum", gone, False) if gone else x


def _pair(left: str, a: Traced, right: str, b: Traced, kept: set[str]) -> tuple[str, Traced]:
    """The product of two factors of an einsum: a batched product of matrices; and its dimensions' names."""
    (left, a), (right, b) = _summed(left, a, {*right, *kept}), _summed(right, b, {*left, *kept})
    both = [c for c in left if c in right and c in kept]
    summed = [c for c in left if c in right and c not in kept]
    mine, theirs = ([c for c in one if c not in (*both, *summed)] for one in (left, right))
    size = {**dict(zip(left, a.shape_, strict=True)), **dict(zip(right, b.shape_, strict=True))}

    def grouped(x: Traced, own: str, *groups: list[str]) -> Traced:
        turned = permute(x, [own.index(c) for group in groups for c in group])
        return view(turned, [_size([size[c] for c in group]) for group in groups])  # type: ignore[no-any-return]

    made = _product(grouped(a, left, both, mine, summed), grouped(b, right, both, summed, theirs))
    names = "".join([*both, *mine, *theirs])
    return names, view(made, [size[c] for c in names])


def _size(sizes: list[Any]) -> Any:
    """The size of dimensions that are put together. Errors: NeedsFixed."""
    if K in sizes and any(s is not K and s != 1 for s in sizes):
        raise NeedsFixed("a list of unknown length and a fixed size as one dimension")
    return K if K in sizes else math.prod(sizes)
