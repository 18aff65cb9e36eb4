"""Products of each row of a list with each, and masks: what becomes attention while code is traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import Any

import torch

from abw.core.base.errors import AbwError
from abw.torch.tracing.symbols import (
    ARITHMETIC,
    COMPARISONS,
    CannotTrace,
    Index,
    K,
    NeedsFixed,
    NeedsRows,
    Refusing,
    TensorLike,
    axis,
    core,
    numel,
    operators,
)

# Scores that are not above it have weights of 0, and what is added to scores hides them.
HIDING = -1e4
# Of scores that are so low only the mask is left, and all weights are equal.
ALL_HIDING = -1e9


class Mask(Refusing, TensorLike):
    """A tensor of the instance with an element for each pair of a list's rows, or for each row.

    What is computed from it alone PyTorch computes, whenever the code runs: `of(flat, n)` is the tensor in a
    call with these arguments, of which it reads `slots`, `now` that in the call that is traced. `path` says
    which argument it is made of. Anything else raises NeedsRows.
    """

    def __init__(
        self, trace: Any, path: Any, now: torch.Tensor, of: Callable[[Any, int], Any], slots: frozenset[int]
    ) -> None:
        self.trace, self.path, self.now, self.of, self.slots = trace, path, now, of, slots
        sizes = {*now.shape} - {1}
        if len(sizes) > 1 or (sizes and sizes != {trace.length}):
            self.refuse()
        self.shape_ = tuple(s if s == 1 else K for s in now.shape)
        self.dtype = now.dtype

    __class__ = property(lambda self: torch.Tensor)

    def refuse(self, *_: object) -> Any:
        raise NeedsRows(self.path)

    def apply(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """What a function makes of it, and of other masks."""
        if any(isinstance(x, TensorLike) and not isinstance(x, Mask) for x in (*args, *named.values())):
            self.refuse()
        if function in (torch.is_floating_point, torch.is_complex):
            return function(self.now)

        def of(flat: Any, n: int) -> Any:
            given = [_real(x, flat, n) for x in args]
            return function(*given, **{k: _real(x, flat, n) for k, x in named.items()})

        try:
            now = of(self.trace.flat, self.trace.length)
        except RuntimeError as error:
            raise CannotTrace(str(error)) from None
        slots = self.slots.union(*(_slots(x) for x in (*args, *named.values())))
        return Mask(self.trace, self.path, now, of, slots) if isinstance(now, torch.Tensor) else self.refuse()

    def __getattr__(self, name: str) -> Any:
        found = getattr(torch.Tensor, name)
        return partial(self.apply, found, self) if callable(found) else self.apply(getattr, self, name)


def may_be_mask(x: torch.Tensor) -> bool:
    """Whether a tensor has an element for each pair of a list's rows, or a boolean for each row."""
    wide = [s for s in x.shape if s != 1]
    if type(x) is not torch.Tensor or not 1 <= len(wide) <= 2 or len({*wide}) > 1:
        return False
    if x.dtype is torch.bool:
        return True
    return len(wide) == 2 and bool(((x == 0) | (x == 1) | (x <= HIDING)).all())


def is_mask(x: Any, dtype: torch.dtype, ones: tuple[bool, ...]) -> bool:
    """Whether something is a mask of this type, whose dimensions of size 1 are these."""
    alike = x.__class__ is torch.Tensor and x.dtype is dtype and tuple([s == 1 for s in x.shape]) == ones
    return alike and may_be_mask(x)


def mask_of(trace: Any, path: Any, x: torch.Tensor, slot: int) -> Mask:
    """The mask that an argument of the code is."""
    trace.length = trace.length or max(x.shape)
    return Mask(trace, path, x, lambda flat, n: flat[slot], frozenset([slot]))


def attend_seen(
    attend: Callable[..., list[Any]], values: Any, keys: Any, queries: Any, hidden: Any, unmasked: Any
) -> list[Any]:
    """Attention of queries that see only some of the keys each: a shorter list each.

    A row that hides all keys sees all alike, by the query `unmasked`. Errors: AbwError where there is none,
    CannotTrace where the mask has not an element for each pair.
    """
    n, rows = len(values), (~hidden.numpy()).reshape(-1, hidden.shape[-1]).tolist()
    if len(rows[0]) != n or len(rows) not in (1, len(queries)):
        raise CannotTrace(f"a mask of {list(hidden.shape)} for {len(queries)} queries and {n} keys")
    found: list[Any] = []
    for i, row in enumerate(rows):
        some, seen = queries if len(rows) == 1 else queries[i : i + 1], [*compress(values, row)]
        if seen:
            found += attend(seen, [*compress(keys, row)], some)
            continue
        if unmasked is None:
            raise AbwError(
                f"row {i} of a mask hides all keys: PyTorch's softmax of it is not a number",
                hint="show each query a key, itself for example, or fill with -1e9",
            )
        found += attend(values, keys, [unmasked] * len(some))
    return found


def _slots(x: Any) -> frozenset[int]:
    if isinstance(x, tuple | list):
        return frozenset().union(*map(_slots, x))
    if isinstance(x, slice):
        return _slots((x.start, x.stop, x.step))
    return x.slots if isinstance(x, Mask) else frozenset([x.slot]) if isinstance(x, Index) else frozenset()


def _real(x: Any, flat: Any, n: int) -> Any:
    """An argument of a function on masks, in a call."""
    if isinstance(x, Mask):
        return x.of(flat, n)
    if isinstance(x, slice):
        return slice(*(_real(end, flat, n) for end in (x.start, x.stop, x.step)))
    if isinstance(x, tuple | list):
        return type(x)(_real(y, flat, n) for y in x)
    if isinstance(x, Index):
        return flat[x.slot]
    return n if x is K else x


def _operator(name: str) -> Any:
    function = getattr(torch.Tensor, name)

    def apply(self: Mask, *args: Any) -> Any:
        return (
            NotImplemented if any(isinstance(x, Scores) for x in args) else self.apply(function, self, *args)
        )

    return apply


operators(Mask, ("neg", "abs", "and", "or", "xor", "invert", "getitem", *COMPARISONS), _operator)
operators(Mask, ARITHMETIC, _operator, ("", "r"))


class Scores(Refusing, TensorLike):
    """The products of each row of K with each: softmax and a product with rows make attention of them.

    `hidden`: the mask of those that `fill` stands for; `weights`: whether softmax was taken; `given`: whether
    they are an argument of the code. Anything else raises NeedsFixed.
    """

    def __init__(
        self,
        query: Any,
        keys: Any,
        shape: Sequence[Any],
        hidden: Mask | None = None,
        fill: float = 0.0,
        weights: bool = False,
    ) -> None:
        self.trace, self.query, self.keys = keys.trace, query, keys
        self.shape_, self.hidden, self.fill, self.weights = tuple(shape), hidden, fill, weights
        self.given = False

    def refuse(self, *_: object) -> Any:
        raise NeedsFixed("the products of all pairs of rows are used otherwise than by attention")

    __setitem__ = refuse

    def __getattr__(self, name: str) -> Any:
        if name in MEANT:
            return partial(MEANT[name], self)
        return self.refuse()

    def changed(self, **what: Any) -> Scores:
        """The same with another query, mask or state."""
        own = {"query": self.query, "hidden": self.hidden, "fill": self.fill, "weights": self.weights}
        return Scores(keys=self.keys, shape=self.shape_, **{**own, **what})

    def _asked(self, holds: bool, weights: bool) -> Any:
        """The query. Errors: NeedsFixed where these are (no) weights, or it does not hold."""
        return self.query if self.query is not None and self.weights == weights and holds else self.refuse()

    def scaled(self, factor: Any) -> Scores:
        """The same times a number."""
        query = self._asked(type(factor) in (int, float) and factor > 0, False)
        return self.changed(query=query * factor)

    def divided(self, number: Any) -> Scores:
        """The same over a number."""
        return self.scaled(1 / number if type(number) in (int, float) and number else number)

    def masked(self, mask: Any, fill: Any) -> Scores:
        """The same with a number in place of what a mask hides."""
        low = type(fill) in (int, float) and fill <= HIDING
        self._asked(isinstance(mask, Mask) and mask.dtype is torch.bool and low, False)
        hidden = mask if self.hidden is None else self.hidden | mask
        return self.changed(hidden=hidden, fill=min(float(fill), self.fill))

    def masked_(self, mask: Any, fill: Any) -> Scores:
        """`masked` in place. Errors: CannotTrace where others see it."""
        if self.given:
            raise CannotTrace("scores are written in place")
        made = self.masked(mask, fill)
        self.hidden, self.fill = made.hidden, made.fill
        return self

    def where(self, other: Any, *, mask: Any) -> Scores:
        """`torch.where(mask, scores, other)`."""
        return self.masked(mask.apply(torch.logical_not, mask) if isinstance(mask, Mask) else mask, other)

    def added(self, mask: Any) -> Scores:
        """The same plus a mask of zeros and numbers that hide."""
        self._asked(isinstance(mask, Mask), False)
        return self.masked(mask.apply(_hides, mask), float(mask.now.min().clamp(max=HIDING)))

    def softmax(self, dim: int | None = None, *_: Any, **__: Any) -> Scores:
        """The weights of attention."""
        last = len(self.shape_) - 1
        self._asked(axis(-1 if dim is None else dim, last + 1) == last, False)
        return self.changed(weights=True)

    def times(self, values: Any) -> Any:
        """Sums of rows, weighted: what attention gives."""
        traced, lead = type(self.keys), self.shape_[:-2]
        alike = isinstance(values, traced) and values.shape_[-2:-1] == (K,) and values.shape_[:-2] == lead
        query = self._asked(alike, True)
        found = self.trace.attend(numel(lead), query, self.keys, values, self.hidden, self.fill)
        shape = (*self.shape_[:-1], values.shape_[-1])
        return traced(self.trace, self.trace.shaped(found, core(shape)), shape)

    def kept(self, p: float = 0.5, training: bool = True, inplace: bool = False) -> Scores:
        """Dropout, where nothing is dropped. Errors: NeedsFixed."""
        if p == 0 or not training:
            return self
        raise NeedsFixed("attention's weights are dropped: set that dropout to 0, or call model.eval()")

    __truediv__, __add__, __radd__, __matmul__ = divided, added, added, times
    __mul__ = __rmul__ = scaled


def _hides(mask: torch.Tensor) -> torch.Tensor:
    """Which elements of a mask hide by what they add. Errors: CannotTrace for numbers between."""
    hides = mask <= HIDING
    if mask.dtype is torch.bool or not bool((hides | (mask == 0)).all()):
        raise CannotTrace("numbers other than 0 and minus infinity are added to the scores of attention")
    return hides


def of_masks(function: Any, args: Any, named: Any) -> Any:
    """What a function makes of masks alone; NotImplemented of anything else. Errors: NeedsRows."""
    given = [*args, *named.values()]
    mask = next((x for x in given if isinstance(x, Mask)), None)
    others = any(isinstance(x, TensorLike) and not isinstance(x, Mask) for x in given)
    return NotImplemented if mask is None or others else mask.apply(function, *args, **named)


def of_scores(name: str, args: Any, named: Any) -> Any:
    """What an operation makes of scores; NotImplemented where there are none. Errors: NeedsFixed."""
    given = [*args, *named.values()]
    scores = next((x for x in given if isinstance(x, Scores)), None)
    if scores is None:
        return NotImplemented
    if name == "where" and len(given) == 3 and scores is given[1]:
        return scores.where(given[2], mask=given[0])
    return MEANT[name](*args, **named) if args and args[0] is scores and name in MEANT else scores.refuse()


MEANT: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("contiguous", "float", "to", "type_as"), lambda self, *_, **__: self),
    "softmax": Scores.softmax, "masked_fill": Scores.masked, "masked_fill_": Scores.masked_,
    "dropout": Scores.kept, "add": Scores.added, "__add__": Scores.added,
    "mul": Scores.scaled, "__mul__": Scores.scaled, "div": Scores.divided, "__truediv__": Scores.divided,
    "matmul": Scores.times, "__matmul__": Scores.times, "bmm": Scores.times, "mm": Scores.times,
}  # fmt: skip
