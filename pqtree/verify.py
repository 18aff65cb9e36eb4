"""A separate check of layouts: from offsets alone, without trees."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from abw.pqtree.layout import Layout, OperandLayout, Status


class LayoutError(AssertionError):
    """A layout says what is not so; `faults` lists it all."""

    def __init__(self, faults: Sequence[str]) -> None:
        """With at least one fault."""
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


def verify_layout(
    layout: Layout,
    sizes: Sequence[int],
    batches: Sequence[Sequence[Sequence[int]]],
    *,
    arenas: Sequence[Hashable] | None = None,
    constant: Collection[Hashable] = (),
) -> None:
    """Check that no two slots overlap, and that each operand lies as the layout says; raises LayoutError.

    The arguments are those of `plan_layout`. Linear, apart from sorting.
    """
    home = [0] * len(sizes) if arenas is None else list(arenas)
    faults = _check_slots(layout, sizes, home)
    if faults:
        raise LayoutError(faults)
    if [len(batch) for batch in layout.operands] != [len(batch) for batch in batches]:
        raise LayoutError(["the operands are not those of the batches"])
    for b, batch in enumerate(batches):
        lanes = layout.lanes[b]
        if sorted(lanes) != list(range(len(batch[0]))):
            faults.append(f"batch {b} does not run each lane once")
            continue
        for k, declared in enumerate(batch):
            operand = layout.operands[b][k]
            if [layout.variables[slot] for slot in operand.slots] != list(declared) or operand.key != (b, k):
                faults.append(f"operand {k} of batch {b} is another")
                continue
            wrong = _check_operand(layout, operand, lanes, sizes, home, constant)
            if wrong:
                faults.append(f"operand {k} of batch {b} {wrong}")
    faults += _check_fills(layout, len(sizes), sizes)
    if faults:
        raise LayoutError(faults)


def _check_slots(layout: Layout, sizes: Sequence[int], home: Sequence[Hashable]) -> list[str]:
    """Each variable has its slot, and slots of one arena do not overlap."""
    count, n = len(layout.variables), len(sizes)
    if count < n or list(layout.variables[:n]) != list(range(n)) or len(layout.offsets) != count:
        return ["a variable has no slot of its own"]
    if sorted(layout.order) != list(range(count)) or not all(0 <= v < n for v in layout.variables):
        return ["the order does not have each slot once"]
    ends: dict[Hashable, int] = {}
    faults = []
    for slot in layout.order:
        variable = layout.variables[slot]
        if layout.offsets[slot] < ends.get(home[variable], 0):
            faults.append(f"slot {slot} overlaps the one before it")
        ends[home[variable]] = layout.offsets[slot] + sizes[variable]
    return faults


def _check_operand(
    layout: Layout,
    operand: OperandLayout,
    lanes: Sequence[int],
    sizes: Sequence[int],
    home: Sequence[Hashable],
    constant: Collection[Hashable],
) -> str:
    """What is wrong with the operand, if anything."""
    slots = operand.slots
    held = [layout.variables[slot] for slot in slots]
    total = sum(sizes[variable] for variable in held)
    if operand.status is Status.COPIED:
        once = len(constant) > 0 and all(home[variable] in constant for variable in held)
        if (operand.moved, operand.packed) != ((0, total) if once else (total, 0)):
            return "is copied, but its bytes are not counted"
        return "" if operand.reason else "is copied without a reason"
    if operand.packed:
        return "is packed, but not copied"
    if len({home[variable] for variable in held}) > 1:
        return "mixes arenas"
    if operand.status is Status.BROADCAST:
        same = len(set(slots)) == 1 and len(slots) in (1, len(lanes)) and operand.key[1] > 0
        return "" if same and layout.offsets[slots[0]] == operand.offset else "is not one variable"
    if len(slots) != len(lanes) or len({sizes[variable] for variable in held}) > 1:
        return "does not have one variable of one size for each lane"
    if operand.status is Status.CONTIGUOUS and len(slots) > 1 and operand.stride != sizes[held[0]]:
        return "is called contiguous with a gap"
    if operand.stride <= 0 and len(slots) > 1:
        return "has lanes at one place"
    for i, lane in enumerate(lanes):
        if layout.offsets[slots[lane]] != operand.offset + i * operand.stride:
            return f"does not have lane {lane} where it says"
    return ""


def _check_fills(layout: Layout, n: int, sizes: Sequence[int]) -> list[str]:
    """Every second copy is paid for once, by an operand that uses it."""
    extra = set(range(n, len(layout.variables)))
    paid = 0
    used: set[int] = set()
    for batch in layout.operands:
        for operand in batch:
            if operand.status is not Status.COPIED:
                used |= extra & set(operand.slots)
                paid += operand.moved
    faults = [f"slot {slot} is not used" for slot in sorted(extra - used)]
    if paid != sum(sizes[layout.variables[slot]] for slot in extra):
        faults.append("the copies to slots are not what they are said to move")
    return faults
