"""The terminal: what files hold is shown there as it is, and obeyed nowhere; elsewhere lines are as long as
they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from abw.core.base.errors import GLUE, printable

# The width of what is no terminal: there nothing is wrapped or cut.
UNLIMITED = 1_000_000
# The width of pictures there.
DRAWN = 100

_HELD = "\ue000"  # rich breaks lines at GLUE


class Console(RichConsole):
    """Prints texts without markup of their own, control characters escaped (`printable`).

    What is to be bold or coloured says so by its style: `Text.assemble((name, "bold"), …)`.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        super().__init__(highlight=False, markup=False, emoji=False, **options)
        if "width" not in options and not self.is_terminal:
            self.width = UNLIMITED

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401
        """A text as rich lays it out: escaped before its width is measured."""
        return super().render_str(printable(text).replace(GLUE, _HELD), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what is printed, piece by piece; texts that came with a style are escaped here."""
        if isinstance(renderable, Text) and GLUE in renderable.plain:
            renderable = renderable.copy()
            renderable.plain = renderable.plain.replace(GLUE, _HELD)
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text).replace(_HELD, " ")
            yield Segment(text, segment.style, segment.control)


def drawing_width(options: ConsoleOptions) -> int:
    """How wide a picture may be."""
    return DRAWN if options.max_width >= UNLIMITED else options.max_width


# The least width of a column whose texts may be broken into lines.
PROSE = 28


class Grid(Table):
    """A table without lines; its first column stands left, the others right, columns of `left` left.

    Where it is wider than the terminal, columns of `optional` are left out, the last one first, and said
    below; where that is not enough each row becomes a list of its cells. `prose` is a column whose texts may
    take several lines. Elsewhere than on a terminal it is always whole.
    """

    def __init__(
        self, *columns: str, optional: Sequence[str] = (), left: Sequence[str] = (), prose: str | None = None
    ) -> None:
        super().__init__(*columns, box=None, pad_edge=False)
        self.optional = tuple(optional)
        self.prose = prose
        for number, column in enumerate(self.columns):
            column.no_wrap = column.header != prose
            if number and column.header not in (*left, prose):
                column.justify = "right"

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        """The table, what is left of it, or lists."""
        dropped: list[str] = []
        shown: Table | None = self._without(console, dropped)
        while shown is not None and _width(console, shown, self.prose) > options.max_width:
            if len(dropped) == len(self.optional):
                shown = None
            else:
                dropped.append(self.optional[-1 - len(dropped)])
                shown = self._without(console, dropped)
        if shown is None:
            yield from self._lists(console)
            return
        # a class that rich knows: this one would come here again
        yield shown
        if dropped:
            names = ", ".join(_header(name) for name in reversed(dropped))
            yield Text(f"left out: {names} (for a wider terminal, a file or --json)", style="dim")

    def _without(self, console: RichConsole, dropped: Sequence[str]) -> Table:
        """A plain table of the columns that stay."""
        table = Table(box=None, pad_edge=False)
        kept = [column for column in self.columns if column.header not in dropped]
        for column in kept:
            table.add_column(column.header, justify=column.justify, no_wrap=column.no_wrap)
        for number, row in enumerate(self.rows):
            table.add_row(*(list(column.cells)[number] for column in kept), style=row.style)
        return table

    def _lists(self, console: RichConsole) -> RenderResult:
        """Each row as a list: its first cell (what these are is said once), then names and values."""
        if of := _header(str(self.columns[0].header)):
            yield Text(f"{of}:", style="dim")
        for number, row in enumerate(self.rows):
            first, *rest = (list(column.cells)[number] for column in self.columns)
            said = Text()
            for column, cell in zip(self.columns[1:], rest, strict=True):
                value = cell.plain if isinstance(cell, Text) else str(cell)
                if not value:
                    continue
                pair = f"{_header(str(column.header))} {value}".strip()
                said.append("   " if said else "")
                said.append(pair if column.header == self.prose else pair.replace(" ", GLUE))
            yield first if isinstance(first, Text) else Text(str(first), row.style or "bold")
            yield Padding(said, (0, 0, 0, 2), expand=False)


def _header(name: str) -> str:
    """A column's name in one line."""
    return name.replace("-\n", "").replace("\n", " ")


def _width(console: RichConsole, table: Table, prose: str | None) -> int:
    """The width that a table wants; of a column of prose no more than `PROSE`."""
    options = console.options.update(max_width=UNLIMITED)
    whole = table.__rich_measure__(console, options).maximum
    for column in table.columns:
        if column.header == prose:
            texts = [cell if isinstance(cell, str) else str(cell) for cell in column.cells]
            widest = max((Text(text).cell_len for text in (prose or "", *texts)), default=0)
            whole -= max(0, widest - PROSE)
    return whole
