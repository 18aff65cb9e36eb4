"""`abw explain`: why so many batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from abw.cli import options, programs
from abw.cli.console import Columns, amount, counted, duration, listed, say_random, show, table
from abw.cli.groups import group, option

# The most reasons, instances and types that a screen is given; --json has all.
REASONS, INSTANCES, TYPES = 5, 4, 12


@group
class Explanation:
    """Which mini-batch is explained, under which policy."""

    policy: str | None = options.policy_option("Schedule with this policy (a run's own; for a spec auto).")
    mini_batch: int = option("Number of the mini-batch.", "N", default=0, least=0)
    format: options.DataFormat | None = options.FORMAT
    encoding: options.EncodingName | None = options.ENCODING
    granularity: Literal["cell", "op", "graph"] = options.NODES_OF_ANY
    dedup: options.DedupName | None = options.DEDUP


def explain(
    explanation: Explanation,
    changes: options.Changes,
    output: options.Output,
    target: Annotated[
        str | None,
        options.run_or_spec(
            "A run's number or folder, a spec, or program.py:function; by default the latest run."
        ),
    ] = None,
) -> None:
    """Explain why a mini-batch took so many batches, by type, cause and instance.

    Options that change a spec apply only to specs; a run is explained as it was, or with --policy.
    """
    overrides = changes.overrides()
    from abw.core.spec.shipped import find_shipped
    from abw.core.tools.explain import explain_program, explain_run, explain_spec

    policy, number = explanation.policy, explanation.mini_batch
    if policy:
        options.require_policy(policy, "--policy")
    if target and options.is_program(target):
        programs.refuse_options(explanation)
        chosen = programs.program_options(changes, explanation, batch=changes.batch, policy=None)
        with output.progress():
            report = explain_program(target, chosen, number, policy)
    else:
        programs.refuse_format(explanation.format)
        if target and (shipped := find_shipped(target)):
            target = str(shipped)
        encoding = explanation.encoding or "best"
        if target and target.endswith((".yaml", ".yml")):
            with output.progress() as progress:
                report = explain_spec(
                    Path(target),
                    overrides,
                    policy or ("auto" if encoding == "best" else "fsm"),
                    progress,
                    encoding=encoding,
                    granularity=programs.of_spec(explanation.granularity),
                    number=number,
                    dedup=explanation.dedup or "auto",
                )
        else:
            report = explain_run(options.run_of(target), number, policy)
    output.give(report, _print)


def _print(report: dict[str, Any]) -> None:
    say_random(report["random_weights"])
    growth, types = report["growth"], report["types"]
    by_rounds = growth and growth["bound_by_rounds"]
    rounds = f", and none that goes round by round than {by_rounds}" if by_rounds is not None else ""
    show(
        [
            (report["model"], "bold"),
            f", mini-batch {report['mini_batch']} of {report['mini_batches']}, policy {report['policy']}: ",
            (counted(report["batches"], "batch", "es"), "bold"),
            f" for {counted(report['nodes'], 'node')}; no schedule has fewer than {report['lower_bound']}"
            f"{rounds}\n",
        ],
        _types(report),
    )
    if types:
        longest = max(types, key=lambda t: t["lower_bound"])
        chain = f"{longest['lower_bound']} × {longest['type']}, in {_in(longest['longest_in'])}"
        show(f"\nThe longest chain: {chain}.")
    show("")
    if report["batches"] > report["lower_bound"]:
        _print_reasons(report)
        _print_tight(report)
    else:
        show("Every batch was needed: this is the lower bound.")
    _print_alone(report)
    if growth:
        _print_growth(growth)
    if memory := report["memory"]:
        _print_memory(memory)
    if time := report["time"]:
        _print_times(time)
    _print_advice(report)


def _types(report: dict[str, Any]) -> Any:  # noqa: ANN401 (a table)
    shown = report["types"]
    if len(shown) > TYPES:
        shown = sorted(shown, key=lambda t: -t["not_free"])[:TYPES]
    if rest := [t for t in report["types"] if t not in shown]:
        keys = ("nodes", "lower_bound", "batches", "not_free", "alone")
        sums = {key: sum(t[key] for t in rest) for key in keys}
        mean = sums["nodes"] / max(1, sums["batches"])
        shown = [*shown, {"type": f"{len(rest)} other types", "mean_rows": mean, **sums}]
    columns: Columns = {
        "type": "type",
        "nodes": "nodes:,",
        "lower bound": "lower_bound",
        "batches": "batches",
        "too many": lambda t: str(t["not_free"] or ""),
        "rows a batch": "mean_rows:.1f",
        "of one row": "alone",
    }
    return table(shown, columns)


def _print_reasons(report: dict[str, Any]) -> None:
    more, reasons = report["batches"] - report["lower_bound"], report["reasons"]
    show(
        [
            (f"{counted(more, 'batch', 'es')} too many", "bold"),
            ": each went ahead without nodes at the head of its type's longest chain, so that the type needs "
            "as many batches after it as before.",
        ]
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
        show(f"  {reason['batches']:>4} × {reason['type']} {why}")
        show(f"         batch {held['step']}: {said}", style="dim")
    rest = sum(reason["batches"] for reason in reasons[REASONS:])
    if rest:
        show(f"  {rest:>4} for {len(reasons) - REASONS} other reasons (--json)")
    last = (f"{i['instance']} (in {counted(i['batches'], 'batch', 'es')})" for i in report["instances"])
    show(f"The last late node belonged to instance {_few(last)}.")


def _print_tight(report: dict[str, Any]) -> None:
    least, groups = report["tight_bound"]["at_least"], report["tight_bound"]["groups"]
    if not groups:
        return
    optimal = least == report["batches"]
    said = "The schedule is optimal" if optimal else f"{least - report['lower_bound']} of them are needed"
    first = groups[0]
    others = f", and {counted(len(groups) - 1, 'other group')} more than theirs" if len(groups) > 1 else ""
    show(
        [
            (f"\n{said}", "bold"),
            f": no schedule has fewer than {counted(least, 'batch', 'es')}. Types wait for each other: "
            f"{_few(first['types'])} need {first['at_least']} batches together, their longest chains "
            f"{first['lower_bound']}{others}.",
        ]
    )


def _print_alone(report: dict[str, Any]) -> None:
    alone = report["alone"]
    if not alone:
        return
    ranked = sorted(Counter(node["instance"] for node in alone).items(), key=lambda item: (-item[1], item[0]))
    types = sorted((t for t in report["types"] if t["alone"]), key=lambda t: -t["alone"])
    by_type = _few((f"{t['type']} {t['alone']}" for t in types), "types")
    verb = "batch has" if len(alone) == 1 else "batches have"
    first = _few(f"{instance} ({times})" for instance, times in ranked)
    show([(f"\n{len(alone)} {verb} one row", "bold"), f": {by_type}; of instance {first}."])


def _print_growth(growth: dict[str, Any]) -> None:
    from abw.viz.drawing.chart import Chart, Line, chart_text

    rounds, growing, instances = growth["rounds"], growth["growing"], growth["instances"]
    half = next((r for r, count in enumerate(growing, 1) if 2 * count < instances), None)
    said = f", the last with work for {counted(growing[-1], 'instance')} of {instances}"
    said += f" ({_in(growth['longest'])})" if growing[-1] <= INSTANCES else ""
    said += f", from round {half} on for fewer than half of them" if half else ""
    show([(f"\nGrown in {counted(rounds, 'round')}", "bold"), f"{said}."])
    if rounds > 1 and len(set(growing)) > 1:
        line = Line("", tuple((float(r), float(count)) for r, count in enumerate(growing, 1)))
        show(chart_text(Chart("Still growing", "round", "instances", (line,)), rows=4))
    for cut in growth["cut"]:
        these = [at["instance"] for at in cut["instances"]]
        first, noun = (
            min(at["round"] for at in cut["instances"]),
            "instance" if len(these) == 1 else "instances",
        )
        show(
            f"{counted(len(these), 'instance')} reached `most: {cut['most']}` of {cut['kind']} and would "
            f"have grown more, from round {first} on: {noun} {_few(map(str, these))}."
        )
    if taken := growth["time"]:
        _print_time(taken, rounds)


def _print_time(taken: dict[str, Any], rounds: int) -> None:
    seconds, kernels = taken["seconds"], taken["kernels"]
    beside = max(0.0, seconds["execute"] - kernels)
    rest = ", ".join(f"{name} {duration(seconds[name])}" for name in ("construct", "schedule", "plan"))
    who = f"Python drives the rounds: {taken['driven']}" if taken["driven"] else "rounds are compiled"
    each = sum(seconds.values()) - kernels if taken["driven"] else beside
    show(
        f"Time on the executor cpu, one thread: kernels {duration(kernels)}, execution beside them "
        f"{duration(beside)}; {rest}. {who[0].upper()}{who[1:]}; at most {duration(each / rounds)} a round "
        "beside kernels."
    )


def _print_memory(memory: dict[str, Any]) -> None:
    owners = "; ".join(f"{each['owner']} {amount(each['owner_bytes'], 'B')}" for each in memory["owners"])
    types = sorted(memory["types"], key=lambda each: -each["type_bytes"])
    needed = _few((f"{each['type']} {amount(each['type_bytes'], 'B')}" for each in types), "types")
    show(
        [
            (f"\nValues take {amount(memory['rows_bytes'], 'B')}", "bold"),
            f"; most of them are needed in batch {memory['most_in']}: {amount(memory['most_bytes'], 'B')} "
            f"({needed}). {owners[0].upper()}{owners[1:]}.",
        ]
    )


def _print_times(time: dict[str, Any]) -> None:
    types, all = time["types"], sum(each["seconds"] for each in time["types"]) or 1.0
    shares = ", ".join(f"{each['type']} {each['seconds'] / all:.0%}" for each in types[:INSTANCES])
    longest = ", ".join(
        f"{each['step']} ({each['type']}, {duration(each['seconds'])})" for each in time["longest"]
    )
    show(
        [
            (f"\nExecuted in {duration(time['seconds'])}", "bold"),
            f" on {counted(time['threads'], 'thread')}: {shares}. The longest batches: {longest}.",
        ]
    )


def _print_advice(report: dict[str, Any]) -> None:
    better = {n: b for n, b in report["others"].items() if b < report["batches"]}
    ways = [f"{name}: {counted(batches, 'batch', 'es')}" for name, batches in better.items()]
    if report["hoisted"]:
        show(f"\nHoisted by itself, as equal rows share the products: {', '.join(report['hoisted'])}")
    for name, after in (report["passes"] or {}).items():
        ways.append(f"`abw compare --{name}`: lower bound {after['lower_bound']}")
    if report["decides"]:
        said = "\nThe graph came in pieces, with decisions between them"
        show(f"{said}; as a whole: {'; '.join(ways)}." if ways else f"{said}.")
    elif ways:
        show(f"\nFewer batches: {'; '.join(ways)}. `abw compare SPEC` tries more.")


def _node(node: dict[str, Any]) -> str:
    return f"{node['type']} {node['number']} of instance {node['instance']}"


def _in(instances: list[int]) -> str:
    word = "instance" if len(instances) == 1 else "instances"
    return f"{word} {', '.join(map(str, instances))}"


def _few(texts: Iterable[str], noun: str = "") -> str:
    return listed(texts, INSTANCES, noun)
