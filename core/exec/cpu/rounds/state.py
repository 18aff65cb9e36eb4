"""What compiled rounds know: an array of 64-bit words, and a function that finds its way in it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from abw.core.exec.cpu.llvm.emit import Function, Module
from abw.core.ir.schema import Hop

# How a call ends: nothing came to be; it did for long enough; there is no room for the next round; a score is
# not a number, or nothing feeds an input.
RUNNING, DONE, PAUSED, FULL, FAILED = range(5)


class Words:
    """The place of each word by its name, given as names are asked for."""

    def __init__(self) -> None:
        self.place: dict[Hashable, int] = {}

    def __getitem__(self, name: Hashable) -> int:
        return self.place.setdefault(name, len(self.place))


class StateFunction(Function):
    """A function of `ptr %state`, whose addresses are read once, where it begins.

    Vertices, rows and numbers are 64-bit values here, -1 for none; columns have -1 before their first entry,
    so that none leads to none.
    """

    def __init__(self, module: Module, name: str, words: Words, params: str = "") -> None:
        super().__init__(module, name, f"ptr %state{params}", public=True)
        self.words = words
        self._addresses: dict[int, str] = {}
        self._stack: list[str] = []

    def text(self) -> str:
        """The whole function."""
        head, entry, *body = super().text().split("\n")
        loads = [
            line
            for word, name in self._addresses.items()
            for line in (
                f"  {name}.at = getelementptr i64, ptr %state, i64 {word}",
                f"  {name} = load ptr, ptr {name}.at",
            )
        ]
        return "\n".join([head, entry, *self._stack, *loads, *body])

    def address(self, name: Hashable) -> str:
        """An address that stays as it is during a call."""
        word = self.words[name]
        return self._addresses.setdefault(word, f"%word{word}")

    def room(self, words: int) -> str:
        """So many 64-bit words on the stack, for the whole call."""
        name = f"%stack{len(self._stack)}"
        self._stack.append(f"  {name} = alloca i64, i64 {max(1, words)}, align 8")
        return name

    def get(self, name: Hashable) -> str:
        """A word."""
        return self.item("i64", "%state", self.words[name])

    def set(self, name: Hashable, value: str | int) -> None:
        """Write a word."""
        self.put("i64", str(value), "%state", self.words[name])

    def column(self, name: Hashable, vertex: str) -> str:
        """What a column says of a vertex."""
        return self.int_item(self.address(("column", name)), vertex)

    def note(self, name: Hashable, vertex: str, value: str) -> None:
        """Write what a column says of a vertex."""
        self.put_int(value, self.address(("column", name)), vertex)

    def put_int(self, value: str, pointer: str, index: str | int) -> None:
        """Write element `index` of an array of 32-bit integers."""
        self.put("i32", self.let(f"trunc i64 {value} to i32"), pointer, index)

    def follow(self, vertex: str, hops: tuple[Hop, ...]) -> str:
        """Where links lead from a vertex."""
        for hop in hops:
            vertex = self.column(hop, vertex)
        return vertex

    def test(self, comparison: str, a: str, b: str | int) -> str:
        """Whether two numbers compare so (`sge`, `eq`, …)."""
        return self.let(f"icmp {comparison} i64 {a}, {b}")

    def both(self, conditions: list[str]) -> str:
        """Whether all hold."""
        found = "true"
        for condition in conditions:
            found = condition if found == "true" else self.let(f"and i1 {found}, {condition}")
        return found

    def either(self, condition: str, yes: str, no: str) -> str:
        """One of two numbers."""
        return self.let(f"select i1 {condition}, i64 {yes}, i64 {no}")

    def each(self, first: str | int, last: str | int, body: Callable[[str], None]) -> None:
        """`body(index)` for index `first` to `last - 1`, of which there may be none."""
        some = self.let(f"icmp slt i64 {first}, {last}")
        self.when(some, lambda: self.repeat(last, body, first=first))

    def fail(self, condition: str) -> None:
        """Return as failed where a condition holds."""

        def leave() -> None:
            self.set("status", FAILED)
            self.leave()

        self.when(condition, leave)
