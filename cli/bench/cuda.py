"""The executor `cuda` on real data: checked, then timed beside the floor and PyTorch by level."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from abw.cli.bench.cuda_table import beside_published
from abw.cli.bench.workloads import Case
from abw.core.errors import AbwError

if TYPE_CHECKING:
    from abw.core.exec.cuda.backend import Scheme
    from abw.core.exec.cuda.device import Device
    from abw.core.exec.cuda.executor import CudaExecutor
    from abw.core.exec.cuda.floor import Limits
    from abw.core.exec.cuda.gpu import Gpu
    from abw.core.exec.interface import Result
    from abw.core.exec.params import Params
    from abw.core.plan.plan import Plan
    from abw.core.progress import Progress

SCHEMES: tuple[Scheme, ...] = ("batch", "plan")
WARMING = 3
"""Runs before those that count: the GPU's clock rises, memory is taken."""
CHECKED_INSTANCES, CHECKED_HIDDEN = 8, 32
"""What is checked against the reference executor; what is timed, against PyTorch."""
TORCH_DEVICE = "cuda"
TORCH_TOLERANCE = 1e-3
"""How far outputs may be from PyTorch's, of their root mean square: both add hundreds of float32 in their
own order, over tens of levels."""


def bench_cuda(
    data: Path,
    specs: Path,
    cases: Sequence[Case],
    hidden: list[int],
    batches: list[int],
    runs: int,
    device: Device,
    progress: Progress,
    make: Callable[[Gpu, Scheme], CudaExecutor],
) -> dict[str, Any]:
    """First every workload against the reference executor, by both schemes; then medians of `runs` runs.

    A row for each workload, size and mini-batch: `device_seconds` by the GPU's own clock, from the plan in
    its memory to the results there, of the scheme that is faster (`schemes` has both); `total_seconds` by the
    wall clock, with the plan's upload, the launch and the results' way back; `floor_seconds` (see
    `core/exec/cuda/floor.py`), from `limits` measured before; `torch_seconds` by the GPU's clock, null where
    PyTorch cannot use the GPU (`torch` says why). Errors: AbwError where outputs differ.
    """
    from abw.core.exec.cuda.gpu import Gpu
    from abw.core.exec.cuda.probe import measure

    progress.phase("measure the GPU")
    limits = measure(device)
    gpu = Gpu(device)
    errors = {}
    progress.phase("check", len(cases))
    for number, chosen in enumerate(cases, 1):
        errors[chosen.name] = _checked(chosen, data, specs, gpu, make)
        progress.reached(number)
    torch, reason = _torch()
    rows = []
    sizes = [(c, h, b) for c in cases for h in hidden for b in batches]
    progress.phase("time", len(sizes))
    for number, (chosen, size, batch) in enumerate(sizes, 1):
        rows.append(_row(chosen, data, specs, size, batch, runs, gpu, make, limits, torch))
        progress.reached(number)
    return {
        "schema_version": 1,
        "gpu": asdict(device.traits),
        "limits": asdict(limits),
        "runs": runs,
        "errors": errors,
        "torch": reason,
        "rows": rows,
        "published": beside_published(rows, limits.flops),
    }


def compile_all(
    data: Path, specs: Path, cases: Sequence[Case], hidden: Sequence[int], progress: Progress
) -> int:
    """Compile what `bench_cuda` will need on a GPU like H100 and H200; how many kernels. Errors: AbwError."""
    from abw.core.exec.cuda.compiled import SM_90
    from abw.core.exec.cuda.gpu import images_of
    from abw.core.exec.cuda.module import load_kernels
    from abw.core.exec.cuda.probe import compiled
    from abw.core.exec.cuda.program import device_program
    from abw.core.exec.cuda.tiles import HOPPER

    made = len(compiled(SM_90))
    networks = [(c, size) for c in cases for size in sorted({CHECKED_HIDDEN, *hidden})]
    progress.phase("compile", len(networks))
    for number, (chosen, size) in enumerate(networks, 1):
        planned, _ = _mini_batch(chosen, specs, data, 1, size)
        program = device_program(planned.graph.network, HOPPER)
        kernels = load_kernels(program.text, program.forms, program.plan_shared)
        made += len(images_of(kernels, SM_90))
        progress.reached(number)
    return made


def default_executor(gpu: Gpu, scheme: Scheme) -> CudaExecutor:
    """The executor as `abw run` makes it."""
    from abw.core.exec.cuda.executor import CudaExecutor

    return CudaExecutor(gpu, scheme)


def _mini_batch(chosen: Case, specs: Path, data: Path, batch: int, hidden: int) -> tuple[Plan, Params]:
    """The first mini-batch of a workload, scheduled by the sufficient condition. Errors: AbwError."""
    from abw.core.exec.params import init_params
    from abw.core.plan.plan import plan
    from abw.core.policy.sufficient import Sufficient
    from abw.core.spec.load import Overrides
    from abw.core.workload import load_workload, open_model

    overrides = Overrides(data=data / chosen.data, batch=batch, limit=batch, dims={"hidden": hidden})
    workload = load_workload(open_model(specs / chosen.spec, overrides), "cell")
    graph = workload.graph(0, len(workload.instances))
    return plan(graph, Sufficient().schedule(graph.dag)), init_params(workload.network, 0)


def _checked(
    chosen: Case, data: Path, specs: Path, gpu: Gpu, make: Callable[[Gpu, Scheme], CudaExecutor]
) -> dict[str, float]:
    """The largest error of any output against the reference executor's, by scheme. Errors: AbwError."""
    from abw.core.exec.compare import compare
    from abw.core.exec.reference import ReferenceExecutor
    from abw.core.streaming import TOLERANCE

    planned, params = _mini_batch(chosen, specs, data, CHECKED_INSTANCES, CHECKED_HIDDEN)
    network = planned.graph.network
    reference = ReferenceExecutor()
    reference.prepare(network, params)
    expected = reference.run_graph(planned.graph)
    errors: dict[str, float] = {}
    for scheme in SCHEMES:
        executor = make(gpu, scheme)
        executor.prepare(network, params)
        executor.run(planned)  # the second run finds memory that is not fresh
        found = compare(executor.run(planned), expected)
        worst = max((d.error for d in found), default=0.0)
        if not worst <= TOLERANCE:
            raise AbwError(
                f"{chosen.name}: scheme {scheme} is wrong by {worst:.1e} of an output's root mean square",
                hint="this is a defect of abw: please report it with this line and the GPU's name",
            )
        errors[scheme] = worst
    return errors


def _row(
    chosen: Case,
    data: Path,
    specs: Path,
    hidden: int,
    batch: int,
    runs: int,
    gpu: Gpu,
    make: Callable[[Gpu, Scheme], CudaExecutor],
    limits: Limits,
    torch: Any,  # noqa: ANN401 (a module)
) -> dict[str, Any]:
    from abw.core.exec.cuda.floor import floor

    planned, params = _mini_batch(chosen, specs, data, batch, hidden)
    network = planned.graph.network
    schemes: dict[str, dict[str, float]] = {}
    outputs: list[Any] = []
    for scheme in SCHEMES:
        executor = make(gpu, scheme)
        executor.prepare(network, params)
        on_device, total = _timed(executor, planned, gpu, runs)
        schemes[scheme] = {"device_seconds": on_device, "total_seconds": total}
        outputs.append(_outputs(executor.run(planned), planned))
    best = min(schemes, key=lambda name: schemes[name]["device_seconds"])
    least = floor(planned, limits)
    theirs = None
    if torch is not None:
        theirs = _torch_seconds(torch, planned, params, runs, outputs, chosen.name)
    return {
        "workload": chosen.name,
        "hidden": hidden,
        "batch": batch,
        "nodes": len(planned.graph),
        "batches": len(planned.schedule),
        "gflop": (planned.product_flops + planned.other_flops) / 1e9,
        "scheme": best,
        "device_seconds": schemes[best]["device_seconds"],
        "total_seconds": schemes[best]["total_seconds"],
        "floor_seconds": least,
        "of_floor": schemes[best]["device_seconds"] / least,
        "torch_seconds": theirs,
        "gain": theirs and theirs / schemes[best]["device_seconds"],
        "schemes": schemes,
    }


def _timed(executor: CudaExecutor, planned: Plan, gpu: Gpu, runs: int) -> tuple[float, float]:
    """Medians: seconds on the GPU, and from the plan on the host to the results there."""
    device, total = [], []
    for number in range(WARMING + runs):
        start = time.perf_counter()
        result = executor.run(planned)
        for refs in planned.graph.results:
            result.values(refs.reference)
        if number >= WARMING:
            total.append(time.perf_counter() - start)
            device.append(gpu.seconds())
    return median(device), median(total)


def _outputs(result: Result, planned: Plan) -> list[Any]:
    return [result.values(refs.reference) for refs in planned.graph.results]


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


def _torch_seconds(
    torch: Any,  # noqa: ANN401
    planned: Plan,
    params: Params,
    runs: int,
    outputs: list[list[Any]],
    name: str,
) -> float:
    """The median time of PyTorch by level on the GPU. Errors: AbwError where its outputs differ from ours."""
    import numpy as np

    from abw.cli.bench.torch_levels import TorchLevels

    taken: list[float] = []
    levels = TorchLevels(torch, planned, params, TORCH_DEVICE)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for number in range(WARMING + runs):
        begin.record()
        levels.run()
        end.record()
        end.synchronize()
        if number >= WARMING:
            taken.append(begin.elapsed_time(end) / 1e3)
    for refs, *ours in zip(planned.graph.results, *outputs, strict=True):
        right = levels.values(refs.reference)
        scale = float(np.sqrt(np.mean(np.square(right))))
        worst = max(float(np.abs(found - right).max()) for found in ours)
        if not worst <= TORCH_TOLERANCE * scale:
            raise AbwError(
                f"{name}: outputs differ from PyTorch's by {worst / scale:.1e} of their mean square"
            )
    return median(taken)
