"""Results of programs: places for values that are computed later, filled with tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import torch

from abw.core.program.recording.values import Value
from abw.core.program.running.results import PLAIN
from abw.core.program.running.runner import BatchRunner
from abw.torch.recording.decisions import Comparison, Pair
from abw.torch.recording.pairs import Pairs
from abw.torch.recording.standins import Concat, Derived, Ints, Stack
from abw.torch.tracing.symbols import sized

# What a place is among the rows of its size: some of their numbers, some of them, or else a view.
FLAT, ROWS, VIEW = range(3)
Groups = dict[tuple[int, int], list["Place"]]


class Place:
    """A returned tensor, of values with these handles and `size` numbers each.

    `k`: the dimension of `shape` that they are along, None for a single one. `kind`: what it becomes in the
    end: "", "detached" or "booleans".
    """

    __slots__ = ("handles", "k", "kind", "shape", "size", "tensor")
    tensor: torch.Tensor

    def __init__(
        self, size: int, handles: list[int], shape: Sequence[int], k: int | None = None, kind: str = ""
    ) -> None:
        self.size, self.handles, self.shape, self.k, self.kind = size, handles, shape, k, kind

    @property
    def stacked(self) -> tuple[int, ...]:
        """The shape with the dimension of the values first."""
        if not self.k:
            return tuple(self.shape)
        return (len(self.handles), *sized(self.shape, self.k))

    def made(self) -> torch.Tensor:
        """Return the tensor in its shape, and release it, since it may hold the place itself."""
        found = self.tensor.movedim(0, self.k) if self.k else self.tensor
        del self.tensor
        if not self.kind:
            return found
        return found.detach() if self.kind == "detached" else found.bool()


def noted(x: Any, places: list[Place]) -> Any:
    """Return a program's result with places for values that are computed later, and add these to `places`."""
    if isinstance(x, Value):
        kind = "detached" if x.detached_ else ""  # type: ignore[attr-defined]
        return _added(places, Place(x._size, [x.ref], x.shape, None, kind))
    if type(x) in (list, tuple):
        return x if PLAIN.issuperset(map(type, x)) else type(x)([noted(y, places) for y in x])
    if isinstance(x, Stack):
        if not x.rows:
            return torch.zeros(x.shape_)
        return _added(places, Place(x.rows[0]._size, x.rows[0].handles_(x.rows), x.shape_, x.k))
    if isinstance(x, Concat | Derived | Pairs):
        return noted(x.value(), places)
    if isinstance(x, Ints):
        return x.tensor()
    if isinstance(x, Pair):
        return noted(getattr(torch.return_types, x.kind)([x.values, x.indices]), places)
    if isinstance(x, Comparison):
        found = noted(x.tensor(), places)
        found.kind = "booleans"
        return found
    return _mapped(x, lambda y: noted(y, places))


def _added(places: list[Place], place: Place) -> Place:
    places.append(place)
    return place


def filled(x: Any) -> Any:
    """Replace the places in a result by tensors."""
    if type(x) is Place:
        return x.made()
    if type(x) in (list, tuple):
        return x if PLAIN.issuperset(map(type, x)) else type(x)([filled(y) for y in x])
    return _mapped(x, filled)


def _mapped(x: Any, change: Callable[[Any], Any]) -> Any:
    """A dict, a named tuple or a dataclass with its fields changed; anything else as it is."""
    if type(x) in PLAIN:
        return x
    if type(x) is dict:
        return {k: change(v) for k, v in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(change, x))
    if type(x).__module__ == "torch.return_types":
        return type(x)(list(map(change, x)))
    if is_dataclass(x) and not isinstance(x, type):
        found = copy.copy(x)
        for f in fields(x):
            object.__setattr__(found, f.name, change(getattr(x, f.name)))
        return found
    return x


def grouped(places: Iterable[Place]) -> Groups:
    """Collect places by the size of their values and their form: those of a size in the order of forms."""
    found: Groups = {}
    for place in places:
        found.setdefault((place.size, _form(place)), []).append(place)
    return {key: found[key] for key in sorted(found)}


def _form(place: Place) -> int:
    """What a place is among the rows of its size: some of them, some of their numbers, or a view."""
    stacked = place.stacked
    if len(stacked) == 1:
        return FLAT
    return ROWS if stacked == (len(place.handles), place.size) else VIEW


def handles_of(groups: Groups) -> dict[int, list[int]]:
    """Collect the handles of all places, in order, by the size of their values."""
    found: dict[int, list[int]] = {}
    for (size, _), some in groups.items():
        found.setdefault(size, []).extend(chain.from_iterable([place.handles for place in some]))
    return found


def parted(groups: Groups, rows: Mapping[int, Any]) -> list[tuple[int, Any]]:
    """Divide the rows (m, size) of each size: a part for each group, for each place that is a view."""
    begins, parts = dict.fromkeys(rows, 0), []
    for (size, form), some in groups.items():
        own, begin = rows[size], begins[size]
        ends = [*accumulate([len(place.handles) for place in some], initial=begin)]
        begins[size] = ends[-1]
        if form == VIEW:
            both = zip(some, pairwise(ends), strict=True)
            parts += [(size, own[low:end].reshape(place.stacked)) for place, (low, end) in both]
        else:
            part = own[begin : ends[-1]]
            parts.append((size, part.reshape(-1) if form == FLAT else part))
    return parts


def share(groups: Groups, parts: Iterable[torch.Tensor]) -> None:
    """Fill places with their shares of the parts, as tensors: none is a view of another to PyTorch."""
    left = iter(parts)
    for (size, form), some in groups.items():
        if form == VIEW:
            shares: Iterable[torch.Tensor] = left
        else:
            each = size if form == FLAT else 1
            shares = torch.unsafe_split_with_sizes(next(left), [each * len(place.handles) for place in some])
        for place, tensor in zip(some, shares, strict=False):
            place.tensor = tensor


def fill(places: Sequence[Place], runner: BatchRunner) -> None:
    """Fill places with the values of a mini-batch, without gradients."""
    groups = grouped(places)
    rows = {size: np.ascontiguousarray(runner.values(some)) for size, some in handles_of(groups).items()}
    share(groups, [torch.from_numpy(part) for _, part in parted(groups, rows)])
