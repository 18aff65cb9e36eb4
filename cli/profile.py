"""Tables of where the time of a run went, and what its process held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from abw.cli.console import amount, duration, grid

if TYPE_CHECKING:
    from rich.console import Group

REASONS = ("gather", "product", "elementwise")
# Types with a row of their own: those that take longest.
MOST = 12


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
