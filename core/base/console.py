"""The terminal: what files hold is shown there as it is, and obeyed nowhere; elsewhere lines are as long as
they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
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
