"""A library's file to a checked library: everything that is wrong with it is said at once."""

from __future__ import annotations

from collections.abc import Collection
from keyword import iskeyword
from pathlib import Path

from abw.core.ir.cell import Param, Port
from abw.core.ir.model import Library, NodeType, with_type
from abw.core.ir.schema import Schema
from abw.core.spec.cells.traced import Traced
from abw.core.spec.load import Overrides
from abw.core.spec.models.drafts import Cells, TypeDraft, find_cell
from abw.core.spec.models.resolve import Resolver
from abw.core.spec.models.sections import declared, owners_of, section
from abw.core.spec.models.train import library_training
from abw.core.spec.models.weights import read_weights
from abw.core.spec.models.wiring import share
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar, pairs, read
from abw.core.spec.text.fields import Reach
from abw.core.spec.text.report import note, report, reporting

OPTIONAL = ("dims", "tables", "params", "cells", "types", "weights", "train")


@reporting()
def load_library(path: Path, overrides: Overrides, taken: Collection[str] = ()) -> Library:
    """A checked library. `taken`: names that its types, tables and parameters cannot have.

    Errors: SpecError with all that is wrong in the file and its cells; AbwError for an override that names
    no dim or has an impossible value. Cost: linear in the files.
    """
    top = fields.mapping(read(path), "a library")
    library = None
    if top is not None and top.get("library") is None and top.get("model") is not None:
        hint = "abw.load(…) runs it; a library of cells begins with library: NAME"
        note(f"{path} is a model, not a library", top.where, hint)
    elif top is not None:
        library = _library(path, top, overrides, taken)
    return report().checked(library, path, "library")


def _library(path: Path, top: Mapping, overrides: Overrides, taken: Collection[str]) -> Library | None:
    reach = Reach(path.parent, overrides.allow_outside)
    top = fields.keys(top, "a library", ("library",), OPTIONAL)
    name, found = declared(top, "library", overrides.dims, reach)
    dims, tables = found.cells.dims, found.tables
    drafts = _drafts(section(top, "types"), found.cells)
    for part in ("tables", "params", "types", "cells"):
        _callable(section(top, part), taken)
    if not drafts and not len(report()):
        note("a library needs a cell", top.where, "types: {NAME: cells/FILE.yaml}")
    resolver = Resolver(Schema("", ()), drafts, tables, found.params)
    params, numbers = share(resolver)
    owners = owners_of(drafts, (*tables, *found.params), params)
    weights = read_weights(top, overrides.weights, reach, owners, dims)
    names = [*(param.name for param in params), *(table.name for table in found.whole)]
    training = library_training(section(top, "train"), names, reach)
    if len(report()) or name is None:
        return None
    return Library(
        name.text,
        (path, *found.files),
        {key: value for key, value in dims.items() if value is not None},
        found.whole,
        params,
        tuple(number for key, (number, _) in found.params.items() if key not in resolver.used),
        tuple(_type(draft, numbers[draft.number]) for draft in drafts),
        weights,
        training=training,
    )


def _drafts(node: Mapping | None, cells: Cells) -> list[TypeDraft]:
    """The types that are written, then a type for each of the library's own cells that none of them names."""
    drafts: list[TypeDraft] = []
    for key, value in fields.named(node, "types", "a type"):
        written = Mapping((), value.where)
        cell: Node | None = value
        if not isinstance(value, Scalar):
            what = f"type '{key.text}'"
            if (keys := fields.mapping(value, what)) is None:
                continue
            written = fields.keys(keys, what, ("cell",), ("dims", "params"), key.where)
            cell = written.get("cell")
        drafts.append(_draft(len(drafts), key, written, cell, cells))
    names = {draft.name for draft in drafts}
    for name, (key, _) in cells.own.items():
        if name not in cells.used:
            if name in names:
                message = f"cell '{name}' is called as the type '{name}', which has another cell"
                note(message, key.where, "rename one of them")
            drafts.append(_draft(len(drafts), key, Mapping((), key.where), key, cells))
    return drafts


def _draft(number: int, key: Scalar, written: Mapping, cell: Node | None, cells: Cells) -> TypeDraft:
    draft = TypeDraft(number, key, written, "", frozenset())
    find_cell(draft, cell, cells)
    return draft


def _callable(node: Mapping | None, taken: Collection[str]) -> None:
    """Programs write `net.NAME`: what cannot be written so is refused."""
    for key, _ in pairs(node):
        if not key.text.isidentifier() or iskeyword(key.text):
            note(f"'{key.text}' cannot be written in Python", key.where, "use letters, digits and '_'")
        elif key.text in taken or key.text.startswith("_"):
            note(f"'{key.text}' is a name that abw has taken", key.where, "use another name")


def _type(draft: TypeDraft, params: tuple[int, ...]) -> NodeType:
    assert draft.cell is not None
    outputs = tuple(Port(name, shape or ()) for name, shape in draft.outputs.items())
    where = draft.key.where
    return NodeType(draft.name, "", frozenset(), (), draft.cell, None, (), outputs, params, where)


def with_cell(library: Library, found: Traced) -> Library:
    """A library with one more type, of a cell that a Python function means."""
    cell = found.cell
    own = cell.params[: len(cell.params) - len(found.inherited)]
    new = [Param(f"{cell.name}.{p.name}", p.shape, p.init) for p in own]
    return with_type(library, cell, (*new, *found.inherited), found.where)
