"""A model's types as they are written: each key checked, inputs not yet followed."""

from __future__ import annotations

from collections.abc import Mapping as Names
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from abw.core.base.errors import did_you_mean
from abw.core.ir.cell import Cell, Shape
from abw.core.ir.model import ATTENDED, SIMPLE, Attention, Reduction, Where
from abw.core.ir.schema import Kinds, Schema
from abw.core.spec.cells.files import CellFile, make, read_cell
from abw.core.spec.keys.model import ATTEND, OF_CELLS, REDUCTIONS, TYPE
from abw.core.spec.models.sources import Layer, parse_conditions
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar, pairs
from abw.core.spec.text.fields import Reach
from abw.core.spec.text.report import note, suggest
from abw.core.spec.text.sizes import Dims, ExpressionError, size

MOST_LAYERS = 1000
# Kinds that a message names.
MOST_NAMED = 6


@dataclass(slots=True)
class TypeDraft:
    """A type on its way. `outputs` have no shape where it is not known (yet).

    Of a type that is repeated there is a draft for each of its `layers`, numbered from 0 (`layer`); others
    have no layers. Of a reduction `reduced` says which input each output is made of, and `ports` which shape
    its inputs have, once that is known. `whole` is False where a mistake hides some of the outputs: then none
    is missed.
    """

    number: int
    key: Scalar
    node: Mapping
    per: str
    kinds: Kinds
    where: tuple[Where, ...] = ()
    file: CellFile | None = None
    cell: Cell | None = None
    reduction: Reduction | Attention | None = None
    reduced: Names[str, str] = field(default_factory=dict)
    ports: dict[str, Shape] = field(default_factory=dict)
    bindings: dict[str, tuple[Scalar, Scalar]] = field(default_factory=dict)
    outputs: dict[str, Shape | None] = field(default_factory=dict)
    whole: bool = True
    layer: int = 0
    layers: int = 0

    @property
    def name(self) -> str:
        """The type's name; a layer's has its number behind."""
        return f"{self.key.text}-{self.layer}" if self.layers else self.key.text


def named(
    drafts: Sequence[TypeDraft], name: str, user: TypeDraft | None = None, layer: Layer | None = None
) -> TypeDraft | None:
    """The type that `user` means by a name.

    A repeated type's name means the same layer to types that are repeated as often, its last to others;
    `layer` picks the one below (there is one) or the last.
    """
    layers = [draft for draft in drafts if draft.layers and draft.key.text == name]
    if not layers:
        return None if layer else next((draft for draft in drafts if draft.name == name), None)
    if user is None or user.layers != len(layers) or layer == "last":
        return layers[-1] if layer != "below" else None
    return layers[user.layer - (layer == "below")]


@dataclass(slots=True)
class Cells:
    """The cells that a model names, each file read once and each set of sizes made once.

    `dims` are the model's, `own` the cells of its section `cells`, of which `used` were named.
    """

    reach: Reach
    dims: Dims
    own: Names[str, tuple[Scalar, CellFile | None]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    files: dict[Path, CellFile | None] = field(default_factory=dict)
    made: dict[tuple[int, tuple[tuple[str, int | None], ...]], Cell | None] = field(default_factory=dict)

    def file(self, name: Scalar) -> CellFile | None:
        """The cell that a type names: one of the model's own, else a file's."""
        if name.text in self.own:
            self.used.add(name.text)
            return self.own[name.text][1]
        path = self.reach.file(name, "the cell")
        if path is None:
            return None
        if self.own and fields.NAME.fullmatch(name.text) and not path.exists():
            note(f"unknown cell '{name.text}'", name.where, suggest(name.text, self.own))
            return None
        if path not in self.files:
            self.files[path] = read_cell(path, name.where)
        return self.files[path]

    def cell(self, file: CellFile, dims: Dims) -> Cell | None:
        """The file's cell with these sizes."""
        key = (id(file), tuple(dims.items()))
        if key not in self.made:
            self.made[key] = make(file, dims)
        return self.made[key]


def draft_types(node: Mapping, cells: Cells, schema: Schema) -> list[TypeDraft] | None:
    """All types that are mappings, in the file's order.

    None where it is not known how often one is repeated: which types there are is not, either.
    """
    drafts: list[TypeDraft] = []
    known = True
    for key, value in fields.named(node, "types", "a type"):
        what = f"type '{key.text}'"
        if written := fields.mapping(value, what):
            layers = _layers(written, what, cells)
            known &= layers is not None
            for layer in range(layers or 1):
                draft = _draft(len(drafts), key, written, schema, cells)
                draft.layer, draft.layers = layer, layers or 0
                if draft.reduction is None:
                    _cell(draft, cells)
                if draft.name in (other.name for other in drafts):
                    note(f"there are two types '{draft.name}'", key.where, "rename one of them")
                drafts.append(draft)
    return drafts if known else None


def _layers(node: Mapping, what: str, cells: Cells) -> int | None:
    """How often a type is repeated: 0 where it is not, None where that is written wrongly."""
    written = node.get("repeat")
    if written is None:
        return 0
    known = size(written, cells.dims, f"repeat of {what}", MOST_LAYERS)
    return known.value if known else None


def _draft(number: int, key: Scalar, node: Mapping, schema: Schema, cells: Cells) -> TypeDraft:
    what = f"type '{key.text}'"
    found = _computed_by(node)
    if len(found) > 1 and (last := node.key(found[-1])):
        note(f"{what} has {' and '.join(found)}: it is one of them", last.where)
    others = set[str]()
    if found:
        others = {*REDUCTIONS} if found == ["cell"] else {"cell", *REDUCTIONS, *OF_CELLS}
    node = TYPE.without(*others.difference(found)).check(node, what, key.where)
    found = _computed_by(node)
    reduction = next((name for name in REDUCTIONS if name in found), None)
    if not found:
        hint = "give a cell file, or a sum, mean, max or attend over a link"
        note(f"{what} has no cell", key.where, hint)
    per = fields.text(node.get("per"), f"per of {what}")
    kinds = schema.members(per.text) if per else Kinds()
    if per and not kinds:
        allowed_kinds = (*schema.kinds, *schema.groups)
        note(f"unknown kind '{per.text}'", per.where, suggest(per.text, allowed_kinds))
    draft = TypeDraft(number, key, node, per.text if per else "", kinds)
    if condition := fields.text(node.get("where"), f"where of {what}"):
        draft.where = _conditions(condition, kinds, schema)
    bound = node.get(reduction) if reduction else node.get("inputs")
    inputs = fields.mapping(bound, f"{reduction or 'inputs'} of {what}")
    written = pairs(inputs)
    if reduction == ATTEND_KEY:
        draft.reduction = read_attention(inputs or Mapping((), node.where), what, cells.dims)
        written = tuple((k, v) for name in ATTENDED for k, v in written if k.text == name)
    elif reduction:
        draft.reduction = next(name for name in SIMPLE if name == reduction)
    for name, value in written:
        if source := fields.text(value, f"input '{name.text}'"):
            draft.bindings[name.text] = (name, source)
        else:
            draft.whole = False
    if reduction:
        one = {ATTEND_OUTPUT: ATTENDED[0]}
        draft.reduced = one if reduction == ATTEND_KEY else {name: name for name in draft.bindings}
        draft.outputs = dict.fromkeys(draft.reduced)
        if inputs and not inputs.items and reduction != ATTEND_KEY:
            note(f"{what} has nothing to reduce", inputs.where, f"{reduction}: {{h: link.h}}")
    draft.whole &= bool(found) and (inputs is not None or not reduction)
    return draft


def _computed_by(node: Mapping) -> list[str]:
    """The keys of a type that say how it is computed."""
    return [name for name in ("cell", *REDUCTIONS) if node.get(name) is not None]


def _conditions(text: Scalar, kinds: Kinds, schema: Schema) -> tuple[Where, ...]:
    conditions = []
    try:
        for condition in parse_conditions(text.text):
            name = condition.field.text
            location = text.at(condition.field.at, len(name))
            allowed = schema.fields_of(kinds)
            if name in allowed and schema.fields[name].size:
                hint = f"the data has {schema.fields[name].doc}: a condition compares whole numbers from 0"
                note(f"field '{name}' holds floats", location, hint)
            elif name in allowed and not schema.fields[name].text:
                conditions.append(Where(name, condition.comparison, condition.value))
            elif name in allowed:
                note(f"field '{name}' holds text", location, "a condition compares numbers")
            elif kinds:
                note(f"{kinds_text(kinds)} has no field '{name}'", location, suggest(name, allowed))
    except ExpressionError as problem:
        problem.note(text)
    return tuple(conditions)


def kinds_text(kinds: Kinds) -> str:
    """Kinds for messages: leaf or internal; of many the first ones."""
    names = sorted(kinds)
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} other kinds"]
    return " or ".join(names)


def _cell(draft: TypeDraft, cells: Cells) -> None:
    """Find the draft's cell, give it its sizes, and see that each of its inputs is bound."""
    file = find_cell(draft, draft.node.get("cell"), cells)
    if file is None:
        return
    for name in file.inputs:
        if name not in draft.bindings and draft.whole:
            key = draft.node.key("inputs") or draft.key
            note(f"input '{name}' of {file.shown} is not bound", key.where, f"inputs: {{{name}: …}}")
    for name, (key, _) in draft.bindings.items():
        if name not in file.inputs and draft.whole:
            hint = suggest(name, file.inputs) or "the cell has no inputs"
            note(f"{file.shown} has no input '{name}'", key.where, hint)


def find_cell(draft: TypeDraft, node: Node | None, cells: Cells) -> CellFile | None:
    """Find the cell that `node` names, and give the draft its sizes and outputs; None where there is none."""
    written = fields.text(node, "cell")
    draft.file = file = cells.file(written) if written else None
    if file is None or written is None:
        draft.whole = False
        return None
    draft.outputs = dict.fromkeys(file.outputs)
    draft.whole = not file.mistakes
    sizes = _sizes(draft, file, written, cells)
    if sizes is not None:
        draft.cell = cells.cell(file, sizes)
    if draft.cell:
        draft.outputs = {port.name: port.shape for port in draft.cell.output_ports}
    return file


def _sizes(draft: TypeDraft, file: CellFile, written: Scalar, cells: Cells) -> Names[str, int] | None:
    """The sizes by the cell's names: from the type's `dims`, else the model's; None where one is missing."""
    dims = cells.dims
    given: dict[str, Node] = {}
    wanted = tuple(scalar.text for scalar in file.dims)
    for key, node in pairs(fields.mapping(draft.node.get("dims"), f"dims of type '{draft.name}'")):
        if key.text in wanted:
            given[key.text] = node
        elif not file.mistakes:
            hint = did_you_mean(key.text, wanted) or "the cell has no dims"
            note(f"{file.shown} has no dim '{key.text}'", key.where, hint)
    outputs: dict[str, int | None] = {}
    for name in wanted:
        if name in given:
            known = size(given[name], dims, f"dim '{name}'")
            outputs[name] = known.value if known else None
        elif name in dims:
            outputs[name] = dims[name]
        else:
            outputs[name] = None
            hint = f"set its size: dims: {{{name}: hidden}}"
            note(f"dim '{name}' of {file.shown} has no size", written.where, hint)
    whole = {name: value for name, value in outputs.items() if value is not None}
    return whole if len(whole) == len(outputs) else None


ATTEND_KEY = "attend"
# Its only output.
ATTEND_OUTPUT = "y"
# What it might be expected to have, and has elsewhere.
_MASKS = ("mask", "where")


def read_attention(node: Mapping, what: str, dims: Dims) -> Attention:
    """The section's options; sources are read by who reads those of all types."""
    masks = [key for name in _MASKS if (key := node.key(name))]
    waived = [key.text for key in masks]
    entries = ATTEND.entries(node, f"{ATTEND_KEY} of {what}", waived=waived, of=f" of {what}")
    for key in masks:
        hint = "neighbours are masked by the `where` of the types of keys and values, pairs by a link"
        note(f"{ATTEND_KEY} of {what} has no {key.text} of its own", key.where, hint)
    written = entries.get("heads")
    heads = size(written, dims, f"heads of {what}") if written else None
    scaled, score = entries.truth("scaled"), entries.word("score", "unknown score")
    added = score is not None and score.text == "added"
    if added and scaled and (key := node.key("scaled")):
        note("only products are scaled", key.where, "leave it out, or the score")
    return Attention(heads.value if heads else 1, scaled is not False and not added, added)


def check_shapes(
    attention: Attention, shapes: Names[str, Shape | None], locations: Names[str, Scalar]
) -> None:
    """See that all are vectors, query and keys of one size, and that the heads divide them evenly."""
    keys = shapes["keys"] or shapes["query"]
    for name in ("query", "keys"):
        shape = shapes[name]
        if shape is not None and len(shape) != 1:
            note(f"{name} must be vectors, not {list(shape)}", locations[name].where)
        elif shape is not None and shape != keys:
            message = f"the query has {list(shape)} numbers, the keys have {list(keys or ())}"
            note(message, locations[name].where, "a score wants as many of both")
    for name in ("keys", "values"):
        shape = shapes[name]
        if shape is not None and len(shape) == 1 and shape[0] % attention.heads:
            message = f"{attention.heads} heads cannot share {shape[0]} numbers of {name} evenly"
            note(message, locations[name].where, "take a number of heads that divides them")
    values = shapes["values"]
    if values is not None and len(values) != 1:
        note(f"values must be vectors, not {list(values)}", locations["values"].where)
