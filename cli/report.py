"""A run's report on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from abw.cli.console import amount, counted, duration, grid
from abw.cli.profile import profile_table, resident_table
from abw.core.base.errors import GLUE

if TYPE_CHECKING:
    from rich.text import Text


def print_run(report: dict[str, Any], *, on_stderr: bool = False) -> None:
    """A run's report on one screen."""
    from rich.text import Text

    from abw.core.base.console import Console
    from abw.core.exec.precision import ALLOWED
    from abw.core.run.streaming import TOLERANCE
    from abw.core.store.runs import policy_name

    console = Console(stderr=on_stderr)
    dims = ", ".join(f"{name} {size}" for name, size in report["dims"].items())
    console.print(Text.assemble((report["model"], "bold"), f" ({dims}) on {report['data']}"))
    threads = f", {counted(report['threads'], 'thread')}" if report["threads"] else ""
    mini_batches = counted(report["mini_batches"], "mini-batch", "es")
    done = {"fuse": "reductions read in place", "group": "types grouped"}
    passes = "".join(f"; {done[name]}" for name in report["passes"])
    precision = report.get("precision") or "float32"
    kept = "" if precision == "float32" else f", weights in {precision}"
    console.print(
        f"{counted(report['instances'], 'instance')} in {mini_batches} of {report['batch']}; "
        f"{counted(report['nodes'], 'node')} ({report['granularity']}); "
        f"executor {report['executor']}{kept}{threads}{passes}"
    )
    if pieces := report.get("in_pieces"):
        console.print(f"{pieces} of them did not fit the device's memory at once, and ran in pieces")
    if used := report.get("weights"):
        count = ", ".join(f"{number} of {kind}" for kind, number in used["converted"].items())
        console.print(f"weights {used['path']}" + (f" ({count}, made float32)" if count else ""))
    console.print(f"{amount(report['instances_per_second'])} instances/s", style="bold")
    if auto := report.get("auto_batch"):
        console.print(_tried(report["batch"], auto))
    for said in [*_programs(report), *_grown(report)]:
        console.print(said, style="yellow" if "cut" in said else None)
    for said in _skipped(report):
        console.print(said, style="yellow", soft_wrap=True)
    console.print()

    kept = report.get("kept", report["mini_batches"])
    first = f" (first {kept} mini-batches)" if kept < report["mini_batches"] else ""
    table = grid("policy", f"batches{first}", "of the lower bound")
    bound = report.get("kept_lower_bound", report["lower_bound"])
    behind, own, grows = report.get("picked", report["encoding"]), policy_name(report), report.get("growth")
    named = f"{own} ({behind})" if behind else own
    others = dict(report["compared"])
    if grows:  # the graph in the end can be scheduled as no run could, which meets it round by round
        mine, rounds = others.pop(own), report.get("kept_bound_by_rounds")
        if rounds is not None:
            table.add_row("lower bound, round by round", f"{rounds:,}", "")
        table.add_row(f"{named}, round by round", f"{mine:,}", _ratio(mine, rounds), style="bold")
    end = ", of the graph in the end" if grows else ""
    table.add_row(f"lower bound{end}", f"{bound:,}", "")
    for name, batches in sorted(others.items(), key=lambda item: item[1]):
        shown, style = (named, "bold") if name == own else (f"{name}{end}", None)
        table.add_row(shown, f"{batches:,}", _ratio(batches, bound), style=style)
    console.print(table)
    if report["training"]:
        console.print(_training(report))
    console.print()

    seconds = report["seconds"]
    steps = ("read", "record" if "program" in report else "construct", "schedule", "plan", "execute")
    every = "   (of all threads)" if report.get("abreast") else ""
    console.print("   ".join(f"{step}{GLUE}{duration(seconds[step])}" for step in steps) + every)
    beside = [step for step in ("learn", "compile", "verify", "write", "wait") if seconds.get(step)]
    console.print(
        "   ".join(f"{step}{GLUE}{duration(seconds[step])}" for step in beside) + "   (not in instances/s)",
        style="dim",
    )
    avoided = report["memory_kernels_avoided"]
    read_in_place = (
        f" (the layout avoided {counted(avoided, 'kernel')}, {amount(report['bytes_avoided'], 'B')})"
        if avoided
        else ""
    )
    console.print(
        f"{counted(report['launches'], 'launch', 'es')}, "
        f"copied {amount(report['bytes_moved'], 'B')} in "
        f"{counted(report['memory_kernels'], 'kernel')}{read_in_place}; "
        f"peak memory {amount(report['peak_memory_bytes'], 'B')}"
    )
    if memory := report["memory"]:
        console.print(
            f"memory of the largest mini-batch {amount(memory['mini_batch_bytes'], 'B')}; of the process "
            f"{amount(memory['predicted_bytes'], 'B')} predicted, "
            f"{amount(memory['measured_bytes'], 'B')} measured"
        )
    if report["profile"] and report["mini_batches"]:
        console.print(profile_table(report["profile"]))
    if marks := report.get("resident"):
        console.print(resident_table(marks))
    if odd := report.get("not_finite"):
        console.print(
            f"{counted(odd, 'number')} of the outputs NaN or infinite; --check-finite says where the first "
            "came from",
            style="yellow",
        )
    if report["max_error"] is not None:
        limit, allowed = "", TOLERANCE
        if precision in ALLOWED:
            allowed = ALLOWED[precision]
            limit = f" (at most {allowed:.1e} in {precision})"
        if "program" not in report and report["max_error"] > allowed:
            limit = ", where numbers nearly cancel: no more than rounding to single precision explains"
        console.print(
            f"verified: largest error {report['max_error']:.1e} of the output's root mean square{limit}"
        )
        decided = report.get("program") or report.get("growth")
        if decided and decided["decisions"]:
            close = decided["close"]
            otherwise = (
                f"{close} of them otherwise, as good within the tolerance" if close else "all the same"
            )
            console.print(f"          {counted(decided['decisions'], 'decision')} made again: {otherwise}")
    if "path" in report:
        console.print(f"\nresults: {report['path']}", soft_wrap=True)
    if report.get("output") not in (None, "-"):
        console.print(f"outputs: {report['output']}", soft_wrap=True)
    if report.get("trace"):
        console.print(f"trace: {report['trace']}", soft_wrap=True)
    if report.get("grown"):
        console.print(f"grown instances: {report['grown']}", soft_wrap=True)
    if "report" in report:
        console.print(f"report: {report['report']}", soft_wrap=True)


def _ratio(batches: int, bound: int | None) -> str:
    return f"{batches / bound:.2f} x" if bound else ""


def _programs(report: dict[str, Any]) -> list[str]:
    """Of a program its name and how often it waited."""
    program = report.get("program")
    return (
        [f"program {program['name']}; {counted(program['rounds'], 'round')} of decisions"] if program else []
    )


def _grown(report: dict[str, Any]) -> list[str]:
    """What grew, and what was cut off."""
    growth = report.get("growth")
    if not growth:
        return []
    kinds = ", ".join(f"{amount(count)} of {kind}" for kind, count in growth["vertices"].items())
    rounds = counted(growth["rounds"], "round")
    how = f"driven by Python: {growth['driven']}" if growth["driven"] else "compiled"
    if kinds:
        said = [f"grown vertices: {kinds}, in {rounds}, {how}"]
    else:  # there is nothing to grow, or no mini-batch was left
        said = [f"nothing grew: {rounds} of decisions alone" if growth["rounds"] else "nothing grew"]
    for kind, cut in growth["cut"].items():
        said.append(
            f"{cut['instances']} of {counted(report['instances'], 'instance')} were cut at most: "
            f"{cut['most']} of {kind}"
        )
    return said


def _tried(taken: int, auto: dict[str, Any]) -> Text:
    """Why the mini-batch is of that size."""
    from rich.text import Text

    rates = Text(", ").join(
        Text(
            f"{t['batch']}: {amount(t['instances_per_second'])}"
            f"{' (too large)' if t['bytes'] > auto['memory'] else ''}",
            "bold" if t["batch"] == taken else "",
        )
        for t in auto["tried"]
    )
    needs = next(t["bytes"] for t in auto["tried"] if t["batch"] == taken)
    room = f"; one takes {amount(needs, 'B')} of {amount(auto['memory'], 'B')}"
    return Text.assemble(f"mini-batch {taken} by cost; instances/s predicted for ", rates, room)


def _skipped(report: dict[str, Any]) -> list[str]:
    """What was left out, a line each."""
    skipped = report.get("skipped", 0)
    if not skipped:
        return []
    told = report["complaints"][:3]
    more = [f"  and {skipped - len(told)} more"] if skipped > len(told) else []
    return [f"{counted(skipped, 'instance')} left out:", *(f"  {said}" for said in told), *more]


def _training(report: dict[str, Any]) -> Text:
    from rich.text import Text

    training = report["training"]
    how = "learned now" if training["fresh"] else "learned earlier"
    own, here = training["of_these_instances"], report["instances"]
    source = training.get("data")  # runs of earlier versions have none
    if report["data"] == "stdin":
        where = ("not from a pipe", "")
    elif own is None:
        where = (f"from another file, {source}", "")
    elif own == here:
        where = ("this is its training data", "yellow")
    elif own:
        where = (f"{own} of these {here} instances are its training data", "yellow")
    else:
        where = ("they come before these in the file" if source else "of other data", "")
    if training.get("tried") is not None:
        source = counted(training["instances"], "instance")
        head = f"policy {how} from {source}: {report['picked']}, of {training['tried']} tried; "
        return Text.assemble(head, where)
    unseen = f"; {report['unseen_states']} steps in unseen states" if report["unseen_states"] else ""
    return Text.assemble(
        f"policy {how} from {counted(training['instances'], 'instance')} in {training['trials']} trials: "
        f"{training['states']} states; ",
        where,
        unseen,
    )
