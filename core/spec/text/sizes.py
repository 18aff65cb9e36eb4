"""Expressions of a spec: the tokenizer behind all of them, a cursor over its tokens, and sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from collections.abc import Mapping as Names
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal, TypeVar, cast

from abw.core.base.errors import AbwError, Problem
from abw.core.ir.shapes import MOST_NUMBERS, Size, Sizes
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar, Sequence
from abw.core.spec.text.report import note, report, suggest

T = TypeVar("T")

MAX_NESTING = 50

# Equations and sizes.
EXPRESSION = re.compile(
    r"""(?P<blank>[ \t]+|\#[^\n]*) | (?P<newline>\n)
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)
      | (?P<name>[^\W\d]\w*) | (?P<sign>==|!=|<=|>=|\*\*|[-+*/@()\[\],:=<>]) | (?P<unknown>.)""",
    re.VERBOSE | re.DOTALL,
)

# Sources and conditions: a name may have hyphens, a number a sign.
PATH = re.compile(
    r"""(?P<blank>\s+) | (?P<number>-?[0-9]+) | (?P<name>[^\W\d](?:[\w-]*\w)?)
      | (?P<sign>==|!=|<=|>=|[<>.\[\]]) | (?P<unknown>.)""",
    re.VERBOSE | re.DOTALL,
)

Kind = Literal["name", "number", "sign", "newline", "unknown", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of an expression that begins at offset `at`."""

    kind: Kind
    text: str
    at: int

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.at + len(self.text)

    def error(self, message: str, hint: str = "") -> ExpressionError:
        """What to raise where the token is wrong."""
        return ExpressionError(message, self.at, max(1, len(self.text)), hint)

    def __str__(self) -> str:
        """The token as messages quote it."""
        return {"end": "the end", "newline": "the end of the line"}.get(self.kind, f"'{self.text}'")


class ExpressionError(Exception):
    """An expression that cannot be read, or means nothing; `at` and `length` say which part of it.

    Without `at` it is all of the text; without a message an earlier mistake, which was told, hides what it
    means.
    """

    def __init__(self, message: str = "", at: int | None = None, length: int = 1, hint: str = "") -> None:
        """What is wrong, and where in the text."""
        super().__init__(message)
        self.message = message
        self.at = at
        self.length = length
        self.hint = hint

    def note(self, text: Scalar) -> None:
        """Add this to the problems of the text's file."""
        if self.message:
            where = text.where if self.at is None else text.at(self.at, self.length)
            note(self.message, where, self.hint)


@contextmanager
def noting(text: Scalar) -> Iterator[None]:
    """Note what is wrong with a text, and end the block there."""
    try:
        yield
    except ExpressionError as problem:
        problem.note(text)


def tokenize(text: str, pattern: re.Pattern[str]) -> list[Token]:
    """All tokens but blanks and comments; the last is of kind 'end'."""
    tokens = [
        Token(cast(Kind, match.lastgroup), match.group(), match.start())
        for match in pattern.finditer(text)
        if match.lastgroup != "blank"
    ]
    return [*tokens, Token("end", "", len(text.rstrip()))]


class Cursor:
    """A position in a row of tokens, of which the last stays when it is taken."""

    def __init__(self, tokens: list[Token]) -> None:
        """Begin at the first token."""
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        """The token to come."""
        return self._tokens[self._next]

    @property
    def end(self) -> int:
        """The offset behind the last token taken."""
        return self._tokens[self._next - 1].end if self._next else 0

    @property
    def number_follows(self) -> bool:
        """Whether a number comes after the token to come."""
        return self.token.kind != "end" and self._tokens[self._next + 1].kind == "number"

    def follows(self, *texts: str) -> bool:
        """Whether the tokens to come are these signs and words."""
        return tuple(token.text for token in self._tokens[self._next : self._next + len(texts)]) == texts

    def take(self) -> Token:
        """The next token, and go on."""
        token = self.token
        if token.kind != "end":
            self._next += 1
        return token

    def accept(self, *texts: str) -> Token | None:
        """The next token if it is one of these signs or words."""
        return self.take() if self.token.kind in ("sign", "name") and self.token.text in texts else None

    def expect(self, text: str, after: str) -> Token:
        """The next token, which must be this sign."""
        if token := self.accept(text):
            return token
        raise self.unexpected(f"'{text}' {after}")

    def finish(self, wanted: str, hint: str = "") -> None:
        """Refuse what follows. Errors: ExpressionError."""
        if self.token.kind != "end":
            raise self.unexpected(wanted, hint)

    def unexpected(self, wanted: str, hint: str = "") -> ExpressionError:
        """What to raise where something else should stand."""
        length = max(1, len(self.token.text.strip()))
        return ExpressionError(f"expected {wanted}, not {self.token}", self.token.at, length, hint)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """One level of parentheses deeper."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            hint = "name the inner parts in equations of their own"
            raise ExpressionError(f"nested more than {MAX_NESTING} deep", self.token.at, 1, hint)
        yield
        self._depth -= 1


LARGEST = 2**20

# Sizes by name; None where the size is not known because of an earlier mistake.
Dims = Names[str, int | None]


def expression(cursor: Cursor, dims: Dims) -> int | None:
    """A sum of products of dims and numbers; None where a dim is not known because of an earlier mistake.

    Errors: ExpressionError. Division must come out even.
    """
    left = _product(cursor, dims)
    while sign := cursor.accept("+", "-"):
        right = _product(cursor, dims)
        if left is not None and right is not None:
            left = _bounded(left + right if sign.text == "+" else left - right, sign.at)
        else:
            left = None
    return left


def _product(cursor: Cursor, dims: Dims) -> int | None:
    left = _factor(cursor, dims)
    while sign := cursor.accept("*", "/"):
        right = _factor(cursor, dims)
        if left is None or right is None:
            left = None
        elif sign.text == "*":
            left = _bounded(left * right, sign.at)
        elif right == 0:
            raise ExpressionError("division by zero", sign.at)
        elif left % right:
            raise ExpressionError(f"{left} / {right} is not a whole number", sign.at)
        else:
            left //= right
    return left


def _factor(cursor: Cursor, dims: Dims) -> int | None:
    token = cursor.token
    if token.kind == "number":
        cursor.take()
        if not token.text.isdigit() or len(token.text) > 12:
            raise token.error(f"'{token.text}' is no size: a whole number")
        return _bounded(int(token.text), token.at)
    if token.kind == "name":
        cursor.take()
        if token.text not in dims:
            hint = suggest(token.text, dims) or "declare it under dims"
            raise token.error(f"unknown dim '{token.text}'", hint)
        return dims[token.text]
    if cursor.accept("("):
        with cursor.nested():
            value = expression(cursor, dims)
        cursor.expect(")", "to close the parenthesis")
        return value
    raise cursor.unexpected("a size")


def _bounded(value: int, at: int) -> int:
    if abs(value) > 2**40:
        raise ExpressionError("the size is too large", at)
    return value


def size(node: Node, dims: Dims, what: str, most: int = LARGEST) -> Size | None:
    """A size from 1 to `most`, written as a number or an expression."""
    if not isinstance(node, Scalar) or not node.text:
        note(f"{what} must be a size", node.where, "a number, a dim, or an expression: 2 * hidden")
        return None
    try:
        cursor = Cursor(tokenize(node.text, EXPRESSION))
        value = expression(cursor, dims)
        cursor.finish("an operator")
    except ExpressionError as problem:
        problem.note(node)
        return None
    if value is None:
        return None
    if not 1 <= value <= most:
        note(f"{what} is {value}: a size is from 1 to {most:,}", node.where)
        return None
    return Size(value, " ".join(node.text.split()))


def sizes(node: Node, dims: Dims, what: str) -> Sizes | None:
    """A shape: one size (a vector) or a list of one or two (a matrix: rows, columns)."""
    items = node.items if isinstance(node, Sequence) else (node,)
    if not 1 <= len(items) <= 2:
        note(f"{what} must have one size or two", node.where, "a vector: hidden; a matrix: [hidden, embed]")
        return None
    numbers = [size(item, dims, what) for item in items]
    known = tuple(item for item in numbers if item is not None)
    if len(known) < len(numbers):
        return None
    whole = tuple(item.value for item in known)
    if math.prod(whole) > MOST_NUMBERS:
        message = f"{what} would hold {math.prod(whole):,} numbers; at most {MOST_NUMBERS:,} do"
        problem = Problem(message, node.where, "choose smaller sizes")
        report().extend([problem])
        report().large[problem] = whole
        return None
    return known


def known_dims(given: Names[str, int], names: tuple[str, ...]) -> None:
    """Refuse sizes that were asked for. Errors: AbwError for what is no dim, or no size."""
    for name, value in given.items():
        if name not in names:
            hint = suggest(name, names) or "the spec has no dims"
            raise AbwError(f"there is no dim '{name}' to set", hint=hint, exit_code=2)
        if not 1 <= value <= LARGEST:
            hint = f"a size is from 1 to {LARGEST:,}"
            raise AbwError(f"dim '{name}' cannot be {value}", hint=hint, exit_code=2)


def too_large(node: Mapping | None, dims: Dims, given: Names[str, int]) -> None:
    """Tell of the largest dim, in place of all that is too large by it; `given` go before the file's."""
    known = {name: value for name, value in dims.items() if value is not None}
    if not report().large or not known:
        return
    name = max(known, key=lambda name: known[name])
    value, most = known[name], LARGEST
    for sizes in report().large.values():
        both = sum(size % value == 0 for size in sizes)
        if value == 1 or not both:
            return  # it is not by a dim
        most = min(most, int(value * (MOST_NUMBERS / math.prod(sizes)) ** (1 / both)))
    first, *others = report().large
    what = f"{first.message.partition(';')[0]}{f', and {len(others)} more too many' if others else ''}"
    where = next((v.where for k, v in node.items if k.text == name), None) if node else None
    message = f"dim '{name}' is too large ({value:,}): {what}"
    report().blame(
        Problem(message, None if name in given else where, f"the largest that fits is about {most:,}")
    )


def resolve(node: Mapping | None, given: Names[str, int]) -> dict[str, int | None]:
    """The sizes of a model's dims, which may be expressions over each other; `given` go before the file's.

    Cost: linear in the dims and their mentions.
    """
    written = {key.text: value for key, value in fields.named(node, "dims", "a dim", fields.WORD)}
    mentions = {
        name: dict.fromkeys(
            token.text
            for token in tokenize(value.text if isinstance(value, Scalar) else "", EXPRESSION)
            if token.kind == "name" and token.text in written and name not in given
        )
        for name, value in written.items()
    }
    try:
        order = tuple(TopologicalSorter(mentions).static_order())
    except CycleError as error:
        cycle: list[str] = error.args[1]
        note(f"dims depend on each other: {' -> '.join(reversed(cycle))}", written[cycle[0]].where)
        return {name: given.get(name) for name in written}
    values: dict[str, int | None] = dict.fromkeys(written)
    for name in order:
        if name in given:
            values[name] = given[name]
        else:
            known = size(written[name], values, f"dim '{name}'")
            values[name] = known.value if known else None
    return {name: values[name] for name in written}
