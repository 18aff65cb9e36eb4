"""The terminal: what files hold is shown there as it is, and obeyed nowhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from abw.core.base.errors import printable


class Console(RichConsole):
    """Prints texts without markup of their own, control characters escaped (`printable`).

    What is to be bold or coloured says so by its style: `Text.assemble((name, "bold"), …)`.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401
        """A text as rich lays it out: escaped before its width is measured."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is printed, piece by piece: texts that came with a style are escaped here."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
