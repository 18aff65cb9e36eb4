"""The executor `cuda` on real data: checked, then timed beside the floor and PyTorch by level."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abw.bench.cuda.rig import CHECKED_HIDDEN, CHECKED_INSTANCES
from abw.bench.cuda.table import beside_published
from abw.bench.workloads import Case
from abw.core.base.cores import usable_cores
from abw.core.base.errors import AbwError

if TYPE_CHECKING:
    from abw.core.base.progress import Progress
    from abw.core.exec.cuda.backend import Kernels, Scheme
    from abw.core.exec.cuda.measure.costs import Costs
    from abw.core.exec.cuda.measure.floor import Limits
    from abw.core.exec.cuda.tiles import Forms

    # A workload, its hidden size, instances in the mini-batch.
    Setting = tuple[Case, int, int]
    # A spec, its hidden size, the forms of its kernels.
    Network = tuple[Path, int, Forms]

SCHEMES: tuple[Scheme, ...] = ("batch", "plan")
# The workloads that say most: trees, lattices, chains.
FIRST = ("TreeLSTM", "LatticeLSTM", "BiLSTM-Tagger")
# The sizes that say most.
FIRST_HIDDEN, FIRST_BATCH = (256, 512, 128), (64, 8, 1, 256)
# Rows of which the schemes' times can be told.
ENOUGH = 8
# What a check or a row may take, on a machine that has compiled nothing yet.
CALL_SECONDS = 300.0


def in_order(cases: Sequence[Case], hidden: Iterable[int], batches: Iterable[int]) -> list[Setting]:
    """All settings, those first that say most: whenever the bench is stopped, what it has is worth most."""

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


def checks(cases: Iterable[Case]) -> list[Setting]:
    """What is checked before anything is timed."""
    return [(c, CHECKED_HIDDEN, CHECKED_INSTANCES) for c in cases]


def compared(setting: Setting) -> bool:
    """Whether a setting is timed without tensor cores, too: where they have most to do."""
    chosen, hidden, batch = setting
    return chosen.name in FIRST and hidden >= 256 and batch >= 256


def bench_cuda(
    call: Callable[..., Any],
    cases: Sequence[Case],
    settings: Sequence[Setting],
    runs: int,
    progress: Progress,
    *,
    tell: Callable[[dict[str, Any]], None] = lambda report: None,
    until: float = math.inf,
) -> dict[str, Any]:
    """First every workload against the reference executor, by both schemes; then medians of `runs` runs.

    `call(method, *args)` calls a `Rig`. A scheme that is wrong on a workload, hangs or fails is in `failures`
    and is not timed on it. `tell` gets the report after each row. No row begins after `until`
    (`time.monotonic`).

    A row for each setting: `device_seconds` by the GPU's own clock, from the plan in its memory to the
    results there, of the scheme that is faster (`schemes` has both); `total_seconds` by the wall clock,
    with the plan's upload, the launch and the results' way back; `floor_seconds` (see
    `core/exec/cuda/measure/floor.py`), from `limits` measured before; `torch_seconds` by the GPU's clock,
    null where PyTorch cannot use the GPU (`torch` says why); `plain_seconds` those of scheme batch
    without tensor cores, null where that was not timed (see `compared`). `left_out` counts the rows that
    there was no time for. From the rows follow the times by which later runs choose a scheme
    (`core/exec/cuda/measure/costs.py`); `choices`: how they choose, and how those before did, on these
    rows (see `judged`), if there are enough. Errors: AbwError where there is no GPU.
    """
    report: dict[str, Any] = {
        "schema_version": 1,
        "runs": runs,
        "errors": {},
        "failures": [],
        "rows": [],
        "left_out": len(settings),
    }

    from abw.core.exec.cuda.measure.costs import Costs
    from abw.core.exec.cuda.measure.floor import PUBLISHED

    def attempt(what: str, method: str, *args: Any) -> Any:  # noqa: ANN401
        try:
            return call(method, *args)
        except AbwError as error:
            report["failures"].append({"what": what, "error": str(error)})
            return None

    progress.phase("measure the GPU")
    report |= call("opened")
    limits = attempt("the GPU measured", "measured") or PUBLISHED
    report |= {"limits": asdict(limits), "published": []}
    tell(report)
    progress.phase("check", len(cases) * len(SCHEMES))
    right: dict[str, list[Scheme]] = {c.name: [] for c in cases}
    for number, (chosen, scheme) in enumerate(product(cases, SCHEMES), 1):
        name = chosen.name
        error = attempt(f"{name}, scheme {scheme}, checked", "checked", name, scheme)
        if error is not None:
            right[name].append(scheme)
            report["errors"].setdefault(name, {})[scheme] = error
        progress.reached(number, f"{name}, scheme {scheme}: {'failed' if error is None else 'right'}")
        tell(report)
    progress.phase("time", len(settings))
    for number, (chosen, size, batch) in enumerate(settings, 1):
        if time.monotonic() > until:
            break
        name = chosen.name
        what = f"{name}, hidden {size}, batch {batch}"
        without = compared((chosen, size, batch))
        row = right[name] and attempt(what, "timed", name, size, batch, right[name], limits, without)
        if row:
            report["rows"].append(row)
            what += f": {row['device_seconds'] * 1e3:.3f} ms"
        report["left_out"] -= 1
        report["published"] = beside_published(report["rows"], limits.flops)
        progress.reached(number, what)
        tell(report)
    if costs := fitted(report["rows"], limits):
        attempt("times of the schemes kept", "kept", costs)
        both = {"before": Costs(limits), "now": costs}
        report["choices"] = {when: judged(report["rows"], those) for when, those in both.items()}
        tell(report)
    return report


def fitted(rows: Sequence[dict[str, Any]], limits: Limits) -> Costs | None:
    """The schemes' times from rows that have both, by least squares of relative errors; None from few."""
    import numpy as np

    from abw.core.exec.cuda.measure.costs import Costs, Times
    from abw.core.run.measure import fit

    both = [r for r in rows if len(r["schemes"]) == len(SCHEMES)]
    if len(both) < ENOUGH:
        return None
    flops = np.array([r["product_flops"] for r in both], np.float64)
    times: dict[Scheme, Times] = {}
    for scheme, count in zip(SCHEMES, ("items", "phases"), strict=True):
        steps = np.array([r[count] for r in both], np.float64)
        seconds = np.array([r["schemes"][scheme]["device_seconds"] for r in both])
        step, flop, _ = fit(flops / steps, seconds / steps)
        times[scheme] = Times(step, flop)
    return Costs(limits, times["batch"], times["plan"])


def judged(rows: Sequence[dict[str, Any]], costs: Costs) -> dict[str, Any]:
    """How costs choose: in how many of the `rows` the slower scheme (`wrong`), which takes so much longer in
    the worst of them (`loss`)."""
    both = [r for r in rows if len(r["schemes"]) == len(SCHEMES)]
    losses = []
    for r in both:
        chosen = r["schemes"][costs.choose(r["items"], r["phases"], r["product_flops"])]
        losses.append(chosen["device_seconds"] / r["device_seconds"] - 1)
    return {"rows": len(both), "wrong": sum(loss > 0 for loss in losses), "loss": max(losses)}


def compile_all(
    specs: Path,
    settings: Sequence[Setting],
    arch: tuple[int, int],
    forms: Forms,
    progress: Progress,
    until: float = math.inf,
) -> tuple[int, list[str]]:
    """Compile what the settings' networks need on a GPU of an architecture, on all cores, in their order.

    No network is begun after `until` (`time.monotonic`): who needs it compiles it then. How many kernels were
    made or found, and what was said where that failed. Errors: AbwError without a compiler.
    """
    from abw.core.exec.cuda.measure.probe import compiled

    made, failures = len(compiled(arch)), []
    networks = networks_of(specs, settings, forms)
    progress.phase("compile", len(networks))
    processes = min(usable_cores(), len(networks))
    waiting = iter(networks)
    running: dict[Future[int], Network] = {}
    try:
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            while True:
                while len(running) < processes and time.monotonic() < until:
                    if (network := next(waiting, None)) is None:
                        break
                    running[pool.submit(_compile, *network, arch)] = network
                if not running:
                    break
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    network = running.pop(done)
                    spec, hidden, _ = network
                    try:
                        made += done.result()
                    except AbwError as error:
                        failures.append(f"{spec}: {error}")
                    progress.reached(networks.index(network) + 1, f"{spec.stem}, hidden {hidden}")
    except BrokenExecutor as error:  # a process died, as for want of memory: who needs the rest compiles it
        failures.append(f"compiling stopped: {error}")
    return made, failures


def networks_of(specs: Path, settings: Iterable[Setting], forms: Forms) -> list[Network]:
    """What settings need, each once: with these forms, and without tensor cores where that is timed."""
    networks: list[Network] = []
    for setting in settings:
        chosen, hidden, _ = setting
        networks.append((specs / chosen.spec, hidden, forms))
        if compared(setting):
            networks.append((specs / chosen.spec, hidden, forms.without_tensor_cores()))
    return list(dict.fromkeys(networks))


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
