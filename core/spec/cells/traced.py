"""A Python function over symbols to a cell: the same operations and checks as of equations.

    def compose(head="hidden", child="hidden", *, W=("hidden", "hidden"), U=("hidden", "hidden"), b="hidden"):
        return abw.tanh(W @ head + U @ child + b)

Defaults are sizes: of what can be given by position, inputs; of the rest, parameters. The function is called
once, with symbols; what it does with them are the cell's operations.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from abw.core.base.errors import AbwError, Span
from abw.core.ir.cell import Cell, Param, Port, without_dead
from abw.core.ir.operations import FUNCTIONS, SIGNS
from abw.core.ir.shapes import ShapeError, Size, Sizes, shape
from abw.core.spec.cells.builder import Builder, Number, Operand, Value
from abw.core.spec.cells.equations import MOST_OPERATIONS
from abw.core.spec.cells.files import param
from abw.core.spec.text.document import Lines, Node, Scalar
from abw.core.spec.text.document import Mapping as Keys
from abw.core.spec.text.document import Sequence as Listed
from abw.core.spec.text.report import note, report, reporting
from abw.core.spec.text.sizes import Dims, sizes

# Of one cell, with those of the cells that it calls.
MOST_PARAMS = 10_000
# Where code of abw's own is: its files, and the functions that record calls.
_OWN = (str(Path(__file__).parents[2]), "<cell ")


@dataclass(frozen=True, slots=True)
class Traced:
    """A cell that a function means; `inherited`: the numbers of its last parameters, which are others'."""

    cell: Cell
    inherited: tuple[int, ...]
    where: Span


@reporting()
def traced(function: Callable[..., Any], dims: Dims) -> Traced:
    """Call a function with symbols. Errors: SpecError with all that is wrong, at the lines of the function.

    Cost: that of the call.
    """
    return report().checked(_Tracer(function, dims).trace(), function.__name__, "cell")


class _Tracer:
    def __init__(self, function: Callable[..., Any], dims: Dims) -> None:
        self.function, self.dims = function, dims
        code = function.__code__
        line = linecache.getline(code.co_filename, code.co_firstlineno).rstrip("\n")
        first = len(line) - len(line.lstrip()) + 1
        self.where = Span(code.co_filename, code.co_firstlineno, first, line, len(line.strip()))
        self.builder = Builder(MOST_PARAMS)
        self.used: set[int] = set()
        self.count = 0
        self.inherited: dict[int, tuple[Param, int]] = {}

    def trace(self) -> Traced | None:
        """The cell; None where something was noted."""
        inputs: dict[str, Sizes] = {}
        params: dict[str, Param] = {}
        symbols: dict[str, Symbol] = {}
        for name, each in inspect.signature(self.function).parameters.items():
            if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                self.note(f"'*{name}' is no input of a cell", "name each input, with its size")
                continue
            given = each.kind is not each.KEYWORD_ONLY
            what = f"input '{name}'" if given else f"parameter '{name}'"
            if each.default is each.empty:
                self.note(f"{what} has no size", f'{name}="hidden", or {name}=("hidden", "hidden")')
                continue
            node = self._node(each.default, what)
            if node is None:
                continue
            found = None
            if not given:
                known = param(node, self.dims, what)
                if known:
                    found = known[0]
                    params[name] = Param(name, shape(known[0]), known[1])
            elif found := sizes(node, self.dims, what):
                inputs[name] = found
            symbols[name] = Symbol(self, Value(self.count, found) if found else None)
            self.count += 1
        if len(report()):
            return None
        result = self.function(**symbols)
        outputs = self._outputs(result)
        for number, name in enumerate((*inputs, *params)):
            if number not in self.used and outputs:
                kind = "input" if name in inputs else "parameter"
                self.note(f"{kind} '{name}' is never used", "use it, or leave it out")
        if len(report()):
            return None
        return Traced(self._cell(inputs, params, outputs), tuple(self.inherited), self.where)

    def _cell(
        self, inputs: Mapping[str, Sizes], params: Mapping[str, Param], outputs: Mapping[str, int]
    ) -> Cell:
        gap = MOST_PARAMS - self.count

        def numbered(value: int) -> int:
            return value if value < MOST_PARAMS else value - gap

        ops = tuple(replace(op, args=tuple(map(numbered, op.args))) for op in self.builder.ops)
        return without_dead(
            Cell(
                self.function.__name__,
                tuple(Port(name, shape(size)) for name, size in inputs.items()),
                (*params.values(), *(param for param, _ in self.inherited.values())),
                ops,
                tuple((name, numbered(value)) for name, value in outputs.items()),
            )
        )

    def _node(self, given: object, what: str) -> Node | None:
        """A default as YAML would have it."""
        match given:
            case bool():
                pass
            case str() | int() | float():
                return Scalar(str(given), True, self.where, Lines("", ()))
            case list() | tuple():
                items = [self._node(item, what) for item in given]
                if all(items):
                    return Listed(tuple(item for item in items if item), self.where)
                return None
            case dict():
                pairs = [(self._node(key, what), self._node(value, what)) for key, value in given.items()]
                return Keys(tuple((k, v) for k, v in pairs if isinstance(k, Scalar) and v), self.where)
        hint = '"hidden", ("hidden", "2 * hidden"), or {"shape": "hidden", "init": 1}'
        self.note(f"{what} has {given!r} for a size", hint)
        return None

    def _outputs(self, result: object) -> dict[str, int]:
        """The value number of each output; one that is no operation's own gets an `identity`."""
        if isinstance(result, Mapping):
            named = dict(result)
        elif isinstance(result, list | tuple):
            named = {f"y{number}": symbol for number, symbol in enumerate(result)}
        else:
            named = {"y": result}
        if not named:
            self.note("a cell needs an output", "return a value, several, or {name: value}")
        numbers: dict[str, int] = {}
        for name, symbol in named.items():
            if not isinstance(symbol, Symbol):
                self.note(f"output '{name}' is no value: {type(symbol).__name__}", "return what is computed")
            elif isinstance(value := symbol.operand, Value):
                self.used.add(value.number)
                if value.number < MOST_PARAMS or value.number in numbers.values():
                    value = self.builder.identity(value, str(name))
                numbers[str(name)] = value.number
        return numbers

    def apply(self, name: str, args: Sequence[object]) -> Symbol:
        """An operation on symbols and numbers; what is wrong is noted, and its result unknown."""
        operands = [self.operand(arg) for arg in args]
        try:
            return Symbol(self, self.builder.apply(name, operands))
        except ShapeError as mismatch:
            return self.wrong(mismatch)

    def wrong(self, mismatch: ShapeError) -> Symbol:
        """Note what does not fit, where the function says it."""
        where = self.location()
        meant = " ".join(where.text[where.column - 1 : where.column - 1 + where.length].split())
        note(f"{meant}: {mismatch.message}" if meant else mismatch.message, where, mismatch.hint)
        return Symbol(self, None)

    def operand(self, given: object) -> Operand:
        """What an operation is given."""
        if isinstance(given, Symbol):
            if given.tracer is not self:
                raise AbwError(
                    "this is a symbol of another cell", hint="a cell reads only its inputs and parameters"
                )
            if isinstance(given.operand, Value):
                self.used.add(given.operand.number)
            return given.operand
        if isinstance(given, int | float) and not isinstance(given, bool):
            return Number(float(given))
        note(
            f"{type(given).__name__} is neither a symbol nor a number",
            self.location(),
            "inputs, parameters and numbers; a value of the net is an input",
        )
        return None

    def call(
        self, callee: str, cell: Cell, numbers: Sequence[int], names: Sequence[str], args: Sequence[object]
    ) -> Any:  # noqa: ANN401
        """The operations of another type, on these arguments and its own parameters: `numbers`, `names`."""
        operands: list[Operand] = []
        for arg, port in zip(args, cell.inputs, strict=True):
            found = self.operand(arg)
            if isinstance(found, Value) and found.shape != port.shape:
                wanted, got = list(port.shape), list(found.shape)
                message = f"input '{port.name}' of {callee} wants {wanted}, this is {got}"
                note(message, self.location(), "check the dims of both")
                found = None
            elif isinstance(found, Number):
                note(f"input '{port.name}' of {callee} is a number", self.location())
                found = None
            operands.append(found)
        if any(operand is None for operand in operands):
            unknown = [Symbol(self, None) for _ in cell.outputs]
            return unknown[0] if len(unknown) == 1 else tuple(unknown)
        number_of = {n: value.number for n, value in enumerate(operands) if isinstance(value, Value)}
        for n, (number, own, name) in enumerate(zip(numbers, cell.params, names, strict=True), len(operands)):
            number_of[n] = self._inherit(number, replace(own, name=name))
        for value, op in enumerate(cell.ops, cell.first_op):
            number_of[value] = self.builder.next
            self.builder.ops.append(replace(op, args=tuple(number_of[a] for a in op.args)))
        self._limit()
        made = [
            Symbol(self, Value(number_of[value], tuple(Size(n, str(n)) for n in cell.shape_of(value))))
            for _, value in cell.outputs
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def _inherit(self, number: int, own: Param) -> int:
        """The value number of another cell's parameter."""
        if number not in self.inherited:
            self.inherited[number] = own, self.count
            self.count += 1
        return self.inherited[number][1]

    def _limit(self) -> None:
        if len(self.builder.ops) > MOST_OPERATIONS:
            hint = "divide it into several cells"
            self.note(f"{self.function.__name__} has more than {MOST_OPERATIONS:,} operations", hint)
            report().check()

    def note(self, message: str, hint: str = "") -> None:
        """Note what is wrong with the function as a whole."""
        note(message, self.where, hint)

    def location(self) -> Span:
        """Where the function is just now: the innermost line that is none of abw's."""
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename.startswith(_OWN):
            frame = frame.f_back
        code = frame.f_code
        found = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
        line, last, begin, end = found
        line = line or frame.f_lineno
        text = linecache.getline(code.co_filename, line).rstrip("\n")
        if begin is None or end is None:
            return Span(code.co_filename, line, 1, text, max(1, len(text)))
        raw = text.encode()
        column = len(raw[:begin].decode(errors="ignore")) + 1
        length = len(raw[begin : end if last == line else None].decode(errors="ignore"))
        return Span(code.co_filename, line, column, text, max(1, length))


class Symbol:
    """A value of a cell while its function is traced: inputs, parameters, and what is computed of them."""

    __slots__ = ("operand", "tracer")
    __hash__ = object.__hash__

    def __init__(self, tracer: _Tracer, operand: Operand) -> None:
        self.tracer, self.operand = tracer, operand

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape; () where that is not known."""
        return self.operand.shape if self.operand is not None else ()

    def __neg__(self) -> Symbol:
        return self.tracer.apply("neg", (self,))

    def __getitem__(self, part: slice) -> Symbol:
        tracer = self.tracer
        try:
            if not isinstance(part, slice) or part.step is not None:
                raise ShapeError("a part is a slice", "one element is x[0:1]")
            return Symbol(tracer, tracer.builder.slice(tracer.operand(self), part.start or 0, part.stop))
        except ShapeError as mismatch:
            return tracer.wrong(mismatch)

    def __bool__(self) -> NoReturn:
        raise TypeError("a cell has no branches: abw.where(condition, a, b); decisions are a program's")

    def __iter__(self) -> NoReturn:
        raise TypeError("a value of a cell is taken as a whole; parts of it are x[0:n]")

    def __repr__(self) -> str:
        return f"Symbol {list(self.shape)}"


def _operator(name: str, *, turned: bool) -> Callable[[Symbol, object], Symbol]:
    def apply(self: Symbol, other: object) -> Symbol:
        return self.tracer.apply(name, (other, self) if turned else (self, other))

    return apply


for _method, _sign in {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "matmul": "@", "pow": "**",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}.items():  # fmt: skip
    setattr(Symbol, f"__{_method}__", _operator(SIGNS[_sign].name, turned=False))
    if _method in ("add", "sub", "mul", "truediv", "matmul", "pow"):
        setattr(Symbol, f"__r{_method}__", _operator(SIGNS[_sign].name, turned=True))


def operation(name: str) -> Callable[..., Symbol]:
    """The function of the table of operations that cells in Python call: `abw.tanh`.

    Errors: KeyError for a name that is not in the table.
    """
    form = FUNCTIONS[name]

    def apply(*args: object, axis: int | None = None) -> Symbol:
        tracer = next((arg.tracer for arg in args if isinstance(arg, Symbol)), None)
        if tracer is None:
            hint = "a function with @net.cell has inputs and parameters that it can be called with"
            raise AbwError(f"abw.{name} is for cells", hint=hint)
        given = args if axis is None else (*args, axis)
        counts = sorted({each.arity for each in form.forms})
        if len(given) not in counts and not (form.several and len(given) > counts[-1]):
            wanted = " or ".join(each.text for each in form.forms)
            note(f"{name} takes {' or '.join(map(str, counts))}, not {len(given)}", tracer.location(), wanted)
            return Symbol(tracer, None)
        return tracer.apply(name, given)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{' or '.join(each.text for each in form.forms)}, in a function with @net.cell."
    return apply
