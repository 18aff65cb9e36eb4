"""Cells, tables and parameters that programs call: a model is a plain function of one instance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.exec.interface import Executor
from abw.core.exec.precision import allowed
from abw.core.graph.graph import Graph
from abw.core.ir.cell import Shape
from abw.core.ir.model import Library
from abw.core.ir.network import Constant
from abw.core.ir.training import LossKind
from abw.core.program.lessons import wanted_of
from abw.core.program.network import Rows, constants_of, shapes_of, width_of
from abw.core.program.recording.inputs import numbers_of
from abw.core.program.recording.recorder import Callee
from abw.core.program.recording.values import BITS, SHAPES, Value, kind_of, owner
from abw.core.program.reductions import NAMES as REDUCTIONS
from abw.core.program.reductions import Reductions
from abw.core.program.running.fibers import Failed, Program, require_program
from abw.core.program.running.results import noted
from abw.core.program.scope import Batching
from abw.core.program.session import DEFAULT_GRANULARITY, ProgramGranularity, Session
from abw.core.program.verify import Verified, verify
from abw.core.spec.cells.traced import Symbol, traced
from abw.core.spec.library import with_cell

DEFAULT_BATCH = 64
Errors = Literal["raise", "return"]
Function = TypeVar("Function", bound=Callable[..., Any])


_NUMBERS = count()


class Net:
    """A library ready to be called: `net.NAME(values)` calls a cell, `net.NAME[row]` reads a table.

    Made by `abw.cells`. It has memory for one run: only one thread may use it at a time.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._number = next(_NUMBERS)
        self._values: dict[Shape, type[Value]] = {}
        self._zeros: dict[Shape, Value] = {}
        self._inputs: dict[Shape, Constant] = {}
        self._reductions = Reductions(self)
        self._define(0, fresh=True)

    @property
    def library(self) -> Library:
        """The cells, tables and parameters."""
        return self._session.library

    @property
    def executor(self) -> Executor:
        """The executor that runs the cells."""
        return self._session.executor

    def _extend(self, library: Library) -> int:
        """Go on with a library that has more types; the number of the first new one."""
        first = len(self.library.types)
        self._session.extend(library)
        self._define(first)
        return first

    def _define(self, first: int, *, fresh: bool = False) -> None:
        """Make what is called: the types from number `first` on, zeros; in a `fresh` net tables and
        parameters.
        """
        library, recorder = self.library, self._session.recorder
        self._shapes = shapes_of(library)
        if len(self._shapes) > SHAPES:
            raise AbwError(f"the library's values have {len(self._shapes)} shapes, of at most {SHAPES}")
        self._kind = {shape: kind_of(self._number, n) for n, shape in enumerate(self._shapes)}
        for shape in self._shapes:
            if shape not in self._values:
                self._values[shape] = recorder.value_class(self._session, shape)
        if recorder.step != width_of(library) << BITS:
            recorder.widen(width_of(library))
        for t, node_type in enumerate(library.types[first:], first):
            if node_type.cell is not None:
                outputs = [port.shape for port in node_type.outputs]
                callee = Callee(
                    node_type.name,
                    t,
                    tuple((port.name, self._values[port.shape]) for port in node_type.cell.inputs),
                    tuple(self._values[shape] for shape in outputs),
                    tuple((o << BITS) + self._kind[shape] for o, shape in enumerate(outputs)),
                )
                self.__dict__[callee.name] = recorder.callable_cell(callee, self._otherwise)
        ports = (port for t in library.types if t.cell for port in t.cell.inputs)
        self._taken = tuple(dict.fromkeys(port.shape for port in ports))
        for constant in constants_of(library):
            made = partial(self._constant, constant.shape, constant.first)
            if constant.kind == "field":
                self._inputs[constant.shape] = constant
            elif constant.kind == "zeros":
                self._zeros.setdefault(constant.shape, made(0))
            elif not fresh:
                continue
            elif constant.kind == "table":
                table = library.tables[constant.number]
                self.__dict__[table.name] = Rows(table, made, library.weights.file)
            else:
                self.__dict__[library.params[constant.number].name] = made(0)

    def _constant(self, shape: Shape, first: int, row: int) -> Value:
        """A row of the constant that begins at number `first`, as a value."""
        value: Any = self._values[shape]()
        value.ref = (-1 - first - row << BITS) + self._kind[shape]
        return cast(Value, value)

    def cell(self, function: Function) -> Function:
        """Make a Python function a cell (`@net.cell`): it is called once, with symbols, and its operations
        are the cell's.

        Defaults are sizes, as in YAML: of inputs before `*`, of the cell's own parameters after it. It
        returns its outputs: a value, several, or a dict by name. Cells of the net that it calls become part
        of it, with their own parameters. Errors: SpecError with everything wrong, at the lines of the
        function; AbwError if the name is taken, or during a run.
        """
        name = function.__name__
        if self._session.runner is not None:
            raise AbwError("cells cannot be added while the net runs")
        if name in self.__dict__ or name in TAKEN or name.startswith("_"):
            raise AbwError(f"the net already has '{name}'", hint="rename the function")
        self._extend(with_cell(self.library, traced(function, self.library.dims)))
        made: Function = self.__dict__[name]
        return made

    def run(
        self,
        function: Program,
        instances: Iterable[Any],
        *,
        batch: int = DEFAULT_BATCH,
        granularity: ProgramGranularity = DEFAULT_GRANULARITY,
        eager: bool = False,
        errors: Errors = "raise",
    ) -> list[Any]:
        """Run the function on each instance; returns the results in order, with arrays in place of values.

        `batch` instances run together. Each runs until it asks for a value's numbers, and continues when all
        the others have come to such a point. If one raises, the others of its mini-batch finish; then the
        exception is raised with a note that names the instance, or with `errors="return"` returned in place
        of its result.
        `granularity`: a node is an operation ("op") or a cell; with "graph" instances of equal structure also
        share a schedule. Changing it prepares the executor anew.
        `eager`: compute every cell when it is called, one instance after the other, in double precision.
        """
        return list(
            self.stream(function, instances, batch=batch, granularity=granularity, eager=eager, errors=errors)
        )

    def stream(
        self,
        function: Program,
        instances: Iterable[Any],
        *,
        batch: int = DEFAULT_BATCH,
        granularity: ProgramGranularity = DEFAULT_GRANULARITY,
        eager: bool = False,
        errors: Errors = "raise",
    ) -> Iterator[Any]:
        """Yield what `run` gives, taking a mini-batch of the instances at a time."""
        _check_batch(batch)
        require_program(function)
        one_of("errors", errors, Errors)
        one_of("granularity", granularity, ProgramGranularity)
        source, first = iter(instances), 0
        while chunk := list(islice(source, batch)):
            numbers = range(first, first + len(chunk))
            if eager:
                outcomes, _ = self._session.run_eagerly(function, chunk, numbers)
            else:
                outcomes = self._session.run(function, chunk, numbers, granularity).ends
            failed = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, Failed)]
            if failed and errors == "raise":
                found = outcomes[failed[0]]
                assert isinstance(found, Failed)
                raise noted(found.error, function, first + failed[0], [first + i for i in failed[1:]])
            for outcome in outcomes:
                yield outcome.error if isinstance(outcome, Failed) else outcome.result
            first += len(chunk)

    def batching(self, *, granularity: ProgramGranularity = DEFAULT_GRANULARITY) -> Batching:
        """Open a scope in which programs and cells that are called run as one mini-batch."""
        one_of("granularity", granularity, ProgramGranularity)
        return Batching(self._session, granularity)

    def verify(
        self,
        function: Program,
        instances: Iterable[Any],
        *,
        batch: int = DEFAULT_BATCH,
        granularity: ProgramGranularity = DEFAULT_GRANULARITY,
        tolerance: float | None = None,
    ) -> Verified:
        """Run instances together, alone, and in double precision, and report the differences.

        Alone, all decisions and results must be equal, to the bit if the executor guarantees that. In double
        precision each program is given the decisions of the mini-batch. Each must be right within `tolerance`
        of its scores' root mean square, and all values must agree within it: 1e-4, unless weights are less
        precise.
        """
        _check_batch(batch)
        require_program(function)
        one_of("granularity", granularity, ProgramGranularity)
        items = list(instances)
        limit = allowed(self.executor.precision, 1e-4) if tolerance is None else tolerance
        return verify(self._session, function, items, range(len(items)), granularity, batch, limit)

    def trace(self, function: Program, instance: object) -> Graph:
        """Return the graph that a program records for an instance: a node for each call, drawn by
        notebooks.

        Raises what the program raises.
        """
        ran = self._session.run(function, [instance], [0])
        if isinstance(ran.ends[0], Failed):
            raise noted(ran.ends[0].error, function, 0)
        return ran.graph

    def zeros(self, *sizes: int | str) -> Value:
        """Zeros of a shape, by dims' names or numbers. Errors: AbwError if no cell has such a value."""
        shape = tuple(self._size(size) for size in sizes)
        if shape not in self._zeros:
            shapes = ", ".join(str(list(s)) for s in self._shapes)
            raise AbwError(f"no cell has a value of shape {list(shape)}", hint=f"shapes here: {shapes}")
        return self._zeros[shape]

    def input(self, numbers: object) -> Value:
        """Make numbers of the instance a value: an array, numbers in lists, or one number.

        Cells also take numbers directly; use this once for numbers that several calls read. Errors:
        TypeError; AbwError if no cell has an input of that shape, or a number is not finite.
        """
        return self._brought(numbers, "net.input", self._taken)

    def sum(self, values: Iterable[Any]) -> Value:
        """Sum any number of values of one shape: one node. One value is its own sum.

        Numbers become values. The first call for a shape compiles a kernel. Errors: AbwError for no values,
        or several shapes.
        """
        return self._reductions.reduce("sum", values)

    def mean(self, values: Iterable[Any]) -> Value:
        """Average any number of values of one shape; see `sum`."""
        return self._reductions.reduce("mean", values)

    def max(self, values: Iterable[Any]) -> Value:
        """Take the largest of each element of any number of values of one shape; see `sum`."""
        return self._reductions.reduce("max", values)

    def var(self, values: Iterable[Any]) -> Value:
        """Return the variance of each element of any number of values, zeros for one; see `sum`."""
        return self._reductions.reduce("var", values)

    def std(self, values: Iterable[Any]) -> Value:
        """Return the standard deviation of each element: the root of `var`."""
        return self._reductions.reduce("std", values)

    def softmax(self, values: Iterable[Any]) -> list[Value]:
        """Return exp(v) of each of any number of values of one shape, divided by the sum of all.

        Two nodes a value, and a maximum and a sum of all. Errors: as `sum`.
        """
        return self._reductions.softmax(values)

    def attend(
        self,
        query: object,
        keys: Iterable[Any],
        values: Iterable[Any],
        *,
        heads: int = 1,
        scaled: bool = True,
    ) -> Any:  # noqa: ANN401 (a value or a list of values)
        """Average values, weighted by the softmax of the products of their keys with a query.

        This is attention (Vaswani et al., 2017). Each of the `heads` attends with its own part of query, keys
        and values; where `scaled`, products are divided by the root of a part's length. Without a query
        (None) keys are the scores: a number each. One node; one value is its own average. Of a list of
        queries, as in self-attention, the result is a list, and one node each, which takes less time than a
        call for each. Errors: AbwError for no values, for more or fewer keys than values, or lengths that do
        not fit.
        """
        return self._reductions.attend(query, keys, values, heads, scaled)

    def loss(
        self, value: Value, target: object, kind: LossKind = "cross-entropy", weight: float = 1.0
    ) -> None:
        """Say what a value should be: while the program learns its loss is made small, else it is ignored.

        `target`: of "cross-entropy" the number of a class, of which the value has the scores; of "binary"
        probabilities, of which it has the logits; of "squared" numbers, half the squared distance to which
        counts. `weight` multiplies the loss. Errors: AbwError for a target that does not fit.
        """
        if self._session.wanted is not None:
            if not isinstance(value, Value) or owner(value) is not self._session:
                raise TypeError("loss needs a value of this net: net.loss(value, target)")
            self._session.wanted.append(wanted_of(value, kind, target, weight))

    @property
    def learns(self) -> bool:
        """Whether programs run to be trained: then they can follow the data instead of their decisions."""
        return self._session.wanted is not None

    def _brought(self, numbers: object, what: str, shapes: Sequence[Shape]) -> Value:
        if self._session.runner is None:
            self._session.refuse_idle()
        values = numbers_of(numbers, what, shapes)
        constant = self._inputs[values.shape]
        return self._constant(values.shape, constant.first, self._session.inputs.add(constant, values, what))

    @property
    def params(self) -> Mapping[str, NDArray[np.float32]]:
        """The parameters and tables by their names, read-only."""
        params = self._session.engine().params
        names = [*(p.name for p in self.library.params), *(t.name for t in self.library.tables)]
        found = {}
        for name, value in zip(names, (*params.values, *params.tables), strict=True):
            found[name] = value.view()
            found[name].flags.writeable = False
        return found

    if TYPE_CHECKING:  # at run time CPython finds cells in half the time without one

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            """A cell, table or parameter."""

    def __repr__(self) -> str:
        types = ", ".join(t.name for t in self.library.types)
        numbers = sum(value.size for value in self.params.values())
        return f"Net {self.library.name}: cells {types}; {numbers:,} parameters"

    def _size(self, size: int | str) -> int:
        if isinstance(size, int):
            return size
        if size not in self.library.dims:
            hint = did_you_mean(size, tuple(self.library.dims))
            raise AbwError(f"library '{self.library.name}' has no dim '{size}'", hint=hint)
        return self.library.dims[size]

    def _otherwise(self, callee: Callee, arguments: Sequence[object]) -> Any:  # noqa: ANN401 (symbols)
        """Handle a call whose arguments are not all values of the right shapes: with symbols the cell becomes
        part of the one traced, numbers become values, and anything else is refused.
        """
        symbol = next((given for given in arguments if isinstance(given, Symbol)), None)
        if symbol is not None:
            node_type = self.library.types[callee.number]
            assert node_type.cell is not None
            names = [self.library.params[number].name for number in node_type.params]
            return symbol.tracer.call(callee.name, node_type.cell, node_type.params, names, arguments)
        given: list[Value] = []
        for (name, wanted), argument in zip(callee.inputs, arguments, strict=True):
            what = f"input '{name}' of {callee.name}"
            if not isinstance(argument, Value):
                given.append(self._brought(argument, what, (wanted.shape,)))
                continue
            if owner(argument) is not self._session:
                raise AbwError(f"{what}: this is a value of another net")
            if type(argument) is not wanted:
                shapes = f"{what} wants {list(wanted.shape)}, this is {list(argument.shape)}"
                raise AbwError(shapes, hint="check the dims of both")
            given.append(argument)
        return self.__dict__[callee.name](*given)


# Attributes of a net that a cell, table or parameter of the same name hides.
HIDDEN = (*REDUCTIONS, "loss")
# Names that a library's cells, tables and parameters cannot have.
TAKEN = tuple(name for name in dir(Net) if not name.startswith("_") and name not in HIDDEN)


def session_of(net: Net) -> Session:
    """The session that runs a net's programs."""
    return net._session


def one_of(what: str, said: object, allowed: Any) -> None:  # noqa: ANN401 (a Literal)
    """Refuse a word that is not one of the allowed ones. Errors: AbwError."""
    if said not in get_args(allowed):
        raise AbwError(f"{what} cannot be '{said}'", hint=did_you_mean(str(said), get_args(allowed)))


def _check_batch(batch: object) -> None:
    """Refuse what is no number of instances. Errors: AbwError."""
    if not isinstance(batch, int | np.integer) or batch < 1:
        raise AbwError(f"batch cannot be {batch!r}", hint="a number of instances, 1 or more")
