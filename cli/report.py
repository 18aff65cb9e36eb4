"""A run's report on one screen, with tables of where its time went, and what its process held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from abw.cli.console import amount, counted, duration, grid, show
from abw.core.base.errors import GLUE

if TYPE_CHECKING:
    from rich.console import Group

DONE = {"fuse": "reductions read in place", "group": "types grouped"}
REASONS = ("gather", "product", "elementwise")
# Types with a row of their own: those that take longest.
MOST = 12


def _equal(report: dict[str, Any]) -> str:
    """What to say of nodes that were left out because they equal others."""
    return f" and {report['equal_nodes']:,} equal to them" if report.get("equal_nodes") else ""


def print_run(report: dict[str, Any], *, on_stderr: bool = False) -> None:
    """Print a run's report on one screen."""
    put = partial(show, on_stderr=on_stderr)
    dims = ", ".join(f"{name} {size}" for name, size in report["dims"].items())
    precision = report.get("precision") or "float32"
    put([(report["model"], "bold"), f" ({dims}) on {report['data']}"])
    put(
        f"{counted(report['instances'], 'instance')} in "
        f"{counted(report['mini_batches'], 'mini-batch', 'es')} of {report['batch']}; "
        f"{counted(report['nodes'], 'node')}{_equal(report)} ({report['granularity']}); "
        f"executor {report['executor']}"
        + (f", weights in {precision}" if precision != "float32" else "")
        + (f", {counted(report['threads'], 'thread')}" if report["threads"] else "")
        + "".join(f"; {DONE[name]}" for name in report["passes"])
        + (f"; hoisted: {', '.join(report['hoisted'])}" if report.get("hoisted") else "")
    )
    if pieces := report.get("in_pieces"):
        put(f"{pieces} of them did not fit the device's memory at once, and ran in pieces")
    if used := report.get("weights"):
        count = ", ".join(f"{number} of {kind}" for kind, number in used["converted"].items())
        put(f"weights {used['path']}" + (f" ({count}, made float32)" if count else ""))
    elif report.get("mapped_weights"):
        put("weights are random: the spec has a map of weights but no file (--weights FILE)", style="yellow")
    put(f"{amount(report['instances_per_second'])} instances/s", style="bold")
    if auto := report.get("auto_batch"):
        put(_tried(report["batch"], auto))
    for line in _growing(report):
        put(line, style="yellow" if "cut" in line else None)
    for line in _skipped(report):
        put(line, style="yellow", whole=True)
    put("", _policies(report))
    if report["training"]:
        put(_training(report))
    put("")
    _print_costs(report, put)
    for key, what in (
        ("path", "\nresults"),
        ("output", "outputs"),
        ("trace", "trace"),
        ("grown", "grown instances"),
        ("report", "report"),
    ):
        if report.get(key) not in (None, "-"):
            put(f"{what}: {report[key]}", whole=True)


def _policies(report: dict[str, Any]) -> Any:  # noqa: ANN401 (a table)
    """Batches of the run's policy, of others, and the lower bound."""
    from abw.core.store.runs import policy_name

    kept = report.get("kept", report["mini_batches"])
    first = f" (first {kept} mini-batches)" if kept < report["mini_batches"] else ""
    table = grid("policy", f"batches{first}", "of the lower bound")
    bound = report.get("kept_lower_bound", report["lower_bound"])
    behind, own, grows = report.get("picked", report["encoding"]), policy_name(report), report.get("growth")
    named = f"{own} ({behind})" if behind else own
    others = dict(report["compared"])
    if grows:  # no run, which goes round by round, can schedule it like the finished graph
        mine, rounds = others.pop(own), report.get("kept_bound_by_rounds")
        if rounds is not None:
            table.add_row("lower bound, round by round", f"{rounds:,}", "")
        table.add_row(f"{named}, round by round", f"{mine:,}", _ratio(mine, rounds), style="bold")
    end = ", finished graph" if grows else ""
    table.add_row(f"lower bound{end}", f"{bound:,}", "")
    for name, batches in sorted(others.items(), key=lambda item: item[1]):
        shown, style = (named, "bold") if name == own else (f"{name}{end}", None)
        table.add_row(shown, f"{batches:,}", _ratio(batches, bound), style=style)
    return table


def _print_costs(report: dict[str, Any], put: partial[None]) -> None:
    """Print seconds, copies and memory, and what was verified."""
    from abw.core.exec.precision import ALLOWED
    from abw.core.run.checks import TOLERANCE

    seconds = report["seconds"]
    steps = ("read", "record" if "program" in report else "construct", "schedule", "plan", "execute")
    every = "   (of all threads)" if report.get("abreast") else ""
    put("   ".join(f"{step}{GLUE}{duration(seconds[step])}" for step in steps) + every)
    beside = [step for step in ("learn", "compile", "verify", "write", "wait") if seconds.get(step)]
    put(
        "   ".join(f"{step}{GLUE}{duration(seconds[step])}" for step in beside) + "   (not in instances/s)",
        style="dim",
    )
    avoided = report["memory_kernels_avoided"]
    read_in_place = (
        f" (the layout avoided {counted(avoided, 'kernel')}, {amount(report['bytes_avoided'], 'B')})"
        if avoided
        else ""
    )
    put(
        f"{counted(report['launches'], 'launch', 'es')}, "
        f"copied {amount(report['bytes_moved'], 'B')} in "
        f"{counted(report['memory_kernels'], 'kernel')}{read_in_place}; "
        f"peak memory {amount(report['peak_memory_bytes'], 'B')}"
    )
    if memory := report["memory"]:
        put(
            f"memory of the largest mini-batch {amount(memory['mini_batch_bytes'], 'B')}; of the process "
            f"{amount(memory['predicted_bytes'], 'B')} predicted, "
            f"{amount(memory['measured_bytes'], 'B')} measured"
        )
    if report["profile"] and report["mini_batches"]:
        put(profile_table(report["profile"]))
    if marks := report.get("resident"):
        put(resident_table(marks))
    if odd := report.get("not_finite"):
        put(
            f"{counted(odd, 'number')} of the outputs NaN or infinite; --check-finite says where the first "
            "came from",
            style="yellow",
        )
    if report["max_error"] is not None:
        precision: Any = report.get("precision")
        limit, allowed = "", ALLOWED.get(precision, TOLERANCE)
        if precision in ALLOWED:
            limit = f" (at most {allowed:.1e} in {precision})"
        if "program" not in report and report["max_error"] > allowed:
            limit = ", where numbers nearly cancel: no more than rounding to single precision explains"
        put(f"verified: largest error {report['max_error']:.1e} of the output's root mean square{limit}")
        decided = report.get("program") or report.get("growth")
        if decided and decided["decisions"]:
            close = decided["close"]
            otherwise = f"{close} of them differ within the tolerance" if close else "all the same"
            put(f"          {counted(decided['decisions'], 'decision')} repeated: {otherwise}")


def _ratio(batches: int, bound: int | None) -> str:
    return f"{batches / bound:.2f} x" if bound else ""


def _growing(report: dict[str, Any]) -> Iterator[str]:
    """Lines on rounds of decisions: a program's, or what grew and which instances were cut off."""
    if program := report.get("program"):
        yield f"program {program['name']}; {counted(program['rounds'], 'round')} of decisions"
    growth = report.get("growth")
    if not growth:
        return
    kinds = ", ".join(f"{amount(count)} of {kind}" for kind, count in growth["vertices"].items())
    rounds = counted(growth["rounds"], "round")
    if kinds:
        how = f"driven by Python: {growth['driven']}" if growth["driven"] else "compiled"
        yield f"grown vertices: {kinds}, in {rounds}, {how}"
    else:  # there is nothing to grow, or no mini-batch was left
        yield f"nothing grew: {rounds} of decisions alone" if growth["rounds"] else "nothing grew"
    instances = counted(report["instances"], "instance")
    for kind, cut in growth["cut"].items():
        yield f"{cut['instances']} of {instances} were cut at `most: {cut['most']}` of {kind}"


def _tried(taken: int, auto: dict[str, Any]) -> list[Any]:
    """Why the mini-batch has its size."""
    rates: list[Any] = []
    for t in auto["tried"]:
        large = " (too large)" if t["bytes"] > auto["memory"] else ""
        rate = f"{t['batch']}: {amount(t['instances_per_second'])}{large}"
        rates += [", " if rates else "", (rate, "bold" if t["batch"] == taken else "")]
    needs = next(t["bytes"] for t in auto["tried"] if t["batch"] == taken)
    room = f"; one takes {amount(needs, 'B')} of {amount(auto['memory'], 'B')}"
    return [f"mini-batch {taken} by cost; instances/s predicted for ", *rates, room]


def _skipped(report: dict[str, Any]) -> Iterator[str]:
    """Lines on the instances that were left out."""
    if skipped := report.get("skipped", 0):
        complaints = report["complaints"][:3]
        yield f"{counted(skipped, 'instance')} left out:"
        yield from (f"  {complaint}" for complaint in complaints)
        if skipped > len(complaints):
            yield f"  and {skipped - len(complaints)} more"


def _training(report: dict[str, Any]) -> list[Any]:
    """Say how the policy was learned, and whether these instances are its training data."""
    training = report["training"]
    how = "learned now" if training["fresh"] else "learned earlier"
    own, here = training["of_these_instances"], report["instances"]
    source = training.get("data")  # runs of earlier versions have none
    if report["data"] == "stdin":
        where = ("not from this pipe", "")
    elif own is None:
        where = (f"from another file, {source}", "")
    elif own == here:
        where = ("these are its training data", "yellow")
    elif own:
        where = (f"{own} of these {here} instances are its training data", "yellow")
    else:
        where = ("they come before these in the file" if source else "of other data", "")
    if training.get("tried") is not None:
        source = counted(training["instances"], "instance")
        head = f"policy {how} from {source}: {report['picked']}, of {training['tried']} tried; "
        return [head, where]
    unseen = f"; {report['unseen_states']} steps in unseen states" if report["unseen_states"] else ""
    return [
        f"policy {how} from {counted(training['instances'], 'instance')} in {training['trials']} trials: "
        f"{training['states']} states; ",
        where,
        unseen,
    ]


def profile_table(profile: dict[str, Any]) -> Group:
    """Tabulate time by type and cause, as shares of the whole time; totals and other causes stand below."""
    from rich.console import Group

    reasons = profile["reasons"]

    def share(seconds: float) -> str:
        return f"{seconds / profile['seconds']:.1%}"

    walker, waiting = (
        f"{duration(reasons[name])} ({share(reasons[name])})" for name in ("walker", "waiting")
    )
    said = (
        f"walker {walker}, waiting for other threads {waiting}; {share(profile['accounted_seconds'])} of the "
        f"time accounted for, {share(profile['held_up_seconds'])} held up by other processes; peak "
        f"{profile['peak_gflops']:.1f} GFLOP/s a core"
    )
    table = grid(
        "type", "batches", "rows", "ms", "gather", "product", "element-\nwise", "of\npeak",
        "products\nof peak", optional=["products\nof peak", "batches", "rows"],
    )  # fmt: skip

    def ms(seconds: float) -> str:
        return f"{seconds * 1e3:.3g}"

    def percent(part: float | None) -> str:
        return "" if part is None else f"{part:.0%}"

    types = sorted(profile["types"], key=lambda t: -float(t["seconds"]))
    for t in types[:MOST]:
        table.add_row(
            t["name"], amount(t["batches"]), amount(t["rows"]), ms(t["seconds"]),
            *(share(t[reason]) for reason in REASONS), percent(t["share_of_peak"]),
            percent(t["product_share_of_peak"]),
        )  # fmt: skip
    if rest := types[MOST:]:
        batches, rows, seconds = (sum(t[key] for t in rest) for key in ("batches", "rows", "seconds"))
        parts = (share(sum(t[reason] for t in rest)) for reason in REASONS)
        name = f"{len(rest)} more types"
        table.add_row(name, amount(batches), amount(rows), ms(seconds), *parts)
    total = (share(reasons[reason]) for reason in REASONS)
    table.add_row("all", "", "", ms(profile["seconds"]), *total, style="bold")
    return Group(table, said)


def resident_table(marks: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401 (a table)
    """What the process held at the marks of a run."""
    table, before = grid("the process, after", "at", "held", "more"), 0
    for name, seconds, held in chosen_marks(marks):
        more = ("+" if held > before else "") + amount(held - before, "B") if before else ""
        table.add_row(name, duration(seconds), amount(held, "B"), more)
        before = held
    return table


def chosen_marks(marks: Sequence[Mapping[str, Any]]) -> list[tuple[str, float, int]]:
    """Names, seconds and bytes of marks; of mini-batches only the first, the last, and the one with most."""
    batches = [mark for mark in marks if mark["mini_batch"] is not None]
    most = max(batches, key=lambda mark: mark["resident_bytes"], default=None)
    found = []
    for mark in marks:
        number = mark["mini_batch"]
        if number is None or mark in (batches[0], batches[-1], most):
            name = mark["name"] if number is None else f"{mark['name']} {number}"
            found.append((name, mark["seconds"], mark["resident_bytes"]))
    return found
