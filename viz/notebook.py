"""How runs, models, policies, cells, PQ-trees and layouts show themselves in a notebook.

`abw` registers these where it is imported inside IPython; the things themselves know nothing of pictures.
Small ones are drawn, large ones told in a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from abw.core.graph.graph import Graph
from abw.core.ir.cell import Cell
from abw.core.ir.model import Model
from abw.core.plan.plan import Plan
from abw.core.policy.learned.fsm import FsmPolicy
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Schedule
from abw.core.store.runs import StoredRun
from abw.pqtree.layouts.layout import Layout, name_of
from abw.pqtree.tree import PQTree
from abw.viz.data.fsm import policy_alone
from abw.viz.data.memory import memory_picture
from abw.viz.data.model import model_picture
from abw.viz.data.pictures import CellBatchView, OperandView, Ordering, TreePicture, Variable
from abw.viz.data.rounds import rounds_picture
from abw.viz.data.scene import Scene, parts_of, scene_of_run
from abw.viz.data.steps import batches_picture, graph_picture
from abw.viz.drawing.draw import as_svg
from abw.viz.drawing.memory import ordering_svg
from abw.viz.drawing.svg import Svg, document, stacked

# The most states of a policy, batches of a run, variables of a cell, tree or layout that are drawn.
STATES, BATCHES, VARIABLES = 60, 3_000, 80
# The most nodes of a graph, rounds of a run, and instances with what was decided there that are drawn.
NODES, ROUNDS, INSTANCES = 150, 100, 4


def _shown(said: str, *drawn: Svg | None) -> str:
    pictures = [one for one in drawn if one]
    picture = document(stacked(pictures)) if pictures else ""
    return f"<div><p>{escape(said)}</p>{picture}</div>"


def show_run(run: StoredRun) -> str:
    """A run: its numbers, its schedule beside others', and the rounds in which it has grown."""
    report = run.report
    bound = "not known" if report["lower_bound"] is None else report["lower_bound"]
    said = (
        f"run {run.number}: {report['model']}, {report['instances']} instances, {report['nodes']} nodes, "
        f"{report['batches']} batches by {report['policy']} (lower bound {bound})"
    )
    if report["batches"] > BATCHES * max(1, report["mini_batches"]):
        return _shown(said)
    scene = scene_of_run(run)
    few = scene.growth is not None and scene.growth.rounds <= ROUNDS
    rounds = as_svg(rounds_picture(scene, INSTANCES)) if few else None
    return _shown(said, as_svg(batches_picture(scene)), rounds)


def show_graph(graph: Graph) -> str:
    """A mini-batch's dataflow graph, its nodes in the colours of their types."""
    scene = _scene(graph, {})
    return _shown(repr(graph), as_svg(graph_picture(scene)) if len(graph) <= NODES else None)


def show_plan(plan: Plan) -> str:
    """A plan's batches in their order."""
    scene = _scene(plan.graph, {"plan": plan.schedule})
    return _shown(repr(plan), as_svg(batches_picture(scene)) if len(plan.schedule) <= BATCHES else None)


def _scene(graph: Graph, schedules: Mapping[str, Schedule]) -> Scene:
    shown = schedules or {"depth": get_policy("depth").schedule(graph.dag)}
    name = graph.network.name
    return Scene(
        title="", model=name, number=0, mini_batches=1, schedules=shown, learned=None, **parts_of(graph)
    )


def show_policy(policy: FsmPolicy) -> str:
    """A learned policy as a state machine."""
    states, training = len(policy.states), policy.training
    said = (
        f"FSM policy over {', '.join(policy.types)}: {states} states, encoding {policy.encoding}; "
        f"{training.batches} batches on its training data (lower bound {training.lower_bound})"
    )
    return _shown(said, as_svg(policy_alone(policy)) if states <= STATES else None)


def show_model(model: Model) -> str:
    """A model: its types, parameters, links."""
    picture = model_picture(model)
    said = f"model {model.name}: {len(model.types)} types, {picture.numbers:,} numbers"
    return _shown(said, as_svg(picture) if len(picture.blocks) <= VARIABLES else None)


def show_cell(cell: Cell) -> str:
    """A cell: its memory before and after planning."""
    inputs = ", ".join(port.name for port in cell.inputs)
    outputs = ", ".join(name for name, _ in cell.outputs)
    said = f"cell {cell.name}: {inputs} to {outputs}, {len(cell.ops)} operations"
    return _shown(said, as_svg(memory_picture(cell)) if len(cell.ops) <= VARIABLES else None)


def show_tree(tree: PQTree) -> str:
    """A PQ-tree."""
    said = f"PQ-tree of {tree.n} leaves"
    if not 0 < tree.n <= VARIABLES:
        return _shown(said)
    names = tuple(map(str, range(tree.n)))
    return _shown(f"{said}: {tree.count()} orders", as_svg(TreePicture("", tree.to_text(), names)))


def show_layout(layout: Layout) -> str:
    """A layout: the variables in order, and what becomes of every operand."""
    said = (
        f"layout of {len(layout.order)} variables: {layout.copy_free_operands} operands without copies, "
        f"{layout.kernels} memory kernels that move {layout.bytes_moved} bytes"
    )
    small = len(layout.order) <= VARIABLES
    return _shown(said, ordering_svg("layout", _ordering(layout)) if small else None)


def _ordering(layout: Layout) -> Ordering:
    """A layout as an order of variables x0, x1, ..."""
    batches = tuple(
        CellBatchView(
            f"B{b}",
            tuple(
                OperandView(
                    name_of(o.key).partition("'s ")[2],
                    tuple(f"x{o.variables[lane]}" for lane in layout.lanes[b]),
                    str(o.status),
                )
                for o in operands
                if len(o.variables) == len(layout.lanes[b])
            ),
        )
        for b, operands in enumerate(layout.operands)
    )
    variables = tuple(Variable(f"x{v}", f"x{v}", 0, staged=False) for v in layout.order)
    return Ordering(variables, batches, layout.kernels, layout.bytes_moved // 4)


SHOWN: dict[type[Any], Callable[[Any], str]] = {
    StoredRun: show_run,
    Model: show_model,
    Graph: show_graph,
    Plan: show_plan,
    FsmPolicy: show_policy,
    Cell: show_cell,
    PQTree: show_tree,
    Layout: show_layout,
}
