"""A checker of plans: plays a plan on arenas that hold the names of values instead of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import CheckError
from abw.core.cell.layout import BROADCAST, CONTIGUOUS, STRIDED
from abw.core.graph.graph import Graph
from abw.core.plan.kernels import GATHERED
from abw.core.plan.plan import Plan

Ints = NDArray[np.int32]

_NOTHING = np.iinfo(np.int64).min


def check_plan(graph: Graph, plan: Plan, keep: Ints | None = None) -> None:
    """Raise CheckError, with all that is wrong, unless a plan computes what its graph says.

    Plain NumPy, sharing nothing with the planner: each batch must find, in the rows it names, exactly the
    values that the graph says its nodes read; every node runs once, in a batch of its type; statuses,
    starts, strides and the reading of constants are true. Rows of earlier runs stay as they are. What the
    batches of a launch write is there when all of them have read, and goes to no row that one of them reads.
    In the end the values of the references `keep` (None: all) lie where `row` says, and it names no others.
    Within a section, no part of the schedule writes rows that another part reads or writes. Cost: about a
    millisecond for a hundred batches.
    """
    network, arenas, schedule = graph.network, plan.arenas, plan.schedule
    wrong: list[str] = []
    held = [np.full(int(rows), _NOTHING, np.int64) for rows in plan.rows]
    for c, constant in enumerate(network.constants):
        for a, memory in enumerate(held):
            begin = int(arenas.constant_row[a, c])
            if begin >= 0:
                references = -1 - (constant.first + np.arange(constant.rows))
                _write(memory, begin, references, f"constant {c}", wrong)
    for c, values in zip(network.given, graph.given, strict=bool(graph.given)):
        places = [(a, row) for a, row, item in plan.given if item is values]
        if len(places) != (arenas.field_arena[c] >= 0) or any(a != arenas.field_arena[c] for a, _ in places):
            wrong.append(f"constant {c}: the values of a field lie nowhere, or in another arena")
        for a, row in places:
            references = -1 - (network.constants[c].first + np.arange(len(values)))
            _write(held[a], row, references, f"constant {c}", wrong)
    earlier = plan.earlier
    if earlier is not None:
        own = len(graph) * network.width
        for i, (place, taken) in enumerate(zip(earlier.arena.tolist(), earlier.row.tolist(), strict=True)):
            if not arenas.head[place] <= taken < earlier.rows[place] or held[place][taken] != _NOTHING:
                wrong.append(f"earlier value {i} lies in no row of its own")
            held[place][taken] = own + i
        if (plan.rows < earlier.rows).any():
            wrong.append("fewer rows than the runs before have taken")
        written_to = arenas.output_arena[schedule.type]
        if ((written_to >= 0) & (plan.base < earlier.rows[written_to])).any():
            wrong.append("results overwrite what the runs before have left")
    seen = np.zeros(len(graph), np.int64)
    np.add.at(seen, schedule.nodes, 1)
    if earlier is not None and earlier.own is not None:
        node, output = np.divmod(np.arange(len(earlier.own)), network.width)
        lies_in = np.where(seen[node] == 0, arenas.output_arena[graph.dag.type[node], output], -1)
        seen[node] += seen[node] == 0
        for a, memory in enumerate(held):
            here = np.flatnonzero(lies_in == a)
            memory[earlier.own[here]] = here
    if (seen != 1).any():
        wrong.append(f"{int((seen != 1).sum())} nodes do not run exactly once")
    sections = plan.sections.tolist()
    if sections[0] != 0 or sections[-1] != len(plan.launch_ptr) - 1 or sections != sorted(sections):
        wrong.append("the sections are not all launches in order")
    parts = None if schedule.split is None else _Parts(plan, schedule.split)
    meetings = set(plan.launch_ptr[plan.sections].tolist())

    # of the launch at hand: what its batches write; the rows that they read
    written: list[tuple[int, int, np.ndarray, str]] = []
    busy: dict[int, list[np.ndarray]] = {}
    starts = set(plan.launch_ptr.tolist())
    for b, t in enumerate(schedule.type.tolist()):
        if b in starts:
            _end_launch(held, written, busy, wrong)
        if parts and b in meetings:
            parts.meet()
        nodes = schedule.nodes[schedule.ptr[b] : schedule.ptr[b + 1]]
        if ((nodes < graph.type_ptr[t]) | (nodes >= graph.type_ptr[t + 1])).any():
            wrong.append(f"batch {b} runs nodes of another type")
            continue
        begins = graph.operand_ptr[nodes]
        counts = graph.operand_ptr[nodes + 1] - begins
        slots = len(network.types[t].slots)
        if plan.operand_ptr[b + 1] - plan.operand_ptr[b] != slots:
            wrong.append(f"batch {b} has not one operand a slot")
            continue
        for s in range(slots):
            k = plan.operand_ptr[b] + s
            name = f"batch {b}, slot {s}"
            if network.types[t].cell is None:
                links = (counts // slots).tolist()
                pieces = [
                    graph.operand[p + s * n : p + (s + 1) * n] for p, n in zip(begins, links, strict=True)
                ]
            else:
                pieces = [np.array(graph.values_of(int(r))) for r in graph.operand[begins + s]]
            expected = np.concatenate(pieces)
            ends = np.cumsum([0, *map(len, pieces)])
            bounds = plan.lists[plan.list_ptr[k] : plan.list_ptr[k] + len(nodes) + 1]
            if (plan.list_ptr[k] >= 0) != (network.types[t].cell is None or len(expected) > len(nodes)):
                wrong.append(f"{name}: lists where there are none, or none where there are")
            elif plan.list_ptr[k] >= 0 and not np.array_equal(bounds, ends):
                wrong.append(f"{name}: its lists have the wrong ends")
            index = plan.index[plan.index_ptr[k] : plan.index_ptr[k + 1]]
            arena = int(arenas.slot_arena[t, s])
            memory = held[arena]
            if len(index) != len(expected):
                wrong.append(f"{name}: {len(index)} rows for {len(expected)} operands")
            elif ((index < 0) | (index >= len(memory))).any():
                wrong.append(f"{name}: a row outside the arena")
            elif (memory[index] != expected).any():
                early = bool((memory[index] == _NOTHING).any())
                wrong.append(f"{name}: reads {'a row not written yet' if early else 'other values'}")
            elif parts and parts.read(b, arena, index, np.diff(ends)):
                wrong.append(f"{name}: reads what another part writes in the same section")
            busy.setdefault(arena, []).append(index)
            wrong += _form(plan, int(k), index, name)
        for o in range(len(network.types[t].outputs)):
            arena, base = int(arenas.output_arena[t, o]), int(plan.base[b, o])
            names = nodes.astype(np.int64) * network.width + o
            name = f"batch {b}, output {o}"
            if parts and parts.write(b, arena, base):
                wrong.append(f"{name}: writes what another part reads or writes in the same section")
            written.append((arena, base, names, name))
    _end_launch(held, written, busy, wrong)
    _check_kept(graph, plan, keep, held, wrong)
    if wrong:
        raise CheckError("\n".join(wrong))


def _end_launch(
    held: list[np.ndarray],
    written: list[tuple[int, int, np.ndarray, str]],
    busy: dict[int, list[np.ndarray]],
    wrong: list[str],
) -> None:
    """Write what the batches of a launch have computed."""
    for arena, base, names, name in written:
        rows = np.arange(base, base + len(names))
        if any(np.isin(rows, others).any() for others in busy.setdefault(arena, [])):
            wrong.append(f"{name}: overwrites what its launch reads or writes itself")
        busy[arena].append(rows)
        _write(held[arena], base, names, name, wrong)
    written.clear()
    busy.clear()


def _write(memory: np.ndarray, begin: int, names: np.ndarray, what: str, wrong: list[str]) -> None:
    if begin < 0 or begin + len(names) > len(memory):
        wrong.append(f"{what}: rows outside the arena")
        return
    rows = memory[begin : begin + len(names)]
    if ((rows != _NOTHING) & (rows < 0)).any():
        wrong.append(f"{what}: overwrites a constant")
    rows[:] = names


def _check_kept(
    graph: Graph, plan: Plan, keep: Ints | None, held: list[np.ndarray], wrong: list[str]
) -> None:
    """The rows of what is kept hold it in the end."""
    width = graph.network.width
    type_of = np.repeat(np.arange(len(graph.network.types)), graph.type_sizes)
    values = np.arange(len(graph) * width)
    arena = plan.arenas.output_arena[type_of[values // width], values % width]
    there = arena >= 0
    kept = there if keep is None else there & np.isin(values, keep)
    if (plan.row[there & ~kept] >= 0).any():
        wrong.append("`row` names rows of values that are not kept")
    for value in values[kept].tolist():
        memory, row = held[arena[value]], int(plan.row[value])
        if not 0 <= row < len(memory) or memory[row] != value:
            wrong.append(f"value {value} is not kept where `row` says")


class _Parts:
    """Which part has read and written which rows since the parts met."""

    def __init__(self, plan: Plan, split: Ints) -> None:
        self.split = split
        self.readers = [np.full(int(rows), -1) for rows in plan.rows]
        self.writers = [np.full(int(rows), -1) for rows in plan.rows]

    def meet(self) -> None:
        for rows in (*self.readers, *self.writers):
            rows[:] = -1

    def read(self, b: int, arena: int, index: np.ndarray, links: np.ndarray) -> bool:
        """Note that the lanes of a batch read these rows; whether that is wrong."""
        part = np.repeat(self._part(b), links)
        readers, writers = self.readers[arena], self.writers[arena]
        foreign = (writers[index] >= 0) & (writers[index] != part)
        # -2: several
        other = (readers[index] != -1) & (readers[index] != part)
        readers[index] = part
        readers[index[other]] = -2
        return bool(foreign.any())

    def write(self, b: int, arena: int, base: int) -> bool:
        """Note that the lanes of a batch write rows from `base` on; whether that is wrong."""
        part = self._part(b)
        rows = slice(max(base, 0), max(base, 0) + len(part))
        found = False
        for touched in (self.readers[arena][rows], self.writers[arena][rows]):
            found |= bool(((touched != -1) & (touched != part[: len(touched)])).any())
        written = self.writers[arena][rows]
        written[:] = part[: len(written)]
        return found

    def _part(self, b: int) -> np.ndarray:
        return np.repeat(np.arange(self.split.shape[1] - 1), np.diff(self.split[b]))


def _form(plan: Plan, k: int, index: np.ndarray, name: str) -> list[str]:
    status, start, stride = int(plan.status[k]), int(plan.start[k]), int(plan.stride[k])
    steps = set(np.diff(index).tolist())
    if status == GATHERED:
        return [f"{name}: said to be gathered, but evenly spaced"] if len(steps) <= 1 else []
    expected = {CONTIGUOUS: stride == 1, BROADCAST: stride == 0, STRIDED: stride not in (0, 1)}
    if not expected.get(status, False):
        return [f"{name}: stride {stride} under status {status}"]
    if (index != start + stride * np.arange(len(index))).any():
        return [f"{name}: its rows are not where start and stride say"]
    return []
