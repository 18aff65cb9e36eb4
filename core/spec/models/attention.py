"""Attention as a type has it: `attend: {query: q, keys: links.k, values: links.v, heads: 4}`."""

from __future__ import annotations

from collections.abc import Mapping as Names

from abw.core.ir.cell import Shape
from abw.core.ir.model import Attention
from abw.core.spec.keys.model import ATTEND
from abw.core.spec.text.document import Mapping, Scalar
from abw.core.spec.text.report import Report
from abw.core.spec.text.sizes import Dims, size

KEY = "attend"
# What it reads, in the order of its slots.
SOURCES = ("values", "keys", "query")
# Its only output.
OUTPUT = "y"
# What it might be expected to have, and has elsewhere.
_MASKS = ("mask", "where")


def read_attention(node: Mapping, what: str, dims: Dims, report: Report) -> Attention:
    """The section's options; sources are read by who reads those of all types."""
    masks = [key for name in _MASKS if (key := node.key(name))]
    waived = [key.text for key in masks]
    entries = ATTEND.entries(node, f"{KEY} of {what}", report, waived=waived, of=f" of {what}")
    for key in masks:
        hint = "neighbours are masked by the `where` of the types of keys and values, pairs by a link"
        report.add(f"{KEY} of {what} has no {key.text} of its own", key.where, hint)
    written = entries.get("heads")
    heads = size(written, dims, f"heads of {what}", report) if written else None
    scaled, score = entries.truth("scaled"), entries.word("score", "unknown score")
    added = score is not None and score.text == "added"
    if added and scaled and (key := node.key("scaled")):
        report.add("only products are scaled", key.where, "leave it out, or the score")
    return Attention(heads.value if heads else 1, scaled is not False and not added, added)


def check_shapes(
    attention: Attention, shapes: Names[str, Shape | None], locations: Names[str, Scalar], report: Report
) -> None:
    """See that all are vectors, query and keys of one size, and that the heads divide them evenly."""
    keys = shapes["keys"] or shapes["query"]
    for name in ("query", "keys"):
        shape = shapes[name]
        if shape is not None and len(shape) != 1:
            report.add(f"{name} must be vectors, not {list(shape)}", locations[name].where)
        elif shape is not None and shape != keys:
            message = f"the query has {list(shape)} numbers, the keys have {list(keys or ())}"
            report.add(message, locations[name].where, "a score wants as many of both")
    for name in ("keys", "values"):
        shape = shapes[name]
        if shape is not None and len(shape) == 1 and shape[0] % attention.heads:
            message = f"{attention.heads} heads cannot share {shape[0]} numbers of {name} evenly"
            report.add(message, locations[name].where, "take a number of heads that divides them")
    values = shapes["values"]
    if values is not None and len(values) != 1:
        report.add(f"values must be vectors, not {list(values)}", locations["values"].where)
