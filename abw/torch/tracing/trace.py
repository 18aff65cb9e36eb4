"""Tensors of one instance as symbols, while code is traced into cells.

A `Traced` stands for a tensor inside a cell. It is no torch.Tensor: PyTorch's functions and modules hand it
to `__torch_function__`, so that the code that is traced runs as it is. What an operation means in cells is
registered in `MEANINGS`, by `operations.py`, `shaping.py`, `products.py` and `layers.py`; shapes are inferred
and checked by the builder of cells (`core/spec/cells/builder.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from abw.core.ir.cell import Op
from abw.core.ir.shapes import ShapeError, Size
from abw.core.spec.cells.builder import Builder, Listed, Number
from abw.core.spec.cells.builder import Value as Built
from abw.torch.tracing.scores import ALL_HIDING, Mask, Scores, of_masks, of_scores
from abw.torch.tracing.symbols import (
    ARITHMETIC,
    COMPARISONS,
    OTHERS,
    CannotTrace,
    DependsOnData,
    Index,
    Indices,
    K,
    NeedsFixed,
    Refusing,
    TensorLike,
    core,
    numel,
    operators,
    sized,
)

# Operations of a trace are numbered from here on, what it is given from 0.
FIRST = 1 << 20
# The name of a reduction over K begins so: it is no operation of a cell.
REDUCE = "reduce:"
# So does attention; its heads follow, and it has three operands: values, keys and the query.
ATTEND = f"{REDUCE}attend "


@dataclass(frozen=True, slots=True)
class Leaf:
    """An input of a trace: an "input" (a value a call), a "row" (a value a row of K) or a "param".

    `shape` is that in the cell. `what` says where it comes from: a tensor for a param; for others
    ("value" | "rows", slot, class), ("table" | "table-rows", weight, slot) or ("tensor" | "tensors", slot,
    shape).
    """

    kind: str
    shape: tuple[int, ...]
    what: Any

    @property
    def slot(self) -> int | None:
        """Where a list is whose rows these are."""
        if self.kind != "row" or self.what[0] == "mask":
            return None
        return int(self.what[2 if self.what[0] == "table-rows" else 1])


class Trace:
    """The operations of a piece of code, and what it is given (`leaves`)."""

    def __init__(self, known: Container[int] = (), attends: bool = True) -> None:
        """`known`: the ids of the model's parameters and buffers; `attends`: whether attention is a node."""
        self.builder, self.known, self.attends = Builder(FIRST), known, attends
        self.leaves: list[Leaf] = []
        self.looked_up: dict[tuple[int, int], Traced] = {}
        self._params: dict[Any, int] = {}
        self._turned: dict[int, Any] = {}
        self._reshaped: dict[int, Any] = {}
        # what varies in the call that is traced, how long its lists are, and the masks of attention
        self.flat: list[Any] = []
        self.length = 0
        self.sizes: dict[int, tuple[Any, bool]] = {}
        self.masks: dict[int, tuple[Mask, bool]] = {}

    def input(self, shape: Sequence[Any], what: Any, *, row: bool = False) -> Traced:
        """A tensor given to each call, or (`row`) for each row of K."""
        n = numel(shape)
        self.leaves.append(Leaf("row" if row else "input", (n,), what))
        value = Built(len(self.leaves) - 1, (Size(n, str(n)),))
        found = Traced(self, self.shaped(value, core(shape)), shape)
        found.leaf = value.number
        return found

    def param(self, tensor: torch.Tensor, shape: tuple[int, ...] | None = None) -> Traced:
        """A parameter, or a buffer, of the cell; `shape`: what it is taken as instead of its own."""
        found = core(tensor.shape if shape is None else shape)
        key = id(tensor), found
        if key not in self._params:
            self._params[key] = len(self.leaves)
            self.leaves.append(Leaf("param", found, tensor))
        sizes = tuple(Size(n, str(n)) for n in found)
        return Traced(self, Built(self._params[key], sizes), tuple(tensor.shape) if shape is None else shape)

    def free(self) -> set[int]:
        """What is computed from parameters and constants alone."""
        found = {n for n, leaf in enumerate(self.leaves) if leaf.kind == "param"}
        for v, op in enumerate(self.builder.ops, FIRST):
            if found.issuperset(op.args):
                found.add(v)
        return found

    def again(self, x: Traced) -> Traced:
        """What another trace computes from parameters alone, in this one."""
        ops, known = x.trace.builder.ops, dict[int, int]()
        for n, leaf in enumerate(x.trace.leaves):
            if leaf.kind == "param":
                known[n] = self.param(leaf.what, leaf.shape).v.number
        for v, op in enumerate(ops, FIRST):
            if known.keys() >= {*op.args}:
                self.builder.ops.append(replace(op, args=tuple(known[a] for a in op.args)))
                known[v] = self.builder.next - 1
        return Traced(self, Built(known[x.v.number], x.v.sizes), x.shape_)

    def size(self, number: Index, rows: bool) -> Any:
        """An integer as a size, if it is 1 or (`rows`) how long the lists are, which each call looks at."""
        now = self.flat[number.slot]
        if now == 1 or (rows and now == self.length):
            self.sizes[number.slot] = number.path, now != 1
            return K if now != 1 else 1
        return number

    def shaped(self, value: Any, shape: Sequence[int]) -> Any:
        """A value in another shape of the cell."""
        if isinstance(value, Number) or value.shape == tuple(shape):
            return value
        before = self._reshaped.get(value.number, value)
        if before.shape == tuple(shape):
            return before
        made = self.apply("reshape", before, *(Number(float(s)) for s in shape))
        self._reshaped[made.number] = before
        return made

    def turned(self, value: Any) -> Any:
        """A matrix transposed; one that was transposed before as it was."""
        if value.number not in self._turned:
            made = self._turned[value.number] = self.apply("transpose", value)
            self._turned[made.number] = value
        return self._turned[value.number]

    def value(self, traced: Traced) -> Built:
        """As a value, where a number stands for all elements."""
        if isinstance(traced.v, Number):
            shape = core(traced.shape_)
            sizes = tuple(Size(n, str(n)) for n in shape)
            return self.builder.constant(Listed(sizes, (traced.v.value,) * math.prod(shape)), "")
        return traced.v  # type: ignore[no-any-return]

    def reduce(self, how: str, traced: Traced) -> Built:
        """A reduction over K."""
        v = self.value(traced)
        self.builder.ops.append(Op(REDUCE + how, (v.number,), v.shape))
        return Built(self.builder.next - 1, v.sizes)

    def attend(
        self, heads: int, query: Traced, keys: Traced, values: Traced, hidden: Any = None, fill: float = 0.0
    ) -> Built:
        """Attention over the rows of K, without a factor; `fill` stands for scores that a mask hides.

        Errors: NeedsFixed where attention is to be no node.
        """
        if not self.attends:
            raise NeedsFixed("attention is exported")
        v, k, q = (self.shaped(self.value(one), (numel(one.shape_),)) for one in (values, keys, query))
        self.builder.ops.append(Op(f"{ATTEND}{heads}", (v.number, k.number, q.number), v.shape))
        if hidden is not None:
            self.masks[self.builder.next - 1] = hidden, -math.inf < fill <= ALL_HIDING
        return Built(self.builder.next - 1, v.sizes)

    def apply(self, name: str, *operands: Any) -> Any:
        """The result of an operation of cells. Errors: CannotTrace."""
        try:
            return self.builder.apply(name, list(operands))
        except ShapeError as error:
            raise CannotTrace(f"{name}: {error.message}") from None


class Traced(TensorLike):
    """A tensor inside a cell. `v`: a value of the cell, or a Number where all elements are one number.

    `written` says that the tensor was written in place; `source` is the tensor that it is a view of, `leaf`
    the number of what is given to the trace if it is that itself; `boolean`: its elements are 0 and 1;
    `whole`: it is a sum of such.
    """

    __slots__ = ("boolean", "leaf", "shape_", "source", "trace", "v", "viewed", "whole", "written")

    def __init__(self, trace: Trace, v: Any, shape: Sequence[Any]) -> None:
        self.trace, self.v, self.shape_ = trace, v, tuple(shape)
        self.written = self.viewed = self.boolean = self.whole = False
        self.source: Traced | None = None
        self.leaf: int | None = None
        if self.shape_.count(K) > 1:
            raise NeedsFixed("all pairs of a list's rows are computed with")
        # kernels read as much memory as the shape says
        if not isinstance(v, Number) and math.prod(v.shape) != numel(self.shape_):
            raise CannotTrace(f"a tensor of shape {list(shape)} made of {math.prod(v.shape)} numbers")

    # what PyTorch's own functions ask with isinstance
    __class__ = property(lambda self: torch.Tensor)

    @property
    def dtype(self) -> Any:
        return torch.bool if self.boolean else torch.int64 if self.whole else torch.float32

    @property
    def shape(self) -> Any:
        return self.shape_ if K in self.shape_ else torch.Size(self.shape_)

    @property
    def T(self) -> Traced:  # noqa: N802
        return MEANINGS["t"](self)  # type: ignore[no-any-return]

    @property
    def data(self) -> Traced:
        return self

    def __len__(self) -> int:
        return int(self.shape_[0])

    def __getattr__(self, name: str) -> Any:
        base = base_name(name)
        if base in MEANINGS:
            return lambda *args, **kwargs: meant(name, (self, *args), kwargs)
        if name.startswith("_"):
            raise AttributeError(name)
        if name in DECIDING:
            raise DependsOnData(f".{name} asks for numbers")
        raise CannotTrace(f"torch.Tensor.{name} has no counterpart in cells")

    def write(self, made: Traced) -> Traced:
        """Write in place. Errors: CannotTrace where other tensors may share the memory."""
        if self.source is not None or self.viewed:
            raise CannotTrace("a tensor is written in place of which there are views: write x = x + y")
        if tuple(made.shape_) != self.shape_:
            raise CannotTrace(
                f"a tensor of shape {list(self.shape_)} is written by one of {list(made.shape_)}"
            )
        self.v, self.written = made.v, True
        return self

    def __iter__(self):
        first = self.shape_[0]
        if first is K:
            raise NeedsFixed("a list of unknown length is gone through")
        return iter([MEANINGS["__getitem__"](self, i) for i in range(first)])

    def _asked(self, *_: object) -> Any:
        raise DependsOnData("a number of a tensor is asked for")

    __bool__ = __float__ = __int__ = __index__ = _asked
    __hash__ = object.__hash__

    def __setitem__(self, key: object, value: object) -> None:
        raise CannotTrace("a part of a tensor is written in place")

    def __repr__(self) -> str:
        return f"Traced{list(self.shape_)}"


class TracedList(Refusing):
    """A list of unknown length of tensors that are all alike: to be stacked or concatenated."""

    def __init__(self, element: Traced) -> None:
        self.element = element

    def stack(self, dim: int = 0) -> Traced:
        shape = self.element.shape_
        d = dim % (len(shape) + 1)
        return Traced(self.element.trace, self.element.v, (*shape[:d], K, *shape[d:]))

    def cat(self, dim: int = 0) -> Traced:
        shape = self.element.shape_
        d = dim % len(shape)
        if shape[d] != 1:
            raise NeedsFixed("cat of a list along a dimension that is not 1")
        return Traced(self.element.trace, self.element.v, sized(shape, d, K))

    def refuse(self, *_: object) -> Any:
        raise NeedsFixed("a list is gone through element by element")


# What asks for numbers of a tensor.
DECIDING = {
    "item", "tolist", "numpy", "argmax", "argmin", "topk", "sort", "argsort", "nonzero", "multinomial",
    "any", "all", "__array__",
}  # fmt: skip
# What PyTorch's operations mean in cells, by their names.
MEANINGS: dict[str, Callable[..., Any]] = {}


def means(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the meaning of operations of these names."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        MEANINGS.update(dict.fromkeys(names, function))
        return function

    return note


def views(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function for operations whose results share memory with their first argument."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        def view(x: Any, *args: Any, **kwargs: Any) -> Any:
            found = function(x, *args, **kwargs)
            for one in found if isinstance(found, tuple) else (found,):
                if isinstance(one, Traced) and one is not x and isinstance(x, Traced):
                    one.source, x.viewed, one.boolean, one.whole = x, True, x.boolean, x.whole
            return found

        MEANINGS.update(dict.fromkeys(names, view))
        return function

    return note


def base_name(name: str) -> str:
    """The name of an operation without the `_` of those in place."""
    return name[:-1] if name.endswith("_") and not name.startswith("_") else name


def positional(args: Any, kwargs: Any) -> Any:
    """The arguments with those at the front that were given by name, which are taken out of `kwargs`."""
    for at, names in enumerate((("input", "self"), ("other", "mat2", "exponent"))):
        args = (*args, *[kwargs.pop(name) for name in names if name in kwargs and len(args) == at])
    return args


def dispatch(func: Any, args: Any, kwargs: Any) -> Any:
    """What a function of PyTorch's means for symbols. Errors: CannotTrace."""
    name = getattr(func, "__name__", str(func))
    base = base_name(name)
    masked = of_masks(func, args, kwargs)
    if masked is not NotImplemented:
        return masked
    if name == "__get__" or base not in MEANINGS:
        if base in DECIDING:
            raise DependsOnData(f"torch.{name} asks for numbers")
        raise CannotTrace(f"torch.{name} has no counterpart in cells")
    trace = trace_of(*args, *kwargs.values())
    args = positional(args, kwargs)
    if trace is not None and args and isinstance(args[0], torch.Tensor):
        args = (traced(trace, args[0]), *args[1:])
    return meant(name, args, kwargs)


def meant(name: str, args: Any, kwargs: Any) -> Any:
    """What an operation makes of symbols, written into the first where its name or `inplace` says so."""
    base, inplace = base_name(name), kwargs.pop("inplace", False)
    args = positional(args, kwargs)
    scores = of_scores(name, args, kwargs)
    if scores is not NotImplemented:
        return scores
    if kwargs.pop("out", None) is not None:
        raise CannotTrace(f"torch.{name} writes to `out`")
    found = MEANINGS[base](*args, **kwargs)
    return args[0].write(found) if inplace or base != name else found


class OwnTraced(TorchFunctionMode):
    """While code is traced: operations on parameters and buffers alone are part of the trace, too."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in MEANINGS and not any(issubclass(t, TensorLike) for t in types):
            own = self._own(args)
            if trace_of(*own) is not None:
                return dispatch(func, own, kwargs or {})
        return func(*args, **(kwargs or {}))

    def _own(self, x: Any) -> Any:
        if type(x) in (list, tuple):
            return type(x)(map(self._own, x))
        own = isinstance(x, torch.Tensor) and id(x) in self._trace.known and x.dtype is torch.float32
        return self._trace.param(x) if own else x


def _operator(name: str) -> Any:
    return lambda self, *args: MEANINGS[name](self, *args)


operators(Traced, (*COMPARISONS, *OTHERS), _operator)
operators(Traced, ARITHMETIC, _operator, ("", "r", "i"))
for _name in ARITHMETIC:
    MEANINGS[f"__r{_name}__"] = lambda x, y, _of=f"__{_name}__": MEANINGS[_of](y, x)
    MEANINGS[f"__i{_name}__"] = lambda x, y, _of=f"__{_name}__": x.write(MEANINGS[_of](x, y))
MEANINGS["rsub"] = lambda x, y, alpha=1: MEANINGS["sub"](y, x, alpha=alpha)
MEANINGS["__rdiv__"] = MEANINGS["__rtruediv__"]


def trace_of(*args: Any) -> Trace | None:
    """The trace of the first symbol among some arguments."""
    for arg in args:
        if isinstance(arg, Traced):
            return arg.trace
        if isinstance(arg, tuple | list):
            found = trace_of(*arg)
            if found is not None:
                return found
    return None


def traced(trace: Trace, x: Any) -> Traced:
    """Convert an argument of an operation to a symbol. Errors: CannotTrace."""
    if isinstance(x, Traced):
        return x
    if isinstance(x, Mask | Scores):
        x.refuse()
    if isinstance(x, torch.Tensor):
        if isinstance(x, torch.nn.Parameter) or id(x) in trace.known:
            return trace.param(x)
        if x.requires_grad:
            raise CannotTrace("a tensor that requires gradients is no parameter of the model")
        if x.dtype.is_floating_point and x.dtype != torch.float32 and x.dim():
            raise CannotTrace(f"a tensor of {x.dtype}")
        flat = x.detach().reshape(-1)
        if x.numel() and bool((flat == flat[0]).all()):
            return Traced(trace, Number(float(flat[0])), tuple(x.shape))
        raise CannotTrace("a tensor of numbers is made inside: make it in __init__, by register_buffer")
    if isinstance(x, int | float) and not isinstance(x, bool):
        if not math.isfinite(x):
            raise CannotTrace(f"the number {x}")
        return Traced(trace, Number(float(x)), ())
    raise CannotTrace(f"{type(x).__name__} in an operation on tensors")


for _cls in (Traced, Indices, Mask, Scores):
    _cls.dispatcher = staticmethod(dispatch)
