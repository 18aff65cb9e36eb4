"""Arguments of a region: what kind each is of, the symbol that stands for it, and how a kind is recognised.

Arguments of one kind are traced once: values of one class, integers (rows of an embedding), lists of any
length of values of one class, tensors of one shape. What varies within a kind is put into `flat`, one slot
for each. `path` says where an argument is: (2, 0) is the first element of the third argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from abw.core.program.recording.values import Value
from abw.torch.recording.decisions import Comparison, Pair
from abw.torch.recording.standins import Concat, Ints, Stack
from abw.torch.tracing.symbols import CannotTrace, Index, K, numel
from abw.torch.tracing.trace import MEANINGS, Indices, Trace, Traced, TracedList

CONSTANTS = (bool, str, float, torch.dtype, torch.device, slice, type(Ellipsis), torch.Size)


class StructuralError(Exception):
    """A region is given what is neither a tensor nor a number; `paths` say which arguments."""

    def __init__(self, paths: list[tuple[Any, ...]]) -> None:
        super().__init__(str(paths))
        self.paths = paths


class Kinds:
    """How a region takes its arguments.

    `fixed`: lists that are traced element by element; `constants`: integers that are constants of the cell;
    `varying`: floats that differ from call to call; `copied`: concatenations that are copied first; `slots`:
    where values were put into `flat` by the last `symbols`.
    """

    def __init__(self, cells: Any, *, constant: bool) -> None:
        """`constant`: whether all integers are constants."""
        self.cells, self.constant = cells, constant
        self.fixed: set[Any] = set()
        self.constants: set[Any] = set()
        self.varying: set[Any] = set()
        self.copied: set[Any] = set()
        self.slots: dict[Any, int] = {}
        self._floats: dict[Any, float] = {}
        self._joined: dict[Any, set[bool]] = {}

    def settle(self, args: Any) -> bool:
        """Note which floats vary, and which arguments are concatenations at some calls and values at others
        (they are copied then, so that all calls are of one cell). Whether anything is new.
        """
        before = len(self.varying) + len(self.copied)
        for i, x in enumerate(args):
            self._settle(x, (i,))
        return len(self.varying) + len(self.copied) > before

    def _settle(self, x: Any, path: Any) -> None:
        if type(x) is float and not self.constant:
            if self._floats.setdefault(path, x) != x:
                self.varying.add(path)
        elif isinstance(x, Concat | Value):
            kinds = self._joined.setdefault(path, set())
            kinds.add(type(x) is Concat)
            if len(kinds) == 2:
                self.copied.add(path)
        elif isinstance(x, list | tuple):
            for i, y in enumerate(x):
                self._settle(y, (*path, i))

    def lists(self, args: Any) -> set[Any]:
        """The paths of lists and stacks of values."""
        found = set()

        def walk(x: Any, path: Any) -> None:
            if (
                isinstance(x, Stack)
                or (isinstance(x, torch.Tensor) and sum(s != 1 for s in x.shape) > 1)
                or (isinstance(x, Ints) and len(x.items) != 1)
            ):
                found.add(path)
            elif isinstance(x, list | tuple):
                if x and isinstance(x[0], Value):
                    found.add(path)
                for i, y in enumerate(x):
                    walk(y, (*path, i))

        for i, x in enumerate(args):
            walk(x, (i,))
        return found

    def alike(self, x: Any) -> bool:
        """Whether a list holds values of one class."""
        cls = type(x[0]) if x else None
        return cls is not None and issubclass(cls, Value) and all(type(y) is cls for y in x)

    def key(self, x: Any, path: Any, flat: list[Any]) -> Any:
        """What kind of argument it is. Errors: StructuralError, CannotTrace."""
        cls: Any = type(x)
        if issubclass(cls, Value):
            if cls.detached_ and self.cells.learns():
                raise CannotTrace(
                    "a detached tensor is computed with: it has no gradient, and cells would give one"
                )
            flat.append(x)
            return cls
        if cls is int or issubclass(cls, np.integer):
            if path in self.constants or self.constant:
                return ("i", int(x))
            flat.append(int(x))
            return "int"
        if cls is Stack:
            if path in self.fixed:
                flat.extend(x.rows)
                return ("fixed", x.k, x.shape_, *map(type, x.rows))
            if not self.alike(x.rows):
                x.rows = [self.cells.as_class(row, type(x.rows[0])) for row in x.rows]
            flat.append(x.rows)
            return ("K", x.k, _without(x.shape_, x.k), type(x.rows[0]))
        if cls is Concat:
            if path in self.copied:
                return self.key(x.value(), path, flat)
            return ("joined", x.ends, *[self.key(y, (*path, i), flat) for i, y in enumerate(x.parts)])
        if isinstance(x, Ints):
            if len(x.items) == 1:
                flat.append(x.items[0])
                return ("index", x.shape_)
            at = _wide(x.shape_)
            flat.append(x.items)
            return ("indices", at, _without(x.shape_, at))
        if cls is tuple or cls is list:
            if path not in self.fixed and self.alike(x):
                flat.append(x)
                return ("list", cls, type(x[0]))
            return (cls, *[self.key(y, (*path, i), flat) for i, y in enumerate(x)])
        if cls is float and path in self.varying:
            flat.append(torch.tensor(x))
            return "float"
        if x is None or cls in CONSTANTS:
            return ("constant", cls, repr(x) if cls is slice else x)
        if issubclass(cls, torch.Tensor):
            return self._tensor_key(x, path, flat)
        if cls is Comparison:
            return self.key(x.tensor(), path, flat)
        if cls is Pair:
            raise CannotTrace("the pair of torch.max is given to an operation: take its values")
        if cls is dict:
            return (dict, *[(k, self.key(v, (*path, k), flat)) for k, v in x.items()])
        raise StructuralError([path])

    def _tensor_key(self, x: torch.Tensor, path: Any, flat: list[Any]) -> Any:
        if isinstance(x, torch.nn.Parameter) or id(x) in self.cells.names:
            return ("param", id(x))
        base = x._base
        if base is not None and id(base) in self.cells.names:
            return ("part", id(base), x.storage_offset(), tuple(x.shape), x.stride())
        if x.requires_grad:
            raise CannotTrace(
                "a tensor of the instance requires gradients: abw.torch gives those of parameters"
            )
        if x.dtype in (torch.float32, torch.bool):
            if x.numel() == 0:
                raise CannotTrace("a tensor without elements")
            at = _wide(x.shape)
            if x.dtype is torch.bool:
                x = x.float()
            if sum(s != 1 for s in x.shape) > 1:
                if path in self.fixed:
                    flat.append(x.reshape(-1))
                    return ("whole tensor", tuple(x.shape))
                flat.append(self.cells.given_rows(x, at))
                return ("tensors", at, _without(x.shape, at))
            flat.append(x)
            return ("tensor", tuple(x.shape))
        if x.dtype.is_floating_point or x.dtype.is_complex:
            raise CannotTrace(f"a tensor of {x.dtype}: float32 is wanted, x.float()")
        return self.key(Ints(x.reshape(-1).tolist(), tuple(x.shape)), path, flat)

    def symbols(self, trace: Trace, args: Any) -> list[Any]:
        """The symbols of all arguments."""
        self._trace, self._slots, self.slots = trace, 0, {}
        return [self._symbol(x, (i,)) for i, x in enumerate(args)]

    def _slot(self) -> int:
        self._slots += 1
        return self._slots - 1

    def _symbol(self, x: Any, path: Any) -> Any:
        trace, cls = self._trace, type(x)
        if issubclass(cls, Value):
            self.slots[path] = self._slot()
            return trace.input(tuple(x.shape), ("value", self.slots[path], cls))
        if cls is int or issubclass(cls, np.integer):
            if path in self.constants or self.constant:
                return int(x)
            return Index(trace, path, self._slot())
        if cls is Stack:
            if path in self.fixed:
                parts = [trace.input(tuple(r.shape), ("value", self._slot(), type(r))) for r in x.rows]
                shape = tuple(1 if i == x.k else s for i, s in enumerate(x.shape_))
                return MEANINGS["cat"]([MEANINGS["view"](part, shape) for part in parts], x.k)
            return self._rows(x.shape_, x.k, ("rows", self._slot(), type(x.rows[0])))
        if cls is Concat:
            if path in self.copied:
                return self._symbol(x.value(), path)
            parts = [self._symbol(y, (*path, i)) for i, y in enumerate(x.parts)]
            flat = [Traced(trace, trace.shaped(p.v, (numel(p.shape_),)), (numel(p.shape_),)) for p in parts]
            return Traced(trace, MEANINGS["cat"](flat, 0).v, x.shape_)
        if isinstance(x, Ints):
            if len(x.items) == 1:
                return Indices(Index(trace, path, self._slot()), x.shape_)
            at = _wide(x.shape_)
            shape = tuple(K if i == at else s for i, s in enumerate(x.shape_))
            return Indices(Index(trace, path, self._slot(), rows=True), shape)
        if cls is tuple or cls is list:
            if path not in self.fixed and self.alike(x):
                shape = tuple(x[0].shape)
                element = trace.input((K, *shape), ("rows", self._slot(), type(x[0])), row=True)
                return TracedList(Traced(trace, element.v, shape))
            return cls(self._symbol(y, (*path, i)) for i, y in enumerate(x))
        if cls is float and path in self.varying:
            return trace.input((), ("tensor", self._slot(), ()))
        if issubclass(cls, torch.Tensor):
            return self._tensor_symbol(x, path)
        if cls is Comparison:
            return self._symbol(x.tensor(), path)
        if cls is dict:
            return {k: self._symbol(v, (*path, k)) for k, v in x.items()}
        return x

    def _tensor_symbol(self, x: torch.Tensor, path: Any) -> Any:
        if isinstance(x, torch.nn.Parameter) or id(x) in self.cells.names:
            return self._trace.param(x)
        if x._base is not None and id(x._base) in self.cells.names:
            part = self._trace.part(x)
            if part is None:
                raise CannotTrace("a part of a parameter that is not a run of rows")
            return part
        if x.dtype in (torch.float32, torch.bool):
            if sum(s != 1 for s in x.shape) > 1 and path not in self.fixed:
                at = _wide(x.shape)
                return self._rows(tuple(x.shape), at, ("tensors", self._slot(), _dropped(x.shape, at)))
            if path in self.fixed and sum(s != 1 for s in x.shape) > 1:
                whole = self._trace.input((x.numel(),), ("tensor", self._slot(), (x.numel(),)))
                return MEANINGS["view"](whole, tuple(x.shape))
            return self._trace.input(tuple(x.shape), ("tensor", self._slot(), tuple(x.shape)))
        return self._symbol(Ints(x.reshape(-1).tolist(), tuple(x.shape)), path)

    def _rows(self, shape: Any, k: int, what: Any) -> Traced:
        return self._trace.input(tuple(K if i == k else s for i, s in enumerate(shape)), what, row=True)


def _wide(shape: Any) -> int:
    """The first dimension that is not 1."""
    return next((i for i, s in enumerate(shape) if s != 1), 0)


def _without(shape: Any, k: int) -> tuple[int, ...]:
    return tuple(0 if i == k else s for i, s in enumerate(shape))


def _dropped(shape: Any, k: int) -> tuple[int, ...]:
    return tuple(s for i, s in enumerate(shape) if i != k)


def has_values(x: Any) -> bool:
    """Whether something is a value that was recorded."""
    return isinstance(x, Value | Stack | Concat | Comparison | Pair)


def has_tensors(x: Any) -> bool:
    """Whether there is something that stands for a tensor in nested lists."""
    if isinstance(x, tuple | list):
        return any(map(has_tensors, x))
    if isinstance(x, dict):
        return any(map(has_tensors, x.values()))
    return isinstance(x, Value | Stack | Concat | Ints | Comparison | torch.Tensor)


def guard(kinds: Kinds, x: Any, path: Any, e: str, note: Any, looks: bool) -> Any:
    """Python that says whether the expression `e` is of the kind of `x`, and where what varies is had from.

    None where that is not known. `note(name, thing)` names a thing in the code; `looks`: whether a cell looks
    at the classes of values itself.
    """
    cls = type(x)
    if issubclass(cls, Value):
        return ([] if looks else [f"{e}.__class__ is {note('class', cls)}"]), [e]
    if cls is int:
        if path in kinds.constants or kinds.constant:
            return [f"{e}.__class__ is int and {e} == {x}"], []
        return [f"{e}.__class__ is int"], [e]
    if cls is Stack and path not in kinds.fixed:
        tests = [f"{e}.__class__ is Stack and {e}.k == {x.k}"]
        if not looks:
            tests.append(f"{e}.rows[0].__class__ is {note('class', type(x.rows[0]))}")
        return tests, [f"{e}.rows"]
    if cls is Ints and len(x.items) == 1:
        return [f"{e}.__class__ is Ints and {e}.shape_ == {x.shape_!r} and len({e}.items) == 1"], [
            f"{e}.items[0]"
        ]
    if cls is Concat and path in kinds.copied:
        return [f"{e}.__class__ is Concat"], [f"{e}.value()"]
    if cls is Concat:
        tests = [f"{e}.__class__ is Concat and {e}.ends == {x.ends!r} and len({e}.parts) == {len(x.parts)}"]
        return _guards(kinds, x.parts, path, f"{e}.parts", note, looks, tests)
    if cls is tuple or cls is list:
        if path not in kinds.fixed and kinds.alike(x):
            tests = [f"{e}.__class__ is {cls.__name__} and {e}"]
            return (tests if looks else [*tests, f"{e}[0].__class__ is {note('class', type(x[0]))}"]), [e]
        tests = [f"{e}.__class__ is {cls.__name__} and len({e}) == {len(x)}"]
        return _guards(kinds, x, path, e, note, looks, tests)
    if x is None or cls is bool:
        return [f"{e} is {x}"], []
    if cls is str or (cls is float and path not in kinds.varying):
        return [f"{e}.__class__ is {cls.__name__} and {e} == {x!r}"], []
    plain = (
        cls is torch.Tensor
        and x.dtype is torch.float32
        and not x.requires_grad
        and id(x) not in kinds.cells.names
        and (x._base is None or id(x._base) not in kinds.cells.names)
    )
    if plain and sum(s != 1 for s in x.shape) <= 1:
        tests = [f"{e}.__class__ is Tensor and not {e}.requires_grad"]
        return (tests if looks else [*tests, f"{e}.shape == {note('shape', x.shape)}"]), [e]
    return None


def _guards(kinds: Kinds, xs: Any, path: Any, e: str, note: Any, looks: bool, tests: list[str]) -> Any:
    slots: list[str] = []
    for i, y in enumerate(xs):
        found = guard(kinds, y, (*path, i), f"{e}[{i}]", note, looks)
        if found is None:
            return None
        tests, slots = tests + found[0], slots + found[1]
    return tests, slots
