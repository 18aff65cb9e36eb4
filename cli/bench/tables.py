"""Rows of a bench as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from abw.bench.rows import Row
from abw.cli.console import amount, duration, grid
from abw.core.base.console import Grid
from abw.core.base.errors import GLUE

# How a column's ending says its unit (`abw.bench.rows.Row`); of several the first fits.
UNITS = {
    "_per_second": lambda value: amount(value),
    "_seconds": lambda value: duration(value),
    "_bytes": lambda value: amount(value, "B"),
    "_ns": lambda value: f"{value:.3g}{GLUE}ns",
    "_share": lambda value: f"{value:.0%}",
    "_times": lambda value: f"{value:.2f}{GLUE}x",
    "_error": lambda value: f"{value:.1e}",
}


def tables(rows: Sequence[Row], before: Sequence[Row] = ()) -> Iterator[Grid]:
    """A table for each name of a table; behind times and rates, how many times as fast as `before`."""
    earlier = {_measured(row): row for row in before}
    for name in dict.fromkeys(row.table for row in rows):
        members = [row for row in rows if row.table == name]
        columns = list(dict.fromkeys(key for row in members for key in row))
        titles = [_title(key) for key in columns]
        texts = [_title(key) for key in columns[1:] if _is_text(members, key)]
        table = grid(f"{name}: {titles[0]}" if name else titles[0], *titles[1:], left=texts)
        for row in members:
            then: Mapping[str, Any] = earlier.get(_measured(row), {})
            table.add_row(*(_cell(key, row.get(key), then.get(key)) for key in columns))
        yield table


def _title(key: str) -> str:
    """A column's heading: its name without its unit, but for rates."""
    for unit in UNITS:
        if key.endswith(unit):
            shown = key.removesuffix(unit).replace("_", " ")
            return f"{shown}/s" if unit == "_per_second" else shown
    return key.replace("_", " ")


def _is_text(rows: Sequence[Row], key: str) -> bool:
    return any(isinstance(row.get(key), str) for row in rows)


def _cell(key: str, value: Any, before: Any) -> str:  # noqa: ANN401
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    unit = next((unit for unit in UNITS if key.endswith(unit)), None)
    shown = UNITS[unit](value) if unit else amount(value)
    if before and value and unit in ("_seconds", "_ns", "_per_second"):
        times = value / before if unit == "_per_second" else before / value
        shown += f" ({times:.2f}{GLUE}x)"
    return shown


def _measured(row: Row) -> tuple[Any, ...]:
    """Return what identifies a measurement: the row's table, texts and settings."""
    settings = ((k, v) for k, v in row.items() if isinstance(v, str | int) and not k.endswith(tuple(UNITS)))
    return row.table, *settings
