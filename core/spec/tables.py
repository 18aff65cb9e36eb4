"""The section `tables` of a model: embedding tables, each with its vocabulary."""

from __future__ import annotations

from pathlib import Path

from abw.core.spec import fields
from abw.core.spec.document import Mapping, Node, Scalar
from abw.core.spec.model import Table, Vocabulary
from abw.core.spec.report import Report
from abw.core.spec.sizes import Dims, shape, size, sizes
from abw.core.spec.vocab import read_vocabulary

DEFAULT_ROWS = 256


def read_tables(
    node: Mapping | None, folder: Path, dims: Dims, report: Report
) -> dict[str, tuple[int, Table | None]]:
    """By name a table's number, and the table itself unless it has mistakes.

    Vocabularies lie in `folder`. Cost: linear in the section and the vocabularies.
    """
    found: dict[str, tuple[int, Table | None]] = {}
    for key, value in node.items if node else ():
        if fields.name(key, "a table", report):
            found[key.text] = (len(found), _table(key, value, folder, dims, report))
    return found


def _table(key: Scalar, value: Node, folder: Path, dims: Dims, report: Report) -> Table | None:
    before = len(report)
    what = f"table '{key.text}'"
    node = fields.mapping(value, what, report)
    if node is None:
        return None
    fields.keys(node, what, report, ("dim",), ("rows", "vocab", "unknown"), key.where)
    dim, written = node.get("dim"), node.get("rows")
    found = sizes(dim, dims, f"dim of {what}", report) if dim else None
    rows = size(written, dims, f"rows of {what}", report, fields.MOST) if written else None
    vocab = _vocabulary(node, what, folder, report)
    count = max(vocab.rows.values()) + 1 if vocab else DEFAULT_ROWS
    if vocab and rows and written and rows.value < count:
        message = f"{what} has {rows.value} rows, its vocabulary needs {count}"
        report.add(message, written.where, "leave out 'rows', and they are as many as the vocabulary needs")
    if rows:
        count = rows.value
    unknown = _unknown(node, what, vocab, count, report)
    if len(report) > before or found is None:
        return None
    return Table(key.text, count, shape(found), vocab, unknown, key.where)


def _vocabulary(node: Mapping, what: str, folder: Path, report: Report) -> Vocabulary | None:
    written = fields.text(node.get("vocab"), f"vocab of {what}", report)
    if written is None:
        return None
    path = folder / written.text
    rows = read_vocabulary(path, written.where, report)
    return Vocabulary(path, rows) if rows else None


def _unknown(node: Mapping, what: str, vocab: Vocabulary | None, count: int, report: Report) -> int | None:
    """The row of words that the vocabulary does not have, written as one of its words or as a number."""
    written = fields.text(node.get("unknown"), f"unknown of {what}", report)
    if written is None:
        return None
    if node.get("vocab") is None:
        report.add(f"{what} has no vocab", written.where, "'unknown' is a word of the vocabulary, or its row")
    if vocab is None:
        return None
    row = fields.plain_integer(written)
    if row is None:
        row = vocab.rows.get(written.text)
        if row is None:
            report.add(f"'{written.text}' is no word of {vocab.path}", written.where, "or name a row: 0")
    elif not 0 <= row < count:
        report.add(f"{what} has no row {row}", written.where, f"rows are 0 to {count - 1}")
    return row
