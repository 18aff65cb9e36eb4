"""Cells, tables and parameters that programs call: a model is a plain function of one instance."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.data.lookup import hashed
from abw.core.exec.interface import Executor
from abw.core.exec.params import Params
from abw.core.exec.registry import get_executor
from abw.core.exec.trained import load_weights, make_params
from abw.core.graph.graph import Graph
from abw.core.ir.cell import Param, Shape
from abw.core.ir.library import Library
from abw.core.ir.model import NodeType, Table
from abw.core.ir.network import Network
from abw.core.policy.foreign import Foreign
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Policy
from abw.core.program.asks import Ask
from abw.core.program.eager import EagerTape
from abw.core.program.engine import BatchEngine
from abw.core.program.fibers import Asked, Done, Failed, Fibers, Program
from abw.core.program.machine import new_recorder
from abw.core.program.network import constants_of, library_network, shapes_of, width_of
from abw.core.program.recorder import Callee, joined
from abw.core.program.results import noted, with_arrays
from abw.core.program.runner import RUNNING, BatchRunner, EagerRunner, Log, Runner, Task
from abw.core.program.values import BITS, SHAPES, Value, kind_of, owner
from abw.core.program.verify import Verified, verify
from abw.core.spec.cells.traced import Symbol, Traced, traced
from abw.core.spec.library import load_library
from abw.core.spec.load import Overrides
from abw.core.spec.shipped import find_spec

DEFAULT_BATCH = 64
Errors = Literal["raise", "return"]
Function = TypeVar("Function", bound=Callable[..., Any])


def cells(
    library: str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | None = None,
    dims: Mapping[str, int] | None = None,
    policy: str | Policy = "critical",
    executor: str | Executor = "cpu",
    threads: int | None = None,
    seed: int = 0,
    allow_outside: bool = False,
) -> Net:
    """The cells, tables and parameters of a library's file, to be called by programs.

    `weights`: a file of trained ones (else those that the file names, else random ones from `seed`);
    `policy`: by what each piece of a mini-batch is scheduled, a name or an object with `schedule(dag)`;
    `executor`: a name, or one that was made with options of its own. Errors: SpecError with all that is wrong
    in the file, AbwError. Cost: the kernels' compilation, 0.1 to 0.3 s; nothing where they are on disk.
    """
    if threads is not None and threads < 1:
        raise AbwError(f"threads cannot be {threads}", hint="1 or more; None: one a core")
    overrides = Overrides(
        dims=dims or {}, weights=Path(weights) if weights else None, allow_outside=allow_outside
    )
    loaded = load_library(find_spec(Path(library)), overrides, TAKEN)
    chosen = get_policy(policy) if isinstance(policy, str) else Foreign(policy)
    ready = get_executor(executor) if isinstance(executor, str) else executor
    return Net(loaded, ready, chosen, threads, seed)


MOST_KEPT = 1 << 20
"""Rows of a table that are kept as values once they were asked for."""


class Rows(dict[Any, Value]):
    """A table: `table[row]` is a row as a value, by its number or a word.

    A word's row is what the vocabulary says, without one its hash modulo the rows, as in a spec. As a dict it
    has the rows that were asked for.
    """

    def __init__(self, table: Table, make: Callable[[int], Value], *, trained: bool) -> None:
        super().__init__()
        self._table, self._make, self._trained = table, make, trained

    def __missing__(self, key: object) -> Value:
        table = self._table
        if isinstance(key, str):
            row = self._word(key)
        else:
            try:
                row = operator.index(key)  # type: ignore[arg-type]
            except TypeError:
                raise TypeError(f"a row of table '{table.name}' is a number or a word, not {key!r}") from None
            if not 0 <= row < table.rows:
                hint = f"rows are 0 to {table.rows - 1}"
                raise AbwError(f"table '{table.name}' has no row {row}", hint=hint)
        found = self._make(row)
        if len(self) < MOST_KEPT:
            self[key] = found
        return found

    def _word(self, word: str) -> int:
        table = self._table
        if table.vocab is None:
            if self._trained:
                message = f"table '{table.name}' has weights, but nothing says which word has which row"
                raise AbwError(message, hint="name the words it was trained with: vocab: words.txt")
            return int(hashed([word], table.rows)[0])
        row = table.vocab.rows.get(word, table.unknown)
        if row is None:
            hint = "unknown: WORD in the table says which row stands for others"
            raise AbwError(f"'{word}' is no word of table '{table.name}'", hint=hint)
        return row


class Future:
    """What a program of a scope gives, once that has ended."""

    def __init__(self, task: Task | None, function: Program, number: int) -> None:
        self._task, self._function, self._number = task, function, number
        self._outcome: Done | Failed | None = None

    def value(self) -> Any:  # noqa: ANN401 (what the program returns)
        """The result, with arrays for values; raises what the program raised, AbwError before the end."""
        if self._outcome is None:
            raise AbwError("this is known when the scope has ended", hint="ask behind the with block")
        if isinstance(self._outcome, Failed):
            raise noted(self._outcome.error, self._function, self._number)
        return self._outcome.result


class Batching:
    """A scope (`with net.batching() as batch:`): what is begun or called in it runs as one mini-batch.

    `batch(function, instance)` begins a program, and gives a `Future`. Cells can be called in it without a
    program, too; their values are known behind it, or when asked for.
    """

    def __init__(self, net: Net) -> None:
        self._net = net
        self._runner: BatchRunner | None = None
        self._futures: list[Future] = []

    def __enter__(self) -> Batching:
        self._runner = self._net._begin()
        return self

    def __call__(self, function: Program, instance: object) -> Future:
        """Begin the program of an instance."""
        if self._runner is None:
            raise AbwError("the scope has ended", hint="with net.batching() as batch: batch(function, item)")
        number = len(self._futures)
        future = Future(self._runner.begin(function, instance, number), function, number)
        self._futures.append(future)
        return future

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        runner, self._runner = self._runner, None
        assert runner is not None
        try:
            if error is None:
                runner.finish()
                self._settle(runner)
        finally:
            self._net._end(runner if error is None else None)

    def _settle(self, runner: BatchRunner) -> None:
        outcomes = [future._task.ended for future in self._futures if future._task]
        for future, outcome in zip(self._futures, in_arrays(outcomes, runner), strict=True):
            future._outcome = outcome
            future._task = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A network with its parameters, and what executes it."""

    network: Network
    params: Params
    engine: BatchEngine


def with_cell(library: Library, found: Traced) -> Library:
    """A library with one more type, of a cell that a function means."""
    cell, first = found.cell, len(library.params)
    own = cell.params[: len(cell.params) - len(found.inherited)]
    numbers = (*range(first, first + len(own)), *found.inherited)
    made = NodeType(cell.name, "", frozenset(), (), cell, None, (), cell.output_ports, numbers, found.where)
    params = (*library.params, *(Param(f"{cell.name}.{p.name}", p.shape, p.init) for p in own))
    return replace(library, params=params, types=(*library.types, made))


_NUMBERS = count()


class Net:
    """A library ready to be called: `net.NAME(values)` for its cells, `net.NAME[row]` for tables.

    Made by `abw.cells`. Its memory is one run's: of several threads only one may use it at a time.
    """

    def __init__(
        self, library: Library, executor: Executor, policy: Policy, threads: int | None, seed: int
    ) -> None:
        self.library = library
        self.executor = executor
        self._policy, self._threads, self._seed = policy, threads, seed
        self._fibers = Fibers()
        self._number = next(_NUMBERS)
        self._runner: Runner | None = None
        self._outer: Runner | None = None
        self._last: BatchRunner | None = None
        self._values: dict[Shape, type[Value]] = {}
        self._recorder = new_recorder(width_of(library))
        self._recorder.divert(self._refuse_idle)
        self._shapes: tuple[Shape, ...] = ()
        self._zeros: dict[Shape, Value] = {}
        self._prepared: Prepared | None = None
        self._name(0)

    def _name(self, first: int) -> None:
        """Make what is called: the types from number `first` on, tables, parameters, zeros."""
        library = self.library
        self._shapes = shapes_of(library)
        if len(self._shapes) > SHAPES:
            raise AbwError(f"the library's values have {len(self._shapes)} shapes, of at most {SHAPES}")
        kind = {shape: kind_of(self._number, n) for n, shape in enumerate(self._shapes)}
        for shape in self._shapes:
            if shape not in self._values:
                self._values[shape] = self._recorder.value_class(self, shape)
        self._recorder.widen(width_of(library))
        for t, node_type in enumerate(library.types[first:], first):
            assert node_type.cell is not None
            shapes = [port.shape for port in node_type.outputs]
            callee = Callee(
                node_type.name,
                t,
                tuple((port.name, self._values[port.shape]) for port in node_type.cell.inputs),
                tuple(self._values[shape] for shape in shapes),
                tuple((o << BITS) + kind[shape] for o, shape in enumerate(shapes)),
            )
            self.__dict__[callee.name] = self._recorder.callable_cell(callee, self._refuse)
        for constant in constants_of(library):

            def made(row: int, first: int = constant.first, shape: Shape = constant.shape) -> Value:
                value: Any = self._values[shape]()
                value.ref = ((-1 - first - row) << BITS) + kind[shape]
                return cast(Value, value)

            if constant.kind == "zeros":
                self._zeros.setdefault(constant.shape, made(0))
            elif first:
                continue
            elif constant.kind == "table":
                table = library.tables[constant.number]
                self.__dict__[table.name] = Rows(table, made, trained=library.weights.file is not None)
            else:
                self.__dict__[library.params[constant.number].name] = made(0)

    def _ready(self) -> Prepared:
        """The network as it is, with its parameters, prepared; made when it is first needed.

        Errors: SpecError for weights that do not fit, AbwError.
        """
        if self._prepared is None:
            network = library_network(self.library)
            params = make_params(network, load_weights(self.library), self._seed)
            self.executor.prepare(network, params, self._threads)
            engine = BatchEngine(network, params, self.executor, self._policy)
            self._prepared = Prepared(network, params, engine)
        return self._prepared

    def cell(self, function: Function) -> Function:
        """Make a Python function a cell (`@net.cell`): it is called once, with symbols, and what it does with
        them are the cell's operations.

        Defaults are sizes, as in YAML: those of what can be given by position are of inputs, those behind `*`
        of parameters, which are the cell's own. Outputs are what is returned: a value, several, or a dict by
        name. Cells of the net called inside become part of it, with their parameters. Errors: SpecError with
        all that is wrong, at the lines of the function; AbwError for a name that is taken, and while it runs.
        """
        name = function.__name__
        if self._runner is not None:
            raise AbwError("the net runs: cells are made before")
        if name in self.__dict__ or name in TAKEN or name.startswith("_"):
            raise AbwError(f"the net has '{name}' already", hint="call the function otherwise")
        found = traced(function, self.library.dims)
        first = len(self.library.types)
        self.library = with_cell(self.library, found)
        self._prepared = self._last = None
        self._name(first)
        made: Function = self.__dict__[name]
        return made

    def run(
        self,
        function: Program,
        instances: Iterable[Any],
        *,
        batch: int = DEFAULT_BATCH,
        eager: bool = False,
        errors: Errors = "raise",
    ) -> list[Any]:
        """What the function returns for each instance, in their order, with arrays for values.

        `batch` instances run together; each runs until it asks a value for its numbers, and goes on when all
        others have come so far. Where one raises, the others of its mini-batch run to their ends; then that
        is raised with a note which instance it was, or with `errors="return"` stands in the result's place.
        `eager`: every cell is computed where it is called, one instance after the other, in double precision.
        """
        return list(self.stream(function, instances, batch=batch, eager=eager, errors=errors))

    def stream(
        self,
        function: Program,
        instances: Iterable[Any],
        *,
        batch: int = DEFAULT_BATCH,
        eager: bool = False,
        errors: Errors = "raise",
    ) -> Iterator[Any]:
        """What `run` gives, as it comes: of the instances a mini-batch is taken at a time."""
        _check_batch(batch)
        if errors not in ("raise", "return"):
            raise AbwError(f"errors cannot be '{errors}'", hint=did_you_mean(errors, ("raise", "return")))
        source, first = iter(instances), 0
        while chunk := list(islice(source, batch)):
            outcomes = self._eager(function, chunk, first) if eager else self._batch(function, chunk, first)
            failed = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, Failed)]
            if failed and errors == "raise":
                found = outcomes[failed[0]]
                assert isinstance(found, Failed)
                raise noted(found.error, function, first + failed[0], [first + i for i in failed[1:]])
            for outcome in outcomes:
                yield outcome.error if isinstance(outcome, Failed) else outcome.result
            first += len(chunk)

    def batching(self) -> Batching:
        """A scope in which programs are begun and cells called one by one, to run as one mini-batch."""
        return Batching(self)

    def verify(
        self,
        function: Program,
        instances: Iterable[Any],
        *,
        batch: int = DEFAULT_BATCH,
        tolerance: float = 1e-4,
    ) -> Verified:
        """Run instances together, alone, and in double precision; say what differs.

        Alone all decisions and results must be the same, to the bit where the executor gives that. In double
        precision each program is given the decisions of the mini-batch: each must be right within `tolerance`
        of its scores' root mean square, and so must all values be.
        """
        _check_batch(batch)
        return verify(self._batch, self._eager, function, list(instances), batch, tolerance)

    def trace(self, function: Program, instance: object) -> Graph:
        """The graph of all that a program records for an instance: a node for each call, in notebooks a
        picture. Raises what the program raises.
        """
        (end,) = self._batch(function, [instance], 0)
        if isinstance(end, Failed):
            raise noted(end.error, function, 0)
        engine = self._ready().engine
        return engine.graph(joined(engine.segments))[0]

    def zeros(self, *sizes: int | str) -> Value:
        """Zeros of a shape, by dims' names or numbers. Errors: AbwError where no cell has such a value."""
        shape = tuple(self._size(size) for size in sizes)
        if shape not in self._zeros:
            shapes = ", ".join(str(list(s)) for s in self._shapes)
            raise AbwError(f"no cell has a value of shape {list(shape)}", hint=f"shapes here: {shapes}")
        return self._zeros[shape]

    @property
    def params(self) -> Mapping[str, NDArray[np.float32]]:
        """The parameters and tables by their names; they cannot be written."""
        ready = self._ready()
        names = [*(p.name for p in self.library.params), *(t.name for t in self.library.tables)]
        found = {}
        for name, value in zip(names, (*ready.params.values, *ready.params.tables), strict=True):
            found[name] = value.view()
            found[name].flags.writeable = False
        return found

    def ask(self, asked: Asked) -> Any:  # noqa: ANN401 (an answer, or in a generator what it is to yield)
        """What a program gets for a question to values; `Value`'s methods and `abw.each` call this."""
        if self._runner is not None:
            return self._runner.ask(asked)
        if self._last is not None and isinstance(asked, Ask) and asked.how == "value":
            return self._last.ask(asked)
        raise AbwError("values are asked by programs that run", hint="net.run(function, instances)")

    def shown(self, handle: int) -> str:
        """Its numbers, where they are known without waiting."""
        if not isinstance(self._runner, EagerRunner):
            return ""
        return f": {np.array2string(self._runner.values([handle])[0], threshold=20)}"

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (a cell, table or parameter, once there is one)
        names = [*(t.name for t in self.library.types), *(t.name for t in self.library.tables)]
        message = f"library '{self.library.name}' has no cell, table or parameter '{name}'"
        raise AttributeError(f"{message}: {did_you_mean(name, names)}")

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

    def _begin(self, log: Log | None = None) -> BatchRunner:
        """A mini-batch begins. Errors: AbwError while another one runs."""
        if self._runner is not None:
            raise AbwError("the net runs already: a program cannot run it, nor a scope be inside another")
        ready = self._ready()
        self._recorder.restore()
        runner = BatchRunner(ready.network, self._recorder, ready.engine, self._fibers, self._seed, log)
        self._enter(runner)
        return runner

    def _enter(self, runner: Runner) -> None:
        self._runner, self._outer, RUNNING.runner = runner, RUNNING.runner, runner

    def _end(self, runner: BatchRunner | None) -> None:
        """It has ended; where it was broken off there is no runner, and what was recorded is dropped."""
        self._runner, self._last, RUNNING.runner = None, runner, self._outer
        self._recorder.take()
        self._recorder.divert(self._refuse_idle)

    def _batch(
        self, function: Program, items: Sequence[object], first: int, log: Log | None = None
    ) -> list[Done | Failed]:
        """How the programs of some instances end, as one mini-batch; `first` is the number of the first."""
        runner = self._begin(log)
        done = None
        try:
            tasks = [runner.begin(function, item, first + i) for i, item in enumerate(items)]
            runner.finish()
            ends = in_arrays([task.ended for task in tasks], runner)
            done = runner
        finally:
            self._end(done)
        return ends

    @contextmanager
    def _at_once(self, forced: Log | None = None) -> Iterator[EagerRunner]:
        """Cells are computed where they are called."""
        if self._runner is not None:
            raise AbwError("the net runs already: a program cannot run it")
        ready, recorder = self._ready(), self._recorder
        tape = EagerTape(ready.network, ready.params, recorder.next // recorder.step)
        runner = EagerRunner(tape, self._seed, forced)
        self._enter(runner)
        recorder.divert(tape.write)
        try:
            yield runner
        finally:
            self._end(None)

    def _eager(
        self,
        function: Program,
        items: Sequence[object],
        first: int,
        forced: Log | None = None,
        runners: list[EagerRunner] | None = None,
    ) -> list[Done | Failed]:
        ends: list[Done | Failed] = []
        for i, item in enumerate(items):
            with self._at_once(forced) as runner:
                ends += in_arrays([runner.run(function, item, first + i)], runner)
            if runners is not None:
                runners.append(runner)
        return ends

    def _refuse_idle(self, words: Iterable[int]) -> NoReturn:
        raise AbwError(
            "cells are called by programs that run",
            hint="net.run(function, instances), or inside `with net.batching() as batch:`",
        )

    def _refuse(self, callee: Callee, arguments: Sequence[object]) -> Any:  # noqa: ANN401 (symbols)
        """Say what is wrong with a call's arguments; of symbols, make the cell a part of the one traced."""
        symbol = next((given for given in arguments if isinstance(given, Symbol)), None)
        if symbol is not None:
            node_type = self.library.types[callee.number]
            assert node_type.cell is not None
            names = [self.library.params[number].name for number in node_type.params]
            return symbol.tracer.call(callee.name, node_type.cell, node_type.params, names, arguments)
        for (name, wanted), given in zip(callee.inputs, arguments, strict=True):
            what = f"input '{name}' of {callee.name}"
            if not isinstance(given, Value):
                raise TypeError(f"{what} wants a value, not {type(given).__name__}")
            if owner(given) is not self:
                raise AbwError(f"{what}: this is a value of another net")
            if type(given) is not wanted:
                shapes = f"{what} wants {list(wanted.shape)}, this is {list(given.shape)}"
                raise AbwError(shapes, hint="check the dims of both")
        raise AssertionError(callee.name)


TAKEN = (*(name for name in dir(Net) if not name.startswith("_")), "library", "executor")
"""Names that a library's cells, tables and parameters cannot have."""


def in_arrays(outcomes: Sequence[Done | Failed | None], runner: Runner) -> list[Done | Failed]:
    """How programs ended, with arrays for values."""
    known = [outcome for outcome in outcomes if outcome is not None]
    results = with_arrays([end.result if isinstance(end, Done) else None for end in known], runner.values)
    return [
        end if isinstance(end, Failed) else Done(result) for end, result in zip(known, results, strict=True)
    ]


def _check_batch(batch: object) -> None:
    """Errors: AbwError for what is no number of instances."""
    if not isinstance(batch, int | np.integer) or batch < 1:
        raise AbwError(f"batch cannot be {batch!r}", hint="a number of instances, 1 or more")
