"""The little language of a model's inputs: alternatives, paths along links, rows of tables; and conditions.

source      = alternative ("or" alternative)*
alternative = table "[" path "]" | path                 # `zeros` and a parameter are paths of one step
path        = step ("." step)*
step        = name ("[" (number | "below" | "last") "]")?
condition   = field comparison number ("and" field comparison number)*
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

from abw.core.ir.schema import Comparison
from abw.core.spec.text.sizes import PATH, Cursor, ExpressionError, Token, tokenize

Layer = Literal["below", "last"]
LAYERS: tuple[Layer, ...] = ("below", "last")
KEYWORDS = ("or", "and", "zeros")
COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")


@dataclass(frozen=True, slots=True)
class PathStep:
    """A name of a path, and which one of several vertices, or of the layers of a type that is repeated."""

    token: Token
    index: int | None = None
    layer: Layer | None = None

    @property
    def name(self) -> str:
        """The link, type or output."""
        return self.token.text


@dataclass(frozen=True, slots=True)
class LinkPath:
    """`from.state.h`, from offset `at` to `end`."""

    steps: tuple[PathStep, ...]
    at: int
    end: int


@dataclass(frozen=True, slots=True)
class Lookup:
    """`words[next.word]`."""

    table: Token
    path: LinkPath
    at: int
    end: int


@dataclass(frozen=True, slots=True)
class Condition:
    """`coin == 0`."""

    field: Token
    comparison: Comparison
    value: int


def parse_source(text: str) -> tuple[LinkPath | Lookup, ...]:
    """The alternatives of an input. Errors: ExpressionError."""
    cursor = Cursor(tokenize(text, PATH))
    alternatives = [_alternative(cursor)]
    while cursor.accept("or"):
        alternatives.append(_alternative(cursor))
    cursor.finish("'.', 'or' or the end")
    return tuple(alternatives)


def parse_reference(text: str, hint: str = "") -> tuple[Token, Token]:
    """A type and its output (or another type's parameter): `tag.y`. Errors: ExpressionError, with a hint."""
    cursor = Cursor(tokenize(text, PATH))
    try:
        first = _name(cursor)
        cursor.expect(".", "between a type and its output")
        second = _name(cursor)
        cursor.finish("the end")
    except ExpressionError as problem:
        problem.hint = hint
        raise
    return first, second


def parse_conditions(text: str) -> Iterator[Condition]:
    """Conditions that must all hold. Errors: ExpressionError."""
    cursor = Cursor(tokenize(text, PATH))
    while True:
        field = _name(cursor)
        sign = cursor.accept(*COMPARISONS)
        if sign is None:
            raise cursor.unexpected("a comparison: == != < <= > >=")
        yield Condition(field, cast(Comparison, sign.text), _number(cursor))
        if not cursor.accept("and"):
            break
    cursor.finish("'and' or the end")


def _alternative(cursor: Cursor) -> LinkPath | Lookup:
    path = parse_path(cursor)
    if len(path.steps) > 1 and cursor.token.text == "[":
        problem = cursor.unexpected("'.', 'or' or the end")
        problem.hint = "[below], [last] or a number; a table comes first: words[next.word]"
        raise problem
    if not cursor.accept("["):
        return path
    table = path.steps[0]
    inside = parse_path(cursor)
    cursor.expect("]", "to close the bracket")
    if cursor.token.text == ".":
        shown = ".".join(step.name for step in inside.steps)
        hint = f"of layers {table.name}[below] or {table.name}[last], of vertices a number: {table.name}[0]"
        raise ExpressionError(f"no [{shown}] before a '.'", inside.at, inside.end - inside.at, hint)
    return Lookup(table.token, inside, path.at, cursor.end)


def parse_path(cursor: Cursor) -> LinkPath:
    """Names with points between them. Errors: ExpressionError."""
    start = cursor.token.at
    steps = [_step(cursor)]
    while cursor.accept("."):
        steps.append(_step(cursor))
    return LinkPath(tuple(steps), start, cursor.end)


def _step(cursor: Cursor) -> PathStep:
    name = _name(cursor)
    for layer in LAYERS:
        if cursor.follows("[", layer, "]", "."):  # without the dot a row of a table, by a field of that name
            for _ in range(3):
                cursor.take()
            return PathStep(name, layer=layer)
    if cursor.token.text != "[" or not cursor.number_follows:
        return PathStep(name)
    cursor.take()
    index = _number(cursor)
    cursor.expect("]", "to close the bracket")
    return PathStep(name, index)


def _name(cursor: Cursor) -> Token:
    token = cursor.token
    if token.kind != "name" or token.text in ("or", "and"):
        raise cursor.unexpected("a name")
    return cursor.take()


def _number(cursor: Cursor) -> int:
    token = cursor.token
    if token.kind != "number" or not token.text.removeprefix("-").isdecimal():
        raise cursor.unexpected("a whole number")
    if len(token.text) > 9:
        raise token.error("the number is too large")
    return int(cursor.take().text)
