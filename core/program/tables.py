"""A library's tables, as programs read them: a row by its number or by a word."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.data.intern import hashed
from abw.core.data.tensors import TRAINING, VOCABULARY, read_tensors
from abw.core.ir.model import Table
from abw.core.program.recording.values import Value

# Rows of a table that are kept as values once they were asked for.
MOST_KEPT = 1 << 20


@cache
def _hashed(weights: Path, table: str) -> bool:
    """Whether a program was trained to these weights, whose words had the rows of their hashes."""
    names = read_tensors(weights).tensors
    return any(name.startswith(TRAINING) for name in names) and f"{VOCABULARY}{table}" not in names


class Rows(dict[Any, Value]):
    """A table: `table[row]` is a row as a value, by its number or a word.

    A word's row is what the vocabulary says, without one its hash modulo the rows, as in a spec. As a dict it
    has the rows that were asked for.
    """

    def __init__(self, table: Table, make: Callable[[int], Value], weights: Path | None) -> None:
        """`weights`: the file that has the rows, None where they are drawn."""
        super().__init__()
        self._table, self._make, self._weights = table, make, weights

    def __missing__(self, key: object) -> Value:
        table = self._table
        if isinstance(key, str):
            row = self._word(key)
        else:
            try:
                row = operator.index(key)  # type: ignore[arg-type]
            except TypeError:
                raise TypeError(f"a row of table '{table.name}' is a number or a word, not {key!r}") from None
            if not 0 <= row < table.rows:
                hint = f"rows are 0 to {table.rows - 1}"
                raise AbwError(f"table '{table.name}' has no row {row}", hint=hint)
        found = self._make(row)
        if len(self) < MOST_KEPT:
            self[key] = found
        return found

    def _word(self, word: str) -> int:
        table = self._table
        if table.vocab is None:
            if self._weights is not None and not _hashed(self._weights, table.name):
                message = f"table '{table.name}' has weights, but no vocabulary that gives words their rows"
                raise AbwError(message, hint="name the words it was trained with: vocab: words.txt")
            return int(hashed([word], table.rows)[0])
        row = table.vocab.rows.get(word, table.unknown)
        if row is None:
            hint = "unknown: WORD in the table sets the row of all other words"
            raise AbwError(f"'{word}' is not a word of table '{table.name}'", hint=hint)
        return row
