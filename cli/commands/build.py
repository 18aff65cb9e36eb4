"""`abw build`: a model as a shared library of C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from abw.cli import options
from abw.cli.console import amount, show
from abw.cli.groups import flag, group, option, without
from abw.cli.usage import one_of


@group
class Building:
    """What is built, and where it is written."""

    output: Path | None = option("Write the library to this file.", "FILE", "-o", shown="libMODEL.so")
    target: list[str] | None = option(
        "Processors to build for: native, avx512, avx2 or plain; repeatable: the best is taken when loaded.",
        "NAME",
        shown="native",
    )
    weights_beside: bool = flag("Write the weights to a file beside the library instead of into it.")
    policy: str | None = options.policy_option("Schedule with this policy.", shown="as `abw run`")
    precision: options.PrecisionName | None = options.PRECISION
    hoist: bool = flag("Compute the products of table rows once, before the first call.")


def build(
    spec: options.Spec,
    changes: Annotated[options.Changes, without("limit", "batch")],
    building: Building,
    output: options.Output,
) -> None:
    """Build a shared library of C that answers without Python, and its header.

    Its answers are those of `abw run`, bit for bit. Building needs a C compiler; using it, libc and libm.
    """
    from typing import cast, get_args

    from abw.core.api import load
    from abw.core.base.files import refuse_overwrite
    from abw.core.build.library import BuildTarget
    from abw.core.policy.registry import CHOSEN

    for name in building.target or ():
        one_of(name, get_args(BuildTarget), "--target")
    if building.policy:
        options.require_policy(building.policy, "--policy")
    if building.output:
        for file in (building.output, *map(building.output.with_suffix, (".h", ".weights"))):
            refuse_overwrite(file, spec, changes.weights)
    with output.progress() as progress:
        progress.phase("load the model", 1)
        model = load(
            spec,
            weights=changes.weights,
            data=changes.data,
            dims=changes.dims,
            policy=building.policy or CHOSEN,
            precision=building.precision or "float32",
            hoist=building.hoist,
            threads=1,
            seed=changes.seed,
            allow_outside=changes.allow_outside,
        )
        progress.phase("build the library", 1)
        file = building.output or Path(f"lib{model.spec.name}.so")
        targets = cast("list[BuildTarget]", building.target or ["native"])
        report = model.build(file, target=targets, beside=building.weights_beside)
    random = model.spec.weights.file is None
    report = {"schema_version": 1, "model": model.spec.name, **report, "random_weights": random}
    output.summarize(report, _print)


def _print(report: dict[str, Any]) -> None:
    targets = ", ".join(report["targets"])
    show([(report["library"], "bold"), f": {amount(report['bytes'], 'B')}, for {targets}"], whole=True)
    show(f"header: {report['header']}", whole=True)
    if report["weights"]:
        show(f"weights: {report['weights']}", whole=True)
    if report["random_weights"]:
        show([("its weights are random", "yellow"), ": --weights FILE"])
