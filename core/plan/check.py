"""A checker of plans: plays a plan on arenas that hold the names of values instead of numbers."""

from __future__ import annotations

import numpy as np

from abw.core.cell.layout import BROADCAST, CONTIGUOUS, STRIDED
from abw.core.errors import CheckError
from abw.core.graph.graph import Graph
from abw.core.plan.kernels import GATHERED
from abw.core.plan.plan import Plan

_NOTHING = np.iinfo(np.int64).min


def check_plan(graph: Graph, plan: Plan) -> None:
    """Raise CheckError, with all that is wrong, unless a plan computes what its graph says.

    Plain NumPy, sharing nothing with the planner: each batch must find, in the rows it names, exactly the
    values that the graph says its nodes read, and write into rows that hold nothing yet; every node runs
    once, in a batch of its type; statuses, starts, strides and the reading of constants are true. What the
    batches of a launch write is there when all of them have read.
    Cost: about a millisecond for a hundred batches.
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
    seen = np.zeros(len(graph), np.int64)
    np.add.at(seen, schedule.nodes, 1)
    if (seen != 1).any():
        wrong.append(f"{int((seen != 1).sum())} nodes do not run exactly once")

    written: list[tuple[int, int, np.ndarray, str]] = []
    starts = set(plan.launch_ptr.tolist())
    for b, t in enumerate(schedule.type.tolist()):
        if b in starts:
            for arena, base, names, name in written:
                _write(held[arena], base, names, name, wrong)
            written.clear()
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
            if (plan.list_ptr[k] >= 0) != (len(expected) > len(nodes)):
                wrong.append(f"{name}: lists where there are none, or none where there are")
            elif plan.list_ptr[k] >= 0 and not np.array_equal(bounds, ends):
                wrong.append(f"{name}: its lists have the wrong ends")
            index = plan.index[plan.index_ptr[k] : plan.index_ptr[k + 1]]
            memory = held[arenas.slot_arena[t, s]]
            if len(index) != len(expected):
                wrong.append(f"{name}: {len(index)} rows for {len(expected)} operands")
            elif ((index < 0) | (index >= len(memory))).any():
                wrong.append(f"{name}: a row outside the arena")
            elif (memory[index] != expected).any():
                early = bool((memory[index] == _NOTHING).any())
                wrong.append(f"{name}: reads {'a row not written yet' if early else 'other values'}")
            wrong += _form(plan, int(k), index, name)
        for o in range(len(network.types[t].outputs)):
            base = int(plan.base[b, o])
            names = nodes.astype(np.int64) * network.width + o
            written.append((int(arenas.output_arena[t, o]), base, names, f"batch {b}, output {o}"))
            if (plan.row[names] != base + np.arange(len(nodes))).any():
                wrong.append(f"batch {b}, output {o}: `row` says otherwise than `base`")
    for arena, base, names, name in written:
        _write(held[arena], base, names, name, wrong)
    if wrong:
        raise CheckError("\n".join(wrong))


def _write(memory: np.ndarray, begin: int, names: np.ndarray, what: str, wrong: list[str]) -> None:
    if begin < 0 or begin + len(names) > len(memory):
        wrong.append(f"{what}: rows outside the arena")
        return
    rows = memory[begin : begin + len(names)]
    if (rows != _NOTHING).any():
        wrong.append(f"{what}: overwrites other values")
    rows[:] = names


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
