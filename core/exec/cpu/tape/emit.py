"""The compiled function that takes appended nodes as words: it schedules them and runs their batches."""

from __future__ import annotations

from abw.core.exec.cpu.rounds.launch import Launcher
from abw.core.exec.cpu.rounds.state import DONE, FULL, PAUSED, RUNNING, StateFunction
from abw.core.plan.arenas import Arenas

TYPE = 2**32 - 1
"""The bits of a node's first word that are its type's number."""
NONE = str(2**31 - 1)
"""The end of a list of words."""


class Advance:
    """Writes what executes the nodes that some words say, behind those that a run has already.

    A node is its type's number, in a word's low bits (`TYPE`), then an operand a slot: a reference shifted to
    the left by `bits`. Those of nodes count from the first of all runs; `base` is that of this run's first
    one. Words of the state: `words` (`length` of them), `base`, `first`, how many nodes the run has; `type`
    and `row`, arrays over these and over their references; `begin`, `missing`, `head`, `path`, `queue`,
    arrays over the new nodes, `operand`, `next`, `owner` over the words. Nothing is run where a node reads a
    value of an earlier run (the function ends with FAILED), where the nodes' arithmetic, of `flops` (T,), is
    `limit` or more (PAUSED), or where the `(need, a)` rows that they take of arena a do not all lie before
    `(row_end, a)` (FULL).

    Of field c the run has `(brought, c)` rows, which are numbered from `(since, c)` on, modulo as many as
    there can be, a power of two; `(given, c)`: the row in its arena of each.

    The order is that of `abw.core.policy.rules.critical`.
    """

    def __init__(self, f: StateFunction, arenas: Arenas, bits: int) -> None:
        self.f, self.arenas, self.bits = f, arenas, bits
        self.types, width = arenas.output_arena.shape
        self.shift = width.bit_length() - 1
        self.launcher = Launcher(f, arenas)
        self.given = fields_of(arenas)
        self.head, self.tail, self.longest, self.number = (f.room(self.types) for _ in range(4))

    def emit(self) -> None:
        """Write the whole function."""
        f = self.f
        f.set("status", RUNNING)
        for t in range(self.types):
            for array in (self.tail, self.longest, self.number):
                f.put("i64", "0", array, t)
        for name in ("at", "nodes", "work", "done"):
            f.set(name, 0)
        f.until(self._word("at"), f.get("length"), self._node)
        self._stop(f.test("sge", f.get("work"), f.get("limit")), PAUSED)
        self._stop(f.let(f"xor i1 {f.both(self._fits())}, true"), FULL)
        count = f.get("nodes")
        f.each(0, count, lambda i: self._path(f.i64("sub", f.i64("sub", count, 1), i)))
        begin = "0"
        for t in range(self.types):
            size = f.item("i64", self.tail, t)
            f.put("i64", begin, self.head, t)
            f.put("i64", begin, self.tail, t)
            begin = f.i64("add", begin, size)

        def begins(node: str) -> None:
            ready = f.test("eq", f.int_item(f.address("missing"), node), 0)
            f.when(ready, lambda: self._ready(node))

        f.each(0, count, begins)
        f.until(self._word("done"), count, lambda _: f.cases(self._next(), range(self.types), self._batch))
        f.set("status", DONE)

    def _word(self, name: str) -> str:
        """The instruction that reads a word of the state."""
        return f"load i64, ptr {self.f.let(f'getelementptr i64, ptr %state, i64 {self.f.words[name]}')}"

    def _stop(self, condition: str, status: int) -> None:
        """Return with a status where a condition holds."""

        def leave() -> None:
            self.f.set("status", status)
            self.f.leave()

        self.f.when(condition, leave)

    def _fits(self) -> list[str]:
        """Whether there is room for the nodes in each arena; how much they need is noted."""
        f, fits = self.f, []
        for arena, outputs in taken_rows(self.arenas).items():
            need = "0"
            for t, times in outputs.items():
                need = f.i64("add", need, f.i64("mul", f.item("i64", self.tail, t), times))
            f.set(("need", arena), need)
            end = f.i64("add", f.get(("row", arena)), need)
            fits.append(f.test("sle", end, f.get(("row_end", arena))))
        return fits

    # what the words say

    def _node(self, at: str) -> None:
        f, node = self.f, self.f.get("nodes")
        t = f.i64("and", f.item("i64", f.address("words"), at), TYPE)
        first = f.i64("add", at, 1)
        f.put_int(t, f.address("type"), f.i64("add", f.get("first"), node))
        for name, value in (("begin", first), ("missing", "0"), ("head", NONE), ("path", "1")):
            f.put_int(value, f.address(name), node)
        f.put("i64", f.i64("add", f.item("i64", self.tail, t), 1), self.tail, t)
        f.set("work", f.i64("add", f.get("work"), f.item("i64", f.address("flops"), t)))
        end = f.i64("add", first, f.int_item(f.address("slots"), t))
        f.each(first, end, lambda k: self._operand(node, k))
        f.set("at", end)
        f.set("nodes", f.i64("add", node, 1))

    def _operand(self, node: str, k: str) -> None:
        """Note what an operand refers to, and of a new node, who reads it."""
        f = self.f
        reference = f.i64("ashr", f.item("i64", f.address("words"), k), self.bits)
        computed = f.test("sge", reference, 0)
        own = f.i64("sub", reference, f.get("base"))
        f.fail(f.both([computed, f.test("slt", own, 0)]))
        if self.given:
            f.when(f.test("slt", reference, 0), lambda: self._known(reference))
        f.put_int(f.either(computed, own, reference), f.address("operand"), k)
        producer = self._new(own)

        def link() -> None:
            head, missing = f.address("head"), f.address("missing")
            f.put_int(f.int_item(head, producer), f.address("next"), k)
            f.put_int(k, head, producer)
            f.put_int(node, f.address("owner"), k)
            f.put_int(f.i64("add", f.int_item(missing, node), 1), missing, node)

        f.when(f.both([computed, f.test("sge", producer, 0)]), link)

    def _known(self, reference: str) -> None:
        """Fail for a row brought along in another run."""
        f = self.f
        for c in self.given:
            inside, row = self._brought(c, reference)
            f.fail(f.both([inside, f.test("sge", row, f.get(("brought", c)))]))

    def _brought(self, c: int, reference: str) -> tuple[str, str]:
        """Whether a reference is to a row of field c, and which of the run's rows that is."""
        f, begin = self.f, int(self.arenas.constant_first[c])
        count = int(self.arenas.constant_end[c]) - begin
        place = f.i64("sub", f.i64("xor", reference, -1), begin)
        row = f.i64("and", f.i64("sub", place, f.get(("since", c))), count - 1)
        return f.test("ult", place, count), row

    def _new(self, reference: str) -> str:
        """The number among the new nodes of the one with a reference; negative for what is none of them."""
        f = self.f
        return f.i64("sub", f.i64("ashr", reference, self.shift), f.get("first"))

    # schedule

    def _path(self, node: str) -> None:
        """A node is one more from the end than all that reads it."""
        f, path = self.f, self.f.address("path")
        longer = f.i64("add", f.int_item(path, node), 1)
        begin = f.int_item(f.address("begin"), node)
        end = f.i64("add", begin, f.int_item(f.address("slots"), self._type(node)))

        def operand(k: str) -> None:
            producer = self._new(f.int_item(f.address("operand"), k))

            def raise_path() -> None:
                f.put_int(f.most(f.int_item(path, producer), longer), path, producer)

            f.when(f.test("sge", producer, 0), raise_path)

        f.each(begin, end, operand)

    def _type(self, node: str) -> str:
        return self.f.int_item(self.f.address("type"), self.f.i64("add", self.f.get("first"), node))

    def _ready(self, node: str) -> None:
        """Put a node on the frontier."""
        f, t = self.f, self._type(node)
        at = f.item("i64", self.tail, t)
        f.put_int(node, f.address("queue"), at)
        f.put("i64", f.i64("add", at, 1), self.tail, t)
        length, longest = f.int_item(f.address("path"), node), f.item("i64", self.longest, t)
        number = f.item("i64", self.number, t)
        more = f.either(f.test("eq", length, longest), f.i64("add", number, 1), number)
        f.put("i64", f.either(f.test("sgt", length, longest), "1", more), self.number, t)
        f.put("i64", f.most(length, longest), self.longest, t)

    def _next(self) -> str:
        """The type of the next batch: see `abw.core.policy.rules.critical.critical_type`."""
        f = self.f
        best, length, number = "0", f.item("i64", self.longest, 0), f.item("i64", self.number, 0)
        for t in range(1, self.types):
            here, many = f.item("i64", self.longest, t), f.item("i64", self.number, t)
            equal = f.both([f.test("eq", here, length), f.test("sgt", many, number)])
            better = f.let(f"or i1 {f.test('sgt', here, length)}, {equal}")
            best, length, number = (
                f.either(better, *pair) for pair in ((str(t), best), (here, length), (many, number))
            )
        return best

    # execution

    def _batch(self, t: int) -> None:
        """Run the ready nodes of a type; then others may be ready."""
        f, slots, outputs = self.f, int(self.arenas.slots[t]), int(self.arenas.outputs[t])
        first, last = f.item("i64", self.head, t), f.item("i64", self.tail, t)
        f.put("i64", last, self.head, t)
        f.put("i64", "0", self.longest, t)
        lanes = f.i64("sub", last, first)

        def lane(i: str) -> str:
            return f.int_item(f.address("queue"), f.i64("add", first, i))

        def feed(i: str) -> None:
            begin = f.int_item(f.address("begin"), lane(i))
            for s in range(slots):
                reference = f.int_item(f.address("operand"), f.i64("add", begin, s))
                row = self._row(int(self.arenas.slot_arena[t, s]), reference)
                f.put_int(row, self.launcher.index(s), i)

        def give(i: str) -> None:
            node = lane(i)
            reference = f.i64("shl", f.i64("add", f.get("first"), node), self.shift)
            for o in range(outputs):
                place = f.i64("add", reference, o)
                f.put_int(f.i64("add", rows[o], i), f.address("row"), place)
            f.set("word", f.int_item(f.address("head"), node))
            f.until(self._word("word"), NONE, self._follow)

        f.repeat(lanes, feed)
        rows = self.launcher.launch(t, lanes)
        f.repeat(lanes, give)
        f.set("done", f.i64("add", f.get("done"), lanes))

    def _follow(self, k: str) -> None:
        """One of a node's operands is computed."""
        f, node = self.f, self.f.int_item(self.f.address("owner"), k)
        missing = f.i64("sub", f.int_item(f.address("missing"), node), 1)
        f.put_int(missing, f.address("missing"), node)
        f.set("word", f.int_item(f.address("next"), k))
        f.when(f.test("eq", missing, 0), lambda: self._ready(node))

    def _row(self, arena: int, reference: str) -> str:
        """Where a value lies in the arena that a slot reads."""
        f, arenas = self.f, self.arenas
        number, found = f.i64("xor", reference, -1), "0"
        for c, first in enumerate(arenas.constant_row[arena].tolist()):
            if first >= 0:
                begin, end = int(arenas.constant_first[c]), int(arenas.constant_end[c])
                place = f.i64("sub", number, begin)
                row = f.i64("add", place, first)
                found = f.either(f.test("ult", place, end - begin), row, found)
        for c in self.given:
            if arenas.field_arena[c] == arena:
                inside, row = self._brought(c, reference)
                row = f.int_item(f.address(("given", c)), f.either(inside, row, "0"))
                found = f.either(inside, row, found)
        own = f.int_item(f.address("row"), f.most(reference, 0))
        return f.either(f.test("sge", reference, 0), own, found)


def fields_of(arenas: Arenas) -> list[int]:
    """The constants whose rows instances bring along, and some slot reads."""
    return [c for c, arena in enumerate(arenas.field_arena.tolist()) if arena >= 0]


def taken_rows(arenas: Arenas) -> dict[int, dict[int, int]]:
    """Of each arena that types write to, how many rows a node of which type takes."""
    found: dict[int, dict[int, int]] = {}
    for t, row in enumerate(arenas.output_arena.tolist()):
        for arena in row:
            if arena >= 0:
                types = found.setdefault(arena, {})
                types[t] = types.get(t, 0) + 1
    return found
