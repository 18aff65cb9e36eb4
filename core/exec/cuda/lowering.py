"""A network for the device: the steps of its types, its kernels' text, its weights' places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.exec.cuda.image import Work
from abw.core.exec.cuda.steps import CellSteps, Step, steps_of
from abw.core.exec.cuda.text.attention import attention_text
from abw.core.exec.cuda.text.gates import gate_text
from abw.core.exec.cuda.text.module import StepText, module_text
from abw.core.exec.cuda.text.rowwise import epilogue_text
from abw.core.exec.cuda.text.simple import Share, plain_text, reduction_text, single_text
from abw.core.exec.cuda.text.tensor import tensor_text
from abw.core.exec.cuda.tiles import ENDLESS, VECTOR, Forms, Sizes, TensorTile, Tile, tensor_tile, tiles_for
from abw.core.exec.lower.packing import PackedWeights, static_values
from abw.core.exec.lower.rows import padded, row_floats
from abw.core.exec.lower.stages import Single
from abw.core.exec.params import Params
from abw.core.ir.cell import Shape
from abw.core.ir.model import Attention, AttentionGradient, Reduction
from abw.core.ir.network import Network
from abw.core.plan.arenas import arenas_of

Floats = NDArray[np.float32]


class KernelChoice(NamedTuple):
    """A kernel for a step, by its text's number, right for up to `limit` lanes; the form of its tiles."""

    kernel: int
    lanes: int
    columns: int
    limit: int


@dataclass(frozen=True, slots=True)
class DeviceProgram:
    """All that a network's kernels are: `text` of their module, their `forms`, `weights` floats.

    `batch`, `plan`: for images of either scheme; they differ in kernels, tiles and their limits alone.
    `plan_shared`: bytes of shared memory of the plan's kernel. `cells[t]`: the steps of type t, None for a
    reduction. `places[t]`: the float where each step's weights begin.
    """

    text: str
    forms: Forms
    batch: Work
    plan: Work
    plan_shared: int
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


# The numbers of the kernels made so far: equal texts are one kernel.
Texts = dict[StepText, int]


def device_program(network: Network, forms: Forms) -> DeviceProgram:
    """Decide everything about a network's kernels and write them. Cost: milliseconds a type."""
    arenas = arenas_of(network)
    cells: list[CellSteps | None] = []
    for net_type, normal in zip(network.types, arenas.cells, strict=True):
        constant = frozenset(
            s for s, slot in enumerate(net_type.slots) if not slot.producers and not slot.reduction
        )
        cells.append(steps_of(normal, constant, forms.batch.packed) if normal else None)
    step_ptr = [0]
    steps_of_all: list[tuple[int, bool, int]] = []  # level, whether hoisted, where the weights begin
    places: list[tuple[int, ...]] = []
    early = np.zeros(arenas.slot_arena.shape, bool)
    collect = np.full(arenas.slot_arena.shape, -1, np.int32)
    weights = 0
    for t, (net_type, cell) in enumerate(zip(network.types, cells, strict=True)):
        own: list[int] = []
        for step in cell.steps if cell else ():
            own.append(weights)
            steps_of_all.append((step.level, step.hoisted, weights))
            weights += padded(step.floats, VECTOR)
        if cell is None:
            steps_of_all += [(0, False, 0)] * len(net_type.outputs)
        else:
            early[t, sorted(cell.early)] = True
        places.append(tuple(own))
        step_ptr.append(len(steps_of_all))
    for t, s in _collected(network):
        collect[t, s] = len(steps_of_all)
        steps_of_all.append((0, False, 0))
    level, hoisted, begins = np.array(steps_of_all, np.int64).reshape(-1, 3).T

    steps: Texts = {}
    parts: Texts = {}
    batch = Work(
        step_ptr=np.array(step_ptr, np.int32),
        level=level.astype(np.int32),
        hoisted=hoisted.astype(np.bool_),
        weights=np.ascontiguousarray(begins),
        collect=collect,
        depth=np.array([1 if cell is None else cell.depth for cell in cells], np.int32),
        scratch=np.array([0 if cell is None else cell.width for cell in cells], np.int64),
        sums=np.array([0 if cell is None else cell.sums for cell in cells], np.int64),
        early=early,
        pitch=np.array([row_floats(shape, VECTOR) for shape in arenas.shape], np.int64),
        **_tables(_all_choices(network, cells, forms.batch, steps)),
    )
    plan = replace(batch, **_tables(_all_choices(network, cells, forms.plan, parts)))
    shared = max((part.shared for part in parts), default=1)
    text = module_text(list(steps), list(parts))
    return DeviceProgram(text, forms, batch, plan, 4 * shared, tuple(cells), tuple(places), weights)


def _collected(network: Network) -> list[tuple[int, int]]:
    """(type, slot) of the lists that a step of their own reduces for a cell."""
    return [
        (t, s)
        for t, net_type in enumerate(network.types)
        for s, slot in enumerate(net_type.slots)
        if net_type.cell is not None and slot.reduction is not None
    ]


def _all_choices(
    network: Network, cells: Sequence[CellSteps | None], sizes: Sizes, texts: Texts
) -> list[tuple[KernelChoice, ...]]:
    """The kernels of all steps, those that reduce lists for cells last."""
    choices: list[tuple[KernelChoice, ...]] = []
    for net_type, cell in zip(network.types, cells, strict=True):
        if cell is not None:
            choices += [_choices(cell, step, sizes, texts) for step in cell.steps]
            continue
        assert net_type.reduction is not None
        if isinstance(net_type.reduction, Attention):
            shapes = [slot.shape for slot in net_type.slots]
            choices.append((_only(*attention_text(net_type.reduction, shapes, sizes.threads), texts),))
            continue
        if isinstance(net_type.reduction, AttentionGradient):
            raise AbwError(f"{net_type.name}: the backward pass of attention has no kernels for cuda")
        slots = len(net_type.slots)
        for s, slot in enumerate(net_type.slots):
            choices.append((_reduction(net_type.reduction, slot.shape, s, slots, sizes, texts),))
    for t, s in _collected(network):
        slot = network.types[t].slots[s]
        assert slot.reduction is not None
        choices.append((_reduction(slot.reduction, slot.shape, 0, 1, sizes, texts),))
    return choices


def _reduction(
    reduction: Reduction, shape: Shape, slot: int, slots: int, sizes: Sizes, texts: Texts
) -> KernelChoice:
    """The kernel of one slot's lists."""
    return _only(*reduction_text(reduction, shape, slot, slots, sizes.threads), texts)


def _only(text: str, share: Share, texts: Texts) -> KernelChoice:
    """The one kernel of a step, whatever the number of lanes."""
    return KernelChoice(texts.setdefault(StepText(text), len(texts)), share.lanes, share.columns, ENDLESS)


def _choices(cell: CellSteps, step: Step, sizes: Sizes, texts: Texts) -> tuple[KernelChoice, ...]:
    """The kernels of a step, for few lanes to many."""
    if step.weights is None:
        make = single_text if isinstance(step.stage, Single) else plain_text
        return (_only(*make(cell, step, sizes.threads), texts),)
    units, epilogue = padded(step.weights.rows, VECTOR), epilogue_text(cell, step)
    choices = []
    for tile, limit in _tiles(cell, step.weights, sizes):
        if isinstance(tile, TensorTile):
            text, shared = tensor_text(cell, step, tile)
        else:
            text, shared = gate_text(cell, step, sizes, tile)
        kernel = texts.setdefault(StepText(text, epilogue, shared), len(texts))
        choices.append(KernelChoice(kernel, tile.lanes, tile.columns(units), limit))
    return tuple(choices)


def _tiles(cell: CellSteps, weights: PackedWeights, sizes: Sizes) -> Sequence[tuple[Tile | TensorTile, int]]:
    """The tiles of a step with gates; the largest is one for tensor cores where they can compute it."""
    gates, segments = len(weights.group.gates), weights.group.segments
    longest = max(weights.depth(part) for part, _ in segments)
    tiles: list[tuple[Tile | TensorTile, int]] = [
        *tiles_for(sizes, gates, longest, padded(weights.rows, VECTOR))
    ]
    aligned = all(cell.column(part.value, part.start) % VECTOR == 0 for part, _ in segments)
    tensor = tensor_tile(sizes, gates, max(len(fed) for _, fed in segments)) if aligned else None
    if tensor is not None:
        tiles[-1] = tensor, ENDLESS
    return tiles


def _tables(choices: Sequence[tuple[KernelChoice, ...]]) -> dict[str, NDArray[Any]]:
    """The choices as fields of `Work`, (steps, most choices); the last one again where a step has fewer."""
    most = max((len(row) for row in choices), default=1)
    filled = [[*row, *[row[-1]] * (most - len(row))] for row in choices]
    *others, limit = np.array(filled, np.int64).reshape(len(choices), most, -1).transpose(2, 0, 1).copy()
    kernel, rows, columns = (field.astype(np.int32) for field in others)
    return {"kernel": kernel, "rows": rows, "columns": columns, "limit": limit}
