"""`abw bench cuda`: the executor cuda on a GPU."""

from __future__ import annotations

import math
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from abw.bench.options import SPECS, BatchSizes, DataDir, HiddenSizes, Runs, SpecsDir, Workloads
from abw.cli import options
from abw.cli.console import print_json, progress
from abw.core.base.errors import AbwError


def cuda(
    data: DataDir,
    specs: SpecsDir = SPECS,
    workloads: Workloads = None,
    hidden: HiddenSizes = [128, 256, 512],
    batch: BatchSizes = [1, 8, 64, 256],
    runs: Runs = 15,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Check all workloads, and time three at one size.",
        ),
    ] = False,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", min=0, metavar="N", help="Begin no row after N minutes."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Also write the page to this file after every row, and all numbers to FILE.json.",
        ),
    ] = None,
    compile_only: Annotated[
        bool,
        typer.Option(
            "--compile-only",
            help="Only compile all kernels for compute capability 9.0, without a GPU, into ABW_HOME/kernels.",
        ),
    ] = False,
    no_tensor_cores: options.NoTensorCores = False,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Check all workloads on a GPU, then time them, compared with the floor and PyTorch.

    The most informative rows come first. Failures and hangs are reported at the end (exit code 1).
    """
    from abw.bench.cuda.bench import CALL_SECONDS, bench_cuda, checks, compile_all, in_order, quick_settings
    from abw.bench.cuda.rig import Rig
    from abw.bench.cuda.table import markdown
    from abw.bench.systems import chosen_cases
    from abw.bench.worker import Apart
    from abw.bench.workloads import files_of
    from abw.core.base.files import spare, write_json, write_text
    from abw.core.exec.cuda.driver.compiled import SM_90
    from abw.core.exec.cuda.tiles import HOPPER, forms_for

    begun = time.monotonic()
    cases = chosen_cases(workloads)
    for chosen in cases:
        read = files_of(chosen, specs, data)
        if output is not None:
            spare(output, *read)
    settings = quick_settings(cases) if quick else in_order(cases, hidden, batch)
    networks = [*checks(cases), *settings]
    so_far: dict[str, Any] = {}

    def tell(report: dict[str, Any]) -> None:
        so_far.update(report)
        if output is not None:
            write_text(output, markdown(report))
            write_json(output.with_suffix(".json"), report)

    with progress(quiet) as told:
        if compile_only:
            forms = HOPPER.without_tensor_cores() if no_tensor_cores else HOPPER
            made, failed = compile_all(specs, networks, SM_90, forms, told)
            print(f"{made} kernels are compiled")
            if failed:
                raise AbwError("; ".join(failed))
            return
        from abw.core.exec.cuda.available import open_device

        with closing(open_device()) as device:
            gpu = device.traits
        until = math.inf if minutes is None else begun + 60 * minutes
        # half of the time at most: kernels that come along are only found
        half = (begun + until) / 2
        forms = forms_for(gpu.processors, gpu.tf32 and not no_tensor_cores)
        compile_all(specs, networks, gpu.arch, forms, told, half)
        rig = partial(Rig, tensor_cores=not no_tensor_cores)
        apart = Apart(rig, data, specs, runs, seconds=CALL_SECONDS)
        try:
            bench_cuda(apart.call, cases, settings, runs, told, tell=tell, until=until)
        finally:
            # also after Ctrl-C
            apart.close()
            if so_far and as_json:
                print_json(so_far)
            elif so_far:
                print(markdown(so_far))
    if so_far["failures"]:
        raise AbwError(f"of the checks and timings {len(so_far['failures'])} failed: see above")
