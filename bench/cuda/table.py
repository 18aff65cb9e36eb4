"""What `abw bench cuda` measured as a page of Markdown, beside latencies that others have published."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Published:
    """A TreeLSTM's latency, end to end for a mini-batch, on a card with a float32 peak of `tflops`."""

    system: str
    card: str
    tflops: float
    hidden: int
    batch: int
    milliseconds: float


# The cards of the tables below, with the TFLOP/s of their data sheets.
AMPERE, VOLTA = ("RTX 3070", 20.3), ("V100", 15.7)

# ACRoBat, tables 4 and 6; ED-Batch, table 3. The treebank is the same, the sentences need not be.
PUBLISHED = (
    Published("ACRoBat", *AMPERE, 256, 8, 1.48),
    Published("ACRoBat", *AMPERE, 256, 64, 5.81),
    Published("ACRoBat", *AMPERE, 512, 8, 2.40),
    Published("ACRoBat", *AMPERE, 512, 64, 11.44),
    Published("Cortex", *AMPERE, 256, 8, 0.79),
    Published("Cortex", *AMPERE, 256, 64, 3.62),
    Published("Cortex", *AMPERE, 512, 8, 1.84),
    Published("Cortex", *AMPERE, 512, 64, 10.23),
    Published("ED-Batch", *VOLTA, 256, 10, 2.78),
    Published("ED-Batch", *VOLTA, 256, 20, 3.52),
    Published("ED-Batch", *VOLTA, 512, 10, 4.70),
    Published("ED-Batch", *VOLTA, 512, 20, 4.82),
    Published("Cortex", *VOLTA, 256, 10, 2.24),
    Published("Cortex", *VOLTA, 256, 20, 3.46),
    Published("Cortex", *VOLTA, 512, 10, 8.50),
    Published("Cortex", *VOLTA, 512, 20, 19.21),
)


def beside_published(rows: Iterable[dict[str, Any]], flops: float) -> list[dict[str, Any]]:
    """Published latencies scaled to a GPU with a peak of `flops`, and how far ahead of them rows are."""
    ours = {(r["hidden"], r["batch"]): r["total_seconds"] for r in rows if r["workload"] == "TreeLSTM"}
    beside = []
    for p in PUBLISHED:
        if (p.hidden, p.batch) in ours:
            total = ours[p.hidden, p.batch]
            scaled = p.milliseconds / 1e3 * p.tflops * 1e12 / flops
            beside.append(
                {**asdict(p), "scaled_seconds": scaled, "total_seconds": total, "gain": scaled / total}
            )
    return beside


def markdown(report: dict[str, Any]) -> str:
    """The report of `bench_cuda`, whole or not yet, as a page: the machine, the tables, how everything was
    measured."""
    from abw.core.exec.cuda.measure.floor import Limits

    gpu = report["gpu"]
    head = (
        f"# The executor cuda on {gpu['name']}",
        "",
        f"{gpu['processors']} SMs, driver for CUDA {gpu['driver'] / 1000:.1f}. Measured before: "
        f"{Limits(**report['limits']).said()}. {report['torch']}. Medians of {report['runs']} runs.",
        "",
        *_checks(report["errors"]),
        *_failures(report["failures"]),
    )
    rows = sorted(report["rows"], key=lambda row: (row["workload"], row["hidden"], row["batch"]))
    tail = (
        "",
        *([f"There was no time for {report['left_out']} more rows.", ""] if report["left_out"] else []),
        "Times in ms. Device: by the GPU's clock, the plan in its memory, runs one right after the other (so "
        "is PyTorch). Outputs of all runs are those of the executor blas. With copies: by the wall clock, "
        "from the plan in the host's memory to the outputs there. Floor: the sum over the batches of the "
        "longer of arithmetic at the float32 units' peak and bytes at the bandwidth, and a barrier each; "
        "tensor cores can go below it. Float32 units: scheme batch without tensor cores, where these have "
        "most to do.",
        *_choices(report.get("choices")),
    )
    return "\n".join([*head, *_timings(rows), *tail, *_published(report["published"])]) + "\n"


def _checks(errors: dict[str, dict[str, float]]) -> list[str]:
    """What was checked before the timings."""
    checked = [(f"{name} by {by}", error) for name, found in errors.items() for by, error in found.items()]
    if not checked:
        return []
    where, worst = max(checked, key=lambda pair: pair[1])
    return [
        f"Right before the timings: every output of {len(errors)} workloads in {len(checked)} ways (scheme "
        f"batch, scheme plan); the largest error is {worst:.1e} of the output's root mean square ({where}, "
        "against the reference executor).",
        "",
    ]


def _choices(choices: dict[str, dict[str, Any]] | None) -> list[str]:
    """How the scheme that `abw run` takes is chosen."""
    if choices is None:
        return []
    before, now = choices["before"], choices["now"]
    return [
        "",
        f"By launches and barriers alone the slower scheme is chosen in {before['wrong']} of "
        f"{before['rows']} rows, and takes {before['loss']:.0%} longer in the worst; by the times fitted to "
        f"these rows, which are kept for later runs, in {now['wrong']}, {now['loss']:.0%}.",
    ]


def _failures(failures: Iterable[dict[str, str]]) -> list[str]:
    lines = [f"- **{f['what']}**: {' '.join(f['error'].split())}" for f in failures]
    return ["Failed:", "", *lines, ""] if lines else []


def _timings(rows: Iterable[dict[str, Any]]) -> list[str]:
    columns = ("workload", "scheme", "hidden", "batch", "nodes", "batches", "device", "other scheme")
    more = ("float32 units", "with copies", "floor", "device / floor", "PyTorch by level", "PyTorch / device")
    lines = _head((*columns, *more), 2)
    for r in rows:
        gain = f"{r['gain']:.1f}" if r["gain"] else ""
        others = (times["device_seconds"] for scheme, times in r["schemes"].items() if scheme != r["scheme"])
        plain = r["plain_seconds"]
        times = (r["device_seconds"], next(others, None), plain, r["total_seconds"], r["floor_seconds"])
        counts = (str(r[key]) for key in ("hidden", "batch", "nodes", "batches"))
        lines.append(
            _line(
                r["workload"], r["scheme"], *counts, *map(_ms, times), f"{r['of_floor']:.2f}",
                _ms(r["torch_seconds"]), gain,
            )
        )  # fmt: skip
    return lines


def _published(rows: Iterable[dict[str, Any]]) -> list[str]:
    columns = ("TreeLSTM of", "on", "hidden", "batch", "published", "scaled by peaks", "abw with copies")
    lines = [
        _line(
            p["system"], p["card"], str(p["hidden"]), str(p["batch"]), f"{p['milliseconds']:.2f}",
            _ms(p["scaled_seconds"]), _ms(p["total_seconds"]), f"{p['gain']:.1f} x",
        )
        for p in rows
    ]  # fmt: skip
    return ["", *_head((*columns, "ahead"), 2), *lines] if lines else []


def _head(columns: tuple[str, ...], words: int) -> list[str]:
    """The first two lines of a table whose first columns are words and whose others are numbers."""
    return [_line(*columns), _line(*["---"] * words, *["---:"] * (len(columns) - words))]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3f}"
