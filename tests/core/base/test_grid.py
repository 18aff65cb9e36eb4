"""Tables at every width: nothing is cut, and what is left out is said."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from abw.core.base.console import UNLIMITED, Console, Grid
from abw.core.base.errors import GLUE

WORDS = st.text("abcdefg123", min_size=1, max_size=12)
ROWS = st.integers(1, 9).flatmap(
    lambda n: st.tuples(
        st.lists(WORDS, min_size=n, max_size=n, unique=True),
        st.lists(st.lists(WORDS, min_size=n, max_size=n), min_size=1, max_size=4),
        st.integers(0, n - 1),
    )
)


def drawn(table: Grid, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(table)
    return out.getvalue()


def made(columns: list[str], rows: list[list[str]], optional: int) -> Grid:
    table = Grid(*columns, optional=columns[len(columns) - optional :])
    for row in rows:
        table.add_row(*row)
    return table


@given(ROWS, st.integers(40, 160))
def test_no_cell_is_cut_and_no_line_is_too_long(
    drawing: tuple[list[str], list[list[str]], int], width: int
) -> None:
    columns, rows, optional = drawing
    said = drawn(made(columns, rows, optional), width)
    assert "…" not in said
    assert max(len(line.rstrip()) for line in said.splitlines()) <= max(width, 40)
    note = " ".join(said.split()).partition("left out: ")[2].partition(" (")[0]
    words = said.split()
    for number, name in enumerate(columns):
        if name in note.split(", "):
            assert number >= len(columns) - optional
        else:
            assert name in words or number == 0  # of lists the first cell stands alone
            assert all(row[number] in words for row in rows)


@given(ROWS)
def test_it_is_whole_where_there_is_no_terminal(drawing: tuple[list[str], list[list[str]], int]) -> None:
    columns, rows, optional = drawing
    out = io.StringIO()
    Console(file=out).print(made(columns, rows, optional))
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert lines == [columns, *rows]


def test_prose_takes_several_lines_and_numbers_keep_their_units() -> None:
    table = Grid("name", "what it is", prose="what it is")
    table.add_row("one", "a text that is longer than the line it stands on, by far, so that it is broken")
    said = drawn(table, 40)
    assert max(map(len, said.splitlines())) <= 40
    assert "by far," in " ".join(said.split())
    out = io.StringIO()
    console = Console(file=out, width=24)
    for thing in (f"some of them took 12.3{GLUE}ms", Text(f"some of them took 12.3{GLUE}ms")):
        console.print(thing)
    assert out.getvalue().splitlines() == ["some of them took ", "12.3 ms"] * 2


def test_lines_elsewhere_are_as_long_as_they_are() -> None:
    out = io.StringIO()
    console = Console(file=out)
    console.print("word " * 1000)
    assert console.width == UNLIMITED and len(out.getvalue().splitlines()) == 1
