"""The section `tables` of a model: embedding tables, each with its vocabulary."""

from __future__ import annotations

from abw.core.ir.model import Table, Vocabulary
from abw.core.ir.shapes import shape
from abw.core.spec.keys.model import TABLE
from abw.core.spec.keys.section import Entries
from abw.core.spec.models.vocab import read_vocabulary
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar
from abw.core.spec.text.reach import Reach
from abw.core.spec.text.report import Report
from abw.core.spec.text.sizes import Dims, size, sizes

DEFAULT_ROWS = 256
# Of all tables together: their rows, and some values more, are numbered in 31 bits (see `LISTED`).
MOST_ROWS = 2**30 - 2**20


def read_tables(
    node: Mapping | None, reach: Reach, dims: Dims, report: Report
) -> dict[str, tuple[int, Table | None]]:
    """Read each table and its number, by name; None for one with mistakes.

    Cost: linear in the section and the vocabularies.
    """
    tables: dict[str, tuple[int, Table | None]] = {}
    total = 0
    for key, value in fields.named(node, "tables", "a table", report):
        table = _table(key, value, reach, dims, report)
        tables[key.text] = (len(tables), table)
        total += table.rows if table else 0
        if table and total - table.rows <= MOST_ROWS < total:
            message = f"the tables down to this one have {total:,} rows together, of at most {MOST_ROWS:,}"
            report.add(message, key.where)
    return tables


def _table(key: Scalar, value: Node, reach: Reach, dims: Dims, report: Report) -> Table | None:
    before = len(report)
    what = f"table '{key.text}'"
    node = fields.mapping(value, what, report)
    if node is None:
        return None
    entries = TABLE.entries(node, what, report, key.where, of=f" of {what}")
    dim, written = entries.get("dim"), entries.get("rows")
    found = sizes(dim, dims, f"dim of {what}", report) if dim else None
    rows = size(written, dims, f"rows of {what}", report, fields.MOST) if written else None
    vocab = _vocabulary(entries.text("vocab"), reach, report)
    count = max(vocab.rows.values()) + 1 if vocab else DEFAULT_ROWS
    if vocab and rows and written and rows.value < count:
        message = f"{what} has {rows.value} rows, its vocabulary needs {count}"
        report.add(message, written.where, "leave out 'rows', and they are as many as the vocabulary needs")
    if rows:
        count = rows.value
    unknown = _unknown(entries, what, vocab, count)
    if len(report) > before or found is None:
        return None
    return Table(key.text, count, shape(found), vocab, unknown, key.where)


def _vocabulary(written: Scalar | None, reach: Reach, report: Report) -> Vocabulary | None:
    if written is None:
        return None
    path = reach.file(written, "the vocabulary", report)
    rows = read_vocabulary(path, written.where, report) if path else None
    return Vocabulary(path, rows) if path and rows else None


def _unknown(entries: Entries, what: str, vocab: Vocabulary | None, count: int) -> int | None:
    """The row of words that the vocabulary does not have, written as one of its words or as a number."""
    written, report = entries.text("unknown"), entries.report
    if written is None:
        return None
    if entries.get("vocab") is None:
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
