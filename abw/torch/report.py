"""Reports what a model has become: its cells with their lines, and code that did not become a cell."""

from __future__ import annotations

from abw.core.base.errors import number_of
from abw.torch.recording.cells import Cells
from abw.torch.rewriting.rewriter import Rewriter
from abw.torch.tracing.stages import Reduction, Step


def report(cells: Cells, rewriter: Rewriter, more: list[str]) -> str:
    """Write a line for each region, then what PyTorch computes and what was not rewritten."""
    lines = [f"{number_of(len(cells.library.types), 'cell')}; rewritten {number_of(rewriter.times, 'time')}"]
    for region in cells.regions:
        lines += [f"  {region.name}: {'; '.join(map(_said, steps))}" for steps in region.steps if steps]
        own = [f"cell{n}" for n, name in cells.origins.items() if name == region.name]
        lines += [f"    in {', '.join(own)}"] if own and any(region.steps) else []
        if region.why:
            lines.append(f"  {region.name}: one operation at a time: {region.why}")
    lines += [f"  {name} is not rewritten: {why}" for name, why in rewriter.unwritten.items()]
    lines += [f"{where}: {said}" for said, where in cells.notes.items()]
    return "\n".join([*lines, *filter(None, more)])


def _said(step: Step) -> str:
    if isinstance(step, Reduction):
        heads = step.how.removeprefix("attend ")
        return f"{step.how} of a list" if heads == step.how else f"attention, {number_of(int(heads), 'head')}"
    return f"{'for each row ' if step.row else ''}{number_of(len(step.cell.ops), 'operation')}"
