"""Ways to compute the same mini-batch again and again, and whether their outputs agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError

if TYPE_CHECKING:
    from abw.core.exec.interface import Executor
    from abw.core.exec.params import Params
    from abw.core.plan.plan import Plan

# How far the outputs of the two, both of order 1 and in float32, may be apart.
TOLERANCE = 1e-4


class Contender(Protocol):
    """One way to compute the same mini-batch again and again."""

    def run(self) -> None:
        """Compute it."""

    def outputs(self) -> NDArray[Any]:
        """The classes of the last run, in the order of the nodes."""


def torch_or_none() -> Any:  # noqa: ANN401 (a module)
    """PyTorch on one thread; None where it is absent."""
    try:
        return import_torch()
    except AbwError:
        return None


def import_torch() -> Any:  # noqa: ANN401 (a module)
    """PyTorch on one thread. Errors: AbwError where it is absent."""
    try:
        import torch
    except ImportError:
        raise AbwError(
            "this benchmark compares with PyTorch, which is not installed",
            hint="pip install torch (the build for the CPU is enough)",
        ) from None
    torch.set_num_threads(1)
    return torch


def refuse_different(contenders: Mapping[str, Contender], ours: str, size: int) -> None:
    """Run each once. Errors: AbwError where one's outputs differ from those of `ours`."""
    for contender in contenders.values():
        contender.run()
    expected = contenders[ours].outputs()
    for name, contender in contenders.items():
        worst = float(np.abs(contender.outputs() - expected).max())
        if not worst < TOLERANCE:
            raise AbwError(f"the outputs of {name} and {ours} differ by {worst:.1e} at hidden={size}")


class Ours:
    """One of our executors, not prepared yet."""

    def __init__(
        self,
        executor: Executor,
        planned: Plan,
        params: Params,
        threads: int = 1,
    ) -> None:
        from abw.core.plan.plan import plan

        self._executor = executor
        self._executor.prepare(planned.graph.network, params, threads)
        self._plan = plan(planned.graph, self._executor.arrange(planned.graph, planned.schedule))

    @property
    def packed_bytes(self) -> int | None:
        """What its weights take."""
        return self._executor.packed_bytes

    def run(self) -> None:
        """See `Contender`."""
        self._result = self._executor.run(self._plan)

    def outputs(self) -> NDArray[Any]:
        """See `Contender`."""
        classes: NDArray[Any] = self._result.values(self._plan.graph.results[0].reference)
        return classes
