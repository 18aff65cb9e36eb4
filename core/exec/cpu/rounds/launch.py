"""A batch of one type launched by compiled code: rows given to its results, its kernel called.

Rounds write the rows that each slot reads, lane after lane, into the arrays `index(slot)` of the state, and
call `launch`. The results are the next rows of their arenas, one block after the other, as
`abw.core.plan.plan` gives them.
"""

from __future__ import annotations

from abw.core.exec.cpu.llvm.kernel import SLOT_WORDS
from abw.core.exec.cpu.rounds.state import StateFunction
from abw.core.exec.lower.rows import row_floats
from abw.core.plan.arenas import Arenas


class Launcher:
    """Writes launches into a function whose second parameter is `ptr %scratch`.

    Words of the state: `arena`, `kernel`, `constants`, the executor's arrays of addresses; `(row, a)`, the
    next free row of arena a; `(index, s)`, the rows that slot s reads; `ends`, of lists: where each lane's
    end, behind a 0.
    """

    def __init__(self, f: StateFunction, arenas: Arenas) -> None:
        self.f, self.arenas = f, arenas
        slots, width = arenas.slot_arena.shape[1], arenas.output_arena.shape[1]
        self._frame = f.room(SLOT_WORDS * slots + width)

    def index(self, slot: int) -> str:
        """The array for the rows that a slot reads."""
        return self.f.address(("index", slot))

    def place(self, arena: int, row: str) -> str:
        """The address of a row."""
        f = self.f
        base = f.pointer_item(f.address("arena"), arena)
        return f.at(base, f.i64("mul", row, self.pitch(arena)))

    def pitch(self, arena: int) -> int:
        """The bytes of a row."""
        return 4 * row_floats(self.arenas.shape[arena], self.f.target.lanes)

    def launch(self, t: int, lanes: str) -> list[str]:
        """Run a batch of type t of one lane or more; the first row of each output."""
        f, arenas = self.f, self.arenas
        slots, outputs = int(arenas.slots[t]), int(arenas.outputs[t])
        for s in range(slots):
            word = SLOT_WORDS * s
            f.put("ptr", f.pointer_item(f.address("arena"), int(arenas.slot_arena[t, s])), self._frame, word)
            f.put("ptr", self.index(s), self._frame, word + 1)
            f.put("ptr", f.address("ends") if arenas.reduces[t] else "null", self._frame, word + 4)
        first = []
        for o in range(outputs):
            arena = int(arenas.output_arena[t, o])
            row = f.get(("row", arena))
            f.set(("row", arena), f.i64("add", row, lanes))
            f.put("ptr", self.place(arena, row), self._frame, SLOT_WORDS * slots + o)
            first.append(row)
        kernel, constants = (f.pointer_item(f.address(name), t) for name in ("kernel", "constants"))
        f.do(
            f"call void {kernel}(ptr {self._frame}, ptr %scratch, ptr {constants}, i64 0, i64 {lanes}, "
            "i64 0, i64 1)"
        )
        f.set("batches", f.i64("add", f.get("batches"), 1))
        return first
