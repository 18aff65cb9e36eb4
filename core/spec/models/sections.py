"""Sections that models and libraries have alike: their own parameters, names, whose parameters are whose."""

from __future__ import annotations

from collections.abc import Mapping as Names
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from abw.core.ir.cell import Param
from abw.core.ir.model import Table
from abw.core.ir.shapes import shape
from abw.core.spec.cells.files import param, read_cells
from abw.core.spec.models.drafts import Cells, TypeDraft
from abw.core.spec.models.sources import KEYWORDS
from abw.core.spec.models.tables import Tables, read_tables
from abw.core.spec.models.weights import Owners
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Scalar, pairs
from abw.core.spec.text.fields import Reach
from abw.core.spec.text.report import note
from abw.core.spec.text.sizes import Dims, known_dims, resolve


@dataclass(frozen=True, slots=True)
class Declared:
    """What a model or library declares beside its types.

    By name numbered tables and parameters, and cells with dims; None for what has mistakes.
    """

    tables: Tables
    params: Names[str, tuple[int, Param | None]]
    cells: Cells

    @property
    def whole(self) -> tuple[Table, ...]:
        """The tables without mistakes."""
        return tuple(table for _, table in self.tables.values() if table)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of cells and vocabularies."""
        vocabularies = dict.fromkeys(table.vocab.path for table in self.whole if table.vocab)
        return (*self.cells.files, *vocabularies)


def section(top: Mapping, name: str) -> Mapping | None:
    """A section that is a mapping."""
    return fields.mapping(top.get(name), name)


def declared(top: Mapping, kind: str, sizes: Names[str, int], reach: Reach) -> tuple[Scalar | None, Declared]:
    """The name of a model or library (`kind`), and what it declares; `sizes` of dims go before the file's.

    Errors: AbwError for sizes of what is no dim.
    """
    name = fields.text(top.get(kind), f"the {kind}'s name")
    if name:
        fields.name(name, f"a {kind}")
    written = section(top, "dims")
    known_dims(sizes, tuple(key.text for key, _ in written.items) if written else ())
    dims = resolve(written, sizes)
    tables = read_tables(section(top, "tables"), reach, dims)
    params = _params(section(top, "params"), dims)
    _clashes(top, ("tables", "params", "types"))
    cells = Cells(reach, dims, read_cells(section(top, "cells")))
    return name, Declared(tables, params, cells)


def _params(node: Mapping | None, dims: Dims) -> dict[str, tuple[int, Param | None]]:
    """Read the section `params`: each parameter and its number by name; None for one with mistakes."""
    params: dict[str, tuple[int, Param | None]] = {}
    for key, value in fields.named(node, "params", "a parameter"):
        known = param(value, dims, f"parameter '{key.text}'")
        item = Param(key.text, shape(known[0]), known[1]) if known else None
        params[key.text] = (len(params), item)
    return params


def _clashes(top: Mapping, sections: Sequence[str]) -> None:
    """Types, tables and parameters share one space of names."""
    taken: dict[str, str] = {}
    for section in sections:
        for key, _ in pairs(top, section):
            if key.text in KEYWORDS:
                note(f"'{key.text}' is a word of the language", key.where, "use another name")
            elif key.text in taken:
                message = f"'{key.text}' is already defined under {taken[key.text]}"
                note(message, key.where, "use another name")
            taken.setdefault(key.text, section)


def owners_of(drafts: Sequence[TypeDraft], single: tuple[str, ...], params: Sequence[Param]) -> Owners:
    """The names that the map of `weights` can give values to; `params` are all, `single` no type's own."""
    names = {param.name for param in params}
    types: dict[str, tuple[tuple[str, ...], tuple[str, ...]] | None] = {}
    for draft in drafts:
        written = [p.name for p in draft.cell.params] if draft.cell else []
        own = tuple(name for name in written if f"{draft.name}.{name}" in names)
        shared = tuple(name for name in written if name not in own)
        types[draft.name] = (own, shared) if draft.cell or draft.reduction else None
    layers: dict[str, list[str]] = {}
    for draft in drafts:
        if draft.layers:
            layers.setdefault(draft.key.text, []).append(draft.name)
    return Owners(single, types, layers)
