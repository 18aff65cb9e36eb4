"""The section `tables` of a model: embedding tables, and vocabularies, which say which word is which row."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from abw.core.base.errors import Span, missing_file
from abw.core.ir.model import Table, Vocabulary
from abw.core.ir.shapes import shape
from abw.core.spec.keys.model import TABLE
from abw.core.spec.keys.section import Entries
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar
from abw.core.spec.text.fields import MOST, Reach
from abw.core.spec.text.report import note, report
from abw.core.spec.text.sizes import Dims, size, sizes

# Tables by name, each with its number; None for one with mistakes.
Tables = dict[str, tuple[int, Table | None]]
DEFAULT_ROWS = 256
# Of all tables together: their rows, and some values more, are numbered in 31 bits (see `LISTED`).
MOST_ROWS = 2**30 - 2**20


def read_tables(node: Mapping | None, reach: Reach, dims: Dims) -> Tables:
    """Read each table and its number, by name; None for one with mistakes.

    Cost: linear in the section and the vocabularies.
    """
    tables: Tables = {}
    total = 0
    for key, value in fields.named(node, "tables", "a table"):
        table = _table(key, value, reach, dims)
        tables[key.text] = (len(tables), table)
        total += table.rows if table else 0
        if table and total - table.rows <= MOST_ROWS < total:
            message = f"the tables down to this one have {total:,} rows together, of at most {MOST_ROWS:,}"
            note(message, key.where)
    return tables


def _table(key: Scalar, value: Node, reach: Reach, dims: Dims) -> Table | None:
    before = len(report())
    what = f"table '{key.text}'"
    node = fields.mapping(value, what)
    if node is None:
        return None
    entries = TABLE.entries(node, what, key.where, of=f" of {what}")
    dim, written = entries.get("dim"), entries.get("rows")
    found = sizes(dim, dims, f"dim of {what}") if dim else None
    rows = size(written, dims, f"rows of {what}", fields.MOST) if written else None
    vocab = _vocabulary(entries.text("vocab"), reach)
    count = max(vocab.rows.values()) + 1 if vocab else DEFAULT_ROWS
    if vocab and rows and written and rows.value < count:
        message = f"{what} has {rows.value} rows, its vocabulary needs {count}"
        note(message, written.where, "leave out 'rows', and they are as many as the vocabulary needs")
    if rows:
        count = rows.value
    unknown = _unknown(entries, what, vocab, count)
    if len(report()) > before or found is None:
        return None
    return Table(key.text, count, shape(found), vocab, unknown, key.where)


def _vocabulary(written: Scalar | None, reach: Reach) -> Vocabulary | None:
    if written is None:
        return None
    path = reach.file(written, "the vocabulary")
    rows = read_vocabulary(path, written.where) if path else None
    return Vocabulary(path, rows) if path and rows else None


def _unknown(entries: Entries, what: str, vocab: Vocabulary | None, count: int) -> int | None:
    """The row of words that the vocabulary does not have, written as one of its words or as a number."""
    written = entries.text("unknown")
    if written is None:
        return None
    if entries.get("vocab") is None:
        note(f"{what} has no vocab", written.where, "'unknown' is a word of the vocabulary, or its row")
    if vocab is None:
        return None
    row = fields.plain_integer(written)
    if row is None:
        row = vocab.rows.get(written.text)
        if row is None:
            note(f"'{written.text}' is no word of {vocab.path}", written.where, "or name a row: 0")
    elif not 0 <= row < count:
        note(f"{what} has no row {row}", written.where, f"rows are 0 to {count - 1}")
    return row


_BLANK = " \t\r\n"
_FORMS = "a list of words, or an object of words with their rows"


def read_vocabulary(path: Path, asked: Span) -> dict[str, int] | None:
    """The row of each word; None, the problems noted, where there is none.

    A text file has a word a line, the first line being row 0. A file that ends in .json has a list, row 0
    first, or an object of words with their rows. `asked` is the place that names the file.
    Cost: linear in the file.
    """
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        note(f"missing vocabulary {path}", asked, missing_file(path))
    except UnicodeDecodeError:
        note(f"the vocabulary {path} is not UTF-8", asked, "save the file as UTF-8 text")
    except (OSError, ValueError) as error:
        note(f"cannot read {str(path)!r}: {error}", asked)
    else:
        return _of_json(path, text) if path.suffix == ".json" else _of_lines(path, text)
    return None


def _of_lines(path: Path, text: str) -> dict[str, int] | None:
    lines = text.rstrip(_BLANK).split("\n")
    if lines == [""]:
        note("an empty vocabulary", Span(str(path), 1), "one word a line")
        return None
    rows: dict[str, int] = {}
    for number, line in enumerate(lines):
        word = line.strip(_BLANK)
        if not word or word in rows:
            message = f"'{word}' is already on line {rows[word] + 1}" if word else "a blank line"
            where = Span(str(path), number + 1, 1, line.rstrip(_BLANK))
            note(message, where, "one word a line, each once")
            continue
        rows[word] = number
    return rows


def _of_json(path: Path, text: str) -> dict[str, int] | None:
    where = Span(str(path), 1)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        at = Span(str(path), error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else where
        note(f"not JSON: {error}", at, f"a vocabulary is {_FORMS}")
        return None
    words = content if isinstance(content, list) else list(content) if isinstance(content, dict) else []
    rows = list(content.values()) if isinstance(content, dict) else list(range(len(words)))
    if not words:
        note("no vocabulary", where, f"write {_FORMS}")
    elif wrong := [word for word in words if not isinstance(word, str)]:
        note(f"{wrong[0]!r} is no word", where, f"a vocabulary is {_FORMS}")
    elif wrong := [row for row in rows if type(row) is not int or not 0 <= row < MOST]:
        note(f"{wrong[0]!r} is no row", where, "rows are whole numbers from 0")
    elif len(set(words)) < len(words):
        seen = Counter(words).most_common(1)[0][0]
        note(f"'{seen}' is there twice", where, "each word once")
    else:
        return dict(zip(words, rows, strict=True))
    return None
