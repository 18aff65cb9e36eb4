"""A state of growth with the arrays that its words name, kept from mini-batch to mini-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.vertices import INDEX, INSTANCE, KIND
from abw.core.graph.equal.consing import Consing
from abw.core.graph.growing import choices, walk
from abw.core.graph.growing import state as at
from abw.core.graph.growing.batch import Batch
from abw.core.graph.growing.decide import salt_of
from abw.core.graph.growing.launch import leave_out_equal, number_nodes
from abw.core.graph.growing.lists import lists
from abw.core.graph.growing.model import GrowthModel
from abw.core.graph.growing.names import ORIGIN, PICK, ROUND
from abw.core.ir.schema import Hop
from abw.core.jit.decorators import address_of_code
from abw.core.jit.pointers import Table

Ints = NDArray[np.int32]

# So many entries registers have room for at first, and so many rounds are noted.
LEAST_ROOM, LEAST_ROUNDS = 256, 64
# The registers that looking for equal nodes takes, behind those of the program.
LOOKING = 2

# What is noted of each pick, and of each that is kept.
PICKS = {
    at.PICK_VERTEX: np.int32,
    at.PICK_NUMBER: np.int32,
    at.PICK_TOTAL: np.float64,
    at.PICK_ENDED: np.uint8,
    at.KEPT_PICK: np.int32,
    at.KEPT_ROUND: np.int32,
}


class Share:
    """Grows some instances of a mini-batch, on one thread.

    Registers have as much room as any round has needed; picks are there as long as a mini-batch grows.
    """

    def __init__(self, model: GrowthModel, sign: int) -> None:
        """`sign`: whether rows of constants count up (1) or down (-1)."""
        self.model, program = model, model.program
        self.table = Table(np.zeros(at.WORDS, np.int64))
        self.words: NDArray[np.int64] = self.table.words
        self.picks: dict[int, NDArray[Any]] = {}
        self.bases = np.zeros(len(program.bases), np.int64)
        self.rows = np.zeros((0, 3), np.int64)
        self.sizes, self.space = np.zeros(program.registers + LOOKING, np.int64), np.empty(0, np.int32)
        self.spared = np.zeros(len(model.network.types), np.int64)
        self._equal: Consing | None = None
        self._note(LEAST_ROUNDS)
        kinds, columns, types = model.growth.kinds, model.columns, model.network.types
        numbers = {
            at.SIGN: sign,
            at.MOST_ADDED: model.most_added,
            at.KIND: columns[KIND],
            at.INSTANCE: columns[INSTANCE],
            at.INDEX: columns[INDEX],
            at.HOME: columns[Hop("instance")],
            at.IN_ROUND: columns[ROUND],
            at.ORIGIN: columns.get(ORIGIN, -1),
            at.PICK: columns.get(PICK, -1),
            at.BEAM: model.width if model.growth.beam else 0,
            at.WIDTH: model.network.width,
            at.STEPS_EACH: len(model.phases.steps),
            at.OPERANDS_EACH: program.operands,
            **dict(zip(range(at.START, at.STOP + 1), program.sections, strict=True)),
            **_codes(program.steps),
            at.BY_NUMBERS: address_of_code(number_nodes) if sign < 0 else 0,
        }
        for word, number in numbers.items():
            self.words[word] = number
        seed, decisions = model.model.data.seed, program.decisions
        self.point(
            {
                at.STEPS: program.steps.ravel(),
                at.BASES: self.bases,
                at.VALUES: model.values.astype(np.int64),
                at.LIMITS: np.array([d.limit for d in decisions], np.float64),
                at.SALTS: np.array([salt_of(d, seed) for d in decisions], np.uint64).view(np.int64),
                at.MOST: np.array([kind.most for kind in kinds], np.int64),
                at.ORIGINS: program.origins.ravel(),
                at.SIZES: self.sizes,
                at.SPARED: self.spared,
                at.TYPE_SLOTS: np.array([len(t.slots) for t in types], np.int32),
                at.TYPE_OUTPUTS: np.array([len(t.outputs) for t in types], np.int32),
            }
        )
        self._growing: object = None
        self._block: object = None
        self.reserve(LEAST_ROOM)

    def point(self, arrays: Mapping[int, NDArray[Any] | Table]) -> None:
        """Let words say where arrays lie, and how many elements they have."""
        for word, array in arrays.items():
            self.table.name(word, array)

    def begin(self, batch: Batch, first: int, last: int) -> None:
        """Begin with instances `first` to before `last` of a mini-batch; nothing grows yet."""
        words, start = self.words, batch.start
        words[: at.ENTRIES] = 0
        self.launched[:] = 0
        if batch.looks:
            self._look()
        words[at.BEGIN], words[at.INSTANCES] = batch.begin, len(batch)
        words[at.INSTANCE_FIRST], words[at.INSTANCE_LAST] = first, last
        if batch.deciding(first, last):
            words[at.GIVEN_FIRST], words[at.GIVEN_LAST] = start[first], start[last]
        if batch.growing is not self._growing:
            self._take(batch)
        self.point({at.NUMBERS: batch.numbers, at.COUNT: batch.count, at.CUT: batch.cut})
        if words[at.BEAM]:
            self.picks = {}
            self.hold(LEAST_ROOM)
            self.point(
                {
                    at.BEAM_ROUND: batch.compared,
                    at.BEAM_KEPT: batch.kept,
                    at.BEAM_TOTAL: batch.totals,
                    at.BEAM_VERTEX: batch.vertices,
                    at.BEAM_NUMBER: batch.picked,
                }
            )
        self.reserve(last - first)
        self.register(self.model.program.roots, last - first)[:] = start[first:last]

    def _look(self) -> None:
        """Look for equal nodes in this mini-batch."""
        if self._equal is None:
            self._equal = Consing(self.model.network)
            self.words[at.BY_EQUAL] = address_of_code(leave_out_equal)
            self.point({at.PAIRS: self._equal.pairs, at.USED: self._equal.used})
        self._equal.begin()
        self.spared[:] = 0
        self.words[at.LOOKS] = self.model.program.registers
        self._reserve_nodes(LEAST_ROOM, LEAST_ROOM)

    def _reserve_nodes(self, vertices: int, entries: int) -> None:
        """Have room to look at the nodes of so many vertices, of so many entries in each register."""
        assert self._equal is not None
        nodes = vertices * int(self.words[at.STEPS_EACH])
        operands = entries * int(self.words[at.OPERANDS_EACH])
        if self._equal.reserve(int(self.words[at.DISTINCT]), nodes, operands + nodes):
            equal = self._equal
            self.point({at.AT: equal.begins, at.KEYS: equal.keys, at.TABLE: equal.table})

    def _note(self, rounds: int) -> None:
        """Have room to note what was launched in so many rounds."""
        each = len(self.model.phases.steps)
        before, self.launched = getattr(self, "launched", ()), np.zeros(rounds * each, np.uint8)
        self.launched[: len(before)] = before
        self.point({at.LAUNCHED: self.launched})

    def _take(self, batch: Batch) -> None:
        """Take what all mini-batches of the same instances have in common."""
        growing = batch.growing
        self.point({at.DATA: growing.data, at.LISTS: growing.lists})
        self.number_kinds(growing.instances.schema.kinds)
        self._growing = growing

    def number_kinds(self, names: Sequence[str]) -> None:
        """Let kinds of vertices have the numbers of these names."""
        kinds = [names.index(k.name) if k.name in names else -1 for k in self.model.growth.kinds]
        groups = [[name in some for name in names] for some in self.model.program.kinds]
        self.words[at.KINDS_OF] = len(names)
        self.point({at.GROUPS: np.array(groups, np.uint8).ravel(), at.KINDS: np.array(kinds)})

    def columns_moved(self, batch: Batch) -> None:
        """The mini-batch's columns may have more room than before, elsewhere."""
        block = batch.columns.block
        if block is not self._block:
            self._block, self.words[at.STRIDE] = block, block.shape[1]
            self.point({at.BLOCK: block})

    def reserve(self, count: int) -> None:
        """Have room for so many entries in each register, which say nothing then."""
        if count + 2 > self.words[at.ENTRIES]:
            self.words[at.ENTRIES] = entries = max(LEAST_ROOM, 2 * count + 2)
            self.space = np.empty((self.model.program.registers + LOOKING) * entries, np.int32)
            self.point({at.SPACE: self.space})

    def register(self, number: int, count: int | None = None) -> Ints:
        """The entries of a register; of so many from now on."""
        if count is not None:
            self.sizes[number] = count
        begin = number * int(self.words[at.ENTRIES])
        return self.space[begin : begin + int(self.sizes[number])]

    def hold(self, count: int) -> None:
        """Have room for so many picks."""
        for word, kind in PICKS.items():
            longer = np.zeros(count, kind)
            if word in self.picks:
                longer[: len(self.picks[word])] = self.picks[word]
            self.picks[word] = longer
        self.point(self.picks)
        self.words[at.KEPT_END] = count

    def make_room(self) -> None:
        """Have room in registers, for picks, and for nodes, for a round that had none."""
        words, width = self.words, self.model.width
        now = int(words[at.NOW]) * width
        self.reserve(max(now, int(words[at.MEMBERS])))
        if (words[at.ROUND] + 2) * words[at.STEPS_EACH] > len(self.launched):
            self._note(2 * (int(words[at.ROUND]) + 2))
        if words[at.LOOKS]:
            self._reserve_nodes(int(words[at.NOW]), int(words[at.MEMBERS]))
        if words[at.BEAM] and words[at.KEPT_NEXT] + now > words[at.KEPT_END]:
            self.hold(2 * int(words[at.KEPT_END]) + now)

    def start(self) -> int:
        """Add the vertices of the first round; how many decide or are computed in it."""
        walk.do(self.words, walk.BEGIN)
        words = self.words
        return int(words[at.LAST] - words[at.FIRST] + words[at.GIVEN_LAST] - words[at.GIVEN_FIRST])


def _codes(steps: Ints) -> dict[int, int]:
    """Where the machine code of what steps need beside `walk` lies, compiled or loaded now."""
    done, hows = set(steps[:, 0].tolist()), set(steps[steps[:, 0] == walk.CHOOSE, choices.HOW].tolist())
    wanted: dict[int, tuple[Callable[[int], int], bool]] = {
        at.BY_LISTS: (lists, not done.isdisjoint((walk.REDUCE, *range(walk.LIST, walk.SPREAD + 1)))),
        at.BY_BEST: (choices.choose_best, choices.BEST in hows),
        at.BY_CHANCE: (choices.choose_by_chance, not hows.isdisjoint((choices.SAMPLE, choices.CHANCE))),
    }
    return {word: address_of_code(code) for word, (code, there) in wanted.items() if there}
