"""The operands of new vertices' nodes as rows of arenas, and what becomes of them: batches, one a type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from abw.core.data.vertices import INDEX, FieldColumn
from abw.core.exec.cpu.rounds.launch import Launcher
from abw.core.exec.cpu.rounds.members import Members
from abw.core.exec.cpu.rounds.state import StateFunction
from abw.core.graph.growing.growth_index import GivenColumn, RowColumn
from abw.core.graph.growing.round_graph import Sprouter, parted
from abw.core.ir.model import (
    FieldSource,
    Input,
    NodeSource,
    NodeType,
    ParamSource,
    Source,
    TableSource,
    ZeroSource,
)
from abw.core.ir.schema import Comparison
from abw.core.plan.arenas import Arenas

SIGNS: dict[Comparison, str] = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """The name of a column: the row that holds what an output of a type is on a vertex, in its arena."""

    type: int
    output: int


@dataclass(frozen=True, slots=True)
class OwnColumn:
    """The name of a column: whether a reduction has a node of its own on a vertex: 0, or -1 for none."""

    type: int


def field_column(name: str) -> FieldColumn | str:
    """The column of a field of numbers."""
    return INDEX if name == "index" else FieldColumn(name)


class Feeds:
    """Writes the batches of a round into a function."""

    def __init__(
        self, f: StateFunction, launcher: Launcher, members: Members, sprouter: Sprouter, arenas: Arenas
    ) -> None:
        self.f, self.launcher, self.members, self.arenas = f, launcher, members, arenas
        self.model, self.network, self.sprouter = sprouter.model, sprouter.network, sprouter

    def batch(self, t: int, vertices: str, count: str) -> None:
        """Make and run the nodes of type t of `count` vertices."""
        f, node_type = self.f, self.model.types[t]
        lanes = f.address("lanes")
        f.set("lane", 0)
        f.set("filled", 0)
        if node_type.reduction is not None:
            f.put("i32", "0", f.address("ends"), 0)

        def node(j: str) -> None:
            vertex = f.int_item(vertices, j)
            lane = f.get("lane")
            f.put_int(vertex, lanes, lane)
            there = f.both([self._passes(c.field, c.comparison, c.value, vertex) for c in node_type.where])
            if node_type.reduction is None:
                self._cell(t, node_type, vertex, lane, there)
                own = there
            else:
                own = self._reduction(t, node_type, vertex, lane, there)
            f.set("lane", f.i64("add", lane, f.let(f"zext i1 {own} to i64")))

        f.each(0, count, node)
        total = f.get("lane")

        def run() -> None:
            first = self.launcher.launch(t, total)

            def give(i: str) -> None:
                vertex = f.int_item(lanes, i)
                for o, row in enumerate(first):
                    f.note(ValueColumn(t, o), vertex, f.i64("add", row, i))
                if node_type.reduction is not None:
                    f.note(OwnColumn(t), vertex, "0")

            f.repeat(total, give)

        f.when(f.test("sgt", total, 0), run)

    def _passes(self, field: str, comparison: Comparison, value: int, vertex: str) -> str:
        f = self.f
        number = f.column(field_column(field), vertex)
        return f.both([f.test("sge", number, 0), f.test(SIGNS[comparison], number, value)])

    def _cell(self, t: int, node_type: NodeType, vertex: str, lane: str, there: str) -> None:
        f = self.f
        for s, wanted in enumerate(node_type.inputs):
            row = self._feed(int(self.arenas.slot_arena[t, s]), wanted, wanted.sources, vertex, there)
            f.put_int(row, self.launcher.index(s), lane)

    def _reduction(self, t: int, node_type: NodeType, vertex: str, lane: str, there: str) -> str:
        """Write what a reduction reads; whether that is a node. What stands for it if not is noted."""
        f, arena = self.f, self.arenas.slot_arena
        inputs = node_type.inputs[: node_type.listed]
        sources = [wanted.sources[0] for wanted in inputs if isinstance(wanted.sources[0], NodeSource)]
        before, behind = parted(sources[0].hops, self.model.schema)
        at = f.follow(vertex, before)
        filled = f.get("filled")
        f.set("size", 0)

        def member(other: str) -> None:
            size = f.get("size")
            rows = [self._value(source.producers, other) for source in sources]
            for s, row in enumerate(rows):
                f.put_int(row, self.launcher.index(s), f.i64("add", filled, size))
            found = f.let(f"zext i1 {f.test('sge', rows[0], 0)} to i64")
            f.set("size", f.i64("add", size, found))

        f.when(there, lambda: self.members.each(behind, at, member))
        size = f.get("size")
        several, none = f.test("sgt", size, 1), f.test("eq", size, 0)
        alone = f.both([there, none])
        for o in range(len(node_type.outputs)):
            wanted = node_type.inputs[o]
            rest = wanted.sources[1:] or (ZeroSource(),)
            default = self._feed(int(arena[t, o]), wanted, rest, vertex, alone)
            only = f.either(none, default, f.int_item(self.launcher.index(o), filled))
            f.note(ValueColumn(t, o), vertex, f.either(there, only, "-1"))
        for s in range(node_type.listed, len(node_type.inputs)):
            wanted = node_type.inputs[s]
            row = self._feed(int(arena[t, s]), wanted, wanted.sources, vertex, several)
            # the kernel reads it where a lane's list begins, and nowhere else
            f.put_int(row, self.launcher.index(s), filled)
        filled = f.i64("add", filled, f.either(several, size, "0"))
        f.set("filled", filled)
        f.put_int(filled, f.address("ends"), f.i64("add", lane, 1))
        return several

    def _value(self, producers: tuple[tuple[int, int], ...], vertex: str) -> str:
        """The row of what the first of the producers that is there gives on a vertex."""
        f, found = self.f, ""
        for t, output in producers:
            row = f.column(ValueColumn(t, output), vertex)
            found = f.either(f.test("sge", found, 0), found, row) if found else row
        return found

    def _feed(self, arena: int, wanted: Input, sources: Sequence[Source], vertex: str, needed: str) -> str:
        """The row of the first source that is there; the function fails where none is, and one is needed."""
        f, found = self.f, ""
        for source in sources:
            row = self._source(arena, wanted, source, vertex)
            found = f.either(f.test("sge", found, 0), found, row) if found else row
        if not isinstance(sources[-1], ZeroSource | ParamSource):
            f.fail(f.both([needed, f.test("slt", found, 0)]))
        return found

    def _source(self, arena: int, wanted: Input, source: Source, vertex: str) -> str:
        f = self.f
        if isinstance(source, NodeSource):
            return self._value(source.producers, f.follow(vertex, source.hops))
        number = self.sprouter.constant(source, wanted)
        first = int(self.arenas.constant_row[arena, number])
        if isinstance(source, ZeroSource | ParamSource):
            return str(first)
        at = f.follow(vertex, source.hops)
        if isinstance(source, TableSource):
            row = self._row(source, at)
            return f.either(f.test("sge", row, 0), f.i64("add", row, first), "-1")
        if isinstance(source, FieldSource):
            row = f.column(GivenColumn(source.field), at)
            return f.either(f.test("sge", row, 0), f.i64("add", row, f.get(("field", number))), "-1")
        assert_never(source)

    def _row(self, source: TableSource, at: str) -> str:
        """The row of a table, -1 for none."""
        f = self.f
        if self.model.schema.fields[source.field].text:
            return f.column(RowColumn(source.table, source.field), at)
        number, rows = f.column(field_column(source.field), at), self.model.tables[source.table].rows
        if self.model.weights.file:
            return f.either(f.test("slt", number, rows), number, "-1")
        return f.either(f.test("sge", number, 0), f.i64("srem", number, rows), "-1")
