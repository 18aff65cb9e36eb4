"""What a step does to one lane's sums of four units, and how what it reads for that is loaded before."""

from __future__ import annotations

from abw.core.exec.cuda.image import FRAME
from abw.core.exec.cuda.steps import CellSteps, Packed, Step
from abw.core.exec.cuda.text.rowwise import guarded, load, operands, operate, read_row
from abw.core.exec.cuda.text.text import Text, plus, u
from abw.core.exec.cuda.tiles import VECTOR


def epilogue_text(cell: CellSteps, step: Step, *, ahead: bool = False) -> str:
    """The function: hoisted sums stored or added, biases, operations.

    `block`: where the biases of the units begin; `s0`, `s1`, …: gate after gate, unit after unit. `ahead`:
    what it would read is given, as `load_ahead` names it; of a step that is not hoisted.
    """
    t, packed = Text(), _weights(step)
    sums = [[f"s{g * VECTOR + e}" for e in range(VECTOR)] for g in range(len(packed.gates))]
    names = [name for gate in sums for name in gate] + (_kept(cell, step) if ahead else [])
    arguments = f"words, frame, first, block, lanes, lane, unit, floats, weights, {', '.join(names)}"
    with t.block(f"def epilogue({arguments})"):
        if step.hoisted:
            t.let(f"at_sums = {_sums(cell)}")
            for g, place in step.sums:
                t.add(f"st4(floats, {plus('at_sums', place)}, {', '.join(sums[g])})")
            return str(t)
        known = {gate.value: sums[g] for g, gate in enumerate(packed.gates)}
        if ahead:
            for g in _added(step):
                t.add(*(f"{name} += {kept}" for name, kept in zip(sums[g], _names("k", g), strict=True)))
            known |= {value: _names("r", value) for value in operands(cell, step)}
        else:
            _add(t, cell, step, sums)
        operate(t, cell, step, known, "lane", "unit")
    return str(t)


def epilogue_call(block: str, names: list[str]) -> str:
    """The call of `epilogue` for the sums of all gates: four units of one lane."""
    return f"epilogue(words, frame, first, {block}, lanes, lane, unit, floats, weights, {', '.join(names)})"


def load_ahead(t: Text, cell: CellSteps, step: Step, condition: str) -> list[str]:
    """Load what `epilogue` would read for a lane and four units, if there are such; the names to give it.

    The text before has said `block`, `lane`, `unit`, and the lane's `line` in its tile.
    """
    names = _kept(cell, step)
    if not names:
        return []
    with guarded(t, names, condition):
        _add(t, cell, step, [_names("k", g) for g in range(len(_weights(step).gates))])
        for value in operands(cell, step):
            found = read_row(t, cell, step, value, "lane", "unit", "line")
            t.add(f"{', '.join(_names('r', value))} = {', '.join(found)}")
    return names


def _weights(step: Step) -> Packed:
    assert step.weights is not None
    return step.weights


def _names(stem: str, number: int) -> list[str]:
    return [f"{stem}{number}_{e}" for e in range(VECTOR)]


def _kept(cell: CellSteps, step: Step) -> list[str]:
    """The names of what is added to sums, and of the rows that the operations read."""
    found = [name for g in _added(step) for name in _names("k", g)]
    return found + [name for value in operands(cell, step) for name in _names("r", value)]


def _added(step: Step) -> list[int]:
    """The gates to whose sums something is added."""
    hoisted = {g for g, _ in step.sums}
    return [g for g, gate in enumerate(_weights(step).gates) if g in hoisted or gate.biases]


def _sums(cell: CellSteps) -> str:
    return f"words[frame + {u(FRAME - 1)}] + lane * {u(cell.sums)} + unit"


def _add(t: Text, cell: CellSteps, step: Step, sums: list[list[str]]) -> None:
    """Hoisted sums and biases added to what is there."""
    packed = _weights(step)
    places = [("weights", "block", g, g * packed.block) for g, gate in enumerate(packed.gates) if gate.biases]
    if step.sums:
        t.let(f"at_sums = {_sums(cell)}")
    for memory, base, g, place in [*(("floats", "at_sums", g, place) for g, place in step.sums), *places]:
        found = load(t, memory, plus(base, place), True, [None] * VECTOR)
        t.add(*(f"{name} += {value}" for name, value in zip(sums[g], found, strict=True)))
