"""`abw check`: is the spec right, and does its data fit it?"""

from __future__ import annotations

from typing import Any, Literal

from abw.cli import options
from abw.cli.console import Columns, amount, counted, say, show, table
from abw.cli.groups import flag, group, option


@group
class Checks:
    """What is checked, and what is printed of it."""

    granularity: Literal["cell", "op"] = options.GRANULARITY
    policy: str | None = options.policy_option(
        "Also schedule all mini-batches with this policy, and check the schedules."
    )
    precision: options.PrecisionName | None = options.PRECISION
    dedup: options.DedupName = option(options.DEDUP_HELP, default="auto")
    backward: bool = flag("Print each type's backward pass as equations instead.")


def check(spec: options.Spec, changes: options.Changes, checks: Checks, output: options.Output) -> None:
    """Check a spec and all its data without running anything, and describe the graph.

    SPEC may also be a cell's file.
    """
    overrides = changes.overrides()
    from abw.core.spec.load import is_cell
    from abw.core.tools.inspect import inspect, inspect_cell

    if checks.policy:
        options.require_policy(checks.policy, "--policy")
    if checks.backward:
        from abw.core.tools.backward import backward, backward_of_cell

        report = backward_of_cell(spec, changes.dims) if is_cell(spec) else backward(spec, overrides)
        output.give(report, _print_backward)
    elif is_cell(spec):
        output.give(inspect_cell(spec, changes.dims), _print_cell)
    else:
        precision = checks.precision or "float32"
        found = inspect(spec, overrides, checks.granularity, checks.policy, precision, checks.dedup)
        output.give(found, _print)


def _print_cell(report: dict[str, Any]) -> None:
    def ports(shapes: dict[str, list[int]]) -> str:
        return ", ".join(f"{name} [{'x'.join(map(str, shape))}]" for name, shape in shapes.items())

    show(
        f"ok  {report['spec']}: cell {report['cell']}, {report['parameters']:,} numbers in parameters",
        f"{ports(report['inputs'])} -> {ports(report['outputs'])}",
        f"{counted(report['operations'], 'operation')} in {counted(report['batches'], 'batch', 'es')}",
    )


def _print_backward(report: dict[str, Any]) -> None:
    for number, found in enumerate(report["types"]):
        say(f"{chr(10) if number else ''}{found['type']}")
        for part in found.get("parts", ()):
            sums = f", {', '.join(part['summed'])} summed over its edges" if part["summed"] else ""
            say("\n    ".join([f"  at each {part['at']}{sums}", *part["equations"]]))
        if "reduction" in found:
            if not found["parts"]:
                say("  each neighbour has the gradient of the sum")
            continue
        for title, lines in (
            ("saved by the forward pass", [", ".join(found["saved"])]),
            ("gradients of outputs", [", ".join(found["gradients"])]),
            ("at each node", found["equations"]),
            ("gradients of inputs", [", ".join(found["inputs"])]),
            ("summed over all nodes", found["weights"]),
            ("no gradient", [", ".join(found["none"])]),
        ):
            if any(lines):
                say("\n    ".join([f"  {title}", *lines]))


def _print_growth(growth: dict[str, Any]) -> None:
    """Print what grows, and when each type is computed."""
    for kind in growth["kinds"]:
        most = f", at most {kind['most']:,} an instance" if kind["most"] else " (given)"
        decisions = "; ".join(f"{name}: {how}" for name, how in kind["decisions"].items())
        adds = f"; adds {', '.join(kind['adds'])}" if kind["adds"] else ""
        show(f"    {kind['kind']}{most}{'; ' if decisions else ''}{decisions}{adds}")
    for name in growth["numbers"]:
        show(
            f"    output '{name}' is written as numbers: it has words where a clause gives the decision to a "
            "field whose table has a vocab"
        )
    for phase, what in (("before", ""), ("during", " (each round, in this order)"), ("after", "")):
        if growth[phase]:
            show(f"    {phase} growth{what}: {', '.join(growth[phase])}")


def _print_room(taken: dict[str, int]) -> None:
    """Print what to do if more memory is needed than is free."""
    if taken["total"] > taken["available"]:
        free = f"too much: {amount(taken['available'], 'B')} are free"
        less = "; a smaller mini-batch (--batch) takes less, or smaller dims (--set)"
        show([(free, "yellow"), less])


def _print_training(training: dict[str, Any]) -> None:
    """Print the memory that training needs, or why there is none."""
    if "error" in training:
        show(f"    abw train cannot be run on it: {training['error']}")
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
    show(f"    abw train takes {amount(training['total'], 'B')}: {said}")
    _print_room(training)


def _print(report: dict[str, Any]) -> None:
    ok = ("ok", "green")
    numbers = f"{report['parameters']:,} numbers in parameters, {report['table_numbers']:,} in tables"
    show([ok, f"  {report['spec']}: ", (report["model"], "bold"), f", {numbers}"])
    fewer = f" ({report['distinct']:,} distinct)" if report["distinct"] < report["nodes"] else ""
    graphs = (
        f"{counted(report['nodes'], 'node')}{' before growth' if report['growth'] else ''}{fewer} in "
        f"{counted(report['mini_batches'], 'mini-batch', 'es')} of {report['batch']}, "
        f"lower bound {report['lower_bound']}"
    )
    instances = counted(report["instances"], "instance")
    show([ok, f"  {report['data']}: {instances}, {graphs}"])
    if report["policy"]:
        batches, cost = counted(report["batches"], "batch", "es"), f"{report['ns_per_node']:.0f} ns a node"
        show([ok, f"  policy {report['policy']}: {batches}, {cost}"])
    if report["one_pass"]:
        show(f"    a call from Python is not one compiled pass: {report['one_pass']}")
    if report["memory_bytes"] is not None:
        most = " at most" if report["growth"] else ""
        show(f"    the largest mini-batch takes{most} {amount(report['memory_bytes'], 'B')} of memory")
        process = report["process_bytes"]
        reads = process["pytorch"]
        pytorch = f"PyTorch, which reads them, {amount(reads, 'B')}, " if reads else ""
        show(
            f"    abw run takes {amount(process['total'], 'B')} with it: weights "
            f"{amount(process['weights'], 'B')}, {pytorch}instances "
            f"{amount(process['instances'], 'B')}, abw itself {amount(process['at_rest'], 'B')}"
        )
        _print_room(process)
    if training := report["training_bytes"]:
        _print_training(training)
    if growth := report["growth"]:
        _print_growth(growth)
    show("")
    if report["hoisted"]:
        show(f"Hoisted by itself: products of {', '.join(report['hoisted'])}")
    if report["kept_leaves"]:
        rows = ", ".join(f"{count:,} of {name}" for name, count in report["kept_leaves"].items())
        show(f"Kept from one mini-batch to the next: outputs of up to {rows}")
    columns: Columns = {
        "type": "type",
        "nodes": "nodes:,",
        **({"distinct": "distinct:,"} if fewer else {}),
        "depth in the first mini-batch": "depth:,",
        "reads": "reads",
    }
    show(table(report["types"], columns, prose="reads"))
