"""Planning a layout: the ideal one where it exists, else the one whose copies cost least."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace

from abw.pqtree import compiled, shape
from abw.pqtree.layouts.choice import Choice, choose
from abw.pqtree.layouts.closure import Closure
from abw.pqtree.layouts.layout import Layout, lay_out, name_of
from abw.pqtree.layouts.orders import FEW, heaviest
from abw.pqtree.layouts.problem import LAUNCH, Item, Key, Program
from abw.pqtree.tree import PQTree


def plan_layout(
    sizes: Sequence[int],
    batches: Sequence[Sequence[Sequence[int]]],
    *,
    arenas: Sequence[Hashable] | None = None,
    constant: Collection[Hashable] = (),
    launch: int = LAUNCH,
    strided: bool | Collection[int] = False,
    time_limit: float = 1.9,
) -> Layout:
    """Order variables of `sizes` bytes in memory so that the copies the batches need cost least.

    A batch is its result operand followed by its sources, each a list with a variable for each lane.
    Variables lie in `arenas` (one for all by default); copies of those in an arena listed in `constant` are
    made once, and cost nothing at run time. A copy costs its bytes and `launch`. `strided` names the batches
    (or all) whose kernels take lanes at equal distances.

    An ideal layout is found where there is one, exactly. Else half of `time_limit` (seconds of this thread's
    CPU time) goes into an exact search, the other half into exchanges: `Layout.gap` says what is not proven.
    Of parts with seven variables or fewer all orders are tried if that proved nothing. At 0 the operands are
    tried once, the heaviest first. From 64 variables on it runs as machine code, which a process
    loads beforehand, and compiles if it was never used (6 to 10 s of CPU time). Raises ValueError for a wrong
    program.
    """
    program = Program.of(sizes, batches, arenas, constant, launch)
    opened = [open_part(items) for items in independent_parts(program)]
    deadline = time.thread_time() + time_limit
    parts = [plan_part(*part, deadline, exact=time_limit > 0) for part in opened]
    apart = set(range(len(program.sizes))).difference(*(part.variables for part in parts))
    pieces = sorted([list(part.order) for part in parts] + [[variable] for variable in apart], key=min)
    reasons = {key: reason for part in parts for key, reason in part.reasons.items()}
    unavoidable = sum(
        0 if program.is_constant(operand) else program.launch + program.bytes_of(operand)
        for b, batch in enumerate(program.batches)
        for k, operand in enumerate(batch)
        if program.obstacle((b, k))
    )
    return lay_out(
        program,
        [variable for piece in pieces for variable in piece],
        strided=strided,
        reasons=reasons,
        tree=_joint_tree(parts, sorted(apart)),
        bound=unavoidable + sum(part.bound for part in parts),
    )


@dataclass(frozen=True, slots=True)
class Component:
    """A part of the program that shares no variable and no batch with others, with its own plan."""

    variables: tuple[int, ...]
    order: tuple[int, ...]
    code: shape.Code
    bound: int
    reasons: dict[Key, str]


def independent_parts(program: Program) -> list[list[Item]]:
    """The items in groups: those of one batch, or with a common variable, are together."""
    above: dict[int, int] = {}

    def find(x: int) -> int:
        while above.setdefault(x, x) != x:
            above[x] = above[above[x]]
            x = above[x]
        return x

    batch_head: dict[int, int] = {}
    items = program.items()
    for item in items:
        head = batch_head.setdefault(item.key[0], item.lanes[0])
        for variable in item.lanes:
            above[find(variable)] = find(head)
    parts: dict[int, list[Item]] = {}
    for item in items:
        parts.setdefault(find(item.lanes[0]), []).append(item)
    return list(parts.values())


def open_part(items: Sequence[Item]) -> tuple[Sequence[Item], Closure, bool]:
    """The items with their closure, and whether all of them are possible: then they are added to it.

    Its variables are numbered from 0, in order.
    """
    number = {v: i for i, v in enumerate(sorted({v for item in items for v in item.lanes}))}
    local = [replace(item, lanes=tuple([number[v] for v in item.lanes])) for item in items]
    closure = Closure(len(number), local)
    if closure.feasible(range(len(items)), at_once=True):
        return items, closure, True
    if compiled.wanted(len(number)):  # there is a search, and it is worth it
        closure = Closure(len(number), local, PQTree(len(number)))
        closure.feasible([])  # loads it all
    return items, closure, False


def plan_part(
    items: Sequence[Item], closure: Closure, possible: bool, deadline: float, *, exact: bool = True
) -> Component:
    """Order the variables of some items, as `open_part` gave them.

    With `exact`, all orders of few variables are tried where the search has proven nothing.
    """
    variables = sorted({variable for item in items for variable in item.lanes})
    choice = Choice(tuple(range(len(items))), (), 0)
    if not possible:
        choice = choose(closure, deadline)
        if exact and len(variables) <= FEW and choice.bound < closure.weight_without(choice.kept):
            kept = heaviest(len(variables), closure.items)
            choice = replace(choice, kept=kept, bound=closure.weight_without(kept))
        closure.feasible(choice.kept, at_once=True)
    alignment = closure.alignment()
    assert alignment is not None
    code = shape.canonical(closure.tree.code())
    return Component(
        tuple(variables),
        tuple([variables[i] for i in alignment.order()]),
        tuple([variables[token] if token >= 0 else token for token in code]),
        choice.bound,
        _reasons(items, choice),
    )


def _reasons(items: Sequence[Item], choice: Choice) -> dict[Key, str]:
    """For each operand given up, what it stands against among those kept."""
    kept = set(choice.kept)
    reasons: dict[Key, str] = {}
    for conflict in sorted(choice.conflicts, key=len):
        lost = conflict - kept
        if len(lost) == 1:
            (i,) = lost
            others = ", ".join(name_of(items[j].key) for j in sorted(conflict & kept))
            reasons.setdefault(items[i].key, f"conflicts with {others}" if others else "contradicts itself")
    return reasons


def _joint_tree(parts: Sequence[Component], apart: Sequence[int]) -> str:
    """The text of the tree of all variables: what stands below a part's P-root stands below one root."""
    trees: list[shape.Code] = [(variable,) for variable in apart]
    for part in parts:
        if shape.is_q(part.code[0]) or len(parts) + len(apart) == 1:
            trees.append(part.code)
            continue
        children = shape.children_of(part.code)
        trees += [tuple([part.code[at] for at in shape.walk(children, kid)]) for kid in children[0]]
    root = (shape.p_node(len(trees)),) if len(trees) > 1 else ()
    return shape.to_text(shape.canonical([*root, *(token for tree in trees for token in tree)]))
