"""`abw compare-precision`: what weights in fewer bits do to a model's outputs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from abw.cli import options
from abw.cli.console import amount, counted, duration, grid, print_json, progress
from abw.cli.usage import one_of


def compare_precision(
    spec: options.Spec,
    precisions: Annotated[
        str, typer.Option("--precisions", metavar="NAME,...", help="Precisions to compare with float32.")
    ] = "bf16,int8",
    data: options.Data = None,
    limit: options.Limit = None,
    batch: options.Batch = None,
    sizes: options.Set = None,
    weights: options.Weights = None,
    seed: options.Seed = None,
    threads: options.Threads = None,
    allow_outside: options.AllowOutside = False,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Show what weights in bfloat16 and int8 (`abw run --precision`) do to a model's outputs.

    For each output: how often its largest element is the same as in float32, the largest and mean error;
    also the weights' memory and the kernels' speed on executor cpu.
    """
    changes = options.overrides(data, limit, batch, sizes, seed, weights=weights, allow_outside=allow_outside)
    from abw.core.exec.precision import PRECISIONS
    from abw.core.tools.precisions import compare_precisions

    chosen = [one_of(name.strip(), PRECISIONS, "--precisions") for name in precisions.split(",") if name]
    with progress(quiet) as shown:
        report = compare_precisions(
            spec,
            changes,
            chosen,  # type: ignore[arg-type]
            seed=seed or 0,
            threads=threads,
            progress=shown,
        )
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print(report: dict[str, Any]) -> None:
    from rich.text import Text

    from abw.core.base.console import Console

    console = Console()
    console.print(Text.assemble((report["model"], "bold"), f" on {report['data']}"))
    console.print(f"{counted(report['instances'], 'instance')} in mini-batches of {report['batch']}")
    if report["weights"]:
        console.print(f"weights {report['weights']}", soft_wrap=True)
    else:
        said = f"random weights, seed {report['seed']}: trained ones say more (--weights)"
        console.print(said, style="yellow")
    console.print()
    table = grid(
        "precision", "weights", "kernels", "speed", "output", "same answer", "largest error", "mean error",
        left=["precision", "output"],
    )  # fmt: skip
    for row in report["precisions"]:
        head = [
            row["precision"],
            amount(row["packed_bytes"], "B"),
            duration(row["seconds"]),
            f"{row['speed']:.2f} x",
        ]
        for found in row["outputs"]:
            table.add_row(*head, found["output"], *_told(row["precision"], found))
            head = [""] * 4
    console.print(table)
    console.print(
        "errors are relative to the root mean square of the output in float32; the same answer: the same "
        "largest element, or decision",
        style="dim",
    )
    every = [found for row in report["precisions"] for found in row["outputs"]]
    for key, what, reason in (
        ("other_instances", "instance", "grew otherwise, and are left out"),
        ("not_finite", "number", "are NaN or infinite, and are in no error"),
    ):
        if most := max((found[key] for found in every), default=0):
            console.print(f"up to {counted(most, what)} {reason}", style="yellow")


def _told(precision: str, found: dict[str, Any]) -> list[str]:
    """What is said of an output: nothing of float32, which all is compared with."""
    if precision == "float32":
        return ["", "", ""]
    agree, many = found["agree"], found["values"]
    said = "" if agree is None or not many else f"{100 * agree / many:.2f} %"
    errors = (found["largest_error"], found["mean_error"])
    return [said, *("" if error is None else f"{error:.1e}" for error in errors)]
