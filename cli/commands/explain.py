"""`abw explain`: why so many batches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from abw.cli import completion, options, programs
from abw.cli.console import amount, counted, duration, give, grid, progress, say_random

# The most reasons, instances and types that a screen is given; --json has all.
REASONS, INSTANCES, TYPES = 5, 4, 12


def explain(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN|SPEC]",
            help="A run's number or folder, a spec, or program.py:function; by default the latest run.",
            autocompletion=completion.runs_and_specs,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        options.policies("Schedule with this policy (a run's own; for a spec auto).", "--policy"),
    ] = None,
    mini_batch: Annotated[
        int, typer.Option("--mini-batch", min=0, metavar="N", help="Number of the mini-batch.")
    ] = 0,
    data: options.Data = None,
    format: programs.Format = None,
    limit: options.Limit = None,
    batch: options.Batch = None,
    sizes: options.Set = None,
    weights: options.Weights = None,
    encoding: options.Encoding = "best",
    granularity: options.GranularityOrGraph = "cell",
    seed: options.Seed = None,
    allow_outside: options.AllowOutside = False,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Explain why a mini-batch took so many batches, by type, cause and instance.

    Options that change a spec apply only to specs; a run is explained as it was, or with --policy.
    """
    changes = options.overrides(data, limit, batch, sizes, seed, weights=weights, allow_outside=allow_outside)
    from abw.core.spec.shipped import find_shipped
    from abw.core.tools.explain import explain_program, explain_run, explain_spec

    if policy:
        options.require_policy(policy, "--policy")
    if options.is_program(target):
        programs.refuse_options(context)
        chosen = programs.looked_at(context.params)
        with progress(quiet):
            give(explain_program(str(target), chosen, mini_batch, policy), as_json, _print)
        return
    programs.refuse_for_spec(context)
    if target and (shipped := find_shipped(target)):
        target = str(shipped)
    if target and target.endswith((".yaml", ".yml")):
        name = policy or ("auto" if encoding == "best" else "fsm")
        with progress(quiet) as told:
            report = explain_spec(
                Path(target),
                changes,
                name,
                told,
                encoding=encoding,
                granularity=programs.of_spec(granularity),
                number=mini_batch,
            )
    else:
        report = explain_run(options.run_of(target), mini_batch, policy)
    give(report, as_json, _print)


def _print(report: dict[str, Any]) -> None:
    from rich.text import Text

    from abw.core.base.console import Console

    say_random(report["random_weights"])
    console = Console()
    more, growth = report["batches"] - report["lower_bound"], report["growth"]
    by_rounds = growth and growth["bound_by_rounds"]
    console.print(
        Text.assemble(
            (report["model"], "bold"),
            f", mini-batch {report['mini_batch']} of {report['mini_batches']}, policy {report['policy']}: ",
            (counted(report["batches"], "batch", "es"), "bold"),
            f" for {counted(report['nodes'], 'node')}; no schedule has fewer than {report['lower_bound']}"
            + (f", and none that goes round by round than {by_rounds}" if by_rounds is not None else "")
            + "\n",
        ),
    )
    console.print(_types(report))
    for t in report["types"]:
        if t["lower_bound"] == max(row["lower_bound"] for row in report["types"]):
            console.print(
                f"\nThe longest chain: {t['lower_bound']} × {t['type']}, in {_in(t['longest_in'])}."
            )
            break
    console.print()
    if more:
        _print_reasons(console, report)
    else:
        console.print("Every batch was needed: this is the lower bound.")
    _print_alone(console, report)
    if report["growth"]:
        _print_growth(console, report["growth"])
    if memory := report["memory"]:
        _print_memory(console, memory)
    if time := report["time"]:
        _print_times(console, time)
    _print_advice(console, report)


def _types(report: dict[str, Any]) -> Any:  # noqa: ANN401
    table = grid("type", "nodes", "lower bound", "batches", "too many", "rows a batch", "of one row")
    shown = report["types"]
    if len(shown) > TYPES:
        shown = sorted(shown, key=lambda t: -t["not_free"])[:TYPES]
    for t in shown:
        rows = "" if t["mean_rows"] is None else f"{t['mean_rows']:.1f}"
        many = str(t["not_free"] or "")
        table.add_row(
            t["type"],
            f"{t['nodes']:,}",
            str(t["lower_bound"]),
            str(t["batches"]),
            many,
            rows,
            str(t["alone"]),
        )
    rest = [t for t in report["types"] if t not in shown]
    if rest:
        sums = [sum(t[key] for t in rest) for key in ("nodes", "lower_bound", "batches", "not_free", "alone")]
        nodes, bound, batches, many, alone = map(str, sums)
        table.add_row(
            f"{len(rest)} other types", nodes, bound, batches, many, f"{sums[0] / max(1, sums[2]):.1f}", alone
        )
    return table


def _print_reasons(console: Any, report: dict[str, Any]) -> None:  # noqa: ANN401
    from rich.text import Text

    more, reasons = report["batches"] - report["lower_bound"], report["reasons"]
    console.print(
        Text.assemble(
            (f"{counted(more, 'batch', 'es')} too many", "bold"),
            ": each went ahead without nodes at the head of its type's longest chain, so that the type needs "
            "as many batches after it as before.",
        )
    )
    for reason in reasons[:REASONS]:
        held = report["held"][reason["example"]]
        late, waits = held["late"][-1], held["waits_for"]
        said = (
            f"{_node(late)} was ready, and left out until batch {late['step']}"
            if held["was_ready"]
            else f"{_node(late)} came in batch {late['step']}, behind "
            f"{waits['type']} {waits['number']}, ready but passed over"
        )
        why = f"did not wait for {reason['waits_for']}" if reason["waits_for"] else "left ready nodes out"
        console.print(f"  {reason['batches']:>4} × {reason['type']} {why}")
        console.print(f"         batch {held['step']}: {said}", style="dim")
    rest = sum(reason["batches"] for reason in reasons[REASONS:])
    if rest:
        console.print(f"  {rest:>4} for {len(reasons) - REASONS} other reasons (--json)")
    first = ", ".join(
        f"{i['instance']} (in {counted(i['batches'], 'batch', 'es')})"
        for i in report["instances"][:INSTANCES]
    )
    console.print(f"The last late node belonged to instance {first}" + _etc(report["instances"], INSTANCES))


def _print_alone(console: Any, report: dict[str, Any]) -> None:  # noqa: ANN401
    from rich.text import Text

    alone = report["alone"]
    if not alone:
        return
    count: dict[int, int] = {}
    for node in alone:
        count[node["instance"]] = count.get(node["instance"], 0) + 1
    ranked = sorted(count.items(), key=lambda item: (-item[1], item[0]))
    types = sorted((t for t in report["types"] if t["alone"]), key=lambda t: -t["alone"])
    by_type = ", ".join(f"{t['type']} {t['alone']}" for t in types[:INSTANCES])
    by_type += f" and {len(types) - INSTANCES} types more" if len(types) > INSTANCES else ""
    first = ", ".join(f"{instance} ({times})" for instance, times in ranked[:INSTANCES])
    verb = "batch has" if len(alone) == 1 else "batches have"
    said = f": {by_type}; of instance {first}" + _etc(ranked, INSTANCES)
    console.print(Text.assemble((f"\n{len(alone)} {verb} one row", "bold"), said))


def _print_growth(console: Any, growth: dict[str, Any]) -> None:  # noqa: ANN401
    from rich.text import Text

    from abw.viz.drawing.chart import Chart, Line, chart_text

    rounds, growing, instances = growth["rounds"], growth["growing"], growth["instances"]
    half = next((r for r, count in enumerate(growing, 1) if 2 * count < instances), None)
    said = f", the last with work for {counted(growing[-1], 'instance')} of {instances}"
    said += f" ({_in(growth['longest'])})" if growing[-1] <= INSTANCES else ""
    said += f", from round {half} on for fewer than half of them" if half else ""
    console.print(Text.assemble((f"\nGrown in {counted(rounds, 'round')}", "bold"), f"{said}."))
    if rounds > 1 and len(set(growing)) > 1:
        line = Line("", tuple((float(r), float(count)) for r, count in enumerate(growing, 1)))
        console.print(chart_text(Chart("Still growing", "round", "instances", (line,)), rows=4))
    for cut in growth["cut"]:
        these, first = (
            [at["instance"] for at in cut["instances"]],
            min(at["round"] for at in cut["instances"]),
        )
        console.print(
            f"{counted(len(these), 'instance')} reached `most: {cut['most']}` of {cut['kind']} and would "
            f"have grown more, from round {first} on: {_in(these[:INSTANCES])}{_etc(these, INSTANCES)}"
        )
    if taken := growth["time"]:
        _print_time(console, taken, rounds)


def _print_time(console: Any, taken: dict[str, Any], rounds: int) -> None:  # noqa: ANN401
    seconds, kernels = taken["seconds"], taken["kernels"]
    beside = max(0.0, seconds["execute"] - kernels)
    rest = ", ".join(f"{name} {duration(seconds[name])}" for name in ("construct", "schedule", "plan"))
    who = f"Python drives the rounds: {taken['driven']}" if taken["driven"] else "rounds are compiled"
    each = sum(seconds.values()) - kernels if taken["driven"] else beside
    console.print(
        f"Time on the executor cpu, one thread: kernels {duration(kernels)}, execution beside them "
        f"{duration(beside)}; {rest}. {who[0].upper()}{who[1:]}; at most {duration(each / rounds)} a round "
        "beside kernels."
    )


def _print_memory(console: Any, memory: dict[str, Any]) -> None:  # noqa: ANN401
    from rich.text import Text

    owners = "; ".join(f"{each['owner']} {amount(each['owner_bytes'], 'B')}" for each in memory["owners"])
    types = sorted(memory["types"], key=lambda each: -each["type_bytes"])
    needed = ", ".join(f"{each['type']} {amount(each['type_bytes'], 'B')}" for each in types[:INSTANCES])
    needed += f" and {len(types) - INSTANCES} types more" if len(types) > INSTANCES else ""
    console.print(
        Text.assemble(
            (f"\nValues take {amount(memory['rows_bytes'], 'B')}", "bold"),
            f"; most of them are needed in batch {memory['most_in']}: {amount(memory['most_bytes'], 'B')} "
            f"({needed}). {owners[0].upper()}{owners[1:]}.",
        )
    )


def _print_times(console: Any, time: dict[str, Any]) -> None:  # noqa: ANN401
    from rich.text import Text

    types, all = time["types"], sum(each["seconds"] for each in time["types"]) or 1.0
    shares = ", ".join(f"{each['type']} {each['seconds'] / all:.0%}" for each in types[:INSTANCES])
    longest = ", ".join(
        f"{each['step']} ({each['type']}, {duration(each['seconds'])})" for each in time["longest"]
    )
    console.print(
        Text.assemble(
            (f"\nExecuted in {duration(time['seconds'])}", "bold"),
            f" on {counted(time['threads'], 'thread')}: {shares}. The longest batches: {longest}.",
        )
    )


def _print_advice(console: Any, report: dict[str, Any]) -> None:  # noqa: ANN401
    better = {n: b for n, b in report["others"].items() if b < report["batches"]}
    ways = [f"{name}: {counted(batches, 'batch', 'es')}" for name, batches in better.items()]
    for name, after in (report["passes"] or {}).items():
        ways.append(f"`abw compare --{name}`: lower bound {after['lower_bound']}")
    if report["decides"]:
        said = "\nThe graph came in pieces, with decisions between them"
        console.print(f"{said}; as a whole: {'; '.join(ways)}." if ways else f"{said}.")
    elif ways:
        console.print(f"\nFewer batches: {'; '.join(ways)}. `abw compare SPEC` tries more.")


def _node(node: dict[str, Any]) -> str:
    return f"{node['type']} {node['number']} of instance {node['instance']}"


def _in(instances: list[int]) -> str:
    word = "instance" if len(instances) == 1 else "instances"
    return f"{word} {', '.join(map(str, instances))}"


def _etc(found: list[Any], shown: int) -> str:
    rest = len(found) - shown
    return f" and {rest} more." if rest > 0 else "."
