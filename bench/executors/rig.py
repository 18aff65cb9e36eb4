"""Check workloads on the GPU against other executors, and time them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from abw.bench.pytorch.levels import TorchLevels
from abw.bench.workloads import mini_batch, outputs_of
from abw.core.base.errors import AbwError
from abw.core.exec.agreement import compare, error_of
from abw.core.exec.blas.executor import BlasExecutor
from abw.core.exec.cuda.available import open_device
from abw.core.exec.cuda.backend import Scheme
from abw.core.exec.cuda.driver.device import Device
from abw.core.exec.cuda.driver.gpu import Gpu
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.cuda.measure import probe
from abw.core.exec.cuda.measure.costs import Costs, Limits, floor, keep_costs
from abw.core.exec.interface import Executor
from abw.core.exec.params import Params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.plan.plan import Plan
from abw.core.run.checks import TOLERANCE as REFERENCE_TOLERANCE

T = TypeVar("T")
Outputs = list[Any]
Make = Callable[[Gpu, Scheme], CudaExecutor]

# What is checked against the reference executor; what is timed, against blas and PyTorch.
CHECKED_INSTANCES, CHECKED_HIDDEN = 8, 32
# Seconds after which a kernel counts as hung: none takes one.
PATIENCE = 20.0
# Seconds of runs before those that count: the GPU's clock rises, memory is taken.
WARMING = 0.2
# Seconds after which the runs done are enough for a median.
LONGEST = 4.0
# Runs one right after the other, between two events.
IN_A_ROW = 5
# Seconds from which on a run is timed alone: of several the GPU would seem to hang.
SLOW = 0.1
TORCH_DEVICE = "cuda"
# How far outputs of timed runs may be from blas and PyTorch, of their root mean square: all add hundreds of
# float32 in their own order, over tens of levels.
TOLERANCE = 1e-3


class Rig:
    """A GPU with the workloads. Errors of all methods: AbwError, also where outputs differ."""

    def __init__(
        self,
        data: Path,
        specs: Path,
        runs: int,
        device: Device | None = None,
        make: Make = CudaExecutor,
        tensor_cores: bool = True,
    ) -> None:
        """Medians are of `runs` runs. `device`: by default this machine's first GPU."""
        self._data, self._specs, self._runs, self._make = data, specs, runs, make
        self._device = device or open_device(PATIENCE)
        self._gpu = Gpu(self._device, tensor_cores=tensor_cores)
        self._torch, self._version = _torch()

    def torch(self) -> str:
        """PyTorch's version, or why it cannot be used."""
        return self._version

    def measured(self) -> Limits:
        """Measure the GPU's limits, and store them for later runs to choose schemes by."""
        limits = probe.measure(self._device)
        with suppress(OSError):
            keep_costs(self._device.traits, limits)
        return limits

    def kept(self, costs: Costs) -> None:
        """Let later runs choose schemes by these."""
        with suppress(OSError):
            keep_costs(self._device.traits, costs.limits, costs.batch, costs.plan)

    def checked(self, name: str, scheme: Scheme) -> float:
        """The largest error of any output of a workload against the reference executor's."""
        planned, params = mini_batch(name, self._specs, self._data, CHECKED_INSTANCES, CHECKED_HIDDEN)
        reference = ReferenceExecutor()
        reference.prepare(planned.graph.network, params)
        expected = reference.run_graph(planned.graph)
        executor = self._prepared(scheme, planned, params)
        executor.run(planned)  # the second run finds memory that is not fresh
        differences = compare(executor.run(planned), expected)
        worst = max((d.error for d in differences), default=0.0)
        if not worst <= REFERENCE_TOLERANCE:
            raise AbwError(
                f"wrong by {worst:.1e} of an output's root mean square",
                hint="this is a defect of abw: please report it with this line and the GPU's name",
            )
        return worst

    def timed(
        self, name: str, hidden: int, batch: int, schemes: Sequence[Scheme], limits: Limits
    ) -> dict[str, Any]:
        """A row of times, with outputs checked against blas and PyTorch.

        `schemes` has the seconds of each; the other keys are of the faster one.
        """
        planned, params = mini_batch(name, self._specs, self._data, batch, hidden)
        expected = _run(BlasExecutor(), planned, params)
        times = {scheme: self._timing(scheme, planned, params, expected) for scheme in schemes}
        image = self._gpu.image
        best = min(times, key=lambda scheme: times[scheme][0])
        (seconds, total), least = times[best], floor(planned, limits)
        torch = self._torch and self._torch_seconds(planned, params, expected)
        return {
            "workload": name,
            "hidden": hidden,
            "batch": batch,
            "scheme": best,
            "nodes": len(planned.graph),
            "batches": len(planned.schedule),
            "items": len(image.items),
            "phases": len(image.phase) - 1,
            "product_flops": planned.product_flops,
            "device_seconds": seconds,
            "other_scheme_seconds": next((t for scheme, (t, _) in times.items() if scheme != best), None),
            "with_copies_seconds": total,
            "floor_seconds": least,
            "over_floor_times": seconds / least,
            "torch_seconds": torch,
            "over_torch_times": torch and torch / seconds,
            "schemes": {scheme: taken for scheme, (taken, _) in times.items()},
        }

    def _timing(
        self, scheme: Scheme, planned: Plan, params: Params, expected: Outputs
    ) -> tuple[float, float]:
        """Medians: seconds on the GPU, and from the plan on the host to the results there."""
        executor = self._prepared(scheme, planned, params)

        def once() -> tuple[float, float]:
            start = time.perf_counter()
            outputs_of(executor.run(planned), planned.graph)
            total = time.perf_counter() - start
            return self._gpu.again(IN_A_ROW if total < SLOW else 1), total

        device, total = zip(*self._often(once), strict=True)
        _same(outputs_of(executor.run(planned), planned.graph), expected, f"by scheme {scheme}")
        return median(device), median(total)

    def _prepared(self, scheme: Scheme, planned: Plan, params: Params) -> CudaExecutor:
        """An executor that finds no values of another one's runs."""
        self._gpu.poison()
        executor = self._make(self._gpu, scheme)
        executor.prepare(planned.graph.network, params)
        return executor

    def _torch_seconds(self, planned: Plan, params: Params, expected: Outputs) -> float:
        """The median time of PyTorch by level on the GPU."""
        torch = self._torch
        levels = TorchLevels(torch, planned, params, TORCH_DEVICE)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def once() -> float:
            begin.record()
            for _ in range(IN_A_ROW):
                levels.run()
            end.record()
            end.synchronize()
            return float(begin.elapsed_time(end)) / 1e3 / IN_A_ROW

        seconds = median(self._often(once))
        _same([levels.values(refs.reference) for refs in planned.graph.results], expected, "by PyTorch")
        return seconds

    def _often(self, once: Callable[[], T]) -> list[T]:
        """Return the results of runs after warming up: fewer where they take long, at least three."""
        begun = time.perf_counter()
        once()
        while time.perf_counter() < begun + WARMING:
            once()
        counting = time.perf_counter()
        results: list[T] = []
        while len(results) < self._runs:
            if len(results) >= 3 and time.perf_counter() > counting + LONGEST:
                break
            results.append(once())
        return results


def _run(executor: Executor, planned: Plan, params: Params) -> Outputs:
    """The outputs by another executor."""
    executor.prepare(planned.graph.network, params)
    return outputs_of(executor.run(planned), planned.graph)


def _same(found: Outputs, expected: Outputs, who: str) -> None:
    """Errors: AbwError where outputs differ from those of blas by more than TOLERANCE."""
    worst = max(error_of(ours, theirs) for ours, theirs in zip(found, expected, strict=True))
    if not worst <= TOLERANCE:
        raise AbwError(f"outputs {who} differ from those of blas by {worst:.1e} of their rms")


def _torch() -> tuple[Any, str]:
    """PyTorch where it can use the GPU, and its version or what is missing."""
    try:
        import torch
    except ImportError:
        return None, "PyTorch is not installed"
    if not torch.cuda.is_available():
        return None, f"PyTorch {torch.__version__} finds no GPU"
    # both compute in float32 throughout
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch, f"PyTorch {torch.__version__}"
