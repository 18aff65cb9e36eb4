"""A network for the device: the steps of its types, its kernels' text, its weights' places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cuda.gates import finish_text, gate_text
from abw.core.exec.cuda.image import Work
from abw.core.exec.cuda.module import StepText, module_text
from abw.core.exec.cuda.simple import plain_text, reduction_text, single_text
from abw.core.exec.cuda.steps import CellSteps, Step, steps_of
from abw.core.exec.cuda.tiles import ENDLESS, VECTOR, Sizes, tiles_for
from abw.core.exec.kernels import static_values
from abw.core.exec.params import Params
from abw.core.exec.rows import padded, row_floats
from abw.core.exec.stages import Single
from abw.core.graph.network import Network
from abw.core.plan.arenas import arenas_of
from abw.core.spec.cell import Shape
from abw.core.spec.model import Reduction

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel for a step, by its text's number, right for up to `limit` lanes; the form of its tiles."""

    kernel: int
    lanes: int
    columns: int
    limit: int


@dataclass(frozen=True, slots=True)
class DeviceProgram:
    """All that a network's kernels are: `text` of their module, `work` for images, `weights` floats.

    `cells[t]`: the steps of type t, None for a reduction. `places[t]`: the float where each step's weights
    begin.
    """

    text: str
    work: Work
    cells: tuple[CellSteps | None, ...]
    places: tuple[tuple[int, ...], ...]
    weights: int

    def pack_weights(self, network: Network, params: Params) -> Floats:
        """The weights of all types, as the kernels read them."""
        memory = np.zeros(self.weights + VECTOR, np.float32)
        for net_type, cell, places in zip(network.types, self.cells, self.places, strict=True):
            if cell is not None:
                static = static_values(cell.normal, [params.values[i] for i in net_type.params])
                for step, place in zip(cell.steps, places, strict=True):
                    step.write(memory[place : place + step.floats], static)
        return memory


class _Texts:
    """The kernels made so far: equal texts are one kernel."""

    def __init__(self) -> None:
        self.number: dict[StepText, int] = {}

    def add(self, text: StepText) -> int:
        return self.number.setdefault(text, len(self.number))


def device_program(network: Network, sizes: Sizes) -> DeviceProgram:
    """Decide everything about a network's kernels and write them. Cost: milliseconds a type."""
    arenas = arenas_of(network)
    texts = _Texts()
    step_ptr = [0]
    levels: list[int] = []
    hoisted: list[bool] = []
    begins: list[int] = []
    choices: list[tuple[Choice, ...]] = []
    cells: list[CellSteps | None] = []
    places: list[tuple[int, ...]] = []
    early = np.zeros(arenas.slot_arena.shape, bool)
    collect = np.full(arenas.slot_arena.shape, -1, np.int32)
    weights = 0
    for t, (net_type, program) in enumerate(zip(network.types, arenas.programs, strict=True)):
        if program is None:
            cells.append(None)
            places.append(())
            assert net_type.reduction is not None
            for s, slot in enumerate(net_type.slots):
                slots = len(net_type.slots)
                choices.append((_reduction(net_type.reduction, slot.shape, s, slots, sizes, texts),))
            levels += [0] * len(net_type.slots)
            hoisted += [False] * len(net_type.slots)
            begins += [0] * len(net_type.slots)
        else:
            constant = frozenset(
                s for s, slot in enumerate(net_type.slots) if not slot.producers and not slot.reduction
            )
            cell = steps_of(program.normal, constant, sizes.packed)
            early[t, sorted(cell.early)] = True
            own = []
            for step in cell.steps:
                own.append(weights)
                weights += padded(step.floats, VECTOR)
                levels.append(step.level)
                hoisted.append(step.hoisted)
                choices.append(_choices(cell, step, sizes, texts))
            begins += own
            cells.append(cell)
            places.append(tuple(own))
        step_ptr.append(len(levels))
    for t, net_type in enumerate(network.types):
        for s, slot in enumerate(net_type.slots):
            if net_type.cell is not None and slot.reduction is not None:
                collect[t, s] = len(levels)
                choices.append((_reduction(slot.reduction, slot.shape, 0, 1, sizes, texts),))
                levels.append(0)
                hoisted.append(False)
                begins.append(0)
    work = Work(
        step_ptr=np.array(step_ptr, np.int32),
        level=np.array(levels, np.int32),
        hoisted=np.array(hoisted, np.bool_),
        weights=np.array(begins, np.int64),
        kernel=_table(choices, "kernel").astype(np.int32),
        rows=_table(choices, "lanes").astype(np.int32),
        columns=_table(choices, "columns").astype(np.int32),
        limit=_table(choices, "limit"),
        collect=collect,
        depth=np.array([1 if cell is None else cell.depth for cell in cells], np.int32),
        scratch=np.array([0 if cell is None else cell.scratch for cell in cells], np.int64),
        sums=np.array([0 if cell is None else cell.sums for cell in cells], np.int64),
        early=early,
        pitch=np.array([row_floats(shape, VECTOR) for shape in arenas.shape], np.int64),
    )
    text = module_text(list(texts.number))
    return DeviceProgram(text, work, tuple(cells), tuple(places), weights)


def _reduction(
    reduction: Reduction, shape: Shape, slot: int, slots: int, sizes: Sizes, texts: _Texts
) -> Choice:
    """The kernel of one slot's lists."""
    text, share = reduction_text(reduction, shape, slot, slots, sizes.threads)
    return Choice(texts.add(StepText(text)), share.lanes, share.columns, ENDLESS)


def _choices(cell: CellSteps, step: Step, sizes: Sizes, texts: _Texts) -> tuple[Choice, ...]:
    """The kernels of a step."""
    if step.weights is None:
        make = single_text if isinstance(step.stage, Single) else plain_text
        text, share = make(cell, step, sizes.threads)
        return (Choice(texts.add(StepText(text)), share.lanes, share.columns, ENDLESS),)
    longest = max(segment.length for segment in step.weights.segments)
    units = padded(step.weights.units, VECTOR)
    finish = finish_text(cell, step)
    found = []
    for tile, limit in tiles_for(sizes, len(step.weights.gates), longest, units):
        text, shared = gate_text(cell, step, sizes, tile)
        kernel = texts.add(StepText(text, finish, shared))
        found.append(Choice(kernel, tile.lanes, tile.columns(units), limit))
    return tuple(found)


def _table(choices: Sequence[tuple[Choice, ...]], field: str) -> NDArray[np.int64]:
    """A field of the choices, (steps, most choices); the last one's again where a step has fewer."""
    most = max((len(row) for row in choices), default=1)
    filled = [[getattr(c, field) for c in (*row, *[row[-1]] * (most - len(row)))] for row in choices]
    return np.array(filled, np.int64).reshape(len(choices), most)
