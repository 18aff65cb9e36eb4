"""Arguments of a region: their kinds, their symbols, and guards that recognise a kind.

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
from abw.torch.tracing.symbols import CannotTrace, Index, K, numel, sized
from abw.torch.tracing.trace import MEANINGS, Indices, Trace, Traced, TracedList

CONSTANTS = (bool, str, float, torch.dtype, torch.device, slice, type(Ellipsis), torch.Size)


class StructuralError(Exception):
    """A region is given arguments that are neither tensors nor numbers: those at `paths`."""

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
        """Return an argument's kind; add what varies to `flat`. Errors: StructuralError, CannotTrace."""
        return self._taken(x, path, flat, None)[0]

    def symbols(self, trace: Trace, args: Any) -> list[Any]:
        """The symbols of all arguments."""
        flat: list[Any] = []
        self.slots = {}
        return [self._taken(x, (i,), flat, trace)[1] for i, x in enumerate(args)]

    def _taken(self, x: Any, path: Any, flat: list[Any], trace: Any) -> tuple[Any, Any]:
        """What kind of argument it is, and, where code is traced, its symbol."""
        cls: Any = type(x)
        slot, given = len(flat), _nothing if trace is None else trace.input
        if issubclass(cls, Value):
            if cls.detached_ and self.cells.learns():
                raise CannotTrace(
                    "a detached tensor is computed with: it has no gradient, and cells would give one"
                )
            flat.append(x)
            self.slots[path] = slot
            return cls, given(tuple(x.shape), ("value", slot, cls))
        if cls is int or issubclass(cls, np.integer):
            if path in self.constants or self.constant:
                return ("i", int(x)), int(x)
            flat.append(int(x))
            return "int", Index(trace, path, slot)
        if cls is Stack:
            return self._stack(x, path, flat, trace)
        if cls is Concat:
            return self._concat(x, path, flat, trace)
        if isinstance(x, Ints):
            one, at = len(x.items) == 1, _wide(x.shape_)
            flat.append(x.items[0] if one else x.items)
            shape = x.shape_ if one else sized(x.shape_, at, K)
            return ("index", one, shape), Indices(Index(trace, path, slot, rows=not one), shape)
        if cls is tuple or cls is list:
            if path not in self.fixed and self.alike(x):
                flat.append(x)
                shape, kind = tuple(x[0].shape), type(x[0])
                element = given((K, *shape), ("rows", slot, kind), row=True)
                if element is not None:
                    element = TracedList(Traced(trace, element.v, shape))
                return ("list", cls, kind), element
            pairs = [self._taken(y, (*path, i), flat, trace) for i, y in enumerate(x)]
            return (cls, *[key for key, _ in pairs]), cls(symbol for _, symbol in pairs)
        if cls is float and path in self.varying:
            flat.append(torch.tensor(x))
            return "float", given((), ("tensor", slot, ()))
        if x is None or cls in CONSTANTS:
            return ("constant", cls, repr(x) if cls is slice else x), x
        if issubclass(cls, torch.Tensor):
            return self._tensor(x, path, flat, trace)
        if issubclass(cls, Comparison):
            key, symbol = self._taken(x.tensor(), path, flat, trace)
            if symbol is not None:
                symbol.boolean = True
            return ("flags", key), symbol
        if cls is Pair:
            raise CannotTrace(f"the pair of torch.{x.kind} is given to an operation: take its values")
        if cls is dict:
            taken = {k: self._taken(v, (*path, k), flat, trace) for k, v in x.items()}
            keys = [(k, key) for k, (key, _) in taken.items()]
            return (dict, *keys), {k: symbol for k, (_, symbol) in taken.items()}
        raise StructuralError([path])

    def _stack(self, x: Stack, path: Any, flat: list[Any], trace: Any) -> tuple[Any, Any]:
        slot, classes = len(flat), [type(row) for row in x.rows]
        if path in self.fixed:
            flat.extend(x.rows)
            key = ("fixed", x.k, x.shape_, *classes)
            if trace is None:
                return key, None
            given = [trace.input(tuple(c.shape), ("value", slot + i, c)) for i, c in enumerate(classes)]
            parts = [MEANINGS["view"](part, sized(x.shape_, x.k, 1)) for part in given]
            return key, MEANINGS["cat"](parts, x.k)
        if not self.alike(x.rows):
            x.rows = [self.cells.as_class(row, classes[0]) for row in x.rows]
        flat.append(x.rows)
        shape = sized(x.shape_, x.k, K)
        symbol = trace and trace.input(shape, ("rows", slot, classes[0]), row=True)
        return ("K", x.k, shape, classes[0]), symbol

    def _concat(self, x: Concat, path: Any, flat: list[Any], trace: Any) -> tuple[Any, Any]:
        if path in self.copied:
            return self._taken(x.value(), path, flat, trace)
        pairs = [self._taken(y, (*path, i), flat, trace) for i, y in enumerate(x.parts)]
        key = ("joined", x.ends, *[key for key, _ in pairs])
        if trace is None:
            return key, None
        vectors = [MEANINGS["view"](part, (numel(part.shape_),)) for _, part in pairs]
        return key, Traced(trace, MEANINGS["cat"](vectors, 0).v, x.shape_)

    def _tensor(self, x: torch.Tensor, path: Any, flat: list[Any], trace: Any) -> tuple[Any, Any]:
        names, base, shape = self.cells.names, x._base, tuple(x.shape)
        if isinstance(x, torch.nn.Parameter) or id(x) in names:
            return ("param", id(x)), trace and trace.param(x)
        if base is not None and id(base) in names:
            part = trace and trace.part(x)
            if trace is not None and part is None:
                raise CannotTrace("a part of a parameter that is no run of rows")
            return ("part", id(base), x.storage_offset(), shape, x.stride()), part
        if x.requires_grad:
            raise CannotTrace(
                "a tensor of the instance requires gradients: abw.torch gives those of parameters"
            )
        boolean = x.dtype is torch.bool
        if x.dtype is not torch.float32 and not boolean:
            if x.dtype.is_floating_point or x.dtype.is_complex:
                raise CannotTrace(f"a tensor of {x.dtype}: float32 is wanted, x.float()")
            return self._taken(Ints(x.reshape(-1).tolist(), shape), path, flat, trace)
        if x.numel() == 0:
            raise CannotTrace("a tensor without elements")
        x = self.cells.as_float(x) if boolean else x
        slot, given, wide = (
            len(flat),
            _nothing if trace is None else trace.input,
            sum(s != 1 for s in shape) > 1,
        )
        if wide and path not in self.fixed:
            at = _wide(shape)
            flat.append(self.cells.given_rows(x, at))
            key: Any = ("tensors", at, sized(shape, at, K), boolean)
            symbol = given(sized(shape, at, K), ("tensors", slot, sized(shape, at)), row=True)
        else:
            flat.append(x.reshape(-1) if wide else x)
            key = ("tensor", shape, boolean)
            symbol = given(shape, ("tensor", slot, (x.numel(),) if wide else shape))
        if symbol is not None:
            symbol.boolean = boolean
        return key, symbol


def _nothing(*_: Any, **__: Any) -> Any:
    return None


def _wide(shape: Any) -> int:
    """The first dimension that is not 1."""
    return next((i for i, s in enumerate(shape) if s != 1), 0)


def has_values(x: Any) -> bool:
    """Whether something is a value that was recorded."""
    return isinstance(x, Value | Stack | Concat | Comparison | Pair)


def has_tensors(x: Any) -> bool:
    """Whether nested lists contain a stand-in for a tensor."""
    if isinstance(x, tuple | list):
        return any(map(has_tensors, x))
    if isinstance(x, dict):
        return any(map(has_tensors, x.values()))
    return isinstance(x, Value | Stack | Concat | Ints | Comparison | torch.Tensor)


def guard(kinds: Kinds, x: Any, path: Any, e: str, note: Any, looks: bool) -> Any:
    """Write Python that checks whether the expression `e` is of the kind of `x`, and that reads what varies.

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
    if cls is Ints and len(x.items) > 1 and len(x.shape_) == 1 and path not in kinds.fixed:
        return [f"{e}.__class__ is Ints and len({e}.items) > 1 and len({e}.shape_) == 1"], [f"{e}.items"]
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
    names = kinds.cells.names
    own = cls is torch.Tensor and not {id(x), id(x._base)} & names.keys()
    if own and x.dtype is torch.int64 and x.dim() == 1 and len(x) > 1 and path not in kinds.fixed:
        tests = [f"{e}.__class__ is Tensor and {e}.dtype is int64 and {e}.dim() == 1 and len({e}) > 1"]
        return [*tests, f"not {{id({e}), id({e}._base)}} & {note('names', names)}.keys()"], [f"{e}.tolist()"]
    if own and x.dtype is torch.float32 and not x.requires_grad and sum(s != 1 for s in x.shape) <= 1:
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
