"""ED-Batch's own planner (Algorithm 2), as a baseline: a batch that does not fit is dropped whole.

As printed, except that lane orders are decided by the union-find of `align.py` instead of Algorithm 5, and
that an operand under some neighbours of a Q-node is read as those, not as the whole Q-node (Algorithm 3).
What a dropped batch has already done to the tree stays, as printed. The paper leaves open what happens to an
operand that cannot even be adjacent: here, as in its code, that operand alone is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Sequence

from abw.pqtree import shape
from abw.pqtree.layouts.align import Alignment
from abw.pqtree.layouts.closure import planning_tree
from abw.pqtree.layouts.layout import Layout, lay_out
from abw.pqtree.layouts.problem import LAUNCH, Program
from abw.pqtree.tree import PQTree

Operand = tuple[int, ...]
Operands = list[Operand]


def paper_layout(
    sizes: Sequence[int],
    batches: Sequence[Sequence[Sequence[int]]],
    *,
    arenas: Sequence[Hashable] | None = None,
    constant: Collection[Hashable] = (),
    launch: int = LAUNCH,
) -> Layout:
    """Plan as the paper does. The arguments are those of `plan_layout`; sizes play no part in the choice."""
    program = Program.of(sizes, batches, arenas, constant, launch)
    tree = planning_tree(len(program.sizes))
    live: dict[int, Operands] = {}
    for item in program.items():
        if tree.reduce(item.lanes):
            live.setdefault(item.key[0], []).append(item.lanes)
    _broadcast(tree, live)
    ties = _decide_orders(tree, live)
    return lay_out(program, ties.order(), tree=tree.canonical())


def _broadcast(tree: PQTree, live: dict[int, Operands]) -> None:
    """BroadcastConstraint: breadth-first over the batches; those that fail are erased from `live`."""
    queue = deque(live)
    while queue:
        b = queue.popleft()
        if b not in live:
            continue
        changed: set[int] = set()
        lanes = {frozenset(row) for operand in live[b] for row in _demands(tree, operand)}
        for operand in live[b]:
            for row in sorted(sorted(some) for some in lanes):
                variables = [operand[lane] for lane in row]
                answer = tree.narrow(variables)
                if answer is None:
                    live.pop(b, None)
                    break
                if answer:
                    changed |= {
                        other for other, some in live.items() if any(set(variables) & set(o) for o in some)
                    }
            if b not in live:
                break
        queue.extend(changed - set(queue))


def _demands(tree: PQTree, operand: Sequence[int]) -> list[list[int]]:
    """GetSubtreeCons, in lanes."""
    lane = {variable: i for i, variable in enumerate(operand)}
    code = [lane[token] if token >= 0 else token for token in tree.below(operand)[0]]
    return shape.rows(shape.canonical(code))


def _decide_orders(tree: PQTree, live: dict[int, Operands]) -> Alignment:
    """DecideNodesOrder: tie the operands of one batch after the other, leaving out those that contradict."""
    kept: list[tuple[Operand, Operand]] = []
    ties = Alignment(tree)
    ties.begin()
    for operands in live.values():
        first, *others = operands
        for other in others:
            if ties.tie(first, other) and ties.consistent():
                kept.append((first, other))
                continue
            ties.begin()  # without the last
            for a, b in kept:
                ties.tie(a, b)
    return ties
