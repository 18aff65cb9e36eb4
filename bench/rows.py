"""Rows of measurements and notes, which benches yield."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any


class Row(dict[str, Any]):
    """One measured row: values by column, None where there is nothing to show.

    `table` names the table that the row belongs to. A column's ending says its unit: `_seconds`, `_bytes`,
    `_per_second`, `_ns`, `_share` (of 1), `_times` (a factor), `_error`; other whole numbers are counts or
    settings, and with the texts they say what was measured.
    """

    def __init__(self, table: str, /, **values: Any) -> None:  # noqa: ANN401
        super().__init__(values)
        self.table = table


# What a bench yields; a text is a note, shown below the tables.
Rows = Generator[Row | str, None, None]
