"""Rows of embedding tables: by a vocabulary, by a word's hash, or by a field's number alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from abw.core.base.errors import DataError, Problem
from abw.core.data.instances import Instances, Ints
from abw.core.data.intern import Words, hash_pieces
from abw.core.ir.model import Table


def word_rows(instances: Instances, field: str, table: Table) -> Ints:
    """The row of `table` for each distinct string of a text field; empty for a field of numbers.

    With a vocabulary unknown words have the row `table.unknown`, or -1 where there is none. Without one a
    word's row is its hash modulo `table.rows`, so that a word has the same row in whatever data. The row of a
    number is that modulo `table.rows`. Errors: DataError where a vocabulary is for a field of numbers that
    are no rows.
    Cost: linear in distinct strings.
    """
    if field not in instances.vocabulary and (table.vocab is None or instances.schema.fields[field].rows):
        return np.empty(0, np.int32)
    if table.vocab is None:
        return hashed(instances.vocabulary[field], table.rows)
    if field not in instances.vocabulary:
        message = f"table '{table.name}' has a vocabulary, but the field '{field}' is a number, not a word"
        raise DataError([Problem(message, table.span, "leave out 'vocab'")])
    known, unknown = table.vocab.rows, -1 if table.unknown is None else table.unknown
    words = instances.vocabulary[field]
    if isinstance(words, Words):
        return words.rows(known, unknown)
    return np.array([known.get(word, unknown) for word in words], np.int32)


def trained_ids(instances: Instances, field: str, ids: Ints, table: Table) -> Ints:
    """A field's ids (V,) for a table with weights: -1 also where the table has no such row.

    Errors: DataError where the ids stand for words, and no vocabulary says which row is whose.
    """
    if table.vocab is not None:
        return ids
    if field in instances.vocabulary:
        message = f"table '{table.name}' has weights, but no vocabulary that gives words their rows"
        raise DataError(
            [Problem(message, table.span, "name the words it was trained with: vocab: words.txt")]
        )
    return np.where(ids < table.rows, ids, np.int32(-1))


def hashed(words: Sequence[str], rows: int) -> Ints:
    """Each word's row where there is no vocabulary: its hash modulo the rows."""
    if isinstance(words, Words):
        hashes = words.hashes()
    else:
        pieces = [word.encode() for word in words]
        ends = np.cumsum([0] + [len(piece) for piece in pieces])
        hashes = np.empty(len(pieces), np.uint64)
        hash_pieces(np.frombuffer(b"".join(pieces), np.uint8), ends[:-1], ends[1:], hashes)
    # the remainder: NumPy divides several times faster than it takes remainders
    return (hashes - hashes // np.uint64(rows) * np.uint64(rows)).astype(np.int32)
