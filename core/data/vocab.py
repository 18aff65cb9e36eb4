"""Rows of embedding tables: by a vocabulary file, or by a field's number alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from abw.core.data.instances import Instances, Ints
from abw.core.data.intern import hash_pieces
from abw.core.data.source import MOST_PROBLEMS, Source, open_source
from abw.core.errors import DataError, Problem, Span
from abw.core.spec.model import Table

_BLANK = " \t\r\n"


def table_rows(instances: Instances, field: str, table: Table) -> Ints:
    """The row of `table` for each vertex (V,), by one of the data's own fields; -1 where it has none.

    Errors: as `word_rows`. Cost: linear in vertices, distinct strings and the vocabulary.
    """
    numbers = instances.fields[field]
    rows = word_rows(instances, field, table)
    if not len(rows):
        return np.where(numbers >= 0, numbers % table.rows, np.int32(-1))
    return np.append(rows, np.int32(-1))[numbers]


def word_rows(instances: Instances, field: str, table: Table) -> Ints:
    """The row of `table` for each distinct string of a text field; empty for a field of numbers.

    With a vocabulary a word's row is its line, counted from 0; unknown words have the row of
    `table.unknown`, or -1 where there is none. Without one it is a hash of the word modulo `table.rows`, so
    that a word has the same row in whatever data. The row of a number is that modulo `table.rows`. Errors:
    DataError where the vocabulary is missing, empty, not UTF-8, has a blank or a double line, more words than
    the table has rows, or no `table.unknown`; or where it is for a field of numbers.
    Cost: linear in distinct strings, and once in the vocabulary.
    """
    if table.vocab is None:
        if field not in instances.vocabulary:
            return np.empty(0, np.int32)
        return _hashed(instances.vocabulary[field], table.rows)
    if field not in instances.vocabulary:
        message = f"table '{table.name}' has a vocabulary, but the field '{field}' is a number, not a word"
        raise DataError([Problem(message, table.span, "leave out 'vocab'")])
    row = _read(table.vocab, table, table.vocab.stat().st_mtime_ns if table.vocab.is_file() else 0)
    unknown = row.get(table.unknown, -1) if table.unknown is not None else -1
    return np.array([row.get(word, unknown) for word in instances.vocabulary[field]], np.int32)


def _hashed(words: Sequence[str], rows: int) -> Ints:
    pieces = [word.encode() for word in words]
    ends = np.cumsum([0] + [len(piece) for piece in pieces])
    hashes = hash_pieces(np.frombuffer(b"".join(pieces), np.uint8), ends[:-1], ends[1:])
    return (hashes % np.uint64(rows)).astype(np.int32)


@lru_cache(maxsize=8)  # a stream asks again with each chunk
def _read(path: Path, table: Table, changed: int) -> dict[str, int]:
    """The words of a vocabulary, one a line, with their rows; `changed`: when the file was."""
    source = open_source(path)
    source.check(len(source.data))
    row: dict[str, int] = {}
    problems = []
    lines = source.data[source.begin :].decode().rstrip(_BLANK).split("\n")
    if lines == [""]:
        raise DataError([Problem("an empty vocabulary", Span(str(path), 1), "one word a line")])
    for number, text in enumerate(lines):
        word = text.strip(_BLANK)
        if word and word not in row:
            row[word] = number
            continue
        message = f"'{word}' stands on line {row[word] + 1} already" if word else "a blank line"
        problems.append(Problem(message, Span(str(path), number + 1, 1, text), "one word a line, each once"))
    if problems:
        raise DataError(problems[:MOST_PROBLEMS])
    _refuse_unfit(source, row, table)
    return row


def _refuse_unfit(source: Source, row: dict[str, int], table: Table) -> None:
    where = Span(str(source.path), 1)
    if len(row) > table.rows:
        message = f"{len(row)} words, but table '{table.name}' has {table.rows} rows"
        raise DataError([Problem(message, where, f"rows: {len(row)}")])
    if table.unknown is not None and table.unknown not in row:
        message = f"the word for unknown ones, '{table.unknown}', is not in the vocabulary"
        raise DataError(
            [Problem(message, where, "add it as a line of its own, or name another: unknown: <unk>")]
        )
