"""The library that a PyTorch model becomes: cells, tables and parameters, which grow with what is traced."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

import torch

from abw.core.base.errors import AbwError, Span
from abw.core.exec.params import Params
from abw.core.exec.registry import executor_of
from abw.core.ir.cell import Cell, Op, Param, Port
from abw.core.ir.model import Attention, Library, Table, library_of, with_reduction, with_type
from abw.core.ir.network import Constant
from abw.core.policy.registry import get_policy
from abw.core.program.network import constants_of, shapes_of
from abw.core.program.recording.recorder import Callee
from abw.core.program.recording.values import BITS, KINDS, SHAPES, kind_of
from abw.core.program.session import How, Session
from abw.torch.recording.tensorlike import make_tensor_like
from abw.torch.tracing.symbols import CannotTrace, core

NOWHERE = Span("", 1)
# Tensors that a stretch of code may compute, and those that a cell may read, or operations: compilers take a
# time that grows with their square, and end the process for some thousands.
MOST_OUTPUTS, MOST_INPUTS, MOST_OPERATIONS = 16, 1024, 512
_NUMBERS = count(1 << 11)  # beyond those of `abw.cells`


def _stacked(rows: Sequence[Any]) -> Any:
    """Stack tensors of one size."""
    tensors, versions, _ = zip(*rows, strict=True)
    if versions_of(tensors) != list(versions):
        raise AbwError(
            "a tensor of an instance is written in place after it has been used",
            hint="write to a copy: x.clone()",
        )
    try:
        return torch.stack(tensors).detach().numpy()
    except RuntimeError:  # of several shapes
        return torch.stack([row.reshape(-1) for row in tensors]).detach().numpy()


def version_of(tensor: torch.Tensor) -> int:
    """How often a tensor was written in place; not counted in inference mode."""
    try:
        return int(tensor._version)
    except RuntimeError:
        return -1


def versions_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Of several tensors: see `version_of`."""
    try:
        return [tensor._version for tensor in tensors]
    except RuntimeError:
        return [*map(version_of, tensors)]


class MismatchError(Exception):
    """A cell is called with values of shapes for which it was not made."""


class SizeError(MismatchError):
    """An integer is not the size that it was; `path` says which argument it is."""

    def __init__(self, path: tuple[Any, ...]) -> None:
        super().__init__(path)
        self.path = path


class TableRows(dict[int, Any]):
    """Rows of an embedding as values, by their numbers; `apart`: each time another object."""

    apart = False

    def __init__(self, cls: Any, first: int, rows: int) -> None:
        super().__init__()
        self.cls, self.first, self.count = cls, first, rows

    def __missing__(self, row: Any) -> Any:
        n = int(row)
        if not 0 <= n < self.count:
            raise IndexError(f"index {n} is out of range: the embedding has {self.count} rows")
        found = self.cls()
        found.ref = ((-1 - self.first - n) << BITS) + self.cls.kind_
        if not self.apart:
            self[row] = found
        return found

    def has(self, ref: int) -> bool:
        """Whether a value is a row."""
        return 0 <= -1 - (ref >> BITS) - self.first < self.count


class CellLibrary:
    """The cells of a model, and the classes of their values."""

    def __init__(
        self, model: torch.nn.Module, executor: str, policy: str, threads: int | None, one: Callable[..., Any]
    ) -> None:
        """`one(cells, name, arity, keywords)` makes a region of an operation, or None.

        Errors: AbwError for what cannot be batched.
        """
        self.model, self._one = model, one
        self.parameters = [*model.parameters()]
        self.names = {id(p): n for n, p in (*model.named_parameters(), *model.named_buffers())}
        # `asks`: whether numbers are waited for, as is known when they are for the first time.
        self.stale = self.exports = self.asks = False
        self.traces: list[Any] = []
        self.params: list[torch.Tensor] = []
        self.tables: list[torch.Tensor] = []
        self.padding: dict[int, int] = {}
        self.notes: dict[str, str] = {}
        # What others may share the memory of: values by handles; zeros, which have one in common, by ids.
        self.writes = self.squares = False
        self._shared: set[int] = set()
        self._shared_zeros: dict[int, Any] = {}
        self.origins: dict[int, str] = {}  # of types: the names of the first regions
        self.seen_elements: dict[Any, set[int]] = {}
        self.ops: dict[Any, Any] = {}
        # x[i] by the class of x and i
        self.elements: dict[tuple[type, int], Callable[[Any], Any]] = {}
        # What `torch.zeros` gives by its arguments, while nothing is written in place.
        self.made_zeros: dict[tuple[int, ...], Any] = {}
        self.regions: list[Any] = []
        self._param_number: dict[tuple[int, tuple[int, ...]], int] = {}
        self._classes: dict[Any, Any] = {}
        self._types: dict[tuple[Cell, tuple[int, ...]], int] = {}
        self._reductions: dict[Any, int] = {}
        self._table_rows: dict[Any, TableRows] = {}
        self.cut: dict[int, str] = {}  # handles of detached values, and where they were detached
        self._given: dict[Any, Any] = {}
        self._derived: dict[int, Any] = {}
        self._hot: dict[tuple[int, int, float], torch.Tensor] = {}
        self._inputs: dict[int, Constant] = {}
        self._brought: dict[Any, tuple[Any, int, int, list[Any], int]] = {}  # by the shapes of tensors
        self._last: tuple[Any, Any] = None, None  # the last tensor, and its value
        self._zeros: dict[int, int] = {}
        self.version: Any = None  # of all parameters, as the mini-batch has them
        self.in_force: Params | None = None  # these in one vector, once they were changed
        self._held: list[torch.Tensor] = []
        self._bits: Any = None  # where the memory of these lies
        self._moved = 0
        self._number = next(_NUMBERS)
        self.policy, how = get_policy(policy), How(policy, threads, 0)
        self.session = Session(
            self._library(), executor_of(executor, "float32"), self.policy, how, lambda _: self.arrays()
        )
        self.session.inputs.stack = _stacked
        self._define()

    def _library(self) -> Library:
        """The tables and vectors of the model."""
        params: list[Param] = []
        names = indexed(self.model)
        for module in self.model.modules():
            lists = torch.nn.ParameterList | torch.nn.ParameterDict
            theirs = type(module).__module__.startswith("torch.nn") and not isinstance(module, lists)
            own = {} if theirs else {n: p for n, p in module._parameters.items() if p is not None}
            vectors = [p for p in own.values() if is_vector(p.shape)]
            wide = [p for n, p in own.items() if n in names and p.dim() == 2 and not is_vector(p.shape)]
            if isinstance(module, torch.nn.Embedding):
                wide = [module.weight]
                if module.padding_idx is not None:
                    self.padding[id(module.weight)] = module.padding_idx
            self.tables += [p for p in wide if not self.is_table(p)]
            new = {id(p): p for p in vectors if (id(p), core(p.shape)) not in self._param_number}
            params += [self._new_param(p, core(p.shape)) for p in new.values()]
        tables = [
            Table(f"t{n}", len(p), (p.shape[1],), None, None, NOWHERE) for n, p in enumerate(self.tables)
        ]
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

    def is_table(self, tensor: Any) -> bool:
        """Whether rows of a parameter can be values."""
        return any(table is tensor for table in self.tables)

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
        self._brought.clear()
        for constant in self._constants:
            if constant.kind == "field":
                self._inputs[constant.shape[0]] = constant
            elif constant.kind == "zeros":
                self._zeros[constant.shape[0]] = (-1 - constant.first) << BITS

    # cells --------------------------------------------------------------------------------------------------
    def type_of(self, cell: Cell, params: Sequence[torch.Tensor]) -> int:
        """Return the type number of a cell with these parameters, which is added if it is new.

        Errors: CannotTrace for a cell with too many outputs, inputs or operations.
        """
        key = cell, tuple(map(id, params))
        if key not in self._types:
            if len(cell.outputs) > MOST_OUTPUTS:
                raise CannotTrace(f"{len(cell.outputs)} tensors are computed in one stretch of code")
            if len(cell.inputs) > MOST_INPUTS or len(cell.ops) > MOST_OPERATIONS:
                found = max(len(cell.inputs), len(cell.ops))
                raise CannotTrace(f"{found:,} tensors are computed with one by one, too many for a cell")
            number = self._types[key] = len(self.library.types)
            own: list[int | Param] = []
            for tensor, port in zip(params, cell.params, strict=True):
                known = self._param_number.get((id(tensor), port.shape))
                own.append(self._new_param(tensor, port.shape) if known is None else known)
            self._extend(with_type(self.library, replace(cell, name=f"cell{number}"), own))
        return self._types[key]

    def _extend(self, library: Library) -> None:
        self.session.extend(library)
        self.in_force = None
        self._define()

    def reduction(self, how: Any, cls: Any) -> tuple[Callee, Callable[[Any], Any]]:
        """The sum, mean or largest of a list of values of a class, and the function that records it."""
        key = how, math.prod(cls.shape)
        if key not in self._reductions:
            self._reductions[key] = len(self.library.types)
            self._extend(with_reduction(self.library, how, [(key[1],)]))

        def others(_: Callee, values: Any) -> Any:
            if any(value.ref & KINDS - 1 != cls.kind_ for value in values):
                raise MismatchError
            return call([self.as_class(value, cls) for value in values])

        made = Callee(how, self._reductions[key], (("values", cls),), (cls,), (cls.kind_,))
        call = self.session.recorder.callable_reduction(made, others)
        return made, call

    def attention(self, heads: int, cls: Any, *others: Any) -> Callable[..., list[Any]]:
        """The function that records attention over lists of values, keys and queries of these classes."""
        sizes = (cls._size,), *((other._size,) for other in others)
        kind = Attention(heads, scaled=False)
        if (kind, sizes) not in self._reductions:
            self._reductions[kind, sizes] = len(self.library.types)
            self._extend(with_reduction(self.library, kind, sizes))
        recorder = self.session.recorder

        def attend(values: Any, keys: Any, queries: Any) -> list[Any]:
            if len(keys) != len(values):
                raise CannotTrace(f"attention over {len(values)} values with {len(keys)} keys")
            if len(values) == 1:
                return [self.as_class(values[0], cls) for _ in queries]
            return recorder.attend(callee, values, keys, queries)  # kinds are checked later

        named = tuple(zip(("values", "keys", "queries"), (cls, *others), strict=True))
        callee = Callee("attend", self._reductions[kind, sizes], named, (cls,), (cls.kind_,))
        return recorder.callable_attention(callee, attend)

    def callee(self, number: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> Callee:
        """A cell that is called with values of these classes. Errors: CannotTrace for other sizes."""
        cell = self.library.types[number].cell
        assert cell is not None
        ports = [*cell.inputs, *cell.output_ports]
        for port, cls in zip(ports, [*inputs, *outputs], strict=True):
            if (math.prod(cls.shape),) != port.shape:
                raise CannotTrace(f"a tensor of {math.prod(cls.shape)} numbers where a cell has {port.shape}")
        named = tuple((port.name, cls) for port, cls in zip(cell.inputs, inputs, strict=True))
        added = tuple((o << BITS) + cls.kind_ for o, cls in enumerate(outputs))
        return Callee(f"cell{number}", number, named, tuple(outputs), added)

    def recording(self, callee: Callee, refuse: Callable[..., Any]) -> Callable[..., Any]:
        """The function that records a call of a cell; calls with other values go to `refuse`."""
        return self.session.recorder.callable_cell(callee, lambda _, args: refuse(*args))

    def has_size(self, n: int) -> None:
        """Provide values of n numbers."""
        if n not in self._kinds:
            self.type_of(_same(n), [])

    # values -------------------------------------------------------------------------------------------------
    def value_class(self, shape: Sequence[int], detached: bool = False) -> Any:
        """The class of values of a logical shape; `detached` ones have no gradient."""
        key = (tuple(shape), detached)
        found: Any = self._classes.get(key)
        if found is None:
            n = math.prod(shape)
            if n == 0:
                raise CannotTrace("a tensor without elements")
            self.has_size(n)
            found = self.session.recorder.value_class(self.session, (n,))
            make_tensor_like(self, found, key[0], self._kinds[n], detached)
            found.handles_ = staticmethod(self.session.recorder.reader(found))
            self._classes[key] = found
        return found

    def as_class(self, value: Any, cls: Any) -> Any:
        """The same value in another logical shape. Errors: CannotTrace for another number of elements."""
        if value.ref & KINDS - 1 != cls.kind_:
            raise CannotTrace(f"a tensor of shape {list(value.shape)} where {list(cls.shape)} is wanted")
        found = cls()
        found.ref = value.ref
        return found

    def arrays(self) -> Params:
        """The parameters in PyTorch's own memory."""
        pairs = zip(self.params, self.library.params, strict=True)
        values = [tensor.detach().numpy().reshape(param.shape) for tensor, param in pairs]
        return Params(tuple(values), tuple(table.detach().numpy() for table in self.tables))


def indexed(model: torch.nn.Module) -> set[str]:
    """Names of attributes whose parts the model's classes take, as in `self.W[i]`."""
    found = set[str]()
    for cls in {base for module in model.modules() for base in type(module).__mro__}:
        if not cls.__module__.startswith(("torch.", "builtins")):
            with suppress(OSError, TypeError, SyntaxError):  # without source
                tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
                parts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Subscript)]
                found |= {part.attr for part in parts if isinstance(part, ast.Attribute)}
    return found


def _same(n: int) -> Cell:
    return Cell("cell", (Port("x0", (n,)),), (), (Op("identity", (0,), (n,)),), (("y0", 1),))


def is_vector(shape: Sequence[int]) -> bool:
    """Whether at most one dimension is not 1, and none is 0."""
    return sum(s != 1 for s in shape) <= 1 and 0 not in shape
