"""Sizes: whole-number expressions over dims, and shapes made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping as Names
from graphlib import CycleError, TopologicalSorter

from abw.core.base.errors import AbwError, Problem
from abw.core.ir.shapes import MOST_NUMBERS, Size, Sizes
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar, Sequence
from abw.core.spec.text.report import Report, suggest
from abw.core.spec.text.tokens import EXPRESSION, Cursor, ExpressionError, parsed, tokenize

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
            raise ExpressionError(f"'{token.text}' is no size: a whole number", token.at, len(token.text))
        return _bounded(int(token.text), token.at)
    if token.kind == "name":
        cursor.take()
        if token.text not in dims:
            hint = suggest(token.text, dims) or "declare it under dims"
            raise ExpressionError(f"unknown dim '{token.text}'", token.at, len(token.text), hint)
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


def size(node: Node, dims: Dims, what: str, report: Report, most: int = LARGEST) -> Size | None:
    """A size from 1 to `most`, written as a number or an expression."""
    if not isinstance(node, Scalar) or not node.text:
        report.add(f"{what} must be a size", node.where, "a number, a dim, or an expression: 2 * hidden")
        return None

    def parse(text: str) -> int | None:
        cursor = Cursor(tokenize(text, EXPRESSION))
        value = expression(cursor, dims)
        cursor.finish("an operator")
        return value

    value = parsed(parse, node, report)
    if value is None:
        return None
    if not 1 <= value <= most:
        report.add(f"{what} is {value}: a size is from 1 to {most:,}", node.where)
        return None
    return Size(value, " ".join(node.text.split()))


def sizes(node: Node, dims: Dims, what: str, report: Report) -> Sizes | None:
    """A shape: one size (a vector) or a list of one or two (a matrix: rows, columns)."""
    items = node.items if isinstance(node, Sequence) else (node,)
    if not 1 <= len(items) <= 2:
        report.add(
            f"{what} must have one size or two", node.where, "a vector: hidden; a matrix: [hidden, embed]"
        )
        return None
    numbers = [size(item, dims, what, report) for item in items]
    known = tuple(item for item in numbers if item is not None)
    if len(known) < len(numbers):
        return None
    whole = tuple(item.value for item in known)
    if math.prod(whole) > MOST_NUMBERS:
        message = f"{what} would hold {math.prod(whole):,} numbers; at most {MOST_NUMBERS:,} do"
        problem = Problem(message, node.where, "choose smaller sizes")
        report.extend([problem])
        report.large[problem] = whole
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


def too_large(node: Mapping | None, dims: Dims, given: Names[str, int], report: Report) -> None:
    """Tell of the largest dim, in place of all that is too large by it; `given` go before the file's."""
    known = {name: value for name, value in dims.items() if value is not None}
    if not report.large or not known:
        return
    name = max(known, key=lambda name: known[name])
    value, most = known[name], LARGEST
    for sizes in report.large.values():
        both = sum(size % value == 0 for size in sizes)
        if value == 1 or not both:
            return  # it is not by a dim
        most = min(most, int(value * (MOST_NUMBERS / math.prod(sizes)) ** (1 / both)))
    first, *others = report.large
    what = f"{first.message.partition(';')[0]}{f', and {len(others)} more too many' if others else ''}"
    where = next((v.where for k, v in node.items if k.text == name), None) if node else None
    message = f"dim '{name}' is too large ({value:,}): {what}"
    report.blame(
        Problem(message, None if name in given else where, f"the largest that fits is about {most:,}")
    )


def resolve(node: Mapping | None, given: Names[str, int], report: Report) -> dict[str, int | None]:
    """The sizes of a model's dims, which may be expressions over each other; `given` go before the file's.

    Cost: linear in the dims and their mentions.
    """
    written = {key.text: value for key, value in fields.named(node, "dims", "a dim", report, fields.WORD)}
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
        report.add(f"dims depend on each other: {' -> '.join(reversed(cycle))}", written[cycle[0]].where)
        return {name: given.get(name) for name in written}
    values: dict[str, int | None] = dict.fromkeys(written)
    for name in order:
        if name in given:
            values[name] = given[name]
        else:
            known = size(written[name], values, f"dim '{name}'", report)
            values[name] = known.value if known else None
    return {name: values[name] for name in written}
