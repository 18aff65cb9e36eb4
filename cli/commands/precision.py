"""`abw compare-precision`: what weights in fewer bits do to a model's outputs."""

from __future__ import annotations

from typing import Any

from abw.cli import options
from abw.cli.console import amount, counted, duration, grid, show
from abw.cli.groups import group, option
from abw.cli.usage import one_of


@group
class Precisions:
    """What is compared, and on how many threads."""

    precisions: str = option("Precisions to compare with float32.", "NAME,...", default="bf16,int8")
    threads: int | None = options.THREADS


def compare_precision(
    spec: options.Spec, precisions: Precisions, changes: options.Changes, output: options.Output
) -> None:
    """Show what weights in bfloat16 and int8 (`abw run --precision`) do to a model's outputs.

    For each output: how often its largest element is the same as in float32, the largest and mean error;
    also the weights' memory and the kernels' speed on executor cpu.
    """
    from abw.core.exec.precision import PRECISIONS
    from abw.core.tools.precisions import compare_precisions

    names = (name.strip() for name in precisions.precisions.split(",") if name)
    chosen: Any = [one_of(name, PRECISIONS, "--precisions") for name in names]
    with output.progress() as progress:
        report = compare_precisions(
            spec,
            changes.overrides(),
            chosen,
            seed=changes.seed or 0,
            threads=precisions.threads,
            progress=progress,
        )
    output.give(report, _print)


def _print(report: dict[str, Any]) -> None:
    show([(report["model"], "bold"), f" on {report['data']}"])
    show(f"{counted(report['instances'], 'instance')} in mini-batches of {report['batch']}")
    if report["weights"]:
        show(f"weights {report['weights']}", whole=True)
    else:
        show(f"random weights, seed {report['seed']}: trained ones say more (--weights)", style="yellow")
    show("")
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
            table.add_row(*head, found["output"], *_agreement(row["precision"], found))
            head = [""] * 4
    show(table)
    show(
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
            show(f"up to {counted(most, what)} {reason}", style="yellow")


def _agreement(precision: str, found: dict[str, Any]) -> list[str]:
    """How far an output agrees with that of float32; nothing for float32 itself."""
    if precision == "float32":
        return ["", "", ""]
    agree, many = found["agree"], found["values"]
    said = "" if agree is None or not many else f"{100 * agree / many:.2f} %"
    errors = (found["largest_error"], found["mean_error"])
    return [said, *("" if error is None else f"{error:.1e}" for error in errors)]
