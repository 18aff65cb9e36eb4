"""The compiled function that computes what was recorded since the last time, and answers what was asked."""

from __future__ import annotations

from abw.core.exec.cpu.rounds.state import DONE, FULL, PAUSED, RUNNING, StateFunction
from abw.core.exec.interface import HEAD


class Round:
    """Writes what calls `advance` and `choose` of the same module on what a recorder's `HEAD` says.

    Words of the state: those of both; `room` for so many words, `held` for so many nodes of the run. It ends
    with DONE, with the questions forgotten; with PAUSED where some ask what is computed already and others do
    not; with FULL where there is no room; else as `advance` or `choose` did. The head says what was executed.
    """

    def __init__(self, f: StateFunction) -> None:
        self.f = f

    def emit(self) -> None:
        """Write the whole function."""
        f = self.f
        f.set("status", DONE)
        new = f.test("sge", self._of("least"), self._of("begun"))
        known = f.test("slt", self._of("most"), self._of("begun"))
        f.when(new, self._advance, lambda: f.when(known, lambda: None, lambda: self._end(PAUSED)))
        for name in ("asks", "masks", "asked"):
            f.set(name, self._of(name))
        f.do("call void @choose(ptr %state)")
        f.when(f.test("eq", f.get("status"), DONE), self._forget)

    def _of(self, name: str) -> str:
        return self.f.item("i64", "%head", HEAD.index(name))

    def _write(self, name: str, value: str) -> None:
        self.f.put("i64", value, "%head", HEAD.index(name))

    def _end(self, status: int) -> None:
        self.f.set("status", status)
        self.f.leave()

    def _advance(self) -> None:
        f = self.f
        begin, end = self._of("begin"), self._of("at")
        length = f.i64("sub", end, begin)
        f.when(f.test("sgt", length, f.get("room")), lambda: self._end(FULL))
        nodes = f.i64("add", f.get("first"), length)  # at most: each has a word of its own
        f.when(f.test("sgt", nodes, f.get("held")), lambda: self._end(FULL))
        f.set("words", f.i64("add", self._of("words"), f.i64("shl", begin, 3)))
        f.set("length", length)
        f.set("status", RUNNING)
        f.do("call void @advance(ptr %state, ptr %scratch)")
        f.when(f.test("ne", f.get("status"), DONE), f.leave)
        self._write("begin", end)
        self._write("begun", self._of("next"))

    def _forget(self) -> None:
        for name in ("asked", "masked", "aboves"):
            self._write(name, "0")
        self._write("least", str(2**63 - 1))
        self._write("most", str(-(2**63)))
