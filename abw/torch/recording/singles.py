"""Operations of PyTorch that are recorded one by one, outside of regions."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch

from abw.core.program.recording.values import Value
from abw.torch.recording.cells import DIRECT, Cells
from abw.torch.recording.decisions import Comparison, Pair, weigh
from abw.torch.recording.regions import Region
from abw.torch.recording.standins import Concat, Ints, Stack, StandIn, as_stand_in, plain, real
from abw.torch.tracing.operations import NUMERIC, elementwise
from abw.torch.tracing.symbols import COMPARISONS, CannotTrace, sized, sizes_of
from abw.torch.tracing.trace import DECIDING, MEANINGS, means, meant

# So many elements of vectors of one size are cut out by a cell each.
MOST_SLICES = 4
# Functions of PyTorch's that ask for numbers, and whose results have no gradient.
ASKING = (
    "all", "allclose", "any", "argmax", "argmin", "argsort", "equal", "isfinite", "isinf", "isnan",
    "multinomial", "nonzero", "long", "int",
)  # fmt: skip


@means("copied")
def _copied(x):
    return elementwise("mul", x, 1.0)


def op_region(
    cells: Cells,
    name: str,
    arity: int,
    keywords: tuple[str, ...],
    fixed: tuple[Any, ...] = (),
    install: Callable[[Callable[..., Any]], object] | None = None,
) -> Region | None:
    """An operation as a region; None for what cells do not have.

    Its arguments are `arity` ones by their places, before those that are `fixed`, and one for each keyword.
    """
    if name not in MEANINGS or name in DECIDING:
        return None

    def apart(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (*args[:arity], *fixed), dict(zip(keywords, args[arity:], strict=True))

    def body(*args: Any) -> Any:
        values, named = apart(args)
        return meant(name, values, named)

    def by_torch(args: tuple[Any, ...], why: str) -> Any:
        whole = [getattr(a, "dtype", None) is torch.int64 for a in args]
        if name.replace("__r", "__") in NUMERIC and any(whole):
            values, named = apart(tuple(a.float() if w else a for a, w in zip(args, whole, strict=True)))
            return cells.op(name, *values, **named)
        return cells.by_torch(name, *apart(args), why)

    return Region(cells, body, f"torch.{name}", one=True, install=install, otherwise=by_torch)


def _stack(cells: Cells, tensors: Any, dim: int = 0) -> Any:
    """torch.stack of values: rows, without any node."""
    if not isinstance(tensors, list | tuple) or not tensors:
        return NotImplemented
    tensors = [_as_value(cells, t) for t in tensors]
    shape = tuple(tensors[0].shape)
    if not all(isinstance(t, Value) and tuple(t.shape) == shape for t in tensors):
        return NotImplemented
    d = dim % (len(shape) + 1)
    cells.refuse_detached(tensors)
    cells.share(tensors)  # the rows are no copies
    return Stack(cells, tensors, (*shape[:d], len(tensors), *shape[d:]), d)


def _view(cells: Cells, x: Any, *shape: Any) -> Any:
    """A stack whose rows have another shape, without any node."""
    sizes = sizes_of(shape)
    if not isinstance(x, Stack) or {*map(type, sizes)} != {int} or math.prod(x.shape_[: x.k]) != 1:
        return NotImplemented
    total, known = math.prod(x.shape_), math.prod(s for s in sizes if s != -1)
    sizes = tuple(total // known if s == -1 and known else s for s in sizes)
    at = next((i for i, s in enumerate(sizes) if s != 1), 0)
    if len(x.rows) == 1 or sizes[at] != len(x.rows) or math.prod(sizes) != total:
        return NotImplemented
    cells.share((x,))
    return Stack(cells, x.rows, sizes, at)


def _as_value(cells: Cells, t: Any) -> Any:
    if isinstance(t, Concat):
        return t.value()
    if (
        type(t) is torch.Tensor
        and t.dtype is torch.float32
        and not t.requires_grad
        and id(t) not in cells.names
    ):
        return cells.given(t)
    return t


def _cat(cells: Cells, tensors: Any, dim: int = 0, axis: int | None = None) -> Any:
    """torch.cat of rows: a stack, without any node."""
    if not isinstance(tensors, list | tuple) or not tensors:
        return NotImplemented
    if not all(isinstance(t, Value | Stack) for t in tensors) or not len(tensors[0].shape):
        return NotImplemented
    rank = len(tensors[0].shape)
    d = (dim if axis is None else axis) % rank
    rows: list[Any] = []
    rest = sized(tensors[0].shape, d)
    for t in tensors:
        if len(t.shape) != rank or sized(t.shape, d) != rest:
            return NotImplemented
        if isinstance(t, Stack) and t.k == d:
            rows += t.rows
        elif isinstance(t, Value) and t.shape[d] == 1:
            rows.append(t)
        else:
            return NotImplemented
    if len(rows) == 1 and isinstance(tensors[0], Value):
        return tensors[0].clone()  # type: ignore[attr-defined]
    if math.prod(rest) == 1 and isinstance(tensors[0], Value):
        return NotImplemented  # numbers side by side: a vector
    cells.refuse_detached(rows)
    cells.share(rows)  # these are no copies
    return Stack(cells, rows, (*rest[:d], len(rows), *rest[d:]), d)


def _element(cells: Cells, x: Any, key: Any) -> Any:
    """An element of a vector; where many are asked for, one cell for all."""
    if type(key) is not int or not isinstance(x, Value) or len(x.shape) != 1 or not 1 < x.shape[0] > key:
        return NotImplemented
    seen = cells.seen_elements.setdefault(x.shape, set())
    seen.add(key)
    if len(seen) <= MOST_SLICES or key < -x.shape[0]:
        return NotImplemented
    found = _picks(cells, x, [key], ())
    cells.share((x, found))  # it is a view
    return found


def _picks(cells: Cells, x: Any, items: list[int], shape: Any) -> Any:
    """Elements of a vector by their numbers, as a vector of this shape: a node each."""
    n = math.prod(x.shape)
    flat = cells.as_class(x, cells.value_class((n,)))
    rows = [cells.op("picked", flat, cells.one_hot(n, i % n)) for i in items]
    if len(rows) == 1:
        return cells.as_class(rows[0], cells.value_class(shape))
    at = next(i for i, s in enumerate(shape) if s != 1)
    found = Concat(cells, tuple(rows), (at, len(shape) - 1 - at))
    return found.value() if cells.writes else found


@means("picked")
def _picked(x, hot):
    return elementwise("where", hot, x, 0.0).sum()


@means("written")
def _written(x, hot, value):
    return elementwise("where", hot, value, x)


def _along(x: Any, dim: int) -> bool:
    """Whether a value is a vector along a dimension."""
    return isinstance(x, Value) and bool(x.shape) and math.prod(x.shape) == x.shape[dim]


def _ordered(kind: str) -> Any:
    """`topk` or `sort` of a vector: the order is a decision, the values are its elements."""

    def ordered(cells: Cells, x: Any, *args: Any, **kwargs: Any) -> Any:
        dim = kwargs.get("dim", args[1] if kind == "topk" and len(args) > 1 else -1)
        if not _along(x, dim):
            return NotImplemented

        def indices() -> Any:
            cells.waits()
            numbers = real(x)
            found = getattr(numbers, kind)(*args, **kwargs)[1]
            weigh(numbers, dim, found.shape[dim] if kind == "topk" else 1)
            return as_stand_in(found)

        return Pair(kind, lambda pair: _picks(cells, x, pair[1].items, pair[1].shape), indices)

    return ordered


def _gather(cells: Cells, x: Any, dim: int, index: Any, **_: Any) -> Any:
    """torch.gather of a vector, or along the rows of a stack."""
    index = as_stand_in(index)
    if not isinstance(index, Ints):
        return NotImplemented
    if _along(x, dim):
        return _picks(cells, x, index.items, index.shape)
    if not isinstance(x, Value | Stack) or len(x.shape) != 2 or dim not in (1, -1):
        return NotImplemented
    n, m = index.shape
    some: Any = x
    rows = [_picks(cells, some[r], index.items[r * m : (r + 1) * m], (m,)) for r in range(n)]
    return Stack(cells, [row.value() if m > 1 else row for row in rows], (n, m), 0)


def _index_select(_: Cells, x: Any, dim: int, index: Any) -> Any:
    rows: Any = x
    return rows[index] if dim == 0 and isinstance(x, Value | StandIn) else NotImplemented


def _elements(cells: Cells, x: Any, rows: list[int], columns: list[int]) -> Any:
    """x[rows, columns] of a stack: an element for each pair of numbers."""
    if len(x.shape) != 2 or len(rows) != len(columns):
        raise CannotTrace(f"indices of {len(rows)} rows and {len(columns)} columns of {list(x.shape)}")
    if any(not -n <= i < n for n, some in zip(x.shape, (rows, columns), strict=True) for i in some):
        raise IndexError(f"an index is out of range of a tensor of shape {list(x.shape)}")
    found = [_picks(cells, x[r], [c], ()) for r, c in zip(rows, columns, strict=True)]
    return Stack(cells, found, (len(found),), 0)


def _type(cells: Cells, x: Any, *to: Any) -> Any:
    """`Tensor.type(torch.FloatTensor)`."""
    floats = to and isinstance(to[0], type) and isinstance(torch.empty(0), to[0])
    return x.to(torch.float32) if floats else NotImplemented


def _cumsum(cells: Cells, x: Any, dim: int, dtype: Any = None) -> Any:
    """torch.cumsum along the rows of a stack: a sum after the other."""
    if not isinstance(x, Stack) or dim % len(x.shape_) != x.k:
        return NotImplemented
    return Stack(cells, list(accumulate(x.rows, lambda a, b: cells.op("add", a, b))), x.shape_, x.k)


def _extreme(kind: str) -> Any:
    """`max` or `min` along a dimension."""

    def extreme(cells: Cells, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if not isinstance(x, Value | StandIn) or type(dim) is not int:
            return NotImplemented
        return Pair(
            kind,
            lambda _: cells.op(f"a{kind}", x, dim, keepdim),
            lambda: cells.op(f"arg{kind}", x, dim, keepdim),
        )

    return extreme


def _asked(name: str) -> Any:
    """What asks for numbers, and has no gradient."""

    def asked(cells: Cells, x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, Value | StandIn):
            return NotImplemented
        if name == "argmax" and isinstance(x, Value):
            return x.argmax(*args, **kwargs)
        cells.waits()
        numbers = real(x)
        if name == "argmax":
            weigh(numbers, args[0] if args else kwargs.get("dim"))
        return as_stand_in(getattr(torch.Tensor, name)(numbers, *map(plain, args), **kwargs))

    return asked


def _detach(cells: Cells, x: Any) -> Any:
    return x.detach() if isinstance(x, Value) else NotImplemented if cells.learns() else x  # type: ignore[attr-defined]


def _drawn(name: str) -> Any:
    """`randn_like` or `normal_`, …: drawn as PyTorch draws, as a tensor of the instance."""

    def drawn(cells: Cells, x: Any, *args: Any, **kwargs: Any) -> Any:
        shape = torch.empty(tuple(x.shape))
        if not name.endswith("_"):
            return getattr(torch, name)(shape, *args, **kwargs)
        return cells.write(x, cells.given(getattr(shape, name)(*args, **kwargs)))

    return drawn


def _new_zeros(cells: Cells, x: Any, *shape: Any, **kwargs: Any) -> Any:
    """Also what PyTorch leaves undefined: `x.new(3, 4)`."""
    sizes = sizes_of(shape)
    plain = not kwargs and sizes and all(type(s) is int for s in sizes)
    return cells.zeros(sizes) if plain else NotImplemented


def _zeros_like(cells: Cells, x: Any, **_: Any) -> Any:
    return cells.zeros(tuple(x.shape))


def _embedding(
    cells: Cells, index: Any, weight: Any, padding_idx: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """A row by Python's integers, without any node."""
    if isinstance(index, Ints) and len(index.items) == 1 and not args and not any(kwargs.values()):
        return cells.rows_of(weight, (*index.shape_, weight.shape[1]))[index.items[0]]
    return NotImplemented


@means("picked_loss")
def _picked_loss(x, hot, normalised):
    """What a row of scores, or of logarithms of probabilities, loses for the class whose element is 1."""
    scores = x if normalised else MEANINGS["log_softmax"](x, -1)
    return elementwise("neg", MEANINGS["sum"](elementwise("mul", scores, hot)))


def _class_loss(normalised: bool) -> Any:
    """`cross_entropy`, or `nll_loss`, of rows of scores with the numbers of classes."""

    def loss(cells: Cells, x: Any, target: Any, *args: Any, reduction: str = "mean", **kwargs: Any) -> Any:
        target = as_stand_in(target)
        ignored, smooth = kwargs.pop("ignore_index", -100), kwargs.pop("label_smoothing", 0.0)
        plain = isinstance(target, Ints) and not args and not {*kwargs.values()} - {None}
        if isinstance(x, Stack) and x.k == 0 and len(x.shape_) == 2:
            rows = [cells.viewed(row, x.shape_[1:]) for row in x.rows]
        elif isinstance(x, Value) and math.prod(x.shape) == x.shape[-1] and len(x.shape) <= 2:
            rows = [x]
        else:
            return NotImplemented
        if not plain or len(target.items) != len(rows) or reduction not in ("mean", "sum"):
            return NotImplemented
        classes = rows[0].shape[-1]
        kept = [(row, i) for row, i in zip(rows, target.items, strict=True) if i != ignored]
        if not kept or any(not 0 <= i < classes for _, i in kept):
            return NotImplemented
        found = [cells.op("picked_loss", x, cells.one_hot(classes, i, smooth), normalised) for x, i in kept]
        return found[0] if len(found) == 1 else cells.reduction(reduction, type(found[0]))[1](found)

    return loss


def _compared(how: str) -> Any:
    return lambda _, x, y: getattr(x, f"__{how}__")(y) if isinstance(x, Value) else NotImplemented


def _broadcast(_: Cells, *tensors: Any) -> Any:
    shape = torch.broadcast_shapes(*(tuple(t.shape) for t in tensors))
    return tuple(t if t.shape == shape else t.expand(*shape) for t in tensors)


def _counted(cells: Cells, x: Any, *args: Any, **kwargs: Any) -> Any:
    return _asked("sum")(cells, x, *args, **kwargs) if isinstance(x, Comparison) else NotImplemented


DIRECT.update({how: _compared(how) for how in COMPARISONS})
DIRECT.update({kind: _extreme(kind) for kind in ("max", "min")})
DIRECT.update({kind: _ordered(kind) for kind in ("topk", "sort")})
DIRECT.update({name: _drawn(name) for name in ("randn_like", "rand_like", "normal_", "uniform_")})
DIRECT.update({name: _asked(name) for name in ASKING})
DIRECT.update(
    __getitem__=_element, cat=_cat, concat=_cat, cross_entropy=_class_loss(False), cumsum=_cumsum,
    detach=_detach, embedding=_embedding, gather=_gather, nll_loss=_class_loss(True), stack=_stack,
    elements=_elements, index_select=_index_select, sum=_counted, type=_type,
    ones_like=lambda _, x, **__: torch.ones(tuple(x.shape)),
    new_ones=lambda _, x, *shape, **__: torch.ones(sizes_of(shape)),
    full_like=lambda _, x, value, **__: torch.full(tuple(x.shape), float(value)),
    reshape=_view, view=_view, new=_new_zeros, new_empty=_new_zeros, new_zeros=_new_zeros,
    broadcast_tensors=_broadcast, new_full=lambda _, x, size, value, **__: torch.full(size, value),
    new_tensor=lambda _, x, data, **__: torch.tensor(data),
    zeros_like=_zeros_like, empty_like=_zeros_like,
)  # fmt: skip
