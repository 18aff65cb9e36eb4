"""A cell's equations: parsed, checked, and turned into operations in one pass.

The grammar, one equation a line (a line goes on inside brackets; # begins a comment):

    equation = name "=" value
    value    = sum (("<" | "<=" | ">" | ">=" | "==" | "!=") sum)?
    sum      = product (("+" | "-") product)*
    product  = factor (("*" | "/" | "@") factor)*
    factor   = "-"* part ("**" factor)?
    part     = (name | number | call | "(" value ")") ("[" size? ":" size? "]")*
    call     = function "(" value ("," ("axis" "=")? value)* ")" | "reshape" "(" value ("," size)* ")"

Sizes are `abw.core.spec.text.sizes` expressions. Nothing is ever evaluated as Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from abw.core.base.errors import did_you_mean
from abw.core.ir.operations import ELSEWHERE, FUNCTIONS, SIGNS
from abw.core.ir.shapes import ShapeError
from abw.core.spec.cells.builder import Builder, Listed, Number, Operand, Value
from abw.core.spec.text.document import COMMAS, Scalar
from abw.core.spec.text.report import note
from abw.core.spec.text.sizes import EXPRESSION, Cursor, Dims, ExpressionError, Token, expression, tokenize

_COUNTS = ("no argument", "one argument", "two arguments", "three arguments", "four arguments")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
# What is written for operators that there are not: comparisons give 0 and 1.
_LOGIC = {
    **dict.fromkeys(("and", "&"), "both at once: (a < b) * (b < c)"),
    **dict.fromkeys(("or", "|"), "one or both: maximum(a < b, b < c)"),
}
# Of one cell. Compiling its kernel takes time by their number: so many some 10 s, those of a cell of a model
# a hundredth of that.
MOST_OPERATIONS = 4000


@dataclass(frozen=True, slots=True)
class Equations:
    """What the equations define.

    `names` are inputs, parameters and variables with their values; `uses` those that some equation reads;
    `whole` says that no equation was unreadable.
    """

    program: Builder
    names: Mapping[str, Operand]
    defined: Mapping[str, Token]
    uses: frozenset[str]
    whole: bool


def compile_equations(
    text: Scalar, given: Mapping[str, Operand | Listed], first: int, dims: Dims
) -> Equations:
    """The program of the equations. `given`: inputs, parameters, constants; `first`: the first free value.

    Every equation with a mistake is noted; what depends on it stays unknown without further
    complaint. Cost: linear in the text.
    """
    return _Compiler(text, given, first, dims).run()


def _statements(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The tokens of each equation. A bracket left open ends where the next line begins with `name =`."""
    statement: list[Token] = []
    depth = 0
    for at, token in enumerate(tokens):
        if token.text in ("(", "["):
            depth += 1
        elif token.text in (")", "]"):
            depth -= 1
        if token.kind == "newline" and depth > 0 and [t.text for t in tokens[at + 2 : at + 3]] == ["="]:
            depth = 0
        if token.kind == "end" or (token.kind == "newline" and depth <= 0):
            if statement:
                yield [*statement, Token("end", "", statement[-1].end)]
            statement, depth = [], 0
        elif token.kind != "newline":
            statement.append(token)


class _Compiler:
    def __init__(self, text: Scalar, given: Mapping[str, Operand | Listed], first: int, dims: Dims) -> None:
        self.text = text
        self.source = text.text
        self.dims = dims
        self.program = Builder(first)
        self.names: dict[str, Operand] = {
            name: self.program.constant(value, name) if isinstance(value, Listed) else value
            for name, value in given.items()
        }
        self.defined: dict[str, Token] = {}
        self.uses: set[str] = set()
        self.later: dict[str, Token] = {}

    def run(self) -> Equations:
        statements = list(_statements(tokenize(self.source, EXPRESSION)))
        whole = True
        for statement in reversed(statements):
            if len(statement) > 2 and statement[0].kind == "name" and statement[1].text == "=":
                self.later[statement[0].text] = statement[0]
        for statement in statements:
            cursor = Cursor(statement)
            since = self.program.next
            result: Operand = None
            try:
                name = self._target(cursor)
            except ExpressionError as problem:
                problem.note(self.text)
                whole = False
                continue
            try:
                result = self._value(cursor)
                cursor.finish("an operator or the end of the line")
            except ExpressionError as problem:
                problem.note(self.text)
                whole = False
                result = None
            self._define(name, result, since)
            if len(self.program.ops) > MOST_OPERATIONS:
                hint = "divide it into several cells, each with a type of its own"
                self._note(
                    f"the equations up to here have more than {MOST_OPERATIONS:,} operations", name, hint
                )
                whole = False
                break
        return Equations(self.program, self.names, self.defined, frozenset(self.uses), whole)

    def _target(self, cursor: Cursor) -> Token:
        name = cursor.take()
        if name.kind != "name" or not cursor.accept("="):
            raise name.error("an equation is: name = expression")
        return name

    def _define(self, name: Token, result: Operand, since: int) -> None:
        if name.text in FUNCTIONS:
            self._note(f"'{name.text}' is a function's name", name)
        elif name.text in self.defined:
            line = self.text.at(self.defined[name.text].at).line
            self._note(
                f"'{name.text}' is defined twice", name, f"the first is on line {line}; use another name"
            )
        elif name.text in self.names:
            self._note(f"'{name.text}' is an input, parameter or constant already", name, "use another name")
        else:
            self.names[name.text] = result
            self.defined[name.text] = name
            if isinstance(result, Value):
                self.program.label(result, name.text, since)

    def _note(self, message: str, token: Token, hint: str = "") -> None:
        note(message, self.text.at(token.at, len(token.text)), hint)

    def _apply(self, name: str, args: Sequence[Operand], start: int, end: int) -> Operand:
        try:
            return self.program.apply(name, args)
        except ShapeError as mismatch:
            return self._mismatch(mismatch, start, end)

    def _mismatch(self, mismatch: ShapeError, start: int, end: int) -> Operand:
        """Note what does not fit, with the part of the equation it is about."""
        meant = " ".join(self.source[start:end].split())
        meant = meant if len(meant) <= 40 else meant[:39] + "…"
        length = len(self.source[start:end].split("\n")[0])
        note(f"{meant}: {mismatch.message}", self.text.at(start, length), mismatch.hint)
        return None

    def _value(self, cursor: Cursor) -> Operand:
        start = cursor.token.at
        left = self._sum(cursor)
        if sign := cursor.accept(*_COMPARISONS):
            right = self._sum(cursor)
            left = self._apply(SIGNS[sign.text].name, (left, right), start, cursor.end)
            if cursor.token.text in _COMPARISONS:
                hint = "both at once: (a < b) * (b < c)"
                raise ExpressionError("a comparison has two sides", cursor.token.at, 1, hint)
        if (word := cursor.token).text in _LOGIC:
            raise word.error(f"there is no operator '{word.text}'", _LOGIC[word.text])
        return left

    def _sum(self, cursor: Cursor) -> Operand:
        return self._chain(cursor, ("+", "-"), self._product)

    def _product(self, cursor: Cursor) -> Operand:
        return self._chain(cursor, ("*", "/", "@"), self._factor)

    def _chain(self, cursor: Cursor, signs: tuple[str, ...], part: Callable[[Cursor], Operand]) -> Operand:
        start = cursor.token.at
        left = part(cursor)
        while sign := cursor.accept(*signs):
            left = self._apply(SIGNS[sign.text].name, (left, part(cursor)), start, cursor.end)
        return left

    def _factor(self, cursor: Cursor) -> Operand:
        start = cursor.token.at
        negative = False
        while cursor.accept("-"):
            negative = not negative
        base = cursor.token.at
        value = self._part(cursor)
        if cursor.accept("**"):
            value = self._apply("pow", (value, self._factor(cursor)), base, cursor.end)
        return self._apply("neg", (value,), start, cursor.end) if negative else value

    def _part(self, cursor: Cursor) -> Operand:
        start = cursor.token.at
        value = self._atom(cursor)
        while cursor.accept("["):
            first = 0 if cursor.token.text == ":" else expression(cursor, self.dims)
            if cursor.token.text == "]":
                hint = "one element is x[0:1]"
                raise ExpressionError("a slice needs ':'", cursor.token.at, 1, hint)
            cursor.expect(":", "in a slice")
            open_end = cursor.token.text == "]"
            last = None if open_end else expression(cursor, self.dims)
            cursor.expect("]", "to close the slice")
            if first is None or (last is None and not open_end):
                value = None
                continue
            try:
                value = self.program.slice(value, first, last)
            except ShapeError as mismatch:
                value = self._mismatch(mismatch, start, cursor.end)
        return value

    def _atom(self, cursor: Cursor) -> Operand:
        token = cursor.token
        if token.kind == "number":
            cursor.take()
            number = float(token.text)
            if not math.isfinite(number):
                raise token.error("the number is too large")
            return Number(number)
        if token.kind == "name":
            cursor.take()
            return self._call(cursor, token) if cursor.token.text == "(" else self._read(token)
        if cursor.accept("("):
            with cursor.nested():
                value = self._value(cursor)
            self._close(cursor, token)
            return value
        raise cursor.unexpected("a name, a number or '('")

    def _close(self, cursor: Cursor, opening: Token) -> None:
        if cursor.token.kind == "end":
            hint = COMMAS if self.text.cut else ""
            raise ExpressionError("'(' is never closed", opening.at, 1, hint)
        cursor.expect(")", "to close the parenthesis")

    def _call(self, cursor: Cursor, function: Token) -> Operand:
        opening = cursor.take()
        args: list[Operand] = []
        with cursor.nested():
            while cursor.token.text != ")":
                args.append(self._argument(cursor, function.text, len(args)))
                if not cursor.accept(","):
                    break
        self._close(cursor, opening)
        name = function.text
        if name not in FUNCTIONS:
            hint = f"write {ELSEWHERE[name]}" if name in ELSEWHERE else did_you_mean(name, tuple(FUNCTIONS))
            self._note(f"unknown function '{name}'", function, hint)
            self.uses.add(name)
            return None
        operation = FUNCTIONS[name]
        counts = sorted({form.arity for form in operation.forms})
        if len(args) not in counts and not (operation.several and len(args) > counts[-1]):
            takes = " or ".join((*(_COUNTS[n].split()[0] for n in counts[:-1]), _COUNTS[counts[-1]]))
            more = " or more" if operation.several else ""
            hint = " or ".join(form.text for form in operation.forms)
            self._note(f"{name} takes {takes}{more}, not {len(args)}", function, hint)
            return None
        return self._apply(name, args, function.at, cursor.end)

    def _argument(self, cursor: Cursor, function: str, number: int) -> Operand:
        """An argument; those of `reshape` behind the first are sizes, and an axis may be called so."""
        if function == "reshape" and number:
            size = expression(cursor, self.dims)
            return None if size is None else Number(float(size))
        if number and cursor.follows("axis", "="):
            cursor.take()
            cursor.take()
        elif (word := cursor.token).kind == "name" and cursor.follows(word.text, "="):
            hint = "only the axis may be named: axis=1"
            raise word.error(f"no argument is called '{word.text}'", hint)
        return self._value(cursor)

    def _read(self, token: Token) -> Operand:
        name = token.text
        self.uses.add(name)
        if name in self.names:
            return self.names[name]
        if name in self.later:
            line = self.text.at(self.later[name].at).line
            self._note(f"'{name}' is used before it is defined", token, f"it is defined on line {line}")
        elif name in self.dims:
            self._note(
                f"'{name}' is a dim, not a value", token, "dims stand in shapes and slices: x[0:hidden]"
            )
        elif name in FUNCTIONS:
            self._note(f"'{name}' is a function", token, f"write {name}(…)")
        else:
            self._note(f"unknown name '{name}'", token, did_you_mean(name, tuple({*self.names, *self.later})))
        return None
