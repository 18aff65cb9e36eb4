"""What is said of a batched model: its cells, what became none, and where it is slower than PyTorch."""

from __future__ import annotations

import copy
import warnings
from time import perf_counter
from typing import Any

import torch

from abw.core.base.errors import number_of
from abw.torch.recording.cells import Cells
from abw.torch.rewriting.rewriter import Rewriter
from abw.torch.tracing.stages import Reduction, Step

# So many mini-batches are timed, each with so many of its instances by PyTorch.
MOST_TIMED, MOST_ALONE = 2, 8
# How much slower than PyTorch is said.
SLOWER = 1.1
COMMON = "instances have few operations in common: see fast.report()"
# Of so few instances it is not sure that anything is batched.
FEW = 4


class Watch:
    """Times mini-batches in which nothing was learnt. `said`: what was found, '' for nothing."""

    def __init__(self, model: torch.nn.Module, method: str, cells: Cells, rewriter: Rewriter) -> None:
        self._model, self._method, self._cells, self._rewriter = model, method, cells, rewriter
        self._known: Any = None
        self._ratios: list[tuple[float, float, float]] = []
        self._left = MOST_TIMED
        self.said = ""

    def look(self, items: list[Any], took: float) -> None:
        """Look at a mini-batch that took so many seconds. What is drawn at random stays as it would be."""
        known = len(self._cells.library.types), self._rewriter.times, torch.is_grad_enabled()
        settled, self._known = known == self._known, known
        if not settled or not self._left:
            return
        causes = self._causes(items)
        if self._cells.learns() and not causes:  # what learns spends more forward, and less backward
            return
        self._left -= 1
        alone = items[:: -(-len(items) // MOST_ALONE)]
        state = torch.get_rng_state()
        try:
            own = {id(p): p for p in self._model.parameters()}
            twin = copy.deepcopy(self._model, own)  # whatever forward keeps on the model is not kept
            begin = perf_counter()
            for item in alone:
                getattr(twin, self._method)(*item)
            theirs = (perf_counter() - begin) / len(alone)
        except Exception:  # an instance that cannot be run twice
            self._left = 0
            return
        finally:
            torch.set_rng_state(state)
        ours = took / len(items)
        self._ratios.append((ours / theirs, ours, theirs))
        if self._left == 0:
            self._say(causes or [COMMON])

    def _causes(self, items: list[Any]) -> list[str]:
        """Why batching may not pay."""
        found = [f"{where}: {said}" for said, where in self._cells.notes.items()]
        found += [
            f"{r.where or r.name}: one operation at a time: {r.why}" for r in self._cells.regions if r.why
        ]
        found += [f"{name} is not rewritten: {why}" for name, why in self._rewriter.unwritten.items()]
        if self._cells.waited > len(items):
            times = self._cells.waited / len(items)
            found.append(
                f"numbers are asked for {times:.0f} times an instance: ask once, torch.stack(values).tolist()"
            )
        if len(items) < FEW:
            found.append(f"{len(items)} run together: give more instances to a call, and a larger batch=…")
        return found

    def _say(self, causes: list[str]) -> None:
        ratio, ours, theirs = min(self._ratios)
        times = f"an instance takes {1e3 * ours:.2g} ms, {1e3 * theirs:.2g} ms by PyTorch alone"
        if ratio <= SLOWER:
            self.said = times
            return
        self.said = f"slower than PyTorch: {times}; {'; '.join(causes)}"
        warnings.warn(self.said, stacklevel=5)


def report(cells: Cells, rewriter: Rewriter, more: list[str]) -> str:
    """Write what each region became, then what PyTorch computes and what was not rewritten."""
    lines = [f"{number_of(len(cells.library.types), 'cell')}; rewritten {number_of(rewriter.times, 'time')}"]
    for name in dict.fromkeys(region.name for region in cells.regions):
        regions = [region for region in cells.regions if region.name == name]
        said = ["; ".join(map(_said, steps)) for region in regions for steps in region.steps if steps]
        lines += [f"  {name}: {one}" for one in dict.fromkeys(said)]
        own = [f"cell{n}" for n, origin in cells.origins.items() if origin == name]
        lines += [f"    in {', '.join(own)}"] if own and said else []
        alone = dict.fromkeys(region.why for region in regions if region.why)
        lines += [f"  {name}: one operation at a time: {why}" for why in alone]
    lines += [f"  {name} is not rewritten: {why}" for name, why in rewriter.unwritten.items()]
    lines += [f"{where}: {said}" for said, where in cells.notes.items()]
    return "\n".join([*lines, *filter(None, more)])


def _said(step: Step) -> str:
    if isinstance(step, Reduction):
        heads = step.how.removeprefix("attend ")
        return f"{step.how} of a list" if heads == step.how else f"attention, {number_of(int(heads), 'head')}"
    return f"{'for each row ' if step.row else ''}{number_of(len(step.cell.ops), 'operation')}"
