"""Sections that models and libraries have alike: their own parameters, names, whose parameters are whose."""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.ir.cell import Param
from abw.core.ir.shapes import shape
from abw.core.spec.cells.files import param
from abw.core.spec.models.drafts import TypeDraft
from abw.core.spec.models.sources import KEYWORDS
from abw.core.spec.models.weights import Owners
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping
from abw.core.spec.text.report import Report
from abw.core.spec.text.sizes import Dims


def own_params(node: Mapping | None, dims: Dims, report: Report) -> dict[str, tuple[int, Param | None]]:
    """By name the number of each parameter of the section `params`; None where it has mistakes."""
    params: dict[str, tuple[int, Param | None]] = {}
    for key, value in node.items if node else ():
        if fields.name(key, "a parameter", report):
            known = param(value, dims, f"parameter '{key.text}'", report)
            item = Param(key.text, shape(known[0]), known[1]) if known else None
            params[key.text] = (len(params), item)
    return params


def clashes(top: Mapping, sections: Sequence[str], report: Report) -> None:
    """Types, tables and parameters share one space of names."""
    taken: dict[str, str] = {}
    for section in sections:
        node = top.get(section)
        for key, _ in node.items if isinstance(node, Mapping) else ():
            if key.text in KEYWORDS:
                report.add(f"'{key.text}' is a word of the language", key.where, "use another name")
            elif key.text in taken:
                message = f"'{key.text}' is there under {taken[key.text]} already"
                report.add(message, key.where, "use another name")
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
