"""The walker: one call runs all batches of a plan, or one thread's part of each."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.clock import FIRST, LAST, WAITING, WALKER, WHOLE, WORDS, charge, note, restart
from abw.core.exec.cpu.llvm.emit import Function, Module
from abw.core.exec.cpu.llvm.kernel import SLOT_WORDS, share
from abw.core.jit.decorators import njit

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

OF_SCHEDULE = ("type", "ptr")
OF_PLAN = (
    "base", "operand_ptr", "index_ptr", "index", "status", "start", "stride", "list_ptr", "lists",
    "launch_ptr",
)  # fmt: skip
OF_ARENAS = ("slot_arena", "output_arena", "slots", "outputs")
# The walker's table holds the addresses of these arrays: of a `Schedule`, a `Plan` and its `Arenas`, all of
# 32 bits; then, of 64 bits, the addresses of the arenas and their rows' bytes, of the types' kernels and
# their constants, and whether parts of a type's batch are parts of its rows' elements.
OF_EXECUTOR = ("arena", "pitch", "kernel", "constants", "by_column")


@njit
def note_plan(
    table: Longs,
    type: Ints,
    ptr: Ints,
    base: Ints,
    operand_ptr: Ints,
    index_ptr: Ints,
    index: Ints,
    status: Ints,
    start: Ints,
    stride: Ints,
    list_ptr: Ints,
    lists: Ints,
    launch_ptr: Ints,
) -> None:
    """Write where a plan's arrays lie into the walker's table. A tenth of what Python takes for it."""
    table[0], table[1] = type.ctypes.data, ptr.ctypes.data
    table[2], table[3] = base.ctypes.data, operand_ptr.ctypes.data
    table[4], table[5] = index_ptr.ctypes.data, index.ctypes.data
    table[6], table[7], table[8] = status.ctypes.data, start.ctypes.data, stride.ctypes.data
    table[9], table[10] = list_ptr.ctypes.data, lists.ctypes.data
    table[11] = launch_ptr.ctypes.data


_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_PARAMS = {
    "walk": [_POINTER, _POINTER, *[_NUMBER] * 4, _POINTER, _POINTER],
    "walk_parts": [*[_POINTER] * 3, _NUMBER, _NUMBER, *[_POINTER] * 3],
}
WALKS = {name: ctypes.CFUNCTYPE(None, *params) for name, params in _PARAMS.items()}
# The functions that `emit_walker` writes, as Python calls them.
STAMPED_WALKS = {name: ctypes.CFUNCTYPE(None, *params, _POINTER) for name, params in _PARAMS.items()}

# How often a part that waits looks before it lets other threads run: some microseconds.
LOOKS = 2000

# The first status of an operand that needs its index array.
SPREAD = 3


def emit_walker(module: Module, slots: int, width: int, *, stamped: bool = False) -> None:
    """Write the functions of `WALKS`; `slots` are the most that a type has, `width` is the network's.

    - `walk(table, scratch, first, last, part, parts, split, arrived)` runs part `part` of the launches
      `first` to `last - 1`. With `split` (batches, parts + 1), of 32 bits, a part is a range of lanes that
      depends on no other part; without it (null) the parts do each launch together, and wait for each other
      after it: `arrived`, 0 before the call, counts who is done. Each takes its part of the rows of all the
      launch's batches, one after the other; of batches by column a part of each row.
    - `walk_parts(table, scratch, sections, count, parts, split, taken, done)` runs parts of a split schedule,
      section by section (`count`: those of the plan), as long as there is one that no other thread has
      taken. `taken` (count,) counts those taken of each section, `done` all that are finished; a section
      begins when all of the one before are.

    A stamped walker has one more parameter, `clock`, and charges all time to it.
    """
    module.declare("i32 @sched_yield()")
    clock = ", ptr %clock" if stamped else ""
    params = (
        "ptr %table, ptr %scratch, i64 %first, i64 %last, i64 %part, i64 %parts, ptr %split, ptr %arrived"
        + clock
    )
    _emit_launches(module, params, slots, width, stamped)
    f = Function(module, "walk", params, public=True)
    if stamped:
        restart(f, "%clock", FIRST)
    f.do(f"call void @launches({params})")
    module.add(f)
    _emit_parts(module, clock, stamped)


def _emit_launches(module: Module, params: str, slots: int, width: int, stamped: bool) -> None:
    """Write `launches`: what `walk` does."""
    f = Function(module, "launches", params)
    together = f.let("icmp eq ptr %split, null")
    f.do(f"%words = alloca i64, i64 {1 + SLOT_WORDS * slots + width}, align 8")
    f.do("%frame = getelementptr i8, ptr %words, i64 8")
    names = OF_SCHEDULE + OF_PLAN + OF_ARENAS + OF_EXECUTOR
    array = {name: f.pointer_item("%table", place) for place, name in enumerate(names)}

    def launch(number: str) -> None:
        following = f.i64("add", number, 1)
        first, last = (f.int_item(array["launch_ptr"], place) for place in (number, following))
        before, behind = f.int_item(array["ptr"], first), f.int_item(array["ptr"], last)
        mine = [f.i64("add", before, place) for place in share(f, f.i64("sub", behind, before))]
        f.repeat(last, lambda b: batch(b, mine), first=first)
        several = f.let("icmp sgt i64 %parts, 1")

        def wait() -> None:
            f.let("atomicrmw add ptr %arrived, i64 1 acq_rel")
            _wait(f, "%arrived", f.i64("mul", f.i64("sub", following, "%first"), "%parts"))
            if stamped:
                charge(f, "%clock", "%clock", WAITING)

        f.when(f.let(f"and i1 {together}, {several}"), wait)

    def batch(b: str, mine: list[str]) -> None:
        kind = f.int_item(array["type"], b)
        begin, end = f.int_item(array["ptr"], b), f.int_item(array["ptr"], f.i64("add", b, 1))
        operand = f.int_item(array["operand_ptr"], b)
        count = f.int_item(array["slots"], kind)

        def slot(s: str) -> None:
            k = f.i64("add", operand, s)
            arena = f.int_item(array["slot_arena"], f.i64("add", f.i64("mul", kind, slots), s))
            word = f.i64("mul", s, SLOT_WORDS)
            f.put("ptr", f.pointer_item(array["arena"], arena), "%frame", word)
            index = f.let(f"getelementptr i32, ptr {array['index']}, i64 {f.int_item(array['index_ptr'], k)}")
            spread = f.let(f"icmp sge i64 {f.int_item(array['status'], k)}, {SPREAD}")
            begin = f.int_item(array["list_ptr"], k)
            listed = f.let(f"icmp sge i64 {begin}, 0")
            lists = f.let(f"getelementptr i32, ptr {array['lists']}, i64 {begin}")
            needed = f.let(f"or i1 {spread}, {listed}")
            f.put("ptr", f.let(f"select i1 {needed}, ptr {index}, ptr null"), "%frame", f.i64("add", word, 1))
            f.put("i64", f.int_item(array["start"], k), "%frame", f.i64("add", word, 2))
            f.put("i64", f.int_item(array["stride"], k), "%frame", f.i64("add", word, 3))
            f.put("ptr", f.let(f"select i1 {listed}, ptr {lists}, ptr null"), "%frame", f.i64("add", word, 4))

        f.repeat_any(count, slot)
        results = f.i64("mul", count, SLOT_WORDS)

        def output(o: str) -> None:
            arena = f.int_item(array["output_arena"], f.i64("add", f.i64("mul", kind, width), o))
            row = f.int_item(array["base"], f.i64("add", f.i64("mul", b, width), o))
            place = f.i64("mul", row, f.item("i64", array["pitch"], arena))
            f.put(
                "ptr", f.at(f.pointer_item(array["arena"], arena), place), "%frame", f.i64("add", results, o)
            )

        f.repeat(f.int_item(array["outputs"], kind), output)
        kernel, constants = f.pointer_item(array["kernel"], kind), f.pointer_item(array["constants"], kind)
        start = f"ptr %frame, ptr %scratch, ptr {constants}"

        row = f.at("%clock", f.i64("mul", f.i64("add", kind, 1), 8 * WORDS)) if stamped else ""

        def call(first: str, last: str, part: str, parts: str) -> None:
            if stamped:
                f.put("ptr", row, "%words", 0)
                charge(f, "%clock", "%clock", WALKER)
                began = f.item("i64", "%clock", LAST)
            f.do(f"call void {kernel}({start}, i64 {first}, i64 {last}, i64 {part}, i64 {parts})")
            if stamped:
                charge(f, "%clock", row, WHOLE)
                note(f, "%clock", (b, first, last, began, f.item("i64", "%clock", LAST)))

        def rows(first: str, last: str) -> None:
            some = f.let(f"icmp slt i64 {first}, {last}")
            f.when(some, lambda: call(first, last, "0", "1"))

        def jointly() -> None:
            size = f.i64("sub", end, begin)

            def some_rows() -> None:
                first, last = (f.least(f.most(f.i64("sub", place, begin), 0), size) for place in mine)
                rows(first, last)

            by_column = f.let(f"icmp ne i64 {f.item('i64', array['by_column'], kind)}, 0")
            f.when(by_column, lambda: call("0", size, "%part", "%parts"), some_rows)

        def apart() -> None:
            place = f.i64("add", f.i64("mul", b, f.i64("add", "%parts", 1)), "%part")
            rows(f.int_item("%split", place), f.int_item("%split", f.i64("add", place, 1)))

        f.when(together, jointly, apart)

    f.repeat("%last", launch, first="%first")
    if stamped:
        charge(f, "%clock", "%clock", WALKER)
    module.add(f)


def _emit_parts(module: Module, clock: str, stamped: bool) -> None:
    """Write `walk_parts`."""
    params = (
        "ptr %table, ptr %scratch, ptr %sections, i64 %count, i64 %parts, ptr %split, ptr %taken, ptr %done"
    )
    f = Function(module, "walk_parts", params + clock, public=True)
    if stamped:
        restart(f, "%clock", FIRST)

    def section(k: str) -> None:
        first, last = (f.int_item("%sections", f.i64("add", k, i)) for i in (0, 1))
        turn = f.let(f"getelementptr i64, ptr %taken, i64 {k}")

        def one(part: str) -> None:
            f.do(
                f"call void @launches(ptr %table, ptr %scratch, i64 {first}, i64 {last}, i64 {part}, "
                f"i64 %parts, ptr %split, ptr null{clock})"
            )
            f.let("atomicrmw add ptr %done, i64 1 acq_rel")

        f.until(f"atomicrmw add ptr {turn}, i64 1 acq_rel", "%parts", one)
        _wait(f, "%done", f.i64("mul", f.i64("add", k, 1), "%parts"))
        if stamped:
            charge(f, "%clock", "%clock", WAITING)

    f.repeat("%count", section)
    module.add(f)


def _wait(f: Function, counter: str, goal: str) -> None:
    """Wait until a counter has reached its goal: looking for a while, then letting others run."""
    f.spin(
        f"load atomic i64, ptr {counter} acquire, align 8", goal, LOOKS, "%ignored = call i32 @sched_yield()"
    )
