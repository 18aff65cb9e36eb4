"""Copy slots: storing a variable twice, so that an operand needs a copy of some of its lanes, not of all."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from abw.pqtree.closure import Closure
from abw.pqtree.layout import Layout, Status, lay_out
from abw.pqtree.program import Item, Key, Program

TRIALS = 200
"""How many ways to store an operand are tried, the cheapest first."""


@dataclass(slots=True)
class _State:
    """The program with slots in place of variables, as far as it has got."""

    program: Program
    variables: list[int]  # what each slot holds
    kept: list[Item]
    fills: dict[Key, int]  # the bytes that go to new slots for each operand


def add_slots(
    program: Program,
    layout: Layout,
    kept: Sequence[Item],
    strided: bool | Collection[int],
    reasons: Mapping[Key, str],
    deadline: float,
) -> Layout:
    """Give copied operands, the heaviest first, slots of their own for some lanes, where that is cheaper.

    Filling the slots for an operand takes one kernel; slots filled for another are free. A result written
    to a slot is copied from there.
    """
    state = _State(program, list(range(len(program.sizes))), list(kept), {})
    copied = [o for batch in layout.operands for o in batch if o.status is Status.COPIED and o.moved]
    for operand in sorted(copied, key=lambda o: (-o.moved, o.key)):
        if time.monotonic() > deadline:
            break
        _try_slots(state, operand.key, deadline)
    if not state.fills:
        return layout
    n = len(state.variables)
    closure = Closure(n, state.kept)
    closure.feasible(range(len(state.kept)), at_once=True)
    alignment = closure.alignment()
    assert alignment is not None
    slotted = lay_out(
        state.program,
        alignment.order(),
        strided=strided,
        reasons=reasons,
        variables=state.variables,
        fills=state.fills,
        tree=closure.tree.canonical(),
        bound=layout.bound,
    )
    return slotted if slotted.cost < layout.cost else layout


def _try_slots(state: _State, key: Key, deadline: float) -> None:
    """Find the cheapest way to make the operand contiguous by slots, and take it if it pays."""
    program = state.program
    operand = program.batches[key[0]][key[1]]
    kinds = {(program.sizes[slot], program.arenas[slot]) for slot in operand}
    if len(operand) != len(program.batches[key[0]][0]) or len(kinds) > 1:
        return  # a second copy of a variable is no better
    n, size = len(state.variables), program.sizes[operand[0]]
    fresh = range(n, n + len(operand))
    ways = list(itertools.islice(_ways(state, operand, fresh), TRIALS))
    trials = [Item(key, way, 0, 0) for way in ways]
    closure = Closure(n + len(operand), [*state.kept, *trials])
    base = list(range(len(state.kept)))
    if not closure.feasible(base, at_once=True):
        raise AssertionError("what was kept is possible")
    for i, way in enumerate(ways):
        if time.monotonic() > deadline:
            return
        if closure.feasible([*base, len(base) + i]):
            _take(state, key, way, fresh, size)
            return


def _ways(state: _State, operand: Sequence[int], fresh: range) -> Iterator[tuple[int, ...]]:
    """Slots for the lanes, those with fewer new slots first; not all lanes new: that is the copy itself."""
    held: dict[int, list[int]] = {}
    for slot, variable in enumerate(state.variables):
        held.setdefault(variable, []).append(slot)
    for count in range(len(operand)):
        for new in itertools.combinations(range(len(operand)), count):
            choices = [
                [fresh[i]] if i in new else held[state.variables[slot]] for i, slot in enumerate(operand)
            ]
            yield from (way for way in itertools.product(*choices) if len(set(way)) == len(way))


def _take(state: _State, key: Key, way: tuple[int, ...], fresh: range, size: int) -> None:
    """Store the operand this way; the new slots are numbered as they come."""
    program = state.program
    number: dict[int, int] = {}
    operand = program.batches[key[0]][key[1]]
    for slot, variable in zip(way, operand, strict=True):
        if slot in fresh:
            number[slot] = len(state.variables)
            state.variables.append(state.variables[variable])
    lanes = tuple([number.get(slot, slot) for slot in way])
    b, k = key
    batch = program.batches[b]
    state.program = Program.of(
        [program.sizes[variable] for variable in state.variables],
        [*program.batches[:b], (*batch[:k], lanes, *batch[k + 1 :]), *program.batches[b + 1 :]],
        [program.arenas[variable] for variable in state.variables],
        program.constant,
        program.launch,
    )
    state.kept.append(Item(key, lanes, program.launch, size * len(lanes)))
    state.fills[key] = size * len(number)
