"""The report of `abw layout`: a cell's variables in memory, and what their order saves."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from abw.core.cell.arrange import solve
from abw.core.cell.batches import batch_operations
from abw.core.cell.layout import COPIED, PACKED, STATUS_NAMES
from abw.core.cell.names import value_names
from abw.core.cell.normal import normalise, size_of
from abw.core.cell.program import Operand, cell_program
from abw.core.exec.blas.calls import CellKernel
from abw.core.ir.cell import Cell
from abw.core.ir.network import LayoutName
from abw.core.run.workload import open_model, open_networks
from abw.core.spec.cells.subgraph import Subgraph, is_subgraph, load_subgraph
from abw.core.spec.load import Overrides, is_cell, load_cell
from abw.pqtree import (
    Layout,
    OperandLayout,
    PQTree,
    Status,
    declared_layout,
    paper_layout,
    plan_layout,
    tree_svg,
)

Item = Cell | Subgraph
BESIDE: tuple[LayoutName, ...] = ("declared", "planned")
# Runs whose median is a latency.
RUNS = 200


# Memory kernels and the bytes that they write, at each run of a mini-batch.
Moved = dict[str, int]


def moved(kernels: int, bytes: int) -> Moved:
    """Both counts by name."""
    return {"kernels": kernels, "bytes": bytes}


def open_items(path: Path, overrides: Overrides) -> list[Item]:
    """The cell or list of batches in a file, or all cells of a model. Errors: SpecError, AbwError."""
    if is_subgraph(path):
        return [load_subgraph(path)]
    if is_cell(path):
        return [load_cell(path, overrides.dims)]
    network = open_networks(open_model(path, overrides), "cell").cells
    return list(dict.fromkeys(t.cell for t in network.types if t.cell is not None))


def files_read(path: Path, overrides: Overrides) -> tuple[Path, ...]:
    """List the files that `open_items` reads. Errors: SpecError, AbwError."""
    return (path,) if is_subgraph(path) or is_cell(path) else open_model(path, overrides).reads


def layout_report(item: Item, batch: int, how: LayoutName) -> dict[str, Any]:
    """The document of `abw layout --json` for one cell or list of batches; bytes are those of `batch` lanes.

    Cost: that of planning, some milliseconds for a cell.
    """
    report = _of_cell(item, batch, how) if isinstance(item, Cell) else _of_subgraph(item, batch, how)
    return {"name": item.name, "layout": how, "batch": batch, **report}


def _of_cell(cell: Cell, batch: int, how: LayoutName) -> dict[str, Any]:
    normal = normalise(cell)
    batches = batch_operations(normal)
    begin = time.thread_time()
    solved = solve(normal, batches, how)
    planning = time.thread_time() - begin
    program, declared = cell_program(cell, how), cell_program(cell, "declared")
    names = value_names(program.cell)
    bytes_of = [4 * size_of(program.cell.shape_of(v)) for v in range(len(names))]
    inside = sorted((v for v, p in enumerate(program.position) if p >= 0), key=lambda v: program.position[v])
    # the planner's reasons, by the operand they are given for
    reasons = {
        (b, k): operand.reason
        for b, (asked, laid) in enumerate(zip(solved.operands, solved.layout.operands, strict=True))
        for k, operand in zip(asked, laid, strict=True)
    }

    def view(b: int, k: int, operand: Operand) -> dict[str, Any]:
        times = 1 if operand.status == PACKED else batch
        reason = reasons.get((b, k), "reads parts of variables") if operand.status == COPIED else ""
        return _operand(
            k,
            [names[v] for v in operand.values],
            STATUS_NAMES[operand.status],
            STATUS_NAMES[declared.batches[b].operands[k].status],
            times * sum(bytes_of[v] for v in operand.values),
            _named(reason, names, solved.variables),
        )

    said: list[dict[str, Any]] = [
        {"op": made.op, "operands": [view(b, k, operand) for k, operand in enumerate(made.operands)]}
        for b, made in enumerate(program.batches)
    ]
    copied = [i for i, staged in enumerate(program.staged) if staged]
    return {
        "kind": "cell",
        "order": [names[v] for v in inside],
        "inputs_copied": [names[i] for i in copied],
        "tree": _tree_text(solved.layout.tree, [names[v] for v in solved.variables]),
        "batches": said,
        "before": moved(declared.copies, 4 * batch * declared.copied_floats),
        "after": moved(program.copies, 4 * batch * program.copied_floats),
        "inputs": moved(len(copied), batch * sum(bytes_of[i] for i in copied)),
        "packed_bytes": sum(o["bytes"] for b in said for o in b["operands"] if o["status"] == "packed"),
        "gap_bytes": solved.layout.gap,
        "planning_ms": 1e3 * planning,
    }


def _operand(
    number: int, variables: list[str], status: str, declared: str, bytes: int, reason: str
) -> dict[str, Any]:
    """Operand `number` of a batch, 0 for its result: its variables by name, lane by lane."""
    return {
        "role": f"source {number}" if number else "result",
        "variables": variables,
        "status": status,
        "declared": declared,
        "bytes": bytes,
        "reason": reason,
    }


def _of_subgraph(graph: Subgraph, batch: int, how: LayoutName) -> dict[str, Any]:
    begin = time.thread_time()
    layout = plan_subgraph(graph, batch, how)
    planning = time.thread_time() - begin
    before = plan_subgraph(graph, batch, "declared")
    said = [
        {
            "op": op,
            "operands": [
                _operand(
                    o.key[1],
                    [graph.names[operand[lane]] for lane in lanes],
                    _status(o),
                    _status(before.operands[o.key[0]][o.key[1]]),
                    sum(graph.floats[v] * (4 if v in graph.params else 4 * batch) for v in operand),
                    _named(o.reason, graph.names, range(len(graph.names))),
                )
                for o, operand in zip(operands, written, strict=True)
            ],
        }
        for op, operands, written, lanes in zip(
            graph.ops, layout.operands, graph.batches, layout.lanes, strict=True
        )
    ]
    return {
        "kind": "batches",
        "order": [graph.names[v] for v in layout.order],
        "inputs_copied": [],
        "tree": _tree_text(layout.tree, graph.names),
        "batches": said,
        "before": moved(before.kernels, before.bytes_moved),
        "after": moved(layout.kernels, layout.bytes_moved),
        "inputs": moved(0, 0),
        "packed_bytes": layout.bytes_packed,
        "gap_bytes": layout.gap,
        "planning_ms": 1e3 * planning,
    }


def _status(operand: OperandLayout) -> str:
    return "packed" if operand.packed else operand.status.value


def plan_subgraph(graph: Subgraph, batch: int, how: LayoutName) -> Layout:
    """Lay out a list of batches for a mini-batch; parameters are packed once, inputs lie where it is best."""
    sizes = [4 * n * (1 if v in graph.params else batch) for v, n in enumerate(graph.floats)]
    arenas = ["weights" if v in graph.params else "lanes" for v in range(len(sizes))]
    if how == "paper":
        return paper_layout(sizes, graph.batches, arenas=arenas, constant={"weights"})
    if how == "declared":
        order = arrival_order(graph)
        return declared_layout(sizes, graph.batches, order, arenas=arenas, constant={"weights"})
    return plan_layout(sizes, graph.batches, arenas=arenas, constant={"weights"})


def arrival_order(graph: Subgraph) -> list[int]:
    """Results batch after batch, then what comes from outside, each as it is met: DyNet's allocation."""
    results = dict.fromkeys(v for batch in graph.batches for v in batch[0])
    return list(results) + [v for v in range(len(graph.names)) if v not in results]


def _named(reason: str, names: Sequence[str], variables: Sequence[int]) -> str:
    """A planner's reason with names in place of variables' numbers."""
    return re.sub(r"variable (\d+)", lambda match: names[variables[int(match[1])]], reason)


def _tree_text(tree: str, names: Sequence[str]) -> str:
    return re.sub(r"\d+", lambda match: names[int(match[0])], tree)


def picture(item: Item, batch: int, how: LayoutName) -> str:
    """The PQ-tree of the operands that need no copy, as SVG."""
    if isinstance(item, Subgraph):
        tree, names = plan_subgraph(item, batch, how).tree, list(item.names)
    else:
        normal = normalise(item)
        solved = solve(normal, batch_operations(normal), how)
        every = value_names(normal.cell)
        tree, names = solved.layout.tree, [every[v] for v in solved.variables]
    return tree_svg(PQTree.from_text(tree or "(" + " ".join(map(str, range(len(names)))) + ")"), names)


def as_subgraph(cell: Cell) -> Subgraph:
    """A cell's batches as a bare list, in which a part of a variable is the variable."""
    normal = normalise(cell)
    batches = batch_operations(normal)
    rows = [
        tuple(
            tuple(normal.root[v] for v in operand)
            for operand in (lanes, *zip(*(normal.arguments(v) for v in lanes), strict=True))
        )
        for lanes in batches
    ]
    count = len(normal.static)
    return Subgraph(
        cell.name,
        value_names(normal.cell),
        tuple(size_of(normal.cell.shape_of(v)) for v in range(count)),
        frozenset(range(len(cell.inputs))),
        frozenset(v for v in range(count) if normal.static[v]),
        tuple(rows),
        tuple(normal.op(lanes[0]).name for lanes in batches),
    )


def paper_counts(graph: Subgraph, batch: int) -> tuple[Moved, Moved, Moved]:
    """Memory kernels and bytes by the paper's way of counting, and the first of them honestly.

    Before, as Table 2 counts: with DyNet's allocation an operand is copied unless it is contiguous; weights
    always, and once for every lane of the mini-batch. Before, honestly: weights once. After: weights are
    packed when the subgraph is compiled, and an operand is copied if it repeats a variable or reads an input:
    this rule gives all seven right columns of Table 2 for its own batches.
    """
    layout = plan_subgraph(graph, batch, "declared")
    before = honest = after = kernels_before = kernels_after = 0
    for batch_operands, laid in zip(graph.batches, layout.operands, strict=True):
        for operand, found in zip(batch_operands, laid, strict=True):
            if len(operand) < 2:
                continue
            floats = 4 * sum(graph.floats[v] for v in operand)
            fixed = graph.params.issuperset(operand)
            outside = len(set(operand)) < len(operand) or not graph.inputs.isdisjoint(operand)
            if fixed or outside or found.status is Status.COPIED:
                kernels_before += 1
                before += batch * floats
                honest += floats if fixed else batch * floats
            if outside and not fixed:
                kernels_after += 1
                after += batch * floats
    return moved(kernels_before, before), moved(kernels_before, honest), moved(kernels_after, after)


def cell_latencies(cell: Cell, batch: int) -> dict[LayoutName, float]:
    """Seconds of this thread for a mini-batch in the executor blas, by layout; medians of interleaved runs.

    Weights are packed beforehand in all of them; inputs are copied where the layout wants them.
    """
    rng = np.random.default_rng(0)
    params = [rng.standard_normal(p.shape, np.float32) / np.float32(8) for p in cell.params]
    values = [rng.standard_normal((batch, *p.shape), np.float32) for p in cell.inputs]
    outputs = [np.empty((batch, *p.shape), np.float32) for p in cell.output_ports]
    kernels = {how: CellKernel(cell_program(cell, how), params) for how in BESIDE}
    taken: dict[LayoutName, list[float]] = {how: [] for how in BESIDE}
    for kernel in kernels.values():
        kernel.bind(np.zeros(kernel.width * batch, np.float32), batch)
    for _ in range(RUNS):
        for how, kernel in kernels.items():
            begin = time.thread_time()
            inputs = list(values)
            for i, staged in enumerate(kernel.program.staged):
                if staged:
                    inputs[i] = kernel.inputs[i][:batch]
                    np.copyto(inputs[i], values[i])
            kernel.run(batch, inputs, outputs)
            taken[how].append(time.thread_time() - begin)
    return {how: median(times) for how, times in taken.items()}


def table_row(item: Item, batch: int) -> dict[str, Any]:
    """One row of Tables 2 and 5, ours beside the paper's. Cost: a second for a cell, which is timed."""
    name = PAPER_NAMES.get(item.name, item.name)
    graph = as_subgraph(item) if isinstance(item, Cell) else item
    before, honest, after = paper_counts(graph, batch)
    report = layout_report(item, batch, "planned")
    planning = median(layout_report(item, batch, "planned")["planning_ms"] for _ in range(9))
    row: dict[str, Any] = {
        "name": item.name,
        "paper_name": name if name in PAPER else None,
        "before": honest,
        "after": report["after"],
        "inputs": report["inputs"],
        "packed_bytes": report["packed_bytes"],
        "by_the_papers_rule": {"before": before, "after": after},
        "planning_ms": planning,
        "paper": PAPER.get(name),
    }
    if isinstance(item, Cell):
        row["latency_us"] = {how: 1e6 * t for how, t in cell_latencies(item, batch).items()}
    return row


# The paper's names of cells that ship.
PAPER_NAMES: Mapping[str, str] = {
    "gru": "GRUCell", "lstm": "LSTMCell", "mv": "MVCell", "treegru": "TreeGRU-Internal",
    "treegru-leaf": "TreeGRU-Leaf", "treelstm": "TreeLSTM-Internal", "treelstm-leaf": "TreeLSTM-Leaf",
}  # fmt: skip
# Tables 2 and 5 of ED-Batch: batch 8, size 64; DyNet's allocation / the PQ-tree's. kB are 1,024 bytes.
PAPER_COLUMNS = ("latency_ms", "kernels", "kilobytes", "planning_ms")
PAPER: Mapping[str, dict[str, Any]] = {
    name: dict(zip(PAPER_COLUMNS, row, strict=True))
    for name, row in {
        "GRUCell": ([0.11, 0.07], [6.0, 2.0], [666.0, 14.0], 4.82),
        "LSTMCell": ([0.2, 0.13], [4.0, 1.0], [1054.0, 16.0], 12.95),
        "MVCell": ([0.08, 0.08], [2.0, 2.0], [260.0, 260.0], 1.53),
        "TreeGRU-Internal": ([0.24, 0.15], [8.0, 2.0], [552.0, 16.0], 10.43),
        "TreeGRU-Leaf": ([0.09, 0.07], [4.0, 2.0], [268.0, 8.0], 2.91),
        "TreeLSTM-Internal": ([0.19, 0.12], [7.0, 3.0], [1064.0, 22.0], 29.89),
        "TreeLSTM-Leaf": ([0.12, 0.09], [3.0, 1.0], [396.0, 6.0], 3.64),
    }.items()
}
