"""Stamps of the processor's clock: what has passed since the last one is charged to a reason.

A clock is rows of eight 64-bit words, `(1 + types, 8)`. Row 0 is the walker's: its first stamp, its last one
(LAST), and the ticks of WALKER and WAITING. Row `1 + t` is type t's: the last stamp, the ticks of its kernel
from call to return (WHOLE), those of REASONS within, and from COUNTS on how many stamps each reason took.

Row 0 also says where executed batches are noted: the address of rows of NOTED words, how many there are
(LOGGED), and for how many there is room (ROOM; none: nothing is noted).
"""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.exec.cpu.llvm.emit import Function, Module

WORDS = 8
LAST, WHOLE, COUNTS = 0, 1, 5
REASONS = {"gather": 2, "product": 3, "elementwise": 4}
FIRST, WALKER, WAITING = 1, 2, 3
LOG, LOGGED, ROOM = 4, 5, 6
# Words of a note: batch, first row, the one behind the last, and the stamps before and after.
NOTED = 5


def restart(f: Function, row: str, *words: int) -> None:
    """Take a stamp that charges nothing; keep it in these words, too."""
    now = _stamp(f)
    for word in (LAST, *words):
        f.put("i64", now, row, word)


def charge(f: Function, last: str, row: str, word: int, count: int | None = None) -> None:
    """Take a stamp and add the ticks since the last one of row `last` to a word of `row`."""
    now = _stamp(f)
    passed = f.i64("sub", now, f.item("i64", last, LAST))
    f.put("i64", now, last, LAST)
    f.put("i64", f.i64("add", f.item("i64", row, word), passed), row, word)
    if count is not None:
        f.put("i64", f.i64("add", f.item("i64", row, count), 1), row, count)


def charge_reason(f: Function, row: str, reason: str) -> None:
    """Take a stamp inside a kernel."""
    word = REASONS[reason]
    charge(f, row, row, word, COUNTS - REASONS["gather"] + word)


def note(f: Function, clock: str, words: Sequence[str]) -> None:
    """Note an executed batch, where there is room."""
    count = f.item("i64", clock, LOGGED)

    def write() -> None:
        log, place = f.pointer_item(clock, LOG), f.i64("mul", count, NOTED)
        for number, word in enumerate(words):
            f.put("i64", word, log, f.i64("add", place, number))
        f.put("i64", f.i64("add", count, 1), clock, LOGGED)

    f.when(f.let(f"icmp slt i64 {count}, {f.item('i64', clock, ROOM)}"), write)


def emit_clock(module: Module) -> None:
    """Write `now(row)`, which takes one stamp, and `stamps(row, count)`, which takes many."""
    f = Function(module, "now", "ptr %row", public=True)
    restart(f, "%row")
    module.add(f)
    f = Function(module, "stamps", "ptr %row, i64 %count", public=True)
    restart(f, "%row")
    f.repeat("%count", lambda _: charge_reason(f, "%row", "gather"))
    module.add(f)


def _stamp(f: Function) -> str:
    counter, register = f.module.target.counter
    f.module.declare(f"i64 @llvm.{counter}({'metadata' if register else ''})")
    return f.let(f"call i64 @llvm.{counter}({register})")
