"""Where a model's parameters and tables come from: a file of named tensors, and a map from its names.

value  = "zeros" | sum
sum    = term ("+" term)*
term   = ("transpose" "(" sum ")" | "concat" "(" sum ("," sum)* ")" | "(" sum ")" | tensor) slices*
slices = "[" pick ("," pick)* "]"
pick   = size | size? ":" size?                          # sizes are expressions over the model's dims

A tensor's name may hold all but blanks, brackets, commas and plus signs. In what is written for a whole type,
`*` in a name stands for each parameter of the type's own; in what is written for a repeated type, `#` stands
for the number of each of its layers, from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Names
from dataclasses import dataclass, replace
from pathlib import Path

from abw.core.base.errors import Span
from abw.core.ir.weights import Combined, Expr, Pick, Slice, Tensor, Value, Weights, Zeros
from abw.core.spec.keys.model import WEIGHTS
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping as Keys
from abw.core.spec.text.document import Node, Scalar, Sequence
from abw.core.spec.text.fields import Reach
from abw.core.spec.text.report import note, suggest
from abw.core.spec.text.sizes import (
    EXPRESSION,
    Cursor,
    Dims,
    ExpressionError,
    Token,
    expression,
    noting,
    tokenize,
)

_TENSORS = re.compile(r"(?P<blank>\s+) | (?P<name>[^\s()\[\],+]+) | (?P<sign>.)", re.VERBOSE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Owners:
    """The names that a map can give values to.

    `single` are tables and the model's own parameters; `types` have for each type the parameters of its own
    and those that it shares with others, by the cell's names; None where a mistake hides them. `layers` are
    the types that stand for each type that is repeated.
    """

    single: tuple[str, ...]
    types: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]] | None]
    layers: Mapping[str, Names[str]]


def read_weights(top: Keys, given: Path | None, reach: Reach, owners: Owners, dims: Dims) -> Weights:
    """The section of a model, written as a file's name or as `file`, `map` and `ignore`.

    The file `given` goes before the section's. Cost: linear in the section and the
    parameters that its patterns stand for.
    """
    key, node = top.key("weights"), top.get("weights")
    if node is None:
        return Weights(given, {}, (), None, None)
    entries = WEIGHTS.entries(node, "weights")
    if isinstance(node, Scalar):
        file = fields.text(node, "weights")
    else:
        fields.mapping(node, "weights")
        file = fields.text(entries.get("file"), "file of the weights")
    values: dict[str, Value] = {}
    for name, text, where in _entries(entries.items("map"), owners):
        if name in values:
            note(f"'{name}' is mapped twice", where, "one value for each")
        else:
            with noting(text):
                values[name] = Value(_parse(text.text, dims), text.text, text.where)
    ignore = _patterns(entries.get("ignore"))
    section = key.where if key else None
    if given or not file:
        return Weights(given, values, ignore, section, None)
    path = reach.file(file, "the weights")
    return Weights(path, values, ignore, section, file.where)


def _patterns(node: Node | None) -> tuple[str, ...]:
    if node is None:
        return ()
    if isinstance(node, Sequence) and all(isinstance(item, Scalar) and item.text for item in node.items):
        return tuple(item.text for item in node.items if isinstance(item, Scalar))
    note("ignore must be a list of tensors' names", node.where, "ignore: [decoder.*, step]")
    return ()


def _entries(items: Names[tuple[Scalar, Node]], owners: Owners) -> Iterator[tuple[str, Scalar, Span]]:
    """(name, its value as written, the key's place) for every parameter and table that the map names."""
    for key, value in (entry for item in items for entry in _layers(*item, owners)):
        what = f"'{key.text}'"
        owner, dot, single = key.text.partition(".")
        if key.text in owners.single or (dot and owner in owners.types):
            if dot and not _owns(owner, single, key.where, owners):  # a table's name has no dot
                continue
            if text := fields.text(value, what):
                yield key.text, text, key.where
        elif key.text in owners.types:
            yield from _of_type(key, value, owners)
        else:
            allowed = (*owners.single, *owners.types, *owners.layers)
            note(f"{what} is no table, parameter or type", key.where, suggest(key.text, allowed))


def _layers(key: Scalar, value: Node, owners: Owners) -> Iterator[tuple[Scalar, Node]]:
    """An entry, or where it is a repeated type's one for each of the layers."""
    owner, dot, single = key.text.partition(".")
    if owner not in owners.layers:
        yield key, value
    for number, layer in enumerate(owners.layers.get(owner, ())):
        yield replace(key, text=f"{layer}{dot}{single}"), _numbered(value, number)


def _numbered(node: Node, layer: int) -> Node:
    """What is written for a repeated type, as one of its layers has it."""
    if isinstance(node, Keys):
        return replace(node, items=tuple((key, _numbered(value, layer)) for key, value in node.items))
    if isinstance(node, Scalar) and "#" in node.text:
        # the text differs from the file's, so that its parts have no places of their own there
        return replace(node, text=node.text.replace("#", str(layer)), origin=())
    return node


def _of_type(key: Scalar, value: Node, owners: Owners) -> Iterator[tuple[str, Scalar, Span]]:
    """What a type's entry says for each of its own parameters."""
    known = owners.types[key.text]
    if known is None:
        return
    own, shared = known
    if isinstance(value, Keys):
        for name, written in value.items:
            if _owns(key.text, name.text, name.where, owners) and (
                single := fields.text(written, f"'{key.text}.{name.text}'")
            ):
                yield f"{key.text}.{name.text}", single, name.where
    elif text := fields.text(value, f"'{key.text}'"):
        if not own:
            why = "all of them are another type's" if shared else "its cell has none"
            note(f"type '{key.text}' has no parameters of its own", key.where, why)
        elif "*" not in text.text:
            hint = f"'{text.text}*' for all, or {{{own[0]}: TENSOR, …}}"
            note(f"'{text.text}' cannot be every parameter of type '{key.text}'", text.where, hint)
        else:
            for param in own:
                # the text differs from the file's, so that its parts have no places of their own there
                filled = Scalar(text.text.replace("*", param), text.plain, text.where, text.lines)
                yield f"{key.text}.{param}", filled, key.where


def _owns(owner: str, name: str, where: Span, owners: Owners) -> bool:
    known = owners.types[owner]
    if known is None:
        return False
    own, shared = known
    if name in own:
        return True
    if name in shared:
        message = f"type '{owner}' shares its parameter '{name}' with another type"
        note(message, where, "map it where it belongs")
    else:
        note(f"type '{owner}' has no parameter '{name}'", where, suggest(name, own))
    return False


def _parse(text: str, dims: Dims) -> Expr:
    cursor = Cursor(_tokens(text))
    if cursor.accept("zeros"):
        cursor.finish("the end")
        return Zeros()
    expr = _sum(cursor, dims)
    cursor.finish("'+', '[' or the end")
    return expr


def _tokens(text: str) -> list[Token]:
    """Names of tensors outside of brackets, expressions over dims inside."""
    found: list[Token] = []
    for piece in re.finditer(r"\[[^\]]*\]?|[^\[]+", text):
        pattern = EXPRESSION if piece.group().startswith("[") else _TENSORS
        tokens = tokenize(piece.group(), pattern)[:-1]
        found.extend(Token(t.kind, t.text, t.at + piece.start()) for t in tokens)
    return [*found, Token("end", "", len(text.rstrip()))]


def _sum(cursor: Cursor, dims: Dims) -> Expr:
    with cursor.nested():
        terms = [_term(cursor, dims)]
        while cursor.accept("+"):
            terms.append(_term(cursor, dims))
    return terms[0] if len(terms) == 1 else Combined("sum", tuple(terms))


def _term(cursor: Cursor, dims: Dims) -> Expr:
    token = cursor.token
    expr: Expr
    if cursor.accept("("):
        expr = _sum(cursor, dims)
        cursor.expect(")", "to close the parenthesis")
    elif token.kind == "name":
        cursor.take()
        expr = _call(token, cursor, dims) if cursor.accept("(") else Tensor(token.text)
    else:
        raise cursor.unexpected("the name of a tensor")
    while cursor.accept("["):
        picks = [_pick(cursor, dims)]
        while cursor.accept(","):
            picks.append(_pick(cursor, dims))
        cursor.expect("]", "to close the bracket")
        expr = Slice(expr, tuple(picks))
    return expr


def _call(name: Token, cursor: Cursor, dims: Dims) -> Expr:
    if name.text not in ("transpose", "concat"):
        hint = suggest(name.text, ("transpose", "concat"))
        raise name.error(f"unknown function '{name.text}'", hint)
    parts = [_sum(cursor, dims)]
    while name.text == "concat" and cursor.accept(","):
        parts.append(_sum(cursor, dims))
    cursor.expect(")", "to close the parenthesis")
    return Combined(name.text, tuple(parts))


def _pick(cursor: Cursor, dims: Dims) -> Pick:
    start = 0
    if not cursor.accept(":"):
        start = _place(cursor, dims) or 0
        if not cursor.accept(":"):
            return start
    if cursor.token.text in (",", "]"):
        return (start, None)
    at = cursor.token.at
    stop = _place(cursor, dims)
    if stop is not None and stop <= start:
        raise ExpressionError(f"nothing lies between {start} and {stop}", at)
    return (start, stop)


def _place(cursor: Cursor, dims: Dims) -> int | None:
    """A place along an axis; None where a dim is not known because of an earlier mistake."""
    at = cursor.token.at
    value = expression(cursor, dims)
    if value is not None and value < 0:
        raise ExpressionError(f"{value} is before the first", at)
    return value
