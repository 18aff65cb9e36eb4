"""Compares batched results with PyTorch's, one instance at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves

from abw.core.base.errors import AbwError
from abw.torch.recording.cells import place
from abw.torch.recording.standins import WEIGHING

# Of the largest element.
TOLERANCE = 1e-3
# A decision as near to going the other way may come out otherwise by rounding alone.
CLOSE = 1e-5
HINT = "what the model keeps from one instance to the next, or writes in place, cannot be batched"


class Margins:
    """The narrowest decision: by how much it went this way, of the largest of its numbers, and its line."""

    def __init__(self) -> None:
        self.least, self.where = inf, ""

    def note(self, margin: float, largest: float) -> None:
        """Note a decision."""
        found = margin / max(largest, 1e-30)
        if found < self.least:
            self.least, self.where = found, place()

    def __str__(self) -> str:
        if not self.where:
            return "verified: no decision by comparisons or argmax"
        return f"verified: the narrowest decision, at {self.where}, had a margin of {self.least:.1e}"


@contextmanager
def weighing() -> Iterator[Margins]:
    """Weigh the decisions that are recorded."""
    margins = Margins()
    WEIGHING.append(margins)
    try:
        yield margins
    finally:
        WEIGHING.remove(margins)


def verified(
    run: Any, model: torch.nn.Module, method: str, items: list[Any], first: int, state: torch.Tensor
) -> tuple[list[Any], str]:
    """The outputs of a mini-batch that `run()` runs, and what its decisions were like.

    Errors: AbwError where values or gradients differ from PyTorch's. `state`: the random state before.
    """
    with weighing() as margins:
        outputs = run()
    now = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        wanted = [getattr(model, method)(*item) for item in items]
    finally:
        torch.set_rng_state(now)
    for i, (theirs, ours) in enumerate(zip(wanted, outputs, strict=True)):
        if why := unlike(theirs, ours, "the result"):
            said = f"instance {first + i} differs from PyTorch's: {why}"
            if margins.least > CLOSE:
                raise AbwError(said, hint=HINT)
            warnings.warn(f"{said}; {margins}: that may be rounding", stacklevel=4)
            return outputs, str(margins)
    _gradients(model, wanted, outputs)
    return outputs, str(margins)


def _gradients(model: torch.nn.Module, wanted: list[Any], outputs: list[Any]) -> None:
    """Compare the gradients of a sum of all outputs, each with a factor of its own."""
    params = {n: p for n, p in model.named_parameters() if p.requires_grad}
    both = []
    for some in (wanted, outputs):
        tensors = [t for t in tensors_of(some) if t.requires_grad]
        if not tensors:
            return
        factors = [torch.linspace(0.5, 1.5, t.numel()).view(t.shape) for t in tensors]
        both.append(
            torch.autograd.grad(tensors, list(params.values()), factors, retain_graph=True, allow_unused=True)
        )
    for name, theirs, ours in zip(params, *both, strict=True):
        zeros = torch.zeros(())
        a, b = (zeros if g is None else g for g in (theirs, ours))
        scale = max(float(a.abs().max()), 1e-3)
        if not float((a - b).abs().max()) <= TOLERANCE * scale:
            raise AbwError(f"the gradient of {name} differs from PyTorch's", hint=HINT)


def tensors_of(x: Any) -> list[torch.Tensor]:
    """All tensors in nested lists, tuples and dicts."""
    return [t for t in tree_leaves(x) if isinstance(t, torch.Tensor)]


def unlike(a: Any, b: Any, where: str) -> str:
    """Return what differs between two results; '' if they are alike."""
    (theirs, form), (ours, other) = tree_flatten_with_path(a), tree_flatten_with_path(b)
    if form != other:
        return f"{where} is made of other parts: {other}, not {form}"
    parts = zip(theirs, ours, strict=True)
    return next((why for (at, x), (_, y) in parts if (why := _unlike(x, y, where + keystr(at)))), "")


def _unlike(a: Any, b: Any, where: str) -> str:
    if not isinstance(a, torch.Tensor):
        plain = isinstance(a, int | float | str | bool | type(None))
        return f"{where} is {b!r}, not {a!r}" if plain and a != b else ""
    if not isinstance(b, torch.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
        return f"{where} is {_kind(b)}, not {_kind(a)}"
    if not a.dtype.is_floating_point or not a.numel():
        return "" if torch.equal(a, b) else f"{where} differs"
    off = float((a - b).detach().abs().max()) / max(float(a.detach().abs().max()), 1e-3)
    return "" if off <= TOLERANCE else f"{where} differs by {off:.1e} of its largest element"


def _kind(x: Any) -> str:
    return f"a tensor {list(x.shape)} of {x.dtype}" if isinstance(x, torch.Tensor) else type(x).__name__
