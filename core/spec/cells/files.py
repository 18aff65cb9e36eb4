"""Cells as they are written: read once, then made into a checked cell for every set of sizes asked for."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Names
from dataclasses import dataclass
from math import prod
from pathlib import Path

from abw.core.base.errors import Span, did_you_mean
from abw.core.ir.cell import Cell, Param, Port, without_dead
from abw.core.ir.operations import FUNCTIONS
from abw.core.ir.shapes import Size, Sizes, shape
from abw.core.spec.cells.builder import Listed, Number, Operand, Value, in_float32
from abw.core.spec.cells.equations import Equations, compile_equations
from abw.core.spec.keys.model import CELL, CONSTANT, MODEL_CELL, PARAM
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar, Sequence, read
from abw.core.spec.text.report import note, report
from abw.core.spec.text.sizes import Dims, sizes

# Numbers of one constant: they stand in the spec, and a kernel is made for them.
MOST_CONSTANTS = 4096


@dataclass(frozen=True, slots=True)
class CellFile:
    """A cell whose keys are right, from a file of its own or a model's section `cells`; its sizes and
    equations are looked at by `make`.

    `shown` is what messages call it, `mistakes` says that `dims`, `inputs` or `outputs` may be incomplete.
    """

    name: str
    shown: str
    dims: tuple[Scalar, ...]
    inputs: Names[str, tuple[Scalar, Node]]
    params: Names[str, tuple[Scalar, Node]]
    constants: Names[str, tuple[Scalar, Node]]
    equations: Scalar | None
    outputs: Names[str, tuple[Scalar, Scalar]]
    where: Span
    mistakes: bool


def read_cell(path: Path, asked: Span | None = None) -> CellFile | None:
    """A cell file's parts. `asked` is the place in a model that names it."""
    before = len(report())
    top = fields.mapping(read(path, asked), "a cell")
    if top is None:
        return None
    if top.get("model") is not None and top.get("cell") is None:
        where = asked or top.where
        note(f"{path} is a model, not a cell", where, "a cell file begins with cell: NAME")
        return None
    top = CELL.check(top, "a cell")
    name = fields.text(top.get("cell"), "the cell's name")
    return _parts(top, name.text if name else path.stem, path.name, before)


def read_cells(node: Mapping | None) -> dict[str, tuple[Scalar, CellFile | None]]:
    """The cells of a model's section `cells`, by name: each with its key; None where it is no mapping."""
    cells: dict[str, tuple[Scalar, CellFile | None]] = {}
    for key, value in fields.named(node, "cells", "a cell"):
        before, what = len(report()), f"cell '{key.text}'"
        if top := fields.mapping(value, what):
            top = MODEL_CELL.check(top, what, key.where)
        cells[key.text] = (key, _parts(top, key.text, what, before) if top else None)
    return cells


def _parts(top: Mapping, name: str, shown: str, before: int) -> CellFile:
    """What the keys of a cell hold; `before`: how many mistakes were known when its reading began."""
    dims = fields.names(top.get("dims"), "dims")
    inputs, params, constants, written = (
        _named(top.get(name), name) for name in ("inputs", "params", "constants", "outputs")
    )
    for clash in inputs.keys() & params.keys():
        note(f"'{clash}' is an input and a parameter", params[clash][0].where, "rename one of them")
    for clash in constants.keys() & (inputs.keys() | params.keys()):
        what = "an input" if clash in inputs else "a parameter"
        note(f"'{clash}' is {what} and a constant", constants[clash][0].where, "rename one of them")
    for clash in constants.keys() & {dim.text for dim in dims}:
        note(f"'{clash}' is a dim and a constant", constants[clash][0].where, "rename one of them")
    outputs: dict[str, tuple[Scalar, Scalar]] = {}
    for key, given in written.values():
        if value := fields.text(given, f"output '{key.text}'"):
            outputs[key.text] = (key, value)
    node = top.get("outputs")
    if isinstance(node, Mapping) and not node.items:
        note("a cell needs an output", node.where)
    return CellFile(
        name,
        shown,
        dims,
        inputs,
        params,
        constants,
        fields.text(top.get("equations"), "equations"),
        outputs,
        top.where,
        len(report()) > before,
    )


def _named(node: Node | None, what: str) -> dict[str, tuple[Scalar, Node]]:
    found = {}
    for key, value in fields.named(node, what, what.removesuffix("s"), fields.WORD):
        found[key.text] = (key, value)
        if key.text in FUNCTIONS:
            note(f"'{key.text}' is a function's name", key.where)
    return found


def make(file: CellFile, dims: Dims) -> Cell | None:
    """The cell with these sizes; None, the problems noted, where it has mistakes.

    `dims` are by the cell's own names. Cost: linear in the file.
    """
    before = len(report())
    ports = {name: sizes(node, dims, f"input '{name}'") for name, (_, node) in file.inputs.items()}
    params = {name: param(node, dims, f"parameter '{name}'") for name, (_, node) in file.params.items()}
    constants = {
        name: constant(node, dims, f"constant '{name}'") for name, (_, node) in file.constants.items()
    }
    given: dict[str, Operand | Listed] = {}
    known = {**ports, **{name: item[0] if item else None for name, item in params.items()}}
    for number, (name, size) in enumerate(known.items()):
        given[name] = Value(number, size) if size else None
    if file.equations is None:
        return None
    first = len(given)
    equations = compile_equations(file.equations, {**constants, **given}, first, dims)
    outputs = _outputs(file, equations, first)
    if equations.whole:
        _unused(file, equations)
    if len(report()) > before or file.mistakes:
        return None
    # what broadcasting goes around is left behind
    return without_dead(
        Cell(
            file.name,
            tuple(Port(name, shape(size)) for name, size in ports.items() if size),
            tuple(Param(name, shape(item[0]), item[1]) for name, item in params.items() if item),
            tuple(equations.program.ops),
            tuple(outputs.items()),
        )
    )


def param(node: Node, dims: Dims, what: str) -> tuple[Sizes, float | None] | None:
    """A parameter's sizes and initial value, written `hidden`, `[hidden, embed]` or `{shape:, init:}`."""
    if not isinstance(node, Mapping):
        shape = sizes(node, dims, what)
        return (shape, None) if shape else None
    node = PARAM.check(node, what)
    init = _number(node.get("init"), f"init of {what}")
    written = node.get("shape")
    shape = sizes(written, dims, what) if written else None
    return (shape, init) if shape else None


def constant(node: Node, dims: Dims, what: str) -> Operand | Listed:
    """A number, a list of numbers, a list of such lists, or `{shape:, value:}`."""
    if isinstance(node, Mapping):
        node = CONSTANT.check(node, what)
        value, written = (node.get(key) for key in ("value", "shape"))
        filled = _number(value, f"value of {what}")
        given = sizes(written, dims, what) if written else None
        if filled is None or given is None:
            return None
        return _listed(given, lambda: [filled] * prod(shape(given)), node, what)
    if not isinstance(node, Sequence):
        number = _number(node, what)
        return None if number is None else Number(number)
    rows = [item.items if isinstance(item, Sequence) else (item,) for item in node.items]
    nested = {isinstance(item, Sequence) for item in node.items}
    if len(nested) != 1 or len(set(map(len, rows))) != 1 or not rows[0]:
        note(f"{what} must be a number, or a list of numbers or of equally long lists", node.where)
        return None
    counts = (len(rows), len(rows[0])) if nested == {True} else (len(rows),)

    def numbers() -> list[float] | None:
        found = [_number(item, what) for row in rows for item in row]
        known = [number for number in found if number is not None]
        return known if len(known) == len(found) else None

    return _listed(tuple(Size(count, str(count)) for count in counts), numbers, node, what)


def _number(node: Node | None, what: str) -> float | None:
    """A number that a float32 holds."""
    number = fields.number(node, what)
    if node is not None and number is not None and not in_float32(number):
        note(f"{what} is beyond what a float32 holds", node.where, "at most 3.4e38")
        return None
    return number


def _listed(given: Sizes, numbers: Callable[[], list[float] | None], node: Node, what: str) -> Listed | None:
    if (count := prod(shape(given))) > MOST_CONSTANTS:
        hint = "a parameter has as many as you like"
        note(f"{what} has {count:,} numbers: {MOST_CONSTANTS:,} at most", node.where, hint)
        return None
    found = numbers()
    return None if found is None else Listed(given, tuple(found))


def _outputs(file: CellFile, equations: Equations, first: int) -> dict[str, int]:
    """The value number of each output; one that is no operation's own gets an `identity`."""
    dims_of: dict[str, int] = {}
    for name, (_, written) in file.outputs.items():
        if written.text not in equations.names:
            if equations.whole:
                hint = did_you_mean(written.text, tuple(equations.names))
                note(f"output '{name}': unknown name '{written.text}'", written.where, hint)
            continue
        value = equations.names[written.text]
        if isinstance(value, Number) or written.text in file.constants:
            note(
                f"output '{name}' is a constant", written.where, "an output depends on an input or parameter"
            )
        elif isinstance(value, Value):
            if value.number < first or value.number in dims_of.values():
                value = equations.program.identity(value, name)
            dims_of[name] = value.number
    return dims_of


def _unused(file: CellFile, equations: Equations) -> None:
    used = equations.uses | {written.text for _, written in file.outputs.values()}
    for what, items in (("input", file.inputs), ("parameter", file.params), ("constant", file.constants)):
        for name, (key, _) in items.items():
            if name not in used:
                note(f"{what} '{name}' is never used", key.where, "use it in an equation, or leave it out")
    for name, token in equations.defined.items():
        if name not in used and file.equations:
            where = file.equations.at(token.at, len(name))
            note(f"'{name}' is never used", where, "name it under outputs, or leave the equation out")
