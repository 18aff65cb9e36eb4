"""A separate check of layouts: from offsets alone, without trees."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from abw.pqtree.layouts.layout import Layout, OperandLayout, Status


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
    """Check that no two variables overlap, and that each operand lies as the layout says; raises LayoutError.

    The arguments are those of `plan_layout`. Linear, apart from sorting.
    """
    home = [0] * len(sizes) if arenas is None else list(arenas)
    faults = _check_places(layout, sizes, home)
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
            if list(operand.variables) != list(declared) or operand.key != (b, k):
                faults.append(f"operand {k} of batch {b} is another")
                continue
            wrong = _check_operand(layout, operand, lanes, sizes, home, constant)
            if wrong:
                faults.append(f"operand {k} of batch {b} {wrong}")
    if faults:
        raise LayoutError(faults)


def _check_places(layout: Layout, sizes: Sequence[int], home: Sequence[Hashable]) -> list[str]:
    """Each variable has its place, and variables of one arena do not overlap."""
    if len(layout.offsets) != len(sizes):
        return ["the offsets are not those of the variables"]
    if sorted(layout.order) != list(range(len(sizes))):
        return ["the order does not have each variable once"]
    ends: dict[Hashable, int] = {}
    faults = []
    for variable in layout.order:
        if layout.offsets[variable] < ends.get(home[variable], 0):
            faults.append(f"variable {variable} overlaps the one before it")
        ends[home[variable]] = layout.offsets[variable] + sizes[variable]
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
    held = operand.variables
    total = sum(sizes[variable] for variable in held)
    if operand.status is Status.COPIED:
        once = len(constant) > 0 and all(home[variable] in constant for variable in held)
        if (operand.moved, operand.packed) != ((0, total) if once else (total, 0)):
            return "is copied, but its bytes are not counted"
        return "" if operand.reason else "is copied without a reason"
    if operand.packed or operand.moved:
        return "has bytes to copy, but is not copied"
    if len({home[variable] for variable in held}) > 1:
        return "mixes arenas"
    if operand.status is Status.BROADCAST:
        same = len(set(held)) == 1 and len(held) in (1, len(lanes)) and operand.key[1] > 0
        return "" if same and layout.offsets[held[0]] == operand.offset else "is not one variable"
    if len(held) != len(lanes) or len({sizes[variable] for variable in held}) > 1:
        return "does not have one variable of one size for each lane"
    if operand.status is Status.CONTIGUOUS and len(held) > 1 and operand.stride != sizes[held[0]]:
        return "is called contiguous with a gap"
    if operand.stride <= 0 and len(held) > 1:
        return "has lanes at one place"
    for i, lane in enumerate(lanes):
        if layout.offsets[held[lane]] != operand.offset + i * operand.stride:
            return f"does not have lane {lane} where it says"
    return ""
