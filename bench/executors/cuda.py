"""The executor `cuda` on real data: checked, then timed beside the floor, PyTorch and published latencies."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import closing
from functools import partial
from itertools import islice, product
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from abw.bench.executors.rig import CHECKED_HIDDEN, CHECKED_INSTANCES, Rig
from abw.bench.options import (
    SPECS,
    BatchSizes,
    DataDir,
    HiddenSizes,
    Runs,
    SpecsDir,
    Workloads,
    numeric,
    option,
)
from abw.bench.process import Apart
from abw.bench.rows import Row, Rows
from abw.bench.workloads import Case, chosen_cases, files_of
from abw.core.base.errors import AbwError
from abw.core.base.parallel import usable_cores
from abw.core.exec.cuda.available import open_device
from abw.core.exec.cuda.backend import Kernels, Scheme
from abw.core.exec.cuda.driver.compiled import SM_90
from abw.core.exec.cuda.measure.costs import PUBLISHED, Costs, Limits, Times
from abw.core.exec.cuda.tiles import HOPPER, Forms, forms_for
from abw.core.run.batchsize import fit

# A workload, its hidden size, instances in the mini-batch.
Setting = tuple[Case, int, int]
# A spec, its hidden size, the forms of its kernels.
Network = tuple[Path, int, Forms]

SCHEMES: tuple[Scheme, ...] = ("batch", "plan")
# The workloads that say most: trees, lattices, chains; the sizes that say most.
FIRST = ("TreeLSTM", "LatticeLSTM", "BiLSTM-Tagger")
FIRST_HIDDEN, FIRST_BATCH = (256, 512, 128), (64, 8, 1, 256)
# Rows from which the schemes' times can be fitted.
ENOUGH = 8
# What a check or a row may take, on a machine that has compiled nothing yet.
CALL_SECONDS = 300.0
# A TreeLSTM's latency, end to end, in ms by hidden size and mini-batch (ACRoBat, tables 4 and 6), on a card
# with such a float32 peak. The treebank is the same, the sentences need not be.
CARD, CARD_FLOPS = "RTX 3070", 20.3e12
LATENCIES = {
    "ACRoBat": {(256, 8): 1.48, (256, 64): 5.81, (512, 8): 2.40, (512, 64): 11.44},
    "Cortex": {(256, 8): 0.79, (256, 64): 3.62, (512, 8): 1.84, (512, 64): 10.23},
}
COMPILE_ONLY = "Only compile all kernels for compute capability 9.0, without a GPU, into ABW_HOME/kernels."


def cuda(
    data: DataDir,
    specs: SpecsDir = SPECS,
    workloads: Workloads = None,
    hidden: HiddenSizes = [128, 256, 512],
    batch: BatchSizes = [1, 8, 64, 256],
    runs: Runs = 15,
    quick: Annotated[bool, option("Check all workloads, and time three at one size.", "--quick")] = False,
    minutes: Annotated[float | None, numeric("Begin no row after N minutes.", "", "N", min=0)] = None,
    compile_only: Annotated[bool, option(COMPILE_ONLY, "--compile-only")] = False,
    no_tensor_cores: Annotated[bool, option("Use float32 units only.", "--no-tensor-cores")] = False,
) -> Rows:
    """Check all workloads on a GPU, then time them, compared with the floor and PyTorch.

    The most informative rows come first. Failures and hangs are reported at the end (exit code 1).
    docs/cuda.md explains the columns.
    """
    begun = time.monotonic()
    until = math.inf if minutes is None else begun + 60 * minutes
    cases = chosen_cases(workloads)
    for chosen in cases:
        files_of(chosen, specs, data)
    settings = quick_settings(cases) if quick else in_order(cases, hidden, batch)
    networks = [*((c, CHECKED_HIDDEN, CHECKED_INSTANCES) for c in cases), *settings]
    if compile_only:
        forms = HOPPER.without_tensor_cores() if no_tensor_cores else HOPPER
        yield from raising(compile_all(specs, networks, SM_90, forms))
        return
    with closing(open_device()) as device:
        gpu = device.traits
    yield Row("GPU", name=gpu.name, multiprocessors=gpu.processors, driver=f"CUDA {gpu.driver / 1000:.1f}")
    forms = forms_for(gpu.processors, gpu.tf32 and not no_tensor_cores)
    # half of the time at most: kernels that come along are only found
    yield from compile_all(specs, networks, gpu.arch, forms, (begun + until) / 2)
    apart = Apart(partial(Rig, tensor_cores=not no_tensor_cores), data, specs, runs, seconds=CALL_SECONDS)
    with closing(apart):
        yield from raising(bench_cuda(apart.call, cases, settings, until))


def raising(rows: Rows) -> Rows:
    """Pass rows on. Errors: AbwError at the end, if some of them are failures."""
    failed = 0
    for row in rows:
        failed += isinstance(row, Row) and row.table == "failed"
        yield row
    if failed:
        raise AbwError(f"{failed} of the steps failed: see the table 'failed'")


def in_order(cases: Sequence[Case], hidden: Iterable[int], batches: Iterable[int]) -> list[Setting]:
    """All settings, the most informative first: whenever the bench is stopped, its rows are worth most."""

    def rank(value: Any, firsts: Sequence[Any]) -> int:  # noqa: ANN401
        return firsts.index(value) if value in firsts else len(firsts)

    def key(setting: Setting) -> tuple[int, int, int]:
        chosen, size, batch = setting
        both = rank(size, FIRST_HIDDEN) + rank(batch, FIRST_BATCH)
        return both, rank(batch, FIRST_BATCH), rank(chosen.name, FIRST)

    return sorted(product(cases, hidden, batches), key=key)


def quick_settings(cases: Sequence[Case]) -> list[Setting]:
    """The few settings of a first call, after which one knows whether all works."""
    return in_order([c for c in cases if c.name in FIRST] or cases[:1], FIRST_HIDDEN[:1], FIRST_BATCH[:1])


def bench_cuda(
    call: Callable[..., Any], cases: Sequence[Case], settings: Sequence[Setting], until: float = math.inf
) -> Rows:
    """Check every workload against the reference executor, by both schemes; then time `settings`.

    `call(method, *args)` calls a `Rig`. A scheme that is wrong on a workload, hangs or fails is a row of the
    table `failed`, and is not timed on it. No row begins after `until` (`time.monotonic`). From the rows
    follow the times by which later runs choose a scheme (`core/exec/cuda/measure/costs.py`), if there are
    enough. Errors: AbwError where there is no GPU.
    """
    failures: list[Row] = []

    def attempt(what: str, method: str, *args: Any) -> Any:  # noqa: ANN401
        try:
            return call(method, *args)
        except AbwError as error:
            failures.append(Row("failed", what=what, error=" ".join(str(error).split())))
            return None

    torch = call("torch")
    limits = attempt("the GPU measured", "measured") or PUBLISHED
    yield f"GPU: {limits.said()}; {torch}"
    right: dict[str, list[Scheme]] = {c.name: [] for c in cases}
    for chosen, scheme in product(cases, SCHEMES):
        error = attempt(f"{chosen.name}, scheme {scheme}, checked", "checked", chosen.name, scheme)
        if error is not None:
            right[chosen.name].append(scheme)
            yield Row("checked", workload=chosen.name, scheme=scheme, output_error=error)
    timed: list[dict[str, Any]] = []
    left = list(settings)
    while left and time.monotonic() < until:
        name, size, batch = left[0][0].name, *left[0][1:]
        what = f"{name}, hidden {size}, batch {batch}"
        del left[0]
        if right[name] and (row := attempt(what, "timed", name, size, batch, right[name], limits)):
            timed.append(row)
            shown = {k: v for k, v in row.items() if k not in ("items", "phases", "product_flops", "schemes")}
            yield Row("timed", **shown)
            yield from beside_published(row, limits.flops)
    if left:
        yield f"There was no time for {len(left)} more rows."
    if costs := fitted(timed, limits):
        attempt("times of the schemes kept", "kept", costs)
        yield f"Later runs choose a scheme by times fitted to these {len(timed)} rows."
    yield from failures


def beside_published(row: dict[str, Any], flops: float) -> Iterator[Row]:
    """Published latencies of what a row times, scaled to a GPU with a peak of `flops`."""
    for system, found in LATENCIES.items():
        latency = found.get((row["hidden"], row["batch"])) if row["workload"] == "TreeLSTM" else None
        if latency is not None:
            scaled, ours = latency / 1e3 * CARD_FLOPS / flops, row["with_copies_seconds"]
            yield Row(
                "published latencies of TreeLSTM",
                system=system,
                card=CARD,
                hidden=row["hidden"],
                batch=row["batch"],
                published_seconds=latency / 1e3,
                scaled_by_peaks_seconds=scaled,
                abw_with_copies_seconds=ours,
                ahead_times=scaled / ours,
            )


def fitted(rows: Sequence[dict[str, Any]], limits: Limits) -> Costs | None:
    """The schemes' times from rows that have both, by least squares of relative errors; None from few."""
    both = [r for r in rows if len(r["schemes"]) == len(SCHEMES)]
    if len(both) < ENOUGH:
        return None
    flops = np.array([r["product_flops"] for r in both], np.float64)
    times: dict[Scheme, Times] = {}
    for scheme, count in zip(SCHEMES, ("items", "phases"), strict=True):
        steps = np.array([r[count] for r in both], np.float64)
        step, flop, _ = fit(flops / steps, np.array([r["schemes"][scheme] for r in both]) / steps)
        times[scheme] = Times(step, flop)
    return Costs(limits, times["batch"], times["plan"])


def compile_all(
    specs: Path, settings: Sequence[Setting], arch: tuple[int, int], forms: Forms, until: float = math.inf
) -> Rows:
    """Compile what the settings' networks need on a GPU of an architecture, on all cores, in their order.

    No network is begun after `until` (`time.monotonic`): it is compiled when it is needed. A row for each
    network: how many kernels were made or found. Errors: AbwError without a compiler.
    """
    from abw.core.exec.cuda.measure.probe import compiled

    yield Row("compiled", network="measuring", kernels=len(compiled(arch)))
    waiting = iter(dict.fromkeys((specs / chosen.spec, hidden, forms) for chosen, hidden, _ in settings))
    processes = usable_cores()
    running: dict[Future[int], Network] = {}
    try:
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            while True:
                free = processes - len(running) if time.monotonic() < until else 0
                running |= {pool.submit(_compile, *each, arch): each for each in islice(waiting, free)}
                if not running:
                    break
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    spec, hidden, _ = running.pop(done)
                    try:
                        yield Row("compiled", network=spec.stem, hidden=hidden, kernels=done.result())
                    except AbwError as error:
                        yield Row("failed", what=f"compiling {spec}", error=str(error))
    except BrokenExecutor as error:  # a process died, as for want of memory: the rest is compiled when needed
        yield Row("failed", what="compiling", error=f"stopped: {error}")


def _compile(spec: Path, hidden: int, forms: Forms, arch: tuple[int, int]) -> int:
    """Compile a network's kernels, in a process of a pool; how many. Errors: AbwError."""
    from abw.core.exec.cuda.driver.gpu import images_of

    return len(images_of(kernels_of(spec, hidden, forms), arch))


def kernels_of(spec: Path, hidden: int, forms: Forms) -> Kernels:
    """The kernels of a spec's network, whatever its data. Errors: AbwError."""
    from abw.core.exec.cuda.lowering import device_program
    from abw.core.exec.cuda.text.module import load_kernels
    from abw.core.run.workload import open_model, open_networks
    from abw.core.spec.load import Overrides

    network = open_networks(open_model(spec, Overrides(dims={"hidden": hidden})), "cell").network
    program = device_program(network, forms)
    return load_kernels(program.text, program.forms, program.plan_shared)
