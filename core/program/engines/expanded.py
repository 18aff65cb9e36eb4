"""Granularity `op`: what was recorded as calls of cells runs as their operations, a node each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abw.core.graph.ops import OpNetwork
from abw.core.ir.network import Network
from abw.core.jit.decorators import njit
from abw.core.program.engines.engine import Engine
from abw.core.program.recording.recorder import Ints, Longs, Segment

# What each type becomes: see `templates_of`.
Template = tuple[Ints, Ints, Ints, Ints, Ints, Ints]


def templates_of(ops: OpNetwork) -> Template:
    """Type t has the steps `step_ptr[t]:step_ptr[t + 1]`, of types `step`; step j has the arguments
    `argument_ptr[j]:argument_ptr[j + 1]`: what an earlier step of the type makes, by its number from the
    first one, or slot s as `-1 - s`. Output o of type t is step `made[output_ptr[t] + o]`'s.
    """
    step_ptr, argument_ptr, output_ptr = [0], [0], [0]
    step: list[int] = []
    argument: list[int] = []
    made: list[int] = []
    for template in ops.templates:
        for node in template.steps:
            step.append(node.type)
            argument += [-1 - number if is_slot else number for is_slot, number in node.args]
            argument_ptr.append(len(argument))
        step_ptr.append(len(step))
        made += template.outputs
        output_ptr.append(len(made))
    parts = (step_ptr, step, argument_ptr, argument, output_ptr, made)
    return tuple(np.array(part, np.int32) for part in parts)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Lookups:
    """Table k has the references `-1 - first[k]` to `-end[k]`; nodes of `type[k]` read its rows. All (K,)."""

    first: Ints
    end: Ints
    type: Ints


def lookups_of(cells: Network, ops: OpNetwork) -> Lookups:
    """The types that read rows of tables."""
    found: dict[int, int] = {}
    for template in ops.templates:
        for of_slot in template.lookups:
            found |= of_slot
    first = [cells.constants[c].first for c in found]
    end = [cells.constants[c].first + cells.constants[c].rows for c in found]
    return Lookups(*(np.array(part, np.int32) for part in (first, end, [*found.values()])))


class OpEngine(Engine):
    """Executes the network of operations, but takes calls of cells and gives the values of these."""

    def __init__(self, cells: Network, ops: OpNetwork, *given: Any) -> None:  # noqa: ANN401 (as its base)
        self._cells = cells
        self._templates, self._lookups = templates_of(ops), lookups_of(cells, ops)
        self._slots = np.array([len(t.slots) for t in cells.types], np.int32)
        self._where = np.zeros(0, np.int32)
        super().__init__(ops.network, *given)

    def begin(self, base: int) -> None:
        """Begin a run: see `Engine.begin`."""
        super().begin(base)
        self._expanded = 0

    def advance(self, segment: Segment) -> None:
        """Compute the operations of the next nodes. Errors: TooLargeError."""
        super().advance(self._expand(segment))

    def _executed(self, references: Longs) -> Longs:
        return self._where[references].astype(np.int64)

    def _expand(self, segment: Segment) -> Segment:
        """The operations of a segment's cells, and the rows that they look up. Cost: linear in them."""
        step_ptr, _, argument_ptr, *_ = self._templates
        lookups = len(segment.operand) if len(self._lookups.type) else 0
        nodes = int(np.diff(step_ptr)[segment.type].sum()) + lookups
        arguments = int(np.diff(argument_ptr[step_ptr])[segment.type].sum()) + lookups
        type_of, instance, ptr, operand = (
            np.empty(n, np.int32) for n in (nodes, nodes, nodes + 1, arguments)
        )
        width = self._cells.width
        needed = (segment.first + len(segment)) * width
        if needed > len(self._where):
            self._where = np.append(self._where, np.zeros(2 * needed - len(self._where), np.int32))
        n, m = _expand(
            (segment.type, segment.instance, segment.operand_ptr, segment.operand),
            (segment.first, width, self._expanded),
            self._slots,
            self._templates,
            (self._lookups.first, self._lookups.end, self._lookups.type),
            self._where,
            np.empty(max(1, int(self._slots.max(initial=0))), np.int32),
            (type_of, instance, ptr, operand),
        )
        first, self._expanded = self._expanded, self._expanded + n
        return Segment(
            first, type_of[:n].copy(), instance[:n].copy(), ptr[: n + 1].copy(), operand[:m].copy()
        )


@njit
def _expand(
    segment: tuple[Ints, Ints, Ints, Ints],
    numbers: tuple[int, int, int],
    slots: Ints,
    templates: Template,
    lookups: tuple[Ints, Ints, Ints],
    where: Ints,
    fed: Ints,
    found: tuple[Ints, Ints, Ints, Ints],
) -> tuple[int, int]:
    """Write the nodes; how many they are, and their operands. A node has one output: its number is its
    value's reference. `fed` has room for a cell's inputs.
    """
    types, instances, ptr, references = segment
    begin, width, first = numbers
    step_ptr, step, argument_ptr, argument, output_ptr, made = templates
    type_of, instance, operand_ptr, operand = found
    table_first, table_end, table_type = lookups
    n, m = 0, 0
    operand_ptr[0] = 0
    for i in range(len(types)):
        t = types[i]
        for s in range(slots[t]):
            reference = references[ptr[i] + s]
            if reference >= 0:
                fed[s] = where[reference]
                continue
            fed[s] = reference
            for k in range(len(table_type)):
                if table_first[k] <= -1 - reference < table_end[k]:
                    type_of[n], instance[n], operand[m] = table_type[k], instances[i], reference
                    fed[s] = first + n
                    n, m = n + 1, m + 1
                    operand_ptr[n] = m
                    break
        own = first + n
        for j in range(step_ptr[t], step_ptr[t + 1]):
            type_of[n], instance[n] = step[j], instances[i]
            for a in range(argument_ptr[j], argument_ptr[j + 1]):
                operand[m] = fed[-1 - argument[a]] if argument[a] < 0 else own + argument[a]
                m += 1
            n += 1
            operand_ptr[n] = m
        for o in range(output_ptr[t + 1] - output_ptr[t]):
            where[(begin + i) * width + o] = own + made[output_ptr[t] + o]
    return n, m
