"""The cells, tables and parameters of a PyTorch model: a library that grows as code is traced."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from abw.core.base.errors import AbwError, Span
from abw.core.exec.params import Params
from abw.core.exec.registry import executor_of
from abw.core.ir.cell import Cell, Op, Param, Port
from abw.core.ir.libraries import library_of, with_reduction, with_type
from abw.core.ir.model import Attention, Library, Table
from abw.core.ir.network import Constant
from abw.core.policy.registry import get_policy
from abw.core.program.network import constants_of, shapes_of
from abw.core.program.recording.recorder import Callee, Reduced
from abw.core.program.recording.values import BITS, SHAPES, Value, kind_of
from abw.core.program.session import How, Session
from abw.torch.recording.decisions import Comparison
from abw.torch.recording.standins import RECORDING, Concat, Stack, of_kind, plain
from abw.torch.recording.tensorlike import make_tensor_like
from abw.torch.tracing.symbols import CannotTrace, core
from abw.torch.tracing.trace import VIEWING, Indices, Traced

NOWHERE = Span("", 1)
# Tensors that a stretch of code may compute.
MOST_OUTPUTS = 16
# Operations that take no cell, by their names: (cells, *arguments), or NotImplemented.
DIRECT: dict[str, Callable[..., Any]] = {}
PACKAGES = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
_NUMBERS = count(1 << 11)  # beyond those of `abw.cells`


class RestartError(BaseException):
    """The model's functions must be rewritten, and the mini-batch recorded again."""


class MismatchError(Exception):
    """A cell is called with values of shapes for which it was not made."""


def _stacked(rows: Sequence[Any]) -> Any:
    """Stack tensors of one size."""
    if any(_version(row) != version for row, version in rows):
        raise AbwError(
            "a tensor of an instance is written in place after it has been used",
            hint="write to a copy: x.clone()",
        )
    tensors = [row for row, _ in rows]
    try:
        return torch.stack(tensors).detach().numpy()
    except RuntimeError:  # of several shapes
        return torch.stack([row.reshape(-1) for row in tensors]).detach().numpy()


def _version(tensor: torch.Tensor) -> int:
    """How often a tensor was written in place; not counted in inference mode."""
    try:
        return int(tensor._version)
    except RuntimeError:
        return -1


class TableRows(dict[int, Any]):
    """Rows of an embedding as values, by their numbers."""

    def __init__(self, cls: Any, first: int, rows: int) -> None:
        super().__init__()
        self._class, self._first, self._rows = cls, first, rows

    def __missing__(self, row: Any) -> Any:
        n = int(row)
        if not 0 <= n < self._rows:
            raise IndexError(f"index {n} is out of range: the embedding has {self._rows} rows")
        found = self._class()
        found.ref = ((-1 - self._first - n) << BITS) + self._class.kind_
        self[row] = found
        return found


class Cells:
    """The cells of a model. `stale`: whether its functions must be rewritten."""

    def __init__(
        self, model: torch.nn.Module, executor: str, policy: str, threads: int | None, one: Callable[..., Any]
    ) -> None:
        """`one(cells, name, arity, keywords)` makes a region of an operation, or None.

        Errors: AbwError for what cannot be batched.
        """
        self.model, self._one = model, one
        self.names = {id(p): n for n, p in (*model.named_parameters(), *model.named_buffers())}
        self.stale = self.exports = False
        self.traces: list[Any] = []
        self.params: list[torch.Tensor] = []
        self.tables: list[torch.Tensor] = []
        self.padding: dict[int, int] = {}
        self.notes: dict[str, str] = {}
        # What others may share the memory of: values by handles; zeros, which have one in common, by ids.
        self._shared: set[int] = set()
        self._shared_zeros: dict[int, Any] = {}
        self.origins: dict[int, str] = {}  # of types: the names of the first regions
        self.seen_elements: dict[Any, set[int]] = {}
        self.ops: dict[Any, Any] = {}
        # x[i] by the class of x and i
        self.elements: dict[tuple[type, int], Callable[[Any], Any]] = {}
        self.regions: list[Any] = []
        self._param_number: dict[tuple[int, tuple[int, ...]], int] = {}
        self._classes: dict[Any, Any] = {}
        self._types: dict[tuple[Cell, tuple[int, ...]], int] = {}
        self._reductions: dict[Any, int] = {}
        self._table_rows: dict[Any, TableRows] = {}
        self._given: dict[Any, Any] = {}
        self._hot: dict[tuple[int, int], torch.Tensor] = {}
        self._inputs: dict[int, Constant] = {}
        self._zeros: dict[int, int] = {}
        self._versions: Any = None
        self._held: list[torch.Tensor] = []
        self._bits: list[Any] = []
        self._moved = 0
        self._number = next(_NUMBERS)
        chosen, how = get_policy(policy), How(policy, threads, 0)
        self.session = Session(
            self._library(), executor_of(executor, "float32"), chosen, how, lambda _: self.arrays()
        )
        self.session.inputs.stack = _stacked
        self._define()

    def _library(self) -> Library:
        """The tables and vectors of the model."""
        tables: list[Table] = []
        for module in self.model.modules():
            if isinstance(module, torch.nn.Embedding) and not self._is_table(module.weight):
                if module.padding_idx is not None:
                    self.padding[id(module.weight)] = module.padding_idx
                rows, d = module.weight.shape
                tables.append(Table(f"t{len(tables)}", rows, (d,), None, None, NOWHERE))
                self.tables.append(module.weight)
        params: list[Param] = []
        for module in self.model.modules():
            own = () if type(module).__module__.startswith("torch.nn") else module._parameters.values()
            vectors = [p for p in own if p is not None and is_vector(p.shape)]
            new = {id(p): p for p in vectors if (id(p), core(p.shape)) not in self._param_number}
            params += [self._new_param(p, core(p.shape)) for p in new.values()]
        return library_of("torch", tables=tables, params=params, outputs=MOST_OUTPUTS)

    def _new_param(self, tensor: torch.Tensor, shape: tuple[int, ...]) -> Param:
        number = self._param_number[id(tensor), shape] = len(self.params)
        self.params.append(tensor)
        return Param(self._name(tensor, number), shape)

    def _name(self, tensor: torch.Tensor, number: int) -> str:
        return str(self.names.get(id(tensor), f"constant{number}")).replace(".", "-")

    def name_of(self, tensor: torch.Tensor) -> str:
        """Return PyTorch's name of a parameter, buffer or table."""
        return str(self.names.get(id(tensor), "constant"))

    def _is_table(self, weight: torch.Tensor) -> bool:
        return any(table is weight for table in self.tables)

    @property
    def library(self) -> Library:
        """The cells, tables and parameters so far."""
        return self.session.library

    def _define(self) -> None:
        """Number what the library has: shapes, zeros, what instances bring along."""
        library = self.library
        shapes = shapes_of(library)
        if len(shapes) > SHAPES:
            raise AbwError(f"the model's tensors have {len(shapes)} sizes, of at most {SHAPES}")
        self._kinds = {shape[0]: kind_of(self._number, n) for n, shape in enumerate(shapes)}
        self._constants = constants_of(library)
        for constant in self._constants:
            if constant.kind == "field":
                self._inputs[constant.shape[0]] = constant
            elif constant.kind == "zeros":
                self._zeros[constant.shape[0]] = (-1 - constant.first) << BITS

    # cells --------------------------------------------------------------------------------------------------
    def type_of(self, cell: Cell, params: Sequence[torch.Tensor]) -> int:
        """Return the type number of a cell with these parameters, which is added if it is new.

        Errors: CannotTrace for a cell with too many outputs.
        """
        key = cell, tuple(map(id, params))
        if key not in self._types:
            if len(cell.outputs) > MOST_OUTPUTS:
                raise CannotTrace(f"{len(cell.outputs)} tensors are computed in one stretch of code")
            number = self._types[key] = len(self.library.types)
            own: list[int | Param] = []
            for tensor, port in zip(params, cell.params, strict=True):
                known = self._param_number.get((id(tensor), port.shape))
                own.append(self._new_param(tensor, port.shape) if known is None else known)
            self._extend(with_type(self.library, replace(cell, name=f"cell{number}"), own))
        return self._types[key]

    def _extend(self, library: Library) -> None:
        self.session.extend(library)
        self._define()

    def reduction(self, how: Any, cls: Any) -> Callable[[Any], Any]:
        """The function that records the sum, mean or largest of a list of values of a class."""
        key = how, math.prod(cls.shape)
        if key not in self._reductions:
            self._reductions[key] = len(self.library.types)
            self._extend(with_reduction(self.library, how, [(key[1],)]))

        def others(_: Reduced, values: Any) -> Any:
            if len(values) == 1:
                return self.as_class(values[0], cls)
            return call([self.as_class(value, cls) for value in values])

        made = Reduced(how, self._reductions[key], cls, cls, cls.kind_)
        call = self.session.recorder.callable_reduction(made, others)
        return call

    def attention(self, heads: int, cls: Any, key_class: Any) -> Callable[..., list[Any]]:
        """The function that records attention over lists of values and keys, by each of several queries."""
        sizes = (cls._size,), (key_class._size,), (key_class._size,)
        kind = Attention(heads, scaled=False)
        if (kind, sizes) not in self._reductions:
            self._reductions[kind, sizes] = len(self.library.types)
            self._extend(with_reduction(self.library, kind, sizes))
        number, recorder = self._reductions[kind, sizes], self.session.recorder

        def attend(values: Any, keys: Any, queries: Any) -> list[Any]:
            n = len(values)
            if len(keys) != n:
                raise CannotTrace(f"attention over {n} values with {len(keys)} keys")
            lists = [[x.ref for x in xs] for xs in (values, keys, queries)]  # their kinds are checked later
            made = [cls() for _ in queries]
            if n == 1:
                refs: Iterable[int] = lists[0] * len(made)
            else:
                rows = np.empty((len(made), 1 + 3 * n), np.int64)
                rows[:, 0], rows[:, 1 : 1 + 2 * n] = n, lists[0] + lists[1]
                rows[:, 1 + 2 * n :] = np.array(lists[2])[:, None]
                first = recorder.nodes(number, rows) + cls.kind_
                refs = range(first, first + recorder.step * len(made), recorder.step)
            for one, ref in zip(made, refs, strict=True):
                one.ref = ref
            return made

        return attend

    def callee(
        self, number: int, inputs: Sequence[Any], outputs: Sequence[Any], refuse: Callable[..., Any]
    ) -> Any:
        """The function that records a call of a cell with values of these classes; others go to `refuse`.

        Errors: CannotTrace where a class has not the cell's shape.
        """
        cell = self.library.types[number].cell
        assert cell is not None
        ports = [*cell.inputs, *cell.output_ports]
        for port, cls in zip(ports, [*inputs, *outputs], strict=True):
            if (math.prod(cls.shape),) != port.shape:
                raise CannotTrace(f"a tensor of {math.prod(cls.shape)} numbers where a cell has {port.shape}")
        named = tuple((port.name, cls) for port, cls in zip(cell.inputs, inputs, strict=True))
        added = tuple((o << BITS) + cls.kind_ for o, cls in enumerate(outputs))
        callee = Callee(f"cell{number}", number, named, tuple(outputs), added)
        return self.session.recorder.callable_cell(callee, lambda callee, args: refuse(*args))

    def has_size(self, n: int) -> None:
        """Provide values of n numbers."""
        if n not in self._kinds:
            self.type_of(_same(n), [])

    # values -------------------------------------------------------------------------------------------------
    def value_class(self, shape: Sequence[int], detached: bool = False) -> Any:
        """The class of values of a logical shape; `detached` ones have no gradient."""
        key = (tuple(shape), detached)
        found = self._classes.get(key)
        if found is None:
            n = math.prod(shape)
            if n == 0:
                raise CannotTrace("a tensor without elements")
            self.has_size(n)
            found = self.session.recorder.value_class(self.session, (n,))
            make_tensor_like(self, found, key[0], self._kinds[n], detached)
            self._classes[key] = found
        return found

    def as_class(self, value: Any, cls: Any) -> Any:
        """The same value in another logical shape. Errors: CannotTrace for another number of elements."""
        if of_kind(value) != cls.kind_:
            raise CannotTrace(f"a tensor of shape {list(value.shape)} where {list(cls.shape)} is wanted")
        found = cls()
        found.ref = value.ref
        return found

    def viewed(self, value: Any, shape: Sequence[int]) -> Any:
        """A view of a value."""
        return self.view_as(value, self.value_class(shape, value.detached_))

    def view_as(self, value: Any, cls: Any) -> Any:
        """A view of a value, of a class of values of as many numbers. Errors: CannotTrace."""
        found = self.as_class(value, cls)
        self.share((value, found))
        return found

    def share(self, values: Iterable[Any]) -> None:
        """Note that others may share the memory of values: none of them can be written in place."""
        for value in values:
            if isinstance(value, Stack):
                self.share(value.rows)
            elif isinstance(value, Value) and value.ref >= 0:
                self._shared.add(value.ref)
            else:
                self._shared_zeros[id(value)] = value

    def as_value(self, x: Any, shape: Sequence[int]) -> Any:
        """Convert any stand-in for a tensor of this shape to one value. Errors: CannotTrace."""
        if isinstance(x, Concat):
            x = x.value()
        if isinstance(x, Comparison):
            x = x.tensor()
        if type(x) is torch.Tensor:
            x = self.given(x) if x.dtype is torch.float32 else x
        if not isinstance(x, Value) or tuple(x.shape) != tuple(shape):
            raise CannotTrace(f"a tensor of shape {list(shape)} is wanted")
        return x

    def detached(self, value: Any) -> Any:
        """`Tensor.detach`: in training a value that cells do not read."""
        if not self.learns():
            return value
        return self.view_as(value, self.value_class(value.shape, True))

    def zero(self, shape: Sequence[int]) -> Any:
        """Zeros of a logical shape: an object of its own."""
        found = self.value_class(shape)()
        found.ref = self._zeros[math.prod(shape)] + found.kind_
        return found

    def zeros(self, shape: Sequence[int]) -> Any:
        """Zeros as `torch.zeros` has them: of two dimensions as rows that can be written."""
        wide = [i for i, s in enumerate(shape) if s != 1]
        if len(wide) <= 1:
            return self.zero(shape)
        k = wide[0]
        rest = [s for i, s in enumerate(shape) if i != k]
        return Stack(self, [self.zero(rest) for _ in range(shape[k])], tuple(shape), k)

    def parameter(self, p: torch.Tensor) -> Any:
        """A vector of the model's as a value."""
        number = self._param_number[id(p), core(p.shape)]
        constant = next(c for c in self._constants if c.kind == "param" and c.number == number)
        found = self.value_class(tuple(p.shape))()
        found.ref = ((-1 - constant.first) << BITS) + found.kind_
        return found

    def rows_of(self, weight: torch.Tensor, shape: Sequence[int]) -> TableRows:
        """The rows of an embedding as values of a logical shape. Errors: CannotTrace."""
        key = id(weight), tuple(shape)
        if key not in self._table_rows:
            number = next((n for n, table in enumerate(self.tables) if table is weight), None)
            if number is None:
                raise CannotTrace("an embedding whose weight belongs to no nn.Embedding of the model")
            constant = next(c for c in self._constants if c.kind == "table" and c.number == number)
            self._table_rows[key] = TableRows(self.value_class(shape), constant.first, weight.shape[0])
        return self._table_rows[key]

    def given(self, tensor: torch.Tensor) -> Any:
        """Make a tensor of the instance a value. Errors: CannotTrace."""
        held, version = self._given.get(id(tensor)), _version(tensor)
        if held is not None:
            if held[2] != version:
                raise CannotTrace("a tensor is written in place after it was computed with")
            return held[1]
        if tensor.dtype is not torch.float32 or tensor.is_cuda:
            raise CannotTrace(f"a tensor of {tensor.dtype} on {tensor.device}: float32 on the CPU is wanted")
        shape = tensor.shape
        cls = self._classes.get((shape, False)) or self.value_class(tuple(shape))
        found, constant = cls(), self._inputs[cls._size]
        row = self.session.inputs.later(constant, (tensor, version))
        found.ref = ((-1 - constant.first - row) << BITS) + cls.kind_
        self._given[id(tensor)] = (tensor, found, version)
        return found

    def one_hot(self, n: int, i: int) -> torch.Tensor:
        """A vector of n zeros, with 1 at i: the same object each time."""
        if (n, i) not in self._hot:
            self._hot[n, i] = torch.zeros(n)
            self._hot[n, i][i] = 1.0
        return self._hot[n, i]

    def as_float(self, flags: torch.Tensor) -> torch.Tensor:
        """Booleans as numbers: the same object each time."""
        key = (id(flags), torch.float32)
        if key not in self._given:
            self._given[key] = (flags, flags.float())
        numbers: torch.Tensor = self._given[key][1]
        return numbers

    def given_rows(self, tensor: torch.Tensor, dim: int) -> list[torch.Tensor]:
        """Return the rows of a tensor of the instance; the same objects each time."""
        key = (id(tensor), dim)
        if key not in self._given:
            self._given[key] = (tensor, list(tensor.unbind(dim)))
        rows: list[torch.Tensor] = self._given[key][1]
        return rows

    def write(self, target: Any, made: Any) -> Any:
        """Write in place, as `x += y` does. Errors: CannotTrace if another tensor would see it."""
        if isinstance(target, Concat):
            self.write(target.value(), made)
            return target
        if (
            isinstance(target, Stack)
            and isinstance(made, Stack)
            and (made.k, made.shape_) == (target.k, target.shape_)
        ):
            for row, new in zip(target.rows, list(made.rows), strict=True):
                self.write(row, new)
            return target
        fresh = isinstance(target, Value) and (
            target.ref not in self._shared
            if target.ref >= 0
            else target.ref == self.zero(target.shape).ref and id(target) not in self._shared_zeros
        )
        if not fresh:
            raise CannotTrace("a tensor is written in place that others may share: write x = x + y")
        target.ref = self.as_value(made, target.shape).ref
        return target

    # running ------------------------------------------------------------------------------------------------
    def learns(self) -> bool:
        """Whether gradients are wanted."""
        return torch.is_grad_enabled() and any(p.requires_grad for p in self.model.parameters())

    def arrays(self) -> Params:
        """The parameters in PyTorch's own memory."""
        library = self.library
        values = [
            t.detach().numpy().reshape(p.shape) for t, p in zip(self.params, library.params, strict=True)
        ]
        return Params(tuple(values), tuple(table.detach().numpy() for table in self.tables))

    def versions(self) -> tuple[Any, ...]:
        """Return versions, which differ whenever a parameter was changed or replaced.

        PyTorch does not count what is written through `p.data`: the sums of the bits tell.
        """
        tensors = (*self.params, *self.tables)
        if len(self._held) != len(tensors) or not all(map(torch.Tensor.is_set_to, self._held, tensors)):
            self._held, self._moved = [t.detach() for t in tensors], self._moved + 1
            self._bits = [part for t in self._held if t.is_contiguous() for part in _bits(t)]
        return self._moved, *[t._version for t in tensors], *map(np.add.reduce, self._bits)

    def begin(self) -> None:
        """Get ready for a mini-batch, with the parameters as they are."""
        self.stale, self.waited = False, 0
        self._given.clear()
        self._shared.clear()
        self._shared_zeros.clear()
        versions, had = self.versions(), self.session._engine is not None
        engine = self.session.engine()
        if had and versions != self._versions:
            engine.update(self.arrays())
        self._versions = versions
        RECORDING.append(self)

    def end(self) -> None:
        """End what `begin` began."""
        RECORDING.pop()

    def waits(self) -> None:
        """Prepare for a program's wait; returns at once if everything is recorded again."""
        self.waited += 1
        if self.stale:
            raise RestartError

    # operations one by one ----------------------------------------------------------------------------------
    def op(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Record a single operation of PyTorch as a cell."""
        direct = DIRECT.get(name)
        if direct is not None:
            found = direct(self, *args, **kwargs)
            if found is not NotImplemented:
                return self._viewing(name, args[0], found)
        key = (name, len(args), tuple(kwargs))
        region = self.ops.get(key)
        if region is None:
            region = self._one(self, name, len(args), tuple(kwargs))
            if region is None:
                return self.by_torch(name, args, kwargs)
            self.ops[key] = region
        return self._viewing(name, args[0], region.quick(*args, *kwargs.values()))

    def _viewing(self, name: str, of: Any, found: Any) -> Any:
        """Note that what some operations give shares the memory of what it is made of."""
        if name in VIEWING:
            self.share((of, *(found if type(found) is tuple else (found,))))
        return found

    def element(self, x: Any, i: int) -> Any:
        """x[i]: a cell for each i, as long as these are few."""
        found = DIRECT["__getitem__"](self, x, i)
        if found is not NotImplemented:
            return self._viewing("__getitem__", x, found)
        shared = self._shared.add

        def install(function: Callable[[Any], Any]) -> None:
            def element(x: Any) -> Any:
                found = function(x)
                shared(x.ref)
                shared(found.ref)
                return found

            self.elements[type(x), i] = element

        return self._one(self, "__getitem__", 1, (), (i,), install).slow(x)

    def refuse_learning(self, what: str) -> None:
        """Refuse operations that PyTorch computes during recording if gradients are wanted."""
        if self.learns():
            raise AbwError(
                f"{place()}: {what} cannot be part of a cell, so no gradient would pass through it",
                hint="compute it outside of the model, rewrite it, or use torch.no_grad()",
            )

    def by_torch(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], why: str = "") -> Any:
        """Let PyTorch compute an operation, after waiting for its arguments."""
        if any(isinstance(a, Traced | Indices) for a in args):
            raise CannotTrace(f"torch.{name} has no counterpart in cells")
        reason = f" ({why})" if why else ""
        self.refuse_learning(f"torch.{name}{reason}")
        self.waits()
        self.note(f"torch.{name} is computed by PyTorch, one instance at a time: it is no cell{reason}")
        spaces = (torch.Tensor, torch, torch.nn.functional, torch.linalg, torch.special)
        found = next((getattr(space, name) for space in spaces if hasattr(space, name)), None)
        if found is None:
            raise CannotTrace(f"torch.{name} has no counterpart in cells")
        return found(*[plain(a) for a in args], **{k: plain(v) for k, v in kwargs.items()})

    def note(self, said: str) -> None:
        """Warn once of an operation that makes the model slow."""
        if said not in self.notes:
            self.notes[said] = place()
            warnings.warn(f"{self.notes[said]}: {said}", stacklevel=2)


def _bits(tensor: torch.Tensor) -> list[Any]:
    """A tensor's memory as whole numbers, of 8 bytes and what is left."""
    words = tensor.numpy().reshape(-1).view(np.int32)
    even = len(words) & ~1
    return [part for part in (words[:even].view(np.int64), words[even:]) if len(part)]


def _same(n: int) -> Cell:
    return Cell("cell", (Port("x0", (n,)),), (), (Op("identity", (0,), (n,)),), (("y0", 1),))


def is_vector(shape: Sequence[int]) -> bool:
    """Whether at most one dimension is not 1, and none is 0."""
    return sum(s != 1 for s in shape) <= 1 and 0 not in shape


def place() -> str:
    """Return the file and line of the running user code."""
    frame: Any = sys._getframe(1)
    while frame and (
        frame.f_code.co_filename.startswith(PACKAGES) or frame.f_code.co_filename.startswith("<")
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "?"
