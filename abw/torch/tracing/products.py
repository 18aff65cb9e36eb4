"""What PyTorch's reductions, products, normalisations and recurrent cells mean in cells."""

from __future__ import annotations

import math
from typing import Any

import torch

from abw.core.spec.cells.builder import Number
from abw.torch.tracing.operations import broadcast, elementwise
from abw.torch.tracing.shaping import cat, dropped, narrow, places_of, split, transpose, unsqueeze, view
from abw.torch.tracing.trace import (
    MEANINGS,
    CannotTrace,
    DependsOnData,
    Indices,
    K,
    NeedsFixed,
    Traced,
    axis,
    core,
    dims_of,
    means,
    trace_of,
    traced,
)


def _reduced(x: Traced, how: str, dim: int) -> Traced:
    """`how` ("sum", "max", of K also "mean") along one logical dimension, which stays as 1."""
    trace, d = x.trace, axis(dim, len(x.shape_))
    shape = (*x.shape_[:d], 1, *x.shape_[d + 1 :])
    along = x.shape_[d]
    if along is K:
        return Traced(trace, trace.reduce(how, x), shape)
    if along == 1:
        return Traced(trace, x.v, shape)
    v = trace.value(x)
    if len(core(x.shape_)) == 1:
        return Traced(trace, trace.apply(how, v), shape)
    return Traced(trace, trace.apply(how, v, Number(float(places_of(x.shape_).index(d)))), shape)


def reduced(x: Traced, how: str, dim: Any, keepdim: bool) -> Traced:
    """`how` along some dimensions, or all; K last, when rows are as small as they get."""
    rank = len(x.shape_)
    dims = dims_of(dim, rank) if rank else []
    for d in sorted(dims, key=lambda d: (x.shape_[d] is K, -d)):
        x = _reduced(x, how, d)
    if keepdim or not dims:
        return x
    return Traced(x.trace, x.v, tuple(s for i, s in enumerate(x.shape_) if i not in dims))


def _dim(dim: Any, axis: Any) -> Any:
    return axis if dim is None else dim


@means("sum")
def _sum(x, dim=None, keepdim=False, *, axis=None, dtype=None):
    return reduced(x, "sum", _dim(dim, axis), keepdim)


@means("mean")
def _mean(x, dim=None, keepdim=False, *, axis=None, dtype=None):
    dims = dims_of(_dim(dim, axis), len(x.shape_)) if x.shape_ else []
    if any(x.shape_[d] is K for d in dims):
        rest = [d for d in dims if x.shape_[d] is not K]
        inner = _mean(x, rest, True) if rest else x
        found = reduced(inner, "mean", [d for d in dims if x.shape_[d] is K], True)
    else:
        n = math.prod(x.shape_[d] for d in dims)
        found = elementwise("mul", reduced(x, "sum", dims or None, True), 1.0 / n)
    if keepdim:
        return found
    return Traced(x.trace, found.v, tuple(s for i, s in enumerate(x.shape_) if i not in dims))


class MaxPair(tuple):  # type: ignore[type-arg]
    """What `torch.max(x, dim)` gives: values, and indices that nobody may ask for in a cell."""

    def __new__(cls, values: Any) -> MaxPair:
        return super().__new__(cls, (values, _NoIndices()))

    @property
    def values(self) -> Any:
        """The largest elements."""
        return self[0]


class _NoIndices:
    def __getattr__(self, name: str) -> Any:
        raise DependsOnData("the index of the largest element is asked for")


@means("max")
def _max(x, dim=None, keepdim=False, *, axis=None):
    dim = _dim(dim, axis)
    if isinstance(dim, Traced | torch.Tensor):
        return elementwise("maximum", x, dim)
    found = reduced(x, "max", dim, keepdim)
    return found if dim is None else MaxPair(found)


@means("amax")
def _amax(x, dim=None, keepdim=False):
    return reduced(x, "max", dim, keepdim)


@means("min")
def _min(x, dim=None, keepdim=False):
    if isinstance(dim, Traced | torch.Tensor):
        return elementwise("minimum", x, dim)
    found = _amin(x, dim, keepdim)
    return found if dim is None else MaxPair(found)


@means("amin")
def _amin(x, dim=None, keepdim=False):
    return elementwise("neg", reduced(elementwise("neg", x), "max", dim, keepdim))


@means("norm", "vector_norm", "linalg_vector_norm", "linalg_norm")
def _norm(x, p=2, dim=None, keepdim=False, *, ord=None, dtype=None):
    if (p if ord is None else ord) not in (2, 2.0, "fro", None):
        raise CannotTrace("a norm other than the Euclidean")
    return elementwise("sqrt", reduced(elementwise("square", x), "sum", dim, keepdim))


@means("normalize")
def _normalize(x, p=2.0, dim=1, eps=1e-12):
    return elementwise("div", x, elementwise("maximum", _norm(x, p, dim, True), eps))


@means("var")
def _var(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    apart = elementwise("sub", x, _mean(x, dim, True))
    n = math.prod(x.shape_[d] for d in dims_of(dim, len(x.shape_)))
    less = correction if correction is not None else int(unbiased)
    return elementwise("mul", reduced(elementwise("square", apart), "sum", dim, keepdim), 1.0 / (n - less))


@means("std")
def _std(x, *args, **kwargs):
    return elementwise("sqrt", _var(x, *args, **kwargs))


@means("softmax")
def softmax(x, dim=None, _stacklevel=3, dtype=None):
    """`torch.softmax`, over K too."""
    d = axis(-1 if dim is None else dim, len(x.shape_))
    if x.shape_[d] is K:
        e = elementwise("exp", elementwise("sub", x, _reduced(x, "max", d)))
        return elementwise("div", e, _reduced(e, "sum", d))
    if x.shape_[d] == 1:
        return elementwise("add", elementwise("mul", x, 0.0), 1.0)
    v = x.trace.value(x)
    if len(core(x.shape_)) == 1 or places_of(x.shape_)[1] == d:
        return Traced(x.trace, x.trace.apply("softmax", v), x.shape_)
    return Traced(x.trace, x.trace.apply("softmax", v, Number(0.0)), x.shape_)


@means("log_softmax")
def _log_softmax(x, dim=None, _stacklevel=3, dtype=None):
    dim = -1 if dim is None else dim
    apart = elementwise("sub", x, _amax(x, dim, True))
    total = reduced(elementwise("exp", apart), "sum", dim, True)
    return elementwise("sub", apart, elementwise("log", total))


@means("logsumexp")
def _logsumexp(x, dim, keepdim=False):
    most = _amax(x, dim, True)
    total = reduced(elementwise("exp", elementwise("sub", x, most)), "sum", dim, True)
    found = elementwise("add", elementwise("log", total), most)
    if keepdim:
        return found
    dims = dims_of(dim, len(x.shape_))
    return Traced(x.trace, found.v, tuple(s for i, s in enumerate(x.shape_) if i not in dims))


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
    rows = math.prod(s for s in x.shape_[:-1] if s is not K)
    if rows == 1:
        made = trace.apply("matmul", matrix, trace.shaped(v, (inner,)))
    else:
        turned = trace.apply("transpose", trace.shaped(v, (rows, inner)))
        made = trace.apply("transpose", trace.apply("matmul", matrix, turned))
    if bias is not None:
        made = trace.apply("add", made, trace.shaped(trace.value(traced(trace, bias)), (out,)))
    return Traced(trace, trace.shaped(made, core(shape)), shape)


@means("addmm")
def _addmm(bias, x, w, *, beta=1, alpha=1):
    if beta != 1 or alpha != 1:
        raise CannotTrace("addmm with factors")
    return elementwise("add", matmul(x, w), bias)


@means("matmul", "mm", "mv", "bmm", "__matmul__", "dot", "inner")
def matmul(a, b):
    """`torch.matmul` of vectors, matrices and rows of K; not of several matrices."""
    trace = trace_of(a, b)
    assert trace is not None
    a, b = traced(trace, a), traced(trace, b)
    ranks = len(a.shape_), len(b.shape_)
    if 0 in ranks:
        raise CannotTrace("a matrix product of a number")
    a, b = unsqueeze(a, 0) if ranks[0] == 1 else a, unsqueeze(b, 1) if ranks[1] == 1 else b
    lead = broadcast(a.shape_[:-2], b.shape_[:-2])
    if any(s is K or s != 1 for s in lead):
        raise CannotTrace("a product of several matrices")
    (m, n), (also, p) = a.shape_[-2:], b.shape_[-2:]
    shape = (*lead, m, p)
    if (n is K) != (also is K) or (n is not K and n != also):
        if K in (n, also):
            raise NeedsFixed("a list of unknown length times a fixed size")
        raise CannotTrace(f"the shapes {list(a.shape_)} and {list(b.shape_)} do not multiply")
    if n is K:  # weights times rows: a sum over the rows
        if m != 1:
            raise NeedsFixed("a matrix times a list of unknown length")
        weights = Traced(trace, a.v, (*a.shape_[:-2], K, 1))
        found = _reduced(elementwise("mul", weights, b), "sum", -2)
    elif p is K:
        if m is K or m != 1:
            raise NeedsFixed("a matrix times a list of unknown length")
        found = _dot(trace, a, b, n, shape)
    elif m is K or m == 1:
        if p == 1:
            found = _dot(trace, a, b, n, shape)
        else:
            turned = trace.apply("transpose", trace.shaped(trace.value(b), (n, p)))
            found = Traced(trace, trace.apply("matmul", turned, trace.shaped(trace.value(a), (n,))), shape)
    else:
        matrix = trace.shaped(trace.value(a), (m, n))
        right = trace.shaped(trace.value(b), (n,) if p == 1 else (n, p))
        found = Traced(trace, trace.apply("matmul", matrix, right), shape)
    if ranks[0] == 1:
        found = dropped(found, -2)
    if ranks[1] == 1:
        found = dropped(found, -1)
    return Traced(trace, trace.shaped(found.v, core(found.shape_)), found.shape_)


def _dot(trace: Any, a: Traced, b: Traced, n: int, shape: Any) -> Traced:
    left, right = (trace.shaped(trace.value(one), (n,)) for one in (a, b))
    return Traced(trace, trace.apply("dot", left, right), shape)


MEANINGS["__rmatmul__"] = lambda x, y: matmul(y, x)


@means("bilinear")
def _bilinear(x, y, weight, bias=None):
    """y' = x W_k y for each k: the weight (k, n, m) as a matrix (k n, m)."""
    trace = trace_of(x, y)
    assert trace is not None
    k, n, m = weight.shape
    if core(x.shape_) != (n,) or core(y.shape_) != (m,):
        raise CannotTrace("bilinear of several rows")
    w = trace.param(weight, (k * n, m))
    rows = trace.apply("reshape", trace.apply("matmul", w.v, y.v), Number(float(k)), Number(float(n)))
    made = trace.apply("matmul", rows, x.v)
    found = Traced(trace, made, (*x.shape_[:-1], k))
    return found if bias is None else elementwise("add", found, bias)


@means("outer", "ger")
def _outer(x, y):
    return elementwise("mul", unsqueeze(x, 1), unsqueeze(y, 0))


@means("cosine_similarity")
def _cosine(x, y, dim=1, eps=1e-8):
    top = reduced(elementwise("mul", x, y), "sum", dim, False)
    lengths = [elementwise("maximum", _norm(one, 2, dim), eps) for one in (x, y)]
    return elementwise("div", top, elementwise("mul", *lengths))


def _standardised(x: Traced, eps: float) -> Traced:
    apart = elementwise("sub", x, _mean(x, -1, True))
    variance = _mean(elementwise("square", apart), -1, True)
    return elementwise("mul", apart, elementwise("rsqrt", elementwise("add", variance, eps)))


@means("layer_norm")
def _layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if len(normalized_shape) != 1 or x.shape_[-1] != normalized_shape[0]:
        raise CannotTrace("layer_norm over several dimensions")
    made = _standardised(x, float(eps))
    made = made if weight is None else elementwise("mul", made, weight)
    return made if bias is None else elementwise("add", made, bias)


@means("rms_norm")
def _rms_norm(x, normalized_shape, weight=None, eps=None):
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    mean = _mean(elementwise("square", x), -1, True)
    made = elementwise("mul", x, elementwise("rsqrt", elementwise("add", mean, eps)))
    return made if weight is None else elementwise("mul", made, weight)


@means("batch_norm")
def _batch_norm(x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if training:
        raise CannotTrace("batch_norm in training mode reads the other instances: call model.eval()")
    if len(x.shape_) != 2:
        raise CannotTrace("batch_norm of a tensor that is not (rows, features)")
    scale = elementwise("rsqrt", elementwise("add", traced(x.trace, var), eps))
    made = elementwise("mul", elementwise("sub", x, mean), scale)
    made = made if weight is None else elementwise("mul", made, weight)
    return made if bias is None else elementwise("add", made, bias)


@means("embedding")
def _embedding(
    index, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    if not isinstance(index, Indices):
        raise CannotTrace("an embedding of indices that are constants")
    if max_norm is not None or scale_grad_by_freq:
        raise CannotTrace("an embedding with max_norm or scale_grad_by_freq")
    number, d = index.index, weight.shape[1]
    trace, key = number.trace, (id(weight), number.slot)
    if key not in trace.looked_up:
        if number.rows:
            what = ("table-rows", weight, number.slot)
            trace.looked_up[key] = trace.input((K, d), what, row=True)
        else:
            trace.looked_up[key] = trace.input((d,), ("table", weight, number.slot))
    return Traced(trace, trace.looked_up[key].v, (*index.shape, d))


@means("lstm_cell")
def lstm_cell(x, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """`nn.LSTMCell`."""
    h, c = hx
    gates = elementwise("add", linear(x, w_ih, b_ih), linear(h, w_hh, b_hh))
    i, f, g, o = split(gates, gates.shape_[-1] // 4, -1)
    i, f, o = (elementwise("sigmoid", gate) for gate in (i, f, o))
    c1 = elementwise("add", elementwise("mul", f, c), elementwise("mul", i, elementwise("tanh", g)))
    return elementwise("mul", o, elementwise("tanh", c1)), c1


@means("gru_cell")
def gru_cell(x, h, w_ih, w_hh, b_ih=None, b_hh=None):
    """`nn.GRUCell`."""
    a, b = linear(x, w_ih, b_ih), linear(h, w_hh, b_hh)
    (ar, az, an), (br, bz, bn) = (split(one, one.shape_[-1] // 3, -1) for one in (a, b))
    r = elementwise("sigmoid", elementwise("add", ar, br))
    z = elementwise("sigmoid", elementwise("add", az, bz))
    n = elementwise("tanh", elementwise("add", an, elementwise("mul", r, bn)))
    return elementwise("add", elementwise("mul", elementwise("sub", 1.0, z), n), elementwise("mul", z, h))


def _rnn_cell(activation: str) -> Any:
    def cell(x, h, w_ih, w_hh, b_ih=None, b_hh=None):
        return elementwise(activation, elementwise("add", linear(x, w_ih, b_ih), linear(h, w_hh, b_hh)))

    return cell


for _activation in ("tanh", "relu"):
    means(f"rnn_{_activation}_cell")(_rnn_cell(_activation))


@means("scaled_dot_product_attention")
def _attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if attn_mask is not None or is_causal or dropout_p or enable_gqa:
        raise CannotTrace("attention with a mask, dropout or grouped queries")
    factor = scale if scale is not None else 1 / math.sqrt(q.shape_[-1])
    scores = elementwise("mul", matmul(q, transpose(k, -1, -2)), factor)
    return matmul(softmax(scores, -1), v)


@means("multi_head_attention_forward")
def _multi_head_attention(
    query, key, value, embed_dim, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
    dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, need_weights=True,
    attn_mask=None, use_separate_proj_weight=False, average_attn_weights=True, is_causal=False, **others,
):  # fmt: skip
    """`nn.MultiheadAttention` of one sequence: (L, 1, E) or (L, E). Errors: CannotTrace for masks."""
    masked = key_padding_mask is not None or attn_mask is not None or is_causal
    if masked or use_separate_proj_weight or bias_k is not None or add_zero_attn or (training and dropout_p):
        raise CannotTrace("attention with masks, biases of keys, projections of several sizes or dropout")
    if K in query.shape_ or K in key.shape_:
        raise NeedsFixed("attention over a list of unknown length")
    rows = [traced(query.trace, one) for one in (query, key, value)]
    if any(len(one.shape_) == 3 and one.shape_[1] != 1 for one in rows):
        raise CannotTrace("attention of several sequences")
    rows = [view(one, (one.shape_[0], one.shape_[-1])) for one in rows]
    weight = traced(query.trace, in_proj_weight)
    given = []
    for part, one in enumerate(rows):
        bias = (
            None
            if in_proj_bias is None
            else narrow(traced(query.trace, in_proj_bias), 0, part * embed_dim, embed_dim)
        )
        given.append(linear(one, narrow(weight, 0, part * embed_dim, embed_dim), bias))
    heads, size = [], embed_dim // num_heads
    weights = []
    for head in range(num_heads):
        q, k, v = (narrow(one, 1, head * size, size) for one in given)
        scores = elementwise("mul", matmul(q, transpose(k, 0, 1)), 1 / math.sqrt(size))
        weights.append(softmax(scores, -1))
        heads.append(matmul(weights[-1], v))
    made = linear(heads[0] if num_heads == 1 else cat(heads, 1), out_proj_weight, out_proj_bias)
    found = view(made, (*query.shape_[:-1], made.shape_[-1]))
    if not need_weights:
        return found, None
    if not average_attn_weights:
        raise CannotTrace("the weights of each head of attention")
    total = weights[0]
    for one in weights[1:]:
        total = elementwise("add", total, one)
    total = elementwise("mul", total, 1.0 / num_heads)
    return found, total if len(query.shape_) == 2 else unsqueeze(total, 0)
