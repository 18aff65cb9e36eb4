"""What pictures for the terminal share: tables, types in their colours, bars, strips of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log1p

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from abw.core.base.console import drawing_width
from abw.viz.drawing.palette import colour, ink

BARS = "▁▂▃▄▅▆▇█"
# The most strips of one picture.
STRIPS = 3


def table(*columns: str) -> Table:
    """A table without lines; columns whose names begin with `>` are set flush right."""
    made = Table(box=None, pad_edge=False)
    for name in columns:
        made.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left")
    return made


def head(what: str, name: str, said: str = "") -> Text:
    """A picture's first line: what it shows, the name of that, and something about it."""
    return Text.assemble((f"{what} ", "dim"), (name, "bold"), (said, "dim"))


def left_out(rest: int, said: str, indent: str = "") -> list[Text]:
    """A line about the `rest` that is not shown, if there is any."""
    return [Text(f"{indent}… {said}", style="dim")] if rest > 0 else []


def type_name(types: Sequence[str], t: int) -> Text:
    """A type's name in its colour."""
    return Text(types[t], style=f"bold {colour(t)}")


def on_colour(t: int) -> str:
    """The style of text on a type's colour."""
    return f"{ink(colour(t))} on {colour(t)}"


def bar(value: int, highest: int) -> str:
    """A character that grows with the logarithm of a number, so that 1 and 2,000 fit; a blank for none."""
    return BARS[min(len(BARS) - 1, int(len(BARS) * log1p(value) / log1p(highest + 1)))] if value else " "


@dataclass(frozen=True, slots=True)
class Strips:
    """`count` columns, a character each, in as many strips as they need at the console's width.

    `draw` gives the lines of columns `first` to `last` (exclusive), which are `margin` wider than that. The
    last line says, behind `indent`, how many columns (`noun`) are left out.
    """

    count: int
    margin: int
    draw: Callable[[int, int], Iterator[Text]]
    indent: str
    noun: str

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        room = max(20, drawing_width(options) - self.margin)
        for first in range(0, min(self.count, STRIPS * room), room):
            yield from self.draw(first, min(first + room, self.count))
        rest = self.count - STRIPS * room
        yield from left_out(rest, f"and {rest} {self.noun} more: --html shows all", self.indent)
