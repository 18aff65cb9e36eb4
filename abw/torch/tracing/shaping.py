"""What PyTorch's views, slices, concatenations and stacks mean in cells."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from abw.core.spec.cells.builder import Number
from abw.torch.tracing.symbols import (
    CannotTrace,
    Index,
    Indices,
    K,
    NeedsFixed,
    axis,
    core,
    dims_of,
    numel,
    sized,
    sizes_of,
)
from abw.torch.tracing.trace import Traced, TracedList, means, trace_of, traced, views

# A product of more pairs of matrices, or so many slices of a tensor, is no cell.
MOST_PARTS = 256


def around(shape: Any, d: int) -> tuple[int, int]:
    """How many elements the dimensions before and behind one have, of one row where there is K."""
    return numel(shape[:d]), numel(shape[d + 1 :])


def fixed(x: Traced, d: int, what: str) -> int:
    """The size of a dimension. Errors: NeedsFixed for K, which `what` cannot be done with."""
    if x.shape_[d] is K:
        raise NeedsFixed(f"{what} of a list of unknown length")
    return int(x.shape_[d])


def reshaped(x: Traced, shape: Any) -> Traced:
    """The same elements, row after row, in another logical shape."""
    return Traced(x.trace, x.trace.shaped(x.v, core(shape)), shape)


@views("view", "reshape", "view_as", "reshape_as")
def view(x, *shape, **kw):
    """`Tensor.view`: of an unknown number of rows the rows may change their shape, or K its place."""
    sizes = sizes_of(shape or (kw.get("size") or kw.get("shape"),))
    if isinstance(sizes[0] if sizes else 0, torch.dtype):
        raise CannotTrace("a view as another type")
    if len(sizes) == 1 and isinstance(sizes[0], Traced):
        sizes = sizes[0].shape_
    old, total = x.shape_, numel(x.shape_)
    sizes = tuple(x.trace.size(s, K in old) if isinstance(s, Index) else s for s in sizes)
    known = math.prod(s for s in sizes if s is not K and s != -1)
    if K in old and K not in sizes:
        if not (-1 in sizes and sizes.index(-1) == 0 and old.index(K) == 0 and total == known):
            raise NeedsFixed("a view across the rows of a list")
        sizes = (K, *sizes[1:])  # (K, ...) -> (-1, ...)
    if known and any(s is not K and s == -1 for s in sizes):
        sizes = tuple(total // known if s is not K and s == -1 else s for s in sizes)
    if numel(sizes) != total:
        raise CannotTrace(f"a view of {list(old)} as {list(sizes)}")
    return reshaped(x, sizes)


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


@views("unflatten")
def _unflatten(x, dim, sizes):
    d = axis(dim, len(x.shape_))
    return view(x, (*x.shape_[:d], *sizes, *x.shape_[d + 1 :]))


@views("squeeze")
def squeeze(x, dim=None):
    """`Tensor.squeeze`."""
    dims = dims_of(dim, len(x.shape_))
    shape = tuple(s for i, s in enumerate(x.shape_) if i not in dims or fixed(x, i, "squeeze") != 1)
    return Traced(x.trace, x.v, shape)


@views("unsqueeze")
def unsqueeze(x, dim):
    """`Tensor.unsqueeze`."""
    d = axis(dim, len(x.shape_) + 1)
    return Traced(x.trace, x.v, (*x.shape_[:d], 1, *x.shape_[d:]))


def dropped(x: Traced, dim: int) -> Traced:
    """Without a dimension of size 1."""
    d = axis(dim, len(x.shape_))
    return Traced(x.trace, x.v, sized(x.shape_, d))


@views("permute")
def permute(x, *dims):
    """`Tensor.permute`. Cost: one transposition where the order is turned round, else one a slice."""
    order = [axis(d, len(x.shape_)) for d in sizes_of(dims)]
    shape = tuple(x.shape_[d] for d in order)
    real = [d for d in order if x.shape_[d] is not K and x.shape_[d] != 1]
    if real == sorted(real) or isinstance(x.v, Number):
        return Traced(x.trace, x.v, shape)
    at = real.index(min(real))
    if real[at:] + real[:at] == sorted(real):
        rows = math.prod(x.shape_[d] for d in real[at:])
        turned = x.trace.turned(x.trace.shaped(x.v, (rows, numel(x.shape_) // rows)))
        return Traced(x.trace, x.trace.shaped(turned, core(shape)), shape)
    return cat([permute(part, order) for part in _parts(x, real[0])], order.index(real[0]))


def rotated(x: Traced, by: int) -> Traced:
    """With the first dimensions moved to the end."""
    rank = len(x.shape_)
    return permute(x, [(i + by) % rank for i in range(rank)])  # type: ignore[no-any-return]


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


@views("movedim", "moveaxis")
def _movedim(x, source, destination):
    rank = len(x.shape_)
    order = [i for i in range(rank) if i != axis(source, rank)]
    order.insert(axis(destination, rank), axis(source, rank))
    return permute(x, order)


@views("chunk", "unsafe_chunk")
def _chunk(x, chunks, dim=0):
    d = axis(dim, len(x.shape_))
    return split(x, -(-fixed(x, d, "chunk") // chunks), d)


@views("split", "split_with_sizes", "unsafe_split")
def split(x, sizes, dim=0):
    """`Tensor.split`."""
    d = axis(dim, len(x.shape_))
    whole = fixed(x, d, "split")
    if isinstance(sizes, int):
        sizes = [min(sizes, whole - at) for at in range(0, whole, sizes)]
    if sum(sizes) != whole:
        raise CannotTrace(f"split of {whole} into {list(sizes)}")
    return tuple(narrow(x, d, sum(sizes[:i]), n) for i, n in enumerate(sizes))


def _parts(x: Traced, d: int) -> list[Traced]:
    """The slices along a dimension, each of size 1 there. Errors: CannotTrace for too many."""
    if fixed(x, d, "an element") > MOST_PARTS:
        raise CannotTrace(f"a tensor of shape {list(x.shape_)} is taken apart")
    return [narrow(x, d, i, 1) for i in range(x.shape_[d])]


@views("unbind")
def unbind(x, dim=0):
    """`Tensor.unbind`."""
    d = axis(dim, len(x.shape_))
    return tuple(dropped(part, d) for part in _parts(x, d))


def _along(x: Traced, d: int) -> tuple[Any, int, Callable[[Any], Any]]:
    """A value whose rows are along a dimension, so many for each element there, and what turns it back."""
    trace, n, (before, behind) = x.trace, x.shape_[d], around(x.shape_, d)
    if before > 1:
        return trace.turned(trace.shaped(trace.value(x), (before, n * behind))), behind, trace.turned
    return trace.shaped(trace.value(x), (n, behind) if behind > 1 else (n,)), 1, lambda made: made


@views("narrow")
def narrow(x, dim, start, length):
    """`Tensor.narrow`."""
    d = axis(dim, len(x.shape_))
    whole = fixed(x, d, "a part")
    if not 0 <= start <= start + length <= whole:
        raise CannotTrace(f"elements {start} to {start + length} of {whole}")
    shape = sized(x.shape_, d, length)
    if length == whole or isinstance(x.v, Number):
        return Traced(x.trace, x.v, shape)
    rows, wide, back = _along(x, d)
    found = back(x.trace.builder.slice(rows, start * wide, (start + length) * wide))
    return Traced(x.trace, x.trace.shaped(found, core(shape)), shape)


@views("select")
def select(x, dim, index):
    """`Tensor.select`."""
    d = axis(dim, len(x.shape_))
    if not x.shape_:
        raise CannotTrace("an element of a number")
    size, at = fixed(x, d, "an element"), operator.index(index)
    if not -size <= at < size:
        raise CannotTrace(f"element {at} of {size}")
    return dropped(narrow(x, d, at % size, 1), d)


@means("index_select")
def _index_select(x, dim, index):
    if isinstance(index, torch.Tensor) and not index.dtype.is_floating_point and index.numel() == 1:
        return narrow(x, dim, int(index) % x.shape_[axis(dim, len(x.shape_))], 1)
    raise CannotTrace("index_select by several indices")


@means("gathered")
def _gathered(x, *indices):
    """Elements along the first dimension, by Python's integers."""
    return cat([narrow(x, 0, i % x.shape_[0], 1) for i in indices], 0)


@means("roll")
def _roll(x, shifts, dims=0):
    d = axis(dims, len(x.shape_))
    n = fixed(x, d, "roll")
    return cat([narrow(x, d, n - shifts % n, shifts % n), narrow(x, d, 0, n - shifts % n)], d)


@means("flip")
def _flip(x, *dims):
    for d in dims_of(sizes_of(dims), len(x.shape_)):
        x = cat(_parts(x, d)[::-1], d)
    return x


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
        elif isinstance(k, slice):
            if k != slice(None):
                begin, stop, step = k.indices(fixed(x, d, "a part"))
                if step == 1:
                    x = narrow(x, d, begin, max(stop - begin, 0))
                else:
                    x = cat([narrow(x, d, i, 1) for i in range(begin, stop, step)], d)
        elif isinstance(k, torch.Tensor | list | Traced | Indices | bool):
            raise CannotTrace("indexing by a tensor or a list")
        else:
            x, d = select(x, d, k), d - 1
        d += 1
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
        return _flagged(Traced(trace, parts[0].v, parts[0].shape_), parts)
    rank = len(parts[0].shape_)
    if any(len(p.shape_) != rank for p in parts) or not rank:
        raise CannotTrace(f"cat of shapes {[list(p.shape_) for p in parts]}")
    d = dim % rank
    total = sum(fixed(p, d, "a concatenation") for p in parts)
    shape = tuple(total if i == d else _alike([p.shape_[i] for p in parts]) for i in range(rank))
    if around(shape, d)[0] == 1 and all(len(core(p.shape_)) == 1 for p in parts):
        rows = [trace.shaped(trace.value(p), (numel(p.shape_),)) for p in parts]
        found = trace.apply("concat", *rows)
    else:
        found = _along(parts[0], d)[2](trace.apply("concat", *[_along(p, d)[0] for p in parts]))
    return _flagged(Traced(trace, trace.shaped(found, core(shape)), shape), parts)


def _flagged(x: Traced, parts: list[Traced]) -> Traced:
    x.boolean = all(part.boolean for part in parts)
    return x


@means("pad")
def _pad(x, pad, mode="constant", value=None):
    """`functional.pad` by a number: the last dimension first."""
    if mode != "constant" or min(pad) < 0:
        raise CannotTrace("pad by anything but a number")
    for i in range(0, len(pad), 2):
        d = len(x.shape_) - 1 - i // 2
        ends = [Traced(x.trace, Number(float(value or 0)), sized(x.shape_, d, n)) for n in pad[i : i + 2]]
        x = cat([one for one in (ends[0], x, ends[1]) if one.shape_[d]], d)
    return x


@means("hstack")
def _hstack(tensors):
    return cat(tensors, 0 if len(tensors[0].shape_) < 2 else 1)


@means("vstack", "row_stack")
def _vstack(tensors):
    return cat([one if len(one.shape_) > 1 else unsqueeze(one, 0) for one in tensors], 0)


@means("stack")
def _stack(tensors, dim=0):
    if isinstance(tensors, TracedList):
        return tensors.stack(dim)
    trace = trace_of(*tensors)
    assert trace is not None
    given = [traced(trace, t) for t in tensors]
    d = axis(dim, len(given[0].shape_) + 1)
    return cat([unsqueeze(one, d) for one in given], d)
