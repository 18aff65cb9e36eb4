"""A model's words and block, and the calls of its passes."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from abw.core.base.progress import Times, uncounted
from abw.core.data.readers.jsonscan import id_of
from abw.core.data.readers.jsontokens import POWERS
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.launch import Launcher
from abw.core.exec.lower.rows import columns, padded
from abw.core.exec.memory import aligned
from abw.core.graph.bind import Binding as Bound
from abw.core.graph.walk import FIELDS, FIRST
from abw.core.ir.model import Model
from abw.core.ir.network import Network
from abw.core.jit.decorators import address_of_code
from abw.core.jit.pointers import Table
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import GIVEN_AGAIN
from abw.core.run.dedup import Deduplicator
from abw.core.run.onepass import build, finish
from abw.core.run.onepass import state as at
from abw.core.run.onepass.binding import Binding
from abw.core.run.onepass.growing.growth import Growing, Values
from abw.core.run.onepass.loop import answer, answer_text, go_on
from abw.core.run.onepass.made import Made
from abw.core.run.onepass.queryplans import plan_names
from abw.core.run.onepass.state import Stage
from abw.core.run.workload import Networks

Longs = NDArray[np.int64]
# The phases of a pass with the stages of each.
Phases = Sequence[tuple[str, Table]]

# What passes read of arenas, in words of the same names.
OF_ARENAS = (
    "slot_arena", "output_arena", "reduces", "reduced", "constant_row", "constant_first", "constant_end",
    "list_flops", "product_flops", "other_flops", "head", "value_floats",
)  # fmt: skip
# Bytes of the block at first, and at most: with more, plans are made the ordinary way.
LEAST, MOST = 1 << 16, 1 << 28
# Bytes of outputs from which on they are given away with the block, not copied, if they are most of it.
GIVEN_AWAY = 1 << 20
# References to a block's memory that the block, and who counts them, have.
OWN_REFERENCES = 2


class Workspace:
    """What the passes of a model share on one executor, for one call at a time.

    `arrays` and `numbers` are those of a policy (`abw.core.run.onepass.rules`).
    """

    def __init__(
        self,
        model: Model,
        networks: Networks,
        executor: CpuExecutor,
        walking: Launcher,
        arrays: Mapping[int, NDArray[Any]],
        numbers: Mapping[int, int],
        growing: Growing | None = None,
    ) -> None:
        """Write what the model, the policy and the executor fix."""
        self._executor, self._kinds = executor, model.schema.kinds
        self._walked = Table(walking.table.words.copy(), walking.table)
        self._walked.keep("walker", walking)
        self._table = Table(np.zeros(at.WORDS, np.int64))
        self.words: Longs = self._table.words
        network, program, memory = networks.cells, networks.program, walking.memory
        arenas, edges = arenas_of(network), program.edges
        fields = np.zeros((len(network.fields), build.OF_FIELD), np.int64)
        fields[:, build.CONSTANT] = network.given
        fields[:, build.ARENA] = arenas.field_arena[list(network.given)]
        self._fields = Table(fields.ravel())
        given = [(step, network.fields.index(name)) for step, name in program.given.items()]
        self._growing, self._equal = growing, networks.equal
        if growing is None:
            self._outputs, produced, self._values = _outputs(network, memory.lanes)
        else:
            self._outputs, produced, self._values = growing.outputs, growing.produced, growing.values
            self._table.point(at.GROWTH, growing.table)
        of_model: dict[int, NDArray[Any] | Table] = {
            at.STEPS: program.steps,
            at.REDUCTIONS: program.reductions,
            at.PRODUCERS: program.producers,
            at.OWN_STATE: program.state,
            at.GIVEN: np.array(given, np.int64),
            at.FIELDS: self._fields,
            at.EDGE_SLOTS: edges.slots,
            at.EDGE_LISTS: edges.lists,
            at.EDGE_DISTINCT: edges.distinct,
            at.TYPE_SLOTS: arenas.slots,
            **{getattr(at, name.upper()): getattr(arenas, name) for name in OF_ARENAS},
            at.LOOSE: np.zeros(len(network.types), np.bool_),
            at.OUTPUTS: self._outputs,
            at.PRODUCED: produced,
            at.ARENA: memory.table,
            at.PITCH: memory.pitch,
            at.HELD: memory.held,
            **(_equal(networks.equal, executor) if networks.equal else {}),
        }
        for word, array in {**of_model, **arrays}.items():
            self.point(word, array)
        for word, number in {
            at.TYPES: len(network.types),
            at.SLOTS: arenas.slot_arena.shape[1],
            at.WIDTH: network.width,
            at.SHIFT: network.width.bit_length() - 1,
            at.SPACE_ROWS: program.rows,
            at.ALIASING: program.aliasing if program.nested else 0,
            at.ARENAS: len(arenas.shape),
            at.CONSTANTS: len(network.constants),
            at.MOST_REDUCED: arenas.most_reduced,
            at.MOST_FLOATS: at.ENDLESS << 20 if growing else GIVEN_AGAIN // 4,
            at.MOST_FLOPS: walking.limit,
            at.SEED: model.data.seed,
            at.MOST_VERTICES: at.ENDLESS,
            at.LOOK_FROM: at.ENDLESS,
            at.WALK: walking.walk,
            **numbers,
        }.items():
            self.words[word] = number
        self._table.point(at.TABLE, self._walked)
        self._table.point(at.SCRATCH, walking.scratch[0].owner)
        self.point(at.STAGES, np.zeros(0, np.int64))
        answer(self._table.at, 0, 0, 0)  # without stages: what runs them is compiled
        go_on(self._table.at)
        self._stages: Table | None = None
        self._lent, self._epoch = False, cast(int | None, None)
        self._other: NDArray[np.float32] | None = None
        self._take(LEAST)

    def point(self, word: int, to: NDArray[Any] | Table) -> None:
        """Write the address of an array and its number of elements into words."""
        self._table.name(word, to if isinstance(to, Table) else np.ascontiguousarray(to))

    def copy(self) -> Table:
        """The words as they are."""
        return Table(self.words.copy(), self._table)

    def stages(self, stages: Sequence[Stage]) -> Table:
        """The addresses of compiled stages."""
        return Table(np.array([address_of_code(stage) for stage in stages], np.int64))

    def bind(self, binding: Bound) -> None:
        """Set the instances of the next passes."""
        instances = binding.instances
        self._table.point(at.KIND_AT, np.ascontiguousarray(instances.kind))
        self._table.point(at.NUMBERS, np.ascontiguousarray(instances.numbers, np.int64))
        self.point(at.TABLES, binding.tables)
        self.point(at.START, binding.instances.start)
        self._table.point(at.DATA_AT, binding.data)
        for f, name in enumerate(binding.network.fields):
            values, word = binding.given[name], f * build.OF_FIELD
            rows = np.ascontiguousarray(values.rows)
            self._fields.point(word + build.VERTEX, np.ascontiguousarray(values.vertex))
            self._fields.point(word + build.ROWS, rows)
            self._fields.words[word + build.COUNT] = len(rows)
            self._fields.words[word + build.FLOATS] = rows.size // max(1, len(rows))

    def read(self, binding: Binding, arrays: Mapping[int, NDArray[Any]], numbers: Mapping[int, int]) -> None:
        """Let passes read texts, and bind the model to them by these steps."""
        vocabularies = _tables(binding.vocabularies)
        self.point(at.BINDING, binding.steps)
        self.point(at.REGISTERS, np.zeros(2 * binding.registers, np.int64))
        self.point(at.MEMBERS, binding.members(self._kinds))
        self.point(at.VOCABULARY, vocabularies)
        self.words[at.COLUMNS] = binding.columns
        if binding.json:
            self.point(at.JSON_NAMES, _tables(binding.json.names))
            self.point(at.JSON_FIELDS, binding.json.fields)
            self.point(at.JSON_LINKS, binding.json.links)
            self.point(at.JSON_POWERS, POWERS)
        if binding.plans is not None:
            self.point(at.PLAN_NAMES, plan_names())
            self.point(at.PLAN_FIELDS, binding.plans)
            self.point(at.JSON_POWERS, POWERS)
        for word, array in arrays.items():
            self.point(word, array)
        for word, number in numbers.items():
            self.words[word] = number

    def number(self, numbers: NDArray[np.int64] | None, vertices: int) -> None:
        """Set the numbers (n,) of the instances of the next text, and their largest number of vertices."""
        self.words[at.MOST_VERTICES] = vertices
        self.words[at.NUMBERS] = 0
        if numbers is not None:
            self._table.point(at.NUMBERS, numbers)

    def names(self) -> list[str | int] | None:
        """Return the ids of the instances that the last pass read from JSON lines; None if there are none."""
        count, lines = int(self.words[at.COUNT]), int(self.words[at.ID_ROOM])
        ids = self._lies(int(self.words[at.IDS]), (3, lines), np.int32)[:, :count]
        if not ids[0].any():
            return None
        data = b"" if self.text is None else self.text.tobytes()
        return [id_of(data, *row) for row in ids.T.tolist()]

    def table(self, stages: Sequence[Stage]) -> Table:
        """The words for passes of these stages, without a block; nothing is too large or looked up again."""
        self.point(at.STAGES, self.stages(stages))
        self._table.point(at.BLOCK, np.zeros(0))
        self.words[at.BLOCK] = self.words[at.ROOM] = 0
        self.number(None, at.ENDLESS)
        self.words[at.LOOK_FROM] = self.words[at.MOST_FLOATS] = at.ENDLESS << 20
        return self._table

    def run(
        self, phases: Phases, text: NDArray[np.uint8] | None, first: int, last: int, times: Times = uncounted
    ) -> int:
        """Run a pass of some phases, with more room if it needs that; returns how it ended.

        Errors: TooLargeError.
        """
        words, count = self.words, last - first
        if text is None:
            words[at.FIRST], words[at.LAST] = first, last
        self.text, self._count = text, count
        self._executor.run_alone()
        if self._lent:
            self._leave()
        while True:
            for number, (phase, stages) in enumerate(phases):
                if stages is not self._stages:
                    self._stages = stages
                    self.point(at.STAGES, stages)
                with times(phase):
                    if number:
                        words[at.STAGE] = 0
                        ends = go_on(self._table.at)
                    elif text is None:
                        ends = answer(self._table.at, 0, 0, count)
                    else:
                        ends = answer_text(self._table.at, text, count)
                    while ends == at.AGAIN or (ends == at.ROWS and self._more_rows()):
                        ends = go_on(self._table.at)
                if ends != at.FINE:
                    break
            if ends == at.FINE:
                return at.FINE
            if ends == at.MORE and words[at.NEXT] <= MOST:
                needed = int(words[at.NEXT])
                self._take(2 * needed if needed < GIVEN_AWAY else needed + needed // 4)
            elif ends == at.LARGER and self._growing:
                self._growing.have_room()
            elif ends != at.ROWS:
                return at.APART if ends == at.MORE else ends

    def _more_rows(self) -> bool:
        """Have the rows that a pass wants; False where it read leaves, which are forgotten now."""
        rows = self._ints(at.ROWS_NOW, self.words[at.ARENAS]).copy()
        self._executor.have_rows(rows, keep=self._growing is not None)
        return not (self.words[at.PLACE] and self.words[at.KEPT])

    def look_from(self, nodes: int, *, leaves: bool) -> None:
        """Let the next pass look for equal nodes if there are so many, also among the executor's leaves."""
        self.words[at.LOOK_FROM] = nodes
        kept = self._executor.leaves
        self.words[at.LEAF_ROWS + 1] = len(kept.row_of) if kept and leaves else 0

    def spared(self) -> tuple[int, NDArray[np.int64] | None]:
        """How many nodes the last pass had, and how many of each type (T,) it has left out; None where it has
        not looked for equal ones.
        """
        if not self.words[at.PLACE]:
            return int(self.words[at.NODES]), None
        types = int(self.words[at.TYPES])
        own = self._lies(int(self.words[at.OWN]), (types + 1, FIELDS), np.int64)
        left = np.diff(own[:, FIRST] - self._ints(at.TYPE_PTR, types + 1))
        return int(self.words[at.MADE]), np.asarray(left)

    def keep_leaves(self) -> None:
        """Keep outputs of the leaves that the last pass has computed, if it has looked for them."""
        words, nodes, leaves = self.words, int(self.words[at.NODES]), self._executor.leaves
        self._epoch = None
        if leaves is None or not words[at.PLACE] or not words[at.LEAF_ROWS + 1]:
            return
        self._epoch, read = leaves.epoch, self._ints
        type_ptr, operand_ptr = read(at.TYPE_PTR, words[at.TYPES] + 1), read(at.OPERAND_PTR, nodes + 1)
        graph = type_ptr, operand_ptr, read(at.OPERAND, words[at.OPERANDS])
        self._executor.keep_leaves(graph, read(at.ROW, nodes * words[at.WIDTH]))

    def made(self, *, edges: bool, copied: bool) -> Made:
        """What the last pass has made; of another run on it stays as it is only if it is copied."""
        block = self._block.view(np.uint8)
        if copied:
            block = block[: int(self.words[at.NEXT])].copy()
        table = self._walked.words[: finish.LAUNCH_PTR + 1].copy()
        return Made(self.words.copy(), table, block, self._at, edges, self._equal, self._epoch)

    def columns(self) -> list[tuple[NDArray[Any], Longs, NDArray[np.int32]]]:
        """What the last pass gave of each output: the values (m, *shape), where those of each instance begin
        (n + 1,), and their vertices (m,). Copies; or where they are most of the block, this itself.
        """
        instances, outputs, sizes = self._count, self._outputs.tolist(), []
        for (shape, kind), said in zip(self._values, outputs, strict=True):
            sizes.append(math.prod(shape) * np.dtype(kind).itemsize * said[finish.VALUES])
        most = self._lends(sum(sizes))
        self._lent |= most
        found = []
        for (shape, kind), said in zip(self._values, outputs, strict=True):
            *_, count, values, vertex, offsets = said
            parts = (
                self._lies(values, (count, *shape), kind),
                self._lies(offsets, (instances + 1,), np.int64),
                self._lies(vertex, (count,), np.int32),
            )
            found.append(parts if most else tuple(part.copy() for part in parts))
        return found

    def _lends(self, outputs: int) -> bool:
        """Whether so many bytes of outputs are given away with the block."""
        return outputs >= GIVEN_AWAY and 2 * outputs >= int(self.words[at.ROOM])

    def _leave(self) -> None:
        """Have another block where somebody has a part of this one: that before, if nobody has one of it."""
        self._lent, mine = False, self._block
        if sys.getrefcount(mine.base) > OWN_REFERENCES:
            other, self._other = self._other, mine
            if other is None or len(other) != len(mine) or sys.getrefcount(other.base) > OWN_REFERENCES:
                other = aligned(len(mine))
            self._have(other)

    def _ints(self, word: int, count: int) -> NDArray[np.int32]:
        """So many numbers whose address is a word."""
        found: NDArray[np.int32] = self._lies(int(self.words[word]), (int(count),), np.int32)
        return found

    def _lies(self, address: int, shape: tuple[int, ...], kind: Any) -> Any:  # noqa: ANN401 (of any type)
        """What lies in the block."""
        return np.ndarray(shape, kind, self._block, address - self._at)

    def _take(self, size: int) -> None:
        """Have a block of so many bytes."""
        self._have(aligned(-(-size // 4)))

    def _have(self, block: NDArray[np.float32]) -> None:
        self._block = block
        self._table.point(at.BLOCK, block)
        self._at = int(self.words[at.BLOCK])
        self.words[at.ROOM] = 4 * len(block)


def _equal(equal: Deduplicator, executor: CpuExecutor) -> dict[int, NDArray[Any]]:
    """What looking for equal nodes goes by."""
    keys, leaves = equal.keys, executor.leaves
    return {
        at.EQUAL_ORDER: keys.order,
        at.EQUAL_KEYS: keys.keys,
        at.EQUAL_ALONE: keys.alone,
        at.EQUAL_FACTS: keys.facts,
        at.EQUAL_APART: np.zeros(len(keys.order), np.bool_),
        at.LEAF_ROWS: leaves.row_of if leaves else np.zeros(0, np.int32),
        at.LEAF_KEPT: keys.leaves.kept,
    }


def _tables(tables: Sequence[Table]) -> Table:
    """Where tables lie."""
    found = Table(np.zeros(len(tables), np.int64))
    for number, table in enumerate(tables):
        found.point(number, table)
    return found


def _outputs(network: Network, lanes: int) -> tuple[Longs, Longs, list[Values]]:
    """`OUTPUTS`, `PRODUCED`, and what values each output has."""
    outputs = np.zeros((len(network.outputs), finish.OF_OUTPUT), np.int64)
    produced: list[tuple[int, int, int]] = []
    values: list[Values] = []
    for k, (_, producers) in enumerate(network.outputs):
        t, o = producers[0]
        shape = network.types[t].outputs[o].shape
        values.append((shape, np.float32))
        outputs[k, finish.BEGIN] = len(produced)
        produced += [(t, o, 0) for t, o in producers]
        outputs[k, finish.END] = len(produced)
        outputs[k, finish.MATRIX] = shape[0] if len(shape) == 2 else 1
        outputs[k, finish.FLOATS], outputs[k, finish.PADDED] = columns(shape), padded(columns(shape), lanes)
    return outputs, np.array(produced, np.int64).reshape(-1, 3), values
