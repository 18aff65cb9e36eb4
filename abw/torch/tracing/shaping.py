"""What PyTorch's views, slices, concatenations and stacks mean in cells."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch

from abw.core.spec.cells.builder import Number
from abw.torch.tracing.operations import elementwise
from abw.torch.tracing.trace import (
    CannotTrace,
    Indices,
    K,
    NeedsFixed,
    Traced,
    TracedList,
    axis,
    core,
    dims_of,
    means,
    numel,
    sizes_of,
    trace_of,
    traced,
    views,
)


def places_of(shape: Any) -> list[int]:
    """The dimensions that the cell has, too."""
    return [i for i, s in enumerate(shape) if s is not K and s != 1]


@views("view", "reshape", "view_as", "reshape_as")
def view(x, *shape, **kw):
    """`Tensor.view`: of an unknown number of rows the rows may change their shape, or K its place."""
    sizes = sizes_of(shape or (kw.get("size") or kw.get("shape"),))
    if isinstance(sizes[0] if sizes else 0, torch.dtype):
        raise CannotTrace("a view as another type")
    if len(sizes) == 1 and isinstance(sizes[0], Traced):
        sizes = sizes[0].shape_
    old, total = x.shape_, numel(x.shape_)
    known = math.prod(s for s in sizes if s is not K and s != -1)
    if K in old and K not in sizes:
        if not (-1 in sizes and sizes.index(-1) == 0 and old.index(K) == 0 and total == known):
            raise NeedsFixed("a view across the rows of a list")
        sizes = (K, *sizes[1:])  # (K, ...) -> (-1, ...)
    if known and any(s is not K and s == -1 for s in sizes):
        sizes = tuple(total // known if s is not K and s == -1 else s for s in sizes)
    if numel(sizes) != total:
        raise CannotTrace(f"a view of {list(old)} as {list(sizes)}")
    return Traced(x.trace, x.trace.shaped(x.v, core(sizes)), sizes)


@views("flatten")
def _flatten(x, start_dim=0, end_dim=-1):
    rank = len(x.shape_)
    start, end = axis(start_dim, rank), axis(end_dim, rank)
    inside = x.shape_[start : end + 1]
    if K in inside and end > start:
        if numel(inside) != 1:
            raise NeedsFixed("the rows of a list are flattened")
        return Traced(x.trace, x.v, (*x.shape_[:start], K, *x.shape_[end + 1 :]))
    merged = inside[0] if len(inside) == 1 else math.prod(inside)
    return view(x, (*x.shape_[:start], merged, *x.shape_[end + 1 :]))


@views("squeeze")
def squeeze(x, dim=None):
    """`Tensor.squeeze`."""
    if dim is None and K in x.shape_:
        raise NeedsFixed("squeeze of a list of unknown length")
    dims = dims_of(dim, len(x.shape_))
    shape = tuple(s for i, s in enumerate(x.shape_) if i not in dims or s is K or s != 1)
    return Traced(x.trace, x.v, shape)


@views("unsqueeze")
def unsqueeze(x, dim):
    """`Tensor.unsqueeze`."""
    d = axis(dim, len(x.shape_) + 1)
    return Traced(x.trace, x.v, (*x.shape_[:d], 1, *x.shape_[d:]))


def dropped(x: Traced, dim: int) -> Traced:
    """Without a dimension of size 1."""
    d = axis(dim, len(x.shape_))
    return Traced(x.trace, x.v, (*x.shape_[:d], *x.shape_[d + 1 :]))


@views("permute")
def permute(x, *dims):
    """`Tensor.permute`."""
    order = [axis(d, len(x.shape_)) for d in sizes_of(dims)]
    real = [d for d in order if x.shape_[d] is not K and x.shape_[d] != 1]
    v = x.v
    if real != sorted(real) and not isinstance(v, Number):
        v = x.trace.apply("transpose", v)
    return Traced(x.trace, v, tuple(x.shape_[d] for d in order))


@views("transpose", "swapaxes", "swapdims")
def transpose(x, a, b):
    """`Tensor.transpose`."""
    dims = list(range(len(x.shape_)))
    a, b = axis(a, len(dims)), axis(b, len(dims))
    dims[a], dims[b] = dims[b], dims[a]
    return permute(x, dims)


@views("t")
def _t(x):
    return x if len(x.shape_) < 2 else transpose(x, -1, -2)


@views("expand")
def _expand(x, *shape, implicit=False):
    sizes = sizes_of(shape)
    old = (1,) * (len(sizes) - len(x.shape_)) + x.shape_
    new = tuple(o if (s is not K and s == -1) else s for o, s in zip(old, sizes, strict=True))
    return _repeated(x, old, new)


@views("expand_as")
def _expand_as(x, other):
    return _expand(x, other.shape_)


@means("repeat", "tile")
def _repeat(x, *times):
    counts = sizes_of(times)
    old = (1,) * (len(counts) - len(x.shape_)) + x.shape_
    new: list[Any] = []
    for o, n in zip(old, counts, strict=True):
        if n is K:
            if o is not K and o != 1:
                raise NeedsFixed("the rows of a list are repeated")
            new.append(K)
        elif o is K or o == 1 or n == 1:
            new.append(o if n == 1 else n)
        else:
            raise CannotTrace("repeat along a dimension that is not 1")
    return _repeated(x, old, tuple(new))


def _repeated(x: Traced, old: Any, new: Any) -> Traced:
    if any(o is not n and o is not K and o != n and o != 1 for o, n in zip(old, new, strict=True)):
        raise CannotTrace(f"a tensor of shape {list(x.shape_)} is expanded to {list(new)}")
    if core(old) == core(new):
        return Traced(x.trace, x.v, new)
    return elementwise("add", Traced(x.trace, x.v, old), Traced(x.trace, Number(0.0), new))


@views("chunk", "unsafe_chunk")
def _chunk(x, chunks, dim=0):
    d = axis(dim, len(x.shape_))
    if x.shape_[d] is K:
        raise NeedsFixed("chunk of a list of unknown length")
    return split(x, -(-x.shape_[d] // chunks), d)


@views("split", "split_with_sizes", "unsafe_split")
def split(x, sizes, dim=0):
    """`Tensor.split`."""
    d = axis(dim, len(x.shape_))
    whole = x.shape_[d]
    if whole is K:
        raise NeedsFixed("split of a list of unknown length")
    if isinstance(sizes, int):
        sizes = [min(sizes, whole - at) for at in range(0, whole, sizes)]
    if sum(sizes) != whole:
        raise CannotTrace(f"split of {whole} into {list(sizes)}")
    found, at = [], 0
    for n in sizes:
        found.append(narrow(x, d, at, n))
        at += n
    return tuple(found)


@views("unbind")
def _unbind(x, dim=0):
    d = axis(dim, len(x.shape_))
    if x.shape_[d] is K:
        raise NeedsFixed("a list is gone through element by element")
    return tuple(dropped(narrow(x, d, i, 1), d) for i in range(x.shape_[d]))


@views("narrow")
def narrow(x, dim, start, length):
    """`Tensor.narrow`."""
    d = axis(dim, len(x.shape_))
    whole = x.shape_[d]
    if whole is K:
        raise NeedsFixed("a part of a list of unknown length")
    if not 0 <= start <= start + length <= whole:
        raise CannotTrace(f"elements {start} to {start + length} of {whole}")
    shape = (*x.shape_[:d], length, *x.shape_[d + 1 :])
    if length == whole or isinstance(x.v, Number):
        return Traced(x.trace, x.v, shape)
    if len(core(x.shape_)) == 1:
        return Traced(x.trace, x.trace.builder.slice(x.v, start, start + length), shape)
    if d == places_of(x.shape_)[0]:
        v = x.trace.builder.slice(x.v, start, start + length)
    else:
        turned = x.trace.apply("transpose", x.v)
        v = x.trace.apply("transpose", x.trace.builder.slice(turned, start, start + length))
    return Traced(x.trace, x.trace.shaped(v, core(shape)), shape)


@views("select")
def select(x, dim, index):
    """`Tensor.select`."""
    d = axis(dim, len(x.shape_))
    if not x.shape_:
        raise CannotTrace("an element of a number")
    if x.shape_[d] is K:
        raise NeedsFixed("an element of a list of unknown length")
    at = operator.index(index)
    if not -x.shape_[d] <= at < x.shape_[d]:
        raise CannotTrace(f"element {at} of {x.shape_[d]}")
    return dropped(narrow(x, d, at % x.shape_[d], 1), d)


@means("index_select")
def _index_select(x, dim, index):
    if isinstance(index, torch.Tensor) and not index.dtype.is_floating_point and index.numel() == 1:
        return narrow(x, dim, int(index) % x.shape_[axis(dim, len(x.shape_))], 1)
    raise CannotTrace("index_select by several indices")


@means("gathered")
def _gathered(x, *indices):
    """Elements along the first dimension, by Python's integers."""
    parts = [narrow(x, 0, i % x.shape_[0], 1) for i in indices]
    return parts[0] if len(parts) == 1 else cat(parts, 0)


@views("__getitem__")
def _getitem(x, key):
    keys = key if isinstance(key, tuple) else (key,)
    if any(k is Ellipsis for k in keys):
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        fill = len(x.shape_) - sum(k is not None and k is not Ellipsis for k in keys)
        keys = (*keys[:at], *[slice(None)] * fill, *keys[at + 1 :])
    if sum(k is not None for k in keys) > len(x.shape_):
        raise CannotTrace(f"{len(keys)} indices of a tensor of {len(x.shape_)} dimensions")
    d = 0
    for k in keys:
        if k is None:
            x = unsqueeze(x, d)
            d += 1
        elif isinstance(k, slice):
            if k != slice(None):
                if x.shape_[d] is K:
                    raise NeedsFixed("a part of a list of unknown length")
                begin, stop, step = k.indices(x.shape_[d])
                if step != 1:
                    raise CannotTrace("a slice with a step")
                x = narrow(x, d, begin, max(stop - begin, 0))
            d += 1
        elif isinstance(k, torch.Tensor | list | Traced | Indices | bool):
            raise CannotTrace("indexing by a tensor or a list")
        else:
            x = select(x, d, k)
    return x


def _alike(sizes: list[Any]) -> Any:
    if any(s is K for s in sizes) and not all(s is K for s in sizes):
        raise NeedsFixed("a list of unknown length beside a fixed size")
    if any(s is not sizes[0] and s != sizes[0] for s in sizes):
        raise CannotTrace("cat of tensors whose shapes differ")
    return sizes[0]


@means("cat", "concat", "concatenate")
def cat(tensors, dim=0, axis=None):
    """`torch.cat`."""
    dim = dim if axis is None else axis
    if isinstance(tensors, TracedList):
        return tensors.cat(dim)
    trace = trace_of(*tensors)
    assert trace is not None
    parts = [p for p in (traced(trace, t) for t in tensors) if p.shape_ != (0,)]
    if len(parts) == 1:
        return Traced(trace, parts[0].v, parts[0].shape_)
    rank = len(parts[0].shape_)
    if any(len(p.shape_) != rank for p in parts) or not rank:
        raise CannotTrace(f"cat of shapes {[list(p.shape_) for p in parts]}")
    d = dim % rank
    if any(p.shape_[d] is K for p in parts):
        raise NeedsFixed("a list of unknown length is concatenated with others")
    total = sum(p.shape_[d] for p in parts)
    shape = tuple(total if i == d else _alike([p.shape_[i] for p in parts]) for i in range(rank))
    places = places_of(shape)
    values = [trace.value(p) for p in parts]
    if len(places) <= 1:
        return Traced(
            trace, trace.apply("concat", *[trace.shaped(v, (math.prod(v.shape),)) for v in values]), shape
        )
    if len(places) > 2:
        raise CannotTrace("cat of tensors of three dimensions")
    if places[0] != d and places[1] != d:
        raise CannotTrace("cat of tensors of three dimensions")
    pairs = [
        trace.shaped(v, tuple(p.shape_[place] for place in places))
        for p, v in zip(parts, values, strict=True)
    ]
    if places[0] == d:
        return Traced(trace, trace.apply("concat", *pairs), shape)
    turned = [trace.apply("transpose", v) for v in pairs]
    return Traced(trace, trace.apply("transpose", trace.apply("concat", *turned)), shape)


@means("hstack")
def _hstack(tensors):
    return cat(tensors, 0 if len(tensors[0].shape_) < 2 else 1)


@means("stack")
def _stack(tensors, dim=0):
    if isinstance(tensors, TracedList):
        return tensors.stack(dim)
    trace = trace_of(*tensors)
    assert trace is not None
    given = [traced(trace, t) for t in tensors]
    d = axis(dim, len(given[0].shape_) + 1)
    return cat([unsqueeze(one, d) for one in given], d)
