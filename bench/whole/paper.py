"""The figures and tables of the ED-Batch paper's evaluation, measured here, with its numbers beside."""

from __future__ import annotations

from typing import Annotated

from abw.bench.options import SPECS, DataDir, HiddenSizes, Runs, SpecsDir, Workloads, numeric, option
from abw.bench.rows import Row, Rows
from abw.bench.workloads import LARGEST_MV, Case, System, case, chosen_cases, model_of, steps_of
from abw.core.base.errors import AbwError, did_you_mean
from abw.core.run.options import PRESETS

SYSTEMS = tuple(PRESETS)
# Mini-batches of one instance that are timed together; fewer of larger ones, one of these and more.
WINDOW = 16
FIG6_BATCHES = [1, 8, 32, 64, 128, 256]

# Section 5.2: ED-Batch over Cavs DyNet on the CPU, throughput; means over sizes, for lattices the range.
GAINS = {
    "BiLSTM-Tagger": "1.20 x",
    "LSTM-NMT": "1.11 x",
    "TreeLSTM": "1.63 x",
    "TreeGRU": "1.46 x",
    "MV-RNN": "about 1 x",
    "LatticeLSTM": "1.32 to 2.97 x",
    "LatticeGRU": "1.32 to 2.97 x",
}

# Table 3: milliseconds of TreeLSTM on a V100, Cortex and ED-Batch, by mini-batch and size.
LATENCIES = {
    (10, 256): (2.244, 2.78),
    (10, 512): (8.500, 4.70),
    (20, 256): (3.460, 3.52),
    (20, 512): (19.210, 4.82),
}

# Table 6: TreeLSTM, size 512, mini-batch 256, inputs a second on 28 cores of a Xeon.
INPUTS = {"Torch": 39, "TensorFlow": 37, "DyNet": 671, "Cavs": 480, "ED-Batch": 1163}


def paper(
    data: DataDir,
    specs: SpecsDir = SPECS,
    only: Annotated[str | None, option("fig6, table3, table6.", "", "PART,...", "all")] = None,
    workloads: Workloads = None,
    hidden: HiddenSizes = [32, 64, 128, 256, 512],
    batches: Annotated[list[int], numeric("Mini-batches of fig6; repeatable.", "--batch")] = FIG6_BATCHES,
    runs: Runs = 3,
) -> Rows:
    """Repeat the ED-Batch paper's evaluation on one thread, next to its numbers.

    This takes more than ten minutes, mostly for fig6; --only and --workloads choose parts. Batches by policy
    and learning times (Fig. 7, Table 4) are in `abw bench policies`.
    """
    cases = chosen_cases(workloads)

    def seconds(chosen: Case, names: tuple[str, ...], size: int, batch: int) -> dict[str, float]:
        """Return the seconds of an instance by preset."""
        model = model_of(chosen, specs, data, size, batch, batch * max(1, WINDOW // batch))
        systems = {name: System(model, name) for name in names}
        steps = steps_of(systems, runs)
        return {name: sum(steps[name].values()) / system.instances for name, system in systems.items()}

    def fig6() -> Rows:
        """The highest throughput over mini-batches of several sizes."""
        for chosen, size in ((c, size) for c in cases for size in hidden):
            if chosen.name == "MV-RNN" and size > LARGEST_MV:
                continue
            every = [seconds(chosen, SYSTEMS, size, batch) for batch in batches]
            rates = {name: 1 / min(taken[name] for taken in every) for name in SYSTEMS}
            yield Row(
                "Fig. 6, instances a second",
                workload=chosen.name,
                hidden=size,
                **{f"{name}_per_second": rate for name, rate in rates.items()},
                ed_batch_over_cavs_times=rates["ed-batch"] / rates["cavs-dynet"],
                abw_over_cavs_times=rates["abw"] / rates["cavs-dynet"],
                the_paper=GAINS.get(chosen.name),
            )

    def table3() -> Rows:
        """Latencies."""
        for (batch, size), (cortex, ed_batch) in LATENCIES.items():
            taken = seconds(case("TreeLSTM"), ("ed-batch", "abw"), size, batch)
            yield Row(
                "Table 3, TreeLSTM: one core here, a V100 there",
                batch=batch,
                hidden=size,
                ed_batch_seconds=batch * taken["ed-batch"],
                abw_seconds=batch * taken["abw"],
                cortex_there_seconds=cortex / 1e3,
                ed_batch_there_seconds=ed_batch / 1e3,
            )

    def table6() -> Rows:
        """Throughput of TreeLSTM, size 512, mini-batch 256."""
        for name, taken in seconds(case("TreeLSTM"), SYSTEMS, 512, 256).items():
            yield Row("Table 6", system=f"{name}, one core here", inputs_per_second=1 / taken)
        for name, rate in INPUTS.items():
            yield Row("Table 6", system=f"{name}, 28 cores, the paper", inputs_per_second=float(rate))

    parts = {"fig6": fig6, "table3": table3, "table6": table6}
    for part in [part.strip() for part in only.split(",")] if only else parts:
        if part not in parts:
            raise AbwError(f"--only knows no {part!r}", hint=did_you_mean(part, list(parts)), exit_code=2)
        yield from parts[part]()
