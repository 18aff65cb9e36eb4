"""Arguments of a region: their kinds, their symbols, and guards that recognise a kind.

Arguments of one kind are traced once: values of one class, integers (rows of an embedding), lists of any
length of values of one class, tensors of one shape. What varies within a kind is put into `flat`, one slot
for each. `path` says where an argument is: (2, 0) is the first element of the third argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from abw.core.program.recording.values import Value
from abw.torch.recording.decisions import Comparison, Pair
from abw.torch.recording.pairs import Pairs
from abw.torch.recording.standins import Concat, Derived, Ints, Stack, StandIn
from abw.torch.tracing.scores import Scores, mask_of, may_be_mask
from abw.torch.tracing.symbols import CannotTrace, Index, Indices, K, numel, sized
from abw.torch.tracing.trace import MEANINGS, Trace, Traced, TracedList

CONSTANTS = (bool, str, float, torch.dtype, torch.device, slice, type(Ellipsis), torch.Size)
# A whole number that an operation computes with, and that has had more values, is an input of its cell.
MOST_INTEGERS = 8


class StructuralError(Exception):
    """A region is given arguments that are neither tensors nor numbers: those at `paths`."""

    def __init__(self, paths: list[tuple[Any, ...]]) -> None:
        super().__init__(str(paths))
        self.paths = paths


class Taken:
    """What is found in the arguments of a call.

    `flat`: what varies, a slot each. Where code is traced: `slots` of values, by their paths; `tests`, Python
    that holds of arguments of these kinds, each with what `%s` is in it, and whether a cell looks at that
    itself; `sources`, Python that reads what `flat` has; `known`: whether these recognise the kinds.
    """

    __slots__ = ("flat", "given", "known", "slots", "sources", "tests", "trace")

    def __init__(self, trace: Trace | None = None) -> None:
        self.trace, self.known = trace, True
        self.given: Callable[..., Any] = _nothing if trace is None else trace.input
        self.flat: list[Any] = []
        self.sources: list[str] = []
        self.slots: dict[Any, int] = {}
        self.tests: list[tuple[str, Any, bool]] = []

    def add(self, x: Any, source: str) -> int:
        """Add what varies; its slot."""
        self.flat.append(x)
        self.sources.append(source)
        if self.trace is not None and isinstance(x, list | tuple):
            self.trace.length = self.trace.length or len(x)
        return len(self.flat) - 1

    def test(self, text: str, thing: Any = None, looked: bool = False) -> None:
        """Add a test of what kind an argument is."""
        self.tests.append((text, thing, looked))

    def guard(self, note: Callable[[str, Any], str], looks: bool) -> tuple[list[str], list[str]] | None:
        """The tests and sources, None where the kinds are not known by them.

        `note(name, thing)` names a thing in the code; `looks`: whether a cell looks at the classes of values.
        """
        if not self.known:
            return None
        wanted = [(text, thing) for text, thing, looked in self.tests if not (looked and looks)]
        tests = [t if thing is None else t.replace("%s", note("kind", thing)) for t, thing in wanted]
        return tests, self.sources


class Kinds:
    """How a region takes its arguments.

    `fixed`: lists that are traced element by element; `constants`: integers that are constants of the cell;
    `varying`: numbers that are computed with and differ from call to call; `copied`: concatenations that are
    copied first; `rows`: what might be a mask and is none; `taken`: what the last `symbols` found.
    """

    def __init__(self, cells: Any, *, constant: bool, loose: bool) -> None:
        """`constant`: whether all integers are constants; `loose`: whether numbers may be operands."""
        self.cells, self.constant, self.loose = cells, constant, loose
        self.fixed: set[Any] = set()
        self._fixed: dict[Any, set[Any]] = {}
        self.constants: set[Any] = set()
        self.varying: set[Any] = set()
        self.copied: set[Any] = set()
        self.rows: set[Any] = set()
        self.taken = Taken()
        self._numbers: dict[Any, set[float]] = {}
        self._joined: dict[Any, set[bool]] = {}

    def look(self, args: Any) -> None:
        """Take lists as in arguments like these before: of a single operation those of these classes."""
        self.fixed = self._fixed.setdefault(tuple(map(type, args)) if self.constant else None, set())

    def settle(self, args: Any) -> bool:
        """Note which numbers vary, and which arguments are concatenations at some calls and values at others
        (they are copied then, so that all calls are of one cell). Whether anything is new.
        """
        before = len(self.varying) + len(self.copied)
        for path, x in _parts(args):
            if type(x) is float or (type(x) is int and self.constant):
                known = self._numbers.setdefault(path, set())
                known.add(x)
                if self.loose and len(known) > (1 if type(x) is float else MOST_INTEGERS):
                    self.varying.add(path)
            elif isinstance(x, Concat | Value):
                kinds = self._joined.setdefault(path, set())
                kinds.add(type(x) is Concat)
                if len(kinds) == 2:
                    self.copied.add(path)
        return len(self.varying) + len(self.copied) > before

    def refined(self, args: Any, lists: bool) -> bool:
        """Fix all lists and stacks of values, or let all floats vary. Whether there are any that were not."""
        known = self.fixed if lists else self.varying
        wanted = _is_list if lists else lambda x: type(x) is float and self.loose
        more = {path for path, x in _parts(args) if wanted(x)} - known
        known |= more
        return bool(more)

    def longest(self, args: Any) -> int:
        """How long the longest list is that is traced element by element."""
        found = [x for path, x in _parts(args) if path in self.fixed and _is_list(x)]
        sizes = [
            len(x.rows) if isinstance(x, Stack) else x.shape[-1] if isinstance(x, Pairs) else 0 for x in found
        ]
        return max([*sizes, *(len(x) for x in found if isinstance(x, list | tuple))], default=0)

    def alike(self, x: Any) -> bool:
        """Whether a list holds values of one class."""
        cls = type(x[0]) if x else None
        return cls is not None and issubclass(cls, Value) and all(type(y) is cls for y in x)

    def key(self, args: Any, to: Taken) -> Any:
        """Return the kinds of arguments; add what varies to `to`. Errors: StructuralError, CannotTrace."""
        return tuple([self._taken(x, (i,), "", to)[0] for i, x in enumerate(args)])

    def symbols(self, trace: Trace, args: Any) -> list[Any]:
        """The symbols of all arguments, whose names are a0, a1, …"""
        self.taken = Taken(trace)
        trace.flat = self.taken.flat
        return [self._taken(x, (i,), f"a{i}", self.taken)[1] for i, x in enumerate(args)]

    def _taken(self, x: Any, path: Any, e: str, to: Taken) -> tuple[Any, Any]:
        """What kind of argument it is, and, where code is traced, its symbol. `e`: Python that reads it."""
        cls: Any = type(x)
        if issubclass(cls, Value):
            self.cells.refuse_detached((x,))
            to.test(f"{e}.__class__ is %s", cls, looked=True)
            slot = to.slots[path] = to.add(x, e)
            return cls, to.given(tuple(x.shape), ("value", slot, cls))
        if cls in (int, float) and path in self.varying:
            to.test(f"({e}.__class__ is float or {e}.__class__ is int)")
            slot = to.add(torch.tensor(float(x)), f"tensor(float({e}))")
            return "number", to.given((), ("tensor", slot, ()))
        if cls is int or issubclass(cls, np.integer):
            to.known &= cls is int
            if path in self.constants or self.constant:
                to.test(f"{e}.__class__ is int and {e} == {x}")
                return ("i", int(x)), int(x)
            to.test(f"{e}.__class__ is int")
            return "int", Index(to.trace, path, to.add(int(x), e))
        if cls is Stack:
            return self._stack(x, path, e, to)
        if cls is Concat:
            return self._concat(x, path, e, to)
        if isinstance(x, Ints):
            return self._ints(x, path, e, to)
        if cls is Pairs:
            return self._pairs(x, path, e, to)
        if cls is tuple or cls is list:
            if path not in self.fixed and self.alike(x):
                self.cells.refuse_detached(x[:1])
                to.test(f"{e}.__class__ is {cls.__name__} and {e}")
                to.test(f"{e}[0].__class__ is %s", type(x[0]), looked=True)
                shape, kind = tuple(x[0].shape), type(x[0])
                element = to.given((K, *shape), ("rows", to.add(x, e), kind), row=True)
                if element is not None:
                    element = TracedList(Traced(element.trace, element.v, shape))
                return ("list", cls, kind), element
            to.test(f"{e}.__class__ is {cls.__name__} and len({e}) == {len(x)}")
            pairs = [self._taken(y, (*path, i), f"{e}[{i}]", to) for i, y in enumerate(x)]
            return (cls, *[key for key, _ in pairs]), cls(symbol for _, symbol in pairs)
        if x is None or cls in CONSTANTS:
            ends = (x.start, x.stop, x.step) if cls is slice else ()
            plain = cls in (str, float, slice) and all(end is None or type(end) is int for end in ends)
            to.known &= x is None or cls is bool or plain
            to.test(f"{e} is {x}" if x is None or cls is bool else f"{e}.__class__ is {cls.__name__}")
            if plain:
                to.test(f"{e} == %s", x)
            return ("constant", cls, repr(x) if cls is slice else x), x
        if issubclass(cls, torch.Tensor):
            return self._tensor(x, path, e, to)
        if cls is Derived:
            to.test(f"{e} is %s", x)
            return ("derived", id(x)), to.trace and to.trace.again(x.source)
        to.known = False
        if issubclass(cls, Comparison):
            key, symbol = self._taken(x.tensor(), path, e, to)
            if symbol is not None:
                symbol.boolean = True
            return ("flags", key), symbol
        if cls is Pair:
            raise CannotTrace(f"the pair of torch.{x.kind} is given to an operation: take its values")
        if cls is dict:
            taken = {k: self._taken(v, (*path, k), e, to) for k, v in x.items()}
            keys = [(k, key) for k, (key, _) in taken.items()]
            return (dict, *keys), {k: symbol for k, (_, symbol) in taken.items()}
        raise StructuralError([path])

    def _ints(self, x: Ints, path: Any, e: str, to: Taken) -> tuple[Any, Any]:
        one, at = len(x.items) == 1, _wide(x.shape_)
        if one:
            to.test(f"{e}.__class__ is Ints and {e}.shape_ == {x.shape_!r} and len({e}.items) == 1")
        else:
            to.test(f"{e}.__class__ is Ints and len({e}.items) > 1 and len({e}.shape_) == 1")
        to.known &= type(x) is Ints and (one or (len(x.shape_) == 1 and path not in self.fixed))
        return _indices(x, at, path, f"{e}.items[0]" if one else f"{e}.items", to)

    def _stack(self, x: Stack, path: Any, e: str, to: Taken) -> tuple[Any, Any]:
        trace, classes = to.trace, [type(row) for row in x.rows]
        self.cells.refuse_detached(x.rows)
        if path in self.fixed:
            to.known = False
            slots = [to.add(row, e) for row in x.rows]
            key = ("fixed", x.k, x.shape_, *classes)
            if trace is None:
                return key, None
            given = [
                trace.input(tuple(c.shape), ("value", slot, c))
                for slot, c in zip(slots, classes, strict=True)
            ]
            parts = [MEANINGS["view"](part, sized(x.shape_, x.k, 1)) for part in given]
            return key, MEANINGS["cat"](parts, x.k)
        if x.rows and not self.alike(x.rows):
            x.rows = [self.cells.as_class(row, classes[0]) for row in x.rows]
        to.test(f"{e}.__class__ is Stack and {e}.k == {x.k}")
        kind = classes[0] if classes else self.cells.value_class(sized(x.shape_, x.k))
        to.test(f"{e}.rows and {e}.rows[0].__class__ is %s", kind, looked=True)
        slot, shape = to.add(x.rows, f"{e}.rows"), sized(x.shape_, x.k, K)
        return ("K", x.k, shape, kind), to.given(shape, ("rows", slot, kind), row=True)

    def _concat(self, x: Concat, path: Any, e: str, to: Taken) -> tuple[Any, Any]:
        if path in self.copied:
            to.test(f"{e}.__class__ is Concat")
            return self._taken(x.value(), path, f"{e}.value()", to)
        to.test(f"{e}.__class__ is Concat and {e}.ends == {x.ends!r} and len({e}.parts) == {len(x.parts)}")
        pairs = [self._taken(y, (*path, i), f"{e}.parts[{i}]", to) for i, y in enumerate(x.parts)]
        key = ("joined", x.ends, *[key for key, _ in pairs])
        if to.trace is None:
            return key, None
        vectors = [MEANINGS["view"](part, (numel(part.shape_),)) for _, part in pairs]
        return key, Traced(to.trace, MEANINGS["cat"](vectors, 0).v, x.shape_)

    def _pairs(self, x: Pairs, path: Any, e: str, to: Taken) -> tuple[Any, Any]:
        to.test(f"{e}.__class__ is Pairs and {e}.fill == %s and {e}.weights is {x.weights}", x.fill)
        names = ("query", "keys", "hidden")
        parts = [self._taken(getattr(x, name), path, f"{e}.{name}", to) for name in names]
        key = ("pairs", *[key for key, _ in parts], x.fill, x.weights)
        if to.trace is None:
            return key, None
        query, keys, hidden = (symbol for _, symbol in parts)
        found = MEANINGS["matmul"](query, keys)
        found = found if hidden is None else found.masked_fill(hidden, x.fill)
        found = found.softmax(-1) if x.weights else found
        if isinstance(found, Scores):
            found.given = True
        return key, found

    def _tensor(self, x: torch.Tensor, path: Any, e: str, to: Taken) -> tuple[Any, Any]:
        names, shape, trace = self.cells.names, tuple(x.shape), to.trace
        wide, at = sum(s != 1 for s in shape) > 1, _wide(shape)
        if isinstance(x, torch.nn.Parameter) or id(x) in names:
            to.test(f"{e} is %s", x)
            return ("param", id(x)), trace and trace.param(x)
        if x.requires_grad:
            raise CannotTrace(
                "a tensor of the instance requires gradients: abw.torch gives those of parameters"
            )
        boolean = x.dtype is torch.bool
        if not {path} & (self.rows | self.fixed) and may_be_mask(x):
            slot, ones = to.add(x, e), tuple(s == 1 for s in shape)
            to.test(f"is_mask({e}, %s, {ones})", x.dtype)
            return ("mask", ones, x.dtype), trace and mask_of(trace, path, x, slot)
        if x.dtype is not torch.float32 and not boolean:
            if x.dtype.is_floating_point or x.dtype.is_complex:
                raise CannotTrace(f"a tensor of {x.dtype}: float32 is wanted, x.float()")
            plain = type(x) is torch.Tensor and x.dtype is torch.int64 and path not in self.fixed
            to.known &= plain and len(shape) == 1 and shape[0] > 1
            to.test(f"{e}.__class__ is Tensor and {e}.dtype is int64 and {e}.dim() == 1 and len({e}) > 1")
            to.test(f"not {{id({e}), id({e}._base)}} & %s.keys()", names)
            return _indices(Ints(x.reshape(-1).tolist(), shape), at, path, f"{e}.tolist()", to)
        if x.numel() == 0:
            raise CannotTrace("a tensor without elements")
        to.known &= type(x) is torch.Tensor and not boolean and not wide
        to.test(f"{e}.__class__ is Tensor and {e}.dtype is float32 and not {e}.requires_grad")
        to.test(f"{e}.shape == %s", x.shape, looked=True)
        x = self.cells.as_float(x) if boolean else x
        if wide and path not in self.fixed:
            key: Any = ("tensors", at, sized(shape, at, K), boolean)
            what = ("tensors", to.add(self.cells.given_rows(x, at), e), sized(shape, at))
            symbol = to.given(sized(shape, at, K), what, row=True)
        else:
            key, flat = ("tensor", shape, boolean), x.reshape(-1) if wide else x
            symbol = to.given(shape, ("tensor", to.add(flat, e), tuple(flat.shape)))
        if symbol is not None:
            symbol.boolean = boolean
        return key, symbol


def _indices(x: Ints, at: int, path: Any, source: str, to: Taken) -> tuple[Any, Any]:
    """Whole numbers; of several, K is dimension `at`."""
    one = len(x.items) == 1
    shape = x.shape_ if one else sized(x.shape_, at, K)
    slot = to.add(x.items[0] if one else x.items, source)
    return ("index", one, shape), Indices(Index(to.trace, path, slot, rows=not one), shape)


def _is_list(x: Any) -> bool:
    """Whether something has rows that are traced one by one, if they are to be."""
    return (
        isinstance(x, Stack | Pairs)
        or (isinstance(x, torch.Tensor) and sum(s != 1 for s in x.shape) > 1)
        or (isinstance(x, Ints) and len(x.items) != 1)
        or (isinstance(x, list | tuple) and len(x) > 0 and isinstance(x[0], Value))
    )


def _parts(x: Any, path: Any = ()) -> Iterator[tuple[Any, Any]]:
    """What is in nested lists, lists too, with their paths."""
    for i, y in enumerate(x):
        yield (*path, i), y
        if isinstance(y, list | tuple):
            yield from _parts(y, (*path, i))


def _nothing(*_: Any, **__: Any) -> Any:
    return None


def _wide(shape: Any) -> int:
    """The first dimension that is not 1."""
    return next((i for i, s in enumerate(shape) if s != 1), 0)


def has_values(x: Any) -> bool:
    """Whether something is a value that was recorded."""
    return isinstance(x, Value | StandIn | Pair)


def has_tensors(x: Any) -> bool:
    """Whether nested lists contain a stand-in for a tensor."""
    if isinstance(x, tuple | list):
        return any(map(has_tensors, x))
    if isinstance(x, dict):
        return any(map(has_tensors, x.values()))
    return isinstance(x, Value | StandIn | Ints | torch.Tensor)
