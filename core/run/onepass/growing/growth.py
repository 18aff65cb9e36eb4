"""What the passes of a model that grows know beside those of others: the words of `stages`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.vertices import FieldColumn
from abw.core.exec.cpu.rounds.rounds import FIRST_GUESS, USUAL_ROUNDS, CompiledRounds
from abw.core.exec.lower.rows import columns as floats_of
from abw.core.exec.lower.rows import padded
from abw.core.graph.growing import state as grown
from abw.core.graph.growing.batch import GrowthData
from abw.core.graph.growing.model import GrowthModel
from abw.core.graph.growing.names import GivenColumn, ValueColumn
from abw.core.graph.growing.share import LEAST_ROOM
from abw.core.graph.growing.walk import code
from abw.core.ir.cell import Shape
from abw.core.ir.schema import Hop
from abw.core.jit.decorators import address_of_code
from abw.core.jit.pointers import Table
from abw.core.run.onepass import bind, build, finish
from abw.core.run.onepass import state as at
from abw.core.run.onepass.binding import Binding
from abw.core.run.onepass.growing import after, stages
from abw.core.run.onepass.growing.finished import finished_binding
from abw.core.run.onepass.state import Stage

Longs = NDArray[np.int64]
# The shape of an output's values, and their type.
Values = tuple[Shape, type[np.generic]]

# The arithmetic between two looks for Ctrl-C: some 50 ms.
PAUSE_FLOPS = 10**9


class Growing:
    """The words of `stages`, and a state of growth of its own, for one model on one executor.

    `outputs`, `produced` and `values` are those of its outputs, as a workspace has them.
    """

    def __init__(self, model: GrowthModel, rounds: CompiledRounds, limit: int) -> None:
        """Write what the model and the executor fix.

        `limit`: from so much arithmetic on several threads are better. Errors: CannotPassError.
        """
        self.model, self._rounds, self._limit = model, rounds, limit
        self.share = share = rounds.new_share()
        if share.words[grown.BEAM]:
            share.hold(LEAST_ROOM)
        self.table = Table(np.zeros(stages.WORDS, np.int64))
        self._kinds: tuple[str, ...] = ()
        self._binding: Binding | None = None
        self._growing: GrowthData | None = None
        self._wanted = [model.deciding]
        columns, network = model.columns, model.network
        best = next((d.decision for d in model.growth.outputs if d.decision.how == "best"), None)
        for word, number in {
            stages.WALK: code(),
            stages.ROOTS: model.program.roots,
            stages.PER_INSTANCE: min(FIRST_GUESS, rounds.most),
            stages.STARTS: rounds.starts,
            stages.QUOTA: max(1, PAUSE_FLOPS // max(1, rounds.lanes_flops)),
            stages.BEST: columns[FieldColumn(best.name)] if best else -1,
        }.items():
            self.table.words[word] = number
        self.table.point(stages.SHARE, share.table)
        self._noted = [(t, o, columns[ValueColumn(t, o)]) for t, o in (*model.reduced, *model.read_before)]
        self._noted_after: list[tuple[int, int, int]] = []
        self.outputs, self.produced, self.values = self._outputs(rounds.memory.lanes)
        self.table.words[stages.COLUMNS] = len(columns) + len(self._noted) + len(self._noted_after)
        bases = [(k, network.given.index(number)) for k, number in rounds.fields]
        self.table.name(stages.NOTED, np.array(self._noted, np.int64).ravel())
        self.table.name(stages.WIDE, rounds.wide.astype(np.int64))
        self.table.name(stages.BASES, np.array(bases, np.int64).ravel())
        self._late: Table | None = None
        if model.phases.after:
            self._finished, self._gathered, self._program = finished_binding(model)

    def run_after(self, late: Table, scheduled: Sequence[Stage]) -> tuple[Stage, ...]:
        """The stages that run types after growth, which are scheduled by some of them.

        `late`: a copy of the words of the passes, which these stages have for their own.
        """
        model, program, width = self.model, self._program, self.model.network.width
        those = (after.gather, bind.bind, build.construct, after.divide, *scheduled, after.join)
        addresses = [address_of_code(stage) for stage in (*those, finish.plan, finish.walk, after.note)]
        nothing = np.zeros(0, np.int64)
        arrays: dict[int, NDArray[Any]] = {
            at.STAGES: np.array(addresses, np.int64),
            at.STEPS: program.steps,
            at.REDUCTIONS: program.reductions,
            at.PRODUCERS: program.producers,
            at.OWN_STATE: program.state,
            at.GIVEN: nothing,
            at.FIELDS: nothing,
            at.BINDING: self._finished.steps,
            at.REGISTERS: np.zeros(2 * self._finished.registers, np.int64),
            at.HEAD: np.zeros(len(self._rounds.arenas.shape), np.int32),
        }
        for word, array in arrays.items():
            late.name(word, np.ascontiguousarray(array))
        late.words[at.SPACE_ROWS] = program.rows
        late.words[at.ALIASING] = program.aliasing if program.nested else 0
        late.words[at.LOOK_FROM] = late.words[at.MOST_VERTICES] = at.ENDLESS
        late.words[at.MOST_FLOPS] = at.ENDLESS << 20  # by now one thread has done the rest: see `alone`
        self._late = late
        self.table.point(stages.AFTER, late)
        early = [t not in model.phases.after for t in range(len(model.network.types))]
        gathered = [
            (register, isinstance(name, Hop), model.columns[name])
            for name, register in self._gathered.items()
        ]
        values = [
            [model.columns.get(ValueColumn(t, o), -1) for o in range(width)]
            for t in range(len(model.network.types))
        ]
        self.table.name(stages.GATHERED, np.array(gathered, np.int64).ravel())
        self.table.name(stages.EARLY, np.column_stack([early, values]).astype(np.int64).ravel())
        self.table.name(stages.NOTED_AFTER, np.array(self._noted_after, np.int64).ravel())
        return (after.run_after,)

    def _outputs(self, lanes: int) -> tuple[Longs, Longs, list[Values]]:
        """What `finish` and `stages` say of outputs and producers, and the values that outputs have.

        Rows of types before growth that rounds do not read are noted for the outputs in columns of their own.
        """
        model, network, noted = self.model, self.model.network, {(t, o): c for t, o, c in self._noted}
        arena, rows, produced, values = (
            self._rounds.arenas.output_arena,
            [],
            list[tuple[int, ...]](),
            list[Values](),
        )
        for _, producers in network.outputs:
            begin, (t, o) = len(produced), producers[0]
            shape = network.types[t].outputs[o].shape
            for t, o in producers:
                column = noted.get((t, o), -1)
                if t in model.phases.during:
                    column = model.columns[ValueColumn(t, o)]
                elif t in model.phases.after:
                    column = noted.get((t, o), len(model.columns) + len(noted))
                    noted[t, o] = column
                    self._noted_after.append((t, o, column))
                elif column < 0:
                    column = noted[t, o] = len(model.columns) + len(noted)
                    self._noted.append((t, o, column))
                produced.append((column, int(arena[t, o]), -1))
            floats, matrix = floats_of(shape), shape[0] if len(shape) == 2 else 1
            rows.append((begin, len(produced), matrix, floats, padded(floats, lanes)))
            values.append((shape, np.float32))
        for output in model.growth.outputs:
            column = model.columns[FieldColumn(output.decision.name)]
            rows.append((len(produced), len(produced) + 1, 1, 1, 1))
            produced.append((column, -1, len(self._wanted)))
            self._wanted.append(output.kinds)
            values.append(((), np.int32))
        outputs = np.zeros((len(rows), finish.OF_OUTPUT), np.int64)
        outputs[:, : len(rows[0])] = rows
        return outputs, np.array(produced, np.int64), values

    def read(self, binding: Binding, kinds: Sequence[str]) -> None:
        """Let passes read texts, bound by these steps, in which kinds have the numbers of these names."""
        self._binding, self._read_kinds = binding, tuple(kinds)
        self.table.name(stages.LISTS, np.array(binding.lists, np.int64))
        self.table.name(stages.FROM, self._from(binding.given))

    def _from(self, halves: Sequence[int]) -> Longs:
        """What `stages.FROM` says of each given column."""
        names, fields = list(self.model.columns)[: self.model.given], self.model.network.fields
        counts = [
            stages.FROM_VERTEX
            if isinstance(name, Hop)
            else fields.index(name.field)
            if isinstance(name, GivenColumn)
            else stages.FROM_ZERO
            for name in names
        ]
        return np.array([*zip(halves, counts, strict=True)], np.int64).ravel()

    def texts(self) -> None:
        """Let the next pass be of texts."""
        if self._growing is None and self._kinds:
            return
        self._growing = None
        self.table.words[stages.COLUMNS_AT] = 0
        self._number(self._read_kinds)

    def bind(self, growing: GrowthData) -> None:
        """Let the next pass be of instances with these columns."""
        if growing is self._growing:
            return
        self._growing = growing
        if self._binding is None:
            self.table.name(stages.FROM, self._from([-1] * self.model.given))
        block = growing.block
        self.table.point(stages.COLUMNS_AT, block)
        self.table.words[stages.LENGTH] = block.shape[1]
        self.share.point({grown.DATA: growing.data, grown.LISTS: growing.lists})
        self._number(growing.instances.schema.kinds)

    def _number(self, kinds: tuple[str, ...]) -> None:
        """Let kinds have these numbers."""
        if kinds == self._kinds:
            return
        self._kinds = kinds
        wanted = [[name in some for name in kinds] for some in self._wanted]
        self.table.name(stages.KINDS, np.array(wanted, np.uint8))
        self.share.number_kinds(kinds)
        if self._late is not None:
            self._late.point(at.MEMBERS, self._finished.members(kinds))

    def alone(self, instances: int) -> bool:
        """Whether so many instances are grown by one thread; types after growth take what they took last."""
        flops, late = self._rounds.lanes_flops * USUAL_ROUNDS, self._late
        if late is not None:
            flops += int(late.words[at.PRODUCT_FLOPS_NOW]) // max(1, int(late.words[at.COUNT]))
        flops *= instances
        return instances == 1 or flops < self._limit

    def have_room(self) -> None:
        """Have more room, where a pass had too little."""
        share, own = self.share, self.table.words
        share.make_room()
        wanted = share.rows[:, 0] + share.words[grown.NOW] * share.rows[:, 2]
        short = (wanted > share.rows[:, 1]).any()
        if short or share.words[grown.NEXT] + share.words[grown.ADDING] > share.words[grown.END]:
            own[stages.PER_INSTANCE] *= 2
