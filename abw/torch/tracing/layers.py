"""What PyTorch's layers mean in cells: normalisation, embedding, recurrent cells, convolution, attention."""

from __future__ import annotations

import math
from typing import Any

import torch

from abw.core.ir.shapes import Size
from abw.core.spec.cells.builder import Listed, Number
from abw.torch.tracing.operations import LEAST, elementwise
from abw.torch.tracing.products import linear, matmul, mean, norm, reduced, softmax
from abw.torch.tracing.scores import Mask, Scores
from abw.torch.tracing.shaping import around, cat, fixed, narrow, reshaped, transpose, unbind, unsqueeze, view
from abw.torch.tracing.symbols import CannotTrace, Indices, K, NeedsFixed, core
from abw.torch.tracing.trace import Traced, means, trace_of, traced


@means("bilinear")
def _bilinear(x, y, weight, bias=None):
    """y' = x W_k y for each k: the weight (k, n, m) as a matrix (k n, m)."""
    trace = trace_of(x, y)
    assert trace is not None
    k, n, m = weight.shape
    if core(x.shape_) != (n,) or core(y.shape_) != (m,):
        raise CannotTrace("bilinear of several rows")
    rows = linear(reshaped(y, (m,)), trace.param(weight, (k * n, m)))
    found = reshaped(matmul(view(rows, (k, n)), reshaped(x, (n,))), (*x.shape_[:-1], k))
    return found if bias is None else found + bias


@means("conv1d")
def _conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """`functional.conv1d` over a window of fixed size: one product with all windows."""
    given = (stride, padding, dilation)
    step, border, apart = (one[0] if isinstance(one, tuple | list) else one for one in given)
    (out, channels, width), length = weight.shape, fixed(x, len(x.shape_) - 1, "conv1d")
    reach = apart * (width - 1)
    if isinstance(border, str):
        border = reach // 2 if border == "same" and reach % 2 == 0 else 0 if border == "valid" else -1
    count = (length + 2 * border - reach - 1) // step + 1
    several = around(x.shape_, len(x.shape_) - 2)[0] > 1
    if groups != 1 or border < 0 or x.shape_[-2] != channels or count < 1 or several:
        raise CannotTrace(f"conv1d of {list(x.shape_)} with a weight of {list(weight.shape)}")
    rows = reshaped(x, (channels, length))
    if border:
        edge = Traced(x.trace, Number(0.0), (channels, border))
        rows = cat([edge, rows, edge], 1)
    taps = []
    for k in range(width):
        first = range(apart * k, apart * k + count * step, step)
        some = [(first[0], count)] if step == 1 else [(at, 1) for at in first]
        taps.append(unsqueeze(cat([narrow(rows, 1, at, n) for at, n in some], 1), 1))
    windows = reshaped(cat(taps, 1), (channels * width, count))
    found = matmul(reshaped(traced(x.trace, weight), (out, channels * width)), windows)
    found = found if bias is None else found + unsqueeze(traced(x.trace, bias), 1)
    return reshaped(found, (*x.shape_[:-2], out, count))


@means("cosine_similarity")
def _cosine(x, y, dim=1, eps=1e-8):
    lengths = [norm(one, 2, dim).clamp(min=eps) for one in (x, y)]
    return (x * y).sum(dim) / (lengths[0] * lengths[1])


def _affine(x: Any, weight: Any, bias: Any = None) -> Any:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _pool(name: str, of: Any) -> None:
    """Pools over windows of fixed size, or with an output size of 1 over all."""

    def pool(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, **others):
        given = (kernel_size, stride or kernel_size, padding, dilation)
        length = fixed(x, len(x.shape_) - 1, "a pool")
        width, step, border, apart = (one[0] if isinstance(one, tuple | list) else one for one in given)
        if border or apart != 1 or ceil_mode or any(others.values()):
            raise CannotTrace("a pool with padding, dilation or indices")
        starts = range(0, length - width + 1, step)
        return cat([of(narrow(x, -1, at, width)) for at in starts], len(x.shape_) - 1)

    def adaptive(x, output_size, return_indices=False):
        if output_size not in (1, (1,)) or return_indices:
            raise CannotTrace("an adaptive pool whose output size is not 1")
        return of(x)

    means(f"{name}_pool1d")(pool)
    means(f"adaptive_{name}_pool1d")(adaptive)


_pool("max", lambda x: reduced(x, "max", -1, True))
_pool("avg", lambda x: mean(x, -1, True))


@means("layer_norm")
def _layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if len(normalized_shape) != 1 or x.shape_[-1] != normalized_shape[0]:
        raise CannotTrace("layer_norm over several dimensions")
    apart = x - mean(x, -1, True)
    return _affine(apart * (mean(apart.square(), -1, True) + float(eps)).rsqrt(), weight, bias)


@means("rms_norm")
def _rms_norm(x, normalized_shape, weight=None, eps=None):
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    return _affine(x * (mean(x.square(), -1, True) + eps).rsqrt(), weight)


@means("batch_norm")
def _batch_norm(x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if training:
        raise CannotTrace("batch_norm in training mode reads the other instances: call model.eval()")
    if len(x.shape_) != 2:
        raise CannotTrace("batch_norm of a tensor that is not (rows, features)")
    return _affine((x - mean) * (traced(x.trace, var) + eps).rsqrt(), weight, bias)


@means("embedding")
def _embedding(
    index, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    if not isinstance(index, Indices):
        raise CannotTrace("an embedding of indices that are constants")
    if max_norm is not None or scale_grad_by_freq:
        raise CannotTrace("an embedding with max_norm or scale_grad_by_freq")
    number, d = index.index, weight.shape[1]
    if number.rows and math.prod(s for s in index.shape if s is not K) != 1:
        raise CannotTrace("an embedding of a matrix of indices: flatten them first")
    trace, key = number.trace, (id(weight), number.slot)
    if key not in trace.looked_up:
        if number.rows:
            what = ("table-rows", weight, number.slot)
            trace.looked_up[key] = trace.input((K, d), what, row=True)
        else:
            trace.looked_up[key] = trace.input((d,), ("table", weight, number.slot))
    return Traced(trace, trace.looked_up[key].v, (*index.shape, d))


@means("lstm_cell")
def _lstm_cell(x, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    h, c = (traced(x.trace, one) for one in hx)
    i, f, g, o = (linear(x, w_ih, b_ih) + linear(h, w_hh, b_hh)).chunk(4, -1)
    c1 = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c1.tanh(), c1


@means("gru_cell")
def _gru_cell(x, h, w_ih, w_hh, b_ih=None, b_hh=None):
    h = traced(x.trace, h)
    (ar, az, an), (br, bz, bn) = (one.chunk(3, -1) for one in (linear(x, w_ih, b_ih), linear(h, w_hh, b_hh)))
    r, z = (ar + br).sigmoid(), (az + bz).sigmoid()
    n = (an + r * bn).tanh()
    return (1.0 - z) * n + z * h


def _rnn_cell(activation: str) -> Any:
    def cell(x, h, w_ih, w_hh, b_ih=None, b_hh=None):
        h = traced(x.trace, h)
        return getattr(linear(x, w_ih, b_ih) + linear(h, w_hh, b_hh), activation)()

    return cell


for _activation in ("tanh", "relu"):
    means(f"rnn_{_activation}_cell")(_rnn_cell(_activation))


def _masked(scores: Any, mask: Any, allowed: bool) -> Any:
    """Scores with a mask: numbers to add, or booleans of what is `allowed`, or else of what is not."""
    if mask is None:
        return scores
    mask = mask if isinstance(mask, Mask) else traced(scores.trace, mask)
    if mask.dtype is not torch.bool:
        return scores + mask
    if isinstance(scores, Scores):
        return scores.masked(~mask if allowed else mask, -math.inf)
    return elementwise("where", mask, scores, LEAST) if allowed else elementwise("where", mask, LEAST, scores)


def _each(trace: Any, mask: Any, heads: int, shape: Any) -> list[Any]:
    """The mask of each head, of one for all or one for each."""
    if mask is None:
        return [None] * heads
    mask = traced(trace, mask)
    if K in mask.shape_:
        raise NeedsFixed("a mask of unknown length")
    apart = len(mask.shape_) == 3 and mask.shape_[0] == heads
    found = [reshaped(one, shape) for one in (unbind(mask) if apart else [mask])]
    for one in found:
        one.boolean = mask.boolean
    return found if apart else found * heads


def _causal(scores: Any) -> Any:
    """Scores without those of what comes later."""
    if isinstance(scores, Scores):
        later = Mask(scores.trace, None, _later(scores.trace.length), lambda _, n: _later(n), frozenset())
        return scores.masked(later, -math.inf)
    rows, columns = scores.shape_[-2:]
    values = tuple(0.0 if j <= i else LEAST for i in range(rows) for j in range(columns))
    sizes = Size(rows, str(rows)), Size(columns, str(columns))
    shape = core((rows, columns))
    made = scores.trace.builder.constant(Listed(sizes[: len(shape)] if rows > 1 else sizes[1:], values), "")
    return scores + Traced(scores.trace, scores.trace.shaped(made, shape), (rows, columns))


def _later(n: int) -> torch.Tensor:
    return torch.ones(n, n, dtype=torch.bool).triu(1)


@means("scaled_dot_product_attention")
def _attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout_p or enable_gqa:
        raise CannotTrace("attention with dropout or grouped queries")
    factor = scale if scale is not None else 1 / math.sqrt(q.shape_[-1])
    scores = matmul(q, transpose(k, -1, -2)) * factor
    scores = _causal(scores) if is_causal else scores
    return matmul(softmax(_masked(scores, attn_mask, True), -1), v)


@means("multi_head_attention_forward")
def _multi_head_attention(
    query, key, value, embed_dim, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
    dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, need_weights=True,
    attn_mask=None, use_separate_proj_weight=False, average_attn_weights=True, is_causal=False, **others,
):  # fmt: skip
    """`nn.MultiheadAttention` of one sequence: (L, 1, E) or (L, E). Errors: CannotTrace."""
    if use_separate_proj_weight or bias_k is not None or add_zero_attn or (training and dropout_p):
        raise CannotTrace("attention with biases of keys, projections of several sizes or dropout")
    unknown = K in query.shape_ or K in key.shape_
    if unknown and query.shape_[0] is not key.shape_[0]:
        raise NeedsFixed("attention over a list of unknown length")
    rows = [traced(query.trace, one) for one in (query, key, value)]
    if any(len(one.shape_) == 3 and one.shape_[1] != 1 for one in rows):
        raise CannotTrace("attention of several sequences")
    rows = [Traced(one.trace, one.v, (one.shape_[0], one.shape_[-1])) for one in rows]
    weight, bias = (
        [None] * 3 if one is None else traced(query.trace, one).chunk(3, 0)
        for one in (in_proj_weight, in_proj_bias)
    )
    given = [linear(*three) for three in zip(rows, weight, bias, strict=True)]
    size, (long, wide) = embed_dim // num_heads, (rows[0].shape_[0], rows[1].shape_[0])
    if unknown:
        q, k, v = (transpose(view(one, (K, num_heads, size)), 0, 1) for one in given)
        scores = matmul(q * (1 / math.sqrt(size)), transpose(k, 1, 2))
        for mask in (attn_mask, key_padding_mask):
            scores = _masked(scores, mask, False)
        rows = view(transpose(matmul(softmax(scores, -1), v), 0, 1), (K, embed_dim))
        made = view(linear(rows, out_proj_weight, out_proj_bias), (*query.shape_[:-1], embed_dim))
        return made, Scores(None, k, (K, K)) if need_weights else None
    masks = _each(query.trace, attn_mask, num_heads, (long, wide))
    hidden = _each(query.trace, key_padding_mask, num_heads, (1, wide))
    heads, weights = [], []
    for head, parts in enumerate(zip(*(one.split(size, 1) for one in given), strict=True)):
        q, k, v = parts
        scores = matmul(q, transpose(k, 0, 1)) * (1 / math.sqrt(size))
        for mask in (masks[head], hidden[head]):
            scores = _masked(scores, mask, False)
        weights.append(softmax(scores, -1))
        heads.append(matmul(weights[-1], v))
    made = linear(cat(heads, 1), out_proj_weight, out_proj_bias)
    found = reshaped(made, (*query.shape_[:-1], made.shape_[-1]))
    if not need_weights:
        return found, None
    if not average_attn_weights:
        raise CannotTrace("the weights of each head of attention")
    total = sum(weights[1:], weights[0]) * (1.0 / num_heads)
    return found, total if len(query.shape_) == 2 else unsqueeze(total, 0)
