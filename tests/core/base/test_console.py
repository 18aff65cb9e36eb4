"""What files hold is shown, and neither obeyed by the terminal nor taken for markup."""

from __future__ import annotations

import io
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from abw.core.base.console import Console
from abw.core.base.errors import AbwError, Problem, Span, printable

ESCAPES = "a\x1b[2Jb\x00\u202e\ud800\x9b"
SHOWN = r"a\x1b[2Jb\x00\u202e\ud800\x9b"


def printed(*things: object) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(*things)
    return out.getvalue()


def test_a_console_escapes_texts_cells_and_styled_pieces() -> None:
    table = Table("name", "next")
    table.add_row(ESCAPES, "end of row")
    for thing in (ESCAPES, Text(ESCAPES, "bold"), Text.assemble((ESCAPES, "red"), " more"), table):
        said = printed(thing)
        assert SHOWN in said and "\x1b" not in said
    assert "end of row" in printed(table)


def test_nothing_is_markup() -> None:
    table = Table("[bold]x[/bold]", "b")
    table.add_row("[/nope]", ":smile:")
    said = printed(table)
    assert "[/nope]" in said and ":smile:" in said and "[bold]x[/bold]" in said
    assert printed("[red]a[/] [/b]") == "[red]a[/] [/b]\n"


@given(st.text())
def test_printable_texts_hold_nothing_to_obey(text: str) -> None:
    shown = printable(text)
    wrong = {c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    assert wrong <= {"\n", "\t"} and shown.encode().decode() == shown
    assert printable(shown) == shown
    if text.isprintable():
        assert shown == text


def test_a_mark_stands_under_what_it_means_though_escapes_are_longer() -> None:
    said = str(Problem("no", Span("d\x1b.txt", 1, 4, "a\x1bbXYZc", 3)))
    assert said.splitlines() == [r"d\x1b.txt:1:4: no", r"  1 | a\x1bbXYZc", "    |       ^^^"]
    assert str(AbwError("a\x07", hint="b\x1b")) == "a\\x07\n  hint: b\\x1b"
