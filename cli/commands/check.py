"""`abw check`: is the spec right, and does its data fit it?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from abw.cli import options
from abw.cli.console import amount, counted, give, grid, say


def check(
    spec: options.Spec,
    data: options.Data = None,
    limit: options.Limit = None,
    batch: options.Batch = None,
    sizes: options.Set = None,
    weights: options.Weights = None,
    granularity: options.Granularity = "cell",
    policy: Annotated[
        str | None,
        options.policies(
            "Also schedule all mini-batches with this policy, and check the schedules.", "--policy"
        ),
    ] = None,
    precision: options.Precision = None,
    seed: options.Seed = None,
    backward: Annotated[
        bool, typer.Option("--backward", help="Print each type's backward pass as equations instead.")
    ] = False,
    allow_outside: options.AllowOutside = False,
    as_json: options.Json = False,
) -> None:
    """Check a spec and all its data without running anything, and describe the graph.

    SPEC may also be a cell's file.
    """
    changes = options.overrides(data, limit, batch, sizes, seed, weights=weights, allow_outside=allow_outside)
    from abw.core.spec.load import is_cell
    from abw.core.tools.inspect import inspect, inspect_cell

    if policy:
        options.require_policy(policy, "--policy")
    if backward:
        from abw.core.tools import backward as told

        report = told.backward_of_cell(spec, changes.dims) if is_cell(spec) else told.backward(spec, changes)
        give(report, as_json, _print_backward)
    elif is_cell(spec):
        give(inspect_cell(spec, changes.dims), as_json, _print_cell)
    else:
        give(inspect(spec, changes, granularity, policy, precision or "float32"), as_json, _print)


def _print_cell(report: dict[str, Any]) -> None:
    from abw.core.base.console import Console

    def ports(shapes: dict[str, list[int]]) -> str:
        return ", ".join(f"{name} [{'x'.join(map(str, shape))}]" for name, shape in shapes.items())

    console = Console()
    console.print(
        f"ok  {report['spec']}: cell {report['cell']}, {report['parameters']:,} numbers in parameters"
    )
    console.print(f"{ports(report['inputs'])} -> {ports(report['outputs'])}")
    console.print(
        f"{counted(report['operations'], 'operation')} in {counted(report['batches'], 'batch', 'es')}"
    )


def _print_backward(report: dict[str, Any]) -> None:
    for number, told in enumerate(report["types"]):
        say(f"{chr(10) if number else ''}{told['type']}")
        for part in told.get("parts", ()):
            sums = f", {', '.join(part['summed'])} summed over its edges" if part["summed"] else ""
            say("\n    ".join([f"  at each {part['at']}{sums}", *part["equations"]]))
        if "reduction" in told:
            if not told["parts"]:
                say("  each neighbour has the gradient of the sum")
            continue
        for title, lines in (
            ("saved by the forward pass", [", ".join(told["saved"])]),
            ("gradients of outputs", [", ".join(told["gradients"])]),
            ("at each node", told["equations"]),
            ("gradients of inputs", [", ".join(told["inputs"])]),
            ("summed over all nodes", told["weights"]),
            ("no gradient", [", ".join(told["none"])]),
        ):
            if any(lines):
                say("\n    ".join([f"  {title}", *lines]))


def _print_growth(growth: dict[str, Any]) -> None:
    """What grows, and when the types are computed."""
    from abw.core.base.console import Console

    console = Console()
    for kind in growth["kinds"]:
        most = f", at most {kind['most']:,} an instance" if kind["most"] else " (given)"
        decisions = "; ".join(f"{name}: {how}" for name, how in kind["decisions"].items())
        adds = f"; adds {', '.join(kind['adds'])}" if kind["adds"] else ""
        console.print(f"    {kind['kind']}{most}{'; ' if decisions else ''}{decisions}{adds}")
    for name in growth["numbers"]:
        console.print(
            f"    output '{name}' is written as numbers: it has words where a clause gives the decision to a "
            "field whose table has a vocab"
        )
    for phase, what in (("before", ""), ("during", " (each round, in this order)"), ("after", "")):
        if growth[phase]:
            console.print(f"    {phase} growth{what}: {', '.join(growth[phase])}")


def _print_room(taken: dict[str, int]) -> None:
    """What to do where more is taken than is free."""
    from rich.text import Text

    from abw.core.base.console import Console

    if taken["total"] > taken["available"]:
        free = f"too much: {amount(taken['available'], 'B')} are free"
        less = "; a smaller mini-batch (--batch) takes less, or smaller dims (--set)"
        Console().print(Text.assemble((free, "yellow"), less))


def _print_training(training: dict[str, Any]) -> None:
    """What a training takes, or why there is none."""
    from rich.text import Text

    from abw.core.base.console import Console

    if "error" in training:
        Console().print(Text(f"    abw train cannot be run on it: {training['error']}"))
        return
    parts = {
        "weights": "weights",
        "gradient": "gradients",
        "optimizer": "the optimiser",
        "instances": "instances",
        "mini_batches": "mini-batches",
        "moment": "first step or dev data",
        "pytorch": "PyTorch to read them",
        "at_rest": "abw itself",
    }
    said = ", ".join(f"{name} {amount(training[key], 'B')}" for key, name in parts.items() if training[key])
    Console().print(Text(f"    abw train takes {amount(training['total'], 'B')}: {said}"))
    _print_room(training)


def _print(report: dict[str, Any]) -> None:
    from rich.text import Text

    from abw.core.base.console import Console

    console, ok = Console(), ("ok", "green")
    numbers = f"{report['parameters']:,} numbers in parameters, {report['table_numbers']:,} in tables"
    console.print(Text.assemble(ok, f"  {report['spec']}: ", (report["model"], "bold"), f", {numbers}"))
    graphs = (
        f"{counted(report['nodes'], 'node')} in {counted(report['mini_batches'], 'mini-batch', 'es')} of "
        f"{report['batch']}, lower bound {report['lower_bound']}"
    )
    instances = counted(report["instances"], "instance")
    console.print(Text.assemble(ok, f"  {report['data']}: {instances}, {graphs}"))
    if report["policy"]:
        console.print(
            Text.assemble(
                ok,
                f"  policy {report['policy']}: {counted(report['batches'], 'batch', 'es')}, "
                f"{report['ns_per_node']:.0f} ns a node",
            )
        )
    if report["memory_bytes"] is not None:
        most = " at most" if report["growth"] else ""
        console.print(
            f"    the largest mini-batch takes{most} {amount(report['memory_bytes'], 'B')} of memory"
        )
        process = report["process_bytes"]
        reads = process["pytorch"]
        pytorch = f"PyTorch, which reads them, {amount(reads, 'B')}, " if reads else ""
        console.print(
            f"    abw run takes {amount(process['total'], 'B')} with it: weights "
            f"{amount(process['weights'], 'B')}, {pytorch}instances "
            f"{amount(process['instances'], 'B')}, abw itself {amount(process['at_rest'], 'B')}"
        )
        _print_room(process)
    if training := report["training_bytes"]:
        _print_training(training)
    if growth := report["growth"]:
        _print_growth(growth)
    console.print()
    table = grid("type", "nodes", "depth in the first mini-batch", "reads", prose="reads")
    for row in report["types"]:
        table.add_row(row["type"], f"{row['nodes']:,}", f"{row['depth']:,}", ", ".join(row["reads"]))
    console.print(table)
